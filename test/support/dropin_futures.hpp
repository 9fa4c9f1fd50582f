// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <doctest/doctest.h>

#include <atomic>     // for atomic
#include <chrono>     // for steady_clock, milliseconds
#include <cstddef>    // for size_t
#include <future>     // for async, future, future_status, launch, promise
#include <memory>     // for make_shared
#include <stdexcept>  // for logic_error
#include <thread>     // for thread, yield
#include <utility>    // for forward

#include "async/async.hpp"    // for async, threadpool
#include "support/scale.hpp"  // for sanitized

/// Shared by tests that make the same checks of the futures of std::async, of async::async and of threadpool::post().
namespace dropin {

/// std::async, which the others are compared with.
struct with_std {
  /// Calls that wait for each other: each has a thread.
  static constexpr int depth = 200;

  /// So many calls run at the same time for certain.
  static std::size_t at_once() { return 64; }

  /// Timed waits never say "deferred" of calls that are not.
  static constexpr bool tells_truth = true;

  /// There are policies, and futures wait in their destructors.
  static constexpr bool is_like_std_async = true;
  template <class T>
  using future = std::future<T>;
  template <class T>
  using shared_future = std::shared_future<T>;

  template <class... Call>
  static auto async(Call&&... call) {
    return std::async(std::launch::async, std::forward<Call>(call)...);
  }
  template <class... Call>
  static auto async(std::launch policy, Call&&... call) {
    return std::async(policy, std::forward<Call>(call)...);
  }
};

/// async::async without a policy.
struct with_async {
#if defined(_WIN32)
  static constexpr int depth = 1'000;  // stacks are smaller there
#else
  static constexpr int depth = testing::sanitized ? 1'000 : 10'000;  // frames are larger with a sanitizer
#endif

  static std::size_t at_once() { return async::threadpool::shared().size(); }

  static constexpr bool tells_truth = ASYNCSTEPS_CALL_STATE == 1;  // see async.hpp for the others

  static constexpr bool is_like_std_async = true;
  template <class T>
  using future = std::future<T>;
  template <class T>
  using shared_future = std::shared_future<T>;

  template <class... Call>
  static auto async(Call&&... call) {
    return async::async(std::forward<Call>(call)...);
  }
  template <class... Call>
  static auto async(std::launch policy, Call&&... call) {
    return async::async(policy, std::forward<Call>(call)...);
  }
};

/// threadpool::post(), whose async::future has the interface of std::future, but no policies, and does not wait in its
/// destructor.
struct with_post {
  static std::size_t at_once() { return async::threadpool::shared().size(); }

  static constexpr bool tells_truth = true;

  static constexpr bool is_like_std_async = false;
  template <class T>
  using future = async::future<T>;
  template <class T>
  using shared_future = async::shared_future<T>;

  template <class... Call>
  static auto async(Call&&... call) {
    return async::threadpool::shared().post(std::forward<Call>(call)...);
  }
};

template <class use, class T>
using future_of = typename use::template future<T>;
template <class use, class T>
using shared_future_of = typename use::template shared_future<T>;

/// Ends a test case of timed waits for those whose timed waits differ from the standard's.
#define DROPIN_NEEDS_TIMED_WAITS() \
  if constexpr (!use::tells_truth) return

/// A test case for each of them, which its text knows as `use`; for async::async alone where CMake says so, because
/// std::async is the same as in another build.
///
/// DROPIN_FUTURE_CASE: for threadpool::post() as well. These are left out:
/// - "[futures.async]/3", "/3.1: ... as if in a new thread", "/3.2", "[futures.state]/5: ... a deferred function",
/// "calls
///   that are not deferred", "a deferred call": post() takes no policy.
/// - all of "futures that are left behind", "[futures.async]/5: ... the last function that releases",
///   "[futures.unique_future]/8-10", "calls wait for calls ... with destructors": an async::future does not wait when
///   it is destroyed or assigned over.
/// - "destructors of static objects": calls of async::async do not need the shared pool, which has gone there.
#if defined(DROPIN_WITHOUT_STD)
#define DROPIN_CASE(name) TEST_CASE_TEMPLATE(name, use, dropin::with_async)
#define DROPIN_FUTURE_CASE(name) TEST_CASE_TEMPLATE(name, use, dropin::with_async, dropin::with_post)
#else
#define DROPIN_CASE(name) TEST_CASE_TEMPLATE(name, use, dropin::with_std, dropin::with_async)
#define DROPIN_FUTURE_CASE(name) TEST_CASE_TEMPLATE(name, use, dropin::with_std, dropin::with_async, dropin::with_post)
#endif

/// Waits as a loop does that has something else to do meanwhile. A future that says "deferred" would keep it for ever.
template <class Future>
void poll(const Future& future) {
  for (;;) {
    const std::future_status status = future.wait_for(std::chrono::seconds(0));
    if (status == std::future_status::ready) return;
    if (status == std::future_status::deferred) {
      if (ASYNCSTEPS_CALL_STATE == 1) throw std::logic_error("says that it is deferred");
      return future.wait();
    }
    std::this_thread::yield();
  }
}

/// Whether a wait for something that goes on says "timeout", and not before the time is over.
template <class Future>
bool times_out(const Future& future, std::chrono::milliseconds limit) {
  const auto start = std::chrono::steady_clock::now();
  if (future.wait_for(limit) != std::future_status::timeout) return false;
  if (std::chrono::steady_clock::now() - start < limit) return false;
  const auto moment = std::chrono::steady_clock::now() + limit;
  if (future.wait_until(moment) != std::future_status::timeout) return false;
  return std::chrono::steady_clock::now() >= moment;
}

/// Checks that what `check` says is true outside, in a call, and in a call that is made in a call.
template <class use, class Check>
void check_everywhere(Check check) {
  CHECK(check());
  CHECK(use::async(check).get());
  CHECK(use::async([check] { return use::async(check).get(); }).get());
}

/// Checks that `leave`, called outside and inside a call, comes back when calls it has made have ended, and not before.
/// It is given what to call, which goes on until this function lets it end, and returns how many calls it has made.
template <class use, class Leave>
void check_that_it_waits(Leave leave) {
  for (const bool inside : {false, true}) {
    CAPTURE(inside);
    struct shared {
      std::promise<void> go, left;
      std::shared_future<void> until = go.get_future().share();
      std::atomic<int> ended{0};
    };
    const auto state = std::make_shared<shared>();  // calls that nobody waits for may be in it for longer
    const auto call = [state, until = state->until] {
      until.wait();
      ++state->ended;
    };
    bool all_ended = false;
    std::thread leaver([&] {
      const auto leaving = [&] {
        const int made = leave(call);
        return made == state->ended;
      };
      try {
        all_ended = inside ? use::async(leaving).get() : leaving();
      } catch (const std::logic_error&) {
      }
      state->left.set_value();
    });
    // It cannot have left, however long this lasts.
    CHECK(state->left.get_future().wait_for(std::chrono::milliseconds(10)) == std::future_status::timeout);
    state->go.set_value();
    leaver.join();
    CHECK(all_ended);
  }
}

}  // namespace dropin
