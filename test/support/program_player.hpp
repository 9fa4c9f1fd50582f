// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <array>        // for array
#include <atomic>       // for atomic
#include <chrono>       // for microseconds, milliseconds
#include <cstddef>      // for size_t
#include <deque>        // for deque
#include <future>       // for future_status, promise
#include <mutex>        // for lock_guard, mutex
#include <string>       // for string, to_string
#include <thread>       // for yield
#include <type_traits>  // for is_void_v
#include <utility>      // for move
#include <vector>       // for vector

#include "async/event.hpp"
#include "async/event_loop.hpp"
#include "async/manual_clock.hpp"
#include "async/threadpool.hpp"
#include "program.hpp"
#include "steps/every.hpp"
#include "steps/iasyncsteps.hpp"
#include "steps/retry.hpp"
#include "steps/semaphore.hpp"

namespace testing::program {

inline std::chrono::milliseconds ticks(int count) { return std::chrono::milliseconds(100) * count; }

/// Plays a program on a loop in virtual time.
class virtual_time {
 public:
  static constexpr bool has_ticks = true;

  async::event_loop& home() { return loop_; }
  int tick() const { return static_cast<int>((clock_.now() - start_) / ticks(1)); }
  static std::chrono::nanoseconds time(int count) { return ticks(count); }

  /// Calls f() on the flow's loop after so many ticks.
  template <class F>
  async::event_loop::handle on_loop(steps::IAsyncSteps&, int count, F f) {
    return loop_.deferred(ticks(count), std::move(f));
  }
  /// Calls f() anywhere after so many ticks.
  template <class F>
  void anywhere(steps::IAsyncSteps&, int count, F f) {
    loop_.deferred(ticks(count), std::move(f));
  }

  /// Drives the flow until is_over(). Calls stuck() when it waits for nothing.
  template <class IsOver, class Stuck>
  void drive(IsOver is_over, Stuck stuck) {
    while (!is_over()) {
      const auto cycle = loop_.iterate();
      if (is_over()) break;
      if (!cycle.have_work) stuck();
      clock_.advance(cycle.delay);
    }
    for (int patience = 1000; loop_.iterate().delay.count() == 0 && patience > 0; --patience) {
    }
  }
  void finish() {}
  void stepped() {}

 private:
  async::manual_clock clock_;
  const async::manual_clock::time_point start_ = clock_.now();
  async::event_loop loop_{clock_};
};

/// Makes the flows of a pool of two workers continue on the other worker after each turn. A step queues a task behind
/// its turn, which keeps the worker until the next step has been played; meanwhile the other worker, which such a task
/// has kept until then, goes on with the flow.
class eviction {
 public:
  explicit eviction(async::threadpool& pool) : pool_(pool) {}
  eviction(const eviction&) = delete;
  eviction& operator=(const eviction&) = delete;
  ~eviction() {
    while (open_ != 0) std::this_thread::yield();
  }

  /// By a step.
  void step() {
    ++open_;
    pool_.execute([this, mine = ++steps_] {
      for (int before = begun_; before < mine && !begun_.compare_exchange_weak(before, mine);) {
      }
      const auto until = std::chrono::steady_clock::now() + longest;
      while (begun_ == mine && std::chrono::steady_clock::now() < until) std::this_thread::yield();
      --open_;
    });
  }
  /// After the last step.
  void end() { begun_ = ++steps_; }

 private:
  static constexpr std::chrono::milliseconds longest{2};
  async::threadpool& pool_;
  std::atomic<int> steps_{0};
  std::atomic<int> begun_{0};  // the latest of the tasks that have begun
  std::atomic<int> open_{0};
};

/// Plays a program on a pool, in real time. All delays are short, so the program must not depend on them.
class on_pool {
 public:
  static constexpr bool has_ticks = false;

  /// `outside` is another pool, whose threads end some of the waits.
  on_pool(async::threadpool& pool, async::threadpool& outside) : pool_(pool), outside_(outside) {}
  /// Each turn of a flow on another worker.
  on_pool(async::threadpool& pool, async::threadpool& outside, eviction& moves) : on_pool(pool, outside) {
    moves_ = &moves;
  }

  async::threadpool& home() { return pool_; }
  int tick() const { return 0; }
  static std::chrono::nanoseconds time(int count) { return std::chrono::microseconds(count % 3 * 50); }

