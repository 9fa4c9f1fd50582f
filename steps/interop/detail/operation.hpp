// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <concepts>     // for derived_from
#include <coroutine>    // for coroutine_handle
#include <cstddef>      // for size_t
#include <exception>    // for exception_ptr
#include <memory>       // for destroy_at
#include <optional>     // for optional
#include <type_traits>  // for conditional_t
#include <utility>      // for exchange, forward, move

#include "async/detail/base/block_cache.hpp"         // for allocate_block, free_block
#include "async/detail/base/config.hpp"              // for ASYNCSTEPS_TSAN
#include "async/detail/base/functional.hpp"          // for reference_wrapper
#include "async/detail/base/own_exceptions.hpp"      // for own_exceptions
#include "async/detail/call/error_of_unmade.hpp"     // for error_of_unmade
#include "async/detail/future/unseen_by_tsan.hpp"    // for unseen_by_tsan
#include "async/detail/loop/biased_lock.hpp"         // for thread_token
#include "async/detail/loop/loop_ref.hpp"            // for loop_ref
#include "async/detail/queue/coroutine_wait.hpp"     // for coroutine_wait
#include "steps/detail/engine/engine.hpp"            // for wake
#include "steps/interop/detail/operation_state.hpp"  // for operation_state

/// The operation that a coroutine waits for, shared by the coroutine and the code that ends the wait.
namespace steps::inline v0_1::interop::detail {

/// The step of a coroutine, and of all coroutines that it awaits. The loop thread's.
struct host {
  /// Waits that may find their results at hand until the coroutine gives way to the loop's other work; fewer if it
  /// takes long between them.
  static constexpr unsigned ready_limit = 100;

  explicit host(steps::detail::step& s) noexcept : step(&s) {}

  /// Whether the next wait may be asked whether it is ready; else it gives way. Counts it.
  bool may_ask() noexcept {
    if (ready_left == ready_limit) look = core().begin_steps(ready_limit, since = {});
    if (ready_left <= look && ready_left != 0) look_at_clock();
    if (ready_left == 0) return false;
    --ready_left;
    return true;
  }
  void look_at_clock() noexcept {
    look = core().look_at_clock(ready_limit - ready_left, ready_left, since);
    if (look == async::detail::turn_pace::is_up) ready_left = look = 0;
  }
  async::detail::loop_core& core() const noexcept { return *step->flow_->core; }

  steps::detail::step* step;
  unsigned ready_left = ready_limit;                  // 0: the next wait gives way
  unsigned look = 0;                                  // the number of waits left at which to look at the clock
  async::detail::loop_core::time_point since{};       // see turn_pace
  bool gives_way = false;                             // it has suspended to go on in another turn
  std::coroutine_handle<> next;                       // resumed when the step's turn comes
  async::detail::coroutine_wait* looks_at = nullptr;  // its wait, which looks once more before
  steps::detail::step* inner = nullptr;               // its wait for tasks, which run in this sub-step
};

/// The base of promises that know their host.
struct hosted_promise {
  host* home = nullptr;  // null: the coroutine is no step

  static void* operator new(std::size_t size) { return async::detail::allocate_block(size); }
  static void operator delete(void* frame, std::size_t size) noexcept { async::detail::free_block(frame, size); }
};

template <class P>
host* host_of(std::coroutine_handle<P> coroutine) noexcept {
  if constexpr (std::derived_from<P, hosted_promise>) {
    return coroutine.promise().home;
  } else {
    return nullptr;
  }
}

/// A wait of one coroutine, shared by its awaiter and the trigger that ends it.
///
/// A coroutine that is no step resumes where its trigger fires. That may be before the function that began the
/// operation has returned. A trigger that fires inside that function, on the same stack, resumes nothing: the coroutine
/// goes on when the function has returned.
struct operation_base : async::detail::message {
  explicit operation_base(void (*d)(operation_base&) noexcept) noexcept : message(&arrived), destroy(d) {}

  void release() noexcept {
    if (state.drop()) destroy(*this);
  }

