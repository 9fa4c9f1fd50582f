// SPDX-License-Identifier: BSL-1.0
//
// Steps in C: waits, flows of their own, callbacks, memory.
#include "steps/interop/binary.hpp"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>

#include "async/threadpool.hpp"
#include "steps/steps.hpp"
#include "support/alloc_counter.hpp"
#include "support/flows.hpp"
#include "unit/interop/interop_binary.h"
#include "unit/interop/interop_binary.hpp"

using namespace std::chrono_literals;
using steps::AsyncSteps;
using steps::IAsyncSteps;
using steps::interop::binary;
using testing::args_of;
using testing::run_on_pool;

TEST_CASE("other threads end the waits of steps in C, timeouts and cancels reach them") {
  struct waiting {
    std::mutex lock;
    FutoInAsyncSteps* steps = nullptr;
    int cancelled = 0;
    std::atomic<bool> waits{false};

    static void wait(FutoInAsyncSteps* b, void* data, const FutoInArgs*) {
      auto& self = *static_cast<waiting*>(data);
      b->api->waitExternal(b);
      b->api->setCancel(b, data, [](FutoInAsyncSteps*, void* d) {
        const std::lock_guard<std::mutex> together(static_cast<waiting*>(d)->lock);
        static_cast<waiting*>(d)->steps = nullptr;
        ++static_cast<waiting*>(d)->cancelled;
      });
      {
        const std::lock_guard<std::mutex> together(self.lock);
        self.steps = b;
      }
      self.waits.store(true, std::memory_order_release);
      self.waits.notify_all();
    }
    void complete(std::int32_t with) {
      waits.wait(false, std::memory_order_acquire);
      const std::lock_guard<std::mutex> together(lock);
      if (steps == nullptr) return;
      FutoInArgs args = args_of(with);
      steps->api->success(steps, &args);
      CHECK(args.arg0.type == nullptr);
    }
  };
  SUBCASE("success") {
    waiting w;
    std::thread other([&w] { w.complete(42); });
    CHECK(run_on_pool<int>([&w](IAsyncSteps& root) {
            FutoInAsyncSteps& bsi = binary(root);
            bsi.api->add(&bsi, &w, &waiting::wait, nullptr);
          }) == 42);
    other.join();
    CHECK(w.cancelled == 0);
  }
  SUBCASE("error") {
    waiting w;
    std::thread other([&w] {
      w.waits.wait(false, std::memory_order_acquire);
      const std::lock_guard<std::mutex> together(w.lock);
      w.steps->api->handle_error(w.steps, "Late", "an info");
    });
    CHECK_THROWS_WITH_AS(run_on_pool([&w](IAsyncSteps& root) {
                           FutoInAsyncSteps& bsi = binary(root);
                           bsi.api->add(&bsi, &w, &waiting::wait, nullptr);
                         }),
                         "Late", steps::Error);
    other.join();
    CHECK(w.cancelled == 1);
  }
  SUBCASE("timeout") {
    waiting w;
    CHECK_THROWS_WITH_AS(run_on_pool([&w](IAsyncSteps& root) {
                           root.add([&w](IAsyncSteps& asi) {
                             FutoInAsyncSteps& bsi = binary(asi);
                             bsi.api->setTimeout(&bsi, 1);
                             bsi.api->add(&bsi, &w, &waiting::wait, nullptr);
                           });
                         }),
                         "Timeout", steps::Error);
    w.complete(1);
    CHECK(w.cancelled == 1);
  }
  SUBCASE("cancel, from C") {
    waiting w;
    async::threadpool pool(1);
    AsyncSteps flow{pool};
    FutoInAsyncSteps& bsi = binary(flow);
    bsi.api->add(&bsi, &w, &waiting::wait, nullptr);
    async::future<void> end = flow.promise();
    w.waits.wait(false, std::memory_order_acquire);
    bsi.api->cancel(&bsi);
    CHECK_THROWS_AS(end.get(), std::future_error);
    CHECK(w.cancelled == 1);
  }
  SUBCASE("a race of both, many times") {
    async::threadpool pool(2);
    int ended = 0;
    for (int i = 0; i != 300; ++i) {
      waiting w;
      AsyncSteps flow{pool};
      flow.add([&w](IAsyncSteps& asi) {
        FutoInAsyncSteps& bsi = binary(asi);
        bsi.api->setTimeout(&bsi, 1);
        bsi.api->add(&bsi, &w, &waiting::wait, nullptr);
      });
      async::future<int> end = flow.promise<int>();
      std::this_thread::sleep_for(std::chrono::microseconds(900 + i));
      w.complete(i);
      try {
        const int got = end.get();
        CHECK(got == i);
        ++ended;
      } catch (const steps::Error& e) {
        CHECK(e.code() == "Timeout");
        ++ended;
      }
    }
    CHECK(ended == 300);
  }
}

