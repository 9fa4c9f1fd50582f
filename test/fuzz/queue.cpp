// SPDX-License-Identifier: BSL-1.0
// Calls of one thread to a queue and a bounded queue, compared with std::deque.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "async/bounded_queue.hpp"
#include "async/queue.hpp"
#include "support/fuzz.hpp"

using testing::demand;

namespace {

/// Owns memory, so that a lost or doubled one is a leak or a double free, and throws on demand.
struct element {
  explicit element(unsigned number) : value(std::make_unique<unsigned>(number)) {
    if (number == bad) throw number;
  }
  element(element&&) noexcept = default;
  element& operator=(element&&) noexcept = default;
  static constexpr unsigned bad = 13;
  std::unique_ptr<unsigned> value;
};

struct small : async::queue_traits {
  static constexpr std::size_t segment_bytes = 512;
  static constexpr unsigned version_bits = 20, index_bits = 10, slot_bits = 12;
};
using unbounded = async::queue<element, small>;
using bounded = async::bounded_queue<element>;

template <class Queue>
class comparison {
 public:
  template <class... Args>
  explicit comparison(std::size_t capacity, Args... args) : capacity_(capacity), queue_(args...) {}

  void act(unsigned action, testing::fuzz_input& input) {
    switch (action) {
      case 0:
        return enqueue();
      case 1:
        return dequeue();
      case 2:
        return bulk_enqueue(input.byte());
      case 3:
        return bulk_dequeue(input.byte());
      case 4:
        demand(queue_.approx_size() >= wanted_.size() && (!exact_ || queue_.approx_size() == wanted_.size()),
               "approx_size() is exact when nobody else is there and no constructor has thrown");
        demand(queue_.empty() == (queue_.approx_size() == 0), "a queue of size 0 is empty");
        return;
      case 5:
        for (unsigned i = 0; i < 64; ++i) enqueue();
        return;
      case 6:
        if constexpr (is_bounded) {
          close();
        } else {
          queue_.trim();
        }
        return;
      default:
        if (!is_bounded && input.below(64) == 0) return close();
        element got(0U);
        const bool found = queue_.dequeue_for(got, std::chrono::seconds(0));
        return take(found ? std::optional<element>(std::move(got)) : std::nullopt);
    }
  }

  void drain() {
    while (!wanted_.empty()) dequeue();
    dequeue();
  }

 private:
  static constexpr bool is_bounded = requires(Queue& q) { q.capacity(); };

  void close() {
    queue_.close();
    closed_ = true;
    demand(queue_.is_closed(), "a queue that was closed is closed");
  }
  bool has_room() const { return !closed_ && wanted_.size() < capacity_; }
  unsigned next() { return number_ = (number_ + 1) % 251; }

  void enqueue() {
    const bool room = has_room();
    const unsigned number = next();
    bool in = true;
    try {
      in = queue_.enqueue(number);
    } catch (unsigned thrown) {
      demand(room && thrown == element::bad && number == element::bad, "only what a constructor throws comes out");
      return note_throw();
    }
    demand(in == room, "enqueue fails only when the queue is full or closed");
    if (in) {
      demand(number != element::bad, "what a constructor throws comes out");
      wanted_.push_back(number);
    }
  }

  void dequeue() { take(queue_.dequeue()); }
  void take(std::optional<element> got) {
    demand(got.has_value() != wanted_.empty(), "dequeue finds an element when there is one");
    if (got) return take(*got);
    exact_ = true;
  }
  void take(const element& got) {
    demand(!wanted_.empty() && *got.value == wanted_.front(), "elements come in the order that they went in");
    wanted_.pop_front();
  }

  /// Places whose constructor has thrown: a bounded queue gives them back at once, an unbounded one when a dequeue
  /// comes by.
  void note_throw() { exact_ = exact_ && is_bounded; }

  void bulk_enqueue(unsigned count) {
    std::array<unsigned, 256> numbers{};
    for (unsigned i = 0; i < count; ++i) numbers[i] = next();
    const std::size_t fit = closed_ ? 0 : (std::min<std::size_t>)(count, capacity_ - wanted_.size());
    const auto* const bad = std::find(numbers.data(), numbers.data() + fit, element::bad);
    const auto good = static_cast<std::size_t>(bad - numbers.data());
    std::size_t in = count;
    bool thrown = false;
    try {
      in = queue_.bulk_enqueue(numbers.begin(), count);
    } catch (unsigned) {
      thrown = true;
    }
    demand(thrown == (good != fit), "what a constructor throws comes out of a bulk");
    demand(thrown || in == fit, "a bulk takes what there is room for");
    for (std::size_t i = 0; i < good; ++i) wanted_.push_back(numbers[i]);
    if (thrown) note_throw();
  }

  void bulk_dequeue(unsigned most) {
    std::vector<element> out;
    const std::size_t got = queue_.bulk_dequeue(std::back_inserter(out), most);
    demand(got == out.size() && got <= most, "a bulk counts what it takes");
    for (const element& each : out) take(each);
    demand(got == most || wanted_.empty(), "a bulk takes all that is there");
  }

  const std::size_t capacity_;
  bool closed_ = false;
  bool exact_ = true;
  unsigned number_ = 0;
  std::deque<unsigned> wanted_;
  Queue queue_;
};

template <class Comparison>
void play(Comparison& pair, testing::fuzz_input input) {
  for (unsigned steps = 0; !input.empty() && steps < 2000; ++steps) pair.act(input.below(8), input);
  pair.drain();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  testing::fuzz_input input(data, size);
  const std::size_t capacity = std::size_t{1} << input.below(8);
  comparison<unbounded> one(static_cast<std::size_t>(-1));
  play(one, input);
  comparison<bounded> other(capacity, capacity);
  play(other, input);
  return 0;
}
