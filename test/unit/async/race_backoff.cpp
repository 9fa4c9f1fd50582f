// SPDX-License-Identifier: BSL-1.0
#include "async/detail/queue/race_backoff.hpp"

#include <cstdint>  // for uint64_t

#include <doctest/doctest.h>

namespace {

template <int Case>
struct some_queue {};
template <int Case>
using race_backoff = async::detail::race_backoff<some_queue<Case>, 0>;

/// The pauses of a thread's waits after `races` lost ones, if others move the counter once in `pauses_each` pauses.
unsigned pauses_after(unsigned races, unsigned pauses, unsigned pauses_each) {
  for (; races != 0; --races) pauses = race_backoff<0>::next(pauses, pauses / pauses_each);
  return pauses;
}

}  // namespace

TEST_CASE("waits after lost races grow while others are fast, until they leave them a hundred elements or so") {
  CHECK(pauses_after(10, 8, 1) == 128);
  CHECK(pauses_after(10, 8, 2) == 256);
  CHECK(pauses_after(1'000, 8, 4) == 256);  // and no further
}

TEST_CASE("waits after lost races shrink when others are slow") {
  CHECK(pauses_after(1, 256, 10) == 128);
  CHECK(pauses_after(10, 256, 10) == 0);  // then it is the least that the queue asks for
}

TEST_CASE("waits after lost races shrink when others have had very many elements meanwhile") {
  CHECK(race_backoff<0>::next(256, 100'000) == 128);
}

TEST_CASE("a wait after a lost race returns the counter of its end") {
  std::uint64_t looks = 0;
  const auto look = [&looks] { return 10 * ++looks; };
  const auto position = [](std::uint64_t counter) { return counter / 10; };
  CHECK(race_backoff<1>::wait(0, 8, look, position) == 10);
  CHECK(race_backoff<1>::wait(10, 8, look, position) == 20);
  CHECK(looks == 2);
}
