// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <new>      // for operator new, align_val_t

#include "async/detail/base/config.hpp"        // for cache_line, ASYNCSTEPS_ASAN, ASYNCSTEPS_SHARED
#include "async/detail/base/forks.hpp"         // for fork_member, hold_at_fork
#include "async/detail/base/immortal.hpp"      // for immortal, static_mutex
#include "async/detail/base/large_blocks.hpp"  // for large_blocks
#include "async/detail/base/platform.hpp"      // for keep_until_thread_end, prefetch_for_write
#include "async/detail/base/slab.hpp"          // for slab_store, span

/// Recycled memory for small, short-lived objects: task captures, shared states of futures, queue nodes.
///
/// Blocks come in classes of whole cache lines up to block_limit, see block_header. Larger or more strictly aligned
/// requests go to large_blocks or to operator new. Small blocks are aligned to cache lines and lie in slabs; larger
/// ones are not and do not, because they would need a quarter more memory. Each thread keeps up to two magazines
/// (arrays of free blocks) a class. Threads exchange full and empty magazines with one process-wide depot, so that
/// memory freed by a consumer returns to its producer 32 blocks at a time. A free block is not written to, which saves
/// the freeing thread a cache miss.
///
/// Threads     any thread may free what another allocated.
/// Progress    thread-local except once in 32 calls, which takes the depot's mutex.
/// Memory      bounded by the peak use plus two magazines a class and thread; a thread's blocks return to the depot
///             when it ends; trim_blocks() (block_trim.hpp) gives the depot's back to the system.
/// Lifetime    usable from static and thread-local destructors.
namespace async::inline v0_1::detail {

inline constexpr std::size_t block_classes = 18;  // room for 1 KiB of captures behind the members of a task
inline constexpr std::size_t aligned_limit = 4 * cache_line;
/// A larger block leaves room for malloc's header, so that with glibc both together are whole cache lines.
inline constexpr std::size_t block_header = 8;
inline constexpr std::size_t block_limit = block_classes * cache_line - block_header;
inline constexpr std::size_t magazine_size = 32;

namespace blocks {

struct magazine {
  magazine* next = nullptr;  // in the depot's list
  std::size_t count = 0;
  void* free_blocks[magazine_size];
};

/// Classes whose blocks lie in slabs: those that are aligned. None for AddressSanitizer and for tests that count, or
/// refuse, allocations: `slabs_are_off` is set before there are threads.
ASYNCSTEPS_SHARED inline constinit bool slabs_are_off = ASYNCSTEPS_ASAN != 0;
inline std::size_t slab_classes() noexcept { return slabs_are_off ? 0 : aligned_limit / cache_line; }

/// The magazines that no thread holds, and the slabs. All other members are guarded by the mutex.
struct depot : fork_member {
  constexpr depot() noexcept : fork_member(&forked) {}
  static depot& instance() noexcept;

  static_mutex mutex;
  magazine* full[block_classes] = {};
  magazine* empty = nullptr;
  slab_store<aligned_limit / cache_line> slabs;
  bool is_trimming = false;  // a thread sorts the free blocks of slabs

