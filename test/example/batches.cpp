// SPDX-License-Identifier: BSL-1.0
//
// A journal that stores records in batches, as databases do: one write for many. A batch is stored when it is full, or
// 2 ms after its first record has come. Threads, flows and coroutines write records, and learn when theirs is safe.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/steps.hpp"

using namespace std::chrono_literals;
using steps::IAsyncSteps;
using steps::interop::start;
using steps::interop::task;

namespace {

struct record {
  int value = 0;
  async::promise<std::size_t> stored;  // with the number of the batch
};

/// The disk: a function that blocks.
struct disk {
  std::size_t store(const std::vector<record>& batch) {
    std::this_thread::sleep_for(1ms);
    if (is_full) throw std::runtime_error("the disk is full");
    for (const record& each : batch) sum += each.value;
    largest = batch.size() > largest ? batch.size() : largest;
    return ++batches;
  }
  long sum = 0;
  std::size_t batches = 0, largest = 0;
  bool is_full = false;
};

// [batches]
task<> keep(async::bounded_queue<record>& records, disk& d, async::blocking_pool& pool) {
  constexpr std::size_t full = 200;
  std::vector<record> batch;
  while (std::optional<record> first = co_await records.pop()) {  // until the queue is closed and empty
    batch.push_back(*std::move(first));
    bool is_open = true;
    const auto add = [&batch](record r) { batch.push_back(std::move(r)); };
    const auto close = [&is_open] { is_open = false; };
    const auto due = std::chrono::steady_clock::now() + 2ms;
    while (is_open && batch.size() < full) {
      co_await async::selection(async::on_pop(records, add, close),
                                async::after(due - std::chrono::steady_clock::now(), close));
    }
    try {
      const std::size_t number = co_await pool.post([&d, &batch] { return d.store(batch); });
      for (record& each : batch) each.stored.set_value(number);  // those who wait for it go on
    } catch (...) {
      for (record& each : batch) each.stored.set_exception(std::current_exception());
    }
    batch.clear();
  }
}
// [/batches]

using journal = async::bounded_queue<record>;

/// Writes a record, from a flow; the next step gets the number of its batch.
void write(IAsyncSteps& asi, journal& to, int value) {
  record r{value, {}};
  auto stored = r.stored.get_future();
  asi.enqueue(to, std::move(r));  // waits while the queue is full
  asi.await(std::move(stored));
}

task<std::size_t> write(journal& to, int value) {
  record r{value, {}};
  auto stored = r.stored.get_future();
  co_await to.push(std::move(r));
  co_return co_await std::move(stored);
}

/// In a thread, or a task of a pool.
std::size_t write_and_wait(journal& to, int value) {
  record r{value, {}};
  auto stored = r.stored.get_future();
  to.blocking_enqueue(std::move(r));
  return stored.get();
}

}  // namespace

int main() {
  constexpr int flows = 2'000, coroutines = 2'000, threads = 4, of_each = 10, of_thread = 50;
  async::threadpool pool;
  async::blocking_pool disks({.max_threads = 1});
  journal to(1'000);
  disk d;
  auto kept = start(keep(to, d, disks));

  std::atomic<int> safe{0};
  async::future_group writers;
  for (int i = 0; i != flows; ++i) {
    writers.add(steps::post(pool, [&](IAsyncSteps& asi) {
      asi.repeat(of_each, [&](IAsyncSteps& round, std::size_t) {
        write(round, to, 1);
        round.add([&safe](IAsyncSteps&, std::size_t) { ++safe; });
      });
    }));
  }
  const auto write_some = [&]() -> task<> {
    for (int n = 0; n != of_each; ++n) safe += co_await write(to, 1) != 0 ? 1 : 0;
  };
  for (int i = 0; i != coroutines; ++i) writers.add(start(write_some()));
  std::vector<std::thread> sleepers;
  for (int i = 0; i != threads; ++i) {
    sleepers.emplace_back([&] {
      for (int n = 0; n != of_thread; ++n) safe += write_and_wait(to, 1) != 0 ? 1 : 0;
    });
  }
  for (std::thread& each : sleepers) each.join();
  writers.when_empty().get();

  d.is_full = true;
  int refused = 0;
  for (int i = 0; i != 2; ++i) {
    try {
      write_and_wait(to, 1);
    } catch (const std::runtime_error&) {
      ++refused;
    }
  }
  to.close();
  kept.get();

  constexpr int all = (flows + coroutines) * of_each + threads * of_thread;
  std::printf("%ld of %d records in %zu batches, the largest of %zu\n", d.sum, all, d.batches, d.largest);
  return d.sum == all && safe == all && refused == 2 && d.largest <= 200 &&
                 d.batches < static_cast<std::size_t>(all) / 20
             ? 0
             : 1;
}
