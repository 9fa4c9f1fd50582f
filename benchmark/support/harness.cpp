// SPDX-License-Identifier: BSL-1.0
#include "harness.hpp"

#include <benchmark/benchmark.h>  // for RegisterBenchmark, RunSpecifiedBenchmarks
#include <sys/ioctl.h>            // for TIOCGWINSZ
#include <sys/wait.h>             // for WIFEXITED
#include <unistd.h>               // for isatty

#include <algorithm>  // for min, sort
#include <cmath>      // for ceil, lround
#include <cstdio>     // for printf, popen
#include <iterator>   // for begin
#include <regex>      // for regex
#include <sstream>    // for istringstream
#include <stdexcept>  // for out_of_range

#include "machine.hpp"  // for line_round_trip, wall_clock

namespace bench {

void plan::add(const std::string& workload, entry contestant) {
  for (std::size_t i = 0; i < workloads_.size(); ++i) {
    if (workloads_[i].name == workload) return entries_[i].push_back(std::move(contestant));
  }
  throw std::out_of_range("no workload is called " + workload);
}

void add_curve(std::vector<workload>& to, const workload& each, const std::string& axis,
               const std::vector<std::size_t>& xs) {
  for (const std::size_t x : xs) {
    workload point = each;
    point.name += " " + std::to_string(x);
    point.only_whole = true;
    point.curve = {each.name, axis, x};
    to.push_back(std::move(point));
  }
}

std::vector<void (*)(plan&)>& enroll::all() {
  static std::vector<void (*)(plan&)> list;
  return list;
}

std::map<std::string, std::string>& enroll::versions() {
  static std::map<std::string, std::string> list;
  return list;
}

namespace {

constexpr const char* help = R"(usage: %s [OPTIONS] [--benchmark_... of Google Benchmark]
  --quick          small sizes, fewer repetitions
  --whole          also the curves
  --filter=REGEX   only workloads and contestants whose "workload/contestant" contains a match
  --repetitions=N  samples of each contestant in each workload
  --list           print the names and run nothing
  --seconds        print the expected duration and run nothing
  --more=SECONDS   expected duration of later programs, for the estimate of the time left
)";

struct arguments {
  bool quick = false, whole = false, list = false, seconds = false;
  std::string filter, child;
  int repetitions = 0;
  double more = 0;
};

/// The value of "--name=value", or null.
const char* value_of(const std::string& argument, const std::string& name) {
  return argument.compare(0, name.size() + 1, name + "=") == 0 ? argument.c_str() + name.size() + 1 : nullptr;
}

/// Removes its own options from argv; the others are for Google Benchmark.
arguments parse(int& argc, char** argv) {
  arguments found;
  int left = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--help") {
      std::printf(help, argv[0]);
      std::exit(0);
    } else if (argument == "--quick") {
      found.quick = true;
    } else if (argument == "--whole") {
      found.whole = true;
    } else if (argument == "--list") {
      found.list = true;
    } else if (argument == "--seconds") {
      found.seconds = true;
    } else if (const char* filter = value_of(argument, "--filter")) {
      found.filter = filter;
    } else if (const char* child = value_of(argument, "--child")) {
      found.child = child;
    } else if (const char* repetitions = value_of(argument, "--repetitions")) {
      found.repetitions = std::stoi(repetitions);
    } else if (const char* more = value_of(argument, "--more")) {
      found.more = std::stod(more);
    } else {
      argv[left++] = argv[i];
    }
  }
  argc = left;
  return found;
}

/// Takes the sample in a new process of this program, which prints its figures as lines "name value".
sample run_in_own_process(const std::string& name, bool quick) {
  sample result;
  const std::string command =
      "exec /proc/" + std::to_string(::getpid()) + "/exe --child='" + name + "'" + (quick ? " --quick" : "");
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) {
    result.defect = "cannot start a process";
    return result;
  }
  char line[256];
  while (std::fgets(line, sizeof line, pipe) != nullptr) {
    std::string text(line);
    const std::size_t space = text.rfind(' ');
    if (space != std::string::npos) result.figures[text.substr(0, space)] = std::strtod(line + space, nullptr);
  }
  const int status = ::pclose(pipe);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) result.defect = "the measuring process failed";
  return result;
}

/// Shows the running workload, the samples done and the time left, on standard error.
class progress {
 public:
  void expect(std::size_t samples, double seconds) {
    samples_ += samples;
    guessed_left_ += seconds;
  }

  void starting(const std::string& workload, const std::string& contestant) {
    if (!is_terminal_ && workload == workload_) return;
    workload_ = workload;
    char text[200];
    std::snprintf(text, sizeof text, "[%4zu/%zu] %6s left  %-*s%s", done_ + 1, samples_, time_left().c_str(),
                  is_terminal_ ? 30 : 0, workload.c_str(), is_terminal_ ? contestant.c_str() : "");
    // The next line cannot overwrite one that is wider than the terminal.
    std::fprintf(stderr, is_terminal_ ? "\r\033[K%.*s" : "%.*s\n", width(), text);
    std::fflush(stderr);
  }

  void finished(double guessed, double took) {
    ++done_;
    guessed_left_ -= guessed;
    guessed_done_ += guessed;
    took_ += took;
    if (done_ == samples_ && is_terminal_) std::fputs("\r\033[K", stderr);
  }

 private:
  static int width() {
    winsize window{};
    return ::ioctl(2, TIOCGWINSZ, &window) == 0 && window.ws_col > 1 ? window.ws_col - 1 : 200;
  }

