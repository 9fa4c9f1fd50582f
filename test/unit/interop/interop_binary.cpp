// SPDX-License-Identifier: BSL-1.0
//
// Steps in C in flows in C++: results and errors.
#include "steps/interop/binary.hpp"

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "async/event_loop.hpp"
#include "async/future.hpp"
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
using testing::entries;
using testing::run_elsewhere;
using testing::run_on_pool;

TEST_CASE("the structures have the layout and order of FTN12 2.7") {
  constexpr std::size_t word = sizeof(void*);
  CHECK(sizeof(FutoInAsyncStepsAPI) == 25 * word);
  CHECK(offsetof(FutoInAsyncStepsAPI, stack) == 3 * word);
  CHECK(offsetof(FutoInAsyncStepsAPI, handle_error) == 5 * word);
  CHECK(offsetof(FutoInAsyncStepsAPI, loop) == 9 * word);
  CHECK(offsetof(FutoInAsyncStepsAPI, execute) == 13 * word);
  CHECK(offsetof(FutoInAsyncStepsAPI, addSync) == 15 * word);
  CHECK(offsetof(FutoInAsyncStepsAPI, free) == 19 * word);
  CHECK(offsetof(FutoInAsyncStepsAPI, sched_cancel) == 22 * word);
  CHECK(offsetof(FutoInAsyncStepsAPI, is_same_thread) == 24 * word);
  CHECK(sizeof(FutoInSyncAPI) == 2 * word);
  CHECK(sizeof(FutoInAsyncSteps) == word);
  CHECK(offsetof(FutoInBinaryValue, u64) == (alignof(std::uint64_t) > word ? alignof(std::uint64_t) : word));
  CHECK(offsetof(FutoInBinaryValue, custom_data) == offsetof(FutoInBinaryValue, u64) + 8);
  CHECK(offsetof(FutoInBinaryValue, length) == offsetof(FutoInBinaryValue, custom_data) + word);
  CHECK(offsetof(FutoInArgs, arg3) == 3 * sizeof(FutoInBinaryValue));
  CHECK(offsetof(FutoInHandle, data3) == 2 * word);
}

TEST_CASE("a program in C runs on a loop, on a pool and in fixed memory, with its results in C++") {
  const std::vector<int> all{1, 2, 3, 10, 12, 20, 20, 31};
  const auto build = [](journal& j) {
    return [&j](IAsyncSteps& root) {
      add_program(&binary(root), &j);
      root.add([](IAsyncSteps& asi, int six, std::string text) { asi.success(text + std::to_string(six)); });
    };
  };
  SUBCASE("pool") {
    journal j{};
    CHECK(run_on_pool<std::string>(build(j)) == "six6");
    CHECK(entries(j) == all);
  }
  SUBCASE("fixed memory") {
    journal j{};
    using fixed = steps::NitroSteps<steps::nitro::MaxSteps<16>, steps::nitro::ArenaBytes<4096>,
                                    steps::nitro::MaxStateBytes<1024>, steps::nitro::MaxParallel<2>,
                                    steps::nitro::MaxStackAllocs<16>, steps::nitro::MaxResultBytes<128>>;
    CHECK(run_on_pool<std::string, fixed>(build(j)) == "six6");
    CHECK(entries(j) == all);
  }
  SUBCASE("loop") {
    journal j{};
    async::event_loop loop;
    AsyncSteps flow{loop};
    build(j)(flow);
    async::future<std::string> end = flow.promise<std::string>();
    while (!end.is_ready()) loop.run_for(1ms);
    CHECK(end.get() == "six6");
    CHECK(entries(j) == all);
  }
  SUBCASE("another runtime") {
    journal j{};
    run_elsewhere([&j](FutoInAsyncSteps& other) { add_program(&other, &j); });
    CHECK(entries(j) == all);
  }
}

