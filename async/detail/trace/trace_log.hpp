// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <array>        // for array
#include <atomic>       // for atomic: what is recorded about the library does not go through its own seam
#include <cstddef>      // for size_t
#include <cstdint>      // for uint64_t
#include <cstdio>       // for snprintf
#include <cstring>      // for memcpy
#include <memory>       // for unique_ptr
#include <new>          // for nothrow
#include <string_view>  // for string_view

#include "async/detail/base/chrono.hpp"    // for steady_clock
#include "async/detail/base/config.hpp"    // for ASYNCSTEPS_SHARED
#include "async/detail/base/platform.hpp"  // for keep_until_thread_end

/// The store of async::trace: a ring of events for each thread.
namespace async::inline v0_1::detail {

enum class trace_kind : std::uint8_t { task, callback, step, handler, park, wake, steal, flow_start, flow_end };

struct trace_event {
  std::int64_t start;  // nanoseconds of the steady clock, like `end`
  std::int64_t end;    // equal to `start`: an instant
  std::uint64_t about;
  std::string_view name;  // of static storage duration
  trace_kind kind;
};

inline std::int64_t trace_time() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// The memory that is recorded into; a model checker brings its own.
struct trace_memory {
  template <class T>
  using atomic = std::atomic<T>;
  template <class T>
  using plain = T;
};

/// The latest events of one thread.
///
/// Threads     begin() and append(): the owner. read(): any thread, also at the same time.
/// Progress    append() and read() are wait-free.
template <class Memory = trace_memory>
class basic_trace_log {
 public:
  static constexpr std::size_t name_size = 32;

  /// Discards all events, and makes room. Without memory, all further events are dropped.
  void begin(std::uint64_t session, std::size_t capacity, const char* name) noexcept {
    session_.store(0, std::memory_order_relaxed);  // relaxed: no thread reads a log of a session that is over
    if (capacity != capacity_ || slots_ == nullptr) {
      slots_.reset();
      constexpr std::size_t most = static_cast<std::size_t>(-1) / 2 / sizeof(slot);  // else new[] throws all the same
      if (capacity != 0 && capacity < most) slots_.reset(new (std::nothrow) slot[capacity + 1]{});
      capacity_ = slots_ == nullptr ? 0 : capacity;
    }
    count_.store(0, std::memory_order_relaxed);  // relaxed: published with the session
    next_ = 0;
    std::memcpy(name_, name, name_size);
    session_.store(session, std::memory_order_release);  // [TR1] release, pairs with [TR2]: an empty log
  }

  void append(const trace_event& e) noexcept {
    const std::uint64_t count = count_.load(std::memory_order_relaxed);  // relaxed: this thread's value
    if (slots_ != nullptr) {
      const std::uint64_t words[] = {static_cast<std::uint64_t>(e.start), static_cast<std::uint64_t>(e.end), e.about,
                                     reinterpret_cast<std::uintptr_t>(e.name.data()),
                                     std::uint64_t{e.name.size()} << 8 | static_cast<std::uint64_t>(e.kind)};
      slot& to = slots_[next_];
      // [TR3] release, pairs with [TR4]: a reader of a part of this event sees that count_ has come to it
      for (std::size_t i = 0; i < to.size(); ++i) to[i].store(words[i], std::memory_order_release);
      next_ = next_ == capacity_ ? 0 : next_ + 1;
    }
    count_.store(count + 1, std::memory_order_release);  // [TR5] release, pairs with [TR6]: the event
  }

