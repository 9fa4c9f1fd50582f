// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for size_t
#include <cstdint>      // for uintptr_t
#include <new>          // for bad_alloc
#include <string_view>  // for string_view
#include <utility>      // for exchange, forward

#include "async/detail/base/block_cache.hpp"    // for allocate_block, free_block
#include "async/detail/base/config.hpp"         // for ASYNCSTEPS_FUNCTION
#include "async/detail/base/invoke.hpp"         // for invoke_and_drop
#include "async/detail/call/call_result.hpp"    // for make_state
#include "async/detail/call/future_access.hpp"  // for future_access
#include "async/future.hpp"                     // for future
#include "steps/completion.hpp"                 // for wait_scope
#include "steps/detail/engine/limit_claim.hpp"  // for limit_claim, has_room
#include "steps/detail/engine/loop_step.hpp"    // for find_loop
#include "steps/detail/engine/scopes.hpp"       // for make_scope, cancel_scope
#include "steps/detail/parallel/branches.hpp"   // for group_step
#include "steps/detail/wait/flow_result.hpp"    // for promised_flow
#include "steps/detail/wait/timeout.hpp"        // for may_wait

/// The functions of IAsyncSteps (`Face`) that take more than a line.
namespace steps::inline v0_1::detail {

/// True while branches may be added to a parallel() or race() step.
inline bool is_built(const step& group) noexcept {
  const flow& f = *group.flow_;
  if (group.parent_ == &f.root) return !f.is_known_to_execute() && !f.has_remains();
  return runs_here(*group.parent_) && f.is_open();
}

/// The root of a new branch, for a step that is added to a parallel() or race() step. Null: the mistake is known.
template <class Face>
[[gnu::noinline]] step* branch_of(step& s) {
  flow& f = *s.flow_;
  if (is_built(s)) [[likely]]
    return static_cast<group_step<Face>&>(s).add_branch();
  misuse_anywhere(f, "add() to a parallel() or race() step outside the function that has made it");
  return nullptr;
}

/// The parent of a step that is added to any other step: the step itself, or the root level. Null: the mistake is
/// known, or an error is under way and the new step is dropped.
step* level_of(step& s);

/// The parent of a step that is added outside the function of `s`. Null: as level_of().
template <class Face>
[[gnu::noinline]] step* level_outside(step& s) {
  flow& f = *s.flow_;
  const bool is_root = (s.flags_ & record_flag::is_root) != 0;
  if (is_root && !f.is_known_to_execute() && !f.has_remains()) return &f.root;
  return (s.flags_ & record_flag::is_group) != 0 ? branch_of<Face>(s) : level_of(s);
}

/// Marks a break or continue at the running step.
template <class Face>
[[gnu::noinline]] void leave_iteration(step& s, ErrorCode code, LoopLabel label) {
  flow& f = *s.flow_;
  if (!runs_here(s)) return misuse_anywhere(f, "breakLoop() or continueLoop() of a step that is not running");
  if (f.is_cancelled()) return;
  if (f.has_succeeded()) return misuse(f, "breakLoop() or continueLoop() after success()");
  if (step* const loop = find_loop<Face>(&s, label)) return set_error(f, code, label.view(), loop);
  set_error(f, errors::InternalError,
            label.view().empty() ? "breakLoop() or continueLoop() outside a loop"
                                 : "breakLoop() or continueLoop() with a label that no loop around has");
}

/// The step whose scope a stack() object becomes: for a parallel() or race() step that is being built, the step around
/// or the root, but no branch. Throws Error when there is none.
inline step& stack_owner(step& of) {
  step& s = (of.flags_ & record_flag::is_group) != 0 && is_built(of) ? *of.parent_ : of;
  flow& f = *s.flow_;
  const bool is_of_root = (s.flags_ & record_flag::is_root) != 0 || (&s == &f.root && s.parent_ == nullptr);
  const bool is_root = is_of_root && !f.is_known_to_execute();
  if (!is_root && !runs_here(s)) {
    misuse_anywhere(f, "stack() of a step that is not running");
    throw unwinding(errors::InternalError, "stack() of a step that is not running");
  }
  if (is_root && !begin_anew(f)) throw unwinding(errors::InternalError, used_by_remains);
  return is_root ? f.root : s;
}

/// Claims a stack() object of `size` bytes. Throws Error when a flow with fixed memory has no room for it.
inline void claim_stack(limit_claim& place, flow& f, std::size_t size) {
  if (!place.take(f, &limits::stack_allocs, size, "the flow exceeds nitro::MaxStackAllocs")) {
    throw unwinding(errors::InternalError, info_of(f));
  }
}

template <class T, class... Args>
T& make_object(step& s, Args&&... args) {
  using made = object_scope<T>;
  step& owner = stack_owner(s);
  flow& f = *owner.flow_;
  limit_claim place;
  claim_stack(place, f, round_up(sizeof(made), granule) + alignof(made));
  T& object = make_scope<made>(f, owner, std::forward<Args>(args)...).object;
  place.keep();
  return object;
}

/// An object of stack() that calls a function at its end, for onEnd().
template <class F>
struct end_call {
  template <class G>
  end_call(flow& of, G&& f) : flow_(of), function_(std::forward<G>(f)) {}
  end_call(const end_call&) = delete;
  end_call& operator=(const end_call&) = delete;
  ~end_call() {
    try {
      async::detail::invoke_and_drop(function_);
    } catch (...) {
      report_exception(flow_, true);
    }
  }

