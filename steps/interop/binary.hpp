// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <type_traits>  // for decay_t
#include <utility>      // for forward

#include "steps/iasyncsteps.hpp"                  // for IAsyncSteps
#include "steps/interop/binary.h"                 // for FutoInAsyncSteps, FutoInSync
#include "steps/interop/detail/binary_calls.hpp"  // for binary_api, binary_steps
#include "steps/interop/detail/binary_sync.hpp"   // for sync_with
#include "steps/interop/detail/lock_holder.hpp"   // for lockable
#include "steps/interop/detail/wrap.hpp"          // for wrap
#include "steps/isync.hpp"                        // for ISync

/// Flows across languages: FTN12's binary interface (2.7). steps/interop/binary.h declares it for C.
///
/// Results are converted where both sides have a type for them:
///   bool, int8_t to uint64_t, float, double      FTN_TYPE_BOOL to FTN_TYPE_DOUBLE; the same size and signedness
///   std::string, std::u16string, std::u32string  FTN_TYPE_STRING, FTN_TYPE_STRING16, FTN_TYPE_STRING32
///   std::vector of such numbers, not of bool     the number's type with FTN_TYPE_ARRAY
///   binary_value                                 any type
/// A result of another type reaches C as FTN_TYPE_CUSTOM_OBJECT with its address, for the time of the call.
namespace steps::inline v0_1::interop {

/// A flow for a function in C.
///
///   flow.add([](IAsyncSteps& asi) { fetch_in_c(&binary(asi), "/index.html"); });
///
/// Use it in a step function, or with the root of a flow that is being built. Do not use it in C++ code of one program:
/// hand `asi` itself over.
///
/// Threads     the flow's loop; what the functions of the table allow is in binary.h.
/// Exceptions  std::bad_alloc; Error outside of a running step function, and when a flow with fixed memory has no room.
/// Memory      an object of asi.stack(). In a flow with fixed memory, results of steps in C are in other memory.
/// Lifetime    the step's; of a root, until it is moved or its next execution is built.
inline FutoInAsyncSteps& binary(IAsyncSteps& asi) {
  return asi.stack<detail::binary_steps>(&detail::binary_api(), &asi);
}

/// Puts steps in C++ into a step of whatever runtime. f(IAsyncSteps&) adds them; the first one gets `args`, the results
/// of the last one are those of the step.
///
///   extern "C" void greet(FutoInAsyncSteps* bsi, void*, const FutoInArgs* args) {
///     wrap(*bsi, args, [](IAsyncSteps& asi) { asi.add([](IAsyncSteps& inner, std::string name) { … }); });
///   }
///
/// In a flow of this library they become sub-steps of the step. In any other they are a flow of their own, on a loop
/// that the foreign one drives by sched_immediate() and sched_deferred(). The foreign step waits for it; when it ends
/// early, the flow is cancelled. Loops of the foreign flow are not left from within.
///
/// Use it in the function of a step, to write in C++ what a program in another language calls. Do not use it where the
/// step has other sub-steps, and in a foreign flow not in an error handler.
///
/// Threads     the foreign loop's. Its sched_immediate() is called from any thread that ends a wait of the flow, under
///             a lock that steps take, too: it must not wait for a lock that is held while steps or callbacks run.
///             After its sched_cancel() a callback must not run.
/// Exceptions  none. The step's error is what f throws, lack of memory, more than four results or one that C has no
///             type for, and in a foreign flow an object with a cleanup among `args`: it is freed before the steps run.
/// Lifetime    f is called before wrap() returns. Objects that its steps refer to outlive the step.
template <class F>
void wrap(FutoInAsyncSteps& bsi, const FutoInArgs* args, F&& f) noexcept {
  detail::wrap(bsi, args, std::forward<F>(f));
}
/// The same for a step that takes no results.
template <class F>
void wrap(FutoInAsyncSteps& bsi, F&& f) noexcept {
  detail::wrap(bsi, nullptr, std::forward<F>(f));
}

/// A Mutex, Throttle, Limiter or other object for flows in C and of other runtimes: what addSync() takes.
///
///   Mutex mutex;
///   binary_sync in_c(mutex);
///   bsi->api->addSync(bsi, &in_c.get(), data, critical, nullptr);
///
/// Flows of this library enter the object itself. For any other, lock() has a flow here wait in the object's queue. A
/// root that calls lock() again, in whatever branch, has the same place, until as many calls of unlock().
///
/// Threads     any number of flows on their loops.
/// Exceptions  std::bad_alloc.
/// Lifetime    outlives the flows that use it; the object outlives it.
class binary_sync {
 public:
  /// For `object`, which outlives it.
  explicit binary_sync(ISync& object) noexcept : lockable_(object) {}
  binary_sync(const binary_sync&) = delete;
  binary_sync& operator=(const binary_sync&) = delete;

  /// For C.
  FutoInSync& get() noexcept { return lockable_; }

 private:
  detail::lockable lockable_;
};

/// asi.sync() with an object of another runtime.
///
///   steps::interop::sync(asi, *lock_in_c, [](IAsyncSteps& inner) { … });
///
/// Use it for objects that are only known by their functions in C. Do not use it for objects of this library.
///
/// Threads     the flow's loop; the object's functions are called there.
/// Exceptions  std::bad_alloc, and what the constructors of the functions throw.
/// Lifetime    the object outlives the flow.
template <class F>
void sync(IAsyncSteps& asi, FutoInSync& object, F&& f) {
  static_assert(steps::detail::is_step_function<std::decay_t<F>>);
  detail::sync_with(asi, object, detail::binary_api(), std::forward<F>(f));
}
/// The same with an error handler, which runs before the place is given back.
template <class F, class E>
void sync(IAsyncSteps& asi, FutoInSync& object, F&& f, E&& onerror) {
  static_assert(steps::detail::is_step_function<std::decay_t<F>>);
  static_assert(steps::detail::is_error_handler<std::decay_t<E>>);
  detail::sync_with(asi, object, detail::binary_api(), std::forward<F>(f), std::forward<E>(onerror));
}

}  // namespace steps::inline v0_1::interop
