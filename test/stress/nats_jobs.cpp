// SPDX-License-Identifier: BSL-1.0
//
// Jobs on NATS while processes die: four processes work, one of them is killed every 200 ms and started again, the
// server twice. Every effect is counted in memory that all processes share.
#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <random>
#include <string>
#include <thread>

#include "async/threadpool.hpp"
#include "steps/interop/nats_jobs.hpp"
#include "steps/steps.hpp"
#include "support/nats_server.hpp"
#include "support/scale.hpp"

using steps::IAsyncSteps;
using namespace std::chrono_literals;
namespace nats = steps::interop::nats;

namespace {

/// The record of a job, which all processes write.
struct entry {
  std::atomic<std::uint32_t> runs;
  std::atomic<std::uint32_t> key;        // of the effect that happens once: 0, or the process that has had it
  std::atomic<std::uint32_t> effects;    // of the keyed kind
  std::atomic<std::uint32_t> confirmed;  // the time at which the server has confirmed the first acknowledgement; or 0
  std::atomic<std::uint32_t> again;      // deliveries after that
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

/// Milliseconds by the clock of the machine.
std::uint32_t now() { return static_cast<std::uint32_t>(std::chrono::steady_clock::now().time_since_epoch() / 1ms); }

/// Memory that processes share.
class ledger {
 public:
  explicit ledger(const std::string& file, std::size_t count) : count_(count) {
    const int f = ::open(file.c_str(), O_RDWR | O_CREAT, 0600);
    const bool has_room = f >= 0 && ::ftruncate(f, static_cast<off_t>(count * sizeof(entry))) == 0;
    void* const made =
        has_room ? ::mmap(nullptr, count * sizeof(entry), PROT_READ | PROT_WRITE, MAP_SHARED, f, 0) : MAP_FAILED;
    ::close(f);
    if (made == MAP_FAILED) throw std::bad_alloc();
    entries_ = static_cast<entry*>(made);
  }
  ledger(const ledger&) = delete;
  ledger& operator=(const ledger&) = delete;
  ~ledger() { ::munmap(entries_, count_ * sizeof(entry)); }
  entry& operator[](std::size_t i) { return entries_[i]; }
  std::size_t size() const { return count_; }

