// SPDX-License-Identifier: BSL-1.0
//
// The binary interface used out of order: calls at the wrong place, objects that are only lent, ends from within.
#include "steps/interop/binary.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/threadpool.hpp"
#include "steps/steps.hpp"
#include "unit/interop/interop_binary.h"
#include "unit/interop/interop_binary.hpp"

using namespace std::chrono_literals;
using steps::AsyncSteps;
using steps::ErrorCode;
using steps::IAsyncSteps;
using steps::interop::binary;
using steps::interop::binary_sync;
using steps::interop::binary_value;
using steps::interop::wrap;
using testing::args_of;
using testing::run_elsewhere;
using testing::run_on_pool;

namespace {

template <class Build>
std::string end_of(Build build) {
  async::event_loop loop;
  AsyncSteps flow{loop};
  build(flow);
  return testing::end_of(flow, loop);
}
std::string end_of_step(void* data, FutoInAsyncSteps_execute_callback f) {
  return end_of([=](IAsyncSteps& root) {
    FutoInAsyncSteps& bsi = binary(root);
    bsi.api->add(&bsi, data, f, nullptr);
  });
}

FutoInArgs args_of(const FutoInBinaryValue& value) {
  FutoInArgs args{};
  args.arg0 = value;
  return args;
}

}  // namespace

TEST_CASE("parallel() out of place has no branches, and callbacks and steps need a function") {
  static FutoInAsyncSteps* made;
  CHECK(end_of_step(nullptr, [](FutoInAsyncSteps* b, void*, const FutoInArgs*) {
          b->api->success(b, nullptr);
          made = b->api->parallel(b, nullptr, nullptr);
        }) == "InternalError");
  CHECK(made == nullptr);
  CHECK(end_of_step(nullptr, [](FutoInAsyncSteps* b, void*, const FutoInArgs*) {
          b->api->sched_immediate(b, nullptr, nullptr);
        }) == "InternalError");
  CHECK(end_of_step(nullptr, [](FutoInAsyncSteps* b, void*, const FutoInArgs*) {
          b->api->sched_deferred(b, 1, nullptr, nullptr);
        }) == "InternalError");
  CHECK(end_of_step(nullptr, [](FutoInAsyncSteps* b, void*, const FutoInArgs*) {
          b->api->loop(b, nullptr, nullptr, nullptr);
        }) == "InternalError");
}

TEST_CASE("success() empties its arguments, also behind a gap") {
  int freed = 0;
  static FutoInArgs args;
  args = FutoInArgs{};
  args.arg1 = counted_object(&freed);
  CHECK(end_of_step(nullptr, [](FutoInAsyncSteps* b, void*, const FutoInArgs*) { b->api->success(b, &args); }).empty());
  CHECK(args.arg1.type == nullptr);
  CHECK(freed == 1);
}

TEST_CASE("results that a step was lent are its flow's again when it throws") {
  int freed = 0;
  int got = 0;
  static FutoInAsyncSteps* kept;
  CHECK(end_of([&](IAsyncSteps& root) {
          FutoInAsyncSteps& bsi = binary(root);
          bsi.api->add(&bsi, &freed, pass_object, nullptr);
          bsi.api->add(
              &bsi, nullptr,
              [](FutoInAsyncSteps* b, void*, const FutoInArgs*) {
                kept = b;
                throw std::runtime_error("thrown");
              },
              [](FutoInAsyncSteps*, void*, const char*) {
                FutoInArgs args = args_of(4);
                kept->api->success(kept, &args);
              });
          root.add([&got](IAsyncSteps&, int n) { got = n; });
        }).empty());
  CHECK(got == 4);
  CHECK(freed == 1);
}

TEST_CASE("wrap() takes lent objects over, and leaves others to their owner") {
  const auto run = [](bool gets_one) {
    std::pair<int, int> freed{0, 0};  // of the flow, of the function
    CHECK(end_of([&](IAsyncSteps& root) {
            FutoInAsyncSteps& bsi = binary(root);
            if (gets_one) bsi.api->add(&bsi, &freed.first, pass_object, nullptr);
            bsi.api->add(
                &bsi, &freed.second,
                [](FutoInAsyncSteps* b, void* data, const FutoInArgs*) {
                  FutoInArgs own = args_of(counted_object(static_cast<int*>(data)));
                  wrap(*b, &own, [](IAsyncSteps& asi) { asi.add([](IAsyncSteps&, binary_value) {}); });
                  futoin_reset_binval(&own.arg0);
                },
                nullptr);
          }).empty());
    return freed;
  };
  CHECK(run(false) == std::pair(0, 1));
  CHECK(run(true) == std::pair(1, 1));
}

