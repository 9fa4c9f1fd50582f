// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>    // for max
#include <any>          // for any, any_cast, bad_any_cast
#include <cassert>      // programs use it: FutoIn's iasyncsteps.hpp includes it
#include <cstddef>      // for size_t
#include <cstdint>      // for uint32_t
#include <functional>   // for function
#include <new>          // for bad_alloc
#include <string>       // for string
#include <string_view>  // for string_view
#include <tuple>        // for tuple
#include <type_traits>  // for is_same_v
#include <utility>      // for move

#include "async/detail/base/chrono.hpp"  // for ceil, milliseconds, seconds
#include "async/event_loop.hpp"          // for event_loop
#include "async/task.hpp"                // for task
#include "steps/asyncsteps.hpp"          // for AsyncSteps
#include "steps/asynctool.hpp"           // for AsyncTool
#include "steps/limiter.hpp"             // for Limiter
#include "steps/mutex.hpp"               // for Mutex
#include "steps/nitrosteps.hpp"          // for NitroSteps
#include "steps/throttle.hpp"            // for Throttle

/// The names of the FutoIn C++ API, for programs that were written for it. Include this header in place of all
/// <futoin/...> headers.
///
///   futoin::ri::AsyncTool tool;
///   futoin::ri::AsyncSteps flow{tool};
///
/// Use it to move such a program over. Do not use it in new code: namespace steps has the same under its own names.
///
/// Such a program needs these changes:
/// - State values are std::any: they must be copyable. Instead of a std::unique_ptr keep a std::shared_ptr.
/// - Results do not stick: a step gets those of the step before it, no older ones.
/// - futoin::IAsyncTool is async::event_loop, and no base of ri::AsyncTool, which only converts to a reference. Instead
///   of `IAsyncTool* p = &tool` write `IAsyncTool* p = &tool.loop()`; instead of a std::unique_ptr<IAsyncTool> keep a
///   std::unique_ptr<ri::AsyncTool>. Handles are futoin::ri::AsyncTool::Handle, and copyable.
/// - No class can derive from IAsyncSteps, IAsyncTool or BaseState. Instead of an own tool embed an async::event_loop:
///   see its iterate(). A class derived from ISync implements the functions of steps::ISync instead of lock() and
///   unlock(), which cannot be called either: write asi.sync(object, f).
/// - ExtError is derived from Error: put its catch clause first.
/// - Branches of parallel() take turns step by step; there one runs on until it waits. Where that order matters, write
///   parallel(steps::BranchTurns::burst) or parallel(on_error, steps::BranchTurns::burst).
/// - IAsyncTool::iterate() gives its delay in nanoseconds: call that of ri::AsyncTool, which gives milliseconds.
/// - A Throttle's period begins with the first entry, not with the construction. The limit is the same. Where work has
///   to begin at fixed moments, write asi.every(period, f).
/// - error() from outside of step functions throws as there, but the handler runs in the loop's next turn, not within
///   the call: move what follows the call into the handler, or into an immediate() after it.
/// - In unhandled-error hooks std::current_exception() is null: state().last_exception() has the exception.
/// - A root is false while it executes, also a NitroSteps, which is always true there: in a step ask its own `asi`.
/// - `bool ok = asi;` and the same of handles need a static_cast<bool>; `if (asi)` does not.
/// - error_info() is a view that converts to std::string; LoopLabel has view() instead of a conversion to const char*.
/// - The constants of futoin::errors are of type ErrorCode: to make or extend a std::string, write
/// errors::Timeout.c_str().
/// - Instead of forward declarations, such as `namespace futoin { class IAsyncSteps; }`, include this header.
/// - Nested names of the API's own machinery are not there. Instead of ExecPass, ErrorPass, CancelPass and
///   ExecHandler take any callable by a template parameter, or a std::function; instead of CallbackPass an async::task,
///   of IAsyncTool::Callback an ri::AsyncTool::Callback. Instead of IAsyncTool::milliseconds write
///   std::chrono::milliseconds, of IAsyncTool::CycleResult ri::AsyncTool::CycleResult, of BaseState::key_type
///   std::string. StateMap has no other form: use state().
/// - Instead of asyncsteps::UnwindException catch and rethrow `...`. Omit shrink_to_fit(): release_memory() of the tool
///   gives memory back. Instead of Throttle::reset() make a new one.
/// - The binary interface is in steps/interop/binary.hpp. Instead of asi.binary() write steps::interop::binary(asi),
///   instead of asi.wrap(bsi) write steps::interop::wrap(*bsi, args, f): f adds the steps.
/// - Not there: FatalMsg, StackDestroyHandler, allocate() of memory pools (write new), mem_pool() of state() and of
///   IAsyncTool, sync_root_id(), IEventEmitter and ISpec; stats(): the numbers describe the memory of that
///   implementation, so omit what reads them; nor copyFrom(), which FTN12 deprecates: write a function that adds the
///   steps and sets the state that is missing, and call it for each flow that is to have them.
/// - cancel() from another thread returns before the flow is cancelled, success() before the step has ended, and
///   errorNoThrow() before its handlers have run: wait for the flow's promise(), or destroy the flow, before you free
///   what it uses or add steps to it.
/// - cancel() of a flow that does not execute keeps the steps that it has.
/// - stack() objects of a root live until its next execution is built, not as long as the root.
/// - setTimeout(), setCancel() and waitExternal() in an error handler are an InternalError: call them in a step
///   that the handler adds.
/// - Between turns, execute() and an immediate() of the same thread may run in the other order.
/// - A result of another type than the step takes is an InternalError, not a std::bad_cast; so is a break out of no
///   loop. catch_trace() leaves state().last_exception() as it is.
/// - Write add(f) instead of add(f, {}).
/// - NitroSteps takes memory for further steps, branches of parallel(), state() and texts from recycled blocks, as
///   AsyncSteps does, and has no limits of steps, timeouts, cancel handlers and stack() objects: MayAllocate<0> of
///   steps::nitro, with ArenaBytes, MaxParallel, BranchBytes and MaxStateBytes, puts all into the object.
/// - success() and error() of a step that has ended are ignored outside of step functions. Other misuse is an
///   InternalError at the step, not the end of the program.
namespace futoin::inline v0_1 {

using steps::ErrorCode;
using steps::IAsyncSteps;
using steps::ISync;
using IAsyncTool = async::event_loop;

using string = std::string;
using u16string = std::u16string;
using u32string = std::u32string;
inline std::string to_std(string text) noexcept { return text; }
inline string to_futoin(std::string text) noexcept { return text; }
/// A key for state() from an object's address.
template <class T>
string key_from_pointer(T* pointer) {
  return string(reinterpret_cast<const char*>(&pointer), sizeof(pointer));
}

using std::any;
using std::any_cast;
using std::bad_any_cast;

using RawErrorCode = const char*;
using ErrorMessage = string;
using Error = steps::Error;
/// An error with an info, thrown by user code.
class ExtError : public Error {
 public:
  using Error::Error;
};
/// The error codes; programs may add theirs to this namespace.
namespace errors {
using steps::errors::CommError;
using steps::errors::ConnectError;
using steps::errors::DefenseRejected;
using steps::errors::InternalError;
using steps::errors::InvalidRequest;
using steps::errors::InvokerError;
using steps::errors::LoopBreak;
using steps::errors::LoopCont;
using steps::errors::NotImplemented;
using steps::errors::NotSupportedVersion;
using steps::errors::PleaseReauth;
using steps::errors::SecurityError;
using steps::errors::Timeout;
using steps::errors::Unauthorized;
using steps::errors::UnknownInterface;
}  // namespace errors

namespace asyncsteps {
using BaseState = steps::State;
using State = steps::State;
using LoopLabel = steps::LoopLabel;
}  // namespace asyncsteps

/// Memory that can be given back; see ri::AsyncTool::mem_pool().
class IMemPool {
 public:
  IMemPool() = default;
  IMemPool(const IMemPool&) = delete;
  IMemPool& operator=(const IMemPool&) = delete;
  virtual void release_memory() noexcept = 0;