 private:
  entry* entries_;
  std::size_t count_;
};

/// A copy of this program that works until it is killed.
class process {
 public:
  process(std::string url, std::string file, std::size_t count)
      : url_(std::move(url)), file_(std::move(file)), count_(std::to_string(count)) {
    start();
  }
  process(const process&) = delete;
  process& operator=(const process&) = delete;
  ~process() { kill(); }
  void start() {
    id_ = ::fork();
    if (id_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::setenv("NATS_JOBS_URL", url_.c_str(), 1);
    ::setenv("NATS_JOBS_FILE", file_.c_str(), 1);
    ::setenv("NATS_JOBS_COUNT", count_.c_str(), 1);
    ::execl("/proc/self/exe", "worker", "--test-case=a worker process", nullptr);
    ::_exit(127);
  }
  void kill() {
    ::kill(id_, SIGKILL);
    ::waitpid(id_, nullptr, 0);
  }

 private:
  std::string url_, file_, count_;
  pid_t id_ = -1;
};

const nats::jobs_options the_jobs{.stream = "SOAK", .subject = "soak", .dead_letter = "soak.dead"};

}  // namespace

TEST_CASE("a worker process" * doctest::skip(std::getenv("NATS_JOBS_URL") == nullptr)) {
  ledger entries(std::getenv("NATS_JOBS_FILE"), std::strtoull(std::getenv("NATS_JOBS_COUNT"), nullptr, 10));
  async::threadpool pool(1);
  nats::bus bus({.url = std::getenv("NATS_JOBS_URL")});
  nats::jobs jobs(bus, the_jobs);
  const nats::work_options options{
      .limit = 200, .ack_wait = 1s, .retry = {.attempts = 1'000'000, .delay = 10ms, .max_delay = 100ms}};
  auto worker = jobs.work(pool, options, [&](IAsyncSteps& asi, const nats::job& j) {
    entry& e = entries[std::stoull(j.data())];
    if (e.confirmed != 0) ++e.again;
    ++e.runs;
    std::uint32_t nobody = 0;
    if (e.key.compare_exchange_strong(nobody, static_cast<std::uint32_t>(::getpid()))) ++e.effects;
    if (j.sequence() % 64 == 0 && j.delivery() == 1) asi.error("Bad");  // some fail the first time
    j.acknowledge(asi);
    asi.add([&e](IAsyncSteps&) {
      std::uint32_t never = 0;
      e.confirmed.compare_exchange_strong(never, now());
    });
  });
  worker.stopped().wait();  // for ever
  FAIL(worker.failure());
}

TEST_CASE("no job is lost, doubled where it has a key, or delivered after its confirmation, while processes die") {
  const std::size_t count = (std::min<std::size_t>)(testing::rounds(20'000), 200'000);
  testing::nats_server server;
  const std::string file = server.folder() + "/ledger";
  ledger entries(file, count);
  async::threadpool pool(1);
  nats::bus bus({.url = server.url()});
  nats::jobs jobs(bus, the_jobs);
  std::mt19937_64 random(testing::seed());
  process workers[4] = {{server.url(), file, count},
                        {server.url(), file, count},
                        {server.url(), file, count},
                        {server.url(), file, count}};
  std::atomic<std::size_t> next{0};
  auto published = steps::post(pool, [&](IAsyncSteps& asi) {
    jobs.open(asi);
    asi.add([&](IAsyncSteps& step) {
      auto& all = step.parallel();
      for (int i = 0; i < 256; ++i) {
        all.loop([&](IAsyncSteps& turn) {
          const std::size_t number = next++;
          if (number >= count) turn.breakLoop();
          jobs.publish(turn, std::to_string(number), {.id = std::to_string(number)});
        });
      }
    });
  });

  unsigned kills = 0, restarts = 0;
  std::uint32_t crashes[2] = {}, returns[2] = {};
  std::uint64_t left = count;
  const auto begin = std::chrono::steady_clock::now();
  for (auto tick = begin + 200ms; left != 0 || restarts < 2; tick += 200ms) {
    std::this_thread::sleep_until(tick);
    process& victim = workers[random() % 4];
    victim.kill();
    victim.start();
    ++kills;
    // Those that have run, for of any number the worker may have died before it learnt of the confirmation.
    const auto done = static_cast<std::size_t>(
        std::count_if(&entries[0], &entries[0] + count, [](const entry& e) { return e.runs != 0; }));
    if (restarts < 2 && done > count * (restarts + 1) / 3) {
      crashes[restarts] = now();
      server.restart();
      returns[restarts++] = now();
    }
    if (published.wait_for(0s) != std::future_status::ready || done < count * 9 / 10) continue;
    const std::string info = steps::post<std::string>(pool, [&](IAsyncSteps& asi) {
                               asi.retry({.attempts = steps::Retry::unlimited}, [&](IAsyncSteps& attempt) {
                                 attempt.setTimeout(1s);
                                 bus.call(attempt, "$JS.API.STREAM.INFO.SOAK", "");
                               });
                             }).get();
    left = nats::detail::number_at(info, "messages");
  }
  published.get();

  // A server that is killed has forgotten acknowledgements of its last moments, which it had confirmed; and what was
  // under way then may be so twice. Milliseconds from the acknowledgement to the crash; none: there was no crash.
  constexpr std::uint32_t none = ~std::uint32_t{0};
  const auto before_crash = [&](std::uint32_t confirmed) {
    std::uint32_t least = none;
    for (int i = 0; i < 2; ++i) {
      if (confirmed <= returns[i] + 1'000)
        least = confirmed < crashes[i] ? (std::min)(least, crashes[i] - confirmed) : 0;
    }
    return least;
  };
  std::size_t lost = 0, doubled = 0, again = 0, forgotten = 0, runs = 0;
  std::uint32_t longest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    lost += entries[i].runs == 0;
    doubled += entries[i].effects > 1;
    runs += entries[i].runs;
    if (entries[i].again == 0) continue;
    const std::uint32_t time = before_crash(entries[i].confirmed);
    const bool is_forgotten = time < 3'000;
    ++(is_forgotten ? forgotten : again);
    if (is_forgotten) longest = (std::max)(longest, time);
  }
  std::printf("count: %zu jobs\ncount: %u killed workers\n", count, kills);
  std::printf("%zu runs; %zu jobs came again that the server had confirmed up to %u ms before it died; %.1f s\n", runs,
              forgotten, longest, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  CHECK(lost == 0);
  CHECK(doubled == 0);
  CHECK(again == 0);
  CHECK(restarts == 2);
}