TEST_CASE("an object of C++ that C has no type for is not handed on") {
  const auto hands_on = [](FutoInAsyncSteps_execute_callback f) {
    return end_of([f](IAsyncSteps& root) {
      root.add([](IAsyncSteps& asi) { asi.success(std::make_shared<int>(7)); });
      FutoInAsyncSteps& bsi = binary(root);
      bsi.api->add(&bsi, nullptr, f, nullptr);
    });
  };
  static int seen;
  seen = 0;
  CHECK(hands_on([](FutoInAsyncSteps*, void*, const FutoInArgs* args) {
          if (args->arg0.type->flags == FTN_TYPE_CUSTOM_OBJECT) {
            seen = **static_cast<const std::shared_ptr<int>*>(args->arg0.p);
          }
        }).empty());
  CHECK(seen == 7);
  CHECK(hands_on(&hand_on) == "InternalError");
  CHECK(hands_on([](FutoInAsyncSteps* b, void*, const FutoInArgs* args) {
          wrap(*b, args, [](IAsyncSteps& asi) { asi.add([](IAsyncSteps&, binary_value) {}); });
        }) == "InternalError");
}

TEST_CASE("an object that another runtime frees does not enter wrap()") {
  int freed = 0;
  CHECK_THROWS_WITH_AS(run_elsewhere([&](FutoInAsyncSteps& bsi) {
                         bsi.api->add(&bsi, &freed, pass_object, nullptr);
                         bsi.api->add(
                             &bsi, nullptr,
                             [](FutoInAsyncSteps* b, void*, const FutoInArgs* args) {
                               wrap(*b, args, [](IAsyncSteps& asi) { asi.add([](IAsyncSteps&, binary_value) {}); });
                             },
                             nullptr);
                       }),
                       "InternalError", steps::Error);
  CHECK(freed == 1);
}

TEST_CASE("branches on a pool that make the same value share one") {
  static std::atomic<int> made;
  static std::atomic<int> freed;
  static std::atomic<int> differing;
  made = freed = differing = 0;
  static std::atomic<void*> first;
  async::threadpool pool(3);
  for (int round = 0; round != 200; ++round) {
    first = nullptr;
    AsyncSteps flow{pool};
    FutoInAsyncSteps& bsi = binary(flow);
    bsi.api->add(
        &bsi, nullptr,
        [](FutoInAsyncSteps* b, void*, const FutoInArgs*) {
          FutoInAsyncSteps* const branches = b->api->parallel(b, nullptr, nullptr);
          for (int i = 0; i != 4; ++i) {
            branches->api->add(
                branches, nullptr,
                [](FutoInAsyncSteps* branch, void*, const FutoInArgs*) {
                  auto* const value = static_cast<std::atomic<int>*>(branch->api->stateVariable(
                      branch, nullptr, "v",
                      [](void*) -> void* {
                        ++made;
                        return new std::atomic<int>(0);
                      },
                      [](void*, void* object) {
                        ++freed;
                        delete static_cast<std::atomic<int>*>(object);
                      }));
                  ++*value;
                  void* none = nullptr;
                  if (!first.compare_exchange_strong(none, value) && none != value) ++differing;
                },
                nullptr);
          }
        },
        nullptr);
    flow.promise().get();
  }
  CHECK(differing == 0);
  CHECK(made >= 200);
  CHECK(freed == made);
}

