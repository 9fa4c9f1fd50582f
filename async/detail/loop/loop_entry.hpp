// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "async/detail/base/config.hpp"       // for ASYNCSTEPS_FUNCTION
#include "async/detail/loop/biased_lock.hpp"  // for biased_lock
#include "async/detail/loop/loop_core.hpp"    // for loop_core, current_loop, thread_token

namespace async::inline v0_1::detail {

/// Permission to touch the loop's data, for the lifetime of the object. A thread in a turn of the loop gets it; any
/// other thread gets it if no thread is in the loop.
///
/// Use it wherever the calling thread may be outside of a turn; if it is refused, push a message. Between turns it
/// makes the loop current_loop, and wakes an embedder that has been told that there is nothing to do. Keep it short: a
/// turn waits for it.
class loop_entry {
 public:
  /// The threads that may enter between turns.
  enum class who : unsigned char { anybody, owner };

  explicit loop_entry(loop_core& core, who may = who::anybody) noexcept : core_(core), around_(current_loop) {
    if (around_ == nullptr && core.owner_.enter_biased(thread_token())) [[likely]] {
      come_in(biased_lock::way::biased);
    } else if (around_ == &core) {
      given_ = true;
    } else {
      ask(may);
    }
  }
  ~loop_entry() {
    if (way_ == biased_lock::way::refused) return;
    core_.entered_between_turns();
    current_loop = around_;
    core_.owner_.leave(way_);
  }
  loop_entry(const loop_entry&) = delete;
  loop_entry& operator=(const loop_entry&) = delete;

  /// True: the loop may be touched.
  explicit operator bool() const noexcept { return given_; }

 private:
  void ask(who may) noexcept;
  void come_in(biased_lock::way how) noexcept {
    way_ = how;
    given_ = true;
    core_.around_ = around_;
    current_loop = &core_;
  }

  loop_core& core_;
  loop_core* const around_;
  biased_lock::way way_ = biased_lock::way::refused;  // refused: there is nothing to leave
  bool given_ = false;
};

/// The same for the owner of a loop that has not been shared. For a few accesses to the loop's data, none of which
/// leads to a user's function: the loop does not become current_loop.
class owner_entry {
 public:
  [[gnu::always_inline]] explicit owner_entry(loop_core& core) noexcept
      : core_(core), biased_(current_loop == nullptr && core.owner_.enter_biased(thread_token())) {}
  [[gnu::always_inline]] ~owner_entry() {
    if (!biased_) return;
    core_.entered_between_turns();
    core_.owner_.leave(biased_lock::way::biased);
  }
  owner_entry(const owner_entry&) = delete;
  owner_entry& operator=(const owner_entry&) = delete;

  /// True: the loop may be touched.
  explicit operator bool() const noexcept { return biased_ || current_loop == &core_; }

 private:
  loop_core& core_;
  const bool biased_;
};

#if ASYNCSTEPS_DEFINED
[[gnu::noinline]] ASYNCSTEPS_FUNCTION void loop_entry::ask(who may) noexcept {
  if (core_.is_entered_here()) {
    given_ = true;
  } else if (may == who::anybody || core_.owner_.is(thread_token())) {
    const biased_lock::way how = core_.owner_.claim(thread_token());
    if (how != biased_lock::way::refused) come_in(how);
  }
}
#endif

}  // namespace async::inline v0_1::detail
