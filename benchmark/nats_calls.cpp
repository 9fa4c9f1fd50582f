// SPDX-License-Identifier: BSL-1.0
//
// Calls over NATS: one client process and four server processes, which share the calls. bus.call() and bus.serve() take
// turns with the C client used by hand, in two ways: requests whose answers a callback takes, which sends the next one;
// and a blocking natsConnection_Request() in a thread for each call in flight. Each is measured with the client's
// default way to send, from a thread that gathers for a moment, and with natsOptions_SetSendAsap(), which has no such
// delay.
#include <nats/nats.h>             // for natsConnection_Request, natsConnection_QueueSubscribe
#include <sys/prctl.h>             // for prctl
#include <sys/wait.h>              // for waitpid
#include <unistd.h>                // for fork, execl
#include <async/threadpool.hpp>    // for threadpool
#include <steps/interop/nats.hpp>  // for bus
#include <steps/steps.hpp>         // for IAsyncSteps, post

#include <algorithm>   // for sort
#include <array>       // for array
#include <atomic>      // for atomic
#include <chrono>      // for milliseconds, steady_clock
#include <csignal>     // for kill
#include <cstddef>     // for size_t
#include <cstdint>     // for uint32_t
#include <cstdio>      // for printf, fprintf
#include <cstdlib>     // for atoi, exit, strtoul
#include <cstring>     // for strcmp, strrchr
#include <functional>  // for function
#include <memory>      // for unique_ptr, make_unique
#include <string>      // for string, to_string
#include <thread>      // for thread, sleep_for
#include <vector>      // for vector

#include "support/nats_server.hpp"  // for nats_server

