// SPDX-License-Identifier: BSL-1.0
//
// Jobs on NATS while processes die: four processes work, one of them is killed every 200 ms and started again, the
// server twice. The effect of a job is a row in a table that all processes share, under the job's id.
#include <doctest/doctest.h>

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <new>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "async/threadpool.hpp"
#include "steps/interop/nats_jobs.hpp"
#include "steps/steps.hpp"
#include "support/nats_server.hpp"
#include "support/scale.hpp"

using steps::IAsyncSteps;
using namespace std::chrono_literals;
namespace nats = steps::interop::nats;

namespace {

/// Milliseconds by the machine's wall clock, which also dates files; modulo 2^32.
std::uint32_t now() { return static_cast<std::uint32_t>(std::chrono::system_clock::now().time_since_epoch() / 1ms); }

/// What a place in the stream has seen, written by all processes.
struct entry {
  std::atomic<std::uint32_t> runs;
  std::atomic<std::uint32_t> confirmed;  // the time at which the server has confirmed the first acknowledgement; or 0
  std::atomic<std::uint32_t> again;      // when a flow has begun after that, the last one; or 0
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

/// Memory that processes share: a record for each place in the stream, and the table of effects.
class ledger {
 public:
  struct row {
    char id[64];
    std::uint32_t number;        // of the job
    std::atomic<bool> is_there;  // written last: a process may die at any time
  };

  explicit ledger(const std::string& file, std::size_t count, bool is_new = false)
      : entries_(count + 4'096),
        places_(2 * count),
        size_(sizeof(head) + entries_ * sizeof(entry) + places_ * sizeof(row)) {
    const int f = ::open(file.c_str(), O_RDWR | O_CREAT, 0600);
    const bool has_room = f >= 0 && ::ftruncate(f, static_cast<off_t>(size_)) == 0;
    void* const made = has_room ? ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0) : MAP_FAILED;
    ::close(f);
    if (made == MAP_FAILED) throw std::bad_alloc();
    head_ = static_cast<head*>(made);
    if (!is_new) return;
    pthread_mutexattr_t shared;
    ::pthread_mutexattr_init(&shared);
    ::pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    ::pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
    ::pthread_mutex_init(&head_->lock, &shared);
    ::pthread_mutexattr_destroy(&shared);
  }
  ledger(const ledger&) = delete;
  ledger& operator=(const ledger&) = delete;
  ~ledger() { ::munmap(head_, size_); }

  entry& operator[](std::size_t sequence) {
    if (sequence >= entries_) throw std::out_of_range("sequence");
    return reinterpret_cast<entry*>(head_ + 1)[sequence];
  }
  std::size_t size() const { return entries_; }

  /// A handler's transaction: adds a row under a key, unless there is one.
  void apply(const std::string& id, std::uint32_t number) {
    if (id.size() >= sizeof row::id) throw std::length_error("id");
    if (::pthread_mutex_lock(&head_->lock) == EOWNERDEAD) ::pthread_mutex_consistent(&head_->lock);
    std::size_t at = std::hash<std::string>()(id) % places_;
    while (rows()[at].is_there && id != rows()[at].id) at = (at + 1) % places_;
    row& found = rows()[at];
    if (found.is_there) {
      ++head_->refused;
    } else {
      std::strcpy(found.id, id.c_str());
      found.number = number;
      found.is_there = true;
      ++head_->applied;
    }
    ::pthread_mutex_unlock(&head_->lock);
  }
  std::size_t applied() const { return head_->applied; }
  std::size_t refused() const { return head_->refused; }
  /// Once all writers have ended.
  template <class F>
  void for_each_row(F f) {
    for (std::size_t i = 0; i < places_; ++i) {
      if (rows()[i].is_there) f(rows()[i]);
    }
  }

