// SPDX-License-Identifier: BSL-1.0
// fork() in a program with a bus: a child leaves it behind, whatever the parent's threads are doing.
#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <thread>

#include "async/threadpool.hpp"
#include "steps/asyncsteps.hpp"
#include "steps/interop/nats_jobs.hpp"
#include "steps/steps.hpp"
#include "support/forked.hpp"
#include "support/nats_server.hpp"

using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::can_fork_with_threads;
using testing::in_forked_child;
using namespace std::chrono_literals;
namespace nats = steps::interop::nats;

namespace {

/// A bus with all that belongs to it.
struct bench {
  testing::nats_server server;
  async::threadpool pool{2};
  std::optional<nats::bus> bus{std::in_place, nats::options{.url = server.url()}};
  nats::jobs jobs{*bus, {.stream = "WORK", .subject = "work"}};
  std::optional<nats::service> service{bus->serve("echo", "", pool, [](std::string text) { return text; })};
  std::optional<nats::worker> worker{jobs.work(pool, {}, [](IAsyncSteps&, const nats::job&) {})};

  std::string call() {
    return steps::post<std::string>(pool,
                                    [this](IAsyncSteps& asi) {
                                      asi.setTimeout(30s);
                                      bus->call(asi, "echo", "text");
                                    })
        .get();
  }
};

/// Sends, so that the bus's threads take their locks.
class traffic {
 public:
  explicit traffic(nats::bus& b)
      : thread_([this, &b] {
          while (!is_over_) b.send("nobody", "text");
        }) {}
  ~traffic() {
    is_over_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

/// In a child: ends it with 1 when something is not as it should be.
void expect(bool is_right) {
  if (!is_right) ::_exit(1);
}

/// The error of a flow on a loop of the calling thread; empty: none.
template <class F>
std::string error_of(F f) {
  std::string found;
  async::event_loop loop;
  steps::AsyncSteps flow(loop);
  flow.add([&f](IAsyncSteps& asi) { f(asi); },
           [&](IAsyncSteps& asi, ErrorCode code) {
             found = code;
             asi.success();
           });
  flow.add([&loop](IAsyncSteps&) { loop.stop(); });
  flow.execute();
  loop.run();
  return found;
}

/// Calls f(bench) in children of fork(), again and again; then the parent's bus still works.
template <class F>
void in_children(F f) {
  bench b;
  REQUIRE(b.bus->connected().wait_for(30s));
  const traffic busy(*b.bus);
  for (int i = 0; i < 20; ++i) {
    const testing::forked_ending e = in_forked_child([&] { f(b); });
    CHECK(e.exit_code == 0);
    REQUIRE_FALSE(e.is_late);
  }
  CHECK(b.call() == "text");
}

}  // namespace

TEST_CASE("a child of fork() destroys a bus, its services and workers at once; the parent's go on") {
  if (!can_fork_with_threads()) return;
  in_children([](bench& b) {
    b.service.reset();
    b.worker.reset();
    b.bus.reset();
  });
}

TEST_CASE("in a child of fork() calls of the parent's bus fail with Stopped, and nothing else has an effect") {
  if (!can_fork_with_threads()) return;
  in_children([](bench& b) {
    expect(error_of([&b](IAsyncSteps& asi) { b.bus->call(asi, "echo", "text"); }) == "Stopped");
    expect(error_of([&b](IAsyncSteps& asi) { b.jobs.publish(asi, "text"); }) == "Stopped");
    expect(b.bus->failure() != "");
    expect(b.worker->failure() != "");
    b.bus->send("echo", "text");
    b.service->stop();
    b.worker->stop();
    auto other = b.bus->serve("other", "", b.pool, [](std::string text) { return text; });
    expect(other.stopped().is_set());
    auto working = b.jobs.work(b.pool, {}, [](IAsyncSteps&, const nats::job&) {});
    expect(working.stopped().is_set());
  });
}