 private:
  static bool forked(fork_member& self, fork_stage at) noexcept {
    auto& d = static_cast<depot&>(self);
    if (at == fork_stage::in_child) d.is_trimming = false;  // its thread is gone, with the blocks that it had in hand
    return hold_at_fork(d.mutex, at);
  }
};
ASYNCSTEPS_SHARED inline constinit immortal<depot> all_magazines;
inline depot& depot::instance() noexcept {
  forks.value.join(all_magazines.value);
  return all_magazines.value;
}

/// The magazines of one thread. Constant-initialised and trivially destructible, so that access costs no guard;
/// `keeper` below returns them when the thread ends.
struct thread_cache {
  magazine* loaded[block_classes];
  magazine* spare[block_classes];
  bool open;    // the thread has a keeper
  bool closed;  // the keeper has run: the thread is ending and caches nothing
};
ASYNCSTEPS_SHARED inline constinit thread_local thread_cache cache{};

#if ASYNCSTEPS_ASAN
extern "C" void __asan_poison_memory_region(void const volatile* address, std::size_t size);
extern "C" void __asan_unpoison_memory_region(void const volatile* address, std::size_t size);
inline void mark_free(void* block, std::size_t size) noexcept { __asan_poison_memory_region(block, size); }
inline void mark_used(void* block, std::size_t size) noexcept { __asan_unpoison_memory_region(block, size); }
#else
inline void mark_free(void*, std::size_t) noexcept {}
inline void mark_used(void*, std::size_t) noexcept {}
#endif

constexpr std::size_t bytes_of(std::size_t index) noexcept {
  const std::size_t lines = (index + 1) * cache_line;
  return lines <= aligned_limit ? lines : lines - block_header;
}
constexpr std::size_t class_of(std::size_t bytes) noexcept {
  if (bytes > aligned_limit) return (bytes + block_header - 1) / cache_line;
  return bytes == 0 ? 0 : (bytes - 1) / cache_line;
}

constexpr std::size_t alignment_of(std::size_t index) noexcept {
  return bytes_of(index) <= aligned_limit ? cache_line : __STDCPP_DEFAULT_NEW_ALIGNMENT__;
}

/// A block that no magazine has.
inline void* new_block(depot& home, std::size_t index) {
  const std::size_t size = bytes_of(index);
  if (index < slab_classes()) {
    span* const fresh = span::make();
    const std::lock_guard lock(home.mutex);
    home.slabs.add(fresh);
    return home.slabs.take(index, size);
  }
  const std::size_t alignment = alignment_of(index);
  if (alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__) return ::operator new(size);
  return ::operator new(size, std::align_val_t{alignment});
}
/// Frees a block that no magazine has room for.
inline void delete_block(depot& home, void* block, std::size_t index) noexcept {
  mark_used(block, bytes_of(index));
  if (index < slab_classes()) {
    const std::lock_guard lock(home.mutex);
    return home.slabs.lists[index].put(block);
  }
  const std::size_t alignment = alignment_of(index);
  if (alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__) return ::operator delete(block);
  ::operator delete(block, std::align_val_t{alignment});
}

inline void push(magazine*& list, magazine* m) noexcept {
  m->next = list;
  list = m;
}
inline magazine* pop(magazine*& list) noexcept {
  magazine* const m = list;
  if (m != nullptr) list = m->next;
  return m;
}

/// Returns a magazine to the depot. A partly filled one counts as full.
inline void return_magazine(depot& home, magazine* m, std::size_t index) noexcept {
  if (m == nullptr) return;
  const std::lock_guard lock(home.mutex);
  push(m->count != 0 ? home.full[index] : home.empty, m);
}

struct keeper {
  keeper() noexcept { cache.open = true; }
  ~keeper() {
    cache.closed = true;
    for (std::size_t i = 0; i < block_classes; ++i) {
      return_magazine(depot::instance(), cache.loaded[i], i);
      return_magazine(depot::instance(), cache.spare[i], i);
      cache.loaded[i] = cache.spare[i] = nullptr;
    }
  }
  keeper(const keeper&) = delete;
  keeper& operator=(const keeper&) = delete;
};

/// False when the thread is ending, or has no memory for a keeper.
inline bool open_cache() noexcept { return !cache.closed && (cache.open || platform::keep_until_thread_end<keeper>()); }

/// The loaded magazine is empty or missing: the spare, else one from the depot, else a block of a slab or a new one.
void* allocate_slow(std::size_t index);

/// The loaded magazine is full or missing: makes room for one block. Never fails: without memory for a magazine the
/// block goes back to its slab or to the system.
void free_slow(void* block, std::size_t index) noexcept;

constexpr bool is_cached(std::size_t bytes, std::size_t alignment) noexcept {
  constexpr std::size_t usual = __STDCPP_DEFAULT_NEW_ALIGNMENT__;
  return bytes <= block_limit && (alignment <= usual || (alignment <= cache_line && bytes <= aligned_limit));
}

}  // namespace blocks

/// The size of the block for `bytes` bytes.
constexpr std::size_t block_bytes(std::size_t bytes) noexcept {
  return bytes <= block_limit ? blocks::bytes_of(blocks::class_of(bytes)) : bytes;
}

/// Memory for `bytes` bytes, aligned as asked. Throws std::bad_alloc. Inlined, since callers know the size.
[[gnu::always_inline]] inline void* allocate_block(std::size_t bytes,
                                                   std::size_t alignment = alignof(std::max_align_t)) {
  if (!blocks::is_cached(bytes, alignment)) {
    if (large_blocks::is_kept(bytes, alignment)) return large_blocks::instance().allocate(bytes);
    return ::operator new(bytes, std::align_val_t{alignment});
  }
  const std::size_t index = blocks::class_of(bytes);
  blocks::magazine* const m = blocks::cache.loaded[index];
  void* block = nullptr;
  if (m != nullptr && m->count != 0) [[likely]] {
    block = m->free_blocks[--m->count];
    if (m->count >= 4) prefetch_for_write(m->free_blocks[m->count - 4]);  // often last used by another core
  } else {
    block = blocks::allocate_slow(index);
  }
  blocks::mark_used(block, blocks::bytes_of(index));
  return block;
}

/// Frees what allocate_block() returned, with the same size and alignment.
[[gnu::always_inline]] inline void free_block(void* block, std::size_t bytes,
                                              std::size_t alignment = alignof(std::max_align_t)) noexcept {
  if (!blocks::is_cached(bytes, alignment)) {
    if (large_blocks::is_kept(bytes, alignment)) return large_blocks::instance().free(block, bytes);
    return ::operator delete(block, std::align_val_t{alignment});
  }
  const std::size_t index = blocks::class_of(bytes);
  blocks::mark_free(block, blocks::bytes_of(index));
  blocks::magazine* const m = blocks::cache.loaded[index];
  if (m != nullptr && m->count != magazine_size) [[likely]] {
    m->free_blocks[m->count++] = block;
  } else {
    blocks::free_slow(block, index);
  }
}

/// Allocator over recycled blocks, for std::allocate_shared and std::promise.
template <class T>
struct block_allocator {
  using value_type = T;
  block_allocator() noexcept = default;
  template <class U>
  block_allocator(const block_allocator<U>&) noexcept {}  // NOLINT: rebinding is implicit
  T* allocate(std::size_t n) {
    if (n > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_array_new_length();
    return static_cast<T*>(allocate_block(n * sizeof(T), alignof(T)));
  }
  void deallocate(T* p, std::size_t n) noexcept { detail::free_block(p, n * sizeof(T), alignof(T)); }
  friend bool operator==(const block_allocator&, const block_allocator&) noexcept { return true; }
};

#if ASYNCSTEPS_DEFINED
[[gnu::noinline]] ASYNCSTEPS_FUNCTION void* blocks::allocate_slow(std::size_t index) {
  if (cache.spare[index] != nullptr && cache.spare[index]->count != 0) {
    magazine* const m = cache.spare[index];
    cache.spare[index] = cache.loaded[index];
    cache.loaded[index] = m;
    return m->free_blocks[--m->count];
  }
  depot& home = depot::instance();
  magazine* m = nullptr;
  {
    const std::lock_guard lock(home.mutex);
    m = pop(home.full[index]);
    if (m == nullptr && index < slab_classes()) {
      if (void* const block = home.slabs.take(index, bytes_of(index)); block != nullptr) return block;
    }
    if (m != nullptr && cache.loaded[index] != nullptr) push(home.empty, cache.loaded[index]);
  }
  if (m == nullptr) return new_block(home, index);
  void* const block = m->free_blocks[--m->count];
  if (open_cache()) {
    cache.loaded[index] = m;
  } else {
    return_magazine(home, m, index);
  }
  return block;
}

[[gnu::noinline]] ASYNCSTEPS_FUNCTION void blocks::free_slow(void* block, std::size_t index) noexcept {
  try {
    if (!open_cache()) return delete_block(depot::instance(), block, index);
    magazine* room = cache.spare[index];
    if (room == nullptr || room->count == magazine_size) {
      depot& home = depot::instance();
      magazine* fresh = nullptr;
      {
        const std::lock_guard lock(home.mutex);
        fresh = pop(home.empty);
        if (fresh != nullptr && room != nullptr) push(home.full[index], room);
      }
      if (fresh == nullptr) {
        return_magazine(home, new magazine, index);
        return free_slow(block, index);  // anew: a new_handler may have freed blocks meanwhile
      }
      room = fresh;
    }
    cache.spare[index] = cache.loaded[index];
    cache.loaded[index] = room;
    room->free_blocks[room->count++] = block;
  } catch (...) {
    delete_block(depot::instance(), block, index);
  }
}
#endif

}  // namespace async::inline v0_1::detail
