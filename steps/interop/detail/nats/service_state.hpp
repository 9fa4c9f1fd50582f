// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>           // for clamp, max
#include <climits>             // for INT_MAX
#include <condition_variable>  // for condition_variable
#include <cstddef>             // for size_t
#include <exception>           // for exception
#include <functional>          // for invoke
#include <memory>              // for shared_ptr, make_shared
#include <mutex>               // for mutex, unique_lock, lock_guard
#include <string>              // for string
#include <string_view>         // for string_view
#include <type_traits>         // for is_invocable_v, is_void_v, invoke_result_t
#include <utility>             // for exchange, forward, move

#include "async/errors.hpp"                            // for queue_full
#include "async/event.hpp"                             // for event
#include "async/threadpool.hpp"                        // for threadpool
#include "steps/errors.hpp"                            // for Error, ErrorCode, errors
#include "steps/interop/detail/nats/bridge.hpp"        // for bridge
#include "steps/interop/detail/nats/message.hpp"       // for message, parcel, error_code_of
#include "steps/interop/detail/nats/subscription.hpp"  // for subscription
#include "steps/interop/nats_options.hpp"              // for serve_options
#include "steps/spawn.hpp"                             // for post

namespace steps::inline v0_1::interop::nats::detail {

/// The service that serve() has begun: a subscription whose messages become flows, or tasks, of a pool.
class service_state : public subscription {
 public:
  service_state(std::shared_ptr<bridge> b, std::string subject, std::string group, const serve_options& o)
      : subscription(std::move(subject), std::move(group),
                     static_cast<int>(std::clamp<std::size_t>(o.backlog, 1, INT_MAX))),
        bridge_(std::move(b)),
        limit_(std::max<std::size_t>(o.limit, 1)) {}

  void stop() { bridge_->remove(shared_from_this()); }
  bool is_left_behind() const noexcept { return bridge_->is_left_behind(); }
  async::event& stopped() noexcept { return stopped_; }

  /// A request that is under way, until nobody has it. It gets one answer.
  class request {
   public:
    request(std::shared_ptr<service_state> s, const message& m)
        : data(m.data()), service_(std::move(s)), reply_(m.reply()) {}
    request(const request&) = delete;
    request& operator=(const request&) = delete;
    ~request() {
      if (!reply_.empty()) fail("Stopped", "the handler has not ended");
      service_->leave();
    }
    void answer(std::string text) {
      send({.subject = std::exchange(reply_, {}), .data = std::move(text), .is_answer = true});
    }
    void fail(std::string_view code, std::string_view info) noexcept try {
      send({.subject = std::exchange(reply_, {}),
            .error_code = error_code_of(code),
            .error_info = std::string(info),
            .is_answer = true});
    } catch (const std::exception&) {  // no memory, no answer: the caller's time limit expires
    }
    void fail(const Error& error) noexcept try {
      fail(error.what(), error.error_info());
    } catch (const std::exception&) {  // no memory for the info
      fail(error.what(), {});
    }

    std::string data;

   private:
    void send(parcel p) {
      if (!p.subject.empty()) service_->bridge_->send(std::move(p), service_->has_few());
    }

    const std::shared_ptr<service_state> service_;
    std::string reply_;  // empty: there is an answer, or none is wanted
  };

 protected:
  using held = std::shared_ptr<request>;
  /// Hands a request to the pool; may block for room.
  virtual void begin(held r) = 0;

  /// What few of its requests need is to be done at once.
  bool has_few() {
    const std::lock_guard here(lock_);
    return under_way_ <= bridge::few;
  }

 private:
  void arrived(message m) override {
    {
      std::unique_lock here(lock_);
      if (under_way_ >= limit_) {
        here.unlock();
        will_block();
        here.lock();
      }
      room_.wait(here, [this] { return under_way_ < limit_; });
      ++under_way_;
    }
    held r;
    try {
      r = std::make_shared<request>(std::static_pointer_cast<service_state>(shared_from_this()), m);
    } catch (...) {
      leave();
      throw;
    }
    try {
      begin(r);
    } catch (const async::queue_full& error) {
      r->fail(steps::errors::QueueFull.c_str(), error.what());
    } catch (const std::exception& error) {  // the pool has been stopped
      r->fail(steps::errors::Stopped.c_str(), error.what());
    }
  }
  void ended() override {
    bool is_last = false;
    {
      const std::lock_guard here(lock_);
      has_ended_ = true;
      is_last = under_way_ == 0;
    }
    if (is_last) stopped_.set();
  }
  void leave() noexcept {
    bool is_last = false;
    {
      const std::lock_guard here(lock_);
      is_last = --under_way_ == 0 && has_ended_;
    }
    room_.notify_one();
    if (is_last) stopped_.set();
  }

  const std::shared_ptr<bridge> bridge_;
  const std::size_t limit_;
  async::event stopped_;
  std::mutex lock_;  // guards the rest
  std::condition_variable room_;
  std::size_t under_way_ = 0;
  bool has_ended_ = false;
};

/// F: f(IAsyncSteps&, std::string) begins a flow, whose result is a std::string; f(std::string) is a task.
template <class F>
class service_of final : public service_state {
 public:
  template <class G>
  service_of(std::shared_ptr<bridge> b, std::string subject, std::string group, async::threadpool& p, G&& f,
             const serve_options& o)
      : service_state(std::move(b), std::move(subject), std::move(group), o), pool_(p), function_(std::forward<G>(f)) {}

 private:
  void begin(held r) override {
    if constexpr (std::is_invocable_v<F&, IAsyncSteps&, std::string>) {
      static_cast<void>(steps::post(pool_, [this, r](IAsyncSteps& asi) {  // r holds this
        asi.add(
            [this, r](IAsyncSteps& whole) {
              whole.add([this, r](IAsyncSteps& run) { std::invoke(function_, run, std::move(r->data)); });
              whole.add([r](IAsyncSteps&, std::string answer) { r->answer(std::move(answer)); });
            },
            [r](IAsyncSteps& failed, ErrorCode code) { r->fail(code.c_str(), failed.state().error_info()); });
      }));
    } else {
      pool_.execute([this, r] { call(*r); });
    }
  }
  void call(request& r) noexcept try {
    if constexpr (std::is_void_v<std::invoke_result_t<F&, std::string>>) {
      std::invoke(function_, std::move(r.data));
      r.answer({});
    } else {
      r.answer(std::invoke(function_, std::move(r.data)));
    }
  } catch (const Error& error) {
    r.fail(error);
  } catch (const std::exception& error) {  // its text is the code, as in flows
    r.fail(error.what(), {});
  } catch (...) {
    r.fail(steps::errors::InternalError.c_str(), "an exception that is no std::exception");
  }

  bool may_poll() override { return !pool_.core().is_bounded() && has_few(); }

  async::threadpool& pool_;
  F function_;
};

}  // namespace steps::inline v0_1::interop::nats::detail
