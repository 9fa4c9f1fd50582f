// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <memory>   // for enable_shared_from_this, make_shared, shared_ptr, unique_ptr
#include <utility>  // for move

#include "async/detail/base/atomics.hpp"           // for atomic
#include "steps/iasyncsteps.hpp"                   // for IAsyncSteps
#include "steps/interop/binary.h"                  // for FutoInAsyncSteps, FutoInAsyncStepsAPI
#include "steps/interop/detail/binary_values.hpp"  // for binary_results, lent_results

/// Steps of this library as C sees them, and functions in C as steps of this library.
namespace steps::inline v0_1::interop::detail {

class binary_root;

/// The handle of a step in C.
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

/// A root of newInstance(), until free(). What C has of it remains as long as a hook of its flow may be called.
class binary_root : public std::enable_shared_from_this<binary_root> {
 public:
  static binary_steps& make(const FutoInAsyncStepsAPI* functions, std::unique_ptr<IAsyncSteps> root) {
    const auto made = std::make_shared<binary_root>(functions, std::move(root));
    made->self_ = made;
    return made->face;
  }
  binary_root(const FutoInAsyncStepsAPI* functions, std::unique_ptr<IAsyncSteps> r) noexcept
      : face(functions, r.get()), root_(std::move(r)) {
    face.root = this;
  }

  /// On any thread, once.
  void free() {
    const std::shared_ptr<binary_root> until_return = std::move(self_);
    freed_.store(true, std::memory_order_relaxed);  // relaxed: a hook that is called meanwhile is no error
    root_.reset();
  }
  bool is_freed() const noexcept { return freed_.load(std::memory_order_relaxed); }  // relaxed: as above

  binary_steps face;

 private:
  std::unique_ptr<IAsyncSteps> root_;
  std::shared_ptr<binary_root> self_;
  async::detail::atomic<bool> freed_{false};
};

/// A function in C for unhandled errors, kept by the state of a root.
class c_unhandled {
 public:
  c_unhandled(binary_steps& of, void* data, FutoInAsyncSteps_error_callback f) noexcept
      : function_(f), data_(data), functions_(of.api), asi_(of.asi) {
    if (of.root != nullptr) root_ = of.root->shared_from_this();
  }
  void operator()(ErrorCode code) const {
    if (root_ == nullptr) {
      binary_steps face(functions_, asi_);
      function_(&face, data_, code.c_str());
    } else if (!root_->is_freed()) {
      function_(&root_->face, data_, code.c_str());
    }
  }

 private:
  FutoInAsyncSteps_error_callback function_;
  void* data_;
  const FutoInAsyncStepsAPI* functions_;
  IAsyncSteps* asi_;
  std::shared_ptr<binary_root> root_;  // null: the root of a flow in C++
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
