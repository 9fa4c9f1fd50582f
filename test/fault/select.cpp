// SPDX-License-Identifier: BSL-1.0
//
// Without memory for its wait, async::select() throws and has done nothing.
#include "async/select.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <new>
#include <string>
#include <utility>

#include "async/bounded_queue.hpp"
#include "async/future.hpp"
#include "async/queue.hpp"
#include "support/alloc_counter.hpp"

namespace {

/// More cases than fit into a recycled block.
struct many {
  std::array<async::queue<int>, 40> queues;
  async::bounded_queue<std::string> full{1};
  async::promise<int> promise;
  async::future<int> result = promise.get_future();
  std::string item = "a text that is too long to be kept inside of a string";
  int calls = 0;

  many() { full.enqueue("first"); }
  std::size_t select() { return select_all(std::make_index_sequence<40>()); }

 private:
  template <std::size_t... I>
  std::size_t select_all(std::index_sequence<I...>) {
    const auto count = [this](auto&&...) { ++calls; };
    return select_or_sleep(async::on_pop(queues[I], count)..., async::on_push(full, std::move(item), count),
                           async::on_ready(result, count));
  }
  /// As async::select(), but an element comes as soon as it sleeps.
  template <class... Cases>
  std::size_t select_or_sleep(Cases&&... cases) {
    async::detail::selection<Cases...> all(cases...);
    const std::size_t found = all.wait([this](auto&, const auto*) { queues[7].enqueue(1); });
    all.finish(found, async::detail::thread_call());
    return found;
  }
};

}  // namespace

TEST_CASE("every allocation of select() fails once: nothing was taken, no handler was called, and the queues go on") {
  many all;
  std::size_t failures = 0;
  for (std::size_t k = 0;; ++k) {
    testing::fail_alloc failing(k);
    bool has_thrown = false;
    try {
      const std::size_t found = all.select();
      CHECK(found == 7);
    } catch (const std::bad_alloc&) {
      has_thrown = true;
    }
    failing.stop();
    CHECK(has_thrown == failing.has_failed());
    if (!has_thrown) break;
    ++failures;
    CHECK(all.item.size() > 40);
    CHECK(all.calls == 0);
  }
  CHECK(failures != 0);
  CHECK(all.calls == 1);
  all.full.dequeue();
  CHECK(all.select() == 40);
  all.promise.set_value(1);
  CHECK(all.select() == 41);
  std::printf("count: %zu failed allocations\n", failures);
}