 private:
  struct alignas(64) head {
    pthread_mutex_t lock;  // guards the rows
    std::atomic<std::uint32_t> applied, refused;
  };
  row* rows() { return reinterpret_cast<row*>(reinterpret_cast<entry*>(head_ + 1) + entries_); }

  const std::size_t entries_, places_, size_;
  head* head_;
};

/// A copy of this program that works until it is killed.
class process {
 public:
  process() { start(); }
  process(const process&) = delete;
  process& operator=(const process&) = delete;
  ~process() { kill(); }
  void start() {
    id_ = ::fork();
    REQUIRE(id_ >= 0);
    if (id_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::execl("/proc/self/exe", "worker", "--test-case=a worker process", nullptr);
    ::_exit(127);
  }
  void kill() {
    if (id_ < 0) return;  // all processes would be meant
    ::kill(id_, SIGKILL);
    ::waitpid(id_, nullptr, 0);
  }

 private:
  pid_t id_ = -1;
};

/// A crash of the server, and which acknowledgements it may have forgotten that it had confirmed. nats-server 2.9 keeps
/// messages in blocks, and writes which of them are removed when a message is removed or stored, but not more often
/// than every 0.5 or 2 s. Messages that were removed since then come back.
class crash {
 public:
  /// Restarts the server.
  explicit crash(testing::nats_server& server) {
    server.kill();
    for (const auto& file : std::filesystem::recursive_directory_iterator(server.folder())) {
      if (file.path().extension() == ".blk" && file.file_size() != 0) look_at(file.path());
    }
    server.restart();
    return_ = now();
  }
  /// True for a confirmation that it may have forgotten.
  bool may_forget(std::uint64_t sequence, std::uint32_t confirmed) const {
    if (confirmed >= return_) return false;
    const auto after = written_.upper_bound(sequence);
    return after != written_.begin() && confirmed >= std::prev(after)->second;  // in no block: it is gone for good
  }
  /// True for a job that two workers had at once, since the crash has made the server forget the first delivery.
  bool may_overlap(std::uint32_t confirmed, std::uint32_t again) const {
    return confirmed >= return_ && confirmed < return_ + 1'000 && again - confirmed < 1'000;
  }
  std::uint32_t end() const { return return_; }

