// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <array>    // for array
#include <cstddef>  // for size_t
#include <memory>   // for unique_ptr, make_unique
#include <tuple>    // for tuple, apply
#include <utility>  // for forward, move
#include <vector>   // for vector

#include "async/detail/base/atomics.hpp"          // for atomic
#include "async/detail/base/reference_count.hpp"  // for reference_count
#include "async/detail/call/call_result.hpp"      // for free_state
#include "async/detail/call/future_access.hpp"    // for future_access
#include "async/detail/call/result_state.hpp"     // for result, result_state
#include "async/detail/future/result_word.hpp"    // for continuation, run_all

namespace async::inline v0_1::detail {

/// The states of a sequence of futures: a vector or a tuple.
template <class Future>
std::size_t count_of(const std::vector<Future>& all) noexcept {
  return all.size();
}
template <class... Futures>
constexpr std::size_t count_of(const std::tuple<Futures...>&) noexcept {
  return sizeof...(Futures);
}
template <class Future>
result_state* state_of(const std::vector<Future>& all, std::size_t i) noexcept {
  return future_access::state(all[i]);
}
template <class... Futures>
result_state* state_of(const std::tuple<Futures...>& all, std::size_t i) noexcept {
  return std::apply(
      [i](const Futures&... each) -> result_state* {
        const std::array<result_state*, sizeof...(Futures)> states{future_access::state(each)...};
        return states[i];
      },
      all);
}

/// The result of when_all(). It waits for one future after the other, so that it takes one action at a time.
template <class Sequence>
class when_all_state final : public result<Sequence>, private continuation {
 public:
  template <class From>
  explicit when_all_state(From&& all) noexcept
      : result<Sequence>(how), continuation(&arrived), all_(std::forward<From>(all)), count_(detail::count_of(all_)) {
    this->word.take();
  }
  /// Uses the maker's reference.
  void begin() noexcept { run_all(go_on()); }

 private:
  static continuation* arrived(continuation& c) noexcept {
    auto& self = static_cast<when_all_state&>(c);
    ++self.next_;
    return self.go_on();
  }
  continuation* go_on() noexcept {
    for (; next_ != count_; ++next_) {
      if (detail::state_of(all_, next_)->word.add(*this)) return nullptr;  // from here on this is another thread's
    }
    this->value.set(std::move(all_));
    continuation* const more = this->publish();
    this->release();
    return more;
  }

  static constexpr result_state::operations how{nullptr, nullptr, nullptr, &free_state<when_all_state>, false};

  Sequence all_;
  const std::size_t count_;
  std::size_t next_ = 0;  // of the thread that runs the action
};

/// The result of when_any(), of type T with the members index and futures. It has an action in each future, and a
/// reference for each. The first one to run decides; the last of this thread and of the one that adds the actions
/// removes the others and makes the result ready.
template <class T, class Sequence>
class when_any_state final : public result<T> {
 public:
  /// Throws std::bad_alloc; `all` is as before then.
  template <class From>
  explicit when_any_state(From&& all)
      : result<T>(how), actions_(std::make_unique<action[]>(detail::count_of(all))), all_(std::forward<From>(all)) {
    this->word.take();
  }
  /// Uses the maker's reference.
  void begin() noexcept {
    const std::size_t count = detail::count_of(all_);
    bool is_decided = count == 0;
    for (std::size_t i = 0; i != count && !is_decided; ++i) {
      actions_[i].state = this;
      this->add_reference();
      if (detail::state_of(all_, i)->word.add(actions_[i])) {
        ++added_;
      } else {
        this->release();
        is_decided = decides(i);
        if (!is_decided) break;  // another one has run
      }
    }
    if (is_decided) static_cast<void>(gate_.drop());
    if (gate_.drop()) run_all(finish());
  }

 private:
  struct action : continuation {
    action() noexcept : continuation(&arrived) {}
    when_any_state* state = nullptr;
  };

  static continuation* arrived(continuation& c) noexcept {
    auto& mine = static_cast<action&>(c);
    when_any_state& self = *mine.state;
    const auto index = static_cast<std::size_t>(&mine - self.actions_.get());
    continuation* const more = self.decides(index) && self.gate_.drop() ? self.finish() : nullptr;
    self.release();
    return more;
  }
  /// True for the first call.
  bool decides(std::size_t index) noexcept {
    std::size_t none = static_cast<std::size_t>(-1);
    // relaxed: the gate orders it
    return first_.compare_exchange_strong(none, index, std::memory_order_relaxed, std::memory_order_relaxed);
  }
  continuation* finish() noexcept {
    const std::size_t first = first_.load(std::memory_order_relaxed);  // relaxed: see decides()
    for (std::size_t i = 0; i != added_; ++i) {
      if (i != first && detail::state_of(all_, i)->word.remove(actions_[i])) this->release();
    }
    this->value.set(T{first, std::move(all_)});
    continuation* const more = this->publish();
    this->release();
    return more;
  }

  static constexpr result_state::operations how{nullptr, nullptr, nullptr, &free_state<when_any_state>, false};

  const std::unique_ptr<action[]> actions_;
  Sequence all_;
  std::size_t added_ = 0;  // published by the gate
  atomic<std::size_t> first_{static_cast<std::size_t>(-1)};
  reference_count gate_{2};  // of begin(), and of the action that decides
};

}  // namespace async::inline v0_1::detail
