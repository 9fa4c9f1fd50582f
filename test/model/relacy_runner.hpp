// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "relacy_seam.hpp"  // first: it puts Relacy's memory in place of the product's

#include <cstdio>   // for printf
#include <cstdlib>  // for strtoull
#include <limits>   // for numeric_limits
#include <string>   // for string

#include "support/scale.hpp"  // for scale

/// Runs models; see relacy_seam.hpp for how to write one.
namespace model {

/// The storage of elements in one execution: one entry for each address that ever held one.
class storage {
 public:
  struct entry {
    const void* address;
    alignas(tracked) std::byte memory[sizeof(tracked)];
    bool holds_element;

    tracked& accesses() { return *reinterpret_cast<tracked*>(memory); }
  };

  static entry& of(const void* address) {
    for (unsigned i = 0; i < used; ++i) {
      if (entries[i].address == address) return entries[i];
    }
    check(used < capacity, "too many elements for the model");
    entry& fresh = entries[used++];
    fresh.address = address;
    fresh.holds_element = false;
    ::new (static_cast<void*>(fresh.memory)) tracked();
    return fresh;
  }

  static bool is_empty() {
    for (unsigned i = 0; i < used; ++i) {
      if (entries[i].holds_element) return false;
    }
    return true;
  }
  static void clear() {
    for (; used != 0; --used) entries[used - 1].accesses().~tracked();
  }
  static void forget() { used = 0; }

 private:
  static constexpr unsigned capacity = 256;
  static inline entry entries[capacity];
  static inline unsigned used = 0;
};

/// A movable element for containers under test. The checker sees its accesses to the storage it lives in, also those of
/// the elements that lived there before it, and reports an element made where one lives, used or destroyed where none
/// lives, read after it was moved out, or left behind at the end of the execution.
class element {
 public:
  element() { begin(place::current()); }
  explicit element(unsigned value) : value_(value) { begin(place::current()); }
  element(element&& other) noexcept : value_(other.take(place::current())) { begin(place::current()); }
  element& operator=(element&& other) noexcept {
    const unsigned value = other.take(place::current());
    touch(place::current()).accesses().write(place::current());
    value_ = value;
    return *this;
  }
  ~element() {
    storage::entry& here = touch(place::current());
    here.accesses().write(place::current());
    here.holds_element = false;
  }

  unsigned value(place at = place::current()) const {
    touch(at).accesses().read(at);
    check(value_ != moved_out, "a moved-out element is read", at);
    return value_;
  }

 private:
  static constexpr unsigned moved_out = 0xdeadU;

  void begin(const place& at) {
    storage::entry& here = storage::of(this);
    check(!here.holds_element, "an element is made where one lives", at);
    here.accesses().write(at);
    here.holds_element = true;
  }
  storage::entry& touch(const place& at) const {
    storage::entry& here = storage::of(this);
    check(here.holds_element, "an element is used where none lives", at);
    return here;
  }
  unsigned take(const place& at) {
    const unsigned value = this->value(at);
    touch(at).accesses().write(at);
    value_ = moved_out;
    return value;
  }

  unsigned value_ = 0;
};

/// Makes the model's program repeatable and counts its executions: base of every suite that runs.
struct execution {
  static inline unsigned long long count = 0;
  static inline unsigned long long last = 0;  // the execution after which the search ends, 0: none

  execution() {
    now = std::chrono::nanoseconds(0);
    storage::forget();
    ++count;
  }
  execution(const execution&) = delete;
  execution& operator=(const execution&) = delete;
  virtual ~execution() {
    check(storage::is_empty(), "an element is left behind");
    storage::clear();
  }

  virtual void before() = 0;
  virtual void thread(unsigned index) = 0;
  virtual void after() = 0;
};

/// An execution of one suite.
template <class Suite>
struct execution_of final : execution {
  static execution* make() {
    alignas(execution_of) static std::byte room[sizeof(execution_of)];
    return ::new (static_cast<void*>(room)) execution_of;
  }
  void before() override { suite.before(); }
  void thread(unsigned index) override { suite.thread(index); }
  void after() override { suite.after(); }

  Suite suite;
};

/// The suite that Relacy knows: any one with this number of threads. So its templates, which take most of a model's
/// time to compile, are instantiated once for each number of threads, not for each suite.
template <rl::thread_id_t Threads>
struct any_suite : rl::test_suite<any_suite<Threads>, Threads> {
  static inline execution* (*make)() = nullptr;

  ~any_suite() { running->~execution(); }
  void before() { running->before(); }
  void thread(unsigned index) { running->thread(index); }
  void after() {
    running->after();
    if (execution::last != 0 && execution::count >= execution::last) rl::ctx().rl_until("enough", rl::debug_info());
  }

  execution* running = make();
};

/// How much is tried of one suite.
struct effort {
  unsigned bound = 2;                    // context switches that the systematic search may force
  unsigned long long at_most = 150'000;  // executions of the systematic search, times the square of scale()
  unsigned long long random = 50'000;    // executions of the random search, times scale()
  unsigned depth = 2000;                 // steps after which an execution counts as a livelock
};

/// Runs the suites of one program: each systematically up to a number of context switches, then at random.
///
/// Arguments: --filter TEXT   only suites whose name contains it
///            --bound N       context switches of the systematic search, 0: none (default: the suite's, usually 2)
///            --random N      executions of the random search (default: the suite's times scale())
///            --seed N        first seed of the random search (default: 1)
class runner {
 public:
  runner(const char* name, int argc, char** argv) : name_(name) {
    for (int i = 1; i + 1 < argc; i += 2) {
      const std::string option = argv[i];
      if (option == "--filter") filter_ = argv[i + 1];
      if (option == "--bound") bound_ = number(argv[i + 1]);
      if (option == "--random") random_ = number(argv[i + 1]);
      if (option == "--seed") seed_ = number(argv[i + 1]);
    }
  }

