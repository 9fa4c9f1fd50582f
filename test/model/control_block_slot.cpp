// SPDX-License-Identifier: BSL-1.0
//
// Requests of other threads to a flow: the first of them makes its control block, messages go to that, and the
// flow is destroyed when none is on its way, or while some are, which find it gone then.
#include "relacy_runner.hpp"

#include "async/detail/base/reference_count.hpp"
#include "async/detail/loop/inbox.hpp"
#include "steps/detail/flow/control_block_slot.hpp"
#include "steps/detail/flow/start_state.hpp"

using async::detail::atomic;
using async::detail::cell;
using async::detail::delivery;
using async::detail::inbox;
using async::detail::message;
using async::detail::reference_count;
using async::detail::yield_thread;
using model::check;
using steps::detail::control_block_slot;
using steps::detail::start_state;

namespace {

struct flow;

struct flow_control_block {
  reference_count references;
  start_state start;
  cell<flow*> target;
};

struct flow {
  control_block_slot<flow_control_block> control_block;
  cell<unsigned> touched{0};  // the loop's, then the owner's
};

void release(flow_control_block& r) {
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
  flow_control_block* to = nullptr;
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
    flow_control_block* r = f.control_block.get();
    if (r == nullptr) {
      auto* const made = new flow_control_block;
      made->target.set(&f);
      r = f.control_block.put(made);
      if (r != made) release(*made);
    }
    r->references.add();
    check(r->start.hold() == start_state::held::bound, "a control block is complete when it is found");
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
    if (flow_control_block* const r = f.control_block.get_own()) {
      f.control_block.clear();
      r->target.set(nullptr);
      release(*r);
    }
    f.touched.set(0);
  }
  void thread(unsigned index) {
    if (index != 0) send(index);
    if (FromOutside && index == 1) {
      wait_until_sent();
      while (!f.control_block.get_own()->references.is_last()) yield_thread();
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
  model::runner run("control_block_slot", argc, argv);
  run.check<messages<true>>("a flow is destroyed from outside when no message is on its way");
  run.check<messages<false>>("a flow is destroyed on its loop before the messages arrive");
  return run.result();
}