TEST_CASE("results of all types reach C, and come back as they were") {
  journal j{};
  run_on_pool([&j](IAsyncSteps& root) {
    FutoInAsyncSteps& bsi = binary(root);
    root.add([](IAsyncSteps& asi) {
      asi.success(true, std::string("t\0t", 3), std::u16string(u"wide"), std::vector<double>{0.5, 0.25});
    });
    bsi.api->add(&bsi, &j, hand_on, nullptr);
    root.add([&j](IAsyncSteps& asi, bool b, std::string s, std::u16string w, std::vector<double> v) {
      if (b && s == std::string("t\0t", 3) && w == u"wide" && v == std::vector<double>{0.5, 0.25}) note(&j, 1);
      asi.success(static_cast<signed char>(-8), std::uint16_t{16}, 32L, 64ULL);
    });
    bsi.api->add(&bsi, &j, note_results, nullptr);
    root.add([](IAsyncSteps& asi) { asi.success(std::vector<char>{'a'}, std::u32string(U"wider"), 1.5F, 'c'); });
    bsi.api->add(&bsi, &j, note_results, nullptr);
  });
  constexpr int long_type = sizeof(long) == 8 ? FTN_TYPE_INT64 : FTN_TYPE_INT32;
  constexpr int char_type = std::is_signed_v<char> ? FTN_TYPE_INT8 : FTN_TYPE_UINT8;
  CHECK(entries(j) == std::vector<int>{1, FTN_TYPE_INT8, FTN_TYPE_UINT16, long_type, FTN_TYPE_UINT64,
                                       FTN_TYPE_ARRAY | char_type, FTN_TYPE_STRING32, FTN_TYPE_FLOAT, char_type});
}

TEST_CASE("branches that C adds exclude each other by a sync object, and give it back after an error") {
  steps::Mutex mutex;
  binary_sync in_c(mutex);
  journal j{};
  guarded g{&in_c.get(), &j, 0};
  const std::vector<int> one_by_one{1, -1, 1, -1, 1, -1, 1, -1, 100};
  SUBCASE("on a pool") {
    run_on_pool([&](IAsyncSteps& root) {
      add_guarded_branches(&binary(root), &g);
      root.sync(mutex, [](IAsyncSteps&) {});
    });
    std::vector<int> seen = entries(j);
    CHECK(std::erase(seen, 100) == 1);  // of whichever section came last
    CHECK(seen == std::vector<int>(one_by_one.begin(), one_by_one.end() - 1));
  }
  SUBCASE("on one loop, in the order in which they were added") {
    async::event_loop loop;
    AsyncSteps flow{loop};
    add_guarded_branches(&binary(flow), &g);
    flow.sync(mutex, [](IAsyncSteps&) {});
    CHECK(testing::end_of(flow, loop) == "");
    CHECK(entries(j) == one_by_one);
  }
  SUBCASE("beside a flow in C++ that is inside") {
    async::event_loop loop;
    AsyncSteps holder{loop};
    holder.sync(mutex, [](IAsyncSteps& asi) { asi.waitExternal(); });
    async::future<void> held = holder.promise();
    AsyncSteps flow{loop};
    add_guarded_branches(&binary(flow), &g);
    async::future<void> end = flow.promise();
    loop.run_for(1ms);
    CHECK(entries(j).empty());
    holder.cancel();
    while (!end.is_ready()) loop.run_for(1ms);
    CHECK(entries(j) == one_by_one);
  }
}

TEST_CASE("results of all types arrive from C, in steps and futures") {
  int first = 0;
  int checked = 0;
  run_on_pool([&](IAsyncSteps& root) {
    FutoInAsyncSteps& bsi = binary(root);
    bsi.api->add(&bsi, &first, pass_all_kinds, nullptr);
    root.add([&](IAsyncSteps&, bool a, std::int8_t b, std::int16_t c, std::int64_t d) {
      checked += a && b == -8 && c == -16 && d == -64 ? 4 : 0;
      first = 4;
    });
    bsi.api->add(&bsi, &first, pass_all_kinds, nullptr);
    root.add([&](IAsyncSteps&, std::uint8_t a, std::uint16_t b, std::uint32_t c, std::uint64_t d) {
      checked += a == 208 && b == 50016 && c == 4000000032U && d == 18000000000000000064ULL ? 4 : 0;
      first = 8;
    });
    bsi.api->add(&bsi, &first, pass_all_kinds, nullptr);
    root.add([&](IAsyncSteps&, float a, double b) { checked += a == 0.5F && b == 0.25 ? 2 : 0; });
    bsi.api->add(&bsi, nullptr, pass_texts, nullptr);
    root.add([&](IAsyncSteps&, const std::string& a, std::u16string&& b, std::u32string c, std::string d) {
      checked += a == std::string("a\0b", 3) && b == u"wide" && c == U"wider\U0001F600" && d.empty() ? 4 : 0;
    });
    bsi.api->add(&bsi, nullptr, pass_arrays, nullptr);
    root.add([&](IAsyncSteps&, std::vector<std::int32_t> a) {  // may take fewer
      checked += a == std::vector<std::int32_t>{1, 2, 3} ? 1 : 0;
    });
  });
  CHECK(checked == 15);
  CHECK(run_on_pool<std::vector<std::int32_t>>([](IAsyncSteps& root) {
          FutoInAsyncSteps& bsi = binary(root);
          bsi.api->add(&bsi, nullptr, pass_arrays, nullptr);
        }).size() == 3);
}

