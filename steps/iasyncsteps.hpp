// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <any>               // for any_cast
#include <array>             // for to_array
#include <concepts>          // for same_as
#include <cstddef>           // for size_t
#include <future>            // for future, shared_future
#include <initializer_list>  // for initializer_list
#include <memory>            // for unique_ptr
#include <new>               // for destroying_delete_t
#include <string_view>       // for string_view
#include <type_traits>       // for decay_t, is_void_v
#include <utility>           // for forward
#include <vector>            // for vector

#include "async/detail/base/chrono.hpp"        // for duration
#include "async/event.hpp"                     // for event
#include "async/event_loop.hpp"                // for event_loop
#include "async/future.hpp"                    // for future, shared_future
#include "steps/branch_turns.hpp"              // for BranchTurns
#include "steps/completion.hpp"                // for completion
#include "steps/detail/calls.hpp"              // for set_cancel, make_object, make_wait, execute_with_promise
#include "steps/detail/future_step.hpp"        // for future_step
#include "steps/detail/pool_call.hpp"          // for pool_call_step, pool_of_calls
#include "steps/detail/wait/await_check.hpp"   // for refused_by_await, explain_refusal
#include "steps/detail/wait/event_wait.hpp"    // for event_step
#include "steps/detail/wait/future.hpp"        // for await_step
#include "steps/detail/wait/periodic.hpp"      // for periodic
#include "steps/detail/wait/queue_wait.hpp"    // for dequeue_step, enqueue_step
#include "steps/detail/wait/retry_step.hpp"    // for retry_step
#include "steps/detail/wait/select_check.hpp"  // for select_arguments
#include "steps/detail/wait/select_step.hpp"   // for select_step_of
#include "steps/errors.hpp"                    // for ErrorCode
#include "steps/every.hpp"                     // for Every
#include "steps/isync.hpp"                     // for ISync, sync_step
#include "steps/retry.hpp"                     // for Retry
#include "steps/state.hpp"                     // for State

namespace steps::inline v0_1 {

class AsyncSteps;

/// The flow as a step function sees it: adds sub-steps, completes the step, makes it wait (FTN12 2.2).
///
/// A flow is a tree of steps. The steps of a level run one after the other. Steps added inside a step are its
/// sub-steps: they run when its function has returned, before the level goes on. A step without sub-steps that does not
/// wait has succeeded when its function returns. RULES.md has all rules of flows.
///
///   flow.add([](IAsyncSteps& asi) { asi.success(42); })
///       .add([](IAsyncSteps& asi, int answer) { … }, [](IAsyncSteps& asi, ErrorCode code) { … });
///
/// Use it as `IAsyncSteps& asi` or `auto& asi`. Do not keep it beyond the step's end: to end a wait from another
/// thread or a callback, use completion().
///
/// Threads     the flow's loop; the owner's while the root flow does not execute. From other threads: success(),
///             error() and errorNoThrow() while the step waits, and cancel() of the root at any time. They send a
///             request to the loop.
/// Misuse      completing twice, success() with sub-steps, adding to a step that is not running, root functions on a
///             step: InternalError with an info, raised at the current step, or at the next execute() if there is none.
///             success() and errorNoThrow() of a root that does not execute are ignored.
/// Exceptions  functions that add or store throw std::bad_alloc and what the constructors of their arguments throw;
///             nothing has been added then.
/// Memory      steps, handlers, timers and stack() objects lie in the flow's own memory, recycled when they end.
class IAsyncSteps : public detail::step {
 public:
  IAsyncSteps(const IAsyncSteps&) = delete;
  IAsyncSteps& operator=(const IAsyncSteps&) = delete;
  ~IAsyncSteps() = default;

  // --- building, at any level -------------------------------------------------------------------------------------

  /// Adds a step: f(IAsyncSteps&, results...). The results are those that the step before passes to success(). It takes
  /// them by value, as T&& or as const T& (valid until f returns), and may take fewer. Another type than the one passed
  /// is InternalError.
  template <class F>
  IAsyncSteps& add(F&& f) {
    return add_function(std::forward<F>(f), detail::no_handler(), 0);
  }
  /// The same with an error handler e(IAsyncSteps&, ErrorCode), for errors of the step and its sub-steps. The handler
  /// may recover with success(...), or by adding steps, which run in the step's place without this handler. It may
  /// replace the error with error(), or let it pass by returning.
  template <class F, class E>
  IAsyncSteps& add(F&& f, E&& e) {
    static_assert(detail::is_error_handler<std::decay_t<E>>);
    return add_function(std::forward<F>(f), std::forward<E>(e), detail::record_flag::handler);
  }

