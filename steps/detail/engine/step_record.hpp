// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for byte, size_t
#include <cstdint>      // for uint32_t
#include <cstdio>       // for snprintf
#include <cstring>      // for memcpy
#include <string_view>  // for string_view
#include <tuple>        // for tuple, apply
#include <type_traits>  // for decay_t, is_trivially_copyable_v, is_trivially_destructible_v
#include <utility>      // for exchange, forward, index_sequence

#include "async/detail/base/config.hpp"      // for ASYNCSTEPS_FUNCTION
#include "steps/detail/engine/callable.hpp"  // for wanted_results
#include "steps/detail/engine/engine.hpp"    // for misuse, take_limited

/// The records of steps with their functors, and the passing of results to parameters. `Face` is IAsyncSteps.
namespace steps::inline v0_1::detail {

/// Prints a list of types for a message: "(int, std::string)". Returns its length.
inline std::size_t print_types(char* to, std::size_t room, const pack_tag* tag) noexcept {
  std::size_t used = 0;
  const auto append = [&](std::string_view text) {
    for (std::size_t i = 0; i < text.size() && used + 1 < room; ++i) to[used++] = text[i];
  };
  append("(");
  for (std::uint32_t i = 0; tag != nullptr && i < tag->count; ++i) {
    if (i != 0) append(", ");
    append(tag->types[i]->name);
  }
  append(")");
  to[used] = '\0';
  return used;
}

/// Misuse: the results do not fit the parameters of the step that is running.
void mismatch(flow& f, const pack_tag& wanted) noexcept;
/// The error of a flow whose last step has not passed what `taker` takes.
void set_mismatch(flow& f, const pack_tag& wanted, const char* taker) noexcept;

/// The results of a flow, which has some, while they are moved out. Destroys what is left of them.
struct taken_results {
  explicit taken_results(flow& of) noexcept : f(of), values(results_of(of)), tag(std::exchange(of.tag, nullptr)) {}
  ~taken_results() { destroy_taken(f, tag, values); }
  taken_results(const taken_results&) = delete;
  taken_results& operator=(const taken_results&) = delete;

  flow& f;
  void* const values;
  const pack_tag* const tag;
};

/// Moves the results out for a step that takes the types of Wanted. The flow has such results.
template <class Wanted>
auto take_results(flow& f) {
  if constexpr (Wanted::is_copied) {
    return Wanted::move_out(taken_results(f).values);
  } else {
    const results_in_hand here(f);
    return Wanted::move_out(taken_results(f).values);
  }
}

/// All results of the step before, for a function that looks at their types itself: `passed_results&&` is its only
/// parameter behind `asi`.
class passed_results {
 public:
  explicit passed_results(flow& f) : tag_(f.tag) {
    if (tag_ == nullptr) return;
    if (tag_->is_boxed() && may_allocate(f)) {
      values_ = results_of(f);
      f.tag = nullptr;
      return;
    }
    values_ = tag_->is_boxed() ? async::detail::allocate_block(tag_->size, tag_->align) : static_cast<void*>(slot_);
    const results_in_hand here(f);
    move_from(taken_results(f).values);
  }
  passed_results(passed_results&& other)  // NOLINT: the values may throw as they move
      : tag_(other.tag_), values_(other.values_) {
    if (tag_ == nullptr || tag_->is_boxed()) {
      other.tag_ = nullptr;
    } else {
      values_ = slot_;
      move_from(other.values_);
    }
  }
  passed_results& operator=(passed_results&&) = delete;
  ~passed_results() {
    if (tag_ == nullptr) return;
    if (tag_->destroy != nullptr) tag_->destroy(values_);
    if (tag_->is_boxed()) async::detail::free_block(values_, tag_->size, tag_->align);
  }

  /// Null: there are none.
  const pack_tag* tag() const noexcept { return tag_; }
  void* at(std::uint32_t i) const noexcept { return static_cast<std::byte*>(values_) + tag_->offsets[i]; }