  /// Calls f(event) for the events that are kept, oldest first; returns how many have been dropped.
  template <class F>
  std::uint64_t read(F f) const {
    const std::uint64_t count = count_.load(std::memory_order_acquire);  // [TR6] acquire, pairs with [TR5]
    std::uint64_t kept = 0;
    for (std::uint64_t i = count > capacity_ ? count - capacity_ : 0; i < count; ++i) {
      const slot& from = slots_[static_cast<std::size_t>(i % (capacity_ + 1))];
      std::uint64_t words[5];
      // [TR4] acquire, pairs with [TR3]
      for (std::size_t n = 0; n < from.size(); ++n) words[n] = from[n].load(std::memory_order_acquire);
      // relaxed: not older than the words above. Beyond it, the event in this one's place may have been begun
      if (count_.load(std::memory_order_relaxed) > i + capacity_) continue;
      ++kept;
      f(trace_event{static_cast<std::int64_t>(words[0]),
                    static_cast<std::int64_t>(words[1]),
                    words[2],
                    {reinterpret_cast<const char*>(static_cast<std::uintptr_t>(words[3])),
                     static_cast<std::size_t>(words[4] >> 8)},
                    static_cast<trace_kind>(words[4] & 0xff)});
    }
    return count - kept;
  }

  bool is_of(std::uint64_t session) const noexcept { return session_of() == session; }
  std::string_view name() const noexcept { return name_; }

  /// Makes the calling thread the owner. False: the log has an owner, or holds events of `session` or a later one; the
  /// caller may have been delayed since an earlier session.
  bool claim(std::uint64_t session) noexcept {
    // [TR7] acquire, pairs with [TR8]: what the last owner did
    if (session_of() >= session || owned_.exchange(true, std::memory_order_acquire)) return false;
    if (session_of() < session) return true;
    disclaim();
    return false;
  }
  void disclaim() noexcept { owned_.store(false, std::memory_order_release); }  // [TR8] release, pairs with [TR7]

  typename Memory::template plain<basic_trace_log*> next{};  // in the list of logs; constant once the log is in it

 private:
  template <class T>
  using atomic = typename Memory::template atomic<T>;
  template <class T>
  using plain = typename Memory::template plain<T>;
  using slot = std::array<atomic<std::uint64_t>, 5>;

  std::uint64_t session_of() const noexcept {
    return session_.load(std::memory_order_acquire);  // [TR2] acquire, pairs with [TR1]
  }

  atomic<bool> owned_{true};
  atomic<std::uint64_t> session_{0};
  atomic<std::uint64_t> count_{0};  // events appended
  std::unique_ptr<slot[]> slots_;   // one more than the capacity, for the event that is being written
  plain<std::size_t> capacity_{};
  plain<std::size_t> next_{};
  char name_[name_size] = {};
};
using trace_log = basic_trace_log<>;

/// The recording of a process. Logs stay until the process ends; later sessions reuse the logs of ended threads.
///
/// Threads     any. Sessions follow each other; begin(), end() and for_each() of a session are not called concurrently.
/// Progress    record() is lock-free.
template <class Memory = trace_memory>
class basic_trace_recording {
 public:
  using log = basic_trace_log<Memory>;

  /// Begins a session and returns its number; 0: there is another one.
  std::uint64_t begin(std::size_t capacity) noexcept {
    // [TR13] acquire, pairs with [TR14]: the last session has ended
    if (taken_.exchange(true, std::memory_order_acquire)) return 0;
    const std::uint64_t number = sessions_ + 1;
    sessions_ = number;
    lost_.store(0, std::memory_order_relaxed);  // relaxed, both: published with the number
    room_.store(capacity, std::memory_order_relaxed);
    active_.store(number, std::memory_order_release);  // [TR12] release, pairs with [TR11]
    return number;
  }
  void stop() noexcept { active_.store(0, std::memory_order_relaxed); }    // relaxed: it publishes nothing
  void end() noexcept { taken_.store(false, std::memory_order_release); }  // [TR14] release, pairs with [TR13]
  bool is_active() const noexcept { return active_.load(std::memory_order_relaxed) != 0; }  // relaxed: a hint

  /// Adds an event to `own`, the calling thread's log. If that is null and may_claim(), the thread gets a log. Without
  /// a log, the event counts as lost.
  template <class MayClaim>
  void record(log*& own, const char* name, const trace_event& e, MayClaim may_claim) noexcept {
    // [TR11] acquire, pairs with [TR12]: the capacity
    const std::uint64_t session = active_.load(std::memory_order_acquire);
    if (session == 0) return;
    if (own == nullptr && may_claim()) own = claim(session);
    if (own == nullptr) {
      lost_.fetch_add(1, std::memory_order_relaxed);  // relaxed: a figure
      return;
    }
    // relaxed: see [TR11]
    if (!own->is_of(session)) own->begin(session, room_.load(std::memory_order_relaxed), name);
    own->append(e);
  }