  /// Adds a step that runs branches at the same time. Each call on the returned object makes one branch, see rule 25.
  /// The step ends when all branches have. An error in a branch cancels the others and goes to the handler. Branches
  /// pass no results, and share state(). On a loop they take turns as `turns` says. In an AsyncSteps on a pool each
  /// runs like a flow of its own, at the same time as the others. Without siblings it stays on its flow's loop; those
  /// of a NitroSteps stay there, too.
  IAsyncSteps& parallel(BranchTurns turns = BranchTurns::step) {
    return add_group<detail::parallel_step>(detail::no_handler(), turns);
  }
  template <class E>
  IAsyncSteps& parallel(E&& e, BranchTurns turns = BranchTurns::step) {
    return add_group<detail::parallel_step>(std::forward<E>(e), turns);
  }

  /// Adds a step that runs branches until one of them succeeds; the next step gets the results of this one. Branches
  /// are made and run as those of parallel(). The first branch that succeeds cancels the others: their cancel handlers
  /// run, and all have ended before the next step begins. An error in a branch is dropped while others run. When all
  /// fail, the last error goes to the handler. Without branches the step ends at once. If several succeed at the same
  /// time, one wins; results of others are lost.
  ///
  /// Use it to ask several sources, or to end a wait early. Where each branch has work to do, use parallel().
  IAsyncSteps& race(BranchTurns turns = BranchTurns::step) {
    return add_group<detail::race_step>(detail::no_handler(), turns);
  }
  template <class E>
  IAsyncSteps& race(E&& e, BranchTurns turns = BranchTurns::step) {
    return add_group<detail::race_step>(std::forward<E>(e), turns);
  }

  /// Adds a step that, with its sub-steps, has a place in `object` while it runs. Results pass in and out as with
  /// add(). The handler runs before the place is given back. DefenseRejected of a full queue goes to the enclosing
  /// handler.
  template <class F>
  IAsyncSteps& sync(ISync& object, F&& f) {
    return add_sync(object, std::forward<F>(f), detail::no_handler());
  }
  template <class F, class E>
  IAsyncSteps& sync(ISync& object, F&& f, E&& e) {
    static_assert(detail::is_error_handler<std::decay_t<E>>);
    return add_sync(object, std::forward<F>(f), std::forward<E>(e));
  }

  /// Adds a step that passes these results on.
  template <class... A>
  IAsyncSteps& successStep(A&&... results) {
    if constexpr (detail::are_results<A...>) {
      using kind = detail::result_step<IAsyncSteps, detail::stored_t<A>...>;
      append<kind>(0, std::forward<A>(results)...);
    }
    return *this;
  }

  /// Adds a step that waits for a future and passes its value on; its exception is the step's error, BrokenPromise
  /// that of a future that gets no value. The thread that makes the future ready notifies the flow. When the step fails
  /// or ends before that, it cancels the future, as future::cancel() does, and does not wait for a call or flow that
  /// runs: pass these their data by value. A shared_future is only dropped.
  template <class T, class E = detail::no_handler>
  IAsyncSteps& await(async::future<T>&& f, E&& e = {}) {
    return add_wait<detail::future_step>(std::move(f), std::forward<E>(e));
  }
  template <class T, class E = detail::no_handler>
  IAsyncSteps& await(async::shared_future<T> f, E&& e = {}) {
    return add_wait<detail::future_step>(std::move(f), std::forward<E>(e));
  }
  /// The same for a std::future. One of this library (of async::async(), or made of an async::future) notifies the flow
  /// when it is ready. Others are polled: at once, after 50 us, then at growing intervals of at most 10 ms. A deferred
  /// one is run on the loop. To drop a future of std::async() or async::async() is to wait for its call: after a
  /// timeout or cancel() the loop stands still until then. Calls that may take longer belong in await(pool, f,
  /// arguments...).
  template <class T, class E = detail::no_handler>
  IAsyncSteps& await(std::future<T>&& f, E&& e = {}) {
    return add_wait<detail::await_step>(std::move(f), std::forward<E>(e));
  }
  template <class T, class E = detail::no_handler>
  IAsyncSteps& await(std::shared_future<T> f, E&& e = {}) {
    return add_wait<detail::await_step>(std::move(f), std::forward<E>(e));
  }
  /// Refused: a future that is not moved in, and an event that does not outlive the flow.
  template <detail::refused_by_await What, class... E>
    requires(!detail::pool_of_calls<std::remove_reference_t<What>>)
  void await(What&&, E&&...) {
    static_assert(detail::explain_refusal<What>());
  }

