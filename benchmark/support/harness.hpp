// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <chrono>      // for duration
#include <cstddef>     // for size_t
#include <functional>  // for function
#include <map>         // for map
#include <string>      // for string
#include <vector>      // for vector

/// Runs contestants side by side on Google Benchmark.
///
/// A program has workloads; each file of peers/ enrolls its contestants. The samples of a workload are taken in turn:
/// the first of every contestant, then the second of every contestant, each round starting with another one. A
/// disturbance of the machine so hits all contestants alike, and medians and their ratios stay comparable.
namespace bench {

using nanoseconds = std::chrono::duration<double, std::nano>;

/// What one repetition of one contestant found.
struct sample {
  nanoseconds time{};  // of all items together; workloads that measure a time
  std::map<std::string, double>
      figures;         // "value": the result of a workload that measures something else; others: notes
  std::string defect;  // not empty: the contestant did something wrong, and what
};

/// Where a workload lies on a curve; no name: on none.
struct curve_point {
  std::string name, axis;  // axis: what x counts
  std::size_t x = 0;
};

/// What is measured.
struct workload {
  std::string name;             // "queue/1:1"
  std::string unit;             // "ns/element": the time divided by the items, or the unit of the figure "value"
  std::string title;            // one line for the report
  double expected_seconds = 1;  // guess of one round of all contestants, for the first estimate of the time left
  int repetitions = 1000;       // at most; half of it when quick
  bool probes_line = false;     // notes the round trip of a cache line before and after each sample
  bool in_own_process = false;  // each sample in a fresh process: memory measurements
  bool only_whole = false;      // left out unless everything is asked for, or it by its name
  curve_point curve{};
};

/// Adds the workloads "NAME X" for each x of a curve. They are run with --whole, or when a filter chooses them.
void add_curve(std::vector<workload>& to, const workload& each, const std::string& axis,
               const std::vector<std::size_t>& xs);

/// One contestant in one workload.
struct entry {
  std::string contestant;
  int rank = 0;           // order in reports; 0: ours
  std::size_t items = 1;  // handed to run(); its time is divided by it
  std::function<sample(std::size_t items)> run;
};

/// What is going to be run.
class plan {
 public:
  plan(std::vector<workload> workloads, bool quick) : workloads_(std::move(workloads)), quick_(quick) {
    entries_.resize(workloads_.size());
  }

  /// About a minute in all instead of some minutes.
  bool quick() const noexcept { return quick_; }
  std::size_t size(std::size_t full, std::size_t when_quick) const noexcept { return quick_ ? when_quick : full; }

  /// Adds a contestant to a workload of that name; throws std::out_of_range if there is none.
  void add(const std::string& workload, entry contestant);
  /// Adds one to each point of a curve: made(x) gives what is to be run there.
  template <class Made>
  void add_to_curve(const std::string& curve, Made made) {
    for (std::size_t i = 0; i < workloads_.size(); ++i) {
      const curve_point& at = workloads_[i].curve;
      if (at.name == curve) entries_[i].push_back(made(at.x));
    }
  }

  const std::vector<workload>& workloads() const noexcept { return workloads_; }
  std::vector<entry>& entries(std::size_t workload) { return entries_[workload]; }

 private:
  std::vector<workload> workloads_;
  std::vector<std::vector<entry>> entries_;
  bool quick_;
};

/// Enrolls the contestants of a file before main() runs:
///   const bench::enroll these([](bench::plan& plan) { … plan.add(…) … });
class enroll {
 public:
  explicit enroll(void (*contestants)(plan&)) { all().push_back(contestants); }
  /// The same, and notes the version of the library for the report.
  enroll(const std::string& library, const std::string& version, void (*contestants)(plan&)) : enroll(contestants) {
    versions()[library] = version;
  }
  static std::vector<void (*)(plan&)>& all();
  static std::map<std::string, std::string>& versions();
};

/// The main() of a benchmark program. `--help` tells its options.
int run_program(int argc, char** argv, std::vector<workload> workloads);

}  // namespace bench
