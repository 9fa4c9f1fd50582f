// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>      // for uintptr_t
#include <memory>       // for destroy_at
#include <string_view>  // for string_view

#include "async/detail/base/config.hpp"              // for ASYNCSTEPS_FUNCTION
#include "steps/detail/engine/ending.hpp"            // for leave_scopes
#include "steps/detail/root/flow_control_block.hpp"  // for detach_control_block

/// Objects and memory that outlive an execution: they are cleared before the next one, or with the flow.
namespace steps::inline v0_1::detail {

/// The objects of the root have destructors of users. The flow does not execute, so none of them can cancel it.
void leave_root_scopes(flow& f) noexcept;
bool refuse_to_begin(flow& f) noexcept;
/// The mistake of such a destructor.
inline constexpr std::string_view used_by_remains = "an object of the last execution uses the flow in its destructor";
/// The same before the next execution is built. False: one of them has destroyed the flow, which is gone.
bool leave_root_scopes_anew(flow& f) noexcept;

inline void clear_remains(flow& f) noexcept {
  if (f.scopes != nullptr) [[unlikely]]
    leave_root_scopes(f);
  f.clear_remains();
  set_top(f, f.root.sub_end_ = arena_of(f));
  drop_spare_chunk(f);
}
/// The same before the next execution is built. False: called by the destructor of such an object, and the mistake is
/// known; or one has destroyed the flow, which is gone.
inline bool begin_anew(flow& f) noexcept {
  if (!f.has_remains()) return true;
  if (f.is_running()) [[unlikely]]
    return refuse_to_begin(f);
  if (f.scopes != nullptr && !leave_root_scopes_anew(f)) [[unlikely]]
    return false;
  clear_remains(f);
  return true;
}

/// Calls destroy() on what belongs to a root that goes, or to its steps, which have destructors of users. Each use of
/// the root by these is a mistake, as with objects of the last execution.
template <class F>
void destroy_with_root(flow& f, F destroy) noexcept {
  f.finish();
  const flow::interrupted before = f.enter_callback();
  destroy();
  static_cast<void>(f.leave_callback(before));
}

/// Destroys the steps of a root that goes without an execution.
inline void destroy_steps_with_root(flow& f) noexcept {
  destroy_with_root(f, [&f] { destroy_built_steps(f); });
}

/// True when something outside of its block belongs to the flow. For the thread that has the flow.
inline bool has_extras(const flow& f) noexcept {
  const auto word = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p); };
  return (word(f.scopes) | word(f.chunks) | word(f.state) | word(f.control_block.get_own())) != 0;
}
void destroy_extras(flow& f) noexcept;

/// Runs the flow's destructor; does not free its memory.
inline void destroy_flow(flow& f) noexcept {
  if (has_extras(f)) [[unlikely]]
    destroy_extras(f);
  std::destroy_at(&f);
}

#if ASYNCSTEPS_DEFINED
/// While they are left the flow has one scope more: so it needs a teardown, which sees that it runs.
[[gnu::noinline]] ASYNCSTEPS_FUNCTION void leave_root_scopes(flow& f) noexcept {
  scope last{{}, nullptr, nullptr, nullptr};
  scope* at = f.scopes;
  while (at->outer != nullptr) at = at->outer;
  at->outer = &last;
  const flow::interrupted before = f.enter_callback();
  leave_scopes(f, f.root);
  static_cast<void>(f.leave_callback(before));  // it does not execute
  f.scopes = nullptr;
}

[[gnu::noinline, gnu::cold]] ASYNCSTEPS_FUNCTION bool refuse_to_begin(flow& f) noexcept {
  set_error(f, errors::InternalError, used_by_remains);
  return false;
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void destroy_extras(flow& f) noexcept {
  if (f.scopes != nullptr || f.chunks != nullptr) clear_remains(f);
  if (f.root.parent_ == nullptr) {
    while (f.state != nullptr) destroy_with_root(f, [&f] { destroy_state(f); });  // a mistake has a text
  } else {
    destroy_state(f);
  }
  detach_control_block(f);
}
#endif

}  // namespace steps::inline v0_1::detail