  /// Adds a step for a call that takes long or blocks: a thread of `pool`, a threadpool or a blocking_pool, calls
  /// f(arguments...), with copies of both, and the step passes the result on. The flow's loop runs other flows
  /// meanwhile. An exception of f is the step's error. Stopped, QueueFull: the pool has not taken the call. That thread
  /// destroys f and its arguments before the flow goes on. When the step ends before, by a timeout or cancel(), a call
  /// that has not begun is destroyed, and the result of a running one is dropped: f may outlive the step.
  template <detail::pool_of_calls Pool, class F, class... A>
  IAsyncSteps& await(Pool& pool, F&& f, A&&... arguments) {
    static_assert(
        async::async_callable<F, A...>,
        "await(pool, f, arguments...) calls f(arguments...), with copies of them: no asi, no std::stop_token (post())");
    using kind = detail::pool_call_step<IAsyncSteps, Pool, std::decay_t<F>, std::decay_t<A>...>;
    return append<kind>(0, pool, std::forward<F>(f), std::forward<A>(arguments)...);
  }

  /// Adds a step that waits while an async::queue or async::bounded_queue is empty, takes the oldest element, and
  /// passes it on. QueueClosed: the queue is closed and drained. Waiting flows are served first come, first served; a
  /// flow or thread that does not wait may take an element before them. The element stays in the queue until the step
  /// takes it: a flow that ends before loses none. The queue outlives the flow.
  template <class Queue>
    requires async::detail::any_queue<Queue>
  IAsyncSteps& await(Queue&& queue) {
    return add_dequeue<Queue>(queue, detail::no_handler(), 0);
  }
  template <class Queue, class E>
    requires async::detail::any_queue<Queue>
  IAsyncSteps& await(Queue&& queue, E&& e) {
    static_assert(detail::is_error_handler<std::decay_t<E>>);
    return add_dequeue<Queue>(queue, std::forward<E>(e), detail::record_flag::handler);
  }
  /// Adds a step that enqueues an element made from `arguments`, of which it keeps copies until then. It waits while an
  /// async::bounded_queue is full, served as above, and never for an async::queue. QueueClosed: the queue is closed. A
  /// flow that ends before has enqueued nothing; what the step has kept is destroyed. The queue outlives the flow.
  template <class Queue, class... A>
    requires async::detail::any_queue<Queue>
  IAsyncSteps& enqueue(Queue&& queue, A&&... arguments) {
    using type = std::remove_reference_t<Queue>;
    if constexpr (detail::is_queue_of_flows<Queue> && detail::makes_element<type, A...>) {
      append<detail::enqueue_step<IAsyncSteps, type, std::decay_t<A>...>>(0, queue, std::forward<A>(arguments)...);
    }
    return *this;
  }

