// SPDX-License-Identifier: BSL-1.0
//
// A long run: many flows of a pool, each with a timer that comes due again and again, like the heartbeats of
// connections. Beats are at a fixed rate, by every(), or each a period after the last one, by a timeout. Prints the
// workers' shares and the lateness of the timers, both without the first two seconds, in which the flows start, the
// resident memory early in the run and at its end, and the processor time that a hypervisor has taken meanwhile.
#include <unistd.h>              // for sysconf
#include <async/threadpool.hpp>  // for threadpool
#include <steps/steps.hpp>       // for IAsyncSteps, post

#include <algorithm>  // for max, min, sort
#include <array>      // for array
#include <atomic>     // for atomic
#include <chrono>     // for milliseconds, seconds
#include <cstdint>    // for uint64_t
#include <cstdio>     // for printf, fprintf
#include <cstdlib>    // for strtoul
#include <cstring>    // for strcmp
#include <fstream>    // for ifstream
#include <latch>      // for latch
#include <memory>     // for unique_ptr, make_unique
#include <mutex>      // for mutex, lock_guard
#include <string>     // for string
#include <thread>     // for sleep_until
#include <vector>     // for vector

#include "support/machine.hpp"  // for wall_clock, resident_bytes, process_cpu_time

namespace {

using bench::wall_clock;
using steps::IAsyncSteps;

constexpr std::chrono::milliseconds period{100};
constexpr std::chrono::microseconds bucket{20};
constexpr std::size_t buckets = 50'000;  // the last one also holds what is later than a second

/// Counts the beats of one thread by their lateness.
struct record {
  void beat(wall_clock::duration late) {
    const auto index = static_cast<std::size_t>((std::max)(late, wall_clock::duration(0)) / bucket);
    ++counts[(std::min)(index, buckets - 1)];
    latest = (std::max)(latest, late);
    ++beats;
  }
  std::array<std::uint64_t, buckets> counts{};
  std::uint64_t beats = 0;
  wall_clock::duration latest{0};
};

/// The records of all threads. Read once the flows have ended.
struct records {
  record& of_this_thread() {
    thread_local record* mine = nullptr;
    if (mine == nullptr) {
      const std::lock_guard lock(mutex);
      mine = all.emplace_back(std::make_unique<record>()).get();
    }
    return *mine;
  }
  std::mutex mutex;
  std::vector<std::unique_ptr<record>> all;
};

/// Lets a step wait for a timer, and then calls due(late).
template <class Due>
void wait(IAsyncSteps& asi, wall_clock::duration delay, Due due) {
  asi.add(
      [delay](IAsyncSteps& waiting) {
        waiting.setTimeout(delay);
        waiting.waitExternal();
      },
      [due, at = wall_clock::now() + delay](IAsyncSteps& over, steps::ErrorCode) {
        due(wall_clock::now() - at);
        over.success();
      });
}

/// Lateness in ms that `part` of all beats do not exceed, to the width of a bucket.
double quantile(const record& sum, double part) {
  auto left = static_cast<std::uint64_t>(part * static_cast<double>(sum.beats));
  std::size_t i = 0;
  for (; i + 1 < buckets && sum.counts[i] <= left; ++i) left -= sum.counts[i];
  return bench::nanoseconds(bucket).count() * 1e-6 * static_cast<double>(i + 1);
}

void print(const records& found, std::size_t workers) {
  const auto sum = std::make_unique<record>();
  for (const auto& each : found.all) {
    for (std::size_t i = 0; i < buckets; ++i) sum->counts[i] += each->counts[i];
    sum->latest = (std::max)(sum->latest, each->latest);
    sum->beats += each->beats;
  }
  if (sum->beats == 0) return;
  std::vector<double> shares(workers);
  for (std::size_t i = 0; i < (std::min)(workers, found.all.size()); ++i) {
    shares[i] = 100 * static_cast<double>(found.all[i]->beats) / static_cast<double>(sum->beats);
  }
  std::sort(shares.rbegin(), shares.rend());
  std::printf("beats %llu\nshares of the workers, %%:", static_cast<unsigned long long>(sum->beats));
  for (const double each : shares) std::printf(" %.1f", each);
  std::printf("\nlateness, ms: p50 %.2f, p99 %.2f, p99.9 %.2f, max %.2f\n", quantile(*sum, 0.5), quantile(*sum, 0.99),
              quantile(*sum, 0.999), bench::nanoseconds(sum->latest).count() * 1e-6);
}

/// Beats at a fixed rate.
struct by_rate {
  template <class Beat>
  static void add_beats(IAsyncSteps& asi, wall_clock::duration first, const std::atomic<bool>& stop, Beat beat) {
    asi.every({.period = period, .first = first}, [&stop, beat](IAsyncSteps& round, const steps::Tick& tick) {
      if (stop.load(std::memory_order_relaxed)) return round.breakLoopNoThrow();
      beat(tick.late);
    });
  }
};

/// Beats a period after the last one each.
struct by_pause {
  template <class Beat>
  static void add_beats(IAsyncSteps& asi, wall_clock::duration first, const std::atomic<bool>& stop, Beat beat) {
    wait(asi, first, [](wall_clock::duration) {});
    asi.loop([&stop, beat](IAsyncSteps& turn) {
      if (stop.load(std::memory_order_relaxed)) return turn.breakLoopNoThrow();
      wait(turn, period, beat);
    });
  }
};

/// Seconds of all processors that the hypervisor has given to other machines; 0 where the system does not tell.
double stolen_seconds() {
  std::ifstream file("/proc/stat");
  std::string name;
  double ticks = 0;
  file >> name;
  for (int i = 0; i < 8; ++i) file >> ticks;  // the eighth figure
  return file ? ticks / static_cast<double>(::sysconf(_SC_CLK_TCK)) : 0;
}

template <class Kind>
int run(std::size_t flows, std::size_t workers, std::size_t seconds) {
  records found;
  std::atomic<bool> counts{false}, stop{false};
  std::latch ended(static_cast<std::ptrdiff_t>(flows));
  const std::size_t before = bench::resident_bytes();
  const auto print_memory = [before](const char* when, std::size_t second) {
    const double grown = static_cast<double>(bench::resident_bytes()) - static_cast<double>(before);
    std::printf("%s, after %zu s: resident %.1f MB more than before, CPU time %.1f s\n", when, second, grown * 1e-6,
                bench::process_cpu_time().count() * 1e-9);
    std::fflush(stdout);
  };
  async::threadpool pool(workers);
  const wall_clock::time_point begin = wall_clock::now();
  for (std::size_t i = 0; i < flows; ++i) {
    const wall_clock::duration first = i * wall_clock::duration(period) / flows;  // spreads the beats over the period
    static_cast<void>(steps::post(pool, [&, first](IAsyncSteps& asi) {
      Kind::add_beats(asi, first, stop, [&found, &counts](wall_clock::duration late) {
        if (counts.load(std::memory_order_relaxed)) found.of_this_thread().beat(late);
      });
      asi.add([&](IAsyncSteps&) { ended.count_down(); });
    }));
  }
  std::this_thread::sleep_until(begin + (std::min)(std::chrono::seconds(2), std::chrono::seconds(seconds) / 2));
  counts.store(true, std::memory_order_relaxed);
  const double stolen_before = stolen_seconds();
  const std::size_t early = (seconds + 5) / 6;
  std::this_thread::sleep_until(begin + std::chrono::seconds(early));
  print_memory("early", early);
  std::this_thread::sleep_until(begin + std::chrono::seconds(seconds));
  print_memory("at the end", seconds);
  std::printf("taken by the hypervisor: %.2f s\n", stolen_seconds() - stolen_before);
  stop.store(true, std::memory_order_relaxed);
  ended.wait();
  print(found, workers);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t numbers[] = {50'000, 2, 60};
  const bool pauses = argc == 5 && std::strcmp(argv[4], "pause") == 0;
  for (int i = 1; i < argc - (pauses ? 1 : 0); ++i) {
    char* end = nullptr;
    const unsigned long value = i <= 3 ? std::strtoul(argv[i], &end, 10) : 0;
    if (value == 0 || *end != '\0') {
      const bool is_help = std::strcmp(argv[i], "--help") == 0;
      std::fprintf(is_help ? stdout : stderr, "usage: %s [FLOWS [WORKERS [SECONDS [pause]]]], default 50000 2 60\n",
                   argv[0]);
      return is_help ? 0 : 2;
    }
    numbers[i - 1] = value;
  }
  return pauses ? run<by_pause>(numbers[0], numbers[1], numbers[2]) : run<by_rate>(numbers[0], numbers[1], numbers[2]);
}
