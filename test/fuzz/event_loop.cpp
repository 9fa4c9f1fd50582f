// SPDX-License-Identifier: BSL-1.0
// Calls to an event_loop under virtual time, from outside and from its callbacks: each callback runs once or is
// cancelled, never early, in its order, and iterate() tells when to come again.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "async/event_loop.hpp"
#include "async/manual_clock.hpp"
#include "support/fuzz.hpp"

using std::chrono::nanoseconds;
using testing::demand;

namespace {

constexpr nanoseconds tick(65536);
constexpr std::size_t calls_at_most = 3000;

class comparison {
 public:
  explicit comparison(testing::fuzz_input input) : input_(input) {}
  ~comparison() {
    loop_.reset();
    if (alive_ != 0) std::abort();
  }
  comparison(const comparison&) = delete;
  comparison& operator=(const comparison&) = delete;

  void run() {
    while (!input_.empty() && made_ < calls_at_most) {
      switch (input_.below(6)) {
        case 0:
          turn();
          break;
        case 1:
          clock_.advance(distance());
          break;
        default:
          act(input_.byte());
      }
    }
    if (input_.below(4) == 0) return;  // it ends with callbacks left
    for (int turns = 0; !pending_.empty(); ++turns) {
      demand(turns < 100'000, "a loop without new callbacks comes to an end");
      clock_.advance(turn().delay);
    }
    demand(!turn().have_work, "a loop without callbacks has no work");
  }

 private:
  enum class kind { immediate, post, timer };
  struct call {
    std::size_t id;
    kind what;
    async::manual_clock::time_point due;
  };

  /// Counts the callbacks that are alive, so that a lost one is seen.
  struct body {
    body(comparison& home_of, std::size_t id_number) : home(&home_of), id(id_number) { ++home->alive_; }
    body(const body& other) : home(other.home), id(other.id) { ++home->alive_; }
    body& operator=(const body&) = delete;
    ~body() { --home->alive_; }
    void operator()() const { home->ran(id); }
    comparison* home;
    std::size_t id;
  };

  void act(unsigned action) {
    if (made_ >= calls_at_most) return;
    switch (action % 8) {
      case 0:
      case 1:
        make(kind::immediate);
        return keep(loop_->immediate(body(*this, made_)));
      case 2:
        make(kind::post);
        return loop_->post(body(*this, made_));
      case 3:
      case 4: {
        const nanoseconds delay = distance();
        if (delay <= delay.zero()) return;
        make(kind::timer, delay);
        return keep(loop_->deferred(delay, body(*this, made_)));
      }
      case 5:
        make(kind::immediate);
        return keep(loop_->deferred(nanoseconds(-1), body(*this, made_)));
      case 6: {
        const std::size_t which = input_.below(static_cast<unsigned>(handles_.size()));
        const bool is_pending = find(owners_[which]) != pending_.end();
        demand(static_cast<bool>(handles_[which]) == is_pending, "a handle tells whether its callback is pending");
        demand(handles_[which].cancel() == is_pending, "cancel() succeeds for what is pending");
        if (is_pending) pending_.erase(find(owners_[which]));
        return;
      }
      default:
        for (unsigned i = input_.byte(); i != 0; --i) {
          make(kind::immediate);
          loop_->immediate(body(*this, made_)).reset();
        }
    }
  }

  void make(kind what, nanoseconds delay = nanoseconds(0)) {
    pending_.push_back({++made_, what, clock_.now() + delay});
  }

  /// The handle of the one made last.
  void keep(async::event_loop::handle handle) {
    const std::size_t which = made_ % handles_.size();
    handles_[which] = std::move(handle);
    owners_[which] = made_;
  }

  std::vector<call>::iterator find(std::size_t id) {
    return std::find_if(pending_.begin(), pending_.end(), [id](const call& c) { return c.id == id; });
  }

  void ran(std::size_t id) {
    const auto self = find(id);
    demand(self != pending_.end(), "a callback runs once, and not when it was cancelled");
    for (auto other = pending_.begin(); other != pending_.end(); ++other) {
      if (other->what != self->what) continue;
      if (self->what == kind::timer) {
        demand(other->due + tick > self->due, "timers run in the order of their deadlines, to a tick");
      } else {
        demand(other >= self, "immediates and posts run in their order");
      }
    }
    demand(self->due <= clock_.now(), "no timer is early");
    demand(++ran_in_turn_ <= 3 * 256, "a turn runs at most 256 callbacks of each kind");
    pending_.erase(self);
    for (unsigned calls = input_.below(4); calls != 0; --calls) act(input_.below(7));
  }

  async::event_loop::cycle_result turn() {
    ran_in_turn_ = 0;
    const auto cycle = loop_->iterate();
    demand(cycle.have_work == !pending_.empty(), "iterate() tells whether there is work");
    const auto has_come = [this](const call& c) { return c.what != kind::timer || c.due + tick <= clock_.now(); };
    const bool ready = std::any_of(pending_.begin(), pending_.end(), has_come);
    demand(!ready || cycle.delay == nanoseconds(0), "iterate() does not ask to wait when something is ready");
    for (const call& each : pending_) {
      demand(each.due + tick > clock_.now() + cycle.delay || cycle.delay == nanoseconds(0),
             "iterate() asks to come again before the next timer is late");
    }
    return cycle;
  }

  /// Three days at most.
  nanoseconds distance() { return nanoseconds((std::min)(input_.number(), std::uint64_t{1} << 48)); }

  testing::fuzz_input input_;
  async::manual_clock clock_;
  std::optional<async::event_loop> loop_{std::in_place, clock_};
  std::vector<call> pending_;  // in the order made
  std::array<async::event_loop::handle, 16> handles_;
  std::array<std::size_t, 16> owners_{};
  std::size_t made_ = 0;
  std::size_t ran_in_turn_ = 0;
  std::size_t alive_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  comparison(testing::fuzz_input(data, size)).run();
  return 0;
}
