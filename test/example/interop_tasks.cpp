// SPDX-License-Identifier: BSL-1.0
//
// Coroutines that ask several servers at the same time: a page is made of three answers, and a picture comes from the
// mirror that answers first. One that takes too long is done without, and few requests at a time go to the shop.
#include <chrono>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "async/threadpool.hpp"
#include "steps/asyncsteps.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/interop/retry.hpp"
#include "steps/interop/sync.hpp"
#include "steps/interop/when_all.hpp"
#include "steps/interop/with_timeout.hpp"
#include "steps/semaphore.hpp"

using namespace std::chrono_literals;
using steps::interop::co;
using steps::interop::post;
using steps::interop::retry;
using steps::interop::sleep_for;
using steps::interop::sync;
using steps::interop::task;
using steps::interop::when_all;
using steps::interop::when_any;
using steps::interop::with_timeout;

namespace {

struct servers {
  async::threadpool& pool;

  task<std::string> name_of(int user) {
    co_return co_await post(pool, [](int u) { return "u" + std::to_string(u); }, user);
  }
  task<int> balance_of(int user) {
    co_await sleep_for(pool.loop(0), 2ms);
    co_return user * 100;
  }
  task<> count_visit(int) {
    co_await sleep_for(pool.loop(0), 1ms);
    ++visits;
  }
  task<std::string> picture_at(std::string mirror) {
    if (mirror == "broken") throw std::runtime_error("NoRoute");
    co_await sleep_for(pool.loop(0), mirror == "near" ? 1ms : 10min);
    co_return "picture from " + mirror;
  }

  // [when_all]
  task<std::string> page(int user) {
    const auto all = co_await when_all(name_of(user), balance_of(user), count_visit(user));
    const auto& [name, balance, counted] = all;  // a std::tuple
    static_cast<void>(counted);                  // std::monostate: that task has no value
    co_return name + " has " + std::to_string(balance);
  }
  // [/when_all]

  // [when_any]
  task<std::string> picture(std::vector<std::string> mirrors) {
    std::vector<task<std::string>> asked;
    for (const std::string& mirror : mirrors) asked.push_back(picture_at(mirror));
    auto [index, found] = co_await when_any(std::move(asked));  // the others have been cancelled, and have ended
    co_return found + " (mirror " + std::to_string(index) + ")";
  }
  // [/when_any]

  task<int> price_of(int article) {
    co_await sleep_for(pool.loop(0), article == 13 ? 10min : 1ms);
    co_return 10 * article;
  }
  task<int> stock_of(int article, std::size_t attempt) {
    co_await sleep_for(pool.loop(0), 1ms);
    if (article % 5 == 0 && attempt < 3) throw steps::Error("Busy");
    co_return article;
  }

  // [with_timeout]
  /// The price, or 0 if the shop has not answered in time. At most four requests are under way.
  task<int> quoted(int article) {
    try {
      co_return co_await sync(places, with_timeout(50ms, price_of(article)));
    } catch (const steps::Error& error) {
      if (error.code() != steps::errors::Timeout) throw;
    }
    co_return 0;
  }
  // [/with_timeout]

  // [retry]
  /// The number in stock. A shop that is busy is asked again after up to 1 ms, 2 ms, and 4 ms.
  task<int> in_stock(int article) {
    const auto patience = steps::Retry{.attempts = 4, .delay = 1ms}.on("Busy");
    co_return co_await retry(patience, [&](std::size_t attempt) { return stock_of(article, attempt); });
  }
  // [/retry]

  int visits = 0;
  steps::Semaphore places{4};
};

}  // namespace

int main() {
  async::threadpool pool;
  servers all{pool};
  steps::AsyncSteps flow{pool};
  flow.add(co([&](steps::IAsyncSteps& asi) -> task<std::string> {
    asi.setTimeout(1min);  // of all that is asked
    std::vector<std::string> mirrors{"far", "broken", "near"};
    const auto found = co_await when_all(all.page(7), all.picture(std::move(mirrors)));
    co_return std::get<0>(found) + ", " + std::get<1>(found);
  }));
  const std::string text = flow.promise<std::string>().get();
  std::printf("%s\n", text.c_str());

  flow.add(co([&](steps::IAsyncSteps&) -> task<int> {
    std::vector<task<int>> prices;
    for (int article = 1; article <= 20; ++article) prices.push_back(all.quoted(article));
    int sum = 0;
    for (const int price : co_await when_all(std::move(prices))) sum += price;
    sum += co_await all.in_stock(10);
    co_return sum;
  }));
  const int sum = flow.promise<int>().get();
  std::printf("twenty prices and what is in stock: %d\n", sum);
  const bool is_page = text == "u7 has 700, picture from near (mirror 2)" && all.visits == 1;
  return is_page && sum == 2'100 - 130 + 10 ? 0 : 1;
}