  /// Adds a step that waits for the first of several queues, futures and time limits, without a thread. Exactly one
  /// case takes effect; its handler is then the step's function: f(IAsyncSteps&), after on_pop() f(IAsyncSteps&,
  /// element), after on_ready() f(IAsyncSteps&, future&). It may add steps, and its results go to the next step. An
  /// error handler e(IAsyncSteps&, ErrorCode) may stand behind the cases.
  ///
  ///   asi.select(async::on_pop(orders, [](IAsyncSteps& step, order o) { … }),
  ///              async::after(1s, [](IAsyncSteps& step) { step.success("no order"); }));
  ///
  /// The cases are those of async::select(), in async/select.hpp; their order is their priority. The step keeps
  /// the item of on_push(), one where two cases move the same object, and destroys it if no case takes it. It keeps a
  /// copy of a shared_future, and a future that is moved into on_ready(): as await() does, it cancels that one if it is
  /// not ready when the wait ends. A future that has a name, and each queue, outlives the flow. after() counts from the
  /// step's first wait on, by the clock of the flow's loop; alone it is a pause: asi.select(async::after(10ms)).
  ///
  /// An element leaves its queue only when its case takes effect: a flow that ends before, by a timeout or cancel(),
  /// takes none. QueueClosed: all queues are closed and drained, no future has a state, and there is no event. Waiting
  /// flows are served as by await(queue).
  template <class... A>
  IAsyncSteps& select(A&&... cases) {
    if constexpr (detail::select_arguments<A...>::ok) {
      add_select<detail::select_arguments<A...>>(typename detail::select_arguments<A...>::indices(),
                                                 std::forward_as_tuple(std::forward<A>(cases)...));
    }
    return *this;
  }
  /// Adds a step that waits until the event is set, or has been since the wait began. It passes nothing on. The event
  /// outlives the flow.
  IAsyncSteps& await(async::event& event) { return add_event(event, detail::no_handler(), 0); }
  template <class E>
  IAsyncSteps& await(async::event& event, E&& e) {
    static_assert(detail::is_error_handler<std::decay_t<E>>);
    return add_event(event, std::forward<E>(e), detail::record_flag::handler);
  }

  /// Adds a loop: the step f(IAsyncSteps&, results...) runs again and again until breakLoop() or an error. Results pass
  /// from one iteration to the next. stack() objects of an iteration end with it.
  template <class F>
  IAsyncSteps& loop(F&& f, LoopLabel label = {}) {
    static_assert(detail::is_step_function<std::decay_t<F>> && detail::is_kept<F>);
    return add_loop<detail::endless<std::decay_t<F>>>(label, std::forward<F>(f));
  }
  /// Adds a loop of `count` iterations: f(IAsyncSteps&, std::size_t i, results...), i from 0.
  template <class F>
  IAsyncSteps& repeat(std::size_t count, F&& f, LoopLabel label = {}) {
    if constexpr (!std::is_invocable_v<std::decay_t<F>&, IAsyncSteps&>) {
      static_assert(detail::is_step_function<std::decay_t<F>, std::size_t>);
    }
    static_assert(detail::is_kept<F>);
    return add_loop<detail::counted<std::decay_t<F>>>(label, count, std::forward<F>(f));
  }
  /// Adds a loop over a container: f(IAsyncSteps&, index, element&, results...), or f(IAsyncSteps&, key, value&,
  /// results...) for maps. It keeps the container, or borrows that of a std::ref(), where f may append to a vector.
  template <class C, class F>
  IAsyncSteps& forEach(C&& container, F&& f, LoopLabel label = {}) {
    if constexpr (std::is_array_v<std::remove_reference_t<C>>) {
      return forEach(std::to_array(std::forward<C>(container)), std::forward<F>(f), label);
    } else if constexpr (detail::has_elements<C>) {
      using body = detail::each<std::decay_t<C>, std::decay_t<F>>;
      static_assert(detail::is_step_function<std::decay_t<F>, typename body::arguments::first,
                                             typename body::arguments::second> &&
                    detail::is_kept<F>);
      return add_loop<body>(label, std::forward<C>(container), std::forward<F>(f));
    }
  }
  template <class T, class F>
  IAsyncSteps& forEach(std::initializer_list<T> elements, F&& f, LoopLabel label = {}) {
    return forEach(std::vector<T>(elements), std::forward<F>(f), label);
  }

  /// Adds a loop whose rounds begin at the ticks of a schedule: f(IAsyncSteps&) or f(IAsyncSteps&, const Tick&),
  /// without results. The first tick is now, or after Every::first; the others follow a period apart. After a round
  /// that has taken longer the next one begins at once. It is told how many further ticks have passed; these are
  /// dropped, or as Every::missed says. Use it for periodic jobs, and not for pauses between iterations.
  template <class Rep, class Period, class F>
  IAsyncSteps& every(std::chrono::duration<Rep, Period> period, F&& f, LoopLabel label = {}) {
    return every(Every{.period = detail::nonnegative_nanoseconds(period)}, std::forward<F>(f), label);
  }
  template <class F>
  IAsyncSteps& every(const Every& schedule, F&& f, LoopLabel label = {}) {
    static_assert(detail::is_round<std::decay_t<F>> && detail::is_kept<F>);
    return add_loop<detail::periodic<std::decay_t<F>>>(label, schedule, std::forward<F>(f));
  }

