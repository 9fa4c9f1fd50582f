// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <exception>    // for exception_ptr
#include <tuple>        // for get
#include <type_traits>  // for is_void_v
#include <utility>      // for move

#include "async/detail/call/call_result.hpp"         // for free_state
#include "async/detail/call/result_state.hpp"        // for result, result_state
#include "async/detail/future/broken_promise.hpp"    // for dropped_promise
#include "async/detail/future/result_word.hpp"       // for run_all
#include "async/errors.hpp"                          // for dropped_call
#include "steps/detail/engine/step_record.hpp"       // for take_results
#include "steps/detail/flow/promise.hpp"             // for promise_base
#include "steps/detail/root/flow_control_block.hpp"  // for end_execution

/// The shared state of a flow's future.
namespace steps::inline v0_1::detail {

/// Is made ready by the end of a flow, with the last step's result or the error. The flow has the maker's reference.
template <class T>
class flow_result : public async::detail::result<T>, public promise_base {
 public:
  void end(flow& f, bool failed) override {
    bool has_value = std::is_void_v<T> && !failed;
    if constexpr (!std::is_void_v<T>) {
      guarded(f, [&] {
        using wanted = pack<T>;
        if (failed) return;
        if (f.tag == &wanted::tag || has_results(f, wanted::tag)) [[likely]] {
          this->value.set(std::get<0>(take_results<wanted>(f)));
          has_value = true;
        } else {
          set_mismatch(f, wanted::tag, "the flow's future");
        }
      });
    }
    if (!has_value) {  // not failing: the result has thrown as it was moved, and its destructor has cancelled the flow
      this->error =
          f.is_failing() ? exception_of(f) : async::detail::dropped_promise(async::dropped_call::reason::cancelled);
    }
    end_execution(f);
    finish();
  }
  void cancelled() noexcept override {
    if (this->error == nullptr) this->error = async::detail::dropped_promise(async::dropped_call::reason::cancelled);
    finish();
  }
  void set_reason(std::exception_ptr why) noexcept override { this->error = std::move(why); }

 protected:
  using async::detail::result<T>::result;
  ~flow_result() = default;

 private:
  /// The flow may be gone.
  void finish() noexcept {
    async::detail::run_all(this->publish());
    this->release();
  }
};

/// The result of promise().
template <class T>
class promised_flow final : public flow_result<T> {
 public:
  promised_flow() noexcept : flow_result<T>(how) { this->word.take(); }

 private:
  static constexpr async::detail::result_state::operations how{nullptr, nullptr, nullptr,
                                                               &async::detail::free_state<promised_flow>};
};

}  // namespace steps::inline v0_1::detail