 protected:
  ~IMemPool() = default;
};
/// Accepted and not needed: memory is recycled per thread without a lock.
struct GlobalMemPool {
  static void set_thread_default(IMemPool&) noexcept {}
  static void reset_thread_default() noexcept {}
};

/// The implementations.
namespace ri {

/// An event loop with a thread of its own, or driven by iterate() when it is given a callback.
class AsyncTool : public steps::AsyncTool {
 public:
  using Callback = std::function<void()>;
  using PokeCallback = std::function<void()>;
  /// Accepted and not needed: memory is recycled per thread without a lock.
  struct Params {
    bool mempool_mutex = true;
  };

  /// The result of iterate(), with the delay rounded up.
  struct CycleResult {
    CycleResult(bool work, std::chrono::milliseconds next) noexcept : delay(next), have_work(work) {}

    std::chrono::milliseconds delay;
    bool have_work;
  };
  /// Callbacks that one iterate() runs at most, of either kind.
  static constexpr std::size_t BURST_COUNT = 256;

  AsyncTool() = default;
  AsyncTool(const Params&) {}                                                   // NOLINT: implicit as there
  AsyncTool(PokeCallback poke) : steps::AsyncTool(as_task(std::move(poke))) {}  // NOLINT: implicit as there
  AsyncTool(PokeCallback poke, const Params&) : AsyncTool(std::move(poke)) {}

