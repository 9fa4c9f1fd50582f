// SPDX-License-Identifier: BSL-1.0
//
// A coroutine waits for several queues, a result and a time, under every schedule that Relacy finds. It goes on in the
// call that wakes it, or by a message to its own thread, which may destroy it.
#include "bounded_queue.hpp"
// After the seam.
#include "async/detail/future/result_word.hpp"
#include "async/detail/queue/queue_access.hpp"
#include "async/detail/select/select_coroutine.hpp"
#include "async/detail/select/select_watch.hpp"

using namespace model;
using async::detail::atomic;
using async::detail::case_kind;
using async::detail::cell;
using async::detail::coroutine_wait;
using async::detail::event_count;
using async::detail::queue_access;
using async::detail::queue_result;
using async::detail::result_word;
using async::detail::run_all;
using async::detail::select_coroutine;
using async::detail::select_wait;
using async::detail::select_waiter;

namespace {

/// Cases as those of async::selection(), which need a pool's headers.
template <class Queue>
struct pop {
  static constexpr case_kind kind = case_kind::source;
  using watch = async::detail::queue_watch;
  Queue& queue;
  basket& into;
  cell<unsigned>& looks;  // the coroutine's
  queue_result attempt() {
    const queue_result result = queue_access::take(queue, [this](element&& e) {
      const element taken(std::move(e));
      into.put(taken);
    });
    looks.set(looks.get() + 1);
    return result;
  }
  event_count* source() { return &queue_access::items(queue); }
};
template <class Queue>
pop(Queue&, basket&, cell<unsigned>&) -> pop<Queue>;

struct ready {
  static constexpr case_kind kind = case_kind::source;
  using watch = async::detail::result_watch;
  result_word& word;
  queue_result attempt() const { return word.is_ready() ? queue_result::done : queue_result::blocked; }
  result_word* source() const { return &word; }
};

struct limit {
  static constexpr case_kind kind = case_kind::limit;
  bool has_passed = false;
  queue_result attempt() const { return has_passed ? queue_result::done : queue_result::blocked; }
};
/// Has no timer: the tests ring.
struct alarm {
  void cancel() noexcept {}
  template <class... Cases>
  void rung(select_coroutine::alarm, std::tuple<Cases...>& cases) noexcept {
    const auto pass = [](auto& each) {
      if constexpr (requires { each.has_passed; }) each.has_passed = true;
    };
    std::apply([&pass](auto&... each) { (pass(each), ...); }, cases);
  }
};

struct passed_on_coroutine;

/// The coroutine behind a wait.
struct frame {
  virtual void goes_on() = 0;
  atomic<passed_on_coroutine*> mail{nullptr};

