// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <condition_variable>  // for condition_variable
#include <future>              // for future
#include <memory>              // for unique_ptr, make_unique
#include <mutex>               // for mutex, lock_guard, unique_lock
#include <thread>              // for thread
#include <utility>             // for exchange, move

#include "async/detail/base/config.hpp"          // for ASYNCSTEPS_FUNCTION, ASYNCSTEPS_SHARED
#include "async/detail/base/forks.hpp"           // for process_object
#include "async/detail/call/call_result.hpp"     // for make_state, promised_result
#include "async/detail/call/call_state.hpp"      // for is_ready
#include "async/detail/call/result_state.hpp"    // for result
#include "async/detail/future/future_watch.hpp"  // for look_interval
#include "async/detail/future/result_word.hpp"   // for run_all

/// Makes a result of this library of a std::future.
namespace async::inline v0_1::detail {

/// A std::future that is waited for. Owned by the list of foreign_futures.
struct foreign_wait {
  foreign_wait() = default;
  foreign_wait(const foreign_wait&) = delete;
  foreign_wait& operator=(const foreign_wait&) = delete;
  virtual ~foreign_wait() = default;
  /// True: it was ready, and has been passed on.
  virtual bool look() noexcept = 0;

  foreign_wait* next = nullptr;
};

/// The std::futures of the process that are waited for. A std::future cannot tell when it is ready, so a thread looks
/// at them: at once, after 50 us, then at growing intervals of at most 10 ms. The thread ends when there are none left.
/// A child of fork() has none of them.
class foreign_futures {
 public:
  static foreign_futures& instance();

  /// Takes `one`, made by `new`. Throws std::system_error if the thread cannot start; `one` is the caller's then.
  void add(foreign_wait& one);

 private:
  void run();
  static foreign_wait& take(foreign_wait*& list) noexcept {
    foreign_wait& first = *list;
    list = first.next;
    return first;
  }
  static void put(foreign_wait*& list, foreign_wait& one) noexcept { one.next = std::exchange(list, &one); }

  std::mutex mutex_;
  std::condition_variable changed_;
  foreign_wait* fresh_ = nullptr;  // these are guarded by the mutex
  bool is_running_ = false;
};

ASYNCSTEPS_SHARED inline constinit process_object<foreign_futures> all_foreign_futures;
inline foreign_futures& foreign_futures::instance() { return all_foreign_futures.get(); }

#if ASYNCSTEPS_DEFINED
ASYNCSTEPS_FUNCTION void foreign_futures::add(foreign_wait& one) {
  const std::lock_guard lock(mutex_);
  if (!is_running_) {
    std::thread([this] { run(); }).detach();
    is_running_ = true;
  }
  put(fresh_, one);
  changed_.notify_one();
}

ASYNCSTEPS_FUNCTION void foreign_futures::run() {
  foreign_wait* waiting = nullptr;
  look_interval interval;
  for (std::unique_lock lock(mutex_);;) {
    if (fresh_ != nullptr) interval = {};
    while (fresh_ != nullptr) put(waiting, take(fresh_));
    if (waiting == nullptr) {
      is_running_ = false;
      return;
    }
    lock.unlock();
    for (foreign_wait* all = std::exchange(waiting, nullptr); all != nullptr;) {
      foreign_wait& one = take(all);
      if (one.look()) {
        delete &one;
      } else {
        put(waiting, one);
      }
    }
    lock.lock();
    if (waiting != nullptr && fresh_ == nullptr) changed_.wait_for(lock, interval.next());
  }
}
#endif

template <class T>
struct foreign_future final : foreign_wait {
  explicit foreign_future(std::future<T>&& f) : state(make_state<promised_result<T>>()), from(std::move(f)) {}
  ~foreign_future() override { state->release(); }

  bool look() noexcept override {
    if (!detail::is_ready(from)) return false;
    pass_on();
    return true;
  }
  void pass_on() noexcept {
    state->word.take();
    state->keep([this]() -> decltype(auto) { return from.get(); });
    run_all(state->publish());
  }

  promised_result<T>* const state;
  std::future<T> from;
};

/// The result of a future with a state, with a reference for the caller. A deferred call is made at once. Throws
/// std::bad_alloc and std::system_error; the future is as before then.
template <class T>
result<T>* from_std_future(std::future<T>& f) {
  auto wait = std::make_unique<foreign_future<T>>(std::move(f));
  result<T>* const state = wait->state;
  if (wait->look()) return state;
  struct undo {
    std::unique_ptr<foreign_future<T>>& wait;
    std::future<T>& f;
    ~undo() {
      if (wait == nullptr) return;
      f = std::move(wait->from);
      wait->state->release();  // the caller's
    }
  } const at_end{wait, f};
  foreign_futures::instance().add(*wait);
  static_cast<void>(wait.release());
  return state;
}

}  // namespace async::inline v0_1::detail