  /// Passes them to the next step of a flow, which has no results.
  void pass_on(flow& f) {
    if (tag_ == nullptr) return;
    const results_in_hand here(f);
    if (!tag_->is_boxed()) {
      move_to(f.slot, values_);
    } else if (may_allocate(f)) {
      ::new (static_cast<void*>(f.slot)) void*(std::exchange(values_, nullptr));
      f.tag = std::exchange(tag_, nullptr);
      return;
    } else {
      void* const memory = allocate_box(f, tag_->size, tag_->align);
      move_to(memory, values_);
      ::new (static_cast<void*>(f.slot)) void*(memory);
    }
    if (f.is_failing()) return destroy_taken(f, tag_, results_in(f, tag_));  // a mistake of what has moved
    f.tag = tag_;
  }

 private:
  void move_to(void* to, void* from) const {
    if (tag_->move != nullptr) {
      tag_->move(to, from);
    } else {
      std::memcpy(to, from, tag_->size);
    }
  }
  /// On an exception this has nothing.
  void move_from(void* values) {
    try {
      move_to(values_, values);
    } catch (...) {
      if (tag_->is_boxed()) async::detail::free_block(values_, tag_->size, tag_->align);
      throw;
    }
  }

  const pack_tag* tag_;
  void* values_ = nullptr;
  alignas(slot_align) std::byte slot_[slot_size];
};

/// Destroys the results before a step that takes none. When a destructor cancels the flow, or makes a mistake, this
/// throws past the step's function to the engine.
void destroy_results_before(flow& f);
[[gnu::always_inline]] inline void discard_results(flow& f) {
  if (f.tag != nullptr && !forget_plain_results(f)) [[unlikely]]
    destroy_results_before(f);
}

/// Calls a step function with the results of the step before. Fixed are the values that a loop passes in front of them.
template <class Face, class F, class... P, class... Fixed>
void call_function(flow& f, Face& asi, F& function, type_list<P...>, Fixed&&... fixed) {
  if constexpr (sizeof...(P) == 0) {
    discard_results(f);
    function(asi, std::forward<Fixed>(fixed)...);
  } else if constexpr ((std::is_same_v<P, passed_results&&> && ...)) {
    function(asi, std::forward<Fixed>(fixed)..., passed_results(f));
  } else {
    using wanted = pack<wanted_value<P>...>;
    if (f.tag != &wanted::tag && !has_results(f, wanted::tag)) [[unlikely]]
      return mismatch(f, wanted::tag);
    auto values = take_results<wanted>(f);
    if (!f.is_open()) [[unlikely]]
      return;  // a result has cancelled the flow, or made a mistake, as it was moved or destroyed
    [&]<std::size_t... Index>(std::index_sequence<Index...>) {
      function(asi, std::forward<Fixed>(fixed)..., hand_over<P>(std::get<Index>(values))...);
    }(std::index_sequence_for<P...>());
  }
}

/// A step of add(). Face, F, E: the type of `asi`, the function, the error handler or no_handler.
template <class Face, class F, class E>
struct function_step final : Face {
  template <class G, class H>
  function_step(G&& g, H&& h) : function(std::forward<G>(g)), handler(std::forward<H>(h)) {}

  static void run(step& s) {
    auto& self = static_cast<function_step&>(s);
    call_function<Face>(*s.flow_, self, self.function, typename wanted_results<F>::type());
  }
  void fail(ErrorCode code) { call_handler<Face>(handler, *this, code); }

  [[no_unique_address]] F function;
  [[no_unique_address]] E handler;
};

/// A step of successStep().
template <class Face, class... T>
struct result_step final : Face {
  template <class... A>
  explicit result_step(A&&... a) : values(std::forward<A>(a)...) {}

  static void run(step& s) {
    discard_results(*s.flow_);
    std::apply([&s](T&... v) { static_cast<Face&>(s).success(std::move(v)...); }, static_cast<result_step&>(s).values);
  }

  std::tuple<T...> values;
};

/// A step of relinquish(). Results pass through.
template <class Face>
struct yield_step final : Face {
  static void run(step& s) { s.flow_->mark_yield(); }
};

/// The static table of a kind of step.
template <class Step>
struct ops_of {
  static void on_error(step& s, ErrorCode code) {
    if constexpr (requires(Step& t) { t.fail(code); }) static_cast<Step&>(s).fail(code);
  }
  static void destroy(step& s) noexcept { std::destroy_at(&static_cast<Step&>(s)); }

