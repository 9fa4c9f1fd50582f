// SPDX-License-Identifier: BSL-1.0
#pragma once

#include "async/detail/loop/inbox.hpp"  // for message, delivery

namespace async::inline v0_1::detail {

/// The messages that a loop has taken from its inbox and not yet delivered, oldest first. For the loop's thread only.
///
/// A delivery may use the chain again: each message is taken out first.
class message_chain {
 public:
  bool empty() const noexcept { return first_ == nullptr; }

  /// Appends a list that inbox::take() has returned.
  void append(message* more) noexcept {
    message* last = first_;
    while (last != nullptr && last->next.get() != nullptr) last = last->next.get();
    (last != nullptr ? last->next.set(more) : static_cast<void>(first_ = more));
  }
  /// Takes a message out. False: it is not in the chain.
  bool remove(message& m) noexcept {
    message* before = nullptr;
    message* at = first_;
    for (; at != nullptr && at != &m; at = at->next.get()) before = at;
    if (at == nullptr) return false;
    (before != nullptr ? before->next.set(m.next.get()) : static_cast<void>(first_ = m.next.get()));
    return true;
  }
  void deliver_first() {
    message& m = pop();
    m.deliver(m, delivery::on_loop);
  }
  /// Delivers the wanted messages; the others stay in their order.
  template <class Wanted>
  void deliver_those(Wanted wanted) {
    bring_forward(wanted);
    while (first_ != nullptr && wanted(*first_)) deliver_first();
  }
  /// Drops all, and touches nothing of it.
  void forget() noexcept { first_ = nullptr; }
  void drop_all() noexcept {
    while (first_ != nullptr) {
      message& m = pop();
      m.deliver(m, delivery::dropped);
    }
  }

 private:
  message& pop() noexcept {
    message& m = *first_;
    first_ = m.next.get();
    return m;
  }
  template <class Wanted>
  void bring_forward(Wanted wanted) {
    message* found = nullptr;
    message* rest = nullptr;
    message* last_found = nullptr;
    message* last_of_rest = nullptr;
    for (message* at = first_; at != nullptr;) {
      message* const next = at->next.get();
      const bool is_wanted = wanted(*at);
      message*& last = is_wanted ? last_found : last_of_rest;
      (last != nullptr ? last->next.set(at) : static_cast<void>((is_wanted ? found : rest) = at));
      last = at;
      at->next.set(nullptr);
      at = next;
    }
    if (last_found != nullptr) last_found->next.set(rest);
    first_ = found != nullptr ? found : rest;
  }

  message* first_ = nullptr;
};

}  // namespace async::inline v0_1::detail
