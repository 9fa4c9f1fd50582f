// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <cstddef>

#include "steps/steps.hpp"
#include "support/flows.hpp"

// Steps that do not fit into a flow's block lie in chunks. When a level ends, one chunk stays for the next.

namespace detail = steps::detail;
using detail::flow;
using detail::has_spare_chunk;
using steps::IAsyncSteps;
using testing::bench;

namespace {

/// A flow with `count` records in chunks of their own.
struct flow_with_chunks {
  explicit flow_with_chunks(int count) {
    while (count-- != 0) add();
  }
  ~flow_with_chunks() { detail::pooled_flow::give_up(f); }

  void add(std::size_t size = record_size) {
    last = static_cast<std::byte*>(detail::allocate(f, size));
    ::new (static_cast<void*>(last)) detail::record{static_cast<std::uint32_t>(size), 0, 0};
  }
  std::size_t chunks() const {
    std::size_t count = 0;
    for (const detail::chunk* c = f.chunks; c != nullptr; c = c->older) ++count;
    return count;
  }

  static constexpr std::size_t record_size = detail::chunk_size - detail::chunk_head - detail::jump_size;
  async::event_loop loop;
  flow& f = *detail::pooled_flow::make(&async::detail::core_of(loop));
  std::byte* last = nullptr;
};

}  // namespace

TEST_CASE("a chunk that has become empty is used again") {
  flow_with_chunks some(1);
  const void* const memory = some.last;
  for (int round = 0; round < 3; ++round) {
    CHECK(!has_spare_chunk(some.f));
    detail::set_top(some.f, detail::arena_of(some.f));
    CHECK(has_spare_chunk(some.f));
    some.add();
    CHECK(some.last == memory);
    CHECK(some.chunks() == 1);
  }
}

TEST_CASE("of several chunks that become empty one stays, the oldest") {
  flow_with_chunks some(1);
  const void* const memory = some.last;
  some.add();
  some.add();
  CHECK(some.chunks() == 3);
  detail::set_top(some.f, detail::arena_of(some.f));
  CHECK(some.chunks() == 1);
  some.add();
  CHECK(some.last == memory);
}

TEST_CASE("a chunk that becomes empty takes the place of the spare one behind it") {
  flow_with_chunks some(1);
  const void* const memory = some.last;
  std::byte* const in_first = some.last + flow_with_chunks::record_size;
  some.add();
  detail::set_top(some.f, in_first);
  CHECK(has_spare_chunk(some.f));
  CHECK(some.chunks() == 2);
  detail::set_top(some.f, in_first);  // still in the first one: nothing changes
  CHECK(some.chunks() == 2);
  detail::set_top(some.f, detail::arena_of(some.f));
  CHECK(has_spare_chunk(some.f));
  CHECK(some.chunks() == 1);
  some.add();
  CHECK(some.last == memory);
}

TEST_CASE("a record that does not fit into the spare chunk gets a larger one instead") {
  flow_with_chunks some(1);
  detail::set_top(some.f, detail::arena_of(some.f));
  some.add(2 * detail::chunk_size);
  CHECK(some.chunks() == 1);
  CHECK(some.f.chunks->size >= 2 * detail::chunk_size);
  some.add();
  CHECK(some.chunks() == 2);
}

TEST_CASE("steps behind a spare chunk are found") {
  bench b;
  steps::AsyncSteps root(b.loop);
  int sum = 0;
  int spare = 0;
  root.repeat(5, [&](IAsyncSteps& asi, std::size_t i) {
    spare += has_spare_chunk(*asi.flow_) ? 1 : 0;
    for (int n = 0; n < 20; ++n) asi.add([&sum, n](IAsyncSteps&) { sum += n; });
    if (i == 2) asi.add([](IAsyncSteps& inner) { inner.relinquish(); });
  });
  root.execute();
  b.drain();
  CHECK(sum == 5 * 190);
  CHECK(spare == 4);
}

TEST_CASE("a flow that waits or has ended keeps no spare chunk") {
  struct {
    bench b;
    steps::AsyncSteps root{b.loop};
    const flow* f = nullptr;
    steps::completion<> token;
  } t;
  const auto many = [&t](IAsyncSteps& asi) {
    t.f = asi.flow_;
    for (int n = 0; n < 20; ++n) asi.add([](IAsyncSteps&) {});
    CHECK(t.f->chunks != nullptr);
  };
  t.root.add(many);
  SUBCASE("waits") {
    t.root.add([&t](IAsyncSteps& asi) {
      CHECK(has_spare_chunk(*t.f));
      t.token = asi.completion();
    });
  }
  SUBCASE("has ended") {}
  t.root.execute();
  t.b.drain();
  REQUIRE(t.f != nullptr);
  CHECK(t.f->chunks == nullptr);
  static_cast<void>(t.token.success());
  t.b.drain();
  CHECK(t.f->chunks == nullptr);
}
