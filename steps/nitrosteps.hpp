// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for byte, size_t, max_align_t
#include <cstdint>      // for uint32_t
#include <cstdio>       // for fprintf
#include <exception>    // for terminate
#include <new>          // for destroying_delete_t
#include <tuple>        // for tuple
#include <type_traits>  // for conditional_t, invoke_result_t, is_same_v

#include "async/detail/base/min_max.hpp"    // for max_of, min_of
#include "async/event_loop.hpp"             // for event_loop
#include "steps/detail/instantiations.hpp"  // exports group_step
#include "steps/iasyncsteps.hpp"            // for IAsyncSteps

namespace steps::inline v0_1 {

/// Limits of NitroSteps, in any order. A limit that is not given has the default of nitro::defaults. A flow and all its
/// branches share the limits, but for BranchBytes.
namespace nitro {

/// Steps that have not ended, at the same time.
template <std::uint32_t N>
struct MaxSteps {};
/// Limits by setTimeout() or setDeadline(), of steps that have not ended.
template <std::uint32_t N>
struct MaxTimeouts {};
/// setCancel() handlers of steps that have not ended.
template <std::uint32_t N>
struct MaxCancels {};
/// stack() objects of steps that have not ended.
template <std::uint32_t N>
struct MaxStackAllocs {};
/// Branches of parallel() that have not ended.
template <std::uint32_t N>
struct MaxParallel {};
/// Memory for steps with their captures, handlers, timers and objects. A record takes 40 bytes (a timeout 80) on top of
/// its captures. The records of a level stay until the level ends.
template <std::uint32_t N>
struct ArenaBytes {};
/// Memory for the steps of one branch.
template <std::uint32_t N>
struct BranchBytes {};
/// Memory for the results of one success().
template <std::uint32_t N>
struct MaxResultBytes {};
/// Memory for the keys and nodes of state(): about 100 bytes for a value.
template <std::uint32_t N>
struct MaxStateBytes {};
/// Length of error codes that are no literals, and of error_info(). Longer texts are cut, also those that name an
/// exceeded limit: with less than 40 their ends are missing.
template <std::uint32_t N>
struct MaxErrorText {};
/// Steps that run in a row before other flows of the loop have their turn: at most 65,535.
template <std::uint32_t N>
struct BurstSize {};

/// 1: what the object has no room for is in recycled blocks, as in an AsyncSteps: further steps, results, branches,
/// state() and texts. The object is small then: it has room for ArenaBytes only. The other limits hold as ever.
template <std::uint32_t N>
struct MayAllocate {};

/// The default limits: room for five nested steps with handlers, and for a few small branches.
using defaults =
    std::tuple<MaxSteps<16>, MaxTimeouts<4>, MaxCancels<4>, MaxStackAllocs<8>, MaxParallel<4>, BranchBytes<256>,
               MaxResultBytes<128>, MaxStateBytes<512>, MaxErrorText<128>, BurstSize<100>, MayAllocate<0>>;

}  // namespace nitro

namespace detail {

template <template <std::uint32_t> class Limit, class... Given>
struct limit_value;
template <template <std::uint32_t> class Limit, std::uint32_t N, class... Rest>
struct limit_value<Limit, Limit<N>, Rest...> : std::integral_constant<std::uint32_t, N> {};
template <template <std::uint32_t> class Limit, class First, class... Rest>
struct limit_value<Limit, First, Rest...> : limit_value<Limit, Rest...> {};

template <class T>
inline constexpr bool is_limit = false;
template <template <std::uint32_t> class Limit, std::uint32_t N>
inline constexpr bool is_limit<Limit<N>> =
    std::is_same_v<Limit<N>, nitro::MaxSteps<N>> || std::is_same_v<Limit<N>, nitro::MaxTimeouts<N>> ||
    std::is_same_v<Limit<N>, nitro::MaxCancels<N>> || std::is_same_v<Limit<N>, nitro::MaxStackAllocs<N>> ||
    std::is_same_v<Limit<N>, nitro::MaxParallel<N>> || std::is_same_v<Limit<N>, nitro::ArenaBytes<N>> ||
    std::is_same_v<Limit<N>, nitro::BranchBytes<N>> || std::is_same_v<Limit<N>, nitro::MaxResultBytes<N>> ||
    std::is_same_v<Limit<N>, nitro::MaxStateBytes<N>> || std::is_same_v<Limit<N>, nitro::MaxErrorText<N>> ||
    std::is_same_v<Limit<N>, nitro::BurstSize<N>> || std::is_same_v<Limit<N>, nitro::MayAllocate<N>>;

/// The values of the limits: the given ones, else the defaults.
template <class List, class... Given>
struct limit_values;
template <class... Default, class... Given>
struct limit_values<std::tuple<Default...>, Given...> {
  template <template <std::uint32_t> class Limit>
  static constexpr std::uint32_t of = limit_value<Limit, Given..., Default...>::value;

