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
/// A program has workloads; each file of peers/ enrolls its contestants. The samples of a workload are interleaved: the
/// first of every contestant, then the second of every contestant. Each round starts with another contestant. A
/// disturbance of the machine therefore hits all contestants alike, and medians and their ratios stay comparable.
namespace bench {

using nanoseconds = std::chrono::duration<double, std::nano>;

/// The result of one repetition of one contestant.
struct sample {
  nanoseconds time{};                     // of all items together, in workloads that measure a time
  std::map<std::string, double> figures;  // "value": the result, in workloads that measure no time; others: notes
  std::string defect;                     // the error of the contestant; empty: none
};

/// Position of a workload on a curve; no name: not on a curve.
struct curve_point {
  std::string name, axis;  // axis: the things that x counts
  std::size_t x = 0;
};

/// A workload and the way it is sampled.
struct workload {
  std::string name;             // "queue/1:1"
  std::string unit;             // of the time divided by the items, "ns/element", or of the figure "value"
  std::string title;            // one line for the report
  double expected_seconds = 1;  // guess for a round of all contestants: first estimate of the time left
  int repetitions = 1000;       // at most; half as many when quick
  bool probes_line = false;     // measures the round trip of a cache line before and after each sample
  bool in_own_process = false;  // each sample in a fresh process: memory measurements
  bool only_whole = false;      // runs only with --whole, or when a filter chooses it
  curve_point curve{};
};

/// Adds a workload "NAME X" for each x of a curve. These run with --whole, or when a filter chooses them.
void add_curve(std::vector<workload>& to, const workload& each, const std::string& axis,
               const std::vector<std::size_t>& xs);

/// One contestant in one workload.
struct entry {
  std::string contestant;
  int rank = 0;           // order in reports; 0: ours
  std::size_t items = 1;  // the argument of run(), and the divisor of its time
  std::function<sample(std::size_t items)> run;
};

/// The workloads with their contestants.
class plan {
 public:
  plan(std::vector<workload> workloads, bool quick) : workloads_(std::move(workloads)), quick_(quick) {
    entries_.resize(workloads_.size());
  }

  /// Small sizes: about a minute in all instead of several.
  bool quick() const noexcept { return quick_; }
  std::size_t size(std::size_t full, std::size_t when_quick) const noexcept { return quick_ ? when_quick : full; }

  /// Adds a contestant to the workload of that name; throws std::out_of_range if there is none.
  void add(const std::string& workload, entry contestant);
  /// Adds a contestant to each point of a curve: made(x) returns the entry for x.
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
  /// Also notes the version of the library for the report.
  enroll(const std::string& library, const std::string& version, void (*contestants)(plan&)) : enroll(contestants) {
    versions()[library] = version;
  }
  static std::vector<void (*)(plan&)>& all();
  static std::map<std::string, std::string>& versions();
};

/// The main() of a benchmark program. `--help` lists its options.
int run_program(int argc, char** argv, std::vector<workload> workloads);

}  // namespace bench