  template <class F>
  async::event_loop::handle on_loop(steps::IAsyncSteps& asi, int count, F f) {
    return asi.tool().deferred(time(count), std::move(f));
  }
  template <class F>
  void anywhere(steps::IAsyncSteps& asi, int count, F f) {
    if (count % 4 == 0) {
      on_loop(asi, count, std::move(f));
    } else {
      (count % 4 == 1 ? outside_ : pool_).execute(std::move(f));
    }
  }

  template <class IsOver, class Stuck>
  void drive(IsOver, Stuck stuck) {
    if (over_.get_future().wait_for(std::chrono::minutes(1)) != std::future_status::ready) stuck();
  }
  void finish() {
    if (moves_ != nullptr) moves_->end();
    over_.set_value();
  }
  void stepped() {
    if (moves_ != nullptr) moves_->step();
  }

 private:
  async::threadpool& pool_;
  async::threadpool& outside_;
  eviction* moves_ = nullptr;
  std::promise<void> over_;
};

/// Runs a program on the engine, as a `Flow` at a `Place`, and writes the log that the reference interpreter writes.
template <class Flow, class Mutex, class Place = virtual_time>
class player {
 public:
  template <class... Where>
  explicit player(const tree& program, Where&... where) : program_(program), place_(where...), root_(place_.home()) {}

  history run() {
    root_.state().set_unhandled_error([this](steps::ErrorCode code) {
      write("/", "unhandled " + text(code) + info(root_));
      finish();
    });
    for (const node& of : program_.steps) add(root_, of, root_name_);
    root_.add([this](steps::IAsyncSteps&) {
      write("/", "end");
      finish();
    });
    if constexpr (Place::has_ticks) {
      if (program_.cancel_at_tick != 0) place_.anywhere(root_, program_.cancel_at_tick, [this] { cancel(); });
    }
    root_.execute();
    place_.drive([this] { return over_ || log_.size() > 3000; },
                 [this] {
                   write("/", "stuck");
                   cancel();
                 });
    return log_;
  }

 private:
  using asi_t = steps::IAsyncSteps;

  /// A timer that ends with the step.
  struct guard {
    async::event_loop::handle timer;
    guard() = default;
    guard(const guard&) = delete;
    guard& operator=(const guard&) = delete;
    ~guard() { timer.cancel(); }
  };

  static std::string text(steps::ErrorCode code) { return std::string(code); }

  /// The program's errors carry an info; what the engine writes there is its own matter.
  static std::string info(asi_t& asi) {
    const std::string text(asi.state().error_info());
    return text.rfind("info ", 0) == 0 ? " " + text : std::string();
  }

  void write(const std::string& branch, std::string what) {
    const std::lock_guard lock(mutex_);
    log_.push_back({place_.tick(), branch, std::move(what)});
    place_.stepped();
  }

  void finish() {
    over_ = true;
    place_.finish();
  }
  void cancel() {
    root_.cancel();
    finish();
  }