  static constexpr std::uint16_t burst =
      static_cast<std::uint16_t>(async::detail::min_of(of<nitro::BurstSize>, std::uint32_t{0xFFFF}));
  static constexpr bool may_allocate = of<nitro::MayAllocate> != 0;
  static constexpr std::size_t texts = 2 * (std::size_t{of<nitro::MaxErrorText>} + 1);
  static constexpr fixed_branch branch{
      static_cast<std::uint32_t>(round_up(of<nitro::BranchBytes>, granule) + jump_size), of<nitro::MaxResultBytes>,
      static_cast<std::uint32_t>(texts)};
  /// The default of ArenaBytes: the sum of the other limits, for captures of three pointers and objects of two.
  static constexpr std::size_t usual_arena =
      std::size_t{64} * of<nitro::MaxSteps> + std::size_t{80} * of<nitro::MaxTimeouts> +
      std::size_t{48} * of<nitro::MaxCancels> + std::size_t{48} * of<nitro::MaxStackAllocs>;
  static constexpr std::size_t arena =
      round_up(limit_value<nitro::ArenaBytes, Given..., nitro::ArenaBytes<usual_arena>>::value, granule) + jump_size;
};

}  // namespace detail

/// A root flow with all its memory inside the object: the flow itself allocates nothing after its construction. With
/// the default limits the object has 8,768 bytes on 64-bit Linux.
///
/// Use it where memory must be reserved beforehand, or where a flow is part of another object. Do not use it where the
/// number and size of steps are not known (AsyncSteps: no limits, and a suspended flow takes less memory).
///
///   steps::NitroSteps<steps::nitro::MaxSteps<8>, steps::nitro::MaxParallel<0>> flow{loop};
///
/// An exceeded limit is InternalError with the limit's name in the info, at the step that exceeded it. Some memory lies
/// outside the object by its nature. Recycled blocks hold the shared state of promise() and of completion(), requests
/// of other threads, a wait for a lock, a queue, an event or a future, and hooks of State with more captures than four
/// pointers. The standard library allocates for large std::any values and for thrown exceptions.
///
/// Threads     as AsyncSteps.
/// Lifetime    as AsyncSteps; it cannot be moved. A flow made by `new` may be deleted by a callback of its own, or by
///             the destructor of what its steps have captured: its memory is freed when that has returned. Destroying
///             any other flow (a member, a variable) in this way ends the program with a message.
template <class... Limits>
class NitroSteps final : public IAsyncSteps {
  using values = detail::limit_values<nitro::defaults, Limits...>;
  static_assert((detail::is_limit<Limits> && ...), "NitroSteps takes limits of steps::nitro, such as MaxSteps<8>");
  static_assert(values::template of<nitro::BurstSize> > 0, "BurstSize must not be 0");

 public:
  /// A flow without steps.
  explicit NitroSteps(async::event_loop& loop) noexcept : NitroSteps(&async::detail::core_of(loop)) {}
  /// The same on a pool, see AsyncSteps. Its branches take turns on the flow's loop.
  explicit NitroSteps(async::threadpool& pool) noexcept : NitroSteps(nullptr) { flow_->pool = &pool.core(); }
  /// The same with a priority, see AsyncSteps.
  NitroSteps(async::threadpool& pool, async::priority wanted) noexcept : NitroSteps(pool) { flow_->level = wanted; }
  ~NitroSteps() {
    if (flow_ == nullptr || detail::is_kept_by_parent(*flow_)) return;
    if (!detail::destroy_root(*flow_)) {
      std::fprintf(stderr, "asyncsteps: a NitroSteps that was not made by new is destroyed by a callback of its own\n");
      std::terminate();
    }
    destroy();
  }