 protected:
  ~frame() = default;
};

/// With a link in the list that passes it on, which is used again for each wake-up.
struct passed_on_coroutine : select_coroutine {
  passed_on_coroutine(action to_wake, action to_free, coroutine_wait& w, frame& f) noexcept
      : select_coroutine(to_wake, to_free, w), home(f) {}
  static void go_on(passed_on_coroutine& self) noexcept {
    self.link.set(0);
    frame& f = self.home;
    if (!self.state.claim()) return self.release();
    const bool is_over = self.wait.look_again();
    self.release();
    if (is_over) f.goes_on();
  }
  frame& home;
  cell<unsigned> link{0};
};
/// Goes on where it is woken.
struct anywhere : passed_on_coroutine {
  anywhere(action to_free, coroutine_wait& w, frame& f) noexcept : passed_on_coroutine(&woken, to_free, w, f) {}
  static void woken(select_waiter& w) noexcept {
    auto& self = static_cast<anywhere&>(w);
    if (!self.state.notify()) return self.release();
    self.link.set(1);
    go_on(self);
  }
};
/// Goes on at home, by a message.
struct at_home : passed_on_coroutine {
  at_home(action to_free, coroutine_wait& w, frame& f) noexcept : passed_on_coroutine(&woken, to_free, w, f) {}
  static void woken(select_waiter& w) noexcept {
    auto& self = static_cast<at_home&>(w);
    if (!self.state.notify()) return self.release();
    self.link.set(1);
    // release only: what orders this message behind the one before is the state
    model::check(self.home.mail.exchange(&self, std::memory_order_release) == nullptr, "one message at a time");
  }
};
/// By the home thread. True: there was a message.
bool open_mail(frame& f) {
  passed_on_coroutine* const sent = f.mail.exchange(nullptr, std::memory_order_acquire);
  if (sent != nullptr) passed_on_coroutine::go_on(*sent);
  return sent != nullptr;
}

template <class Waiter, class... Cases>
struct wait final : select_wait<alarm, Cases...> {
  explicit wait(Cases... cases) : select_wait<alarm, Cases...>(std::tuple<Cases...>(cases...)) {}
  /// False: it waits, and may be gone already. Else a case has taken effect.
  bool begin(frame& f) {
    if (this->try_all()) return true;
    this->template make_waiter<Waiter>(f);
    return !select_wait<alarm, Cases...>::begin({});
  }
  select_waiter& begin_with_timer(frame& f) {
    select_waiter& made = this->template make_waiter<Waiter>(f);
    made.add_reference();
    return made;
  }
  bool suspends() { return select_wait<alarm, Cases...>::begin({}); }
  std::size_t which() const { return this->found(); }
};

/// Takes one number after the other out of two queues until it has taken from `a`.
template <class Waiter>
struct server final : frame {
  using wait_type = wait<Waiter, pop<ring<2>>, pop<ring<2>>>;
  server(ring<2>& x, ring<2>& y) : a(x), b(y) {}
  ~server() { delete current; }

  void serve(unsigned count) {
    left = count;
    next();
  }
  void next() {
    for (; left != 0; --left) {
      current = new wait_type(pop{a, got, looks}, pop{b, got, looks});
      if (!current->begin(*this)) return;
      end();
    }
    is_done.store(1, std::memory_order_release);
  }
  void goes_on() override {
    end();
    --left;
    next();
  }
  void end() {
    delete current;
    current = nullptr;
  }

  ring<2>& a;
  ring<2>& b;
  basket got;
  unsigned left = 0;
  cell<unsigned> looks{0};
  wait_type* current = nullptr;
  atomic<unsigned> is_done{0};
};

struct scene {
  ring<2> a{2}, b{2};
  basket got;
  server<anywhere> coroutine{a, b};
  void drain() {
    while (take(a, got) || take(b, got)) {
    }
  }
};

/// Two threads put one number each into two queues while the coroutine begins to take two.
struct two_queues : rl::test_suite<two_queues, 3>, scene {
  void thread(unsigned index) {
    if (index == 0) {
      coroutine.serve(2);
    } else {
      model::check(index == 1 ? a.enqueue(1U) : b.enqueue(2U), "there is room");
    }
  }
  void after() {
    model::check(coroutine.is_done.load(std::memory_order_relaxed) == 1, "it was woken");
    model::check(coroutine.got.count == 2 && coroutine.got.sum() == 3, "each comes out once");
  }
};

/// A coroutine that takes one is woken by both queues; the thread that sleeps in b gets the other one or b's.
struct passed_on : rl::test_suite<passed_on, 3>, scene {
  void thread(unsigned index) {
    if (index == 0) {
      coroutine.serve(1);
    } else if (index == 1) {
      model::check(wait_and_take(b, got), "it is open");
    } else {
      model::check(a.enqueue(1U) && b.enqueue(2U) && b.enqueue(4U), "there is room");
    }
  }
  void after() {
    model::check(coroutine.got.count == 1, "one for the wait");
    drain();
    model::check(coroutine.got.sum() + got.sum() == 7, "each comes out once");
  }
};

/// The coroutine is destroyed at home while two threads wake it. The sleeper in b gets a number.
struct is_destroyed : rl::test_suite<is_destroyed, 4> {
  ring<2> a{2}, b{2};
  basket got;
  server<at_home>* coroutine = nullptr;
  void before() {
    coroutine = new server<at_home>(a, b);
    coroutine->serve(1);
  }
  void thread(unsigned index) {
    if (index == 0) {
      open_mail(*coroutine);
      if (coroutine->current != nullptr) coroutine->end();
    } else if (index == 1) {
      a.enqueue(1U);
    } else if (index == 2) {
      model::check(b.enqueue(2U) && b.enqueue(4U), "there is room");
    } else {
      wait_and_take(b, got);
    }
  }
  void after() {
    open_mail(*coroutine);
    while (take(a, got) || take(b, got)) {
    }
    model::check(coroutine->got.sum() + got.sum() == 7, "each comes out once");
    delete coroutine;
    coroutine = nullptr;
  }
};

/// The time is up and a result comes while the coroutine begins to wait.
struct time_and_result : rl::test_suite<time_and_result, 3>, frame {
  using wait_type = wait<anywhere, limit, ready>;
  result_word word;
  cell<unsigned> value{0};
  wait_type* current = nullptr;
  atomic<select_waiter*> timer{nullptr};
  unsigned resumed = 0;

