// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <any>          // for any, any_cast
#include <cstddef>      // for ptrdiff_t, size_t
#include <cstdint>      // for uint32_t
#include <exception>    // for exception, exception_ptr
#include <memory>       // for shared_ptr, unique_ptr
#include <new>          // for bad_alloc
#include <string_view>  // for string_view
#include <utility>      // for move

#include "async/detail/base/chrono.hpp"           // for milliseconds
#include "async/detail/base/config.hpp"           // for ASYNCSTEPS_SHARED
#include "async/task.hpp"                         // for task
#include "steps/asyncsteps.hpp"                   // for AsyncSteps
#include "steps/iasyncsteps.hpp"                  // for IAsyncSteps
#include "steps/interop/detail/binary_steps.hpp"  // for binary_steps, c_step, c_handler
#include "steps/interop/detail/binary_sync.hpp"   // for sync_with
#include "steps/interop/detail/c_callbacks.hpp"   // for c_callbacks
#include "steps/interop/detail/lock_holder.hpp"   // for lockable, binary_sync_api

/// The flows of this library behind FTN12's table of functions (2.7.2).
namespace steps::inline v0_1::interop::detail {

/// The functions of the table. No exception leaves them.
struct binary_calls {
  static IAsyncSteps& of(FutoInAsyncSteps* bsi) noexcept { return *static_cast<binary_steps*>(bsi)->asi; }

  /// Calls f(asi). An exception becomes the error of the running step, or of the root at its start.
  template <class F>
  static void call(FutoInAsyncSteps* bsi, F&& f) noexcept {
    IAsyncSteps& asi = of(bsi);
    try {
      f(asi);
    } catch (const steps::detail::unwinding& e) {
      if (!asi.flow_->is_failing()) fail(asi, e.code(), e.explanation());
    } catch (const Error& e) {
      fail(asi, e.code(), e.explanation());
    } catch (const std::bad_alloc&) {
      fail(asi, errors::InternalError, "no memory");
    } catch (const std::exception& e) {
      fail(asi, errors::InternalError, e.what());
    } catch (...) {
      fail(asi, errors::InternalError, "an exception that is no std::exception");
    }
  }
  static void fail(IAsyncSteps& asi, ErrorCode code, std::string_view info) noexcept {
    steps::detail::flow& f = *asi.flow_;
    try {
      if (async::detail::current_loop == f.core && f.run_by != nullptr) return asi.errorNoThrow(code, info);
      steps::detail::misuse_anywhere(f, "a call from C has failed");
    } catch (...) {  // no memory for the message: a step that waits goes on doing so
    }
  }
  /// A step and a callback need a function.
  template <class Callback>
  static Callback given(Callback f) {
    if (f == nullptr) throw Error(errors::InternalError, "a step or callback in C without a function");
    return f;
  }
  template <class F>
  static void with_handler(FutoInAsyncSteps* bsi, void* data, FutoInAsyncSteps_error_callback eh, F&& add) {
    if (eh != nullptr) {
      add(c_handler(bsi->api, eh, data));
    } else {
      add();
    }
  }
  static std::chrono::milliseconds ms(std::uint32_t count) noexcept { return std::chrono::milliseconds(count); }