  /// Adds a step that makes attempts until one succeeds: f(IAsyncSteps&) or f(IAsyncSteps&, std::size_t attempt), from
  /// 0, without results. Those of the one that succeeds go to the next step. An attempt is a step, with sub-steps,
  /// waits and a timeout of its own; all that belongs to it has ended before the pause begins. The error of the last
  /// attempt, and one that the filter of the Retry refuses, goes on, to e(IAsyncSteps&, ErrorCode) if there is one.
  /// When the time limit of an enclosing step has passed, all errors do: such a limit covers all attempts and pauses.
  template <class F, class... E>
  IAsyncSteps& retry(const Retry& policy, F&& f, E&&... e) {
    return add_retry(policy, detail::any_error(), std::forward<F>(f), std::forward<E>(e)...);
  }
  template <class P, class F, class... E>
  IAsyncSteps& retry(detail::filtered_retry<P> policy, F&& f, E&&... e) {
    return add_retry(policy.policy, std::move(policy.filter), std::forward<F>(f), std::forward<E>(e)...);
  }

  /// Adds a step that gives the loop's other flows a turn. Results pass through. The step that calls it ends by itself,
  /// also after waitExternal(), setTimeout(), setDeadline() or setCancel(); success() beside it is InternalError. In a
  /// step that has called completion() it is InternalError.
  IAsyncSteps& relinquish() {
    detail::flow& f = *flow_;
    if (detail::runs_here(*this) && f.may_complete() && (flags_ & detail::record_flag::handles) == 0) [[likely]] {
      f.mark_yield();
      return *this;
    }
    return append<detail::yield_step<IAsyncSteps>>(0);
  }

  // --- inside a step function --------------------------------------------------------------------------------------
  // In an error handler all but setTimeout(), setDeadline(), setCancel(), completion() and waitExternal(), which raise
  // InternalError there: a handler adds a step that calls them.

  /// Ends the step. The next step of the level gets the results, later ones do not. Texts given by pointer arrive as
  /// std::string. When the step's function has returned and the step waits, this ends the wait.
  template <class... A>
  void success(A&&... results) {
    if constexpr (detail::are_results<A...>) {
      detail::flow& f = *flow_;
      if (detail::runs_here(*this) && f.may_complete()) [[likely]] {
        detail::put_results(f, std::forward<A>(results)...);
        if (f.may_complete()) f.mark_success();
      } else {
        detail::late_success(*this, std::forward<A>(results)...);
      }
    }
  }
  /// The same as success().
  template <class... A>
  void operator()(A&&... results) {
    success(std::forward<A>(results)...);
  }

  /// Ends the step with an error, by an exception for the engine to catch. Sub-steps are dropped.
  [[noreturn]] void error(ErrorCode code, std::string_view info = {}) { throw raised(code, info); }
  /// The same without an exception, and without the cost of throwing. Return from the function after it. A success()
  /// after it changes nothing.
  void errorNoThrow(ErrorCode code, std::string_view info = {}) {
    detail::flow& f = *flow_;
    if (detail::runs_here(*this) && !f.has_succeeded()) [[likely]] {
      if (!f.is_cancelled()) detail::set_error(f, code, info);
    } else {
      detail::late_error(*this, code, info);
    }
  }

  /// Ends the innermost loop, or all loops up to the one with that label. InternalError when there is none.
  [[noreturn]] void breakLoop(LoopLabel label = {}) {
    breakLoopNoThrow(label);
    throw detail::unwinding(errors::LoopBreak);
  }
  /// The same without an exception. Return from the function after it.
  void breakLoopNoThrow(LoopLabel label = {}) { leave_iteration(errors::LoopBreak, label); }
  /// Goes on with the next iteration of the innermost loop, or of the one with that label.
  [[noreturn]] void continueLoop(LoopLabel label = {}) {
    continueLoopNoThrow(label);
    throw detail::unwinding(errors::LoopCont);
  }
  /// The same without an exception. Return from the function after it.
  void continueLoopNoThrow(LoopLabel label = {}) { leave_iteration(errors::LoopCont, label); }

