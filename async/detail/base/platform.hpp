// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <atomic>              // for atomic, atomic_thread_fence
#include <condition_variable>  // for condition_variable
#include <cstddef>             // for size_t
#include <cstdint>             // for uint32_t, uintptr_t
#include <cstdlib>             // for malloc, free
#include <ctime>               // for timespec, clock_gettime
#include <exception>           // for terminate
#include <limits>              // for numeric_limits
#include <mutex>               // for mutex

#include "async/detail/base/chrono.hpp"   // for steady_clock, nanoseconds, seconds
#include "async/detail/base/config.hpp"   // for ASYNCSTEPS_TSAN, ASYNCSTEPS_REMOTE_FENCE, ASYNCSTEPS_SHARED
#include "async/detail/base/min_max.hpp"  // for max_of, min_of

/// ASYNCSTEPS_PORTABLE: defined for a whole program, it makes this header take no system for known, and use the
/// standard library in place of the system's calls to sleep, wake and order threads. For tests: that is slower.
#define ASYNCSTEPS_ON_LINUX 0
#define ASYNCSTEPS_ON_WINDOWS 0
#define ASYNCSTEPS_ON_APPLE 0
#if !defined(ASYNCSTEPS_PORTABLE)
#if defined(__linux__)
#undef ASYNCSTEPS_ON_LINUX
#define ASYNCSTEPS_ON_LINUX 1
#elif defined(_WIN32)
#undef ASYNCSTEPS_ON_WINDOWS
#define ASYNCSTEPS_ON_WINDOWS 1
#elif defined(__APPLE__)
#undef ASYNCSTEPS_ON_APPLE
#define ASYNCSTEPS_ON_APPLE 1
#endif
#endif

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#if ASYNCSTEPS_ON_LINUX
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#elif ASYNCSTEPS_ON_WINDOWS
#include <malloc.h>

#if defined(__MINGW32__)
#include <pthread.h>

#include <new>
#endif

#if defined(_MSC_VER)
#include <intrin.h>
#pragma comment(lib, "synchronization")  // elsewhere: -lsynchronization
#endif

// Functions of Windows 10, declared as in <windows.h>, which would define macros. It may be included before or after.
namespace async::inline v0_1::detail::platform {
#if defined(_WIN64)
using win_word = unsigned long long;
#else
using win_word = unsigned long;
#endif
}  // namespace async::inline v0_1::detail::platform
extern "C" {
__declspec(dllimport) void __stdcall FlushProcessWriteBuffers();
__declspec(dllimport) void* __stdcall GetCurrentProcess();
__declspec(dllimport) void* __stdcall GetCurrentThread();
__declspec(dllimport) void __stdcall GetCurrentThreadStackLimits(async::detail::platform::win_word*,
                                                                 async::detail::platform::win_word*);
__declspec(dllimport) int __stdcall GetProcessAffinityMask(void*, async::detail::platform::win_word*,
                                                           async::detail::platform::win_word*);
__declspec(dllimport) long __stdcall SetThreadDescription(void*, const wchar_t*);
int __stdcall WaitOnAddress(volatile void*, void*, async::detail::platform::win_word, unsigned long);
void __stdcall WakeByAddressAll(void*);
void __stdcall WakeByAddressSingle(void*);
}
#elif defined(__APPLE__) || defined(__unix__)
#include <pthread.h>
#endif

