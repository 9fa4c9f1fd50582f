// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>  // for min
#include <array>      // for array
#include <atomic>     // for atomic
#include <concepts>   // for convertible_to
#include <cstddef>    // for size_t
#include <cstdint>    // for uint64_t
#include <memory>     // for make_unique
#include <string>     // for string
#include <vector>     // for vector

#include "curves.hpp"     // for rounds_of
#include "harness.hpp"    // for plan, sample
#include "machine.hpp"    // for run_together, patience
#include "quantiles.hpp"  // for note_quantiles

/// The queue workloads, for any adapter:
///
///   struct adapter {                        // made anew for each sample
///     bool enqueue(std::uint64_t);          // false: full
///     bool dequeue(std::uint64_t&);         // false: empty
///     std::size_t enqueue_bulk(const std::uint64_t*, std::size_t);   // optional, both; return the number moved
///     std::size_t dequeue_bulk(std::uint64_t*, std::size_t);
///     void wait_enqueue(std::uint64_t);  std::uint64_t wait_dequeue();   // optional, both; block while full or empty
///     void trim();                          // optional: returns unused memory
///     struct producer; struct consumer;     // optional: have these calls instead; each thread makes one of adapter&
///   };
///
/// Every element that goes in must come out once. Counts and sums are compared after each sample; a queue that loses or
/// repeats elements is reported as defective.
namespace bench {

template <class Q>
struct ends_of {
  using producer = Q&;
  using consumer = Q&;
};
template <class Q>
  requires requires { typename Q::producer; }
struct ends_of<Q> {
  using producer = typename Q::producer;
  using consumer = typename Q::consumer;
};

template <class Q>
concept has_bulk = requires(typename ends_of<Q>::producer p, typename ends_of<Q>::consumer c, std::uint64_t* v) {
  { p.enqueue_bulk(v, 1) } -> std::convertible_to<std::size_t>;
  { c.dequeue_bulk(v, 1) } -> std::convertible_to<std::size_t>;
};
template <class Q>
concept can_wait = requires(Q& q) {
  q.wait_enqueue(1);
  q.wait_dequeue();
};

/// Count and sum of the elements that went in, or came out.
struct ledger {
  std::uint64_t count = 0, sum = 0;
  void note(std::uint64_t value) noexcept {
    ++count;
    sum += value;
  }
  ledger& operator+=(const ledger& other) noexcept {
    count += other.count;
    sum += other.sum;
    return *this;
  }
  bool operator==(const ledger&) const = default;
};

inline std::string defect_of(const ledger& in, const ledger& out) {
  if (in == out) return "";
  if (in.count == out.count) return "elements changed: " + std::to_string(in.count) + " in and out, sums differ";
  return std::to_string(in.count) + " elements in, " + std::to_string(out.count) + " out";
}

inline constexpr std::size_t bulk_size = 32;

/// One phase of traffic through a queue: each producer sends its share, consumers take elements until none are left.
template <class Q>
class traffic {
 public:
  enum class kind { single, bulk, waiting };

  traffic(Q& queue, std::size_t producers, std::size_t consumers, std::size_t items, kind how)
      : queue_(queue),
        producing_(producers),
        share_(items / producers),
        producers_(producers),
        consumers_(consumers),
        how_(how),
        in_(producers),
        out_(consumers) {}

  /// The part of thread i. Producers come first, then consumers.
  void run(std::size_t i) {
    if (i < producers_) {
      produce(i);
      producing_.fetch_sub(1, std::memory_order_release);
    } else {
      consume(i - producers_);
    }
  }

  ledger in() const { return total(in_); }
  ledger out() const { return total(out_); }

 private:
  struct alignas(128) padded : ledger {};
  static ledger total(const std::vector<padded>& parts) {
    ledger sum;
    for (const padded& part : parts) sum += part;
    return sum;
  }

  void produce(std::size_t i) {
    typename ends_of<Q>::producer end(queue_);
    const std::uint64_t first = i * share_ + 1, last = first + share_;
    ledger sent;
    patience full;
    if (how_ == kind::bulk) {
      if constexpr (has_bulk<Q>) {
        std::array<std::uint64_t, bulk_size> batch;
        for (std::uint64_t next = first; next < last;) {
          const std::size_t wanted = (std::min)(bulk_size, static_cast<std::size_t>(last - next));
          for (std::size_t k = 0; k < wanted; ++k) batch[k] = next + k;
          const std::size_t taken = end.enqueue_bulk(batch.data(), wanted);
          for (std::size_t k = 0; k < taken; ++k) sent.note(batch[k]);
          if (taken == 0) full.lost();
          next += taken;
        }
      }
    } else if (how_ == kind::waiting) {
      if constexpr (can_wait<Q>) {
        for (std::uint64_t next = first; next < last; ++next) {
          queue_.wait_enqueue(next);
          sent.note(next);
        }
      }
    } else {
      for (std::uint64_t next = first; next < last; ++next) {
        while (!end.enqueue(next)) full.lost();
        sent.note(next);
      }
    }
    static_cast<ledger&>(in_[i]) = sent;
  }

