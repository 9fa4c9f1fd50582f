// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for byte, size_t
#include <cstdint>      // for uintptr_t
#include <cstring>      // for memcpy
#include <memory>       // for align
#include <new>          // for placement new
#include <string_view>  // for string_view
#include <type_traits>  // for is_trivially_constructible_v
#include <utility>      // for exchange

#include "async/detail/base/block_cache.hpp"  // for allocate_block, free_block
#include "async/detail/base/config.hpp"       // for ASYNCSTEPS_FUNCTION
#include "async/detail/base/min_max.hpp"      // for max_of
#include "steps/detail/flow/flow.hpp"         // for flow, record

/// Memory of steps and scopes: allocated by bumping a pointer, released at once when a level ends.
namespace steps::inline v0_1::detail {

inline constexpr std::size_t granule = 8;
inline constexpr std::size_t largest_record = std::size_t{1} << 30;  // its size is kept in 32 bits
inline constexpr std::size_t chunk_size = 504;                       // at least
/// The size of the first chunks of a flow that executes: it may wait, with little more in them.
inline constexpr std::size_t small_chunk_size = 192;
inline constexpr int small_chunks = 3;

constexpr std::size_t round_up(std::size_t size, std::size_t to) noexcept { return (size + to - 1) / to * to; }

inline constexpr std::size_t jump_size = round_up(sizeof(jump), granule);
inline constexpr std::size_t chunk_head = round_up(sizeof(chunk), granule);

/// The arena begins directly behind the flow.
inline std::byte* arena_of(flow& f) noexcept { return reinterpret_cast<std::byte*>(&f + 1); }

inline flow::flow(const flow_ops* o, async::detail::loop_core* c, std::size_t arena_size, runnable::function resume,
                  message::function begin) noexcept
    : flow_state(resume), message(begin), top(arena_of(*this)), end(top + arena_size - jump_size), core(c) {
  root.size_ = 0;
  root.flags_ = 0;
  root.extra_ = 0;
  root.ops_ = o;
  root.flow_ = this;
  root.parent_ = nullptr;
  root.sub_end_ = top;
}

/// The message of a flow with fixed memory that has no room for a record.
inline std::string_view arena_exceeded(const flow& f) noexcept {
  return f.root.parent_ == nullptr ? "the flow exceeds nitro::ArenaBytes" : "the branch exceeds nitro::BranchBytes";
}

inline bool has_few_chunks(const flow& f) noexcept {
  int count = 0;
  for (const chunk* c = f.chunks; c != nullptr && count != small_chunks; c = c->older) ++count;
  return count != small_chunks;
}

/// Memory for a record that does not fit: a further chunk, and a jump to it. Throws std::bad_alloc, or Error in a flow
/// with fixed memory.
void* grow(flow& f, std::size_t size);

/// Whether the newest chunk is spare: empty, and kept for the next record that does not fit. So a loop whose sub-steps
/// need a chunk allocates none in each iteration.
inline bool has_spare_chunk(const flow& f) noexcept { return f.chunks != nullptr && f.chunks->older_end == f.end; }
void free_newest_chunk(flow& f) noexcept;
/// Frees the spare chunk, if there is one: a flow that waits, or has ended, keeps none.
inline void drop_spare_chunk(flow& f) noexcept {
  if (has_spare_chunk(f)) [[unlikely]]
    free_newest_chunk(f);
}

/// Memory for a record; size is a multiple of granule.
inline void* allocate(flow& f, std::size_t size) {
  std::byte* const start = f.top;
  if (static_cast<std::size_t>(f.end - start) < size) [[unlikely]]
    return grow(f, size);
  f.top = start + size;
  return start;
}

/// Releases the chunks behind `top`, of which there are some; keeps one as spare.
void shrink(flow& f, const std::byte* top) noexcept;

inline bool is_in(const chunk& c, const std::byte* at) noexcept {
  return reinterpret_cast<std::uintptr_t>(at) - reinterpret_cast<std::uintptr_t>(&c) < c.size;
}
/// Whether `top` lies where the newest record does, so that no chunk is behind it but perhaps a spare one.
inline bool is_in_newest(const flow& f, const std::byte* top) noexcept {
  const chunk* const c = has_spare_chunk(f) ? f.chunks->older : f.chunks;
  return c == nullptr || is_in(*c, top);  // the oldest records lie in no chunk
}
/// Releases the arena behind `top`; one chunk may become spare.
[[gnu::always_inline]] inline void set_top(flow& f, std::byte* top) noexcept {
  f.top = top;
  if (f.chunks != nullptr && !is_in_newest(f, top)) [[unlikely]]
    shrink(f, top);
}

/// Memory for an object of type T whose base is a record; the caller fills in the header. Members behind the header
/// get the alignment of T.
template <class T>
void* allocate_record(flow& f) {
  static_assert(sizeof(T) < (std::size_t{1} << 31), "a step or object is too large");
  constexpr std::size_t size = round_up(sizeof(T), granule);
  if constexpr (alignof(T) <= granule) {
    return allocate(f, size);
  } else {
    // Allocates room for the worst case; the padding in front becomes a record itself.
    std::byte* const start = static_cast<std::byte*>(allocate(f, size + alignof(T)));
    const std::size_t skip =
        round_up(reinterpret_cast<std::uintptr_t>(start), alignof(T)) - reinterpret_cast<std::uintptr_t>(start);
    if (skip != 0) ::new (start) record{static_cast<std::uint32_t>(skip), 0, 0};
    f.top = start + skip + size;
    return start + skip;
  }
}

/// Releases the memory of a record whose constructor has thrown, from `before` on. When the constructor has added
/// records behind it, they stay, and padding takes the record's place.
inline void release_record(flow& f, void* memory, std::size_t size, std::byte* before) noexcept {
  if (f.top == static_cast<std::byte*>(memory) + size) return set_top(f, before);
  ::new (memory) record{static_cast<std::uint32_t>(size), 0, 0};
}

/// The first record at or behind `at` that is a step; null at `end`.
inline step* next_step(std::byte* at, const std::byte* end) noexcept {
  while (at != end) {
    record* const r = reinterpret_cast<record*>(at);
    if ((r->flags_ & record_flag::is_step) != 0) [[likely]]
      return static_cast<step*>(r);
    at = (r->flags_ & record_flag::is_jump) != 0 ? reinterpret_cast<std::byte*>(static_cast<jump*>(r)->to)
                                                 : at + r->size_;
  }
  return nullptr;
}
inline step* next_step(step& s) noexcept {
  return next_step(reinterpret_cast<std::byte*>(&s) + s.size_, s.parent_->sub_end_);
}

// --- results ----------------------------------------------------------------------------------------------------

inline void* results_in(flow& f, const pack_tag* tag) noexcept {
  return tag->is_boxed() ? *reinterpret_cast<void**>(f.slot) : static_cast<void*>(f.slot);
}
inline void* results_of(flow& f) noexcept { return results_in(f, f.tag); }

/// Memory for results that do not fit into the slot. Throws std::bad_alloc, or Error in a flow with fixed memory.
inline void* allocate_box(flow& f, std::size_t size, std::size_t align) {
  if (may_allocate(f)) return async::detail::allocate_block(size, align);
  void* memory = f.root.parent_ == nullptr ? f.limit->results : f.limit->branch.results_of(f);
  std::size_t space = f.limit->result_size;
  if (std::align(align, size, memory, space) == nullptr) {
    throw Error(errors::InternalError, "the results exceed nitro::MaxResultBytes");
  }
  return memory;
}
inline void free_box(flow& f, void* memory, std::size_t size, std::size_t align) noexcept {
  if (may_allocate(f)) async::detail::free_block(memory, size, align);
}

/// While it exists, results of the flow are made, moved or destroyed in the slot, which is also the place of the
/// pending error. Their constructors and destructors are no function of a step: each use of the flow is a mistake,
/// which the verdict alone tells of until the end.
class results_in_hand {
 public:
  explicit results_in_hand(flow& f) noexcept : flow_(f), before_(f.run_by) {
    if (before_ != nullptr) f.run_by = &f.root;  // else mistakes are ignored
  }
  ~results_in_hand() {
    if (before_ == nullptr || before_ == &flow_.root) return;
    flow_.run_by = before_;
    if (flow_.is_failing()) [[unlikely]]
      ::new (static_cast<void*>(&flow_.pending)) pending_error{errors::InternalError, nullptr};
  }
  results_in_hand(const results_in_hand&) = delete;
  results_in_hand& operator=(const results_in_hand&) = delete;