  /// See steps::AsyncTool::iterate(). A timer may be 65.536 microseconds late; these are not worth another millisecond.
  CycleResult iterate() {
    constexpr std::chrono::nanoseconds tick(65'536);
    const auto result = steps::AsyncTool::iterate();
    return {result.have_work,
            std::chrono::ceil<std::chrono::milliseconds>((std::max)(result.delay - tick, std::chrono::nanoseconds(0)))};
  }

  /// Accepted and not needed: a size of objects.
  IMemPool& mem_pool(std::size_t = 1, bool = false) noexcept { return pool_; }

 private:
  class tool_memory final : public IMemPool {
   public:
    explicit tool_memory(AsyncTool& tool) noexcept : tool_(tool) {}
    void release_memory() noexcept override {
      try {
        tool_.release_memory();
      } catch (const std::bad_alloc&) {
        return;
      }
    }

   private:
    AsyncTool& tool_;
  };
  static async::task as_task(PokeCallback&& poke) { return poke ? async::task(std::move(poke)) : async::task(); }

  tool_memory pool_{*this};
};

using AsyncSteps = steps::AsyncSteps;

namespace nitro {
using steps::nitro::ArenaBytes;
using steps::nitro::BranchBytes;
using steps::nitro::BurstSize;
using steps::nitro::MaxCancels;
using steps::nitro::MaxErrorText;
using steps::nitro::MaxParallel;
using steps::nitro::MaxResultBytes;
using steps::nitro::MaxStackAllocs;
using steps::nitro::MaxStateBytes;
using steps::nitro::MaxSteps;
using steps::nitro::MaxTimeouts;
using steps::nitro::MayAllocate;
/// Accepted and not needed: loops, sync() and await() take their memory from the arena.
template <std::uint32_t N>
struct MaxExtended {};
/// At least the default, since it limits infos of errors, too.
template <std::uint32_t N>
using ErrorCodeMaxSize = steps::nitro::MaxErrorText<(std::max)(N, std::uint32_t{128})>;
}  // namespace nitro

namespace detail {

template <class Known, class... Limits>
struct nitro_steps;
template <class... Known>
struct nitro_steps<std::tuple<Known...>> {
  static constexpr std::uint32_t steps =
      ::steps::detail::limit_values<::steps::nitro::defaults, Known...>::template of<::steps::nitro::MaxSteps>;
  static constexpr std::uint32_t none = 0xFFFF'FFFF;  // there each branch has limits of its own
  using type = ::steps::NitroSteps<Known..., ::steps::nitro::MayAllocate<1>, ::steps::nitro::ArenaBytes<steps * 64>,
                                   ::steps::nitro::MaxSteps<none>, ::steps::nitro::MaxTimeouts<none>,
                                   ::steps::nitro::MaxCancels<none>, ::steps::nitro::MaxStackAllocs<none>,
                                   ::steps::nitro::MaxParallel<none>>;
};
template <class... Known, std::uint32_t N, class... Rest>
struct nitro_steps<std::tuple<Known...>, nitro::MaxExtended<N>, Rest...> : nitro_steps<std::tuple<Known...>, Rest...> {
};
template <class... Known, class First, class... Rest>
struct nitro_steps<std::tuple<Known...>, First, Rest...> : nitro_steps<std::tuple<Known..., First>, Rest...> {};

}  // namespace detail

template <class... Limits>
using NitroSteps = typename detail::nitro_steps<std::tuple<>, Limits...>::type;

namespace detail {

/// A sync object of namespace steps under another constructor, with the infos of the FutoIn implementation.
template <class Object>
class wrapped : public ISync {
 public:
  entry try_enter(bool nested) noexcept final { return object_.try_enter(nested); }
  entry enqueue(::steps::detail::sync_waiter& waiter, bool nested) noexcept final {
    return object_.enqueue(waiter, nested);
  }
  entry go_on(::steps::detail::sync_waiter& waiter, bool nested) noexcept final {
    return object_.go_on(waiter, nested);
  }
  void on_timer(::steps::detail::sync_waiter& waiter) noexcept final { object_.on_timer(waiter); }
  void end_wait(::steps::detail::sync_waiter& waiter) noexcept final { object_.end_wait(waiter); }
  void leave(bool nested) noexcept final { object_.leave(nested); }
  void give_back(::steps::detail::sync_waiter& waiter, bool nested) noexcept final {
    object_.give_back(waiter, nested);
  }
  bool withdraw(::steps::detail::sync_waiter& waiter) noexcept final { return object_.withdraw(waiter); }
  std::string_view explain(entry why) const noexcept final {
    const bool is_over_rate = std::is_same_v<Object, steps::Throttle> || why == entry::over_rate;
    return is_over_rate ? "Throttle queue limit" : "Mutex queue limit";
  }

