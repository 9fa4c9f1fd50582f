// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for size_t
#include <cstdint>      // for uint32_t, uint64_t
#include <deque>        // for deque
#include <mutex>        // for mutex, lock_guard
#include <string>       // for string
#include <string_view>  // for string_view
#include <utility>      // for exchange, move

#include "steps/completion.hpp"  // for completion, completion_access
#include "steps/errors.hpp"      // for ErrorCode

namespace steps::inline v0_1::interop::nats::detail {

using waiting_call = completion<std::string>;

/// Ends a call's wait with an error; without memory for it, with std::bad_alloc.
inline void fail_call(const waiting_call& done, ErrorCode code, std::string_view info) noexcept {
  steps::detail::completion_access::end(done, [&] { done.error(code, info); });
}

/// The calls of a bus that wait for answers, each with a number that its answer brings back. A number is not used again
/// before 2^32 calls in the same place.
///
/// Threads     any; each call takes the lock for some instructions, and ends waits outside of it.
class call_table {
 public:
  /// A new call.
  struct begun {
    std::uint64_t number = 0;  // 0: the table is closed
    std::size_t in_flight = 0;
  };
  begun begin(waiting_call done) {
    const std::lock_guard here(lock_);
    if (is_closed_) return {};
    if (free_ == none) {
      places_.emplace_back();
      free_ = static_cast<std::uint32_t>(places_.size() - 1);
    }
    place& p = places_[free_];
    const std::uint64_t number = std::uint64_t{p.turn} << 32 | free_;
    p.done = std::move(done);
    p.is_sent = false;
    p.is_used = true;
    free_ = std::exchange(p.next_free, none);
    return {number, ++in_flight_};
  }
  std::size_t in_flight() {
    const std::lock_guard here(lock_);
    return in_flight_;
  }
  /// From here on the other side may have it. False: nobody waits any more.
  bool mark_sent(std::uint64_t number) {
    const std::lock_guard here(lock_);
    const std::uint32_t index = find(number);
    if (index != none) places_[index].is_sent = true;
    return index != none;
  }
  /// The call's wait, which is the caller's to end; an empty token when the call is none.
  waiting_call take(std::uint64_t number) {
    const std::lock_guard here(lock_);
    const std::uint32_t index = find(number);
    return index == none ? waiting_call() : release(index);
  }
  /// Ends the waits of all calls that have been sent.
  void fail_sent(ErrorCode code, std::string_view info) noexcept { fail(false, code, info); }
  /// Ends all waits; there are no further calls.
  void close(ErrorCode code, std::string_view info) noexcept { fail(true, code, info); }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  struct place {
    waiting_call done;
    std::uint32_t turn = 1;
    std::uint32_t next_free = none;
    bool is_sent = false;
    bool is_used = false;
  };

  /// The index of a call's place; none: there is no such call.
  std::uint32_t find(std::uint64_t number) const noexcept {
    const auto index = static_cast<std::uint32_t>(number & none);
    const bool is_it = index < places_.size() && places_[index].is_used && places_[index].turn == number >> 32;
    return is_it ? index : none;
  }
  waiting_call release(std::uint32_t index) noexcept {
    place& p = places_[index];
    p.is_used = false;
    --in_flight_;
    if (++p.turn == 0) p.turn = 1;  // so that no number is 0
    p.next_free = std::exchange(free_, index);
    return std::move(p.done);
  }
  void fail(bool closes, ErrorCode code, std::string_view info) noexcept {
    for (std::uint32_t i = 0;; ++i) {
      waiting_call ended;
      {
        const std::lock_guard here(lock_);
        is_closed_ = is_closed_ || closes;
        while (i < places_.size() && !(places_[i].is_used && (closes || places_[i].is_sent))) ++i;
        if (i == places_.size()) return;
        ended = release(i);
      }
      fail_call(ended, code, info);
    }
  }

  std::mutex lock_;
  std::deque<place> places_;
  std::size_t in_flight_ = 0;
  std::uint32_t free_ = none;
  bool is_closed_ = false;
};

}  // namespace steps::inline v0_1::interop::nats::detail