  /// By the awaiter, before it gives the trigger away, which publishes this.
  template <class P>
  void prepare(std::coroutine_handle<P> suspending) noexcept {
    coroutine = suspending;
    home = host_of(suspending);
    hosted = home != nullptr;
    if (hosted) loop = async::detail::loop_ref(*home->step->flow_->core);
    starter = async::detail::thread_token();
    starts = true;
  }
  /// True inside the function that begins the operation. `starts` is the starter's.
  bool is_start() const noexcept { return starter == async::detail::thread_token() && starts; }

  /// By the trigger, as its last call: the outcome is stored.
  void finish() noexcept {
    if (is_start()) fired_at_start = true;
    if (is_start() || !state.is_wanted()) return release();
    if (!loop) return resume_here();
    if (hosted && async::detail::current_loop == loop.get() && home != nullptr && is_parked(*home)) {
      return arrived(*this, async::detail::delivery::on_loop);
    }
    if (loop.push(*this)) return;
    if (!hosted) return resume_here();  // the loop that it would be resumed on has gone
    release();
  }
  /// By the awaiter, as the coroutine is destroyed: on the thread that would resume it, so never while it resumes.
  void abandon() noexcept {
    home = nullptr;
    state.abandon();
    release();
  }
  /// False: the coroutine does not wait any more.
  bool is_wanted() const noexcept { return state.is_wanted(); }

  static bool is_parked(const host& h) noexcept {
    const steps::detail::flow& f = *h.step->flow_;
    return f.is_waiting() && f.cur == h.step;
  }
  void resume_here() noexcept {
    const std::coroutine_handle<> waited = coroutine;
    release();  // the awaiter has the outcome
    const async::detail::own_exceptions of_coroutine;
    waited.resume();
  }
  static void arrived(message& m, async::detail::delivery how) {
    auto& self = static_cast<operation_base&>(m);
    if (!self.hosted) return self.is_wanted() ? self.resume_here() : self.release();
    if (how == async::detail::delivery::on_loop && self.home != nullptr && is_parked(*self.home)) {
      self.home->next = self.coroutine;
      steps::detail::wake(*self.home->step->flow_, steps::detail::verdict::rerun);
    }
    self.release();
  }

  operation_state state;  // the trigger's reference goes to the message
  std::coroutine_handle<> coroutine;
  host* home = nullptr;  // the loop thread's; null: the coroutine is no step, or has been destroyed
  bool hosted = false;
  bool starts = false;  // the starter's, as is the next
  bool fired_at_start = false;
  async::detail::biased_lock::token starter = 0;
  async::detail::loop_ref loop;  // none: the coroutine is resumed where the operation finishes
  void (*const destroy)(operation_base&) noexcept;
};

struct nothing {};

/// The type in which an operation stores its value.
template <class R>
using outcome_t =
    std::conditional_t<std::is_void_v<R>, nothing,
                       std::conditional_t<std::is_lvalue_reference_v<R>,
                                          std::reference_wrapper<std::remove_reference_t<R>>, std::remove_cvref_t<R>>>;

/// The type in which a stored value is passed on: in place of an rvalue reference, a value.
template <class R>
using passed_t = std::conditional_t<std::is_rvalue_reference_v<R>, std::remove_cvref_t<R>, R>;

template <class R>
struct operation : operation_base {
  using operation_base::operation_base;

  std::optional<outcome_t<R>> value;
  std::exception_ptr error;
};

/// The same with a Tie, by which the awaiter withdraws. The Tie is not in the awaiter, which may be gone before start()
/// has filled it in.
template <class R, class Tie>
struct tied_operation final : operation<R> {
  tied_operation() noexcept : operation<R>(&destroyed) {}

  static tied_operation& make() {
    return *::new (async::detail::allocate_block(sizeof(tied_operation), alignof(tied_operation))) tied_operation;
  }
  static void destroyed(operation_base& b) noexcept {
    auto& self = static_cast<tied_operation&>(b);
#if ASYNCSTEPS_TSAN
    const async::detail::unseen_by_tsan quiet;  // an exception's count of references is in the standard library
#endif
    std::destroy_at(&self);
    async::detail::free_block(&self, sizeof(tied_operation), alignof(tied_operation));
  }

