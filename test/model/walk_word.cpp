// SPDX-License-Identifier: BSL-1.0
//
// A walk through results that become ready on several threads, and are waited for by one action, while another thread
// ends the walk.
#include "relacy_runner.hpp"

#include "async/detail/base/reference_count.hpp"
#include "async/detail/call/walk_word.hpp"
#include "async/detail/future/result_word.hpp"

using async::detail::cell;
using async::detail::continuation;
using async::detail::reference_count;
using async::detail::result_word;
using async::detail::run_all;
using async::detail::walk_word;
using model::check;

namespace {

/// As when_all_state.
struct walker : continuation {
  walker(result_word* all, unsigned number) : continuation(&arrived), results(all), count(number) {}

  static continuation* arrived(continuation& c) noexcept {
    auto& self = static_cast<walker&>(c);
    const walk_word::turn turn = self.walk.arrive();
    if (turn == walk_word::turn::others) return nullptr;
    if (turn == walk_word::turn::over) {
      self.drop_holder();
      return nullptr;
    }
    self.next.set(self.next.get() + 1);
    return self.go_on();
  }
  continuation* go_on() noexcept {
    for (; next.get() != count; next.set(next.get() + 1)) {
      check(futures.get() == 1, "the futures are there");
      if (results[next.get()].add(*this) && walk.leave()) return nullptr;
    }
    if (word.take()) {
      futures.set(2);
      static_cast<void>(word.publish());
    } else {
      walk.end();
    }
    drop_holder();
    return nullptr;
  }
  /// As cancel(), and as the end of the last future. True: it has ended the walk.
  bool stop() {
    if (!word.take()) return false;
    walk.stop();
    if (next.get() != count && results[next.get()].remove(*this)) check(!holders.drop(), "the futures' is left");
    check(futures.get() == 1, "the futures are given back once");
    futures.set(0);
    static_cast<void>(word.publish());
    return true;
  }
  void drop_holder() {
    if (!holders.drop()) return;
    walk.~walk_word();  // the model sees what uses it from here on
    ::new (static_cast<void*>(&walk)) walk_word;
    is_freed.set(is_freed.get() + 1);
    next.set(100);
  }

  result_word* const results;
  const unsigned count;
  result_word word;
  walk_word walk;
  cell<unsigned> next{0};
  cell<unsigned> futures{1};  // 0: given back, 2: in the value
  cell<unsigned> is_freed{0};
  reference_count holders{2};
};

void make_ready(result_word& result) {
  check(result.take(), "no other thread makes it");
  run_all(result.publish());
}

template <unsigned Results>
struct walks {
  result_word results[Results];
  walker all{results, Results};

  void begin() { static_cast<void>(all.go_on()); }
  void drop_futures() { all.drop_holder(); }
  void check_end(unsigned futures) {
    check(all.word.is_ready(), "the result is made");
    check(all.futures.get() == futures, "by the thread that has taken it");
    check(all.is_freed.get() == 1, "it is freed once");
  }
};

/// The other results become ready while the walk goes from one to the next.
template <int Results>
struct goes_on : rl::test_suite<goes_on<Results>, Results>, walks<unsigned{Results}> {
  void before() { this->begin(); }
  void thread(unsigned index) { make_ready(this->results[index]); }
  void after() {
    this->drop_futures();
    this->check_end(2);
  }
};

/// The thread that begins the walk leaves it to those that make the results ready.
struct begins : rl::test_suite<begins, 3>, walks<2> {
  void thread(unsigned index) {
    if (index == 2) return begin();
    make_ready(results[index]);
  }
  void after() {
    drop_futures();
    check_end(2);
  }
};

/// Meanwhile another thread ends the walk.
struct is_stopped : rl::test_suite<is_stopped, 3>, walks<2> {
  bool was_stopped = false;

  void before() { begin(); }
  void thread(unsigned index) {
    if (index != 2) return make_ready(results[index]);
    was_stopped = all.stop();
    drop_futures();
  }
  void after() { check_end(was_stopped ? 0 : 2); }
};

/// The same, and one result becomes ready afterwards only, or not at all: nothing is left in it.
struct leaves_nothing : rl::test_suite<leaves_nothing, 2>, walks<2> {
  bool was_stopped = false;

  void before() { begin(); }
  void thread(unsigned index) {
    if (index == 0) return make_ready(results[0]);
    was_stopped = all.stop();
    drop_futures();
  }
  void after() {
    check(was_stopped, "a result was not ready");
    check_end(0);
    check(results[1].take(), "no other thread makes it");
    check(results[1].publish() == nullptr, "no action is left");
  }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("walk_word", argc, argv);
  run.check<goes_on<2>>("the last thread goes on");
  run.check<goes_on<3>>("one of three threads goes on");
  run.check<begins>("the thread that begins leaves it to others");
  run.check<is_stopped>("another thread ends the walk");
  run.check<leaves_nothing>("no action is left in a result");
  return run.result();
}
