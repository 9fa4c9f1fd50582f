// SPDX-License-Identifier: BSL-1.0
// Random step programs run on the engine and on the reference interpreter: the logs must be equal.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <thread>
#include <utility>

#include "async/threadpool.hpp"

#include "support/flows.hpp"
#include "support/program.hpp"
#include "support/program_player.hpp"
#include "support/program_random.hpp"
#include "support/program_shrink.hpp"
#include "support/program_text.hpp"
#include "support/program_untimed.hpp"
#include "support/reference.hpp"
#include "support/scale.hpp"
#include "support/start_line.hpp"
#include "support/work_for.hpp"

using namespace testing::program;

namespace {

template <class Flow>
bool differs(const tree& program) {
  reference interpreter(program);
  const history wanted = normalized(interpreter.run());
  return interpreter.result() == reference::verdict::exact &&
         normalized(player<Flow, steps::Mutex>(program).run()) != wanted;
}

/// Compares a program; one that differs is shown, shrunk.
template <class Flow>
bool agrees(const tree& program, std::uint64_t seed) {
  if (!differs<Flow>(program)) return true;
  const tree small = shrunk(program, differs<Flow>);
  INFO("tree of seed ", seed, ":\n", to_string(small), "wanted:\n", to_string(reference(small).run()), "got:\n",
       to_string(player<Flow, steps::Mutex>(small).run()));
  CHECK(false);
  return false;
}

template <class Flow>
void compare(std::size_t trees) {
  for (std::uint64_t n = 0, seed = testing::seed(); n < trees; ++n, ++seed) {
    if (!agrees<Flow>(random_tree(seed), seed)) return;
  }
  std::printf("count: %zu step programs compared\n", trees);
}

template <class Flow>
void cancel_everywhere(std::size_t trees) {
  std::size_t points = 0;
  for (std::uint64_t n = 0, seed = testing::seed(); n < trees; ++n, ++seed) {
    tree program = random_tree(seed);
    reference whole(program);
    whole.run();
    for (int at = 1; at <= whole.runs(); ++at, ++points) {
      program.cancel_at_run = at;
      if (!agrees<Flow>(program, seed)) return;
    }
  }
  std::printf("count: %zu cancel points compared\n", points);
}

using nitro =
    steps::NitroSteps<steps::nitro::MaxSteps<200>, steps::nitro::MaxTimeouts<40>, steps::nitro::MaxCancels<40>,
                      steps::nitro::MaxStackAllocs<40>, steps::nitro::MaxParallel<40>, steps::nitro::ArenaBytes<32768>,
                      steps::nitro::BranchBytes<8192>, steps::nitro::MaxErrorText<40>>;

/// The same limits, and memory for hardly any step: nearly all of it is in blocks.
using allocating_nitro =
    steps::NitroSteps<steps::nitro::MaxSteps<200>, steps::nitro::MaxTimeouts<40>, steps::nitro::MaxCancels<40>,
                      steps::nitro::MaxStackAllocs<40>, steps::nitro::MaxParallel<40>, steps::nitro::ArenaBytes<64>,
                      steps::nitro::MayAllocate<1>>;

/// Gives a pool tasks of up to 50 us, so that its flows go on now on this worker, now on that.
class disturbance {
 public:
  explicit disturbance(async::threadpool& pool)
      : thread_([this, &pool] {
          for (int round = 0; !end_; ++round) {
            ++open_;
            pool.execute([this, time = std::chrono::microseconds(round % 50)] {
              testing::work_for(time);
              --open_;
            });
            while (open_ > 2) std::this_thread::yield();
          }
          while (open_ != 0) std::this_thread::yield();
        }) {}
  ~disturbance() {
    end_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> end_{false};
  std::atomic<int> open_{0};
  std::thread thread_;
};

/// Compares programs on a pool: several at a time, beside tasks; or each turn on another worker.
template <class Flow>
void compare_on_pool(std::size_t trees, bool moves_always = false) {
  async::threadpool pool(2), outside(1);
  std::optional<disturbance> others;
  std::optional<eviction> moves_each;
  moves_always ? static_cast<void>(moves_each.emplace(pool)) : static_cast<void>(others.emplace(pool));
  std::atomic<std::uint64_t> next{0};
  std::atomic<std::size_t> compared{0}, wrong{0}, with_race{0}, with_semaphore{0};
  const auto play = [&](const tree& program) {
    return moves_always ? player<Flow, steps::Mutex, on_pool>(program, pool, outside, *moves_each).run()
                        : player<Flow, steps::Mutex, on_pool>(program, pool, outside).run();
  };
  testing::run_threads(moves_always ? 1 : 4, [&](std::size_t) {
    for (std::uint64_t n = next++; n < trees && wrong == 0; n = next++) {
      const std::uint64_t seed = testing::seed() + n;
      tree program = random_tree(seed);
      if (n % 3 == 0) program.cancel_at_run = static_cast<int>(1 + n / 3 % 6);
      program = untimed::of(std::move(program));
      reference interpreter(program);
      const history log = normalized(interpreter.run());
      if (interpreter.result() != reference::verdict::exact || has_stuck(log)) continue;
      const history wanted = by_flow(log);
      const history got = by_flow(normalized(play(program)));
      ++compared;
      if (untimed::has(program.steps, [](const node& of) { return of.what == kind::race && of.sub.size() > 1; }))
        ++with_race;
      if (untimed::has(program.steps, [](const node& of) { return of.what == kind::sync && of.mutex >= mutexes; }))
        ++with_semaphore;
      if (got == wanted) continue;
      ++wrong;
      INFO("tree of seed ", seed, ":\n", to_string(program), "wanted:\n", to_string(wanted), "got:\n", to_string(got));
      CHECK(false);
    }
  });
  CHECK(compared > trees / 2);
  CHECK(with_race > trees / 20);
  CHECK(with_semaphore > trees / 20);
  const auto moves = pool.stats().moves;
  CHECK(moves > (moves_always ? compared / 3 : 0));
  std::printf("count: %zu step programs compared on a pool\ncount: %llu moves of their flows to another worker\n",
              compared.load(), static_cast<unsigned long long>(moves));
}

}  // namespace

TEST_CASE("AsyncSteps runs random programs as the rules say") { compare<steps::AsyncSteps>(testing::rounds(250'000)); }
TEST_CASE("NitroSteps runs random programs as the rules say") { compare<nitro>(testing::rounds(25'000)); }
TEST_CASE("NitroSteps that may allocate runs random programs as the rules say") {
  compare<allocating_nitro>(testing::rounds(25'000));
}
TEST_CASE("AsyncSteps runs random programs on a pool as the rules say") {
  compare_on_pool<steps::AsyncSteps>(testing::rounds(60'000));
}
TEST_CASE("AsyncSteps runs random programs as the rules say when each turn is on another worker") {
  compare_on_pool<steps::AsyncSteps>(testing::rounds(25'000), true);
}
TEST_CASE("NitroSteps runs random programs on a pool as the rules say") {
  compare_on_pool<nitro>(testing::rounds(15'000));
}
TEST_CASE("AsyncSteps is cancelled in any step as the rules say") {
  cancel_everywhere<steps::AsyncSteps>(testing::rounds(1000));
}
TEST_CASE("NitroSteps is cancelled in any step as the rules say") { cancel_everywhere<nitro>(testing::rounds(300)); }
TEST_CASE("NitroSteps that may allocate is cancelled in any step as the rules say") {
  cancel_everywhere<allocating_nitro>(testing::rounds(300));
}