  static void add(FutoInAsyncSteps* bsi, void* data, FutoInAsyncSteps_execute_callback f,
                  FutoInAsyncSteps_error_callback eh) {
    call(bsi, [&](IAsyncSteps& asi) {
      with_handler(bsi, data, eh,
                   [&](auto... handler) { asi.add(c_step(bsi->api, given(f), data), std::move(handler)...); });
    });
  }
  static FutoInAsyncSteps* parallel(FutoInAsyncSteps* bsi, void* data, FutoInAsyncSteps_error_callback eh) {
    FutoInAsyncSteps* made = nullptr;
    call(bsi, [&](IAsyncSteps& asi) {
      binary_steps& face = asi.stack<binary_steps>(bsi->api, nullptr);
      with_handler(bsi, data, eh, [&](auto... handler) { face.asi = &asi.parallel(std::move(handler)...); });
      if (face.asi != &asi) made = &face;  // else parallel() was out of place, and the flow knows
    });
    return made;
  }
  static void* state_variable(FutoInAsyncSteps* bsi, void* data, const char* name, void* (*allocate)(void*),
                              void (*cleanup)(void*, void*)) {
    void* found = nullptr;
    call(bsi, [&](IAsyncSteps& asi) {
      if (allocate == nullptr && (found = fact(asi.state(), name)) != nullptr) return;
      std::any made;
      const std::any* value = steps::detail::state_access::keep(asi.state(), name, made);
      if (value == nullptr && allocate != nullptr) {
        struct owner {
          void* data;
          void (*cleanup)(void*, void*);
          void operator()(void* object) const {
            if (object != nullptr && cleanup != nullptr) cleanup(data, object);
          }
        };
        std::unique_ptr<void, owner> object(allocate(data), owner{data, cleanup});
        if (object == nullptr) return;
        made = std::shared_ptr<void>(std::move(object));
        value = steps::detail::state_access::keep(asi.state(), name, made);
      }
      if (const auto* const kept = std::any_cast<std::shared_ptr<void>>(value)) found = kept->get();
    });
    return found;
  }
  /// The value of a key that FTN12 reserves; null for any other.
  static void* fact(const State& state, std::string_view name) noexcept {
    if (name == "error_info") return const_cast<char*>(state.error_info().c_str());
    // The second spelling is that of the specification.
    if (name != "last_exception" && name != "last_execption") return nullptr;
    return const_cast<std::exception_ptr*>(&state.last_exception());
  }
  static void* stack(FutoInAsyncSteps* bsi, std::size_t size, void (*cleanup)(void*)) {
    void* made = nullptr;
    call(bsi, [&](IAsyncSteps& asi) { made = asi.stack(size, cleanup); });
    return made;
  }
  static void success(FutoInAsyncSteps* bsi, FutoInArgs* args) {
    call(bsi, [&](IAsyncSteps& asi) {
      if (args == nullptr) return asi.success();
      if (args->arg0.type == nullptr) {
        for (FutoInBinaryValue& v : args->args) futoin_reset_binval(&v);
        return asi.success();
      }
      asi.success(binary_results(*args, static_cast<binary_steps*>(bsi)->lent_here()));
    });
  }
  static void handle_error(FutoInAsyncSteps* bsi, const char* code, const char* info) {
    call(bsi, [&](IAsyncSteps& asi) {
      asi.errorNoThrow(ErrorCode(code), info != nullptr ? std::string_view(info) : std::string_view());
    });
  }
  static void set_timeout(FutoInAsyncSteps* bsi, std::uint32_t timeout_ms) {
    call(bsi, [&](IAsyncSteps& asi) { asi.setTimeout(ms(timeout_ms)); });
  }
  static void set_cancel(FutoInAsyncSteps* bsi, void* data, FutoInAsyncSteps_cancel_callback ch) {
    call(bsi, [&](IAsyncSteps& asi) { asi.setCancel(c_cancel(bsi->api, given(ch), data)); });
  }
  static void wait_external(FutoInAsyncSteps* bsi) {
    call(bsi, [](IAsyncSteps& asi) { asi.waitExternal(); });
  }
  static void loop(FutoInAsyncSteps* bsi, void* data, void (*f)(FutoInAsyncSteps*, void*), const char* label) {
    call(bsi, [&](IAsyncSteps& asi) { asi.loop(c_body(bsi->api, given(f), data), label); });
  }
  static void repeat(FutoInAsyncSteps* bsi, void* data, std::size_t count,
                     void (*f)(FutoInAsyncSteps*, void*, std::size_t), const char* label) {
    call(bsi, [&](IAsyncSteps& asi) { asi.repeat(count, c_counted_body(bsi->api, given(f), data), label); });
  }
  static void break_loop(FutoInAsyncSteps* bsi, const char* label) {
    call(bsi, [&](IAsyncSteps& asi) { asi.breakLoopNoThrow(label); });
  }
  static void continue_loop(FutoInAsyncSteps* bsi, const char* label) {
    call(bsi, [&](IAsyncSteps& asi) { asi.continueLoopNoThrow(label); });
  }
  static void execute(FutoInAsyncSteps* bsi, void* data, FutoInAsyncSteps_error_callback unhandled_error) {
    IAsyncSteps& asi = of(bsi);
    try {
      const bool starts = (asi.flags_ & steps::detail::record_flag::is_root) != 0 && !asi.flow_->is_known_to_execute();
      if (starts && unhandled_error != nullptr) {
        asi.state().set_unhandled_error(c_unhandled(*static_cast<binary_steps*>(bsi), data, unhandled_error));
      } else if (starts && asi.flow_->state != nullptr) {
        steps::detail::state_access::unhandled(*asi.flow_->state).remove<c_unhandled>();
      }
      asi.execute();
    } catch (...) {
      if (unhandled_error != nullptr) return unhandled_error(bsi, data, errors::InternalError.c_str());
      steps::detail::report_exception(*asi.flow_, false);
    }
  }
  static void cancel(FutoInAsyncSteps* bsi) {
    call(bsi, [](IAsyncSteps& asi) { asi.cancel(); });
  }
  static void add_sync(FutoInAsyncSteps* bsi, FutoInSync* object, void* data, FutoInAsyncSteps_execute_callback f,
                       FutoInAsyncSteps_error_callback eh) {
    call(bsi, [&](IAsyncSteps& asi) {
      with_handler(bsi, data, eh, [&](auto... handler) {
        c_step step(bsi->api, given(f), data);
        if (object->api == &binary_sync_api()) {
          asi.sync(static_cast<lockable*>(object)->object, std::move(step), std::move(handler)...);
        } else {
          sync_with(asi, *object, *bsi->api, std::move(step), std::move(handler)...);
        }
      });
    });
  }
  static std::ptrdiff_t root_id(FutoInAsyncSteps* bsi) {
    const steps::detail::flow* f = of(bsi).flow_;
    while (f->root.parent_ != nullptr) f = f->root.parent_->flow_;
    return reinterpret_cast<std::ptrdiff_t>(f);
  }
  static int is_valid(FutoInAsyncSteps* bsi) {
    const auto* const face = static_cast<binary_steps*>(bsi);
    if (face == nullptr || face->asi == nullptr) return 0;
    return (face->root == nullptr || !face->root->is_freed()) && *face->asi ? 1 : 0;
  }
  static FutoInAsyncSteps* new_instance(FutoInAsyncSteps* bsi) {
    FutoInAsyncSteps* made = nullptr;
    call(bsi, [&](IAsyncSteps& asi) { made = &binary_root::make(bsi->api, asi.newInstance<AsyncSteps>()); });
    return made;
  }
  static void free(FutoInAsyncSteps* bsi) {
    if (bsi != nullptr && static_cast<binary_steps*>(bsi)->root != nullptr) {
      static_cast<binary_steps*>(bsi)->root->free();
    }
  }
  static FutoInHandle sched_immediate(FutoInAsyncSteps* bsi, void* data, void (*cb)(void*)) {
    FutoInHandle made{};
    call(bsi, [&](IAsyncSteps& asi) {
      made = c_callbacks::all().add(data, given(cb),
                                    [&](async::task work) { return asi.tool().immediate(std::move(work)); });
    });
    return made;
  }
  static FutoInHandle sched_deferred(FutoInAsyncSteps* bsi, std::uint32_t delay_ms, void* data, void (*cb)(void*)) {
    FutoInHandle made{};
    call(bsi, [&](IAsyncSteps& asi) {
      made = c_callbacks::all().add(
          data, given(cb), [&](async::task work) { return asi.tool().deferred(ms(delay_ms), std::move(work)); });
    });
    return made;
  }
  static void sched_cancel(FutoInAsyncSteps*, FutoInHandle* handle) {
    if (c_callbacks* const of = c_callbacks::of(*handle)) of->cancel(*handle);
  }
  static int sched_is_valid(FutoInAsyncSteps*, FutoInHandle* handle) {
    c_callbacks* const of = c_callbacks::of(*handle);
    return of != nullptr && of->is_valid(*handle) ? 1 : 0;
  }
  static int is_same_thread(FutoInAsyncSteps* bsi) {
    async::detail::loop_core* const core = steps::detail::known_core_of(*of(bsi).flow_);
    return core != nullptr && core->is_same_thread() ? 1 : 0;
  }
};

ASYNCSTEPS_SHARED inline constexpr FutoInAsyncStepsAPI table_of_steps{{{
    &binary_calls::add,
    &binary_calls::parallel,
    &binary_calls::state_variable,
    &binary_calls::stack,
    &binary_calls::success,
    &binary_calls::handle_error,
    &binary_calls::set_timeout,
    &binary_calls::set_cancel,
    &binary_calls::wait_external,
    &binary_calls::loop,
    &binary_calls::repeat,
    &binary_calls::break_loop,
    &binary_calls::continue_loop,
    &binary_calls::execute,
    &binary_calls::cancel,
    &binary_calls::add_sync,
    &binary_calls::root_id,
    &binary_calls::is_valid,
    &binary_calls::new_instance,
    &binary_calls::free,
    &binary_calls::sched_immediate,
    &binary_calls::sched_deferred,
    &binary_calls::sched_cancel,
    &binary_calls::sched_is_valid,
    &binary_calls::is_same_thread,
}}};

/// The table by whose address a flow of this library is known.
inline const FutoInAsyncStepsAPI& binary_api() noexcept { return table_of_steps; }

}  // namespace steps::inline v0_1::interop::detail