  /// Calls f(const log&) for each log that holds events of the session.
  template <class F>
  void for_each(std::uint64_t session, F f) const {
    // [TR9] acquire, pairs with [TR10]
    for (const log* l = logs_.load(std::memory_order_acquire); l != nullptr; l = l->next) {
      if (l->is_of(session)) f(*l);
    }
  }
  std::uint64_t lost() const noexcept { return lost_.load(std::memory_order_relaxed); }  // relaxed: a figure

 private:
  template <class T>
  using atomic = typename Memory::template atomic<T>;

  /// A log for the calling thread; null: out of memory.
  [[gnu::noinline]] log* claim(std::uint64_t session) noexcept {
    log* first = logs_.load(std::memory_order_acquire);  // [TR9] acquire, pairs with [TR10]
    for (log* l = first; l != nullptr; l = l->next) {
      if (l->claim(session)) return l;
    }
    log* const made = new (std::nothrow) log;
    if (made == nullptr) return nullptr;
    do {
      made->next = first;
      // [TR10] release, pairs with [TR9]: the log
    } while (!logs_.compare_exchange_weak(first, made, std::memory_order_release, std::memory_order_relaxed));
    return made;
  }

  atomic<bool> taken_{false};                                  // there is a session
  atomic<std::uint64_t> active_{0};                            // its number while it records
  typename Memory::template plain<std::uint64_t> sessions_{};  // written by the thread that has begun one
  atomic<std::size_t> room_{0};                                // events of each thread
  atomic<std::uint64_t> lost_{0};                              // events of threads that have no log
  atomic<log*> logs_{nullptr};
};
ASYNCSTEPS_SHARED inline constinit basic_trace_recording<> tracing;

struct trace_thread {
  trace_log* log;
  bool has_ended;
  char name[trace_log::name_size];
};
ASYNCSTEPS_SHARED inline constinit thread_local trace_thread this_trace{};

/// Gives the log back when the thread ends.
struct trace_leave {
  ~trace_leave() {
    if (this_trace.log != nullptr) this_trace.log->disclaim();
    this_trace.log = nullptr;
    this_trace.has_ended = true;
  }
};

inline bool is_tracing() noexcept { return tracing.is_active(); }

inline void trace_record(const trace_event& e) noexcept {
  tracing.record(this_trace.log, this_trace.name, e, []() noexcept {
    // else the log would not be given back
    return !this_trace.has_ended && platform::keep_until_thread_end<trace_leave>();
  });
}

/// Records the time from its construction to its destruction.
class trace_span {
 public:
  trace_span(trace_kind kind, std::string_view name, std::uint64_t about) noexcept
      : event_{is_tracing() ? trace_time() : 0, 0, about, name, kind} {}
  trace_span(const trace_span&) = delete;
  trace_span& operator=(const trace_span&) = delete;
  ~trace_span() {
    if (event_.start == 0) return;
    event_.end = trace_time();
    trace_record(event_);
  }

 private:
  trace_event event_;
};

inline void trace_instant(trace_kind kind, std::string_view name, std::uint64_t about) noexcept {
  if (!is_tracing()) return;
  const std::int64_t time = trace_time();
  trace_record({time, time, about, name, kind});
}

/// Sets the calling thread's name in traces to "name/number", for its first event and all that follow.
inline void name_traced_thread(const char* name, std::size_t number) noexcept {
  std::snprintf(this_trace.name, sizeof this_trace.name, "%s/%zu", name, number);
}

inline std::uint64_t trace_id(const void* address) noexcept { return reinterpret_cast<std::uintptr_t>(address); }

}  // namespace async::inline v0_1::detail