  static constexpr auto help() noexcept -> void (*)(step&) noexcept {
    if constexpr (requires { &Step::help; }) return &Step::help;
    return nullptr;
  }
  static constexpr bool hands_over() noexcept {
    return requires { requires Step::hands_over; };
  }

  static constexpr step_ops ops{
      &Step::run,        &on_error, std::is_trivially_destructible_v<Step> ? nullptr : &destroy,
      type_name<Step>(), help(),    hands_over()};
};

/// Undoes append_step(): a constructor of the functors has ended the step by success(). The mistake is known then.
/// `before`: the arena's top.
void drop_added(flow& f, step& made, std::byte* before) noexcept;

/// Adds a step of type Step to the level of `parent`: to its sub-steps while its function or handler runs, to the root
/// before execute(). Null: a flow with fixed memory has no more, or see drop_added(); the error has been marked. Throws
/// std::bad_alloc and exceptions of the functors' constructors; nothing has changed then.
template <class Step, class... Args>
Step* append_step(step& parent, std::uint16_t flags, Args&&... args) {
  flow& f = *parent.flow_;
  if constexpr (!std::is_trivially_destructible_v<Step>) flags |= record_flag::destroys;
  if (f.limit != nullptr) [[unlikely]] {
    std::size_t room = round_up(sizeof(Step), granule) + alignof(Step);
    if constexpr (requires { Step::bytes_behind(args...); }) room += Step::bytes_behind(args...);
    if (!take_limited(f, &limits::steps, room, "the flow exceeds nitro::MaxSteps")) return nullptr;
    flags |= record_flag::counted;
  }
  constexpr std::size_t size = round_up(sizeof(Step), granule);
  std::byte* const before = f.top;
  step* const first = f.first;  // that of the level before the functors' constructors, which may add steps behind
  void* memory = nullptr;
  Step* made;
  try {
    memory = allocate_record<Step>(f);
    made = ::new (memory) Step(std::forward<Args>(args)...);
  } catch (...) {
    if (memory != nullptr) release_record(f, memory, size, before);
    if (f.limit != nullptr) ++f.limit->steps;
    if (&parent == &f.root && parent.parent_ != nullptr) f.ops().withdraw(f);  // a branch without a step would succeed
    throw;
  }
  made->size_ = static_cast<std::uint32_t>(size);
  made->flags_ = flags;
  made->extra_ = 0;
  made->ops_ = &ops_of<Step>::ops;
  made->flow_ = &f;
  made->parent_ = &parent;
  if (first == nullptr) f.first = made;
  if constexpr (!(std::is_trivially_copyable_v<std::decay_t<Args>> && ...)) {
    if (f.has_succeeded()) [[unlikely]] {
      detail::drop_added(f, *made, before);
      return nullptr;
    }
  }
  return made;
}

#if ASYNCSTEPS_DEFINED
[[gnu::noinline]] ASYNCSTEPS_FUNCTION void drop_added(flow& f, step& made, std::byte* before) noexcept {
  f.first = nullptr;
  const std::size_t size = made.size_;
  if ((made.flags_ & record_flag::counted) != 0) ++f.limit->steps;
  if (made.ops_->destroy != nullptr) made.ops_->destroy(made);
  release_record(f, &made, size, before);
  misuse(f, "add() after success()");
}

/// What a mismatch is, in words.
struct mismatch_text {
  mismatch_text(const flow& f, const pack_tag& wanted, const char* taker, const char* giver) noexcept {
    char want[160];
    char have[160];
    print_types(want, sizeof want, &wanted);
    print_types(have, sizeof have, f.tag);
    length = std::snprintf(text, sizeof text, "%s takes %s, %s passed %s", taker, want, giver, have);
  }
  std::string_view view() const noexcept { return {text, static_cast<std::size_t>(length)}; }

  char text[400];
  int length;
};

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void mismatch(flow& f, const pack_tag& wanted) noexcept {
  misuse(f, mismatch_text(f, wanted, "the step", "the step before it").view());
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void set_mismatch(flow& f, const pack_tag& wanted, const char* taker) noexcept {
  set_error(f, errors::InternalError, mismatch_text(f, wanted, taker, "the last step").view());
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void destroy_results_before(flow& f) {
  destroy_results(f);
  if (!f.is_open()) throw unwinding(errors::InternalError);
}
#endif

}  // namespace steps::inline v0_1::detail