TEST_CASE("C makes, runs and frees flows of its own") {
  struct program {
    std::promise<std::string> end;
    FutoInAsyncSteps* flow = nullptr;
    bool frees_itself = false;

    static void unhandled(FutoInAsyncSteps* b, void* data, const char* code) {
      auto& self = *static_cast<program*>(data);
      const std::string text = code;
      if (self.frees_itself) b->api->free(b);
      self.end.set_value(text);
    }
    static void finish(FutoInAsyncSteps*, void* data, const FutoInArgs* args) {
      static_cast<program*>(data)->end.set_value("sum " + std::to_string(args->arg0.i32));
    }
  };
  async::threadpool pool(2);
  AsyncSteps parent{pool};
  FutoInAsyncSteps& bsi = binary(parent);
  program p;
  std::future<std::string> end = p.end.get_future();
  p.flow = bsi.api->newInstance(&bsi);
  REQUIRE(p.flow != nullptr);
  CHECK(p.flow->api->isValid(p.flow) == 1);
  CHECK(p.flow->api->rootId(p.flow) != bsi.api->rootId(&bsi));
  SUBCASE("success") {
    p.flow->api->add(
        p.flow, nullptr,
        [](FutoInAsyncSteps* b, void*, const FutoInArgs*) {
          FutoInArgs args = args_of(3);
          b->api->success(b, &args);
        },
        nullptr);
    p.flow->api->add(p.flow, &p, &program::finish, nullptr);
    p.flow->api->execute(p.flow, &p, &program::unhandled);
    CHECK(end.get() == "sum 3");
  }
  SUBCASE("unhandled error") {
    p.flow->api->add(
        p.flow, nullptr,
        [](FutoInAsyncSteps* b, void*, const FutoInArgs*) { b->api->handle_error(b, "Oops", nullptr); }, nullptr);
    p.flow->api->execute(p.flow, &p, &program::unhandled);
    CHECK(end.get() == "Oops");
  }
  SUBCASE("freed by its handler") {
    p.frees_itself = true;
    p.flow->api->add(
        p.flow, nullptr,
        [](FutoInAsyncSteps* b, void*, const FutoInArgs*) { b->api->handle_error(b, "Oops", nullptr); }, nullptr);
    p.flow->api->execute(p.flow, &p, &program::unhandled);
    CHECK(end.get() == "Oops");
    p.flow = nullptr;
  }
  SUBCASE("freed while it waits") {
    p.flow->api->add(
        p.flow, nullptr, [](FutoInAsyncSteps* b, void*, const FutoInArgs*) { b->api->waitExternal(b); }, nullptr);
    p.flow->api->execute(p.flow, &p, &program::unhandled);
  }
  SUBCASE("freed without a start") { add_program(p.flow, nullptr); }
  if (p.flow != nullptr) p.flow->api->free(p.flow);
}

TEST_CASE("a flow that C executes again without a function for errors does not call the one of the last time") {
  testing::bench b;
  AsyncSteps flow{b.loop};
  int calls = 0;
  const auto fail = [](FutoInAsyncSteps* bsi, void*, const FutoInArgs*) {
    bsi->api->handle_error(bsi, "Oops", nullptr);
  };
  const FutoInAsyncSteps_error_callback count = [](FutoInAsyncSteps*, void* data, const char*) {
    ++*static_cast<int*>(data);
  };
  for (const FutoInAsyncSteps_error_callback function : {count, FutoInAsyncSteps_error_callback{}}) {
    FutoInAsyncSteps& bsi = binary(flow);
    bsi.api->add(&bsi, nullptr, fail, nullptr);
    bsi.api->execute(&bsi, &calls, function);
    b.drain();
  }
  CHECK(calls == 1);
  CHECK(b.unhandled == testing::lines{"Oops"});
}

