// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <array>    // for array
#include <cstddef>  // for size_t
#include <cstdint>  // for uint32_t
#include <memory>   // for unique_ptr, make_unique
#include <tuple>    // for tuple, apply
#include <utility>  // for forward, move
#include <vector>   // for vector

#include "async/detail/base/held_back.hpp"        // for nothing_held_back
#include "async/detail/base/reference_count.hpp"  // for reference_count
#include "async/detail/call/call_result.hpp"      // for free_state
#include "async/detail/call/future_access.hpp"    // for future_access
#include "async/detail/call/result_state.hpp"     // for result, result_state
#include "async/detail/call/walk_word.hpp"        // for walk_word
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

/// The result of when_all() or when_any(). The count of references is that of the futures. Another one keeps the state:
/// one holder stands for all futures, and the others are the actions. So the last future that goes, like cancel(),
/// takes the actions out of results that are not ready.
///
/// `Kind`: has let_go(), which takes the actions away and drops the futures, and is called by the thread that has taken
/// the result. An action that it cannot remove any more does not use the futures.
template <class T, class Kind>
class combined_state : public result<T> {
 protected:
  explicit combined_state(std::uint32_t holders) noexcept : result<T>(how, nullptr, 1), holders_(holders) {}

  void add_holder() noexcept { holders_.add(); }
  /// Not the last one.
  void drop_other_holder() noexcept { static_cast<void>(holders_.drop()); }
  void drop_holder() noexcept {
    if (!holders_.is_last() && !holders_.drop()) return;
    const nothing_held_back in_destructors;
    free_state<Kind>(*this);
  }

 private:
  static void drop(result_state& s) noexcept { static_cast<Kind&>(s).let_go(); }
  static void free(result_state& s) noexcept {
    auto& self = static_cast<Kind&>(s);
    if (!self.is_ready() && self.word.take()) [[unlikely]]
      self.let_go();
    self.drop_holder();
  }
  static constexpr result_state::operations how{nullptr, &drop, nullptr, &free};

  reference_count holders_;
};

/// The result of when_all(). It waits for one future after the other, so that it takes one action at a time.
template <class Sequence>
class when_all_state final : public combined_state<Sequence, when_all_state<Sequence>>, private continuation {
  using base = combined_state<Sequence, when_all_state>;
  friend base;

 public:
  template <class From>
  explicit when_all_state(From&& all) noexcept
      : base(2), continuation(&arrived), all_(std::forward<From>(all)), count_(detail::count_of(all_)) {}
  /// To be called once, after construction.
  void begin() noexcept { run_all(go_on()); }

 private:
  static continuation* arrived(continuation& c) noexcept {
    auto& self = static_cast<when_all_state&>(c);
    switch (self.walk_.arrive()) {
      case walk_word::turn::others:
        return nullptr;
      case walk_word::turn::over:
        self.drop_holder();
        return nullptr;
      case walk_word::turn::mine:
        break;
    }
    ++self.next_;
    return self.go_on();
  }
  continuation* go_on() noexcept {
    for (; next_ != count_; ++next_) {
      if (detail::state_of(all_, next_)->word.add(*this) && walk_.leave()) return nullptr;
    }
    continuation* more = nullptr;
    if (this->word.take()) {
      this->value.set(std::move(all_));
      more = this->publish();
    } else {
      walk_.end();
    }
    this->drop_holder();
    return more;
  }

  /// Waits while another thread is between two futures.
  void let_go() noexcept {
    walk_.stop();
    if (next_ != count_ && detail::state_of(all_, next_)->word.remove(*this)) this->drop_other_holder();
    const Sequence unused(std::move(all_));
  }

  Sequence all_;
  const std::size_t count_;
  std::size_t next_ = 0;  // of the thread that walks
  walk_word walk_;
};

/// The result of when_any(), of type T with the members index and futures. It has an action in each future, and a
/// holder for each. The first one to run decides; the last of this thread and of the one that adds the actions
/// removes the others and makes the result ready.
template <class T, class Sequence>
class when_any_state final : public combined_state<T, when_any_state<T, Sequence>> {
  using base = combined_state<T, when_any_state>;
  friend base;

 public:
  /// Throws std::bad_alloc; `all` is as before then.
  template <class From>
  explicit when_any_state(From&& all)
      : base(1), actions_(std::make_unique<action[]>(detail::count_of(all))), all_(std::forward<From>(all)) {}
  /// To be called once, after construction. The caller's future is the only one meanwhile.
  void begin() noexcept {
    const std::size_t count = detail::count_of(all_);
    bool is_decided = count == 0 && decides(static_cast<std::size_t>(-1));
    for (std::size_t i = 0; i != count && !is_decided; ++i) {
      actions_[i].state = this;
      this->add_holder();
      if (detail::state_of(all_, i)->word.add(actions_[i])) {
        ++added_;
      } else {
        this->drop_other_holder();
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
    self.drop_holder();
    return more;
  }
  /// True for the first call, if the result has not been cancelled.
  bool decides(std::size_t index) noexcept {
    if (!this->word.take()) return false;
    first_ = index;
    return true;
  }
  continuation* finish() noexcept {
    remove_actions();
    this->value.set(T{first_, std::move(all_)});
    return this->publish();
  }
  void remove_actions() noexcept {
    for (std::size_t i = 0; i != added_; ++i) {
      if (i != first_ && detail::state_of(all_, i)->word.remove(actions_[i])) this->drop_other_holder();
    }
  }

  /// begin() has returned, since there are other futures, or none.
  void let_go() noexcept {
    remove_actions();
    const Sequence unused(std::move(all_));
  }

  const std::unique_ptr<action[]> actions_;
  Sequence all_;
  std::size_t added_ = 0;                             // published by the gate
  std::size_t first_ = static_cast<std::size_t>(-1);  // the same
  reference_count gate_{2};                           // of begin(), and of the action that decides
};

}  // namespace async::inline v0_1::detail