  /// Limits the time of the step and its sub-steps, then raises Timeout once: a sub-step's handler that recovers ends
  /// the limit, one in a branch of parallel() does not (rule 16). The step waits unless it has sub-steps. A second call
  /// replaces the first. The clock starts at the end of the loop's turn, in which other flows may run, too.
  template <class Rep, class Period>
  void setTimeout(std::chrono::duration<Rep, Period> limit) {
    detail::set_timeout(*this, detail::nonnegative_nanoseconds(limit));
  }
  /// The same until a time point of the loop's clock, tool().now(); it may have passed. The last call of both counts.
  template <class Clock, class Duration>
  void setDeadline(std::chrono::time_point<Clock, Duration> deadline) {
    static_assert(std::is_same_v<Clock, std::chrono::steady_clock>, "a deadline is asi.tool().now() plus a duration");
    detail::set_deadline(*this, async::detail::to_nanoseconds(deadline.time_since_epoch()));
  }
  /// Calls f(IAsyncSteps&) or f() when the step ends by an error, a timeout or cancel(). The step waits unless it has
  /// sub-steps. A second call replaces the first. f cannot go on with the step, see rule 17, nor wait: hand such
  /// clean-up to steps::post().
  template <class F>
  void setCancel(F&& f) {
    static_assert(std::is_invocable_v<std::decay_t<F>&, IAsyncSteps&> || std::is_invocable_v<std::decay_t<F>&>,
                  "a cancel handler is called as f(IAsyncSteps&) or f()");
    detail::set_cancel<IAsyncSteps>(*this, std::forward<F>(f));
  }
  /// Calls f() when the step has ended, in whatever way: by success, after its error handler, by a timeout or cancel().
  /// Several functions of a step are called newest first, in turn with the destructors of its stack() objects. The step
  /// does not wait for it. Those of a root are called when its next execution is built or executed, or the flow is
  /// destroyed. An exception of f goes to the hook of state().set_unhandled_error(), else to on_unhandled(), which ends
  /// the program by default: in a later turn of the loop, maybe after the flow's future is ready. So the f of a root
  /// may throw only while the loop or pool lives. In a flow with fixed memory onEnd() throws Error for lack of room.
  ///
  /// Use it to give back what no destructor does. Do not use it to raise errors (setCancel() and error handlers see the
  /// step).
  template <class F>
  void onEnd(F&& f) {
    static_assert(std::is_invocable_v<std::decay_t<F>&>, "the function of onEnd() is called as f()");
    detail::make_object<detail::end_call<std::decay_t<F>>>(*this, *flow_, std::forward<F>(f));
  }
  /// Makes the step wait for success() or error() from outside, unless it has sub-steps or calls relinquish().
  void waitExternal() {
    if (detail::may_wait(*this, "waitExternal() outside a step function, or after success()")) {
      flow_->mark_wait();
    }
  }
  /// Makes the step wait, and returns the token that ends the wait from any thread; with sub-steps there is no wait.
  template <class... T>
  steps::completion<T...> completion() {
    static_assert((!std::is_void_v<T> && ...), "a wait without results is completion<>()");
    using token = steps::completion<T...>;
    if constexpr ((std::is_void_v<T> || ...)) {
      return token();
    } else {
      return token(detail::make_wait<typename token::block>(*this));
    }
  }

  /// Makes an object that lives as long as the step; on a root beyond its execution, until the next one is built or
  /// executed, or the flow is destroyed. In a flow with fixed memory it throws Error when there is no room.
  template <class T, class... Args>
  T& stack(Args&&... args) {
    return detail::make_object<T>(*this, std::forward<Args>(args)...);
  }
  /// The same for raw memory, aligned for any scalar type; destroy(memory) is called at the end.
  void* stack(std::size_t size, void (*destroy)(void*) = nullptr) { return detail::make_memory(*this, size, destroy); }

  // --- anywhere ----------------------------------------------------------------------------------------------------