TEST_CASE("C hands callbacks to the flow's loop, and cancels them") {
  async::event_loop loop;
  FutoInHandle late{};
  {
    AsyncSteps flow{loop};
    FutoInAsyncSteps& bsi = binary(flow);
    std::array<int, 4> runs{};
    const auto run = [](void* data) { ++*static_cast<int*>(data); };
    FutoInHandle soon = bsi.api->sched_immediate(&bsi, &runs[0], run);
    FutoInHandle dropped = bsi.api->sched_immediate(&bsi, &runs[1], run);
    FutoInHandle later = bsi.api->sched_deferred(&bsi, 2, &runs[2], run);
    late = bsi.api->sched_deferred(&bsi, 3'600'000, &runs[3], run);
    CHECK(bsi.api->is_same_thread(&bsi) == 1);
    CHECK(bsi.api->sched_is_valid(&bsi, &soon) == 1);
    CHECK(bsi.api->sched_is_valid(&bsi, &dropped) == 1);
    const FutoInHandle copy = dropped;
    bsi.api->sched_cancel(&bsi, &dropped);
    FutoInHandle same = copy;
    CHECK(bsi.api->sched_is_valid(&bsi, &dropped) == 0);
    CHECK(bsi.api->sched_is_valid(&bsi, &same) == 0);
    bsi.api->sched_cancel(&bsi, &same);
    while (runs[2] == 0) loop.run_for(1ms);
    CHECK(runs == std::array<int, 4>{1, 0, 1, 0});
    CHECK(bsi.api->sched_is_valid(&bsi, &soon) == 0);
    CHECK(bsi.api->sched_is_valid(&bsi, &later) == 0);
    CHECK(bsi.api->sched_is_valid(&bsi, &late) == 1);
    bsi.api->sched_cancel(&bsi, &soon);
  }
  {
    async::event_loop gone;
    AsyncSteps flow{gone};
    FutoInAsyncSteps& bsi = binary(flow);
    late = bsi.api->sched_deferred(&bsi, 3'600'000, nullptr, [](void*) {});
  }
  AsyncSteps flow{loop};
  FutoInAsyncSteps& bsi = binary(flow);
  CHECK(bsi.api->sched_is_valid(&bsi, &late) == 0);
  bsi.api->sched_cancel(&bsi, &late);
  FutoInHandle none{};
  CHECK(bsi.api->sched_is_valid(&bsi, &none) == 0);
  bsi.api->sched_cancel(&bsi, &none);
}

TEST_CASE("values of state() and of stack() are freed with the flow and the step") {
  struct value {
    static void* make(void* counts) {
      ++static_cast<int*>(counts)[0];
      return counts;
    }
    static void free(void* counts, void*) { ++static_cast<int*>(counts)[1]; }
  };
  std::array<int, 2> counts{};
  int freed = 0;
  static int* freed_at;
  freed_at = &freed;
  run_on_pool([&](IAsyncSteps& root) {
    root.add([&](IAsyncSteps& asi) {
      FutoInAsyncSteps& bsi = binary(asi);
      CHECK(bsi.api->stateVariable(&bsi, &counts, "v", &value::make, &value::free) == &counts);
      CHECK(bsi.api->stateVariable(&bsi, nullptr, "v", nullptr, nullptr) == &counts);
      CHECK(bsi.api->stateVariable(&bsi, nullptr, "w", [](void*) -> void* { return nullptr; }, nullptr) == nullptr);
      CHECK(bsi.api->stateVariable(&bsi, nullptr, "x", nullptr, nullptr) == nullptr);
      asi.state()["cpp"] = 1;
      CHECK(bsi.api->stateVariable(&bsi, nullptr, "cpp", nullptr, nullptr) == nullptr);
      void* const memory = bsi.api->stack(&bsi, 100, [](void*) { ++*freed_at; });
      CHECK(memory != nullptr);
      CHECK(freed == 0);
    });
    root.add([&](IAsyncSteps& asi) {
      CHECK(freed == 1);
      CHECK(asi.state<std::shared_ptr<void>>("v").get() == &counts);
    });
  });
  CHECK(counts == std::array<int, 2>{1, 1});
}

TEST_CASE("results of C that a step has no memory to take leave nothing behind") {
  static const FutoInType text_type{FTN_TYPE_STRING, nullptr};
  static const std::string text(5'000, 'x');
  std::size_t failed = 0;
  bool done = false;
  const testing::alloc_counter counter;
  for (std::size_t k = 0; !done; ++k) {
    for (int round = 0; round < 20; ++round) {
      testing::bench b;
      AsyncSteps flow{b.loop};
      testing::fail_alloc failing(k);
      try {
        flow.add(
            [](IAsyncSteps& asi) {
              FutoInArgs args{};
              args.arg0.type = args.arg1.type = &text_type;
              args.arg0.cstr = args.arg1.cstr = text.c_str();
              FutoInAsyncSteps& bsi = binary(asi);
              bsi.api->success(&bsi, &args);
            },
            [](IAsyncSteps& asi, steps::ErrorCode) { asi.success(); });
        flow.add([&](IAsyncSteps&, std::string a, std::string c) { done = a == text && c == text; },
                 [](IAsyncSteps& asi, steps::ErrorCode) { asi.success(); });
        flow.execute();
        b.drain();
      } catch (const std::bad_alloc&) {
        CHECK(failing.has_failed());
      }
      if (failing.has_failed()) {
        ++failed;
        done = false;
      }
    }
    REQUIRE(k < 1'000);
  }
  CHECK(failed > 0);
  CHECK(counter.live() < 10);
}
