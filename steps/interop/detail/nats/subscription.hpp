// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <nats/nats.h>

#include <memory>   // for shared_ptr, unique_ptr, enable_shared_from_this
#include <mutex>    // for mutex, lock_guard
#include <string>   // for string
#include <utility>  // for exchange, move

#include "steps/interop/detail/nats/message.hpp"  // for message
#include "steps/interop/detail/nats/waker.hpp"    // for waker

namespace steps::inline v0_1::interop::nats::detail {

/// Interest in a subject, for as long as a bridge has it, over all of its connections. In each connection a thread of
/// the client calls arrived(), one message at a time.
class subscription : public std::enable_shared_from_this<subscription> {
 public:
  /// `group`: empty, or the queue group whose members share the messages.
  /// `backlog`: the messages that may wait for arrived(), further ones are dropped; -1: any number.
  subscription(std::string subject, std::string group, int backlog)
      : subject_(std::move(subject)), group_(std::move(group)), backlog_(backlog) {}
  subscription(const subscription&) = delete;
  subscription& operator=(const subscription&) = delete;

  /// By a thread of the client, which may block. An exception drops the message.
  virtual void arrived(message m) = 0;
  /// By the bridge's thread: there is a connection, and interest in it. Then lost(), and so on.
  virtual void connected() {}
  virtual void lost() {}
  /// Called once, by any thread: the bridge does not have it any more, and no message arrives.
  virtual void ended() {}

  const std::string& subject() const noexcept { return subject_; }

 protected:
  virtual ~subscription() = default;

 private:
  friend class bridge;
  /// Held by the client until it has handed over the last message.
  struct client_part {
    std::shared_ptr<subscription> self;
    std::shared_ptr<waker> wakes;
  };

  // By the bridge's thread.
  natsStatus begin(natsConnection* on, const std::shared_ptr<waker>& wakes) {
    {
      const std::lock_guard here(lock_);
      if (is_removed_) return NATS_INVALID_SUBSCRIPTION;
      ++running_;
    }
    const char* const s = subject_.c_str();
    natsStatus status = group_.empty()
                            ? natsConnection_Subscribe(&handle_, on, s, &on_message, this)
                            : natsConnection_QueueSubscribe(&handle_, on, s, group_.c_str(), &on_message, this);
    auto* const by_client = new client_part{shared_from_this(), wakes};
    if (status == NATS_OK) {
      natsSubscription_SetPendingLimits(handle_, backlog_, -1);
      status = natsSubscription_SetOnCompleteCB(handle_, &on_complete, by_client);
    }
    if (status != NATS_OK) on_complete(by_client);  // the connection is gone already: no message has arrived
    return status;
  }
  void drain() {
    if (handle_ != nullptr) natsSubscription_Drain(handle_);
  }
  /// Its connection is gone, or it has been drained.
  void end() { natsSubscription_Destroy(std::exchange(handle_, nullptr)); }
  bool is_over() {
    const std::lock_guard here(lock_);
    return is_removed_ && running_ == 0;
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

  static void on_message(natsConnection*, natsSubscription*, natsMsg* m, void* closure) noexcept {
    try {
      static_cast<subscription*>(closure)->arrived(message(m));
    } catch (...) {  // for lack of memory: the message is lost, as on the way
    }
  }
  static void on_complete(void* closure) noexcept {
    const std::unique_ptr<client_part> last(static_cast<client_part*>(closure));
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