 private:
  // An index: two bytes, then the numbers of messages and of bytes, the first sequence and so on, as varints.
  void look_at(std::filesystem::path block) {
    block.replace_extension(".idx");
    std::ifstream file(block, std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    std::uint64_t first = 0;
    std::size_t at = 2;
    for (int i = 0; i < 3; ++i) {
      first = 0;
      for (unsigned shift = 0; at < bytes.size(); shift += 7) {
        const auto byte = static_cast<unsigned char>(bytes[at++]);
        first |= std::uint64_t{byte & 0x7FU} << shift;
        if (byte < 0x80) break;
      }
    }
    struct ::stat about{};
    if (at >= bytes.size() ||
        ::stat(block.c_str(), &about) != 0) {  // killed while it wrote this: all of the block is back
      std::printf("torn index: %s\n", block.c_str());
      written_[0] = 0;
      return;
    }
    const auto time = std::chrono::seconds(about.st_mtim.tv_sec) + std::chrono::nanoseconds(about.st_mtim.tv_nsec);
    written_[first] = static_cast<std::uint32_t>(time / 1ms) - 1;  // `confirmed` is rounded down
  }

  std::map<std::uint64_t, std::uint32_t> written_;  // when, by the first sequence of a block
  std::uint32_t return_ = 0;
};

const nats::jobs_options the_jobs{.stream = "SOAK", .subject = "soak", .dead_letter = "soak.dead"};
constexpr std::size_t processes = 4;
constexpr std::size_t limit = 200;  // jobs under way in each

/// The run of continuous integration, whose few jobs take their time, so that enough of them are under way.
bool is_short() { return testing::scale() < 100 || testing::sanitized; }
void pause(IAsyncSteps& asi, std::uint64_t milliseconds) {
  if (!is_short()) return;
  asi.tool().deferred(std::chrono::milliseconds(milliseconds), [end = asi.completion()] { end.success(); });
}

}  // namespace

TEST_CASE("a worker process" * doctest::skip(std::getenv("NATS_JOBS_WORKS") == nullptr)) {
  ledger all(std::getenv("NATS_JOBS_FILE"), std::strtoull(std::getenv("NATS_JOBS_COUNT"), nullptr, 10));
  async::threadpool pool(1);
  nats::bus bus({.url = std::getenv("NATS_JOBS_URL")});
  nats::jobs jobs(bus, the_jobs);
  const nats::work_options options{
      .limit = limit, .ack_wait = 1s, .retry = {.attempts = 1'000'000, .delay = 10ms, .max_delay = 100ms}};
  auto worker = jobs.work(pool, options, [&](IAsyncSteps& asi, const nats::job& j) {
    entry& e = all[j.sequence()];
    if (e.confirmed != 0) e.again = now();
    ++e.runs;
    all.apply(j.id(), static_cast<std::uint32_t>(std::stoul(j.data())));
    if (j.sequence() % 64 == 0 && j.delivery() == 1) asi.error("Bad");  // some fail the first time
    asi.add([sequence = j.sequence()](IAsyncSteps& step) { pause(step, sequence % 400); });
    j.acknowledge(asi);
    asi.add([&e](IAsyncSteps&) {
      std::uint32_t never = 0;
      e.confirmed.compare_exchange_strong(never, now());
    });
  });
  worker.stopped().wait();  // for ever
  FAIL(worker.failure());
}

TEST_CASE("no job is lost, applied twice, stored twice or delivered after its confirmation, while processes die") {
  const std::size_t count = is_short() ? 5'000 : 200'000;
  testing::nats_server server;
  const std::string file = server.folder() + "/ledger";
  ledger all(file, count, true);
  ::setenv("NATS_JOBS_URL", server.url().c_str(), 1);
  ::setenv("NATS_JOBS_FILE", file.c_str(), 1);
  ::setenv("NATS_JOBS_COUNT", std::to_string(count).c_str(), 1);
  ::setenv("NATS_JOBS_WORKS", "", 1);
  std::mt19937_64 random(testing::seed());
  process workers[processes];
  async::threadpool pool(1);
  nats::bus bus({.url = server.url()});
  nats::jobs jobs(bus, the_jobs);

  // Odd: the server is down.
  std::atomic<unsigned> epoch{0};
  std::atomic<std::size_t> next{0}, straddling{0}, published_twice{0}, not_recognised{0};
  const auto publish = [&](IAsyncSteps& asi, std::size_t number) {
    const std::string data = std::to_string(number);
    const unsigned begun = epoch;
    const bool is_twice = number % 16 == 0;
    jobs.publish(asi, data, {.id = "job-" + data});
    asi.add([&, data, begun, is_twice](IAsyncSteps& second, nats::stored first) {
      if (is_twice) {
        jobs.publish(second, data, {.id = "job-" + data});
      } else {
        second.add([first](IAsyncSteps& same) { same.success(first); });
      }
      second.add([&, begun, is_twice, first](IAsyncSteps&, nats::stored again) {
        const bool is_through_crash = begun % 2 != 0 || begun != epoch;
        straddling += is_through_crash;
        published_twice += is_twice;
        if (is_twice && !is_through_crash) not_recognised += !again.is_duplicate || again.sequence != first.sequence;
      });
    });
  };
  auto published = steps::post(pool, [&](IAsyncSteps& asi) {
    jobs.open(asi);
    asi.add([&](IAsyncSteps& step) {
      auto& branches = step.parallel();
      for (int i = 0; i < 256; ++i) {
        branches.loop([&](IAsyncSteps& turn) {
          const std::size_t number = next++;
          if (number >= count) turn.breakLoop();
          turn.add([number](IAsyncSteps& waiting) { pause(waiting, number * 617 % 1'000); });
          turn.add([&, number](IAsyncSteps& publishing) { publish(publishing, number); });
        });
      }
    });
  });

  unsigned kills = 0;
  std::vector<crash> crashes;
  std::uint64_t left = count, last_sequence = 0;
  const auto begin = std::chrono::steady_clock::now();
  for (auto tick = begin + 200ms; left != 0 || crashes.size() < 2; tick += 200ms) {
    std::this_thread::sleep_until(tick);
    process& victim = workers[random() % processes];
    victim.kill();
    victim.start();
    ++kills;
    if (crashes.size() < 2 && all.applied() > count * (crashes.size() + 1) / 3) {
      ++epoch;
      crashes.emplace_back(server);
      ++epoch;
    }
    if (published.wait_for(0s) != std::future_status::ready || all.applied() < count * 9 / 10) continue;
    const std::string info = steps::post<std::string>(pool, [&](IAsyncSteps& asi) {
                               asi.retry({.attempts = steps::Retry::unlimited}, [&](IAsyncSteps& attempt) {
                                 attempt.setTimeout(1s);
                                 bus.call(attempt, "$JS.API.STREAM.INFO.SOAK", "");
                               });
                             }).get();
    left = nats::detail::number_at(info, "messages");
    last_sequence = nats::detail::number_at(info, "last_seq");
  }
  published.get();
  for (process& each : workers) each.kill();

  std::vector<unsigned> effects(count);
  std::size_t wrong_ids = 0;
  all.for_each_row([&](const ledger::row& r) {
    wrong_ids += r.number >= count || "job-" + std::to_string(r.number) != r.id;
    if (r.number < count) ++effects[r.number];
  });
  std::size_t attempts = 0, may_be_forgotten = 0, forgotten = 0, overlapping = 0, again = 0;
  std::uint32_t longest = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const entry& e = all[i];
    attempts += e.runs;
    const auto forgets = [&](const crash& c) { return c.may_forget(i, e.confirmed); };
    const auto which = std::find_if(crashes.begin(), crashes.end(), forgets);
    may_be_forgotten += e.confirmed != 0 && which != crashes.end();
    if (e.again == 0) continue;
    if (which != crashes.end()) {
      ++forgotten;
      longest = (std::max)(longest, which->end() - e.confirmed);
    } else {
      const auto overlaps = [&](const crash& c) { return c.may_overlap(e.confirmed, e.again); };
      ++(std::any_of(crashes.begin(), crashes.end(), overlaps) ? overlapping : again);
    }
  }
  const std::size_t stored_twice = last_sequence - count;
  std::printf("count: %zu jobs\ncount: %u killed workers\n", count, kills);
  std::printf("%.1f s; %zu attempts, %zu effects, %zu refused\n",
              std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), attempts, all.applied(),
              all.refused());
  std::printf(
      "%zu jobs came again of the %zu whose acknowledgements the killed server had confirmed and not written, up to %u "
      "ms "
      "before it was back; %zu were with two workers at once\n",
      forgotten, may_be_forgotten, longest, overlapping);
  std::printf("%zu published twice; %zu stored twice, of %zu that were being published while the server died\n",
              published_twice.load(), stored_twice, straddling.load());
  CHECK(std::count(effects.begin(), effects.end(), 0U) == 0);  // lost
  CHECK(std::count(effects.begin(), effects.end(), 1U) == static_cast<std::ptrdiff_t>(count));
  CHECK(wrong_ids == 0);
  CHECK(attempts > count);
  CHECK(all.refused() > 0);  // otherwise the key has had nothing to do
  CHECK(not_recognised == 0);
  CHECK(stored_twice <= straddling);
  CHECK(again == 0);
  CHECK(overlapping <= crashes.size() * processes * limit);
}
