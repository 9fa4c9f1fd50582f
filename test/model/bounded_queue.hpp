// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "relacy_runner.hpp"

// After the seam.
#include "async/bounded_queue.hpp"

/// Shared by the models of async::bounded_queue. Turns start just below their wrap.
namespace model {

template <unsigned Capacity>
struct wrapping : async::bounded_queue_traits {
  static constexpr std::uint64_t first_ticket = (std::uint64_t{1} << 30) - Capacity;
};
template <unsigned Capacity, class T = element>
using ring = async::bounded_queue<T, wrapping<Capacity>>;

/// An element whose move might throw, as the queue sees it: dequeues assign in the slot, and a bulk takes a run of
/// them.
struct staying : element {
  using element::element;
  staying() = default;
  staying(staying&& other) noexcept(false) : element(std::move(other)) {}
  staying& operator=(staying&&) noexcept = default;
};

/// The elements that came out, in order; one for each consumer.
struct basket {
  unsigned values[8] = {};
  unsigned count = 0;

  void put(const element& e) { values[count++] = e.value(); }
  unsigned sum() const {
    unsigned all = 0;
    for (unsigned i = 0; i < count; ++i) all += values[i];
    return all;
  }
  /// Those of one producer come in its order; an element is its producer's hundred plus its number.
  void check_order() const {
    for (unsigned i = 0; i < count; ++i) {
      for (unsigned k = i + 1; k < count; ++k) {
        model::check(values[i] / 100 != values[k] / 100 || values[i] < values[k],
                     "a producer's elements stay in order");
      }
    }
  }
};

bool take(auto& queue, basket& into) {
  element e;
  if (!queue.dequeue(e)) return false;
  into.put(e);
  return true;
}

bool wait_and_take(auto& queue, basket& into) {
  element e;
  if (!queue.blocking_dequeue(e)) return false;
  into.put(e);
  return true;
}

}  // namespace model
