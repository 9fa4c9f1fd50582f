// SPDX-License-Identifier: BSL-1.0
#include <algorithm>  // for min, max
#include <coroutine>  // for coroutine_handle
#include <cstddef>    // for size_t
#include <deque>      // for deque
#include <exception>  // for terminate
#include <new>        // for operator new
#include <string>     // for string

#include "../support/curves.hpp"           // for rounds_of
#include "../support/harness.hpp"          // for enroll, plan
#include "../support/machine.hpp"          // for wall_clock, resident_bytes
#include "../support/steps_workloads.hpp"  // for the workloads' sizes
#include "async/event_loop.hpp"            // for event_loop

/// Bare C++20 coroutines on the same event loop: no errors, no cancellation, no timeouts, no state. They lack
/// everything that a flow adds, and so are the lower bound for it.
namespace {

/// Frames from a free list. All frames have the same size in these workloads.
class pool {
 public:
  static void* allocate(std::size_t size) {
    if (size <= frame_size && free_ != nullptr) {
      node* const n = free_;
      free_ = n->next;
      return n;
    }
    return ::operator new((std::max)(size, frame_size));
  }
  static void release(void* frame, std::size_t size) noexcept {
    if (size > frame_size) return ::operator delete(frame);
    free_ = ::new (frame) node{free_};
  }

 private:
  struct node {
    node* next;
  };
  static constexpr std::size_t frame_size = 192;
  static inline node* free_ = nullptr;
};

struct heap {
  static void* allocate(std::size_t size) { return ::operator new(size); }
  static void release(void* frame, std::size_t) noexcept { ::operator delete(frame); }
};

template <class Memory>
struct flow {
  struct promise_type {
    flow get_return_object() noexcept { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
    static void* operator new(std::size_t size) { return Memory::allocate(size); }
    static void operator delete(void* frame, std::size_t size) noexcept { Memory::release(frame, size); }
  };
  std::coroutine_handle<promise_type> handle;
};

/// co_await turn{loop} moves the coroutine to the end of the loop's ready queue.
struct turn {
  async::event_loop& loop;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> handle) const {
    loop.immediate([handle] { handle.resume(); });
  }
  void await_resume() const noexcept {}
};

template <class Memory>
void execute(async::event_loop& loop, flow<Memory> f) {
  loop.immediate([handle = f.handle] { handle.resume(); });
}

void drain(async::event_loop& loop) {
  while (loop.iterate().have_work) {
  }
}

template <class Memory>
flow<Memory> once(std::size_t& done) {
  ++done;
  co_return;
}

template <class Memory>
flow<Memory> give_way(async::event_loop& loop, std::size_t times, std::size_t& done) {
  for (std::size_t i = 0; i < times; ++i) {
    co_await turn{loop};
    ++done;
  }
}

template <class Memory>
bench::sample create(std::size_t flows) {
  async::event_loop loop;
  std::size_t done = 0;
  const auto begin = bench::wall_clock::now();
  for (std::size_t i = 0; i < flows; ++i) {
    execute(loop, once<Memory>(done));
    drain(loop);
  }
  return bench::finished(begin, done, flows);
}

template <class Memory>
bench::sample alive(std::size_t flows, std::size_t together = bench::flows_alive, std::size_t warm_up = 0) {
  async::event_loop loop;
  std::size_t done = 0;
  std::size_t resident = 0;
  auto begin = bench::wall_clock::now();
  for (std::size_t left = flows + warm_up; left != 0;) {
    if (left == flows) begin = bench::wall_clock::now();
    const std::size_t size = (std::min)(left, together);
    for (std::size_t i = 0; i < size; ++i) execute(loop, give_way<Memory>(loop, 1, done));
    if (resident == 0) resident = bench::resident_bytes();
    drain(loop);
    left -= size;
  }
  bench::sample result = bench::finished(begin, done, flows + warm_up);
  result.figures["resident MB"] = static_cast<double>(resident) / 1e6;
  return result;
}

template <class Memory>
flow<Memory> wait(std::size_t& started) {
  ++started;
  co_await std::suspend_always{};
}

/// Coroutines that wait for an event from outside.
template <class Memory>
bench::sample waiting(std::size_t flows) {
  async::event_loop loop;
  std::size_t started = 0;
  const std::size_t before = bench::resident_bytes();
  std::deque<std::coroutine_handle<>> all;
  for (std::size_t i = 0; i < flows; ++i) {
    const flow<Memory> each = wait<Memory>(started);
    all.push_back(each.handle);
    execute(loop, each);
  }
  drain(loop);
  bench::sample result;
  result.figures["value"] = static_cast<double>(bench::resident_bytes() - before) / static_cast<double>(flows);
  if (started != flows) result.defect = "not all flows were started";
  for (const std::coroutine_handle<> each : all) each.destroy();
  return result;
}

template <class Memory>
bench::sample switches(std::size_t count) {
  async::event_loop loop;
  const std::size_t each = count / bench::flows_alive;
  std::size_t done = 0;
  const auto begin = bench::wall_clock::now();
  for (std::size_t i = 0; i < bench::flows_alive; ++i) execute(loop, give_way<Memory>(loop, each, done));
  const std::size_t resident = bench::resident_bytes();
  drain(loop);
  bench::sample result = bench::finished(begin, done, each * bench::flows_alive);
  result.figures["resident MB"] = static_cast<double>(resident) / 1e6;
  return result;
}

template <class Memory>
void enroll_memory(bench::plan& plan, const std::string& name, int rank) {
  plan.add("steps/create", {name, rank, plan.size(1'000'000, 200'000), create<Memory>});
  plan.add("steps/alive",
           {name, rank, plan.size(990'000, 300'000), [](std::size_t flows) { return alive<Memory>(flows); }});
  plan.add("steps/switch", {name, rank, plan.size(9'990'000, 1'980'000), switches<Memory>});
  plan.add("steps/waiting", {name, rank, 100'000, waiting<Memory>});
  plan.add_to_curve("growth/flows", [&](std::size_t together) {
    const std::size_t flows = bench::rounds_of(together, plan.size(1'000'000, 100'000)) * together;
    return bench::entry{name, rank, flows,
                        [together](std::size_t all) { return alive<Memory>(all, together, together); }};
  });
}

const bench::enroll these([](bench::plan& plan) {
  enroll_memory<pool>(plan, "C++20 coroutines, pooled frames", 4);
  enroll_memory<heap>(plan, "C++20 coroutines, malloc", 5);
});

}  // namespace
