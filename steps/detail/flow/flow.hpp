// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for byte, max_align_t, size_t
#include <cstdint>      // for uint8_t, uint32_t, uintptr_t
#include <exception>    // for exception_ptr
#include <string_view>  // for string_view

#include "async/detail/base/atomics.hpp"             // for atomic
#include "async/detail/base/reference_count.hpp"     // for reference_count
#include "async/detail/loop/loop_core.hpp"           // for current_loop, message, loop_core
#include "async/detail/pool/job.hpp"                 // for posted_job
#include "steps/detail/flow/control_block_slot.hpp"  // for control_block_slot
#include "steps/detail/flow/executing_flag.hpp"      // for executing_flag
#include "steps/detail/flow/flow_state.hpp"          // for flow_state
#include "steps/detail/flow/result.hpp"              // for pack_tag, slot_size
#include "steps/detail/flow/start_state.hpp"         // for start_state
#include "steps/errors.hpp"                          // for ErrorCode
#include "steps/state.hpp"                           // for State

namespace async::inline v0_1::detail {
class pool_core;
}

/// The data of a flow and their layout. Memory is in arena.hpp, the states in flow_state.hpp, the code in engine/.
///
/// A flow is a tree of steps. Only the path from the root to the active step exists, with the steps still to come on
/// that path. They lie in the flow's arena in the order made, level upon level:
///
///   root level             level of B             level of B2
///   [A done][B][C][D]      [B1 done][B2][B3]      [scope of B2's sub-step][...]   <- top
///
/// I1  The steps of a level are the records from the first one's address to the parent's sub_end, one behind the other.
///     Records of other kinds (is_step tells) and jumps to the next chunk lie between them.
/// I2  When a step ends, everything behind its level's sub_end is dead, and top returns there.
/// I3  flow.cur is the innermost active step. The records behind it up to its parent's sub_end are still to come, as
///     are those behind each of its ancestors.
/// I4  The scopes of the active steps are chained newest first, with the innermost step's in front.
/// I5  A step's functor is destroyed when the step ends or is destroyed without having run, never while its callback is
///     on the stack.
namespace steps::inline v0_1::detail {

struct flow;
struct step;
class promise_base;

/// Anything in the arena.
struct record {
  std::uint32_t size_;   // to the next record, a multiple of granule
  std::uint16_t flags_;  // of record_flag
  std::uint16_t extra_;
};

namespace record_flag {
inline constexpr std::uint16_t is_step = 1;       // else a scope, memory of stack(), or padding
inline constexpr std::uint16_t is_jump = 2;       // the records go on elsewhere
inline constexpr std::uint16_t again = 4;         // a loop that is not at its end
inline constexpr std::uint16_t is_loop = 8;       // its functor begins with a loop_label
inline constexpr std::uint16_t handler = 16;      // its error handler has not been called
inline constexpr std::uint16_t begun = 32;        // it has run at least once; of loops, groups, await(), sync()
inline constexpr std::uint16_t is_group = 64;     // parallel(), race()
inline constexpr std::uint16_t is_root = 128;     // the root flow's IAsyncSteps, which lies in no arena
inline constexpr std::uint16_t destroys = 256;    // its functors have destructors
inline constexpr std::uint16_t counted = 512;     // of a flow with fixed memory
inline constexpr std::uint16_t handles = 1024;    // its error handler is running
inline constexpr std::uint16_t resumes = 2048;    // it runs again, later or after its only sub-step; keeps its scopes
inline constexpr std::uint16_t bursts = 4096;     // BranchTurns::burst
inline constexpr std::uint16_t coroutine = 8192;  // one of its scopes is its coroutine
}  // namespace record_flag

struct jump : record {
  record* to;
};

/// The functions of a kind of step; one static table for each pair of functors.
struct step_ops {
  void (*run)(step& self);
  void (*on_error)(step& self, ErrorCode code);
  void (*destroy)(step& self) noexcept;  // null: nothing to do
  std::string_view name;
  /// The step waits for branches, whose loops may have no driver: does what these loops would do. In the flow's loop.
  void (*help)(step& self) noexcept = nullptr;
  /// Its results exist once, as an element of a queue does: the step or iteration that gets them runs in the same turn,
  /// so that no timer or cancel comes between.
  bool hands_over = false;
};

/// The header of a step; the base of IAsyncSteps, so that the record itself is the `asi` of its functions.
struct step : record {
  const step_ops* ops_;
  detail::flow* flow_;
  step* parent_;
  std::byte* sub_end_;  // valid while it has sub-steps: where they end
};

/// A scope is an object that ends with its step: a timer, a cancel handler, an object of stack<T>(), a lock.
struct scope_ops {
  /// The order in which the scopes of a step end after an error or cancel (FTN12 2.1): leave_first, then cancel
  /// handlers newest first, then the error handler runs, then the coroutine, whose locals may refer to other scopes,
  /// then lasting. After a success: the coroutine, then all others.
  enum class kind : std::uint8_t { leave_first, cancel, coroutine, lasting } what;
  /// Kind `cancel` only: the step is in error or cancelled. May throw. leave() follows.
  void (*cancel)(struct scope& self);
  /// The step has ended, by success, error or cancel.
  void (*leave)(struct scope& self) noexcept;
  /// An error is about to go outwards from the step, which waits. True: not yet, and the scope wakes the flow later.
  bool (*halt)(struct scope& self) noexcept = nullptr;
  /// The step waits for this scope, so relinquish() is misuse.
  bool awaited = false;
};
struct scope : record {
  scope* outer;  // the next older scope of the flow
  step* holder;
  const scope_ops* ops;  // null: has been left
};

struct chunk {
  chunk* older;
  std::byte* older_end;
  std::size_t size;
};

/// How a flow's memory is released and what happens at its end; one static table for each kind of flow. It is the table
/// of the flow's root, too, which has no functions of a step.
struct flow_ops : step_ops {
  constexpr flow_ops(void (*at_end)(flow&), void (*to_release)(flow&) noexcept, void (*at_message)(flow&) = nullptr,
                     void (*to_report)(flow&, const std::exception_ptr&) noexcept = nullptr,
                     void (*to_withdraw)(flow&) noexcept = nullptr) noexcept
      : step_ops{nullptr, nullptr, nullptr, {}},
        end(at_end),
        release(to_release),
        on_message(at_message),
        report(to_report),
        withdraw(to_withdraw) {}