  /// The suite must pass under every schedule tried.
  template <class Suite>
  void check(const char* what, effort e = {}) {
    run<Suite>(what, e, false);
  }

  /// The suite must fail: shows that the checker sees the fault in it.
  template <class Suite>
  void check_fails(const char* what, effort e = {}) {
    run<Suite>(what, e, true);
  }

  /// Prints the summary; the exit status of the program.
  int result() const {
    if (suites_ == 0) std::printf("model %s: no suite ran\n", name_);
    std::printf("count: %llu executions\n", executions_);
    std::printf("model %s: %u suites, %llu executions, %u failed\n", name_, suites_, executions_, failed_);
    return failed_ == 0 && suites_ != 0 ? 0 : 1;
  }

 private:
  static constexpr unsigned long long unset = (std::numeric_limits<unsigned long long>::max)();
  static unsigned long long number(const char* text) { return std::strtoull(text, nullptr, 10); }

  template <rl::thread_id_t Threads, class Scheduler>
  rl::test_result_e search(rl::test_params& params, rl::ostringstream& said) {
    rl::ostringstream state;
    params.output_stream = params.progress_stream = &said;
    execution::count = 0;
    const rl::test_result_e found = rl::run_test<any_suite<Threads>, Scheduler>(params, state, false);
    found_after_ = execution::count;
    executions_ += found_after_;
    if (found == rl::test_result_success || found == rl::test_result_until_condition_hit) return found;
    execution::last = 0;
    params.initial_state = state.str();  // once more, recording
    params.collect_history = true;
    rl::run_test<any_suite<Threads>, Scheduler>(params, state, true);
    return found;
  }

  template <class Suite>
  void run(const char* what, effort e, bool must_fail) {
    if (std::string(what).find(filter_) == std::string::npos) return;
    ++suites_;
    constexpr rl::thread_id_t threads = Suite::params::thread_count;
    static_assert(threads <= most_threads);
    any_suite<threads>::make = &execution_of<Suite>::make;
    std::printf("%s: ", what);
    rl::ostringstream said;
    rl::test_result_e found = rl::test_result_success;
    const unsigned bound = bound_ == unset ? e.bound : static_cast<unsigned>(bound_);
    if (bound != 0) {
      rl::test_params params;
      params.search_type = rl::sched_bound;
      params.context_bound = bound;
      params.execution_depth_limit = e.depth;
      execution::last = e.at_most * testing::scale() * testing::scale();
      found = search<threads, rl::context_bound_scheduler<threads>>(params, said);
      std::printf("%llu executions (%s to %u switches)", found_after_,
                  found == rl::test_result_until_condition_hit ? "cut short" : "complete", bound);
      if (found == rl::test_result_until_condition_hit) found = rl::test_result_success;
    }
    const unsigned long long random = random_ == unset ? e.random * testing::scale() : random_;
    if (found == rl::test_result_success && random != 0) {
      rl::test_params params;
      params.search_type = rl::sched_random;
      params.initial_state = std::to_string(seed_).c_str();
      params.iteration_count = seed_ + random - 1;
      params.execution_depth_limit = e.depth;
      execution::last = 0;
      found = search<threads, rl::random_scheduler<threads>>(params, said);
      std::printf("%s%llu at random", bound != 0 ? ", " : "", found_after_);
    }
    const bool passed = (found != rl::test_result_success) == must_fail;
    failed_ += !passed;
    std::printf(": %s%s\n", rl::test_result_str(found), must_fail && passed ? ", as it must" : "");
    if (!passed) show(said.str().c_str());
    if (!passed) std::printf("FAILED: %s%s\n", what, must_fail ? " (found no fault)" : "");
    std::fflush(stdout);
  }

  /// The history of all threads together, not Relacy's repetition for each thread, and not a livelock's hundreds of
  /// rounds.
  static void show(const std::string& said) {
    std::size_t from = 0;
    for (int line = 0; line < 400 && from < said.size(); ++line) {
      const std::size_t end = (std::min)(said.find('\n', from), said.size());
      const std::string text = said.substr(from, end - from);
      if (text == "thread 0:") return;
      std::printf("%s\n", text.c_str());
      from = end + 1;
    }
    if (from < said.size()) std::printf("...\n");
  }

  const char* name_;
  std::string filter_;
  unsigned long long bound_ = unset;
  unsigned long long random_ = unset;
  unsigned long long seed_ = 1;
  unsigned long long executions_ = 0;   // of all suites
  unsigned long long found_after_ = 0;  // executions of the last search
  unsigned suites_ = 0;
  unsigned failed_ = 0;
};

}  // namespace model

// Relacy's searches with the usual numbers of threads; CMake compiles them once for all models.
#ifdef MODEL_SEARCHES_ELSEWHERE
#define MODEL_SEARCHES(Threads)                                                                                    \
  extern template rl::test_result_e rl::run_test<model::any_suite<Threads>, rl::context_bound_scheduler<Threads>>( \
      rl::test_params&, std::ostream&, bool);                                                                      \
  extern template rl::test_result_e rl::run_test<model::any_suite<Threads>, rl::random_scheduler<Threads>>(        \
      rl::test_params&, std::ostream&, bool)
MODEL_SEARCHES(2);
MODEL_SEARCHES(3);
#undef MODEL_SEARCHES
#endif
