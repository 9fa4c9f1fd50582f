// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>    // for size_t
#include <exception>  // for exception_ptr
#include <memory>     // for destroy_at
#include <mutex>      // for lock_guard
#include <new>        // for placement new
#include <utility>    // for exchange, move, swap

#include "async/detail/base/block_cache.hpp"       // for allocate_block, free_block
#include "async/detail/base/config.hpp"            // for ASYNCSTEPS_FUNCTION, ASYNCSTEPS_TSAN
#include "async/detail/base/forks.hpp"             // for forks
#include "async/detail/base/naps.hpp"              // for wait_without_memory
#include "async/detail/base/reference_count.hpp"   // for reference_count
#include "async/detail/base/spin_lock.hpp"         // for spin_lock
#include "async/detail/base/waiter_queue.hpp"      // for waiter_queue
#include "async/detail/call/call_result.hpp"       // for make_state, promised_result
#include "async/detail/call/result_state.hpp"      // for result, result_state
#include "async/detail/call/result_waits.hpp"      // for is_in_callback
#include "async/detail/future/result_word.hpp"     // for continuation, is_end_held_back, run_all
#include "async/detail/future/unseen_by_tsan.hpp"  // for unseen_by_tsan

namespace async::inline v0_1::detail {

/// The results of a future_group that are not ready. It outlives the future_group until the last of them is.
///
/// A member is in the queue until it is asked to end, or has ended. The lock guards all other data. Nothing of a member
/// is destroyed, asked or told under it, so that captures and continuations may use the group.
///
/// Threads     any.
class result_group {
 public:
  /// `keeps_others`: an exception of a member cancels no others.
  static result_group* make(bool keeps_others) {
    return ::new (allocate_block(sizeof(result_group))) result_group(keeps_others);
  }
  explicit result_group(bool keeps_others) noexcept : keeps_others_(keeps_others) {}
  ~result_group();
  result_group(const result_group&) = delete;
  result_group& operator=(const result_group&) = delete;
  /// By the future_group's destructor.
  static void end(result_group* g) noexcept;

  /// Takes over the reference to `r`, the only one of a future. Throws std::bad_alloc; the caller has it then.
  template <class T>
  void add(result<T>& r) {
    add(r, [](result_state& s) noexcept { static_cast<result<T>&>(s).value.drop(); });
  }
  /// The same for one of several futures, whose result stays as it is.
  void add_shared(result_state& r) { add(r, nullptr); }
  std::size_t size() const noexcept {
    const std::lock_guard here(lock_);
    return size_;
  }
  bool is_cancelling() const noexcept {
    const std::lock_guard here(lock_);
    return is_cancelling_;
  }
  std::size_t cancel() noexcept;
  /// The result of a future_group's when_empty(), with a reference for the caller. Throws std::bad_alloc.
  result<void>* when_empty();

 private:
  using drop_value = void (*)(result_state&) noexcept;

  struct member final : continuation {
    member(result_group& g, result_state& r, drop_value how) noexcept
        : continuation(&ended), group(g), result(r), drop(how) {}

    /// As it is chosen to be asked to end.
    void reserve() noexcept { result.add_reference(); }

    result_group& group;
    result_state& result;
    const drop_value drop;  // null: others read the result
    member* behind = nullptr;
    member* before = nullptr;
  };
  using end_result = promised_result<void>;

  /// A thread that runs the continuations of a when_empty(), which may destroy the group.
  struct telling {
    const result_group* group;
    telling* outer;
  };
  ASYNCSTEPS_SHARED static inline constinit thread_local telling* telling_here = nullptr;

  void add(result_state& r, drop_value how);
  void wait_for_members() noexcept;
  /// Under the lock: the end of a member is complete. Returns what the destructor waits for, if that was the last.
  end_result* note_left() noexcept { return --present_ == own_ ? std::exchange(left_, nullptr) : nullptr; }
  static continuation* ended(continuation& c) noexcept;
  void ask_all() noexcept;
  void release() noexcept;
  static void settle(end_result& end, std::exception_ptr why = nullptr) noexcept;