  [[no_unique_address]] Tie tie;
};

/// Ends an operation, once, from any thread. Its destructor ends it with a broken promise if nothing else has, which
/// is a dropped_call when the pool discards the operation.
template <class R>
class trigger {
 public:
  explicit trigger(operation<R>& o) noexcept : operation_(&o) {}
  trigger(trigger&& other) noexcept : operation_(std::exchange(other.operation_, nullptr)) {}
  trigger& operator=(trigger&&) = delete;
  ~trigger() {
    if (operation_ == nullptr) return;
    if (!operation_->is_wanted()) {
      operation_->release();
      return;
    }
    finish(async::detail::error_of_unmade());
  }

  /// Stores the value, which finish() publishes. Its constructor may throw.
  template <class... A>
  void keep(A&&... value) {
    operation_->value.emplace(std::forward<A>(value)...);
  }
  /// Publishes the error or, without one, the stored value.
  void finish(std::exception_ptr error = nullptr) noexcept {
    operation_->error = std::move(error);
    std::exchange(operation_, nullptr)->finish();
  }
  bool is_wanted() const noexcept { return operation_->is_wanted(); }
  /// Resumes the coroutine on this loop, unless it is a step or has a loop already.
  void resume_on(async::detail::loop_core& core) noexcept {
    if (operation_ != nullptr && !operation_->loop) operation_->loop = async::detail::loop_ref(core);
  }

  /// Calls f() and passes on what it returns or throws.
  template <class F>
  void run(F&& f) noexcept {
    std::exception_ptr error;  // published outside the handler
    try {
      if constexpr (std::is_void_v<R>) {
        f();
        keep();
      } else {
        keep(f());
      }
    } catch (...) {
      error = std::current_exception();
    }
    finish(std::move(error));
  }

 private:
  operation<R>* operation_;
};

/// Marks awaiters that a coroutine may use as a step: their destructor withdraws from the wait.
struct withdrawable {};

/// An awaiter that begins an operation with Self::start(trigger<R>), or start(trigger<R>, Tie&), when the coroutine has
/// suspended. The awaiter may be gone before start() has returned: start() must not write to it. When start() throws,
/// nothing has begun, and the coroutine does not wait.
template <class Self, class R, class Tie = nothing>
class operation_awaiter : withdrawable {
 public:
  operation_awaiter() noexcept = default;
  operation_awaiter(const operation_awaiter&) = delete;
  operation_awaiter& operator=(const operation_awaiter&) = delete;

  bool await_ready() const noexcept { return false; }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> coroutine) {
    using made = tied_operation<R, Tie>;
    made& mine = made::make();
    operation_ = &mine;
    mine.prepare(coroutine);
    if constexpr (requires(Self& s) { s.resume_on(mine.loop); }) {
      if (!mine.hosted) static_cast<Self&>(*this).resume_on(mine.loop);
    }
    struct started {
      made& o;
      ~started() {
        o.starts = false;
        o.release();
      }
    } const guard{mine};
    try {
      if constexpr (std::is_same_v<Tie, nothing>) {
        static_cast<Self&>(*this).start(trigger<R>(mine));
      } else {
        static_cast<Self&>(*this).start(trigger<R>(mine), mine.tie);
      }
    } catch (...) {
      withdraw();  // nothing has begun
      throw;
    }
    // Unless it has fired above, this object may be gone.
    return !mine.fired_at_start;
  }
  R await_resume() {
    struct releaser {
      operation<R>& o;
      ~releaser() { o.release(); }
    } const mine{*std::exchange(operation_, nullptr)};
    if (mine.o.error != nullptr) std::rethrow_exception(std::move(mine.o.error));
    if constexpr (std::is_lvalue_reference_v<R>) {
      return mine.o.value->get();
    } else if constexpr (!std::is_void_v<R>) {
      return std::move(*mine.o.value);
    }
  }

 protected:
  ~operation_awaiter() { withdraw(); }
  bool waits() const noexcept { return operation_ != nullptr; }
  /// Withdraws from the wait, if there is one, and returns its Tie.
  Tie withdraw() noexcept {
    if (operation_ == nullptr) return {};
    Tie result = std::move(operation_->tie);
    std::exchange(operation_, nullptr)->abandon();
    return result;
  }

 private:
  tied_operation<R, Tie>* operation_ = nullptr;
};

}  // namespace steps::inline v0_1::interop::detail
