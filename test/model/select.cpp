// SPDX-License-Identifier: BSL-1.0
//
// A thread waits for several queues and a result, under every schedule that Relacy finds.
#include "bounded_queue.hpp"
// After the seam.
#include "async/detail/future/result_word.hpp"
#include "async/detail/queue/queue_access.hpp"
#include "async/detail/select/select_watch.hpp"
#include "async/detail/select/selection.hpp"

using namespace model;
using async::detail::case_kind;
using async::detail::event_count;
using async::detail::parker;
using async::detail::queue_access;
using async::detail::queue_result;
using async::detail::result_word;
using async::detail::run_all;
using async::detail::selection;
using async::detail::wait_clock;

namespace {

/// Cases as those of async::select(), which need a pool's headers.
template <class Queue>
struct pop {
  static constexpr case_kind kind = case_kind::source;
  using watch = async::detail::queue_watch;
  Queue& queue;
  basket& into;
  queue_result attempt() {
    return queue_access::take(queue, [this](element&& e) {
      const element taken(std::move(e));
      into.put(taken);
    });
  }
  bool hint() const { return false; }
  event_count* source() { return &queue_access::items(queue); }
};
template <class Queue>
pop(Queue&, basket&) -> pop<Queue>;

template <class Queue>
struct push {
  static constexpr case_kind kind = case_kind::source;
  using watch = async::detail::queue_watch;
  Queue& queue;
  unsigned value;
  queue_result attempt() { return queue_access::put(queue, value); }
  bool hint() const { return false; }
  event_count* source() { return &queue_access::room(queue); }
};
template <class Queue>
push(Queue&, unsigned) -> push<Queue>;

struct ready {
  static constexpr case_kind kind = case_kind::source;
  using watch = async::detail::result_watch;
  result_word& word;
  queue_result attempt() const { return word.is_ready() ? queue_result::done : queue_result::blocked; }
  bool hint() const { return false; }
  result_word* source() const { return &word; }
};

struct limit {
  static constexpr case_kind kind = case_kind::limit;
  wait_clock::time_point at = wait_clock::now() + std::chrono::seconds(1);
  queue_result attempt() const { return wait_clock::now() >= at ? queue_result::done : queue_result::blocked; }
  bool hint() const { return false; }
  const wait_clock::time_point* time() const { return &at; }
};

constexpr std::size_t nothing_left = selection<limit>::nothing_left;

template <class... Cases>
std::size_t select(Cases... cases) {
  return selection<Cases...>(cases...).wait([](parker& self, const wait_clock::time_point* deadline) {
    deadline != nullptr ? static_cast<void>(self.park_until(*deadline)) : self.park();
  });
}

struct scene {
  ring<2> a{2}, b{2};
  basket got[3];
  void check_sum(unsigned expected) {
    while (take(a, got[0]) || take(b, got[0])) {
    }
    model::check(got[0].sum() + got[1].sum() + got[2].sum() == expected, "each comes out once");
  }
};

/// One thread takes from two queues what two others put in.
struct two_queues : rl::test_suite<two_queues, 3>, scene {
  void thread(unsigned index) {
    if (index == 0) {
      for (int i = 0; i < 2; ++i) model::check(select(pop{a, got[0]}, pop{b, got[0]}) != nothing_left, "it is open");
      model::check(got[0].count == 2, "one for each call");
    } else {
      model::check(index == 1 ? a.enqueue(1U) : b.enqueue(2U), "there is room");
    }
  }
  void after() { check_sum(3); }
};

/// One that is woken for an element of b and takes from a passes the wake-up on, to a listed waiter or a sleeper.
template <bool Asleep>
struct passed_on : rl::test_suite<passed_on<Asleep>, 3>, scene {
  void thread(unsigned index) {
    if (index == 2) {
      model::check(this->a.enqueue(1U) && this->b.enqueue(2U), "there is room");
    } else if (index == 1) {
      Asleep ? wait_and_take(this->b, this->got[1]) : select(pop{this->b, this->got[1]}) == 0;
    } else {
      basket wrong;
      while (select(pop{this->a, this->got[0]}, pop{this->b, wrong}) != 0) this->b.enqueue(2U);
    }
  }
  void after() {
    model::check(this->got[0].sum() == 1 && this->got[1].sum() == 2, "each comes out once");
    this->check_sum(3);
  }
};

/// One that gives up after a time passes on the wake-up that comes meanwhile.
struct in_time : rl::test_suite<in_time, 3>, scene {
  void thread(unsigned index) {
    if (index == 2) {
      model::check(b.enqueue(2U), "there is room");
    } else if (index == 1) {
      select(pop{b, got[1]});
    } else {
      basket wrong;
      if (select(pop{a, got[0]}, pop{b, wrong}, limit{}) == 1) b.enqueue(2U);
    }
  }
  void after() {
    model::check(got[1].sum() == 2, "it comes out once");
    check_sum(2);
  }
};

/// One waits for room in two queues, or for an element.
struct room : rl::test_suite<room, 3> {
  ring<1> a{1}, b{1}, c{1};
  basket got[3];
  std::size_t which = 9;
  void before() { a.enqueue(1U), b.enqueue(2U); }
  void thread(unsigned index) {
    if (index == 0) {
      which = select(push{a, 4}, push{b, 4}, pop{c, got[0]});
    } else if (index == 1) {
      take(a, got[1]);
    } else {
      take(b, got[2]);
    }
  }
  void after() {
    model::check(which <= 1, "there was room");
    model::check(wait_and_take(which == 0 ? a : b, got[0]) && got[0].sum() == 4, "it is in");
  }
};

/// A result becomes ready while the thread waits for it and takes an element.
struct result_and_element : rl::test_suite<result_and_element, 3>, scene {
  result_word word;
  async::detail::cell<unsigned> value{0};
  bool is_ready = false;
  void thread(unsigned index) {
    if (index == 2) {
      model::check(word.take(), "no other thread makes it");
      value.set(7);
      run_all(word.publish());
    } else if (index == 1) {
      a.enqueue(1U);
    } else {
      is_ready = select(pop{a, got[0]}, ready{word}) == 1;
      if (is_ready) model::check(value.get() == 7, "the value is there");
    }
  }
  void after() {
    model::check(is_ready == (got[0].count == 0), "one of them");
    check_sum(1);
  }
};

/// Closing ends it when nothing is left, and not before.
struct closing : rl::test_suite<closing, 3>, scene {
  void thread(unsigned index) {
    if (index == 0) {
      while (select(pop{a, got[0]}, pop{b, got[0]}) != nothing_left) {
      }
      model::check(got[0].sum() == 1, "the element was taken");
    } else if (index == 1) {
      a.close();
    } else {
      b.enqueue(1U);
      b.close();
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("select", argc, argv);
  const model::effort some{.at_most = 60'000, .random = 30'000};
  run.check<two_queues>("elements of two queues", some);
  run.check<passed_on<false>>("a wake-up for another queue goes to a listed waiter", some);
  run.check<passed_on<true>>("a wake-up for another queue goes to a sleeper", some);
  run.check<in_time>("a wake-up that comes as the time is up goes to a listed waiter", some);
  run.check<room>("room in one of two queues", some);
  run.check<result_and_element>("a result beside an element", some);
  run.check<closing>("closing", some);
  return run.result();
}