TEST_CASE("a result of another type than the step takes is an error that says so") {
  const auto attempt = [](auto step) {
    std::string info;
    run_on_pool([&](IAsyncSteps& root) {
      root.add(
          [&](IAsyncSteps& asi) {
            FutoInAsyncSteps& bsi = binary(asi);
            bsi.api->add(&bsi, nullptr, pass_texts, nullptr);
            asi.add(step);
          },
          [&](IAsyncSteps& asi, ErrorCode code) {
            info = std::string(code) + ": " + asi.state().error_info().str();
            asi.success();
          });
    });
    return info;
  };
  CHECK(attempt([](IAsyncSteps&, int) {}).starts_with("InternalError: the step takes (int)"));
  CHECK(attempt([](IAsyncSteps&, std::string, std::string) {}).starts_with("InternalError: "));
  CHECK(attempt([](IAsyncSteps&, std::string, std::u16string, std::u32string, std::string, int) {
        }).starts_with("InternalError: "));
  CHECK(attempt([](IAsyncSteps&, std::vector<bool>) {}).starts_with("InternalError: "));
  CHECK(attempt([](IAsyncSteps&, std::string) {}).empty());
}

TEST_CASE("a custom object is freed once, wherever its way ends") {
  int freed = 0;
  const auto way = [&freed](auto build) {
    freed = 0;
    run_on_pool([&](IAsyncSteps& root) {
      FutoInAsyncSteps& bsi = binary(root);
      bsi.api->add(&bsi, &freed, pass_object, nullptr);
      build(root, bsi);
    });
    return freed;
  };
  CHECK(way([](IAsyncSteps&, FutoInAsyncSteps&) {}) == 1);
  CHECK(way([](IAsyncSteps& root, FutoInAsyncSteps&) { root.add([](IAsyncSteps&) {}); }) == 1);
  CHECK(way([&](IAsyncSteps& root, FutoInAsyncSteps&) {
          root.add([&](IAsyncSteps& asi, binary_value v) {
            CHECK(std::string(static_cast<const char*>(v.get().p)) == "object");
            CHECK(freed == 0);
            asi.success(std::move(v));
          });
          root.add([&](IAsyncSteps&, binary_value) { CHECK(freed == 0); });
          root.add([&](IAsyncSteps&) { CHECK(freed == 1); });
        }) == 1);
  CHECK(way([&](IAsyncSteps& root, FutoInAsyncSteps& bsi) {  // C hands it on, twice, and drops it
          bsi.api->add(&bsi, nullptr, hand_on, nullptr);
          bsi.api->add(&bsi, nullptr, hand_on, nullptr);
          root.add([](IAsyncSteps& asi, binary_value v) { asi.success(std::move(v)); });
          bsi.api->add(&bsi, nullptr, hand_on, nullptr);
          bsi.api->add(&bsi, nullptr, [](FutoInAsyncSteps*, void*, const FutoInArgs*) {}, nullptr);
        }) == 1);
  CHECK(way([&](IAsyncSteps& root, FutoInAsyncSteps&) {  // a step that takes another type
          root.add([](IAsyncSteps& asi) { asi.success(); });
        }) == 1);
  CHECK(way([](IAsyncSteps& root, FutoInAsyncSteps&) {
          root.add([](IAsyncSteps& asi, binary_value v) {
            FutoInAsyncSteps& here = binary(asi);
            FutoInArgs args{};
            args.arg0 = v.release();
            wrap(here, &args, [](IAsyncSteps& in) { in.add([](IAsyncSteps&, binary_value) {}); });
            futoin_reset_binval(&args.arg0);
          });
        }) == 1);
}

