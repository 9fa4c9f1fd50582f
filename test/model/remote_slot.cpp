// SPDX-License-Identifier: BSL-1.0
//
// What other threads want done with a flow: the first of them makes its remote, messages go to that, and the flow is
// destroyed when none is on its way, or while some are, which find it gone then.
#include "relacy_runner.hpp"

#include "async/detail/base/reference_count.hpp"
#include "async/detail/loop/inbox.hpp"
#include "steps/detail/flow/remote_slot.hpp"
#include "steps/detail/flow/start_word.hpp"

using async::detail::atomic;
using async::detail::cell;
using async::detail::delivery;
using async::detail::inbox;
using async::detail::message;
using async::detail::reference_count;
using async::detail::yield_thread;
using model::check;
using steps::detail::remote_slot;
using steps::detail::start_word;

namespace {

struct flow;

struct remote {
  reference_count references;
  start_word start;
  cell<flow*> target;
};

struct flow {
  remote_slot<remote> elsewhere;
  cell<unsigned> touched{0};  // the loop's, then the owner's
};

void release(remote& r) {
  if (!r.references.drop()) return;
  static_cast<void>(r.target.get());
  delete &r;
}

struct call : message {
  call() : message(&arrived) {}
  static void arrived(message& m, delivery) {
    auto& self = static_cast<call&>(m);
    if (flow* const f = self.to->target.get()) f->touched.set(f->touched.get() + 1);
    self.delivered.set(true);
    release(*self.to);
  }
  remote* to = nullptr;
  cell<bool> delivered{false};
};

/// Threads 1 and 2 send a message each; then thread 1, or the loop's, destroys the flow. Thread 0 is the loop's.
template <bool FromOutside>
struct messages : rl::test_suite<messages<FromOutside>, 3> {
  flow f;
  call calls[3];
  inbox box;
  atomic<unsigned> sent{0};
  atomic<unsigned> gone{0};

  void send(unsigned index) {
    remote* r = f.elsewhere.get();
    if (r == nullptr) {
      auto* const made = new remote;
      made->target.set(&f);
      r = f.elsewhere.put(made);
      if (r != made) release(*made);
    }
    r->references.add();
    check(r->start.hold() == start_word::held::bound, "a remote is complete when it is found");
    calls[index].to = r;
    box.push(calls[index]);
    sent.fetch_add(1, std::memory_order_release);
  }
  unsigned deliver() {
    unsigned count = 0;
    for (message* m = box.take(); m != nullptr; ++count) {
      message& each = *std::exchange(m, m->next.get());
      each.deliver(each, delivery::on_loop);
    }
    return count;
  }
  void wait_until_sent() {
    while (sent.load(std::memory_order_acquire) != 2) yield_thread();
  }
  void destroy() {
    if (remote* const r = f.elsewhere.get_own()) {
      f.elsewhere.clear();
      r->target.set(nullptr);
      release(*r);
    }
    f.touched.set(0);
  }
  void thread(unsigned index) {
    if (index != 0) send(index);
    if (FromOutside && index == 1) {
      wait_until_sent();
      while (!f.elsewhere.get_own()->references.is_last()) yield_thread();
      check(f.touched.get() == 2, "what the messages did is seen");
      destroy();
    } else if (index == 0) {
      unsigned delivered = 0;
      if (!FromOutside) {
        wait_until_sent();
        destroy();
      }
      while ((delivered += deliver()) != 2) yield_thread();
    }
  }
  void after() { check(calls[1].delivered.get() && calls[2].delivered.get(), "each message has arrived"); }
};

}  // namespace

int main(int argc, char** argv) {
  model::runner run("remote_slot", argc, argv);
  run.check<messages<true>>("a flow is destroyed from outside when no message is on its way");
  run.check<messages<false>>("a flow is destroyed on its loop before the messages arrive");
  return run.result();
}