 protected:
  template <class... A>
  explicit wrapped(A... limits) noexcept : object_(limits...) {}
  ~wrapped() = default;

 private:
  Object object_;
};

}  // namespace detail

/// A steps::Mutex.
class Mutex final : public detail::wrapped<steps::Mutex> {
 public:
  using size_type = std::size_t;

  Mutex() noexcept : Mutex(1) {}
  Mutex(size_type max, size_type queue_max = steps::Mutex::unlimited) noexcept  // NOLINT: implicit as there
      : wrapped(max, queue_max) {}
};
using ThreadlessMutex = Mutex;

/// A steps::Limiter with the defaults of FTN12 2.5: one flow inside, one a second, and no queue.
class Limiter final : public detail::wrapped<steps::Limiter> {
 public:
  using size_type = std::size_t;
  using milliseconds = std::chrono::milliseconds;

  /// The limits.
  struct Params {
    size_type concurrent = 1;
    size_type max_queue = 0;
    size_type rate = 1;
    milliseconds period{1000};
    size_type burst = 0;
  };

  Limiter() noexcept : Limiter(Params{}) {}
  explicit Limiter(const Params& p) noexcept
      : wrapped(steps::Limiter::Params{p.concurrent, p.max_queue, p.rate, p.period, p.burst}) {}
  Limiter(IAsyncTool&, const Params& p) noexcept : Limiter(p) {}
};
using ThreadlessLimiter = Limiter;

/// A steps::Throttle.
class Throttle final : public detail::wrapped<steps::Throttle> {
 public:
  using size_type = std::size_t;
  using milliseconds = std::chrono::milliseconds;

  Throttle(IAsyncTool&, size_type max, milliseconds period = std::chrono::seconds(1),
           size_type queue_max = steps::Throttle::unlimited) noexcept
      : wrapped(max, period, queue_max) {}
};
using ThreadlessThrottle = Throttle;

}  // namespace ri
}  // namespace futoin::inline v0_1