/// Everything that depends on the operating system or the processor. No other file tests for either.
namespace async::inline v0_1::detail {

/// Tells the core that this is a spin loop. About 5-50 ns.
inline void cpu_pause() noexcept {
#if defined(_MSC_VER) && (defined(_M_X64) || defined(_M_IX86))
  ::_mm_pause();
#elif defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || (defined(__ARM_ARCH) && __ARM_ARCH >= 7)
  __asm__ __volatile__("isb" ::: "memory");
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

/// A shorter pause, before a look at a word that another thread writes. About 5-20 ns. Some processors run ahead of
/// cpu_pause() and look early, and anew after each write, which takes the line away from the writer; not ahead of this.
inline void pause_between_looks() noexcept {
#if defined(_MSC_VER) && (defined(_M_X64) || defined(_M_IX86))
  ::_mm_lfence();
#elif defined(__SSE2__)
  __builtin_ia32_lfence();
#else
  cpu_pause();
#endif
}

/// Asks for the line of `address` in the exclusive state; never faults. Always inline: g++ takes a function that only
/// prefetches for one without effects, and drops calls of it.
[[gnu::always_inline]] inline void prefetch_for_write(const void* address) noexcept {
#if defined(__GNUC__)
  __builtin_prefetch(address, 1, 3);
#else
  static_cast<void>(address);
#endif
}

// --- asymmetric fence --------------------------------------------------------------------------------------------
//
// A pair of sequentially consistent fences of which one side is (nearly) free:
//
//   light side:  A.store(..)   light_fence()   B.load(..)
//   heavy side:  B.store(..)   heavy_fence()   A.load(..)
//
// At least one of the two loads sees the other side's store. Where the kernel can interrupt all threads of the process
// (membarrier(2), FlushProcessWriteBuffers), light_fence is a compiler barrier. Elsewhere both are seq_cst fences.
// ThreadSanitizer has no fences; there both are seq_cst read-modify-writes of one variable.

namespace platform {

#if ASYNCSTEPS_TSAN
ASYNCSTEPS_SHARED inline std::atomic<std::uint32_t> fence_word{0};
#endif

/// True once the kernel is known to do the heavy side.
/// [F1] is relaxed: a reader that sees false takes the full fence, which pairs with either kind of heavy side. A reader
/// that sees true is right for good, because the promise is never taken back.
/// Modules share it: a library that is loaded where a filter forbids the system call must not take the local side.
ASYNCSTEPS_SHARED inline constinit std::atomic<bool> heavy_fence_is_remote{false};

#if ASYNCSTEPS_ON_LINUX
inline int membarrier(int command) noexcept { return static_cast<int>(::syscall(SYS_membarrier, command, 0, 0)); }
inline bool register_heavy_fence() noexcept {
  return membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0 &&
         membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
}
/// membarrier(2) has worked and fails now: the system has lost the registration, or a filter (seccomp) forbids the
/// call. Without it, stores of the light side may stay invisible, so that a thread misses a wake-up and sleeps for
/// ever.
///
/// The system-wide command gives the same guarantee in milliseconds; a filter may allow it. Nothing else does on all
/// machines. A full fence here is half of a pair. If light_fence() became a full fence now, a thread could still be
/// behind the cheap one. mprotect() interrupts other processors on x86-64 only, and not on those that broadcast the
/// change. Signals do not reach threads that block them. So the program ends.
[[gnu::noinline, gnu::cold]] inline void remote_fence_again() noexcept {
  const int error = errno;
  if (register_heavy_fence() || membarrier(MEMBARRIER_CMD_GLOBAL) == 0) return;
  std::fprintf(stderr,
               "async: the system call membarrier has worked and fails now (%s): a filter that is installed while the "
               "program runs must allow it; or compile the program with -DASYNCSTEPS_REMOTE_FENCE=0\n",
               std::strerror(error));  // NOLINT(concurrency-mt-unsafe): the program ends
  std::terminate();
}
inline void remote_fence() noexcept {
  if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0) [[unlikely]]
    remote_fence_again();
}
#elif ASYNCSTEPS_ON_WINDOWS
inline bool register_heavy_fence() noexcept { return true; }
inline void remote_fence() noexcept { ::FlushProcessWriteBuffers(); }
#else
inline bool register_heavy_fence() noexcept { return false; }
inline void remote_fence() noexcept {}
#endif

enum class fence_kind : unsigned char { unknown, local, remote };
ASYNCSTEPS_SHARED inline constinit std::atomic<fence_kind> fence_state{fence_kind::unknown};

/// The heavy side's view: registers first, whatever the order of static initialisation.
inline bool heavy_fence_registered() noexcept {
  fence_kind known =
      fence_state.load(std::memory_order_relaxed);  // relaxed, all: written once, and nothing goes with it
  if (known == fence_kind::unknown) [[unlikely]] {
    const fence_kind found = ASYNCSTEPS_REMOTE_FENCE && register_heavy_fence() ? fence_kind::remote : fence_kind::local;
    if (fence_state.compare_exchange_strong(known, found, std::memory_order_relaxed)) known = found;
    heavy_fence_is_remote.store(known == fence_kind::remote, std::memory_order_relaxed);  // [F1]
  }
  return known == fence_kind::remote;
}

inline void full_fence() noexcept {
#if ASYNCSTEPS_TSAN
  fence_word.fetch_add(0, std::memory_order_seq_cst);  // [F2] seq_cst, pairs with itself; not modelled: TSan
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

#if !ASYNCSTEPS_TSAN
/// Registers before main() where possible, so that the light side is cheap from the start.
inline const bool registered_early = heavy_fence_registered();
#endif

}  // namespace platform

/// The cheap side of the asymmetric fence: a compiler barrier where the kernel does the other side's work.
[[gnu::always_inline]] inline void light_fence() noexcept {
  if (platform::heavy_fence_is_remote.load(std::memory_order_relaxed)) {  // [F1]
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    platform::full_fence();
  }
}

/// light_fence() for code that relies on it only where light_fence_is_free(), and so need not ask each time.
[[gnu::always_inline]] inline void free_light_fence() noexcept {
#if ASYNCSTEPS_TSAN
  platform::full_fence();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

/// True where light_fence() is a compiler barrier, so that it pays to move costs to the heavy side.
inline bool light_fence_is_free() noexcept {
  return ASYNCSTEPS_TSAN != 0 || platform::heavy_fence_registered();  // tested under ThreadSanitizer as well
}

/// The expensive side of the asymmetric fence: takes microseconds, and orders this thread with every thread's
/// light_fence().
inline void heavy_fence() noexcept {
#if ASYNCSTEPS_TSAN
  platform::full_fence();
#else
  if (platform::heavy_fence_registered()) {
    platform::remote_fence();  // orders the caller, too
  } else {
    platform::full_fence();
  }
#endif
}

// --- sleeping on a word ------------------------------------------------------------------------------------------

using wait_clock = std::chrono::steady_clock;

#if ASYNCSTEPS_ON_LINUX
/// Sleeps while `word` holds `expected`, at most until `deadline` (null: no limit). Wake-ups may be spurious: callers
/// look again. False: the deadline has passed. Orders nothing by itself.
inline bool wait_on_word(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                         const wait_clock::time_point* deadline = nullptr) noexcept {
  static_assert(sizeof(word) == sizeof(std::uint32_t), "a futex is a plain 32-bit word");
  struct {  // the kernel's timespec; the C library's may be larger on 32 bits
    __kernel_long_t seconds, nanoseconds;
  } until{};
  if (deadline != nullptr) {  // steady_clock is CLOCK_MONOTONIC, the clock of FUTEX_WAIT_BITSET
    if (*deadline <= wait_clock::time_point()) return word.load(std::memory_order_relaxed) != expected;  // only a look
    const auto since = max_of(deadline->time_since_epoch(), wait_clock::duration::zero());
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since);
    constexpr std::chrono::seconds longest{(std::numeric_limits<__kernel_long_t>::max)()};
    until.seconds = static_cast<__kernel_long_t>(min_of(seconds, longest).count());
    until.nanoseconds = static_cast<__kernel_long_t>(std::chrono::nanoseconds(since - seconds).count());
  }
  const long result = ::syscall(SYS_futex, static_cast<void*>(&word), FUTEX_WAIT_BITSET_PRIVATE, expected,
                                deadline != nullptr ? &until : nullptr, nullptr, FUTEX_BITSET_MATCH_ANY);
  return result == 0 || errno != ETIMEDOUT;
}
inline void wake_one(std::atomic<std::uint32_t>& word) noexcept {
  ::syscall(SYS_futex, static_cast<void*>(&word), FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}
inline void wake_all(std::atomic<std::uint32_t>& word) noexcept {
  ::syscall(SYS_futex, static_cast<void*>(&word), FUTEX_WAKE_PRIVATE, 0x7fffffff, nullptr, nullptr, 0);
}
#elif ASYNCSTEPS_ON_WINDOWS
namespace platform {
/// Milliseconds until `deadline`, rounded up so that a sleeper does not wake just before it; less than INFINITE.
inline unsigned long milliseconds_until(wait_clock::time_point deadline) noexcept {
  const auto now = wait_clock::now();
  if (deadline <= now) return 0;
  constexpr unsigned long longest = 0x7fffffffUL;  // 24 days; then callers look again
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - now).count();
  return left < static_cast<long long>(longest) ? static_cast<unsigned long>(left) + 1 : longest;
}
}  // namespace platform

inline bool wait_on_word(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                         const wait_clock::time_point* deadline = nullptr) noexcept {
  static_assert(sizeof(word) == sizeof(expected), "WaitOnAddress() compares the plain word");
  constexpr unsigned long for_ever = 0xffffffffUL;
  const unsigned long limit = deadline == nullptr ? for_ever : platform::milliseconds_until(*deadline);
  if (::WaitOnAddress(&word, &expected, sizeof(expected), limit) != 0) return true;
  return deadline == nullptr || wait_clock::now() < *deadline;
}
inline void wake_one(std::atomic<std::uint32_t>& word) noexcept { ::WakeByAddressSingle(&word); }
inline void wake_all(std::atomic<std::uint32_t>& word) noexcept { ::WakeByAddressAll(&word); }
#else
namespace platform {
/// Sleepers are spread over buckets by address, so that a wake-up of one word rarely disturbs sleepers on another.
struct wait_bucket {
  std::mutex mutex;
  std::condition_variable changed;
};
ASYNCSTEPS_SHARED inline constinit std::atomic<wait_bucket*> wait_buckets{
    nullptr};  // immortal: used until the last thread has gone
inline wait_bucket& bucket_of(const void* word) noexcept {
  wait_bucket* known = wait_buckets.load(std::memory_order_acquire);  // [F3] acquire, pairs with [F4]: the mutexes
  if (known == nullptr) {
    auto* const made = new wait_bucket[64];
    // [F4] acq_rel, pairs with [F3]: the mutexes, also of another thread that was faster
    if (wait_buckets.compare_exchange_strong(known, made, std::memory_order_acq_rel, std::memory_order_acquire)) {
      known = made;
    } else {
      delete[] made;
    }
  }
  return known[(reinterpret_cast<std::uintptr_t>(word) >> 4) % 64];
}
inline const wait_bucket& first_wait_bucket = bucket_of(nullptr);  // made before main(): a wake-up needs no memory
}  // namespace platform

inline bool wait_on_word(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                         const wait_clock::time_point* deadline = nullptr) noexcept {
  // Not left to wait_until(): that of libc++ subtracts the current time from the deadline, which may overflow.
  if (deadline != nullptr && *deadline <= wait_clock::now()) return word.load(std::memory_order_relaxed) != expected;
  platform::wait_bucket& bucket = platform::bucket_of(&word);
  std::unique_lock lock(bucket.mutex);
  if (word.load(std::memory_order_relaxed) != expected) return true;  // the mutex orders it with wake_*
  if (deadline == nullptr) {
    bucket.changed.wait(lock);
    return true;
  }
  return bucket.changed.wait_until(lock, *deadline) == std::cv_status::no_timeout;
}
inline void wake_all(std::atomic<std::uint32_t>& word) noexcept {
  platform::wait_bucket& bucket = platform::bucket_of(&word);
  {
    const std::lock_guard lock(bucket.mutex);
  }
  bucket.changed.notify_all();
}
inline void wake_one(std::atomic<std::uint32_t>& word) noexcept { wake_all(word); }
#endif

namespace platform {
/// wakes_only_own_module: whether a module that shares nothing with another (see ASYNCSTEPS_SHARED) cannot wake its
/// threads. wake_table(): equal in all modules that wake each other's threads. forget_wait_buckets(): in a child of
/// fork(), since threads of the parent may have held the mutexes.
#if ASYNCSTEPS_ON_LINUX || ASYNCSTEPS_ON_WINDOWS
inline constexpr bool wakes_only_own_module = false;
inline const void* wake_table() noexcept { return nullptr; }
inline void forget_wait_buckets() noexcept {}
#else
inline constexpr bool wakes_only_own_module = true;
inline const void* wake_table() noexcept { return &wait_buckets; }
inline void forget_wait_buckets() noexcept { wait_buckets.store(nullptr, std::memory_order_relaxed); }
#endif
}  // namespace platform

// --- threads -------------------------------------------------------------------------------------------------------

/// Whether std::call_once() can be called again after its function has thrown. In libstdc++ it hangs with the
/// pthread_once() of winpthreads and of ThreadSanitizer.
#if defined(__GLIBCXX__) && (defined(_WIN32) || ASYNCSTEPS_TSAN)
inline constexpr bool call_once_may_throw = false;
#else
inline constexpr bool call_once_may_throw = true;
#endif

/// The limits of a thread's stack.
struct stack_limits {
  std::uintptr_t lowest;  // 0: not known
  std::size_t size;
};

namespace platform {
/// The room below the first frame that looks, assumed on systems that do not tell the limits of a stack. The smallest
/// usual stack has 512 KiB.
inline constexpr std::size_t assumed_stack = std::size_t{384} * 1024;

[[gnu::always_inline]] inline std::uintptr_t frame_address() noexcept {
#if defined(__GNUC__)
  return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
#else
  return reinterpret_cast<std::uintptr_t>(::_AddressOfReturnAddress());
#endif
}

inline stack_limits find_stack_limits() noexcept {
#if ASYNCSTEPS_ON_LINUX
  pthread_attr_t attributes;
  if (::pthread_getattr_np(::pthread_self(), &attributes) != 0) return {0, 0};
  void* lowest = nullptr;
  std::size_t size = 0;
  if (::pthread_attr_getstack(&attributes, &lowest, &size) != 0) lowest = nullptr;
  ::pthread_attr_destroy(&attributes);
  return {reinterpret_cast<std::uintptr_t>(lowest), size};
#elif ASYNCSTEPS_ON_WINDOWS
  win_word lowest = 0;
  win_word highest = 0;
  ::GetCurrentThreadStackLimits(&lowest, &highest);
  return {static_cast<std::uintptr_t>(lowest), static_cast<std::size_t>(highest - lowest)};
#elif ASYNCSTEPS_ON_APPLE
  const std::size_t size = ::pthread_get_stacksize_np(::pthread_self());
  return {reinterpret_cast<std::uintptr_t>(::pthread_get_stackaddr_np(::pthread_self())) - size, size};
#else
  return {frame_address() - assumed_stack, assumed_stack};
#endif
}
struct known_stack {
  bool known;
  std::uintptr_t lowest;
  std::size_t reserve;  // above it
};
inline constinit thread_local known_stack this_stack{};  // one per module: each looks
[[gnu::noinline]] inline void look_at_stack() noexcept {
  const stack_limits found = find_stack_limits();
  constexpr std::size_t most_kept = std::size_t{1} << 20;
  this_stack = {true, found.lowest, found.lowest == 0 ? 0 : min_of(found.size / 4, most_kept)};
}
}  // namespace platform

/// True while the calling thread has more than a quarter of its stack left, or more than 1 MiB. Always true on another
/// stack (a fiber's).
inline bool has_stack_room() noexcept {
  if (!platform::this_stack.known) [[unlikely]]
    platform::look_at_stack();
  return platform::frame_address() - platform::this_stack.lowest >
         platform::this_stack.reserve;  // wraps around below it
}

/// The longest name of a thread, in characters.
#if ASYNCSTEPS_ON_LINUX
inline constexpr int thread_name_length = 15;
#else
inline constexpr int thread_name_length = 63;
#endif

/// Names the calling thread for debuggers and profilers. Best effort: long names are cut; some systems have no names.
inline void set_thread_name(const char* name) noexcept {
#if ASYNCSTEPS_ON_LINUX
  char shortened[thread_name_length + 1] = {};
  for (std::size_t i = 0; i < sizeof shortened - 1 && name[i] != 0; ++i) shortened[i] = name[i];
  ::pthread_setname_np(::pthread_self(), shortened);
#elif ASYNCSTEPS_ON_APPLE
  ::pthread_setname_np(name);
#elif ASYNCSTEPS_ON_WINDOWS
  wchar_t wide[64] = {};
  for (std::size_t i = 0; i < 63 && name[i] != 0; ++i) wide[i] = static_cast<unsigned char>(name[i]);
  ::SetThreadDescription(::GetCurrentThread(), wide);
#else
  static_cast<void>(name);
#endif
}

// --- the end of a thread -------------------------------------------------------------------------------------------

/// Whether the destructors of a thread's variables run when the variables without destructors are gone. With g++ for
/// Windows they do: its emulation of thread_local frees all of them first, and the destructors find zeroed copies.
#if defined(__MINGW32__) && defined(__GNUC__) && !defined(__clang__)
#define ASYNCSTEPS_EMULATED_THREAD_LOCALS 1

namespace platform {
struct thread_end_call {
  virtual ~thread_end_call() = default;
  thread_end_call* next = nullptr;
};
template <class Keeper>
struct kept_until_thread_end final : thread_end_call {
  Keeper keeper;
};

/// The calls that a thread makes at its end. Functions of keys are called in the order in which the keys were made.
inline pthread_key_t thread_end_key() noexcept {
  static const pthread_key_t made = [] {
    pthread_key_t key{};
    static_cast<void>(::pthread_key_create(&key, [](void* calls) {
      for (auto* call = static_cast<thread_end_call*>(calls); call != nullptr;) {
        thread_end_call* const done = call;
        call = call->next;
        delete done;
      }
    }));
    return key;
  }();
  return made;
}
/// Before the emulation makes its own key, at the first use of a thread_local. By the section of
/// [[gnu::constructor(101)]], since g++ forgets that priority in a precompiled header.
static void make_thread_end_key() { static_cast<void>(thread_end_key()); }
[[gnu::used, gnu::section(".ctors.65434")]] static void (*const make_thread_end_key_first)() = &make_thread_end_key;

/// Makes a Keeper, whose destructor runs when the thread ends, newest first, and finds all thread-local variables as
/// they were. Not in the main thread, which takes the process along. False: there is no memory.
template <class Keeper>
bool keep_until_thread_end() noexcept {
  const pthread_key_t key = thread_end_key();
  void* const next = ::pthread_getspecific(key);
  if (::pthread_setspecific(key, next) != 0) return false;  // makes the place, so that it will not fail below
  auto* const made = new (std::nothrow) kept_until_thread_end<Keeper>;
  if (made == nullptr) return false;
  made->next = static_cast<thread_end_call*>(next);
  static_cast<void>(::pthread_setspecific(key, static_cast<thread_end_call*>(made)));
  return true;
}
}  // namespace platform
#else
#define ASYNCSTEPS_EMULATED_THREAD_LOCALS 0

namespace platform {
/// Makes a Keeper, whose destructor runs when the thread ends. False: there is no memory. It is a thread_local
/// variable, and a C library that gets no memory to register its destructor ends the process; so this looks first
/// whether there is some. Best effort: another thread may take it.
template <class Keeper>
bool keep_until_thread_end() noexcept {
  void* volatile block = std::malloc(4096);  // more than malloc() keeps aside for blocks of one size
  if (block == nullptr) return false;
  std::free(block);
  static thread_local Keeper at_thread_end;  // one per module
  static_cast<void>(at_thread_end);
  return true;
}
}  // namespace platform
#endif

// --- fork() ----------------------------------------------------------------------------------------------------------

namespace platform {
/// Whether std::mutex needs no code to begin. MinGW's does.
#if defined(_WIN32)
inline constexpr bool mutex_is_constant = false;
#else
inline constexpr bool mutex_is_constant = true;
#endif

/// Calls the functions at each fork() of the process: in the thread that forks, and in the child. Best effort: without
/// memory, nothing is called.
inline void call_at_fork(void (*before)(), void (*in_parent)(), void (*in_child)()) noexcept {
#if defined(__unix__) || defined(__APPLE__)
  static_cast<void>(::pthread_atfork(before, in_parent, in_child));
#else
  static_cast<void>(before), static_cast<void>(in_parent), static_cast<void>(in_child);
#endif
}
}  // namespace platform

// --- time ------------------------------------------------------------------------------------------------------------

namespace platform {
/// The CPU time of all threads of the process; where it is not known, the time that passes.
inline std::chrono::nanoseconds process_cpu_time() noexcept {
#if defined(CLOCK_PROCESS_CPUTIME_ID) && (defined(__unix__) || defined(__APPLE__))
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
#else
  return std::chrono::steady_clock::now().time_since_epoch();
#endif
}
}  // namespace platform

// --- memory ----------------------------------------------------------------------------------------------------------

/// Makes the allocator return free memory to the system. Best effort. Unless asked, glibc keeps free memory that lies
/// below memory in use.
inline void return_free_memory() noexcept {
#if defined(__GLIBC__)
  ::malloc_trim(0);
#elif ASYNCSTEPS_ON_WINDOWS
  ::_heapmin();
#endif
}

#if ASYNCSTEPS_ON_LINUX
inline constexpr bool can_discard_pages = true;

/// Returns the whole pages between `begin` and `begin + bytes` to the system; the addresses stay valid. Later
/// reads find zeros, or the old contents where the system keeps a page. Best effort; returns the number of bytes.
inline std::size_t discard_pages(void* begin, std::size_t bytes) noexcept {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t first = (at + page - 1) / page * page;
  const std::uintptr_t end = (at + bytes) / page * page;
  if (first >= end || ::madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED) != 0) return 0;
  return end - first;
}
#else
inline constexpr bool can_discard_pages = false;
inline std::size_t discard_pages(void*, std::size_t) noexcept { return 0; }
#endif

}  // namespace async::inline v0_1::detail