  void before() { current = new wait_type(limit{}, ready{word}); }
  void thread(unsigned index) {
    if (index == 0) {
      timer.store(&current->begin_with_timer(*this), std::memory_order_release);
      if (!current->suspends()) goes_on();
    } else if (index == 1) {
      select_waiter* set = nullptr;
      while ((set = timer.load(std::memory_order_acquire)) == nullptr) async::detail::yield_thread();
      static_cast<select_coroutine*>(set)->ring(select_coroutine::alarm::up);
    } else {
      model::check(word.take(), "no other thread makes it");
      value.set(7);
      run_all(word.publish());
    }
  }
  void goes_on() override {
    ++resumed;
    if (current->which() == 1) model::check(value.get() == 7, "the value is there");
    delete current;
  }
  void after() { model::check(resumed == 1, "it goes on once"); }
};

/// The time is up while another wake-up comes to nothing: its element is taken by the thread that brought it.
struct time_and_nothing : rl::test_suite<time_and_nothing, 3>, frame {
  using wait_type = wait<anywhere, limit, pop<ring<2>>>;
  ring<2> a{2};
  basket got, taken;
  cell<unsigned> looks{0};
  wait_type* current = nullptr;
  select_waiter* timer = nullptr;
  unsigned resumed = 0;

  void before() {
    current = new wait_type(limit{}, pop{a, got, looks});
    timer = &current->begin_with_timer(*this);
    model::check(current->suspends(), "nothing is there");
  }
  void thread(unsigned index) {
    if (index == 1) {
      static_cast<select_coroutine*>(timer)->ring(select_coroutine::alarm::up);
    } else if (index == 2) {
      element e;
      if (a.dequeue(e)) taken.put(e);
    } else {
      model::check(a.enqueue(1U), "there is room");
    }
  }
  void goes_on() override {
    ++resumed;
    delete current;
  }
  void after() {
    take(a, taken);
    model::check(resumed == 1, "it goes on once");
    model::check(got.count + taken.count == 1, "the element comes out once");
  }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("select_coroutine", argc, argv);
  const model::effort some{.at_most = 60'000, .random = 30'000};
  run.check<two_queues>("a coroutine takes from two queues", some);
  run.check<passed_on>("a wake-up for another queue goes to a sleeper", some);
  run.check<is_destroyed>("a coroutine is destroyed while it is woken", some);
  run.check<time_and_result>("the time beside a result", some);
  run.check<time_and_nothing>("the time beside a wake-up that comes to nothing", some);
  return run.result();
}
