// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <exception>  // for exception
#include <memory>     // for make_unique
#include <new>        // for placement new
#include <optional>   // for optional
#include <utility>    // for move

#include "steps/iasyncsteps.hpp"                   // for IAsyncSteps
#include "steps/interop/binary.h"                  // for FutoInAsyncSteps, FutoInArgs
#include "steps/interop/detail/binary_calls.hpp"   // for binary_api, binary_calls
#include "steps/interop/detail/binary_values.hpp"  // for binary_results
#include "steps/interop/detail/foreign_flow.hpp"   // for foreign_flow

/// Steps in C++ in a step of any runtime.
namespace steps::inline v0_1::interop::detail {

/// The flow that wrap() puts into the place of a step. The step's memory owns it.
class wrapped_flow final : public foreign_flow {
 public:
  /// f adds the steps to a flow. Null if the foreign flow has no memory.
  template <class F>
  static void begin(FutoInAsyncSteps& bsi, F&& f) {
    auto made = std::make_unique<wrapped_flow>(bsi);
    void* const place =
        bsi.api->stack(&bsi, sizeof(void*), [](void* p) { (*static_cast<wrapped_flow**>(p))->leave(); });
    if (place == nullptr) return;  // the foreign flow knows
    wrapped_flow& self = **::new (place) wrapped_flow*(made.release());
    f(self.flow());
    self.flow().add([&self](IAsyncSteps&, steps::detail::passed_results&& results) {
      self.results_.emplace(binary_results::of(results));
    });
    self.execute();
    bsi.api->waitExternal(&bsi);
    self.drive_soon();
  }

  explicit wrapped_flow(FutoInAsyncSteps& bsi) : foreign_flow(bsi), step_(bsi) {}

 private:
  /// The foreign step has ended. A step of this flow may have done that.
  void leave() {
    if (!is_in_turn()) {
      delete this;
      return;
    }
    part();
    is_left_ = true;
    flow().cancel();
  }
  bool has_turned() override {
    if (is_left_) {
      delete this;
      return true;
    }
    if (!has_ended()) return false;
    FutoInAsyncSteps& step = step_;
    async::future<void> ended = std::move(end());
    FutoInArgs results = results_ ? results_->release() : FutoInArgs{};
    part();  // the next line may delete this
    bool failed = false;
    with_error_of(ended, [&](const char* code, const char* info) {
      failed = true;
      step.api->handle_error(&step, code, info);
    });
    if (!failed) step.api->success(&step, &results);
    return true;
  }

  FutoInAsyncSteps& step_;
  std::optional<binary_results> results_;
  bool is_left_ = false;
};

/// Adds a step that passes on what is lent as `args`. `owner`: has the custom objects among them; null: somebody else.
/// `ends_later`: the function that has got them returns before the step runs.
inline void begin_with(IAsyncSteps& asi, const FutoInArgs* args, binary_results* owner, bool ends_later) {
  if (args == nullptr || args->arg0.type == nullptr) return;
  FutoInArgs copies = *args;
  for (FutoInBinaryValue& v : copies.args) {
    if (v.type == nullptr) break;
    const FutoInTypeFlags flags = v.type->flags;
    const bool is_custom = !is_number(flags) && !is_text(flags) && !is_array(flags);
    if (is_custom && ends_later && v.type->cleanup != nullptr) {
      throw Error(errors::InternalError, "wrap() cannot take an object over that another runtime frees");
    }
    if (v.type != &lent_object && (!is_custom || owner == nullptr || !owner->owns(v)))
      v.type = type_of(is_custom ? FutoInTypeFlags{FTN_TYPE_CUSTOM_OBJECT} : flags, false);
  }
  asi.add([results = binary_results(copies, owner)](IAsyncSteps& inner) mutable { inner.success(std::move(results)); });
}

template <class F>
void wrap(FutoInAsyncSteps& bsi, const FutoInArgs* args, F&& f) noexcept {
  if (bsi.api == &binary_api()) {
    return binary_calls::call(&bsi, [&](IAsyncSteps& asi) {
      begin_with(asi, args, static_cast<binary_steps&>(bsi).lent_here(), false);
      f(asi);
    });
  }
  try {
    wrapped_flow::begin(bsi, [&](IAsyncSteps& root) {
      begin_with(root, args, nullptr, true);
      f(root);
    });
  } catch (const Error& e) {
    bsi.api->handle_error(&bsi, e.code().c_str(), e.error_info().c_str());
  } catch (const std::exception& e) {
    bsi.api->handle_error(&bsi, e.what(), nullptr);
  } catch (...) {
    bsi.api->handle_error(&bsi, errors::InternalError.c_str(), "an exception that is no std::exception");
  }
}

}  // namespace steps::inline v0_1::interop::detail