  static bool is_of(const flow& f) noexcept { return f.run_by == &f.root; }

 private:
  flow& flow_;
  step* const before_;
};

/// Destroys results that the flow has given up but whose memory has not moved.
void destroy_taken(flow& f, const pack_tag* tag, void* values) noexcept;
/// Destroys the results, of which there are some.
void destroy_results(flow& f) noexcept;
/// The same for results that lie in the slot and have no destructors. False: they are others.
inline bool forget_plain_results(flow& f) noexcept {
  if (f.tag->destroy != nullptr || f.tag->is_boxed()) [[unlikely]]
    return false;
  f.tag = nullptr;
  return true;
}
inline void clear_results(flow& f) noexcept {
  if (f.tag != nullptr && !forget_plain_results(f)) [[unlikely]]
    destroy_results(f);
}

/// True when the flow's results begin with the types of `wanted`, perhaps by a conversion. Throws what that throws.
inline bool has_results(flow& f, const pack_tag& wanted) {
  if (f.tag == nullptr) return false;
  return begins_with(*f.tag, wanted) || (f.tag->convert != nullptr && f.tag->convert(f, wanted));
}

/// True when making the values from these arguments calls no function of a user.
template <class Values, class... A>
inline constexpr bool are_made_plainly = false;
template <class... T, class... A>
inline constexpr bool are_made_plainly<pack<T...>, A...> = (std::is_trivially_constructible_v<T, A&&> && ...);

/// Makes the values of results at `memory`, the slot or a box. False: a mistake has made the flow fail, and there are
/// none. On an exception there are none, and the slot is as before.
template <class Values, class... A>
bool make_results(flow& f, void* memory, A&&... args) {
  if constexpr (are_made_plainly<Values, A...>) {
    Values::construct(memory, std::forward<A>(args)...);
  } else {
    const results_in_hand here(f);
    std::byte before[slot_size];  // the pending error, while its handler runs
    std::memcpy(before, f.slot, slot_size);
    try {
      Values::construct(memory, std::forward<A>(args)...);
    } catch (...) {
      std::memcpy(f.slot, before, slot_size);
      throw;
    }
    if (f.is_failing()) [[unlikely]] {
      Values::destroy(memory);
      return false;
    }
  }
  return true;
}

/// Stores results. On an exception or a mistake the flow has none.
template <class... A>
void put_results(flow& f, A&&... args) {
  if constexpr (sizeof...(A) != 0) {
    using values = pack<stored_t<A>...>;
    if constexpr (values::boxed) {
      void* const memory = allocate_box(f, values::size, values::align);
      bool made = false;
      try {
        made = make_results<values>(f, memory, std::forward<A>(args)...);
      } catch (...) {
        free_box(f, memory, values::size, values::align);
        throw;
      }
      if (!made) [[unlikely]]
        return free_box(f, memory, values::size, values::align);
      ::new (static_cast<void*>(f.slot)) void*(memory);
    } else {
      if (!make_results<values>(f, f.slot, std::forward<A>(args)...)) [[unlikely]]
        return;
    }
    f.tag = &values::tag;
  }
}

/// Moves results that `from` has given up to `to`, which has none. Both flows have fixed memory, or neither has. On an
/// exception the results are destroyed.
inline void pass_results(flow& from, const pack_tag* tag, flow& to) {
  void* const values = results_in(from, tag);
  void* memory = to.slot;
  if (tag->is_boxed() && may_allocate(to)) {
    ::new (memory) void*(values);
  } else {
    struct rest {
      flow& f;
      const pack_tag* tag;
      void* values;
      ~rest() { destroy_taken(f, tag, values); }
    } const moved{from, tag, values};
    if (tag->is_boxed()) memory = allocate_box(to, tag->size, tag->align);
    if (tag->move != nullptr) {
      tag->move(memory, values);
    } else {
      std::memcpy(memory, values, tag->size);
    }
    if (tag->is_boxed()) ::new (static_cast<void*>(to.slot)) void*(memory);
  }
  to.tag = tag;
}

#if ASYNCSTEPS_DEFINED
[[gnu::noinline]] ASYNCSTEPS_FUNCTION void free_newest_chunk(flow& f) noexcept {
  chunk* const c = f.chunks;
  f.chunks = c->older;
  async::detail::free_block(c, c->size);
}

/// Makes the newest chunk one that is spare, and large enough for a record.
[[gnu::noinline]] inline void add_chunk(flow& f, std::size_t needed) {
  if (!may_allocate(f)) throw Error(errors::InternalError, arena_exceeded(f));
  drop_spare_chunk(f);
  const std::size_t least = f.executes() && has_few_chunks(f) ? small_chunk_size : chunk_size;
  const std::size_t bytes = async::detail::block_bytes(async::detail::max_of(needed, least));
  f.chunks = ::new (async::detail::allocate_block(bytes)) chunk{f.chunks, f.end, bytes};
}
[[gnu::noinline]] ASYNCSTEPS_FUNCTION void* grow(flow& f, std::size_t size) {
  const std::size_t needed = chunk_head + size + jump_size;
  if (!has_spare_chunk(f) || f.chunks->size < needed) [[unlikely]]
    add_chunk(f, needed);
  auto* const memory = reinterpret_cast<std::byte*>(f.chunks);
  std::byte* const start = memory + chunk_head;
  ::new (f.top)
      jump{{static_cast<std::uint32_t>(jump_size), record_flag::is_jump, 0}, reinterpret_cast<record*>(start)};
  f.end = memory + f.chunks->size - jump_size;
  f.top = start + size;
  return start;
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void shrink(flow& f, const std::byte* top) noexcept {
  drop_spare_chunk(f);
  for (;;) {
    f.end = f.chunks->older_end;
    if (is_in_newest(f, top)) return;
    free_newest_chunk(f);
  }
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void destroy_taken(flow& f, const pack_tag* tag, void* values) noexcept {
  if (tag->destroy != nullptr) {
    const results_in_hand here(f);
    tag->destroy(values);
  }
  if (tag->is_boxed()) free_box(f, values, tag->size, tag->align);
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void destroy_results(flow& f) noexcept {
  void* const values = results_of(f);
  destroy_taken(f, std::exchange(f.tag, nullptr), values);
}
#endif

}  // namespace steps::inline v0_1::detail