  void consume(std::size_t i) {
    typename ends_of<Q>::consumer end(queue_);
    ledger got;
    patience empty;
    if (how_ == kind::waiting) {
      if constexpr (can_wait<Q>) {
        const std::size_t all = share_ * producers_;
        const std::size_t mine = all / consumers_ + (i < all % consumers_ ? 1 : 0);
        for (std::size_t k = 0; k < mine; ++k) got.note(queue_.wait_dequeue());
      }
    } else {
      for (;;) {
        const bool last_look = producing_.load(std::memory_order_acquire) == 0;
        std::size_t taken = 0;
        if (how_ == kind::bulk) {
          if constexpr (has_bulk<Q>) {
            std::array<std::uint64_t, bulk_size> batch;
            while ((taken = end.dequeue_bulk(batch.data(), bulk_size)) != 0) {
              for (std::size_t k = 0; k < taken; ++k) got.note(batch[k]);
            }
          }
        } else {
          std::uint64_t value = 0;
          while (end.dequeue(value)) got.note(value);
        }
        if (last_look) break;
        empty.lost();
      }
    }
    static_cast<ledger&>(out_[i]) = got;
  }

  Q& queue_;
  alignas(128) std::atomic<std::size_t> producing_;  // read only by consumers that found the queue empty
  alignas(128) const std::size_t share_, producers_, consumers_;
  const kind how_;
  std::vector<padded> in_, out_;
};

/// Traffic of `producers` and `consumers`. A quarter as much comes first, as a warm-up.
template <class Q>
sample measure_traffic(std::size_t producers, std::size_t consumers, std::size_t items,
                       typename traffic<Q>::kind how = traffic<Q>::kind::single) {
  const auto queue = std::make_unique<Q>();
  traffic<Q> warm(*queue, producers, consumers, items / 4, how), measured(*queue, producers, consumers, items, how);
  sample result;
  result.time =
      run_together(producers + consumers, [&](std::size_t i) { warm.run(i); }, [&](std::size_t i) { measured.run(i); });
  ledger in = warm.in(), out = warm.out();
  in += measured.in();
  out += measured.out();
  typename ends_of<Q>::consumer rest(*queue);  // a queue may report empty while other threads take from it
  for (std::uint64_t value = 0; rest.dequeue(value);) out.note(value);
  result.defect = defect_of(in, out);
  return result;
}

/// One thread puts an element in and takes one out, again and again.
template <class Q>
sample measure_pair(std::size_t items) {
  const auto queue = std::make_unique<Q>();
  ledger in, out;
  sample result;
  const auto pairs = [&](std::size_t count) {
    typename ends_of<Q>::producer p(*queue);
    typename ends_of<Q>::consumer c(*queue);
    for (std::uint64_t i = 1; i <= count; ++i) {
      if (p.enqueue(i)) in.note(i);
      std::uint64_t value = 0;
      if (c.dequeue(value)) out.note(value);
    }
  };
  result.time = run_together(1, [&](std::size_t) { pairs(items / 4); }, [&](std::size_t) { pairs(items); });
  result.defect = defect_of(in, out);
  return result;
}

/// One thread polls an empty queue.
template <class Q>
sample measure_empty(std::size_t items) {
  const auto queue = std::make_unique<Q>();
  std::size_t found = 0;
  sample result;
  const auto polls = [&](std::size_t count) {
    typename ends_of<Q>::consumer c(*queue);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < count; ++i) found += c.dequeue(value) ? 1 : 0;
  };
  result.time = run_together(1, [&](std::size_t) { polls(items / 4); }, [&](std::size_t) { polls(items); });
  if (found != 0) result.defect = "found an element in an empty queue";
  return result;
}

/// Two threads and two queues: an element goes there and back.
template <class Q>
sample measure_round_trip(std::size_t items) {
  const auto there = std::make_unique<Q>(), back = std::make_unique<Q>();
  std::vector<double> trips(items);
  std::uint64_t wrong = 0;
  const auto play = [&](std::size_t side) {
    typename ends_of<Q>::producer out(side == 0 ? *there : *back);
    typename ends_of<Q>::consumer in(side == 0 ? *back : *there);
    const bool alone = processors() < 2;
    std::uint64_t value = 0;
    const auto receive = [&] {
      while (!in.dequeue(value)) {
        if (alone) std::this_thread::yield();
      }
    };
    wall_clock::time_point last = wall_clock::now();
    for (std::uint64_t i = 1; i <= items; ++i) {
      if (side == 1) receive();
      while (!out.enqueue(i)) {
      }
      if (side == 0) receive();
      wrong += side == 0 && value != i ? 1 : 0;
      const wall_clock::time_point now = wall_clock::now();
      if (side == 0) trips[i - 1] = nanoseconds(now - last).count();
      last = now;
    }
  };
  run_together(2, [](std::size_t) {}, play);
  sample result;
  note_quantiles(result, trips);
  if (wrong != 0) result.defect = "echoed wrong elements";
  return result;
}