  /// The values, hooks and error facts that the steps of this flow share.
  State& state() { return detail::state_of(*flow_); }
  /// The value of a key as T. Throws std::bad_any_cast when it has another type or none.
  template <class T>
  T& state(std::string_view key) {
    return std::any_cast<T&>(state()[key]);
  }
  /// The same; a key without value gets this one.
  template <class T>
  T& state(std::string_view key, std::type_identity_t<T> value) {
    return detail::state_access::value<T>(state(), key, std::move(value));
  }
  /// The same with the type of `value`; a text given by pointer becomes a std::string.
  template <std::same_as<void> = void, class V>
  detail::stored_t<V>& state(std::string_view key, V&& value) {
    return state<detail::stored_t<V>>(key, detail::stored_t<V>(std::forward<V>(value)));
  }
  /// The flow's loop: the same one throughout an execution. Callbacks given to it never run at the same time as a step
  /// of the flow. In a flow of a pool it is a loop of the flow's own, which any worker may turn; each branch of
  /// parallel() has its own, too. After the flow it may serve others, or wait for a busy worker. It stays valid until
  /// the pool's end. Throws Error for the root of a flow that its pool has not started yet.
  async::event_loop& tool() const {
    async::detail::loop_core* const core = detail::known_core_of(*flow_);
    if (core == nullptr) throw Error(errors::InternalError, "tool() of a flow that no worker has taken yet");
    return core->loop();
  }
  /// True in a step function or handler that may still add steps, while its step waits (for success() and error()
  /// only), in what parallel() or race() has returned while branches may be added, and in the root of a flow that does
  /// not execute.
  explicit operator bool() const noexcept { return detail::is_usable(*this); }
  /// The opposite.
  bool operator!() const noexcept { return !detail::is_usable(*this); }
  /// A root flow of its own on the same loop or, of a flow on a pool, on that pool, with the same priority.
  template <class Root = AsyncSteps>
  std::unique_ptr<IAsyncSteps> newInstance() {
    async::detail::pool_core* const pool = flow_->pool;
    if (pool == nullptr) return std::make_unique<Root>(tool());
    return std::make_unique<Root>(pool->facade(), flow_->level);
  }

  // --- on the root of a flow only ----------------------------------------------------------------------------------

  /// Starts the flow: its first step runs in the loop's next turn. When the flow has ended, steps may be added for
  /// another execution. The loop or pool must exist. Throws std::bad_alloc, and Error when the loop is being destroyed;
  /// on a pool async::stopped. At its first execution a full pool does what threadpool_options::when_full says.
  void execute() {
    if (detail::is_root_call(*this, "execute() of a step that is not the root")) detail::execute(*flow_);
  }
  /// Starts the flow and returns a future of the last step's result or of the error: the exception that caused it, or
  /// Error. After cancel() it is a broken promise, async::dropped_call (cancelled); the end of the pool gives it the
  /// reason `stopped`. cancel() of the future has no effect, and when the future is dropped, so is the error. What
  /// then() adds to the future runs on the loop's thread when the execution has ended, and may destroy the flow. Throws
  /// as execute() does.
  template <class T = void>
  async::future<T> promise() {
    static_assert(detail::is_future_type<T>);
    return detail::execute_with_promise<T>(*this);
  }
  /// Ends the flow where it is: runs the cancel handlers, innermost first, and no error handlers. On the loop's thread
  /// they have run when this returns, unless branches run on other loops: then when these have ended. On another thread
  /// it is a request to the loop, which never cancels a later execution, and may throw std::bad_alloc.
  void cancel() {
    if (detail::is_root_call(*this, "cancel() of a step that is not the root")) detail::cancel(*flow_);
  }

  /// Deletes the root of a newInstance() as the type that it is.
  static void operator delete(IAsyncSteps* root, std::destroying_delete_t) { root->ops_->destroy(*root); }

 protected:
  IAsyncSteps() = default;

 private:
  detail::unwinding raised(ErrorCode code, std::string_view info) {
    detail::unwinding thrown(code, info);  // first: the texts may be views of those that are replaced
    errorNoThrow(code, info);
    return thrown;
  }
  [[gnu::always_inline]] detail::step* level() {
    return detail::runs_here(*this) && flow_->is_open() ? this : detail::level_outside<IAsyncSteps>(*this);
  }
  void leave_iteration(ErrorCode code, LoopLabel label) { detail::leave_iteration<IAsyncSteps>(*this, code, label); }

