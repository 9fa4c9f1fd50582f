// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <memory>   // for unique_ptr
#include <utility>  // for move

#include "steps/iasyncsteps.hpp"                   // for IAsyncSteps
#include "steps/interop/binary.h"                  // for FutoInAsyncSteps, FutoInAsyncStepsAPI
#include "steps/interop/detail/binary_values.hpp"  // for binary_results, lent_results

/// Steps of this library as C sees them, and functions in C as steps of this library.
namespace steps::inline v0_1::interop::detail {

struct binary_root;

/// What C has of a step.
struct binary_steps : FutoInAsyncSteps {
  binary_steps(const FutoInAsyncStepsAPI* functions, IAsyncSteps* s) noexcept : FutoInAsyncSteps(functions), asi(s) {}

  /// The results that the function which is running has got; null on other threads.
  binary_results* lent_here() const noexcept {
    return async::detail::current_loop == asi->flow_->core ? lent : nullptr;
  }

  IAsyncSteps* asi;
  binary_results* lent = nullptr;  // while a function in C runs; the loop's thread only
  binary_root* root = nullptr;     // of newInstance()
};

/// A root of newInstance().
struct binary_root {
  binary_root(const FutoInAsyncStepsAPI* functions, std::unique_ptr<IAsyncSteps> r) noexcept
      : root(std::move(r)), face(functions, root.get()) {
    face.root = this;
  }

  std::unique_ptr<IAsyncSteps> root;
  binary_steps face;
};

/// A function of a step in C, kept by the step. Copied before its first call only.
template <class Callback>
struct c_function {
  c_function(const FutoInAsyncStepsAPI* functions, Callback f, void* d) noexcept
      : function(f), data(d), face(functions, nullptr) {}
  c_function(const c_function& other) noexcept : c_function(other.face.api, other.function, other.data) {}
  c_function& operator=(const c_function&) = delete;

  Callback function;
  void* data;
  binary_steps face;
};
struct c_step : c_function<FutoInAsyncSteps_execute_callback> {
  using c_function::c_function;
  void operator()(IAsyncSteps& asi, steps::detail::passed_results&& results) {
    lent_results lent(results);
    struct loan {
      binary_steps& face;
      ~loan() { face.lent = nullptr; }
    } const until_return{face};
    face.asi = &asi;
    face.lent = lent.owned();
    function(&face, data, &lent.args());
  }
};
struct c_handler : c_function<FutoInAsyncSteps_error_callback> {
  using c_function::c_function;
  void operator()(IAsyncSteps& asi, ErrorCode code) {
    face.asi = &asi;
    function(&face, data, code.c_str());
  }
};
struct c_cancel : c_function<FutoInAsyncSteps_cancel_callback> {
  using c_function::c_function;
  void operator()(IAsyncSteps& asi) {
    face.asi = &asi;
    function(&face, data);
  }
};
struct c_body : c_function<void (*)(FutoInAsyncSteps*, void*)> {
  using c_function::c_function;
  void operator()(IAsyncSteps& asi) {
    face.asi = &asi;
    function(&face, data);
  }
};
struct c_counted_body : c_function<void (*)(FutoInAsyncSteps*, void*, std::size_t)> {
  using c_function::c_function;
  void operator()(IAsyncSteps& asi, std::size_t i) {
    face.asi = &asi;
    function(&face, data, i);
  }
};

}  // namespace steps::inline v0_1::interop::detail