/// Resident memory of a backlog; noted again when it is drained, and after trim().
template <class Q>
sample measure_memory(std::size_t items) {
  const std::size_t before = resident_bytes();
  const auto queue = std::make_unique<Q>();
  const auto megabytes = [before] {
    const std::size_t after = resident_bytes();
    return after > before ? static_cast<double>(after - before) * 1e-6 : 0.0;
  };
  sample result;
  ledger in, out;
  {
    typename ends_of<Q>::producer p(*queue);
    for (std::uint64_t i = 1; i <= items; ++i) {
      if (p.enqueue(i)) in.note(i);
    }
  }
  result.figures["value"] = megabytes() * 1e6 / static_cast<double>(items);
  {
    typename ends_of<Q>::consumer c(*queue);
    for (std::uint64_t value = 0; c.dequeue(value);) out.note(value);
  }
  result.figures["MB when drained"] = megabytes();
  if constexpr (requires { queue->trim(); }) {
    queue->trim();
    result.figures["MB after trim"] = megabytes();
  }
  result.defect = defect_of(in, out);
  return result;
}

/// One thread puts `elements` elements in and then takes them all out, round after round.
template <class Q>
sample measure_growth(std::size_t elements, std::size_t rounds) {
  const auto queue = std::make_unique<Q>();
  ledger in, out;
  const auto fill_and_drain = [&](std::size_t times) {
    typename ends_of<Q>::producer p(*queue);
    typename ends_of<Q>::consumer c(*queue);
    for (std::size_t r = 0; r < times; ++r) {
      for (std::uint64_t i = 1; i <= elements; ++i) {
        if (p.enqueue(i)) in.note(i);
      }
      for (std::uint64_t value = 0; c.dequeue(value);) out.note(value);
    }
  };
  sample result;
  result.time = run_together(
      1, [&](std::size_t) { fill_and_drain((rounds + 3) / 4); }, [&](std::size_t) { fill_and_drain(rounds); });
  result.defect = defect_of(in, out);
  return result;
}

/// Adds an adapter to those workloads of a family ("queue" or "bounded") that it can run.
template <class Q>
void add_queue(plan& to, const std::string& family, const std::string& name, int rank) {
  using kind = typename traffic<Q>::kind;
  const auto add = [&](const std::string& workload, std::size_t items, auto run) {
    to.add(family + "/" + workload, {name, rank, items, run});
  };
  const std::size_t elements = to.size(500'000, 200'000);
  const auto add_traffic = [&](const std::string& label, std::size_t producers, std::size_t consumers, kind how) {
    add(label, elements, [=](std::size_t items) { return measure_traffic<Q>(producers, consumers, items, how); });
  };
  add_traffic("1:1", 1, 1, kind::single);
  add_traffic("2:2", 2, 2, kind::single);
  add_traffic("1:3", 1, 3, kind::single);
  add_traffic("3:1", 3, 1, kind::single);
  add_traffic("4:4", 4, 4, kind::single);
  add("pair", elements, &measure_pair<Q>);
  add("empty", 2 * elements, &measure_empty<Q>);
  add("round trip", to.size(10'000, 4'000), &measure_round_trip<Q>);
  if constexpr (has_bulk<Q>) add_traffic("bulk 1:1", 1, 1, kind::bulk);
  if constexpr (can_wait<Q>) {
    add_traffic("waiting 1:1", 1, 1, kind::waiting);
    add_traffic("waiting 4:4", 4, 4, kind::waiting);
  }
  if (family == "queue") {
    add("memory", to.size(10'000'000, 10'000'000), &measure_memory<Q>);
    to.add_to_curve("growth/queue", [&](std::size_t waiting) {
      const std::size_t rounds = rounds_of(waiting, elements);
      return entry{name, rank, rounds * waiting, [=](std::size_t) { return measure_growth<Q>(waiting, rounds); }};
    });
  }
  to.add_to_curve("scaling/" + family, [&](std::size_t threads) {
    return entry{name, rank, elements, [threads](std::size_t items) {
                   return measure_traffic<Q>(threads / 2, threads - threads / 2, items);
                 }};
  });
}

}  // namespace bench
