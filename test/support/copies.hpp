// SPDX-License-Identifier: BSL-1.0
//
// Counts how often an entry point copies and moves what it is given.
#pragma once
#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <string>
#include <utility>

#include "steps/iasyncsteps.hpp"

#define FORWARD(x) std::forward<decltype(x)>(x)

namespace testing {

struct copy_tally {
  std::atomic<int> copies{0};
  std::atomic<int> moves{0};
  std::atomic<int> calls{0};
};

/// A callable, or an argument, that counts its copies, its moves and its calls.
template <std::size_t Bytes>
class copy_counter {
 public:
  explicit copy_counter(copy_tally& t) noexcept : tally_(&t) {}
  copy_counter(const copy_counter& other) noexcept : tally_(other.tally_) { ++tally_->copies; }
  copy_counter(copy_counter&& other) noexcept : tally_(other.tally_) { ++tally_->moves; }
  copy_counter& operator=(const copy_counter&) = delete;
  ~copy_counter() = default;

  template <class... A>
  void operator()(A&&...) const {
    ++tally_->calls;
  }

 private:
  copy_tally* tally_;
  char room_[Bytes] = {};
};
using small = copy_counter<8>;
using large = copy_counter<256>;  // does not fit in a task

/// The same as a step, the body of a loop, an error handler, and a part of a reduction.
class counting_step : public small {
 public:
  using small::small;
  void operator()(steps::IAsyncSteps&) const { small::operator()(); }
};
class counting_loop : public small {
 public:
  using small::small;
  void operator()(steps::IAsyncSteps& asi) const {
    small::operator()();
    asi.breakLoop();
  }
};
class counting_handler : public small {
 public:
  using small::small;
  void operator()(steps::IAsyncSteps& asi, steps::ErrorCode) const {
    small::operator()();
    asi.success();
  }
};
class counting_sum : public small {
 public:
  using small::small;
  int operator()(int a, int b) const {
    small::operator()();
    return a + b;
  }
};

/// Calls entry(object) with an lvalue and with an rvalue. The rvalue is moved so often and never copied; of the lvalue
/// a copy is made in place of the first move. 0 moves: the object is used where it is.
template <class Object = small, class Entry>
void check_copies(const char* name, int moves, Entry entry) {
  INFO(std::string(name), ", ", sizeof(Object), " bytes");
  copy_tally of_lvalue;
  copy_tally of_rvalue;
  {
    Object object(of_lvalue);
    entry(object);
    Object given_away(of_rvalue);
    entry(std::move(given_away));
  }
  CHECK(of_lvalue.copies == (moves == 0 ? 0 : 1));
  CHECK(of_lvalue.moves == (moves == 0 ? 0 : moves - 1));
  CHECK(of_lvalue.calls > 0);
  CHECK(of_rvalue.copies == 0);
  CHECK(of_rvalue.moves == moves);
  CHECK(of_rvalue.calls > 0);
}
/// The same with a callable that fits in a task, and with one that does not, which is moved once.
template <class Entry>
void check_both_sizes(const char* name, int moves_of_small, Entry entry) {
  check_copies<small>(name, moves_of_small, entry);
  check_copies<large>(name, 1, entry);
}

}  // namespace testing