namespace {

using steps::IAsyncSteps;
using wall_clock = std::chrono::steady_clock;
namespace nats = steps::interop::nats;

constexpr int servers = 4;
const std::string request(64, 'x');

void check(natsStatus s) {
  if (s == NATS_OK) return;
  std::fprintf(stderr, "NATS: %s\n", natsStatus_GetText(s));
  std::exit(1);
}

/// Subjects: of our calls, and of those by hand.
const std::string by_steps = "steps", gathered = "gathered", asap = "asap";

natsConnection* connect(const char* url, bool is_asap) {
  natsOptions* options = nullptr;
  natsConnection* made = nullptr;
  check(natsOptions_Create(&options));
  check(natsOptions_SetURL(options, url));
  check(natsOptions_SetSendAsap(options, is_asap));
  check(natsConnection_Connect(&made, options));
  natsOptions_Destroy(options);
  return made;
}

// --- servers ---------------------------------------------------------------------------------------------------------

/// Each has a thread that handles requests.
[[noreturn]] void serve_ours(const char* url) {
  async::threadpool pool(1);
  nats::bus bus({.url = url});
  auto service = bus.serve(by_steps, "servers", pool, [](std::string text) { return text; });
  service.stopped().wait();
  std::exit(1);
}
[[noreturn]] void serve_by_hand(const std::string& subject, const char* url) {
  natsConnection* const connection = connect(url, subject == asap);
  natsSubscription* subscription = nullptr;
  const auto answer = [](natsConnection* c, natsSubscription*, natsMsg* m, void*) {
    check(natsConnection_Publish(c, natsMsg_GetReply(m), natsMsg_GetData(m), natsMsg_GetDataLength(m)));
    natsMsg_Destroy(m);
  };
  check(natsConnection_QueueSubscribe(&subscription, connection, subject.c_str(), "servers", answer, nullptr));
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

/// A copy of this program that serves a subject.
class server {
 public:
  server(const std::string& subject, const std::string& url) : process_(::fork()) {
    if (process_ < 0) {
      std::perror("fork");
      std::exit(1);
    }
    if (process_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::execl("/proc/self/exe", "nats_calls", "--serve", subject.c_str(), url.c_str(), nullptr);
    ::_exit(127);
  }
  server(const server&) = delete;
  server& operator=(const server&) = delete;
  ~server() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }

 private:
  const pid_t process_;
};

// --- clients ---------------------------------------------------------------------------------------------------------

/// What the calls of one place in flight took, one call after the other.
struct alignas(64) record {
  void begin() { begun = wall_clock::now(); }
  void end() { times.push_back(static_cast<std::uint32_t>((wall_clock::now() - begun).count())); }
  wall_clock::time_point begun{};
  std::vector<std::uint32_t> times{};  // nanoseconds
};
using records = std::vector<record>;

/// Makes calls, one after the other in each place, until `stop`.
using client = std::function<void(records&, const std::atomic<bool>& stop)>;

client ours(async::threadpool& pool, nats::bus& bus) {
  return [&pool, &bus](records& all, const std::atomic<bool>& stop) {
    steps::post(pool, [&](IAsyncSteps& asi) {
      auto& branches = asi.parallel();
      for (record& each : all) {
        branches.loop([&](IAsyncSteps& turn) {
          if (stop) turn.breakLoop();
          each.begin();
          bus.call(turn, by_steps, request);
          turn.add([&each](IAsyncSteps&, const std::string&) { each.end(); });
        });
      }
    }).get();
  };
}

/// A thread for each call in flight.
client threads_by_hand(natsConnection* connection, const std::string& subject) {
  return [connection, subject](records& all, const std::atomic<bool>& stop) {
    std::vector<std::thread> threads;
    for (record& each : all) {
      threads.emplace_back([&] {
        while (!stop) {
          each.begin();
          natsMsg* answer = nullptr;
          check(natsConnection_Request(&answer, connection, subject.c_str(), request.data(),
                                       static_cast<int>(request.size()), 10'000));
          natsMsg_Destroy(answer);
          each.end();
        }
      });
    }
    for (std::thread& each : threads) each.join();
  };
}

/// A subscription for all answers; the last part of an answer's subject is the place of its call.
client callback_by_hand(natsConnection* connection, const std::string& subject) {
  return [connection, subject](records& all, const std::atomic<bool>& stop) {
    struct state {
      records& all;
      const std::atomic<bool>& stop;
      const std::string& subject;
      std::vector<std::string> replies{};
      std::atomic<std::size_t> left;
      void send(natsConnection* c, std::size_t place) {
        all[place].begin();
        check(natsConnection_PublishRequest(c, subject.c_str(), replies[place].c_str(), request.data(),
                                            static_cast<int>(request.size())));
      }
    } calls{.all = all, .stop = stop, .subject = subject, .left = all.size()};
    natsInbox* inbox = nullptr;
    check(natsInbox_Create(&inbox));
    for (std::size_t i = 0; i < all.size(); ++i) calls.replies.push_back(std::string(inbox) + '.' + std::to_string(i));
    const auto take = [](natsConnection* c, natsSubscription*, natsMsg* m, void* closure) {
      auto& self = *static_cast<state*>(closure);
      const auto place = static_cast<std::size_t>(std::atoi(std::strrchr(natsMsg_GetSubject(m), '.') + 1));
      natsMsg_Destroy(m);
      self.all[place].end();
      if (self.stop) {
        if (--self.left == 0) self.left.notify_one();
      } else {
        self.send(c, place);
      }
    };
    natsSubscription* answers = nullptr;
    check(natsConnection_Subscribe(&answers, connection, (std::string(inbox) + ".*").c_str(), take, &calls));
    for (std::size_t i = 0; i < all.size(); ++i) calls.send(connection, i);
    for (std::size_t left = calls.left; left != 0; left = calls.left) calls.left.wait(left);
    natsSubscription_Destroy(answers);
    natsInbox_Destroy(inbox);
  };
}

// --- measuring -------------------------------------------------------------------------------------------------------

struct sample {
  double rate;      // calls a second
  double p50, p99;  // microseconds
};

sample measure(const client& c, std::size_t in_flight, std::chrono::milliseconds time) {
  records all(in_flight);
  for (record& each : all) each.times.reserve(100'000);
  std::atomic<bool> stop{false};
  const auto begin = wall_clock::now();
  std::thread stopper([&stop, time] {
    std::this_thread::sleep_for(time);
    stop = true;
  });
  c(all, stop);
  const std::chrono::duration<double> took = wall_clock::now() - begin;
  stopper.join();
  std::vector<std::uint32_t> times;
  for (const record& each : all) times.insert(times.end(), each.times.begin(), each.times.end());
  std::sort(times.begin(), times.end());
  const auto count = times.size();
  return {static_cast<double>(count) / took.count(), times[count / 2] * 1e-3, times[count * 99 / 100] * 1e-3};
}

template <class F>
double median(std::size_t count, F value) {
  std::vector<double> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(value(i));
  std::sort(all.begin(), all.end());
  return (all[(count - 1) / 2] + all[count / 2]) / 2;
}

int run(std::size_t in_flight, std::size_t rounds, std::chrono::milliseconds time) {
  const testing::nats_server broker;
  std::vector<std::unique_ptr<server>> all_servers;
  for (const std::string& subject : {by_steps, gathered, asap}) {
    for (int i = 0; i < servers; ++i) all_servers.push_back(std::make_unique<server>(subject, broker.url()));
  }
  async::threadpool pool(1);
  nats::bus bus({.url = broker.url()});
  natsConnection* const gathers = connect(broker.url().c_str(), false);
  natsConnection* const sends = connect(broker.url().c_str(), true);
  if (!bus.connected().wait_for(std::chrono::seconds(10))) return 1;
  std::this_thread::sleep_for(std::chrono::seconds(1));  // the servers subscribe

  constexpr std::size_t kinds = 5;
  const std::array<const char*, kinds> names{"bus.call() from flows", "callback", "callback, SendAsap", "threads",
                                             "threads, SendAsap"};
  const std::array<client, kinds> clients{ours(pool, bus), callback_by_hand(gathers, gathered),
                                          callback_by_hand(sends, asap), threads_by_hand(gathers, gathered),
                                          threads_by_hand(sends, asap)};
  std::array<std::vector<sample>, kinds> samples;
  for (const client& each : clients) measure(each, in_flight, time / 2);  // warms up
  for (std::size_t round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < kinds; ++i) {
      const std::size_t kind = (i + round) % kinds;
      samples[kind].push_back(measure(clients[kind], in_flight, time));
    }
  }
  natsConnection_Destroy(gathers);
  natsConnection_Destroy(sends);

  std::printf("%zu in flight, medians of %zu rounds\n", in_flight, rounds);
  std::printf("%-24s%12s%10s%10s   ours / this: %6s%8s%8s\n", "", "calls/s", "p50 us", "p99 us", "calls/s", "p50",
              "p99");
  for (std::size_t kind = 0; kind < kinds; ++kind) {
    const auto& mine = samples[0];
    const auto& its = samples[kind];
    std::printf("%-24s%12.0f%10.1f%10.1f   %20.2f%8.2f%8.2f\n", names[kind],
                median(rounds, [&](std::size_t i) { return its[i].rate; }),
                median(rounds, [&](std::size_t i) { return its[i].p50; }),
                median(rounds, [&](std::size_t i) { return its[i].p99; }),
                median(rounds, [&](std::size_t i) { return mine[i].rate / its[i].rate; }),
                median(rounds, [&](std::size_t i) { return its[i].p50 / mine[i].p50; }),
                median(rounds, [&](std::size_t i) { return its[i].p99 / mine[i].p99; }));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "--serve") == 0) {
    argv[2] == by_steps ? serve_ours(argv[3]) : serve_by_hand(argv[2], argv[3]);
  }
  std::size_t numbers[] = {64, 9, 1'000};
  for (int i = 1; i < argc; ++i) {
    char* end = nullptr;
    const unsigned long value = i <= 3 ? std::strtoul(argv[i], &end, 10) : 0;
    if (value == 0 || *end != '\0') {
      const bool is_help = std::strcmp(argv[i], "--help") == 0;
      std::fprintf(is_help ? stdout : stderr,
                   "usage: %s [CALLS_IN_FLIGHT [ROUNDS [MILLISECONDS]]], default 64 9 1000\n", argv[0]);
      return is_help ? 0 : 2;
    }
    numbers[i - 1] = value;
  }
  return run(numbers[0], numbers[1], std::chrono::milliseconds(numbers[2]));
}