  /// All steps have ended, by the pending error if the verdict is error. Calls end_execution() or releases the flow.
  void (*end)(flow& f);
  /// The flow has ended and has no owner: destroys it and frees its memory.
  void (*release)(flow& f) noexcept;
  /// Branches on other loops only: a message to the branch has arrived; see end_message.
  void (*on_message)(flow& f);
  /// Roots only: tells the flow's pool of an exception while the flow does not execute.
  void (*report)(flow& f, const std::exception_ptr& error) noexcept;
  /// Branches only: destroys a branch that is being built, and has no step.
  void (*withdraw)(flow& f) noexcept;
};

/// The layout of a branch of a flow with fixed memory: flow, arena, results, state, texts.
struct fixed_branch {
  std::uint32_t arena;
  std::uint32_t results;
  std::uint32_t texts;

  static constexpr std::size_t alignment = alignof(std::max_align_t);
  static constexpr std::size_t rounded(std::size_t bytes) noexcept {
    return (bytes + alignment - 1) / alignment * alignment;
  }
  constexpr std::size_t results_at() const noexcept;
  constexpr std::size_t state_at() const noexcept { return results_at() + rounded(results); }
  constexpr std::size_t texts_at() const noexcept { return state_at() + sizeof(State); }
  constexpr std::size_t size() const noexcept { return rounded(texts_at() + texts); }

  std::byte* results_of(flow& branch) const noexcept { return reinterpret_cast<std::byte*>(&branch) + results_at(); }
  std::byte* state_of(flow& branch) const noexcept { return reinterpret_cast<std::byte*>(&branch) + state_at(); }
  char* texts_of(flow& branch) const noexcept { return reinterpret_cast<char*>(&branch) + texts_at(); }
};

/// The remaining allowances of a flow with fixed memory, and its buffers.
struct limits {
  std::uint32_t steps;
  std::uint32_t timeouts;
  std::uint32_t cancels;
  std::uint32_t stack_allocs;
  std::uint32_t fresh_branches;  // branches whose memory has not been used
  fixed_branch branch;
  std::byte* fresh_branch;  // the memory of the first of them
  void* spare_branch;       // free list of used memory, whose first word is the address of the next
  std::byte* results;
  std::uint32_t result_size;
  void* state_memory;  // for the root's State
  char* texts;         // for its texts
  std::uint32_t texts_size;
  void* face;
  fixed_buffer values;
  bool may_allocate = false;  // what does not fit is in recycled blocks, and so is all but the steps
};

struct pending_error {
  ErrorCode code;
  step* target;  // the loop that a break or continue is for; else null
};

/// The control block of a flow, by which other threads reach it. They may hold it after the flow has gone. It has a
/// block of its own, or lies within the flow's, which then goes with it.
class flow_control_block {
 public:
  enum class place : std::uint8_t { apart, within_flow };

  flow_control_block(flow& f, place where) noexcept
      : flow_(reinterpret_cast<std::uintptr_t>(&f) | (where == place::within_flow ? is_within : 0)) {}