  /// Always inline: g++ takes calls of it for a mismatch with the operator new that aligns.
  [[gnu::always_inline]] static void operator delete(NitroSteps* face, std::destroying_delete_t) { give_up(face); }

 private:
  explicit NitroSteps(async::detail::loop_core* core) noexcept {
    flags_ = detail::record_flag::is_root;
    ops_ = &face_functions;
    parent_ = nullptr;
    flow_ = ::new (static_cast<void*>(memory_))
        detail::flow(&flow_functions, core, values::arena, &detail::resume, &detail::begin);
    flow_->limit = &limit_;
    flow_->burst = values::burst;
  }

  void destroy() noexcept {
    if (!flow_->has_remains()) detail::destroy_steps_with_root(*flow_);
    detail::destroy_flow(*flow_);
    flow_ = nullptr;
  }
  static void give_up(NitroSteps* face) {
    if (detail::is_kept_by_parent(*face->flow_)) return;
    if (!detail::destroy_root(*face->flow_)) {
      face->flow_->detach();
    } else {
      face->~NitroSteps();
      free(face);
    }
  }
  static void free(NitroSteps* face) noexcept {
    ::operator delete(static_cast<void*>(face), std::align_val_t{alignof(NitroSteps)});
  }
  /// Deleted by a callback that has returned.
  static void release(detail::flow& f) noexcept {
    auto* const face = static_cast<NitroSteps*>(f.limit->face);
    face->destroy();
    face->~NitroSteps();
    free(face);
  }
  static void delete_face(detail::step& face) noexcept { delete &static_cast<NitroSteps&>(face); }

  static constexpr detail::flow_ops flow_functions{&detail::end_root, &release, nullptr, &detail::report_to_pool};
  static constexpr detail::step_ops face_functions{nullptr, nullptr, &delete_face, {}};

  /// The size of an array: at least 1. It has 64 bits: on a 32-bit machine a product too large for size_t must not wrap
  /// around to a small size, and the compiler refuses it.
  template <template <std::uint32_t> class Limit>
  static constexpr std::uint64_t room(std::uint64_t each = 1) noexcept {
    return values::may_allocate ? 1 : async::detail::max_of(std::uint64_t{1}, values::template of<Limit> * each);
  }

  /// Memory for what a flow with MayAllocate has in blocks.
  struct alignas(std::max_align_t) reserve {
    std::byte results[room<nitro::MaxResultBytes>()];
    alignas(std::max_align_t) std::byte state_values[room<nitro::MaxStateBytes>()];
    alignas(State) std::byte state[sizeof(State)];
    char texts[values::texts];
    alignas(std::max_align_t) std::byte branches[room<nitro::MaxParallel>(values::branch.size())];
  };
  struct no_reserve {};

  /// The result of get(reserve&); null without a reserve.
  template <class Get>
  auto from_reserve(Get get) noexcept {
    if constexpr (values::may_allocate) {
      return static_cast<std::invoke_result_t<Get, reserve&>>(nullptr);
    } else {
      return get(reserve_);
    }
  }

  // The members that every flow uses lie together, in front.
  detail::limits limit_{values::template of<nitro::MaxSteps>,
                        values::template of<nitro::MaxTimeouts>,
                        values::template of<nitro::MaxCancels>,
                        values::template of<nitro::MaxStackAllocs>,
                        values::template of<nitro::MaxParallel>,
                        values::branch,
                        from_reserve([](reserve& r) -> std::byte* { return r.branches; }),
                        nullptr,
                        from_reserve([](reserve& r) -> std::byte* { return r.results; }),
                        values::template of<nitro::MaxResultBytes>,
                        from_reserve([](reserve& r) -> void* { return r.state; }),
                        from_reserve([](reserve& r) -> char* { return r.texts; }),
                        static_cast<std::uint32_t>(values::texts),
                        this,
                        {from_reserve([](reserve& r) -> std::byte* { return r.state_values; }),
                         from_reserve([](reserve& r) -> std::byte* {
                           return r.state_values + values::template of<nitro::MaxStateBytes>;
                         })},
                        values::may_allocate};
  alignas(async::detail::cache_line) std::byte memory_[sizeof(detail::flow) + values::arena];
  [[no_unique_address]] std::conditional_t<values::may_allocate, no_reserve, reserve> reserve_;
};

}  // namespace steps::inline v0_1