  std::string time_left() const {
    const double pace = took_ > 2 ? took_ / guessed_done_ : 1;
    const long seconds = std::lround(guessed_left_ * pace);
    char text[32];
    std::snprintf(text, sizeof text, "%ld:%02ld", seconds / 60, seconds % 60);
    return text;
  }

  const bool is_terminal_ = ::isatty(2) != 0;
  std::string workload_;
  std::size_t samples_ = 0, done_ = 0;
  double guessed_left_ = 0, guessed_done_ = 0, took_ = 0;
};

/// No output: the progress and benchmark/reporter replace Google Benchmark's console output.
class silent_reporter : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

void take_sample(benchmark::State& state, const workload& what, const entry& who, bool quick, progress& shown,
                 double guessed) {
  const wall_clock::time_point start = wall_clock::now();
  shown.starting(what.name, who.contestant);
  const double before = what.probes_line ? line_round_trip().count() : 0;
  sample result;
  const auto items = static_cast<benchmark::IterationCount>(who.items);
  while (state.KeepRunningBatch(items)) {
    try {
      result = what.in_own_process ? run_in_own_process(what.name + "/" + who.contestant, quick) : who.run(who.items);
    } catch (const std::exception& error) {
      result.defect = error.what();
    }
    state.SetIterationTime(result.time.count() * 1e-9);
    if (!result.defect.empty()) state.SkipWithError(result.defect.c_str());
  }
  for (const auto& [name, value] : result.figures) state.counters[name] = value;
  if (what.probes_line) {
    state.counters["line_before"] = before;
    state.counters["line_after"] = line_round_trip().count();
  }
  shown.finished(guessed, std::chrono::duration<double>(wall_clock::now() - start).count());
}

/// Names the machine and the compiler in the JSON file.
void add_machine() {
  benchmark::AddCustomContext("cpu", processor_name());
  benchmark::AddCustomContext("processors", std::to_string(processors()));
  benchmark::AddCustomContext("system", system_name());
#if defined(__clang__)
  benchmark::AddCustomContext("compiler", __VERSION__);
#else
  benchmark::AddCustomContext("compiler", std::string("g++ ") + __VERSION__);
#endif
}

int run_child(plan& all, const std::string& name) {
  for (std::size_t w = 0; w < all.workloads().size(); ++w) {
    for (entry& each : all.entries(w)) {
      if (all.workloads()[w].name + "/" + each.contestant != name) continue;
      const sample result = each.run(each.items);
      if (!result.defect.empty()) return 1;
      for (const auto& [figure, value] : result.figures) std::printf("%s %.17g\n", figure.c_str(), value);
      return 0;
    }
  }
  return 2;
}

}  // namespace

int run_program(int argc, char** argv, std::vector<workload> workloads) {
  const arguments chosen = parse(argc, argv);
  plan all(std::move(workloads), chosen.quick);
  for (auto contestants : enroll::all()) contestants(all);
  if (!chosen.child.empty()) return run_child(all, chosen.child);

  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  add_machine();
  for (const auto& [library, version] : enroll::versions()) benchmark::AddCustomContext("version:" + library, version);

  std::regex filter;
  try {
    filter = chosen.filter;
  } catch (const std::regex_error& error) {
    std::fprintf(stderr, "%s: --filter: %s\n", argv[0], error.what());
    return 2;
  }
  progress shown;
  double seconds = 0;
  for (std::size_t w = 0; w < all.workloads().size(); ++w) {
    const workload& what = all.workloads()[w];
    std::vector<entry>& found = all.entries(w);
    std::sort(found.begin(), found.end(), [](const entry& a, const entry& b) { return a.rank < b.rank; });
    std::erase_if(found,
                  [&](const entry& who) { return !std::regex_search(what.name + "/" + who.contestant, filter); });
    if (found.empty() || (what.only_whole && !chosen.whole && chosen.filter.empty())) continue;
    benchmark::AddCustomContext("workload:" + what.name, what.unit + "|" + what.title);
    if (!what.curve.name.empty()) {
      benchmark::AddCustomContext("curve:" + what.name,
                                  what.curve.name + "|" + std::to_string(what.curve.x) + "|" + what.curve.axis);
    }
    const int most = chosen.quick ? (what.repetitions + 1) / 2 : what.repetitions;
    const int usual = chosen.quick ? 7 : chosen.whole ? 9 : 15;
    const int repetitions = chosen.repetitions > 0 ? chosen.repetitions : (std::min)(usual, most);
    const double guessed = what.expected_seconds * (chosen.quick ? 0.3 : 1) / static_cast<double>(found.size());
    for (int r = 0; r < repetitions; ++r) {
      for (std::size_t c = 0; c < found.size(); ++c) {
        const entry& who = found[(c + static_cast<std::size_t>(r)) % found.size()];
        if (chosen.list && r == 0) std::printf("%s/%s\n", what.name.c_str(), found[c].contestant.c_str());
        shown.expect(1, guessed);
        seconds += guessed;
        const std::string name = what.name + "/" + who.contestant + "/" + std::to_string(r);
        benchmark::RegisterBenchmark(name.c_str(),
                                     [&what, &who, &shown, &chosen, guessed](benchmark::State& state) {
                                       take_sample(state, what, who, chosen.quick, shown, guessed);
                                     })
            ->Iterations(static_cast<benchmark::IterationCount>(who.items))
            ->UseManualTime();
      }
    }
  }
  if (chosen.seconds) std::printf("%.0f\n", std::ceil(seconds));
  if (chosen.list || chosen.seconds || seconds == 0) return 0;
  shown.expect(0, chosen.more);
  silent_reporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  return 0;
}

}  // namespace bench