  /// Null: the flow has gone. For the thread that has the flow.
  flow* target() const noexcept { return (flow_ & has_gone) == 0 ? address() : nullptr; }
  void lose_target() noexcept { flow_ |= has_gone; }

  bool is_within_flow() const noexcept { return (flow_ & is_within) != 0; }
  /// Where the flow is, or was.
  flow* address() const noexcept {
    return reinterpret_cast<flow*>(flow_ & ~(is_within | has_gone));  // NOLINT: made from a pointer
  }

  async::detail::reference_count references;
  start_state start;                         // of a flow on a pool
  async::detail::loop_core* home = nullptr;  // written before start's bind(): the pool's loop that it is a tenant of

 private:
  static constexpr std::uintptr_t is_within = 1;
  static constexpr std::uintptr_t has_gone = 2;

  std::uintptr_t flow_;
};

/// A branch that is offered to the workers of a pool; lies in the branch's result slot until it begins.
struct offered_branch : async::detail::posted_job {
  flow* branch;
};

/// A running tree of steps.
///
/// Threads     while it executes, all members belong to the loop's thread, else to the thread that has the root. Other
///             threads may read `core`, `epoch`, `control_block` and `active`.
struct flow : flow_state, async::detail::message {
  flow(const flow_ops* o, async::detail::loop_core* c, std::size_t arena_size, runnable::function resume,
       message::function begin) noexcept;
  flow(const flow&) = delete;
  flow& operator=(const flow&) = delete;

  /// True when the function that is running may still complete its step.
  bool may_complete() const noexcept { return current_verdict() <= verdict::wait && first == nullptr; }
  /// For the thread that has the flow.
  bool executes() const noexcept { return active.is_set(); }
  /// For any thread.
  bool is_known_to_execute() const noexcept { return active.test(); }
  /// The same, for a request that must not reach another execution than the one that its thread has seen.
  std::uint32_t seen_execution() const noexcept { return active.seen(); }
  /// True in that execution; a branch has no other.
  bool is_execution(std::uint32_t seen) const noexcept { return root.parent_ != nullptr || seen_execution() == seen; }

  const flow_ops& ops() const noexcept { return static_cast<const flow_ops&>(*root.ops_); }

  /// Tells one wait of the flow from the next. Relaxed: nothing is published; other threads compare it in a message.
  std::uint32_t wait_number() const noexcept { return epoch.load(std::memory_order_relaxed); }
  void end_wait() noexcept { epoch.store(wait_number() + 1, std::memory_order_relaxed); }
  /// The number of an execution, for `active`. One that begins with a turn has the wait's, which changes in the turn.
  std::uint32_t take_wait_number() noexcept {
    const std::uint32_t number = wait_number();
    end_wait();
    return number;
  }

  executing_flag active;
  async::detail::atomic<std::uint32_t> epoch{0};  // changes when a wait ends; other threads read it

  // Members that begin as zero lie in pairs on multiples of 16 bytes, as the flow does: one store fills a pair, and no
  // pair lies across two cache lines.
  step* run_by = nullptr;  // the step whose function or handler is running, see runs_here(); or results_in_hand
  step* first = nullptr;   // the first sub-step that it has added
  step* cur = nullptr;     // the innermost active step
  scope* scopes = nullptr;
  std::byte* top;
  std::byte* end;  // of the chunk, less a jump
  chunk* chunks = nullptr;
  const pack_tag* tag = nullptr;  // of the results in slot; null: none
  State* state = nullptr;
  limits* limit = nullptr;                   // null: none
  async::detail::pool_core* pool = nullptr;  // starts the flow and runs its branches; null: it stays on its loop
  promise_base* promise = nullptr;
  control_block_slot<flow_control_block> control_block;
  flow** list_prev = nullptr;  // null: in no list
  flow* list_next = nullptr;
  async::detail::loop_core* core;  // set before execute(), on a pool before start_state's bind()
  union {
    alignas(slot_align) std::byte slot[slot_size];
    pending_error pending;  // while the verdict is error, and while an error is unwinding
  };
  step root;  // its table: a flow_ops; its parent: of a branch, the parallel() step; else null
};

/// True when the function or error handler of `s` is running, on this thread. A branch on another loop may ask, which
/// is misuse: the answer is no.
inline bool runs_here(const step& s) noexcept {
  return async::detail::current_loop == s.flow_->core && s.flow_->run_by == &s;
}

/// False in a flow with fixed memory.
inline bool may_allocate(const flow& f) noexcept { return f.limit == nullptr || f.limit->may_allocate; }

constexpr std::size_t fixed_branch::results_at() const noexcept { return rounded(sizeof(flow) + arena); }

}  // namespace steps::inline v0_1::detail