  void add(asi_t& to, const node& of, const std::string& branch) {
    switch (of.what) {
      case kind::step:
        if (of.takes) {
          guarded(of, branch, [&](auto... onerror) {
            to.add([this, &of, &branch](asi_t& asi, int argument) { call(asi, of, branch, argument); }, onerror...);
          });
        } else {
          guarded(of, branch, [&](auto... onerror) {
            to.add([this, &of, &branch](asi_t& asi) { call(asi, of, branch); }, onerror...);
          });
        }
        return;
      case kind::sync:
        if constexpr (!std::is_void_v<Mutex>) {
          steps::ISync& mutex = sync_object(of.mutex);
          guarded(of, branch, [&](auto... onerror) {
            if (of.takes) {
              to.sync(
                  mutex, [this, &of, &branch](asi_t& asi, int argument) { call(asi, of, branch, argument); },
                  onerror...);
            } else {
              to.sync(mutex, [this, &of, &branch](asi_t& asi) { call(asi, of, branch); }, onerror...);
            }
          });
        }
        return;
      case kind::event:
        guarded(of, branch, [&](auto... onerror) { to.await(event_of(of), onerror...); });
        return;
      case kind::parallel:
      case kind::race: {
        asi_t* branches = nullptr;
        const auto turns = of.bursts ? steps::BranchTurns::burst : steps::BranchTurns::step;
        guarded(of, branch, [&](auto... onerror) {
          branches = of.what == kind::race ? &to.race(onerror..., turns) : &to.parallel(onerror..., turns);
        });
        for (const node& first : of.sub) {
          add(*branches, first, kept(names_, (branch == "/" ? branch : branch + "/") + std::to_string(first.id)));
        }
        return;
      }
      case kind::loop:
        to.loop([this, &of, &branch, &count = kept(counts_, 0)](asi_t& asi) { iteration(asi, of, branch, count); },
                of.label);
        return;
      case kind::every:
        to.every(
            {.period = Place::time(of.pause), .missed = policies[static_cast<std::size_t>(of.policy)]},
            [this, &of, &branch](asi_t& asi, const steps::Tick& tick) { round(asi, of, branch, tick); }, of.label);
        return;
      case kind::retry:
        add_retry(to, of, branch);
        return;
      case kind::repeat:
        to.repeat(
            static_cast<std::size_t>(of.count),
            [this, &of, &branch](asi_t& asi, std::size_t i) { call(asi, of, branch, static_cast<int>(i)); }, of.label);
        return;
      case kind::for_each:
        to.forEach(
            std::vector<int>(static_cast<std::size_t>(of.count)),
            [this, &of, &branch](asi_t& asi, std::size_t i, int&) { call(asi, of, branch, static_cast<int>(i)); },
            of.label);
        return;
    }
  }

  static constexpr steps::MissedTicks policies[] = {steps::MissedTicks::skip, steps::MissedTicks::delay,
                                                    steps::MissedTicks::burst};

  void round(asi_t& asi, const node& of, const std::string& branch, const steps::Tick& tick) {
    const auto in_ticks = [](std::chrono::nanoseconds time) {
      return std::to_string((time + ticks(1) / 2) / ticks(1));
    };
    write(branch, "run " + std::to_string(of.id) + " n=" + std::to_string(tick.number) +
                      " missed=" + std::to_string(tick.missed) + " late=" + in_ticks(tick.late) +
                      " took=" + in_ticks(tick.previous));
    if (tick.number < static_cast<std::size_t>(of.count)) return body(asi, of, branch);
    ++runs_;
    asi.breakLoop();
  }

  void add_retry(asi_t& to, const node& of, const std::string& branch) {
    const steps::Retry policy{.attempts = static_cast<std::size_t>(of.count),
                              .delay = Place::time(of.pause),
                              .max_delay = Place::time(longest_pause),
                              .jitter = 0};
    guarded(of, branch, [&](auto... onerror) {
      const auto attempt = [this, &of, &branch](asi_t& asi, int number) { call(asi, of, branch, number); };
      if (of.policy == 0) {
        to.retry(policy, attempt, onerror...);
      } else {
        to.retry(policy.on(retried[0], retried[1], retried[2]), attempt, onerror...);
      }
    });
  }

  async::event& event_of(const node& of) { return events_[static_cast<std::size_t>(of.event)]; }
  steps::ISync& sync_object(int which) {
    const auto at = static_cast<std::size_t>(which);
    if (which >= mutexes) return semaphores_[at - mutexes];
    return mutexes_[at];
  }

  /// A reference to the value, for as long as the player lives.
  template <class T>
  T& kept(std::deque<T>& in, T value) {
    const std::lock_guard lock(mutex_);
    return in.emplace_back(std::move(value));
  }

  /// Calls adds(), with the node's error handler if it has one.
  template <class F>
  void guarded(const node& of, const std::string& branch, F adds) {
    if (of.on_error == handler::none) {
      adds();
    } else {
      adds([this, &of, &branch](asi_t& asi, steps::ErrorCode code) { handle(asi, of, branch, code); });
    }
  }

  void iteration(asi_t& asi, const node& of, const std::string& branch, int& count) {
    if (count++ < of.count) {
      call(asi, of, branch);
      return;
    }
    count = 0;
    write(branch, "run " + std::to_string(of.id));
    ++runs_;
    asi.breakLoop();
  }

  void call(asi_t& asi, const node& of, const std::string& branch) {
    write(branch, "run " + std::to_string(of.id));
    body(asi, of, branch);
  }

