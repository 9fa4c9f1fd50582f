// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <doctest/doctest.h>

#include <atomic>    // for atomic
#include <chrono>    // for milliseconds
#include <future>    // for future, promise
#include <memory>    // for make_unique, unique_ptr
#include <optional>  // for optional
#include <thread>    // for this_thread, thread

#include "async/event_loop.hpp"  // for event_loop
#include "async/threadpool.hpp"  // for threadpool
#include "steps/steps.hpp"       // for AsyncSteps, IAsyncSteps, Mutex, completion, post
#include "support/flows.hpp"     // for roomy_nitro

/// Flows that wait on one worker of a pool and go on while this worker is kept.
namespace testing {

/// What a flow waits for.
enum class wait_for { timer, token, direct, message, pool_call, own_future, other_future, mutex };
inline constexpr wait_for all_waits[] = {wait_for::timer,        wait_for::token,     wait_for::direct,
                                         wait_for::message,      wait_for::pool_call, wait_for::own_future,
                                         wait_for::other_future, wait_for::mutex};

/// How a flow is made.
enum class made_by { post, async_steps, nitro_steps, branch, inner_branch };
inline constexpr made_by all_flows[] = {made_by::post, made_by::async_steps, made_by::nitro_steps, made_by::branch,
                                        made_by::inner_branch};

inline void wait_a_moment(steps::IAsyncSteps& asi, std::chrono::milliseconds time = std::chrono::milliseconds(1)) {
  asi.add([time](steps::IAsyncSteps& step) { step.setTimeout(time); },
          [](steps::IAsyncSteps& step, steps::ErrorCode code) {
            if (code == steps::errors::Timeout) step.success();
          });
}

/// One wait, and another thread that ends it.
class journey {
 public:
  journey(async::threadpool& pool, wait_for what, std::chrono::milliseconds time)
      : pool_(pool), what_(what), time_(time) {
    if (what == wait_for::mutex) {
      std::promise<void> inside;
      flow_inside_.emplace(pool);
      flow_inside_->sync(mutex_, [this, &inside](steps::IAsyncSteps& asi) {
        token_ = asi.completion<>();
        inside.set_value();
      });
      end_inside_ = flow_inside_->promise();
      inside.get_future().get();
    }
  }

  /// Adds the wait, and after it one for a timer.
  void set_out(steps::IAsyncSteps& asi) {
    add_wait(asi);
    asi.add([this](steps::IAsyncSteps&) { has_gone_on_ = true; });
    wait_a_moment(asi);
  }
  /// The same, and then a wait of each kind that needs no other thread.
  void travel(steps::IAsyncSteps& asi) {
    set_out(asi);
    asi.await(pool_, [] {});
    asi.await(pool_.post([] {}));
    asi.relinquish();
    asi.await(steps::post(pool_, [](steps::IAsyncSteps& other) { wait_a_moment(other); }));
    asi.sync(mutex_, [](steps::IAsyncSteps& step) { wait_a_moment(step); });
    asi.add([](steps::IAsyncSteps& step) { step.success(7); });
  }

  /// The thread on which the flow has begun to wait.
  std::thread::id thread() { return thread_.get_future().get(); }
  bool has_gone_on() const { return has_gone_on_; }

  /// Ends the wait, from a thread that is not the pool's.
  void end_wait() {
    switch (what_) {
      case wait_for::timer:
        return;
      case wait_for::token:
      case wait_for::mutex:
        CHECK(token_.success());
        return;
      case wait_for::direct:
        waiting_->success();
        return;
      case wait_for::message:
        loop_->post([this] { waiting_->success(); });
        return;
      case wait_for::pool_call:
      case wait_for::own_future:
      case wait_for::other_future:
        go_.set_value();
        return;
    }
  }

 private:
  void begin() { thread_.set_value(std::this_thread::get_id()); }

  /// Begins in the waiting step itself where the end of the wait needs something that the step makes.
  void add_wait(steps::IAsyncSteps& asi) {
    if (what_ != wait_for::token && what_ != wait_for::direct && what_ != wait_for::message) {
      asi.add([this](steps::IAsyncSteps&) { begin(); });
    }
    switch (what_) {
      case wait_for::timer:
        wait_a_moment(asi, time_);
        return;
      case wait_for::token:
        asi.add([this](steps::IAsyncSteps& step) {
          token_ = step.completion<>();
          begin();
        });
        return;
      case wait_for::direct:
      case wait_for::message:
        asi.add([this](steps::IAsyncSteps& step) {
          waiting_ = &step;
          loop_ = &step.tool();
          step.waitExternal();
          begin();
        });
        return;
      case wait_for::pool_call:
        asi.await(other_, [this] { go_.get_future().get(); });
        return;
      case wait_for::own_future:
        asi.await(other_.post([this] { go_.get_future().get(); }));
        return;
      case wait_for::other_future:
        asi.await(go_.get_future());
        return;
      case wait_for::mutex:
        asi.sync(mutex_, [](steps::IAsyncSteps&) {});
        return;
    }
  }

  async::threadpool& pool_;
  const wait_for what_;
  const std::chrono::milliseconds time_;
  async::threadpool other_{1};
  steps::Mutex mutex_;
  std::promise<std::thread::id> thread_;
  std::atomic<bool> has_gone_on_{false};
  std::promise<void> go_;
  steps::completion<> token_;
  steps::IAsyncSteps* waiting_ = nullptr;
  async::event_loop* loop_ = nullptr;
  std::optional<steps::AsyncSteps> flow_inside_;
  std::future<void> end_inside_;
};

/// A flow of any kind, with its owner if it has one.
class any_flow {
 public:
  /// Starts a flow whose inner part is body(asi).
  template <class Body>
  any_flow(async::threadpool& pool, made_by how, Body body) {
    switch (how) {
      case made_by::post:
        end = steps::post(pool, body);
        return;
      case made_by::async_steps:
        owner = std::make_unique<steps::AsyncSteps>(pool);
        owner->add(body);
        break;
      case made_by::nitro_steps:
        owner = std::make_unique<roomy_nitro>(pool);
        owner->add(body);
        break;
      case made_by::branch:
        owner = std::make_unique<steps::AsyncSteps>(pool);
        branches(*owner, body);
        break;
      case made_by::inner_branch:
        owner = std::make_unique<steps::AsyncSteps>(pool);
        branches(*owner, [body](steps::IAsyncSteps& asi) { branches(asi, body); });
        break;
    }
    end = owner->promise();
  }

  std::unique_ptr<steps::IAsyncSteps> owner;
  std::future<void> end;

 private:
  /// A branch with siblings, so that it is offered to all workers.
  template <class Body>
  static void branches(steps::IAsyncSteps& asi, Body body) {
    auto& all = asi.parallel();
    all.add([](steps::IAsyncSteps& branch) { wait_a_moment(branch); });
    all.add(body);
    all.add([](steps::IAsyncSteps& branch) { wait_a_moment(branch); });
  }
};

}  // namespace testing
