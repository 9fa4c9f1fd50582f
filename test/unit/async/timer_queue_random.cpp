// SPDX-License-Identifier: BSL-1.0
//
// Random calls to a timer_queue, compared with a sorted map.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "async/detail/loop/timer_queue.hpp"
#include "support/alloc_counter.hpp"
#include "support/scale.hpp"
#include "support/timer_clock.hpp"

using async::detail::timer_node;
using std::chrono::nanoseconds;
using namespace std::chrono_literals;

namespace {

using time_point = testing::timer_clock::time_point;

constexpr nanoseconds tick{65536};
constexpr time_point start = testing::timer_clock::start;

/// How a queue comes by its wheels.
enum class wheels { at_once, when_needed, often_refused, never };

/// The queue beside a multimap by (tick, turn), with random operations, also from within callbacks. Many timers have
/// the tick of another, or one close to it.
/// `AtOnce`: how many timers of a slot move down at once. With few, most calls come in between.
template <unsigned AtOnce>
class comparison {
 public:
  comparison(std::uint64_t seed, std::size_t timers, wheels how)
      : random_(seed), timers_(start), how_(how), few_(timers <= 40) {
    if (how == wheels::at_once) timers_.make_wheels();
    for (std::size_t i = 0; i < timers; ++i) {
      auto& t = nodes_.emplace_back(std::make_unique<node>(*this, nodes_.size()));
      t->place = expected_.end();
    }
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      for (std::uint64_t n = below(below(10) == 0 ? 200 : 6); n != 0; --n) operate();
      const auto earliest = expected_.empty() ? never : expected_.begin()->first.first;
      if (fresh_.empty()) {
        const time_point next = timers_.next_deadline();
        REQUIRE(timers_.empty() == expected_.empty());
        if (earliest == never) REQUIRE(next == time_point::max());
        if (earliest != never) REQUIRE(next <= time_at(earliest));
        const bool exact = !timers_.has_wheels() || expected_.size() <= std::size_t{(std::min)(AtOnce, 16U)};
        if (earliest != never && exact && earliest > present_) REQUIRE(next == time_at(earliest));
      }
      now_ = later(earliest);
      settle();
      const std::uint64_t target = tick_of(now_, false);
      present_ = target;
      while (!expected_.empty() && expected_.begin()->first.first <= target) {
        batch_.push_back(expected_.begin()->second);
        nodes_[batch_.back()]->place = expected_.end();
        expected_.erase(expected_.begin());
      }
      perhaps_without_memory([this] { timers_.collect(now_); });
      timers_.fire(static_cast<std::size_t>(-1));
      REQUIRE(batch_.empty());
    }
    for (auto& n : nodes_) timers_.disarm(*n);
    REQUIRE(timers_.empty());
    if (how_ == wheels::at_once) REQUIRE(timers_.has_wheels());
    if (how_ == wheels::never) REQUIRE_FALSE(timers_.has_wheels());
  }
  bool has_wheels() const { return timers_.has_wheels(); }
  std::size_t fired = 0;

 private:
  using key = std::pair<std::uint64_t, std::uint64_t>;
  static constexpr std::uint64_t never = ~std::uint64_t{0};

  struct node : timer_node {
    node(comparison& c, std::size_t i) : timer_node(&check), owner(c), index(i) {}
    static void check(timer_node& n) {
      auto& self = static_cast<node&>(n);
      self.owner.check_fired(self.index);
    }
    comparison& owner;
    std::size_t index;
    std::multimap<key, std::size_t>::iterator place{};
  };

  template <class F>
  void perhaps_without_memory(F f) {
    if (how_ == wheels::never || (how_ == wheels::often_refused && below(8) != 0)) {
      const testing::no_memory none;
      return f();
    }
    f();
  }

  void check_fired(std::size_t index) {
    REQUIRE_FALSE(batch_.empty());
    REQUIRE(batch_.front() == index);
    batch_.erase(batch_.begin());
    REQUIRE_FALSE(nodes_[index]->armed());
    ++fired;
    if (below(4) == 0) operate();
  }