  template <class Record, class... A>
  IAsyncSteps& append(std::uint16_t flags, A&&... args) {
    if (detail::step* const parent = level()) {
      detail::append_step<Record>(*parent, flags | detail::record_flag::is_step, std::forward<A>(args)...);
    }
    return *this;
  }
  template <class F, class E>
  IAsyncSteps& add_function(F&& f, E&& e, std::uint16_t flags) {
    static_assert(detail::is_step_function<std::decay_t<F>> && detail::is_kept<F>);
    using kind = detail::function_step<IAsyncSteps, std::decay_t<F>, std::decay_t<E>>;
    return append<kind>(flags, std::forward<F>(f), std::forward<E>(e));
  }
  template <template <class, class> class Group, class E>
  IAsyncSteps& add_group(E&& e, BranchTurns turns) {
    using kind = Group<IAsyncSteps, std::decay_t<E>>;
    const std::uint16_t flags = detail::group_flags<std::decay_t<E>>(turns);
    detail::step* const parent = level();
    auto* const made = parent == nullptr ? nullptr : detail::append_step<kind>(*parent, flags, std::forward<E>(e));
    return made != nullptr ? *made : *this;
  }
  template <class F, class E>
  IAsyncSteps& add_sync(ISync& object, F&& f, E&& e) {
    static_assert(detail::is_step_function<std::decay_t<F>> && detail::is_kept<F>);
    using kind = detail::sync_step<IAsyncSteps, std::decay_t<F>, std::decay_t<E>>;
    return append<kind>(0, object, std::forward<F>(f), std::forward<E>(e));
  }
  template <class P, class F, class E = detail::no_handler>
  IAsyncSteps& add_retry(const Retry& policy, P filter, F&& f, E&& e = {}) {
    static_assert(detail::is_attempt<std::decay_t<F>, std::decay_t<E>> && detail::is_kept<F>);
    return append<detail::retry_step<IAsyncSteps, P, std::decay_t<F>, std::decay_t<E>>>(
        detail::record_flag::handler, policy, std::move(filter), std::forward<F>(f), std::forward<E>(e));
  }
  template <class E>
  IAsyncSteps& add_event(async::event& event, E&& e, std::uint16_t flags) {
    return append<detail::event_step<IAsyncSteps, std::decay_t<E>>>(flags, event, std::forward<E>(e));
  }
  template <template <class, class, class> class Step, class Future, class E>
  IAsyncSteps& add_wait(Future&& f, E&& e) {
    using handler = std::decay_t<E>;
    static_assert(detail::is_handler_or_none<handler>);
    using kind = Step<IAsyncSteps, std::decay_t<Future>, handler>;
    return append<kind>(detail::flag_of<handler>, std::move(f), std::forward<E>(e));
  }
  template <class Queue, class E>
  IAsyncSteps& add_dequeue(std::remove_reference_t<Queue>& queue, E&& e, std::uint16_t flags) {
    using type = std::remove_reference_t<Queue>;
    if constexpr (detail::is_queue_of_flows<Queue> && detail::are_results<typename type::value_type>) {
      append<detail::dequeue_step<IAsyncSteps, type, std::decay_t<E>>>(flags, queue, std::forward<E>(e));
    }
    return *this;
  }
  template <class Arguments, std::size_t... Index, class Tuple>
  void add_select(std::index_sequence<Index...>, Tuple&& all) {
    using std::get;
    if constexpr (Arguments::has_handler) {
      using last = typename Arguments::template at<Arguments::count - 1>;
      static_assert(detail::is_error_handler<std::decay_t<last>>);
      append<detail::select_step_of<IAsyncSteps, std::decay_t<last>, Arguments, Index...>>(
          detail::record_flag::handler, std::in_place, get<Arguments::count - 1>(std::forward<Tuple>(all)),
          get<Index>(std::forward<Tuple>(all))...);
    } else {
      append<detail::select_step_of<IAsyncSteps, detail::no_handler, Arguments, Index...>>(
          0, std::in_place, detail::no_handler(), get<Index>(std::forward<Tuple>(all))...);
    }
  }
  template <class Body, class... A>
  IAsyncSteps& add_loop(LoopLabel label, A&&... args) {
    constexpr std::uint16_t flags = detail::record_flag::is_loop | detail::record_flag::again;
    if (label.view().empty()) {
      using kind = detail::loop_step<IAsyncSteps, detail::no_label, Body>;
      return append<kind>(flags, detail::no_label(), std::forward<A>(args)...);
    }
    using kind = detail::loop_step<IAsyncSteps, detail::kept_label, Body>;
    if (auto* to = level()) detail::append_labelled<kind>(*to, flags, label, std::forward<A>(args)...);
    return *this;
  }
};

}  // namespace steps::inline v0_1