TEST_CASE("a function for unhandled errors is that of one execution, and of the root") {
  static std::vector<std::string> calls;
  calls.clear();
  const auto fails = [](FutoInAsyncSteps* b, void*, const FutoInArgs*) { b->api->handle_error(b, "Bad", nullptr); };
  const auto note = [](FutoInAsyncSteps* b, void* data, const char* code) {
    CHECK(b->api->rootId(b) != 0);
    calls.push_back(static_cast<const char*>(data) + std::string(code));
  };
  async::event_loop loop;
  loop.on_unhandled([](std::exception_ptr) { calls.emplace_back("the loop's"); });
  AsyncSteps parent{loop};
  SUBCASE("of newInstance()") {
    FutoInAsyncSteps& bsi = binary(parent);
    FutoInAsyncSteps* const root = bsi.api->newInstance(&bsi);
    for (const char* data : {"first ", static_cast<const char*>(nullptr), "third "}) {
      root->api->add(root, nullptr, fails, nullptr);
      root->api->execute(root, const_cast<char*>(data), data != nullptr ? +note : nullptr);
      loop.run_for(1ms);
    }
    root->api->free(root);
    CHECK(calls == std::vector<std::string>{"first Bad", "the loop's", "third Bad"});
  }
  SUBCASE("of a root in C++, whose steps have other memory by then") {
    FutoInAsyncSteps& bsi = binary(parent);
    bsi.api->add(
        &bsi, nullptr,
        [](FutoInAsyncSteps* b, void*, const FutoInArgs*) {
          std::memset(b->api->stack(b, 300, nullptr), 0x5a, 300);
          b->api->handle_error(b, "Bad", nullptr);
        },
        nullptr);
    static char data[] = "C ";
    bsi.api->execute(&bsi, data, note);
    loop.run_for(1ms);
    CHECK(calls == std::vector<std::string>{"C Bad"});
  }
  SUBCASE("a hook of C++ stays") {
    parent.state().set_unhandled_error([](ErrorCode code) { calls.push_back("C++ " + std::string(code.view())); });
    FutoInAsyncSteps& bsi = binary(parent);
    bsi.api->add(&bsi, nullptr, fails, nullptr);
    bsi.api->execute(&bsi, nullptr, nullptr);
    loop.run_for(1ms);
    CHECK(calls == std::vector<std::string>{"C++ Bad"});
  }
  SUBCASE("not of a step that calls execute()") {
    FutoInAsyncSteps& bsi = binary(parent);
    static char data[] = "step ";
    static decltype(+note) hook;
    hook = note;
    bsi.api->add(
        &bsi, nullptr, [](FutoInAsyncSteps* b, void*, const FutoInArgs*) { b->api->execute(b, data, hook); }, nullptr);
    parent.execute();
    loop.run_for(1ms);
    CHECK(calls == std::vector<std::string>{"the loop's"});
  }
}

