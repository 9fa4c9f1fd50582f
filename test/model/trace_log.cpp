// SPDX-License-Identifier: BSL-1.0
//
// Threads record into a trace while another one reads it: the rings of threads that live, end and come in
// later sessions.
#include "relacy_runner.hpp"

#include "async/detail/trace/trace_log.hpp"

using async::detail::atomic;
using async::detail::trace_event;
using async::detail::trace_kind;
using async::detail::yield_thread;
using model::check;

namespace {

/// A variable whose accesses the checker sees.
template <class T>
class plain {
 public:
  plain() = default;
  plain(const plain&) = delete;
  plain& operator=(const plain& other) { return *this = static_cast<T>(other); }
  plain& operator=(T value) {
    tracked_.write(std::source_location::current());
    value_ = value;
    return *this;
  }
  operator T() const {
    tracked_.read(std::source_location::current());
    return value_;
  }
  T operator->() const { return *this; }

 private:
  T value_{};
  model::tracked tracked_;
};

struct memory {
  template <class T>
  using atomic = async::detail::atomic<T>;
  template <class T>
  using plain = ::plain<T>;
};
using log_t = async::detail::basic_trace_log<memory>;

constexpr char text[] = "....";
constexpr char writer_name[log_t::name_size] = "writer";

trace_event event(unsigned number) { return {number, number, number, {text, number}, static_cast<trace_kind>(number)}; }
/// The number of an event; it is a whole one.
unsigned number_of(const trace_event& e) {
  const auto number = static_cast<unsigned>(e.about);
  check(number != 0 && e.start == number && e.end == number && e.name.data() == text && e.name.size() == number &&
            e.kind == static_cast<trace_kind>(number),
        "an event is whole");
  return number;
}

/// The events of a ring of one, read while its thread writes three.
struct ring : rl::test_suite<ring, 2> {
  log_t log;
  void before() { log.begin(1, 1, writer_name); }
  void thread(unsigned index) {
    if (index == 0) {
      for (unsigned i = 1; i <= 3; ++i) log.append(event(i));
      return;
    }
    unsigned kept = 0;
    const std::uint64_t dropped = log.read([&](const trace_event& e) { kept = number_of(e); });
    check(kept == 0 || dropped + 1 == kept, "what is read is the latest");
  }
};

/// A recording whose threads have a log each, which the model gives back at their ends.
struct recording {
  async::detail::basic_trace_recording<memory> all;
  atomic<log_t*> made[4];  // to be deleted

  struct thread {
    log_t* log = nullptr;
    ~thread() {
      if (log != nullptr) log->disclaim();
    }
  };
  void record(thread& self, unsigned number, unsigned index) {
    all.record(self.log, writer_name, event(number), []() noexcept { return true; });
    if (self.log != nullptr) made[index].store(self.log, std::memory_order_relaxed);
  }
  /// The events of a session, of which `numbers` are told.
  unsigned count(std::uint64_t session) {
    unsigned sum = 0;
    all.for_each(session, [&](const log_t& l) {
      static_cast<void>(l.name());
      l.read([&](const trace_event& e) { sum += number_of(e); });
    });
    return sum;
  }
  void clear() {
    for (auto& entry : made) {
      log_t* const log = entry.load(std::memory_order_relaxed);
      if (log == nullptr) continue;
      for (auto& other : made) {
        if (other.load(std::memory_order_relaxed) == log) other.store(nullptr, std::memory_order_relaxed);
      }
      delete log;
    }
  }
};

/// Two threads record into a session, one of them after it has begun, while it is read.
struct first_events : rl::test_suite<first_events, 3> {
  recording r;
  void thread(unsigned index) {
    if (index == 2) {
      const std::uint64_t session = r.all.begin(2);
      check(session == 1, "there is no other");
      const unsigned sum = r.count(session);
      check(sum <= 3, "what is recorded once is read once");
      r.all.stop();
      return;
    }
    recording::thread self;
    r.record(self, index + 1, index);
  }
  void after() {
    unsigned recorded = 0;
    for (unsigned i = 0; i < 2; ++i) {
      if (r.made[i].load(std::memory_order_relaxed) != nullptr) recorded += i + 1;
    }
    check(r.count(1) == recorded, "who has seen the session has the room that it gives");
    r.clear();
  }
};

/// Two threads record in a session and end; what they have recorded stays. Their logs are used again in the next one.
struct used_again : rl::test_suite<used_again, 3> {
  recording r;
  atomic<unsigned> phase{0};
  void before() { r.all.begin(1); }
  void thread(unsigned index) {
    if (index != 2) {
      {
        recording::thread self;
        r.record(self, index + 1, index);
      }
      phase.fetch_add(1, std::memory_order_release);
      return;
    }
    while (phase.load(std::memory_order_acquire) == 0) yield_thread();
    const unsigned seen = r.count(1);
    check(seen >= 1 && seen <= 3, "who has ended is in it");
    r.all.stop();
    r.all.end();
    const std::uint64_t next = r.all.begin(2);
    recording::thread self;
    r.record(self, 3, 2);
    check(r.count(next) >= 3, "a session has its own events");
  }
  void after() { r.clear(); }
};

/// A thread ends, and another one that begins in a later session gets its log from it alone.
struct handed_on : rl::test_suite<handed_on, 2> {
  recording r;
  void before() {
    r.all.begin(1);
    recording::thread self;
    r.record(self, 1, 0);
    r.all.stop();
    r.all.end();
  }
  void thread(unsigned index) {
    if (index == 0) {
      const std::uint64_t session = r.all.begin(2);
      recording::thread self;
      r.record(self, 2, 0);
      check(r.count(session) >= 2, "it is there");
      r.all.stop();
      r.all.end();
      return;
    }
    recording::thread self;
    r.record(self, 3, 1);
  }
  void after() { r.clear(); }
};

/// A thread that is delayed in a session looks for a log in the next one, where another thread has recorded and ended.
struct straggler : rl::test_suite<straggler, 2> {
  recording r;
  void before() { r.all.begin(1); }
  void thread(unsigned index) {
    recording::thread self;
    if (index == 1) {
      r.all.stop();
      r.all.end();
      check(r.all.begin(2) == 2, "the session before has ended");
    }
    r.record(self, index + 1, index);
  }
  void after() {
    const unsigned sum = r.count(2);
    check(sum == 2 || sum == 3, "what has been recorded in this session is in it");
    r.clear();
  }
};

/// Two sessions that threads want at the same time: one gets it, or both after each other.
struct two_sessions : rl::test_suite<two_sessions, 2> {
  recording r;
  async::detail::cell<unsigned> held{0};
  void thread(unsigned) {
    const std::uint64_t session = r.all.begin(1);
    if (session == 0) return;
    held.set(held.get() + 1);
    check(held.get() == session, "each session has its number");
    r.all.stop();
    r.all.end();
  }
  void after() { check(held.get() != 0, "somebody has got it"); }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("trace_log", argc, argv);
  const model::effort some{.at_most = 60'000, .random = 60'000};
  run.check<ring>("a ring is read while its thread writes", some);
  run.check<first_events>("two threads record their first events", some);
  run.check<used_again>("a log whose thread has ended is read, and used again", some);
  run.check<handed_on>("the log of a session that is over goes to one of two threads", some);
  run.check<straggler>("a thread that was delayed in an earlier session claims no log of a later one",
                       {.at_most = 200'000, .random = 20'000});
  run.check<two_sessions>("two threads begin sessions");
  return run.result();
}
