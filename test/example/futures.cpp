// SPDX-License-Identifier: BSL-1.0
//
// async::future: results of calls in a pool, continued, combined and cancelled.
#include <cstdio>
#include <future>
#include <stop_token>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "steps/steps.hpp"

namespace {

int snippets = 0, failures = 0;
void expect(bool condition, const char* what) {
  ++snippets;
  if (condition) return;
  std::printf("wrong: %s\n", what);
  ++failures;
}

std::string fetch(const std::string& name) { return "<" + name + ">"; }

void then(async::threadpool& pool) {
  // [then]
  async::future<std::string> page = pool.post(fetch, "index");
  async::future<std::size_t> length =
      std::move(page).then([](async::future<std::string> ready) { return ready.get().size(); });
  // [/then]
  expect(length.get() == 7, "then");
}

void all(async::threadpool& pool) {
  // [when_all]
  std::vector<async::future<std::string>> pages;
  for (const char* name : {"a", "b", "c"}) pages.push_back(pool.post(fetch, name));

  async::future<std::string> book =
      async::when_all(std::move(pages)).then(pool, [](async::future<std::vector<async::future<std::string>>> ready) {
        std::string text;
        for (auto& page : ready.get()) text += page.get();  // never waits: all are ready
        return text;
      });
  // [/when_all]
  expect(book.get() == "<a><b><c>", "when_all");
}

void any(async::threadpool& pool) {
  // [when_any]
  auto first = async::when_any(pool.post(fetch, "near"), pool.post(fetch, "far")).get();
  const std::string answer = first.index == 0 ? std::get<0>(first.futures).get() : std::get<1>(first.futures).get();
  if (first.index == 0) std::get<1>(first.futures).cancel();
  // [/when_any]
  expect(answer.size() > 4, "when_any");
}

void cancel(async::threadpool& pool) {
#if defined(__cpp_lib_jthread)
  // [cancel]
  async::future<int> search = pool.post([](std::stop_token stop) {  // a first parameter of this type gets a token
    int rounds = 0;
    while (!stop.stop_requested()) ++rounds;
    return rounds;
  });
  const bool dropped = search.cancel();  // true: the call had not begun, and will not
  // [/cancel]
  try {
    expect(search.get() >= 0 && !dropped, "cancel");
  } catch (const std::future_error&) {
    expect(dropped, "cancel");
  }
#else
  static_cast<void>(pool);
#endif
}

void own() {
  // [promise]
  async::promise<std::string> promise;
  async::future<std::string> line = promise.get_future();
  promise.set_value("from a callback of another library");
  std::future<std::string> standard = std::move(line);  // for code that takes a std::future; and back:
  async::future<std::string> again(std::move(standard));
  // [/promise]
  expect(again.get().size() == 34, "promise");
}

void step(async::threadpool& pool) {
  // [await]
  auto done = steps::post<std::size_t>(pool, [&pool](steps::IAsyncSteps& asi) {
    asi.await(async::when_all(pool.post(fetch, "head"), pool.post(fetch, "body")));
    asi.add([](steps::IAsyncSteps& inner, std::tuple<async::future<std::string>, async::future<std::string>>&& both) {
      inner.success(std::get<0>(both).get().size() + std::get<1>(both).get().size());
    });
  });
  // [/await]
  expect(done.get() == 12, "await");
}

}  // namespace

int main() {
  async::threadpool pool(2);
  then(pool);
  all(pool);
  any(pool);
  cancel(pool);
  own();
  step(pool);
  std::printf("%d of %d snippets do what they show\n", snippets - failures, snippets);
  return failures == 0 ? 0 : 1;
}