  void operate() {
    const auto index = static_cast<std::size_t>(below(nodes_.size()));
    node& n = *nodes_[index];
    if (n.armed()) {
      if (few_ && below(4) != 0) return;  // most of them wait
      timers_.disarm(n);
      if (n.place != expected_.end()) expected_.erase(std::exchange(n.place, expected_.end()));
      std::erase(batch_, index);
      std::erase_if(fresh_, [index](const auto& f) { return f.first == index; });
    } else if (below(3) == 0) {
      const nanoseconds delay = span() - 1000ns;
      timers_.arm_after(n, delay);
      fresh_.emplace_back(index, delay);
    } else {
      const time_point deadline = below(3) == 0 && !expected_.empty() ? near_another() : now_ + span() - 1000ns;
      perhaps_without_memory([&] { timers_.arm(n, deadline); });
      expect(index, deadline);
    }
  }

  void expect(std::size_t index, time_point deadline) {
    const std::uint64_t at = (std::max)(tick_of(deadline, true), present_);
    nodes_[index]->place = expected_.emplace(key{at, turn_++}, index);
  }
  void settle() {
    for (const auto& [index, delay] : fresh_) expect(index, delay > 0ns ? now_ + delay : start);
    fresh_.clear();
  }

  /// As of a loop that sleeps until a deadline, of one that has much to do, or of one that is rarely run.
  time_point later(std::uint64_t earliest) {
    switch (below(4)) {
      case 0:
        return earliest == never ? now_ : (std::max)(now_, time_at(earliest + below(3)));
      case 1:
        return now_ + static_cast<std::int64_t>(below(130)) * tick;
      case 2:
        return time_at(((present_ >> 7) + 1) * 128 + below(2));
      default:
        return now_ + (few_ ? span() / 256 : span());
    }
  }
  /// The tick of another timer, or one close to it, or the first one of a slot.
  time_point near_another() {
    if (below(4) == 0) {
      const std::uint64_t shift = 7 * (1 + below(4));
      return time_at(((present_ >> shift) + 1 + below(3)) << shift);
    }
    const auto one = std::next(expected_.begin(), static_cast<std::ptrdiff_t>(below(expected_.size())));
    return time_at(one->first.first + (below(2) == 0 ? 0 : below(200)));
  }
  /// Spans of all magnitudes up to some weeks.
  nanoseconds span() { return nanoseconds(static_cast<std::int64_t>(random_() >> (12 + below(52)))); }
  std::uint64_t below(std::uint64_t n) { return random_() % n; }
  static std::uint64_t tick_of(time_point t, bool up) {
    if (t <= start) return 0;
    return static_cast<std::uint64_t>(((t - start) + (up ? tick - 1ns : 0ns)) / tick);
  }
  static time_point time_at(std::uint64_t at) { return start + static_cast<std::int64_t>(at) * tick; }

  std::mt19937_64 random_;
  async::detail::timer_queue<testing::timer_clock, AtOnce> timers_;
  const wheels how_;
  const bool few_;
  std::vector<std::unique_ptr<node>> nodes_;
  std::multimap<key, std::size_t> expected_;
  std::vector<std::size_t> batch_;
  std::vector<std::pair<std::size_t, nanoseconds>> fresh_;
  time_point now_ = start;
  std::uint64_t present_ = 0;
  std::uint64_t turn_ = 0;
};

}  // namespace

TEST_CASE("random arming, disarming and expiring gives the results of an ordered map") {
  std::size_t fired = 0;
  for (std::size_t round = 0; round < testing::rounds(2000); ++round) {
    const std::uint64_t seed = testing::seed() + round;
    CAPTURE(seed);
    const auto run = [&](auto both) {
      both->run(200);
      fired += both->fired;
    };
    const auto how = static_cast<wheels>(round / 2 % 4);
    if (round % 2 == 0) {
      run(std::make_unique<comparison<2>>(seed, 200, how));
    } else {
      run(std::make_unique<comparison<64>>(seed, 200, how));
    }
  }
  CHECK(fired > 1000);
}

TEST_CASE("few timers give the results of an ordered map, whether their queue changes to wheels or not") {
  std::size_t fired = 0;
  std::size_t changed = 0;
  std::size_t rounds = 0;
  for (std::size_t round = 0; round < testing::rounds(2000); ++round) {
    const std::uint64_t seed = testing::seed() + round;
    const std::size_t timers = 1 + round % 40;
    CAPTURE(seed);
    CAPTURE(timers);
    comparison<64> both(seed, timers, round % 3 == 0 ? wheels::often_refused : wheels::when_needed);
    both.run(100);
    fired += both.fired;
    ++rounds;
    if (both.has_wheels()) ++changed;
    if (timers <= 17) REQUIRE_FALSE(both.has_wheels());
  }
  CHECK(fired > 1000);
  CHECK(changed != 0);
  CHECK(changed < rounds);
}
