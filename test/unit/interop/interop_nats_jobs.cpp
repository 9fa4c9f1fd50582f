// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>
#include <nats/nats.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iomanip>  // has a std::quoted(), which the headers must not call
#include <latch>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/event.hpp"
#include "async/threadpool.hpp"
#include "steps/interop/nats_jobs.hpp"
#include "steps/steps.hpp"
#include "support/nats_server.hpp"
#include "support/room_for_one.hpp"

using steps::ErrorCode;
using steps::IAsyncSteps;
using namespace std::chrono_literals;
namespace nats = steps::interop::nats;

namespace {

struct bench {
  testing::nats_server server;
  async::threadpool pool{2};
  nats::bus bus{{.url = server.url()}};
  nats::jobs jobs{bus, {.stream = "WORK", .subject = "work", .dead_letter = "work.dead"}};
  bench() {
    steps::post(pool, [this](IAsyncSteps& asi) { jobs.open(asi); }).get();
  }

  nats::stored publish(const std::string& data, nats::publish_options o = {}) {
    return steps::post<nats::stored>(pool, [&](IAsyncSteps& asi) { jobs.publish(asi, data, o); }).get();
  }
  /// Publishes the numbers below `count`, all at the same time.
  void publish_all(int count) {
    steps::post(pool, [this, count](IAsyncSteps& asi) {
      auto& all = asi.parallel();
      for (int i = 0; i < count; ++i) {
        all.add([this, i](IAsyncSteps& branch) { jobs.publish(branch, std::to_string(i)); });
      }
    }).get();
  }
};

/// How often each job has run.
class tally {
 public:
  void add(const std::string& what) {
    const std::lock_guard here(lock_);
    ++runs_[what];
  }
  std::size_t size() {
    const std::lock_guard here(lock_);
    return runs_.size();
  }
  void wait_for(std::size_t count) {
    while (size() < count) std::this_thread::sleep_for(1ms);
  }
  int most() {
    const std::lock_guard here(lock_);
    int found = 0;
    for (const auto& [what, count] : runs_) found = (std::max)(found, count);
    return found;
  }

 private:
  std::mutex lock_;
  std::map<std::string, int> runs_;
};

std::string code_of(async::future<void> f) {
  try {
    f.get();
    return "";
  } catch (const steps::Error& error) {
    return error.what();
  }
}

const steps::Retry soon{.attempts = 3, .delay = 20ms, .jitter = 0};

}  // namespace

TEST_CASE("a job is stored, runs as a flow, and is done when it is acknowledged") {
  bench b;
  CHECK(b.publish("first").sequence == 1);
  CHECK(b.publish("second", {.id = "key"}).sequence == 2);
  const nats::stored again = b.publish("second", {.id = "key"});
  CHECK(again.is_duplicate);
  CHECK(again.sequence == 2);
  tally seen;
  std::optional<nats::worker> worker(b.jobs.work(b.pool, {}, [&](IAsyncSteps& asi, const nats::job& j) {
    CHECK(j.subject() == "work");
    CHECK(j.delivery() == 1);
    CHECK(j.id() == (j.data() == "second" ? "key" : j.id()));
    CHECK(j.sequence() == (j.data() == "first" ? 1 : 2));
    asi.await(b.pool, [&seen, j] { seen.add(j.data()); });
  }));
  seen.wait_for(2);
  worker.reset();  // ends when the acknowledgements are confirmed
  const std::string info = steps::post<std::string>(b.pool, [&](IAsyncSteps& asi) {
                             b.bus.call(asi, "$JS.API.STREAM.INFO.WORK", "");
                           }).get();
  CHECK(nats::detail::number_at(info, "last_seq") == 2);
  CHECK(nats::detail::number_at(info, "messages") == 0);
  auto other = b.jobs.work(b.pool, {}, [&](IAsyncSteps&, const nats::job& j) { seen.add(j.data()); });
  CHECK(b.publish("third").sequence == 3);
  seen.wait_for(3);
  CHECK(seen.most() == 1);
}