 private:
  flow& flow_;
  F function_;
};

inline void* make_memory(step& s, std::size_t size, void (*destroy)(void*)) {
  if (size > largest_record) throw std::bad_alloc();
  const std::size_t bytes = memory_scope::bytes_for(size);
  step& owner = stack_owner(s);
  flow& f = *owner.flow_;
  limit_claim place;
  claim_stack(place, f, bytes);
  auto* const made = ::new (allocate(f, bytes)) memory_scope(destroy);
  enter_scope(f, *made, bytes, owner, memory_scope::ops);
  place.keep();
  return made->memory();
}

/// The cancel handler of a step, and the memory of a replaced one that has room for a new handler.
struct cancel_places {
  scope* present = nullptr;
  scope* spare = nullptr;
};
cancel_places cancel_places_of(const flow& f, const step& s, std::size_t size, std::size_t align) noexcept;

/// Makes a scope in the memory of one that has been left. On an exception nothing has changed.
template <class T, class... Args>
void remake_scope(scope& left, Args&&... args) {
  const scope was = left;
  try {
    scope& made = *::new (static_cast<void*>(&left)) T(std::forward<Args>(args)...);
    made = was;
    made.ops = &T::ops;
  } catch (...) {
    ::new (static_cast<void*>(&left)) scope(was);
    throw;
  }
}

/// Leaves a cancel handler that a new one has replaced. The new one takes over its place among the flow's limits.
inline void leave_replaced(flow& f, scope& handler) noexcept {
  if (f.limit != nullptr) --f.limit->cancels;
  const scope_ops* const ops = std::exchange(handler.ops, nullptr);
  if (ops != nullptr) ops->leave(handler);  // else the new function's constructor has cancelled the flow
}

/// asi.setCancel(). The new handler replaces the step's present one.
template <class Face, class F>
void set_cancel(step& s, F&& function) {
  static_assert(
      !requires { std::decay_t<F>::is_coroutine_step; },
      "a cancel handler cannot wait, so it is no coroutine: hand what has to wait to steps::post()");
  if (!may_wait(s, "setCancel() outside a step function, or after success()")) return;
  using made = cancel_scope<Face, std::decay_t<F>>;
  constexpr std::size_t size = round_up(sizeof(made), granule);
  flow& f = *s.flow_;
  const auto [present, spare] = cancel_places_of(f, s, size, alignof(made));
  const std::size_t room = spare != nullptr ? 0 : size + alignof(made);
  limit_claim place;
  if (present != nullptr ? !has_room(f, room)
                         : !place.take(f, &limits::cancels, room, "the flow exceeds nitro::MaxCancels")) {
    return;
  }
  if (spare != nullptr) {
    remake_scope<made>(*spare, std::forward<F>(function));
  } else {
    make_scope<made>(f, s, std::forward<F>(function));
  }
  place.keep();
  f.mark_wait();
  if (present != nullptr) leave_replaced(f, *present);
}

/// A block of a wait. Throws std::bad_alloc, and what its constructor throws.
template <class Block, class... Args>
Block* make_block(step& s, Args&&... args) {
  void* const memory = async::detail::allocate_block(sizeof(Block), alignof(Block));
  try {
    return ::new (memory) Block(s, std::forward<Args>(args)...);
  } catch (...) {
    async::detail::free_block(memory, sizeof(Block), alignof(Block));
    throw;
  }
}

/// asi.completion(): makes the running step wait. Throws std::bad_alloc, what the block's constructor throws, and Error
/// where that is misuse.
template <class Block, class Scope = wait_scope, class... Args>
Block& make_wait(step& s, Args&&... args) {
  if (!may_wait(s, "completion() outside a step function, or after success()")) {
    throw unwinding(errors::InternalError, "completion() outside a step function, or after success()");
  }
  flow& f = *s.flow_;
  if (!has_room(f, sizeof(Scope))) throw unwinding(errors::InternalError, info_of(f));
  Block* const block = make_block<Block>(s, std::forward<Args>(args)...);
  try {
    make_scope<Scope>(f, s, *block);
  } catch (...) {
    block->release();
    block->release();
    throw;
  }
  f.mark_wait();
  return *block;
}

/// True when `s` may be used as `asi`.
inline bool is_usable(const step& s) noexcept {
  const flow& f = *s.flow_;
  if ((s.flags_ & record_flag::is_root) != 0) return !f.is_known_to_execute();
  if (runs_here(s)) return f.is_open();
  if ((s.flags_ & record_flag::is_group) != 0) return is_built(s);
  return f.is_waiting() && f.cur == &s;
}

/// True for the root of a flow; else the mistake is known.
inline bool is_root_call(const step& s, std::string_view literal) {
  if ((s.flags_ & record_flag::is_root) != 0) return true;
  misuse_anywhere(*s.flow_, literal);
  return false;
}

/// promise() of the root.
template <class T>
async::future<T> execute_with_promise(step& s) {
  flow& f = *s.flow_;
  if (!is_root_call(s, "promise() of a step that is not the root")) {
    throw unwinding(errors::InternalError, "promise() of a step that is not the root");
  }
  if (f.is_known_to_execute()) {
    misuse_anywhere(f, "promise() of a flow that executes");
    throw unwinding(errors::InternalError, "promise() of a flow that executes");
  }
  if (!begin_anew(f)) throw unwinding(errors::InternalError, used_by_remains);
  const state_access::last_exception last(f.state);  // which may have the flow
  auto* const end = async::detail::make_state<promised_flow<T>>();
  auto result = async::detail::future_access::make<T>(end);
  f.promise = end;
  try {
    execute(f);
    return result;
  } catch (...) {
    if (std::exchange(f.promise, nullptr) != nullptr) end->cancelled();  // else a cancel() has done so
    throw;
  }
}

#if ASYNCSTEPS_DEFINED
[[gnu::noinline]] ASYNCSTEPS_FUNCTION step* level_of(step& s) {
  flow& f = *s.flow_;
  if ((s.flags_ & record_flag::is_root) != 0) {
    if (f.is_known_to_execute()) {
      misuse_anywhere(f, "add() to the root of a flow that executes");
      return nullptr;
    }
    return begin_anew(f) ? &f.root : nullptr;
  }
  if (runs_here(s)) {
    if (f.is_open()) return &s;
    if (f.has_succeeded()) misuse(f, "add() after success()");
    return nullptr;
  }
  misuse_anywhere(f, "add() to a step that is not running");
  return nullptr;
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION cancel_places cancel_places_of(const flow& f, const step& s, std::size_t size,
                                                                     std::size_t align) noexcept {
  cancel_places found;
  for (scope* at = f.scopes; at != nullptr && at->holder == &s; at = at->outer) {
    if (at->ops != nullptr) {
      if (at->ops->what == scope_ops::kind::cancel) found.present = at;
    } else if (at->size_ >= size && reinterpret_cast<std::uintptr_t>(at) % align == 0) {
      found.spare = at;
    }
  }
  return found;
}
#endif

}  // namespace steps::inline v0_1::detail
