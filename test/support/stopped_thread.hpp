// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <atomic>   // for atomic
#include <thread>   // for thread
#include <utility>  // for move

#include "support/wait_while.hpp"  // for wait_while

namespace testing {

/// A thread that stops in the middle of what it does: made, it runs `call` until that reaches stop_here(place) for the
/// first time; release() lets it go on and waits for its end. Code under test calls stop_here() from its hooks.
class stopped_thread {
 public:
  template <class Call>
  stopped_thread(int place, Call call)
      : thread_([this, place, call = std::move(call)]() mutable {
          current = this;
          place_ = place;
          call();
          current = nullptr;
          state_.store(ended);
        }) {
    wait_while<int>(state_, running);
  }
  stopped_thread(const stopped_thread&) = delete;
  stopped_thread& operator=(const stopped_thread&) = delete;
  ~stopped_thread() { release(); }

  /// False: it has ended without reaching the place.
  bool is_stopped() const noexcept { return state_.load() == stopped; }

  void release() {
    if (!thread_.joinable()) return;
    if (is_stopped()) {
      state_.store(released);
    }
    thread_.join();
  }

  static void stop_here(int place) noexcept {
    stopped_thread* const self = current;
    if (self == nullptr || self->place_ != place) return;
    self->place_ = -1;
    self->state_.store(stopped);
    wait_while<int>(self->state_, stopped);
  }

 private:
  enum state { running, stopped, released, ended };
  static inline thread_local stopped_thread* current = nullptr;

  std::atomic<int> state_{running};
  int place_ = -1;
  std::thread thread_;
};

}  // namespace testing
