// SPDX-License-Identifier: BSL-1.0
// Calls to a timer_queue, some of them by the timers, compared with sorted lists: to one that has wheels from the
// beginning and to one that makes them when needed.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "async/detail/loop/timer_queue.hpp"
#include "support/fuzz.hpp"
#include "support/timer_clock.hpp"

using async::detail::timer_node;
using std::chrono::nanoseconds;
using testing::demand;

namespace {

using time_point = testing::timer_clock::time_point;
using timer_queue = async::detail::timer_queue<testing::timer_clock, 2>;

constexpr std::uint64_t tick = 65536;
constexpr time_point start = testing::timer_clock::start;

class comparison {
 public:
  comparison(testing::fuzz_input input, bool wheels) : input_(input), timers_(start) {
    if (wheels) timers_.make_wheels();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      nodes_[i] = std::make_unique<node>(*this, i);
    }
  }
  ~comparison() {
    std::size_t left = 0;
    timers_.clear([&left](timer_node&) { ++left; });
    demand(left == waiting_.size() + fresh_.size() + due_.size() + batch_.size(), "clear() hands over all timers");
  }
  comparison(const comparison&) = delete;
  comparison& operator=(const comparison&) = delete;

  void run() {
    for (int steps = 0; !input_.empty() && steps < 2000; ++steps) {
      act(input_.below(8));
      check();
    }
  }

 private:
  struct node : timer_node {
    node(comparison& home_of, std::size_t id_number) : timer_node(&fired), home(home_of), id(id_number) {}
    static void fired(timer_node& self) {
      auto& mine = static_cast<node&>(self);
      mine.home.fired(mine.id);
    }
    comparison& home;
    std::size_t id;
  };

  struct entry {
    std::size_t id;
    std::uint64_t when;  // its tick; of a fresh one: the delay
  };
  using list = std::vector<entry>;

  void act(unsigned action) {
    const std::size_t id = input_.below(static_cast<unsigned>(nodes_.size()));
    switch (action) {
      case 0: {
        if (nodes_[id]->armed()) return;
        const std::uint64_t at =
            input_.below(3) == 0 && !waiting_.empty() ? near_another() : since_start() + distance();
        timers_.arm(*nodes_[id], start + nanoseconds(at));
        place({id, ceil(at)});
        return;
      }
      case 1: {
        if (nodes_[id]->armed()) return;
        const std::uint64_t delay = distance();
        timers_.arm_after(*nodes_[id], nanoseconds(delay));
        fresh_.push_back({id, delay});
        return;
      }
      case 2:
        if (nodes_[id]->armed()) return;
        timers_.arm_now(*nodes_[id]);
        due_.push_back({id, 0});
        return;
      case 3:
        timers_.disarm(*nodes_[id]);
        for (list* each : {&waiting_, &fresh_, &due_, &batch_})
          std::erase_if(*each, [id](const entry& e) { return e.id == id; });
        return;
      case 4:
        timers_.settle(now_);
        settle();
        return;
      case 5:
        if (firing_) return;
        now_ += nanoseconds(distance());
        collect();
        return;
      case 6:
        return fire(input_.below(4));
      default:
        if (firing_) return;
        if (const time_point next = timers_.next_deadline(); next > now_ && next - now_ < nanoseconds(farthest))
          now_ = next;
        collect();
        return fire(static_cast<std::size_t>(-1));
    }
  }

  /// Two days at most, so that a thousand of them end before the clock does.
  std::uint64_t distance() { return (std::min)(input_.number(), farthest); }

  /// The tick of another timer, or one behind it, or the first one of a slot.
  std::uint64_t near_another() {
    if (const unsigned wheel = input_.below(8); wheel < 4) {
      const std::uint64_t shift = 7 * (wheel + 1);
      return (((present_ >> shift) + 1 + input_.below(3)) << shift) * tick;
    }
    return (waiting_[input_.below(static_cast<unsigned>(waiting_.size()))].when + input_.below(3)) * tick;
  }

  void collect() {
    timers_.collect(now_);
    settle();
    const std::uint64_t target = since_start() / tick;
    const auto last = std::find_if(waiting_.begin(), waiting_.end(), [&](const entry& e) { return e.when > target; });
    due_.insert(due_.end(), waiting_.begin(), last);
    waiting_.erase(waiting_.begin(), last);
    present_ = (std::max)(present_, target);
  }

  void settle() {
    for (const entry& each : fresh_) place({each.id, each.when == 0 ? 0 : ceil(since_start() + each.when)});
    fresh_.clear();
  }

  void place(entry e) {
    if (e.when <= present_) {
      due_.push_back(e);
    } else {
      const auto behind = [](const entry& one, const entry& other) { return one.when < other.when; };
      waiting_.insert(std::upper_bound(waiting_.begin(), waiting_.end(), e, behind), e);
    }
  }

  void fire(std::size_t most) {
    if (firing_) return;
    firing_ = true;
    batch_.insert(batch_.end(), due_.begin(), due_.end());
    due_.clear();
    fired_ = 0;
    const std::size_t count = timers_.fire(most);
    firing_ = false;
    demand(count == fired_, "fire() returns how many it has fired");
    demand(count == most || batch_.empty(), "fire() fires all that is due");
  }

  void fired(std::size_t id) {
    demand(!batch_.empty() && batch_.front().id == id, "timers fire in the order of their ticks, then as armed");
    batch_.erase(batch_.begin());
    ++fired_;
    demand(!nodes_[id]->armed(), "a timer that fires is not armed");
    for (unsigned calls = input_.below(3); calls != 0; --calls) act(input_.below(5));
  }

  void check() {
    demand(timers_.any_due() == !(due_.empty() && batch_.empty()), "any_due() tells of what fire() would fire");
    demand(timers_.none_waiting() == (waiting_.empty() && fresh_.empty()), "none_waiting() tells of the others");
    const time_point next = timers_.next_deadline();
    if (timers_.any_due() || !fresh_.empty()) {
      demand(next <= now_, "what is due or not settled is for now");
    } else if (waiting_.empty()) {
      demand(next == time_point::max(), "without timers there is no deadline");
    } else {
      const time_point first = start + nanoseconds(waiting_.front().when * tick);
      demand(next <= first, "the next deadline is not after the first timer");
      demand(timers_.has_wheels() || next == first, "without wheels, the next deadline is that of the first timer");
      demand(next > start + nanoseconds(present_ * tick), "the next deadline is ahead");
    }
  }

  std::uint64_t since_start() const { return static_cast<std::uint64_t>((now_ - start).count()); }
  static std::uint64_t ceil(std::uint64_t ns) { return (ns + tick - 1) / tick; }

  static constexpr std::uint64_t farthest = std::uint64_t{1} << 51;  // beyond the wheels' 10 hours

  testing::fuzz_input input_;
  std::array<std::unique_ptr<node>, 24> nodes_;
  timer_queue timers_;
  time_point now_ = start;
  std::uint64_t present_ = 0;
  list waiting_, fresh_, due_, batch_;
  bool firing_ = false;
  std::size_t fired_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  for (const bool wheels : {true, false}) comparison(testing::fuzz_input(data, size), wheels).run();
  return 0;
}