TEST_CASE("a root that one branch frees is reported by no other") {
  static std::atomic<int> freed;
  static std::atomic<int> come;
  static std::atomic<bool> is_freed;
  static std::atomic<int> calls_after;
  static FutoInAsyncSteps* root;
  static int delay;
  calls_after = 0;
  async::threadpool pool(2);
  for (int round = 0; round != 1'000; ++round) {
    delay = round % 50;
    freed = 0;
    come = 0;
    is_freed = false;
    AsyncSteps parent{pool};
    FutoInAsyncSteps& bsi = binary(parent);
    root = bsi.api->newInstance(&bsi);
    root->api->add(
        root, nullptr,
        [](FutoInAsyncSteps* b, void*, const FutoInArgs*) {
          b->api->stateVariable(
              b, nullptr, "k", [](void*) -> void* { return &freed; },
              [](void*, void*) {
                freed = 1;
                freed.notify_one();
              });
          FutoInAsyncSteps* const branches = b->api->parallel(b, nullptr, nullptr);
          branches->api->add(
              branches, nullptr,
              [](FutoInAsyncSteps*, void*, const FutoInArgs*) {
                ++come;
                for (int i = 0; come != 2 && i != 10'000; ++i) std::this_thread::yield();
                for (int i = 0; i != 20 * delay; ++i) static_cast<void>(come.load());
                root->api->free(root);
                is_freed = true;
              },
              nullptr);
          branches->api->add(
              branches, nullptr,
              [](FutoInAsyncSteps* branch, void*, const FutoInArgs*) {
                ++come;
                for (int i = 0; come != 2 && i != 10'000; ++i) std::this_thread::yield();
                branch->api->handle_error(branch, "Bad", nullptr);
              },
              nullptr);
        },
        nullptr);
    root->api->execute(root, nullptr, [](FutoInAsyncSteps* b, void*, const char*) {
      if (is_freed || b->api == nullptr) ++calls_after;
    });
    freed.wait(0);
  }
  CHECK(calls_after == 0);
}

TEST_CASE("a step inside wrap() ends the flow around it, and is the last one of wrap()") {
  static FutoInAsyncSteps* outer;
  static bool waits;
  static bool goes_on;
  static int cancelled;
  for (const bool w : {true, false}) {
    waits = w;
    CAPTURE(waits);
    goes_on = false;
    cancelled = 0;
    async::event_loop loop;
    AsyncSteps parent{loop};
    FutoInAsyncSteps& bsi = binary(parent);
    outer = other_runtime(bsi.api->newInstance(&bsi));
    outer->api->add(
        outer, nullptr,
        [](FutoInAsyncSteps* b, void*, const FutoInArgs*) {
          wrap(*b, [](IAsyncSteps& asi) {
            asi.add([](IAsyncSteps& inner) {
              if (waits) inner.setCancel([] { ++cancelled; });
              outer->api->cancel(outer);
            });
            asi.add([](IAsyncSteps&) { goes_on = true; });
          });
        },
        nullptr);
    outer->api->execute(outer, nullptr, nullptr);
    while (outer->api->isValid(outer) == 0) loop.run_for(1ms);
    CHECK(cancelled == (waits ? 1 : 0));
    CHECK_FALSE(goes_on);
    outer->api->free(outer);
  }
}

TEST_CASE("a foreign loop that ends first leaves nothing behind") {
  for (int turns = 0; turns != 4; ++turns) {
    auto loop = std::make_unique<async::event_loop>();
    AsyncSteps parent{*loop};
    FutoInAsyncSteps& bsi = binary(parent);
    FutoInAsyncSteps* const outer = other_runtime(bsi.api->newInstance(&bsi));
    std::pair<int, int> ended{0, 0};
    outer->api->add(
        outer, &ended,
        [](FutoInAsyncSteps* b, void* data, const FutoInArgs*) {
          auto* const counts = static_cast<std::pair<int, int>*>(data);
          b->api->setCancel(b, data, [](FutoInAsyncSteps*, void* d) { ++static_cast<std::pair<int, int>*>(d)->first; });
          wrap(*b, [counts](IAsyncSteps& asi) {
            asi.add([counts](IAsyncSteps& inner) { inner.setCancel([counts] { ++counts->second; }); });
          });
        },
        nullptr);
    outer->api->execute(outer, nullptr, nullptr);
    for (int i = 0; i != turns; ++i) loop->iterate();
    loop.reset();
    CHECK(ended == std::pair(turns > 0 ? 1 : 0, turns > 1 ? 1 : 0));
    outer->api->free(outer);
  }
}

namespace {

/// A step of a runtime with a table of its own: it ends when the test says so.
struct foreign_step : FutoInAsyncSteps {
  explicit foreign_step(std::ptrdiff_t r) : FutoInAsyncSteps(&table), root(r) {}

  static foreign_step& of(FutoInAsyncSteps* b) { return *static_cast<foreign_step*>(b); }
  /// Its cancel callback, as at a timeout.
  void cancel() { cancelled(this, data); }
  bool waits() const { return cancelled != nullptr; }
  static std::size_t count_callbacks() { return callbacks.size(); }
  static void run_callbacks() {
    while (!callbacks.empty()) {
      const callback next = callbacks.front();
      callbacks.pop_front();
      next.call(next.data);
    }
  }

  const std::ptrdiff_t root;
  int successes = 0;
  FutoInAsyncSteps_cancel_callback cancelled = nullptr;
  void* data = nullptr;
  std::deque<std::vector<std::max_align_t>> memory;

 private:
  struct callback {
    std::uintptr_t number;
    void* data;
    void (*call)(void*);
  };
  static FutoInAsyncStepsAPI make_table() {
    FutoInAsyncStepsAPI t{};
    t.success = [](FutoInAsyncSteps* b, FutoInArgs*) { ++of(b).successes; };
    t.handle_error = [](FutoInAsyncSteps*, const char* code, const char*) { FAIL(code); };
    t.waitExternal = [](FutoInAsyncSteps*) {};
    t.setCancel = [](FutoInAsyncSteps* b, void* d, FutoInAsyncSteps_cancel_callback f) {
      of(b).cancelled = f;
      of(b).data = d;
    };
    t.stack = [](FutoInAsyncSteps* b, std::size_t bytes, void (*)(void*)) -> void* {
      return of(b).memory.emplace_back(bytes / sizeof(std::max_align_t) + 1).data();
    };
    t.rootId = [](FutoInAsyncSteps* b) { return of(b).root; };
    t.sched_immediate = [](FutoInAsyncSteps*, void* d, void (*f)(void*)) {
      static std::uintptr_t last = 0;
      callbacks.push_back({++last, d, f});
      return FutoInHandle{reinterpret_cast<void*>(last), nullptr, 0};
    };
    t.sched_deferred = [](FutoInAsyncSteps*, std::uint32_t, void*, void (*)(void*)) { return FutoInHandle{}; };
    t.sched_cancel = [](FutoInAsyncSteps*, FutoInHandle* h) {
      std::erase_if(callbacks, [h](const callback& c) { return reinterpret_cast<void*>(c.number) == h->data1; });
    };
    return t;
  }

  static inline std::deque<callback> callbacks;
  static const FutoInAsyncStepsAPI table;
};
const FutoInAsyncStepsAPI foreign_step::table = foreign_step::make_table();

}  // namespace

TEST_CASE("a place that was granted just before its step is cancelled is given back once") {
  steps::Mutex one;
  steps::Mutex two(2);
  SUBCASE("while another step of the root has it, too") {
    binary_sync sync(one);
    FutoInSync& mutex = sync.get();
    foreign_step holder{1}, granted{2}, nested{2}, next{3};
    mutex.api->lock(&holder, &mutex);
    mutex.api->lock(&granted, &mutex);
    foreign_step::run_callbacks();
    mutex.api->unlock(&holder, &mutex);
    foreign_step::run_callbacks();
    CHECK(granted.successes == 1);  // its step has not ended yet
    mutex.api->lock(&nested, &mutex);
    granted.cancel();
    mutex.api->lock(&next, &mutex);
    foreign_step::run_callbacks();
    CHECK(next.waits());
    CHECK(next.successes == 0);
    mutex.api->unlock(&nested, &mutex);
    foreign_step::run_callbacks();
    CHECK(next.successes == 1);
    mutex.api->unlock(&next, &mutex);
  }
  SUBCASE("of two places that the root was granted") {
    binary_sync sync(two);
    FutoInSync& mutex = sync.get();
    foreign_step first{1}, second{9}, ends{2}, cancelled{2}, later{3}, last{4}, next{5};
    mutex.api->lock(&first, &mutex);
    mutex.api->lock(&second, &mutex);
    mutex.api->lock(&cancelled, &mutex);
    mutex.api->lock(&ends, &mutex);
    foreign_step::run_callbacks();
    mutex.api->unlock(&first, &mutex);
    mutex.api->unlock(&second, &mutex);
    foreign_step::run_callbacks();
    CHECK(cancelled.successes + ends.successes == 2);
    mutex.api->unlock(&ends, &mutex);
    cancelled.cancel();
    foreign_step::run_callbacks();
    mutex.api->lock(&later, &mutex);
    mutex.api->lock(&last, &mutex);
    mutex.api->lock(&next, &mutex);
    foreign_step::run_callbacks();
    CHECK(!later.waits());
    CHECK(!last.waits());
    CHECK(next.waits());  // the places are two again
    mutex.api->unlock(&later, &mutex);
    mutex.api->unlock(&last, &mutex);
    foreign_step::run_callbacks();
    CHECK(next.successes == 1);
    mutex.api->unlock(&next, &mutex);
  }
}

TEST_CASE("a step that is cancelled while its grant is on its way leaves no callback with its runtime") {
  steps::Mutex one;
  binary_sync sync(one);
  FutoInSync& mutex = sync.get();
  foreign_step holder{1}, waiter{2}, next{3};
  mutex.api->lock(&holder, &mutex);
  mutex.api->lock(&waiter, &mutex);
  foreign_step::run_callbacks();
  CHECK(waiter.waits());
  mutex.api->unlock(&holder, &mutex);
  CHECK(foreign_step::count_callbacks() == 1);
  waiter.cancel();
  CHECK(foreign_step::count_callbacks() == 0);
  mutex.api->lock(&next, &mutex);
  CHECK(!next.waits());
  CHECK(waiter.successes == 0);
  mutex.api->unlock(&next, &mutex);
}
