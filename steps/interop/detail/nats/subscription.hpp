// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <nats/nats.h>

#include <cstdint>  // for uint64_t
#include <memory>   // for shared_ptr, unique_ptr, weak_ptr, enable_shared_from_this, make_unique
#include <mutex>    // for mutex, lock_guard
#include <string>   // for string
#include <utility>  // for exchange, move

#include "async/detail/base/config.hpp"           // for ASYNCSTEPS_SHARED
#include "steps/interop/detail/nats/message.hpp"  // for message
#include "steps/interop/detail/nats/polling.hpp"  // for polling
#include "steps/interop/detail/nats/waker.hpp"    // for waker

namespace steps::inline v0_1::interop::nats::detail {

/// Interest in a subject, for as long as a bridge has it, over all of its connections. In each connection a thread of
/// the client calls arrived(), one message at a time. While few messages arrive, that thread polls the socket as well.
class subscription : public std::enable_shared_from_this<subscription> {
 public:
  /// `group`: empty, or the queue group whose members share the messages.
  /// `backlog`: the messages that may wait for arrived(), further ones are dropped; -1: any number.
  subscription(std::string subject, std::string group, int backlog)
      : subject_(std::move(subject)), group_(std::move(group)), backlog_(backlog) {}
  subscription(const subscription&) = delete;
  subscription& operator=(const subscription&) = delete;

  /// By a thread of the client, which may block after will_block(). An exception drops the message.
  virtual void arrived(message m) = 0;
  /// By the same thread, after arrived(): there is little to do, and the next arrived() calls will_block() before it
  /// blocks or runs foreign code.
  virtual bool may_poll() { return false; }
  /// By the bridge's thread: there is a connection, and interest in it. Then lost(), and so on.
  virtual void connected() {}
  virtual void lost() {}
  /// Called once, by any thread: the bridge does not have it any more, and no message arrives.
  virtual void ended() {}

  const std::string& subject() const noexcept { return subject_; }

 protected:
  virtual ~subscription() = default;
  /// In arrived(): another thread polls from here on.
  static void will_block() noexcept { delivering->stop_polling(); }

 private:
  friend class bridge;
  /// The part of one connection, held by the client until it has handed over the last message.
  struct client_part {
    client_part(std::shared_ptr<subscription> s, std::shared_ptr<waker> w, std::weak_ptr<polling> p) noexcept
        : self(std::move(s)), wakes(std::move(w)), socket(std::move(p)) {}

    // By the client's thread.
    /// Polls until there is another message on `from`, if that is for this thread to do.
    void poll(natsSubscription* from) {
      if (!self->may_poll()) {
        calm = 0;
        return stop_polling();
      }
      if (turns == nullptr) {
        if (++calm < calm_enough) return;
        turns = socket.lock();
        if (turns == nullptr || !turns->begin_turns()) return turns.reset();
      }
      const std::uint64_t rivals = turns->rivals();
      while (is_empty(from)) {
        if (!turns->have_turn() || self->is_removed() || turns->rivals() - rivals >= calm_enough) {
          calm = 0;
          return stop_polling();
        }
      }
    }
    void stop_polling() noexcept {
      if (const auto last = std::move(turns)) last->end_turns();
    }
    static bool is_empty(natsSubscription* from) noexcept {
      int messages = 0;
      return natsSubscription_GetPending(from, &messages, nullptr) == NATS_OK && messages == 0;
    }

    static constexpr unsigned calm_enough = 32;  // messages
    const std::shared_ptr<subscription> self;
    const std::shared_ptr<waker> wakes;
    const std::weak_ptr<polling> socket;
    std::shared_ptr<polling> turns{};  // the thread has them
    unsigned calm = 0;                 // messages in a row after which it might have polled
  };
  /// What the thread hands messages over for.
  ASYNCSTEPS_SHARED static inline constinit thread_local client_part* delivering = nullptr;

  // By the bridge's thread.
  natsStatus begin(natsConnection* on, const std::shared_ptr<waker>& wakes, const std::weak_ptr<polling>& socket) {
    auto part = std::make_unique<client_part>(shared_from_this(), wakes, socket);
    {
      const std::lock_guard here(lock_);
      if (is_removed_) return NATS_INVALID_SUBSCRIPTION;
      ++running_;
    }
    const char* const s = subject_.c_str();
    auto* const by_client = part.release();
    natsStatus status = group_.empty()
                            ? natsConnection_Subscribe(&handle_, on, s, &on_message, by_client)
                            : natsConnection_QueueSubscribe(&handle_, on, s, group_.c_str(), &on_message, by_client);
    if (status == NATS_OK) {
      natsSubscription_SetPendingLimits(handle_, backlog_, -1);
      status = natsSubscription_SetOnCompleteCB(handle_, &on_complete, by_client);
    }
    if (status != NATS_OK) on_complete(by_client);  // the connection is gone already: no message has arrived
    return status;
  }
  natsStatus drain() { return handle_ == nullptr ? NATS_OK : natsSubscription_Drain(handle_); }
  /// Its connection is gone, or it has been drained.
  void end() { natsSubscription_Destroy(std::exchange(handle_, nullptr)); }
  bool is_over() {
    const std::lock_guard here(lock_);
    return is_removed_ && running_ == 0;
  }
  bool is_removed() {
    const std::lock_guard here(lock_);
    return is_removed_;
  }
  /// There will be no other begin().
  void remove() {
    change([this] { is_removed_ = true; });
  }

  template <class F>
  void change(F f) {
    bool has_ended = false;
    {
      const std::lock_guard here(lock_);
      f();
      has_ended = is_removed_ && running_ == 0 && !is_told_;
      is_told_ = is_told_ || has_ended;
    }
    if (has_ended) ended();
  }

  static void on_message(natsConnection*, natsSubscription* from, natsMsg* m, void* closure) noexcept {
    delivering = static_cast<client_part*>(closure);
    try {
      delivering->self->arrived(message(m));
    } catch (...) {  // for lack of memory: the message is lost, as on the way
    }
    delivering->poll(from);
  }
  static void on_complete(void* closure) noexcept {
    const std::unique_ptr<client_part> last(static_cast<client_part*>(closure));
    last->stop_polling();
    subscription& self = *last->self;
    self.change([&self] { --self.running_; });
    last->wakes->wake();
  }

  const std::string subject_;
  const std::string group_;
  const int backlog_;
  natsSubscription* handle_ = nullptr;  // the bridge's thread's
  std::mutex lock_;                     // guards the rest
  unsigned running_ = 0;                // threads of the client
  bool is_removed_ = false;
  bool is_told_ = false;
};

}  // namespace steps::inline v0_1::interop::nats::detail