  const bool keeps_others_;
  mutable spin_lock lock_;
  bool is_cancelling_ = false;     // until there are no members
  bool is_told_ = false;           // the error, or that there is none; until the next member
  reference_count references_{1};  // of the future_group, of each member, and of calls that ask all
  std::size_t size_ = 0;
  std::size_t present_ = 0;        // members, and those whose end is not complete
  std::size_t own_ = 0;            // of these, what the destructor does not wait for
  waiter_queue<member> unasked_;   // those that are not asked to end
  std::exception_ptr error_;       // the first one
  end_result* waiting_ = nullptr;  // of when_empty(); null: nobody has asked
  end_result* left_ = nullptr;     // the destructor waits for it
  const unsigned generation_ = forks.value.generation();
};

#if ASYNCSTEPS_DEFINED
ASYNCSTEPS_FUNCTION result_group::~result_group() {
#if ASYNCSTEPS_TSAN
  const unseen_by_tsan quiet;
  error_ = nullptr;
#endif
}

ASYNCSTEPS_FUNCTION void result_group::end(result_group* g) noexcept {
  if (g->generation_ != forks.value.generation()) return;  // its members are in the parent
  g->cancel();
  if (!is_in_callback()) g->wait_for_members();
  g->release();
}

ASYNCSTEPS_FUNCTION void result_group::wait_for_members() noexcept {
  std::exception_ptr untold;
  {
    const std::lock_guard here(lock_);
    std::swap(untold, error_);
  }
  std::size_t own = 0;  // ends of members that are further up this thread's stack
  for (const telling* t = telling_here; t != nullptr; t = t->outer) own += t->group == this ? 1 : 0;
  end_result* left = nullptr;
  try {
    left = make_state<end_result>();
    bool is_done = false;
    {
      const std::lock_guard here(lock_);
      own_ = own;
      is_done = present_ == own;
      if (!is_done) left_ = left;
    }
    if (is_done) {
      settle(*left);
    } else {
      left->wait();
    }
  } catch (...) {
    wait_without_memory([this, own] {
      const std::lock_guard here(lock_);
      return present_ == own;
    });
  }
  if (left != nullptr) left->release();
}

ASYNCSTEPS_FUNCTION void result_group::add(result_state& r, drop_value how) {
  auto* const m = ::new (allocate_block(sizeof(member))) member(*this, r, how);
  bool is_late = false;
  std::exception_ptr old;
  {
    const std::lock_guard here(lock_);
    references_.add();
    ++present_;
    if (size_++ == 0 && std::exchange(is_told_, false)) std::swap(old, error_);
    unasked_.push(*m);
    is_late = is_cancelling_;
    if (is_late) references_.add();
  }
  if (!r.word.add(*m)) run_all(m->run(*m));
  if (!is_late) return;
  ask_all();
  release();
}

ASYNCSTEPS_FUNCTION std::size_t result_group::cancel() noexcept {
  std::size_t asked = 0;
  {
    const std::lock_guard here(lock_);
    asked = size_;
    is_cancelling_ = asked != 0;
    if (asked != 0) references_.add();
  }
  if (asked == 0) return 0;
  ask_all();
  release();
  return asked;
}

ASYNCSTEPS_FUNCTION result<void>* result_group::when_empty() {
  auto* made = make_state<end_result>();
  end_result* known = nullptr;
  std::exception_ptr why;
  {
    const std::lock_guard here(lock_);
    if (size_ == 0) {
      is_told_ = true;
      why = error_;
    } else if (waiting_ == nullptr) {
      return waiting_ = made;
    } else {
      known = waiting_;
      known->add_reference();
    }
  }
  settle(*made, std::move(why));
  if (known == nullptr) return made;
  made->release();
  return known;
}

/// Uses the maker's reference.
ASYNCSTEPS_FUNCTION void result_group::settle(end_result& end, std::exception_ptr why) noexcept {
  static_cast<void>(end.word.take());
  run_all(why != nullptr ? end.fail(std::move(why)) : end.publish());
  end.release();
}

/// A member is ready. It counts until nothing of it is left.
ASYNCSTEPS_FUNCTION continuation* result_group::ended(continuation& c) noexcept {
  if (is_end_held_back(c)) return nullptr;  // destructors, stop callbacks, continuations of when_empty()
  auto& m = static_cast<member&>(c);
  result_group& g = m.group;
  const bool is_sole = m.drop != nullptr;
  std::exception_ptr error = is_sole ? std::move(m.result.error) : m.result.error, told;
  bool cancels = false;
  {
    const std::lock_guard here(g.lock_);
    g.unasked_.remove(m);
    const bool counts = error != nullptr && !g.is_cancelling_;
    if (counts && g.error_ == nullptr) std::swap(g.error_, error);
    cancels = counts && !g.keeps_others_;
    g.is_cancelling_ = g.is_cancelling_ || cancels;
  }
  if (cancels) g.ask_all();
  error = nullptr;
  if (is_sole) m.drop(m.result);
  m.result.release();
  std::destroy_at(&m);
  free_block(&m, sizeof(member));
  end_result* over = nullptr;
  end_result* left = nullptr;
  {
    const std::lock_guard here(g.lock_);
    if (--g.size_ == 0) {
      g.is_cancelling_ = false;
      over = std::exchange(g.waiting_, nullptr);
      if (over != nullptr) {
        g.is_told_ = true;
        told = g.error_;
      }
    }
    if (over == nullptr) left = g.note_left();
  }
  if (over != nullptr) {
    {
      telling here{&g, telling_here};
      telling_here = &here;
      settle(*over, std::move(told));
      telling_here = here.outer;
    }
    const std::lock_guard here(g.lock_);
    left = g.note_left();
  }
  if (left != nullptr) settle(*left);
  g.release();
  return nullptr;
}

/// Requests the members to end. The caller has a reference: a continuation of when_empty() may destroy the group.
ASYNCSTEPS_FUNCTION void result_group::ask_all() noexcept {
  for (;;) {
    result_state* asked = nullptr;
    {
      const std::lock_guard here(lock_);
      member* const m = is_cancelling_ ? unasked_.pop() : nullptr;
      if (m == nullptr) return;
      asked = &m->result;
    }
    asked->cancel();
    asked->release();
  }
}

ASYNCSTEPS_FUNCTION void result_group::release() noexcept {
  if (!references_.drop()) return;
  std::destroy_at(this);
  free_block(this, sizeof(result_group));
}
#endif

}  // namespace async::inline v0_1::detail
