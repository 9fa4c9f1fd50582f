// SPDX-License-Identifier: BSL-1.0
//
// async::async in the place of std::async: the same calls, on the shared pool.
#include <cstdio>
#include <future>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "async/async.hpp"

namespace {

int snippets = 0, failures = 0;
void expect(bool condition, const char* what) {
  ++snippets;
  if (condition) return;
  std::printf("wrong: %s\n", what);
  ++failures;
}

struct account {
  int balance = 100;
  int deposit(int amount) { return balance += amount; }
};

void calls() {
  // [calls]
  account mine;
  std::future<int> balance = async::async(&account::deposit, &mine, 20);                       // a member function
  std::future<int> owned = async::async([](auto p) { return *p; }, std::make_unique<int>(7));  // a move-only argument
  std::future<void> lazy = async::async(std::launch::deferred, [] { std::puts("called by get()"); });
  // [/calls]
  expect(balance.get() == 120 && owned.get() == 7, "calls");
  lazy.get();
}

// [recursion]
// Calls that wait for calls: with one thread each, as std::async makes them, a million of these end in an error.
// Here get() makes the call that it waits for, if no thread has taken it, so that any depth works on any number of
// threads.
long sum(const int* first, const int* last) {
  if (last - first < 1'000) return std::accumulate(first, last, 0L);
  const int* const middle = first + (last - first) / 2;
  std::future<long> right = async::async(sum, middle, last);
  const long left = sum(first, middle);
  return left + right.get();
}
// [/recursion]

void scopes() {
  const std::string text = "of a function that waits for nobody";
  std::size_t length = 0;
  {
    // [scope]
    std::future<void> counted = async::async([&] { length = text.size(); });
    // [/scope]
  }  // waits here
  expect(length == text.size(), "scope");
}

}  // namespace

int main() {
  calls();
  scopes();
  const std::vector<int> numbers(1'000'000, 1);
  expect(sum(numbers.data(), numbers.data() + numbers.size()) == 1'000'000, "recursion");
  std::printf("%d of %d snippets do what they show\n", snippets - failures, snippets);
  return failures == 0 ? 0 : 1;
}