TEST_CASE("an object of C++ is lent to C for the call") {
  struct point {
    int x;
  };
  int seen = 0;
  run_on_pool([&seen](IAsyncSteps& root) {
    root.add([](IAsyncSteps& asi) { asi.success(std::make_shared<point>(point{7})); });
    FutoInAsyncSteps& bsi = binary(root);
    bsi.api->add(
        &bsi, &seen,
        [](FutoInAsyncSteps*, void* to, const FutoInArgs* args) {
          if (args->arg0.type->flags != FTN_TYPE_CUSTOM_OBJECT) return;
          *static_cast<int*>(to) = (*static_cast<const std::shared_ptr<point>*>(args->arg0.p))->x;
        },
        nullptr);
  });
  CHECK(seen == 7);
}

TEST_CASE("errors pass between C and C++, with their infos") {
  std::vector<std::string> log;
  run_on_pool([&log](IAsyncSteps& root) {
    root.add(
        [](IAsyncSteps& asi) {
          FutoInAsyncSteps& bsi = binary(asi);
          bsi.api->add(
              &bsi, nullptr,
              [](FutoInAsyncSteps* b, void*, const FutoInArgs*) {
                std::array<char, 16> code{"FromC"};
                b->api->handle_error(b, code.data(), "an info");
                code.fill('x');
              },
              nullptr);
        },
        [&log](IAsyncSteps& asi, ErrorCode code) {
          log.push_back(std::string(code) + ", " + asi.state().error_info().str());
          asi.success();
        });
    FutoInAsyncSteps& bsi = binary(root);
    bsi.api->add(
        &bsi, &log,
        [](FutoInAsyncSteps* b, void*, const FutoInArgs*) {
          wrap(*b, [](IAsyncSteps& asi) { asi.add([](IAsyncSteps& inner) { inner.error("FromCpp", "info"); }); });
        },
        [](FutoInAsyncSteps* b, void* to, const char* code) {
          auto& all = *static_cast<std::vector<std::string>*>(to);
          all.push_back(code);
          all.push_back(static_cast<const char*>(b->api->stateVariable(b, nullptr, "error_info", nullptr, nullptr)));
          const void* const last = b->api->stateVariable(b, nullptr, "last_exception", nullptr, nullptr);
          if (*static_cast<const std::exception_ptr*>(last) != nullptr) all.push_back("thrown");
          b->api->success(b, nullptr);
        });
    bsi.api->add(
        &bsi, &log, [](FutoInAsyncSteps* b, void*, const FutoInArgs*) { b->api->breakLoop(b, "none"); },
        [](FutoInAsyncSteps* b, void* to, const char* code) {
          static_cast<std::vector<std::string>*>(to)->push_back(code);
          b->api->success(b, nullptr);
        });
  });
  CHECK(log == std::vector<std::string>{"FromC, an info", "FromCpp", "info", "thrown", "InternalError"});
}

TEST_CASE("misuse by C is an error of the step") {
  const auto attempt = [](FutoInAsyncSteps_execute_callback f) {
    std::string seen;
    run_on_pool([&](IAsyncSteps& root) {
      FutoInAsyncSteps& bsi = binary(root);
      bsi.api->add(&bsi, &seen, f, [](FutoInAsyncSteps* b, void* to, const char* code) {
        *static_cast<std::string*>(to) = code;
        b->api->success(b, nullptr);
      });
    });
    return seen;
  };
  CHECK(attempt([](FutoInAsyncSteps* b, void*, const FutoInArgs*) {
          b->api->success(b, nullptr);
          b->api->success(b, nullptr);
        }) == "InternalError");
  CHECK(attempt([](FutoInAsyncSteps* b, void*, const FutoInArgs*) { b->api->execute(b, nullptr, nullptr); }) ==
        "InternalError");
  CHECK(attempt([](FutoInAsyncSteps* b, void*, const FutoInArgs*) {
          FutoInAsyncSteps* const p = b->api->parallel(b, nullptr, nullptr);
          p->api->success(p, nullptr);
        }) == "InternalError");
  CHECK(attempt([](FutoInAsyncSteps* b, void*, const FutoInArgs*) {
          constexpr std::size_t half_of_all = (std::numeric_limits<std::size_t>::max)() / 2 + 1;
          if (b->api->stack(b, half_of_all, nullptr) != nullptr) std::abort();
        }) == "InternalError");
  CHECK(attempt([](FutoInAsyncSteps* b, void*, const FutoInArgs*) { b->api->add(b, nullptr, nullptr, nullptr); }) ==
        "InternalError");
  CHECK(attempt([](FutoInAsyncSteps* b, void*, const FutoInArgs*) { b->api->free(b); }).empty());
}
