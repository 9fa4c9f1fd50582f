// SPDX-License-Identifier: BSL-1.0
//
// Jobs that must be done: mails that servers store and any machine sends, each once. The example starts a server of its
// own; its worker could be another process.
#include <chrono>
#include <cstdio>
#include <mutex>
#include <set>
#include <string>

#include "steps/interop/nats_jobs.hpp"
#include "steps/steps.hpp"
#include "support/nats_server.hpp"

namespace nats = steps::interop::nats;
using steps::IAsyncSteps;
using namespace std::chrono_literals;

namespace {

/// Stands for a database with a unique key.
class outbox {
 public:
  /// False: a mail with this key has been sent before.
  bool send_once(const std::string& key, const std::string& text) {
    const std::lock_guard here(lock_);
    if (text == "no address") throw steps::Error(nats::errors::GiveUp, "a mail without an address");
    return sent_.insert(key).second;
  }
  std::size_t size() {
    const std::lock_guard here(lock_);
    return sent_.size();
  }

 private:
  std::mutex lock_;
  std::set<std::string> sent_;
};

const nats::jobs_options the_mails{.stream = "MAILS", .subject = "mails", .dead_letter = "mails.dead"};

// [publish]
/// Ends when the server has stored the mail. The order's number is the key: a mail that is published twice, or whose
/// job runs twice, is sent once.
void order(IAsyncSteps& asi, nats::jobs& mails, int number, const std::string& mail) {
  asi.setTimeout(10s);  // without it, publish() waits for a connection for as long as that takes
  mails.publish(asi, mail, {.id = "order-" + std::to_string(number)});
}
// [/publish]

// [work]
nats::worker send_mails(nats::jobs& mails, async::threadpool& pool, outbox& out) {
  const nats::work_options options{.limit = 50, .retry = {.attempts = 5, .delay = 1s}};  // 50 jobs under way at most
  return mails.work(pool, options, [&out](IAsyncSteps& asi, const nats::job& mail) {
    asi.setTimeout(1min);
    asi.await(async::blocking_pool::shared(), [&out, mail] { out.send_once(mail.id(), mail.data()); });
  });  // acknowledged when the flow has succeeded
}
// [/work]

}  // namespace

int main() {
  testing::nats_server server;
  async::threadpool pool;
  nats::bus bus({.url = server.url()});
  nats::jobs mails(bus, the_mails);
  steps::post(pool, [&](IAsyncSteps& asi) {
    mails.open(asi);
    for (const int number : {1, 2, 3, 2}) {
      asi.add([&, number](IAsyncSteps& step) { order(step, mails, number, "your order"); });
    }
    asi.add([&](IAsyncSteps& step) { order(step, mails, 4, "no address"); });
  }).get();

  async::event given_up;
  nats::jobs letters(bus, {.stream = "MAILS", .subject = "mails.dead"});
  outbox out;
  const nats::worker worker = send_mails(mails, pool, out);
  const nats::worker reader = letters.work(pool, {.consumer = "readers"}, [&](IAsyncSteps&, const nats::job& letter) {
    std::printf("given up: %s\n", letter.data().c_str());
    given_up.set();
  });
  given_up.wait();
  while (out.size() < 3) std::this_thread::yield();
  std::printf("sent %zu mails\n", out.size());
  return out.size() == 3 ? 0 : 1;
}