  void call(asi_t& asi, const node& of, const std::string& branch, int argument) {
    write(branch, "run " + std::to_string(of.id) + (is_numbered(of) ? " i=" : " arg=") + std::to_string(argument));
    body(asi, of, branch);
  }

  void body(asi_t& asi, const node& of, const std::string& branch) {
    if (of.to_event == node::does::set) event_of(of).set();
    if (of.to_event == node::does::reset) event_of(of).reset();
    if (!is_group(of)) {
      for (const node& sub : of.sub) add(asi, sub, branch);
    }
    if (of.on_cancel) {
      asi.setCancel([this, &of, &branch](asi_t&) { write(branch, "oncancel " + std::to_string(of.id)); });
    }
    if (of.timeout != 0) asi.setTimeout(ticks(of.timeout));
    if (++runs_ == program_.cancel_at_run) {
      cancel();
      return;
    }
    const std::string info = "info " + std::to_string(of.id);
    switch (of.end) {
      case ending::none:
        return;
      case ending::success:
        give(asi, of.result);
        return;
      case ending::error:
        asi.error(code(of.code), info);
      case ending::error_no_throw:
        asi.errorNoThrow(code(of.code), info);
        return;
      case ending::error_swallowed:
        try {
          asi.error(code(of.code), info);
        } catch (...) {
        }
        return;
      case ending::error_no_throw_success:
        asi.errorNoThrow(code(of.code), info);
        asi.success();
        return;
      case ending::break_loop:
        asi.breakLoop(of.code);
      case ending::break_loop_no_throw:
        asi.breakLoopNoThrow(of.code);
        return;
      case ending::continue_loop:
        asi.continueLoop(of.code);
      case ending::continue_loop_no_throw:
        asi.continueLoopNoThrow(of.code);
        return;
      case ending::wait:
        asi.waitExternal();
        return;
      case ending::wait_success_direct: {
        guard& held = asi.template stack<guard>();  // first, as it may fail
        held.timer = place_.on_loop(asi, of.delay, [&asi, &of] { give(asi, of.result); });
        asi.waitExternal();
        return;
      }
      case ending::wait_error_direct: {
        guard& held = asi.template stack<guard>();
        held.timer = place_.on_loop(asi, of.delay, [&asi, &of, info] { asi.errorNoThrow(code(of.code), info); });
        asi.waitExternal();
        return;
      }
      case ending::wait_success:
        if (of.result == 0) {
          place_.anywhere(asi, of.delay, [done = asi.template completion<>()] { done.success(); });
        } else {
          place_.anywhere(asi, of.delay, [done = asi.template completion<int>(), &of] { done.success(of.result); });
        }
        return;
      case ending::wait_error:
        place_.anywhere(asi, of.delay,
                        [done = asi.template completion<>(), &of, info] { done.error(code(of.code), info); });
        return;
    }
  }

  void handle(asi_t& asi, const node& of, const std::string& branch, steps::ErrorCode cause) {
    write(branch, "onerror " + std::to_string(of.id) + " " + text(cause) + info(asi));
    const std::string info = "info of handler " + std::to_string(of.id);
    if (of.on_error == handler::add || of.on_error == handler::add_error) {
      for (const node& step : of.rescue) add(asi, step, branch);
    }
    if (of.on_error == handler::success) give(asi, of.new_result);
    if (of.on_error == handler::error || of.on_error == handler::add_error) asi.error(code(of.new_code), info);
    if (of.on_error == handler::error_no_throw) asi.errorNoThrow(code(of.new_code), info);
  }

  static void give(asi_t& asi, int result) {
    if (result == 0) {
      asi.success();
    } else {
      asi.success(result);
    }
  }

  static const char* code(const std::string& text) { return text.c_str(); }

  struct no_mutex {};
  using mutex_t = std::conditional_t<std::is_void_v<Mutex>, no_mutex, Mutex>;

  const tree& program_;
  std::deque<std::string> names_;
  std::deque<int> counts_;
  const std::string root_name_ = "/";
  history log_;
  std::mutex mutex_;  // guards the log and the lists above
  std::atomic<bool> over_{false};
  std::atomic<int> runs_{0};
  Place place_;
  std::array<async::event, number_of_events> events_;
  std::array<mutex_t, mutexes> mutexes_;
  std::array<steps::Semaphore, semaphores> semaphores_{steps::Semaphore(permits)};
  Flow root_;
};

}  // namespace testing::program