TEST_CASE("a flow that fails runs again, after pauses; then its job is a dead letter, with the error") {
  bench b;
  std::mutex lock;
  std::vector<std::chrono::steady_clock::time_point> runs;
  auto worker = b.jobs.work(b.pool, {.retry = soon}, [&](IAsyncSteps& asi, const nats::job& j) {
    const std::lock_guard here(lock);
    runs.push_back(std::chrono::steady_clock::now());
    CHECK(j.delivery() == runs.size());
    asi.error("Bad", "too bad");
  });
  nats::jobs dead(b.bus, {.stream = "WORK", .subject = "work.dead"});
  async::promise<std::string> letter;
  auto reader = dead.work(b.pool, {.consumer = "readers"},
                          [&](IAsyncSteps&, const nats::job& j) { letter.set_value(j.data() + " " + j.id()); });
  b.publish("poison");
  CHECK(letter.get_future().get() == "poison dead.WORK.1");
  const std::lock_guard here(lock);
  REQUIRE(runs.size() == 3);
  CHECK(runs[1] - runs[0] >= 20ms);
  CHECK(runs[2] - runs[1] >= 40ms);
}

TEST_CASE("a dead letter has an error code without an error's text, and the beginning of a long info") {
  bench b;
  natsConnection* other = nullptr;
  REQUIRE(natsConnection_ConnectTo(&other, b.server.url().c_str()) == NATS_OK);
  natsSubscription* letters = nullptr;
  REQUIRE(natsConnection_SubscribeSync(&letters, other, "work.dead") == NATS_OK);
  REQUIRE(natsConnection_Flush(other) == NATS_OK);
  const auto header_of_next = [&](const char* key) {
    natsMsg* letter = nullptr;
    const char* value = nullptr;
    if (natsSubscription_NextMsg(&letter, letters, 30'000) != NATS_OK) return std::string("no letter");
    std::string found = natsMsgHeader_Get(letter, key, &value) == NATS_OK ? value : "no header";
    natsMsg_Destroy(letter);
    return found;
  };
  auto worker = b.jobs.work(b.pool, {.retry = {.attempts = 1}}, [](IAsyncSteps& asi, const nats::job& j) {
    if (j.data() == "no text") asi.error("");
    asi.error("Failed", std::string(2'000'000, 'x'));
  });
  b.publish("no text");
  CHECK(header_of_next("Nats-Service-Error-Code") == "InternalError");
  b.publish("long");
  CHECK(header_of_next("Nats-Service-Error").starts_with("xxxx"));
  b.publish(std::string(1'048'576 - 300, 'd'));  // leaves room for little
  CHECK(header_of_next("Nats-Service-Error").starts_with("xxxx"));
  natsSubscription_Destroy(letters);
  natsConnection_Destroy(other);
}

TEST_CASE("a blank id is none") {
  bench b;
  tally ids;
  std::atomic<int> runs{0};
  CHECK(b.publish("first", {.id = " "}).sequence == 1);
  CHECK_FALSE(b.publish("second", {.id = "\n"}).is_duplicate);
  auto worker = b.jobs.work(b.pool, {}, [&](IAsyncSteps&, const nats::job& j) {
    ids.add(j.id());
    ++runs;
  });
  while (runs < 2) std::this_thread::yield();
  CHECK(ids.size() == 2);
}

TEST_CASE("work() refuses names with blanks") {
  bench b;
  const auto none = [](IAsyncSteps&, const nats::job&) {};
  nats::jobs bad(b.bus, {.stream = "A B", .subject = "work"});
  CHECK_THROWS_WITH_AS(static_cast<void>(bad.work(b.pool, {}, none)), "InvalidRequest", steps::Error);
  CHECK_THROWS_WITH_AS(static_cast<void>(b.jobs.work(b.pool, {.consumer = "a\n"}, none)), "InvalidRequest",
                       steps::Error);
  CHECK(b.publish("as before").sequence == 1);
}

TEST_CASE("GiveUp makes a dead letter at once; without a subject for them a job is dropped") {
  bench b;
  std::atomic<int> runs{0};
  async::event dead_letter;
  nats::jobs dead(b.bus, {.stream = "WORK", .subject = "work.dead"});
  auto reader = dead.work(b.pool, {.consumer = "readers"}, [&](IAsyncSteps&, const nats::job&) { dead_letter.set(); });
  auto worker = b.jobs.work(b.pool, {.retry = soon}, [&](IAsyncSteps& asi, const nats::job&) {
    ++runs;
    asi.error(nats::errors::GiveUp);
  });
  b.publish("x");
  dead_letter.wait();
  CHECK(runs == 1);
  reader.stop();
  reader.stopped().wait();
  auto dropping = dead.work(b.pool, {.consumer = "readers", .retry = soon}, [&](IAsyncSteps& asi, const nats::job& j) {
    ++runs;
    asi.error(j.delivery() == 1 ? ErrorCode("Bad") : nats::errors::GiveUp);
  });
  runs = 0;
  b.publish("y");
  while (runs < 3) std::this_thread::sleep_for(1ms);  // one of the job, two of its dead letter
}

TEST_CASE("at most so many jobs are under way as a worker may have") {
  bench b;
  b.publish_all(300);
  std::atomic<int> inside{0}, most{0}, count{0};
  auto worker = b.jobs.work(b.pool, {.limit = 7}, [&](IAsyncSteps& asi, const nats::job&) {
    most = (std::max)(most.load(), ++inside);
    asi.add([](IAsyncSteps& wait) { wait.tool().deferred(2ms, [done = wait.completion()] { done.success(); }); });
    asi.add([&](IAsyncSteps&) { --inside, ++count; });
  });
  while (count < 300) std::this_thread::sleep_for(1ms);
  CHECK(most <= 7);
}

TEST_CASE("a job is not delivered again while its flow runs, also when its worker's pool is busy") {
  bench b;
  std::atomic<int> runs{0};
  async::event done;
  auto work = [&](IAsyncSteps& asi, const nats::job&) {
    ++runs;
    std::this_thread::sleep_for(1s);  // several times ack_wait
    asi.add([&](IAsyncSteps&) { done.set(); });
  };
  async::threadpool busy(1);
  auto first = b.jobs.work(busy, {.ack_wait = 200ms}, work);
  auto second = b.jobs.work(b.pool, {.ack_wait = 200ms}, work);
  b.publish("long");
  done.wait();
  CHECK(runs == 1);
}

TEST_CASE("a job is not delivered again while its flow runs, also when its worker has been stopped") {
  bench b;
  std::atomic<int> runs{0};
  async::event done;
  auto work = [&](IAsyncSteps& asi, const nats::job&) {
    ++runs;
    asi.add([](IAsyncSteps& wait) { wait.tool().deferred(1s, [end = wait.completion()] { end.success(); }); });
    asi.add([&](IAsyncSteps&) { done.set(); });
  };
  auto first = b.jobs.work(b.pool, {.ack_wait = 200ms}, work);
  b.publish("long");
  while (runs == 0) std::this_thread::yield();
  auto second = b.jobs.work(b.pool, {.ack_wait = 200ms}, work);
  first.stop();
  done.wait();
  CHECK(runs == 1);
  first.stopped().wait();
}

TEST_CASE("jobs of a worker that has died go to another one; those that kill each worker are given up") {
  bench b;
  async::event letter;
  nats::jobs dead(b.bus, {.stream = "WORK", .subject = "work.dead"});
  auto reader = dead.work(b.pool, {.consumer = "readers"}, [&](IAsyncSteps&, const nats::job& j) {
    CHECK(j.data() == "killer");
    letter.set();
  });
  b.publish("killer");
  const nats::work_options options{.ack_wait = 100ms, .retry = soon, .most_deliveries = 3};
  for (unsigned delivery = 1; delivery <= 3; ++delivery) {
    async::event never, begun;
    async::threadpool pool(1);
    std::optional<nats::bus> dies(std::in_place, nats::options{.url = b.server.url()});
    auto worker = nats::jobs(*dies, {.stream = "WORK", .subject = "work", .dead_letter = "work.dead"})
                      .work(pool, options, [&](IAsyncSteps& asi, const nats::job& j) {
                        CHECK(j.delivery() == delivery);
                        begun.set();
                        asi.await(never);
                      });
    begun.wait();
    dies.reset();  // as when a process dies: nothing more is said of the job
    never.set();
  }
  auto survivor = b.jobs.work(b.pool, options, [&](IAsyncSteps&, const nats::job&) { FAIL("runs again"); });
  letter.wait();
}

TEST_CASE("no bound on deliveries takes attempts from a job's flow") {
  bench b;
  async::event letter;
  nats::jobs dead(b.bus, {.stream = "WORK", .subject = "work.dead"});
  auto reader = dead.work(b.pool, {.consumer = "readers"}, [&](IAsyncSteps&, const nats::job&) { letter.set(); });
  std::atomic<int> runs{0};
  auto worker = b.jobs.work(b.pool, {.retry = soon, .most_deliveries = 1}, [&](IAsyncSteps& asi, const nats::job&) {
    ++runs;
    asi.error("Broken");
  });
  b.publish("breaks");
  letter.wait();
  CHECK(runs == 3);
}

TEST_CASE("a worker tells that the stream refuses a dead letter, which is stored when the stream takes it") {
  bench b;
  nats::jobs jobs(b.bus, {.stream = "WORK", .subject = "work", .dead_letter = "letters"});  // the stream was there
  auto worker = jobs.work(b.pool, {.retry = soon}, [&](IAsyncSteps& asi, const nats::job&) {
    asi.error(nats::errors::GiveUp, "no such address");
  });
  b.publish("mail");
  while (worker.failure().find("a dead letter was refused") == std::string::npos) std::this_thread::sleep_for(1ms);
  async::event letter;
  steps::post(b.pool, [&](IAsyncSteps& asi) {
    b.bus.call(asi, "$JS.API.STREAM.UPDATE.WORK",
               R"({"name":"WORK","subjects":["work","letters"],"retention":"workqueue","storage":"file"})");
    asi.add([](IAsyncSteps&, const std::string&) {});
  }).get();
  nats::jobs letters(b.bus, {.stream = "WORK", .subject = "letters"});
  auto reader = letters.work(b.pool, {.consumer = "readers"}, [&](IAsyncSteps&, const nats::job&) { letter.set(); });
  letter.wait();
}

TEST_CASE("jobs wait for a pool that is full and rejects, and run") {
  bench b;
  async::threadpool full(testing::with_room_for_one());
  std::latch entered(1), release(1);
  full.execute([&] {
    entered.count_down();
    release.wait();
  });
  entered.wait();
  full.execute([] {});
  b.publish_all(20);
  tally seen;
  auto worker = b.jobs.work(full, {.ack_wait = 300ms, .retry = soon}, [&](IAsyncSteps&, const nats::job& j) {
    CHECK(j.delivery() == 1);
    seen.add(j.data());
  });
  std::this_thread::sleep_for(1s);  // several times ack_wait
  CHECK(seen.size() == 0);
  release.count_down();
  seen.wait_for(20);
  CHECK(seen.most() == 1);
}

TEST_CASE("jobs that workers hand back before their flows begin are not given up") {
  bench b;
  b.publish_all(10);
  const nats::work_options options{.ack_wait = 1s, .retry = soon};
  for (int restart = 0; restart < 6; ++restart) {
    async::threadpool paused(0);
    auto worker = b.jobs.work(paused, options, [](IAsyncSteps&, const nats::job&) { FAIL("the pool is paused"); });
    std::this_thread::sleep_for(150ms);  // so that jobs have come; none of what follows depends on it
    worker.stop();
    paused.configurepool(1);
    worker.stopped().wait();
  }
  tally seen;
  auto worker = b.jobs.work(b.pool, options, [&](IAsyncSteps&, const nats::job& j) { seen.add(j.data()); });
  for (int i = 0; i < 20'000 && seen.size() < 10; ++i) std::this_thread::sleep_for(1ms);
  CHECK(seen.size() == 10);
}

TEST_CASE("all jobs that a worker hands back run at once elsewhere, however long ack_wait is") {
  bench b;
  b.publish_all(10);
  async::threadpool paused(0);
  auto first = b.jobs.work(paused, {}, [](IAsyncSteps&, const nats::job&) { FAIL("the pool is paused"); });
  const auto under_way = [&b] {
    const std::string info = steps::post<std::string>(b.pool, [&b](IAsyncSteps& asi) {
                               b.bus.call(asi, "$JS.API.CONSUMER.INFO.WORK.workers", "");
                             }).get();
    return nats::detail::number_at(info, "num_ack_pending");
  };
  while (under_way() != 10) std::this_thread::yield();
  first.stop();
  std::this_thread::sleep_for(100ms);  // the server may be slow to learn of it
  paused.configurepool(1);
  first.stopped().wait();
  const auto begin = std::chrono::steady_clock::now();
  tally seen;
  auto second = b.jobs.work(b.pool, {}, [&](IAsyncSteps&, const nats::job& j) { seen.add(j.data()); });
  seen.wait_for(10);
  CHECK(std::chrono::steady_clock::now() - begin < 20s);  // ack_wait is 30 s
}

TEST_CASE("a worker's doubts end with a job whose subject is a key in the server's answers") {
  testing::nats_server server;
  async::threadpool pool(2);
  nats::bus bus{{.url = server.url()}};
  nats::jobs jobs(bus, {.stream = "WORK", .subject = "messages", .dead_letter = "work.dead"});
  steps::post(pool, [&](IAsyncSteps& asi) {
    jobs.open(asi);
    bus.call(asi, "work.dead", "makes the number of all messages differ from that of the jobs");
    jobs.publish(asi, "slow");
  }).get();
  std::atomic<int> runs{0};
  async::event done;
  auto worker = jobs.work(pool, {.ack_wait = 300ms}, [&](IAsyncSteps& asi, const nats::job&) {
    ++runs;
    asi.add([](IAsyncSteps& wait) { wait.tool().deferred(2s, [end = wait.completion()] { end.success(); }); });
    asi.add([&](IAsyncSteps&) { done.set(); });
  });
  done.wait();
  CHECK(runs == 1);
}

TEST_CASE("ids that a header would change are refused, and numbers that make no sense are replaced") {
  bench b;
  for (const char* const id : {"a\nb", " a", "a ", "a\tb", "a\x7f"}) {
    CHECK(code_of(steps::post(b.pool, [&](IAsyncSteps& asi) { b.jobs.publish(asi, "x", {.id = id}); })) ==
          "InvalidRequest");
  }
  b.publish("x", {.id = "a b"});
  tally seen;
  auto worker = b.jobs.work(b.pool, {.limit = 0, .ack_wait = 0s}, [&](IAsyncSteps&, const nats::job& j) {
    CHECK(j.id() == "a b");
    seen.add(j.data());
  });
  seen.wait_for(1);
}

TEST_CASE("a worker that stops finishes what it has begun and hands the rest back at once") {
  bench b;
  constexpr int count = 200;
  b.publish_all(count);
  tally seen;
  std::latch release(1);  // not an async::event, in whose wait() another thread would run flows
  async::threadpool one(1);
  std::atomic<int> begun{0};
  auto first = b.jobs.work(one, {.limit = 150}, [&](IAsyncSteps& asi, const nats::job& j) {
    seen.add(j.data());
    if (++begun == 5) release.wait();  // the others wait for the pool's only thread
    asi.await(b.pool, [] {});
  });
  while (begun < 5) std::this_thread::sleep_for(1ms);
  first.stop();
  release.count_down();
  first.stopped().wait();
  CHECK(begun < 150);
  auto second = b.jobs.work(b.pool, {.limit = 150}, [&](IAsyncSteps&, const nats::job& j) { seen.add(j.data()); });
  const auto begin = std::chrono::steady_clock::now();
  seen.wait_for(count);
  CHECK(std::chrono::steady_clock::now() - begin < 20s);  // ack_wait is 30 s
  CHECK(seen.most() == 1);
}

TEST_CASE("work and publishing go on after a restart of the server; nothing stored is lost") {
  bench b;
  constexpr int count = 400;
  tally seen;
  auto worker = b.jobs.work(b.pool, {.limit = 20, .ack_wait = 1s}, [&](IAsyncSteps& asi, const nats::job& j) {
    asi.await(b.pool, [&seen, j] { seen.add(j.data()); });
  });
  std::thread publisher([&] { b.publish_all(count); });
  for (std::size_t at : {50U, 150U}) {
    seen.wait_for(at);
    b.server.restart();
  }
  publisher.join();
  seen.wait_for(count);
}

TEST_CASE("publishing fails without a connection if it is told to, and without a stream") {
  bench b;
  nats::jobs nowhere(b.bus, {.stream = "NOWHERE", .subject = "nowhere"});
  CHECK(code_of(steps::post(b.pool, [&](IAsyncSteps& asi) { nowhere.publish(asi, "x"); })) == "NoResponders");
  const std::string large(2'000'000, 'x');
  CHECK(code_of(steps::post(b.pool, [&](IAsyncSteps& asi) { b.jobs.publish(asi, large); })) == "InvalidRequest");
  b.server.kill();
  while (b.bus.connected().is_set()) std::this_thread::sleep_for(1ms);
  CHECK(code_of(steps::post(b.pool, [&](IAsyncSteps& asi) { b.jobs.publish(asi, "x", {.waits = false}); })) ==
        "ConnectError");
  const auto begin = std::chrono::steady_clock::now();
  const std::string waited = code_of(steps::post(b.pool, [&](IAsyncSteps& asi) {
    asi.setTimeout(50ms);
    b.jobs.publish(asi, "x");
  }));
  // An attempt that ends after the limit gives its own error.
  CHECK((waited == "Timeout" || waited == "ConnectError"));
  CHECK(std::chrono::steady_clock::now() - begin >= 50ms);
}

TEST_CASE("publishing whose answer is lost fails with CommError if it is told to; otherwise it goes on") {
  bench b;
  std::atomic<int> requests{0};
  async::event taken, never;
  // In place of a stream, whose answer would come too soon.
  auto silent = b.bus.serve("silent", "", b.pool, [&](IAsyncSteps& asi, const std::string&) {
    if (++requests == 3) return asi.success(std::string(R"({"stream":"SILENT","seq":7})"));
    taken.set();
    asi.await(never);
  });
  nats::jobs jobs(b.bus, {.stream = "SILENT", .subject = "silent"});
  auto fails = steps::post(b.pool, [&](IAsyncSteps& asi) { jobs.publish(asi, "x", {.waits = false}); });
  taken.wait();
  taken.reset();
  b.server.kill();
  CHECK(code_of(std::move(fails)) == "CommError");
  b.server.restart();
  auto goes_on = steps::post<nats::stored>(b.pool, [&](IAsyncSteps& asi) { jobs.publish(asi, "x"); });
  taken.wait();
  CHECK(requests == 2);
  b.server.restart();
  CHECK(goes_on.get().sequence == 7);
  never.set();
}

TEST_CASE(
    "a server that takes nothing blocks no thread of a pool while jobs are published, acknowledged and handed back") {
  testing::nats_server server;
  async::threadpool pool(1);
  nats::bus bus({.url = server.url()});
  nats::jobs jobs(bus, {.stream = "WORK", .subject = "work"});
  steps::post(pool, [&](IAsyncSteps& asi) { jobs.open(asi); }).get();
  const auto publish = [&](const std::string& data, bool waits = true) {
    return steps::post<nats::stored>(pool, [&jobs, &data, waits](IAsyncSteps& asi) {
      if (!waits) asi.setTimeout(50ms);
      jobs.publish(asi, data, {.waits = waits});
    });
  };
  const std::string small = "x", large(100'000, 'x');
  for (int i = 0; i < 60; ++i) publish(small).get();
  std::atomic<int> begun{0};
  async::event release;
  auto worker = jobs.work(pool, {.limit = 60, .retry = {.delay = 1min}}, [&](IAsyncSteps& asi, const nats::job& j) {
    ++begun;
    asi.await(release);
    asi.add([j](IAsyncSteps& step) {
      if (j.sequence() % 3 == 0) step.error("Bad");
    });
  });
  while (begun < 60) std::this_thread::sleep_for(1ms);
  server.pause();
  release.set();
  std::vector<async::future<nats::stored>> published;
  for (int i = 0; i < 400; ++i) published.push_back(publish(large));               // 40 MB: far more than sockets take
  for (int i = 0; i < 1'000; ++i) CHECK(pool.post([i] { return i; }).get() == i);  // the only thread is free
  CHECK_THROWS_WITH(publish(small, false).get(), "Timeout");
  worker.stop();
  CHECK_FALSE(worker.stopped().is_set());  // acknowledgements are not confirmed
  server.resume();
  for (auto& each : published) CHECK(each.get().sequence > 60);
  worker.stopped().wait();
  const std::string info =
      steps::post<std::string>(pool, [&](IAsyncSteps& asi) { bus.call(asi, "$JS.API.STREAM.INFO.WORK", ""); }).get();
  CHECK(nats::detail::number_at(info, "last_seq") == 460);  // what nobody waited for has not been sent
  CHECK(nats::detail::number_at(info, "messages") == 420);
}

TEST_CASE("refusals of the server are reported") {
  bench b;
  nats::jobs bad(b.bus, {.stream = "OTHER", .subject = "work"});  // the subject of another stream
  CHECK(code_of(steps::post(b.pool, [&](IAsyncSteps& asi) { bad.open(asi); })) == "JetStreamError");
  auto worker = bad.work(b.pool, {}, [](IAsyncSteps&, const nats::job&) {});
  worker.stopped().wait();
  CHECK(worker.failure().find("overlap") != std::string::npos);
}
