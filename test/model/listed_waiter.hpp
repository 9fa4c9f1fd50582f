// SPDX-License-Identifier: BSL-1.0
#pragma once
#include "relacy_runner.hpp"

// After the seam.
#include "async/detail/queue/queue_access.hpp"

/// A waiter that does not sleep in a queue: a stand-in for flows, coroutines and selecting threads.
namespace model {

using async::detail::event_count;
using async::detail::queue_access;
using async::detail::queue_result;

/// Its thread, which sleeps on a word of its own until a notification comes.
struct mailbox {
  async::detail::atomic<std::uint32_t> word{0};

  void put() {
    word.store(1, std::memory_order_release);
    async::detail::wake_one(word);
  }
  void wait() {
    while (word.load(std::memory_order_acquire) == 0) async::detail::wait_on_word(word, 0);
    word.store(0, std::memory_order_relaxed);
  }
};

/// What it must not do; for models that must fail.
enum class fault { none, keeps_wake_up, leaves_early, lists_without_test };

/// Its life ends as a scope of its owner's ends; then an access is a fault.
class listed_waiter : public async::detail::queue_waiter {
 public:
  explicit listed_waiter(mailbox& m) : queue_waiter(table), home_(m) {}

  struct life {
    listed_waiter& its;
    explicit life(listed_waiter& w) : its(w) { its.lives_.set(true); }
    ~life() { its.lives_.set(false); }
  };

  /// Waits as flows do: lists itself, tests `again`, waits to be notified; later in front of the others.
  template <fault Fault = fault::none>
  queue_result wait(event_count& events, auto attempt, auto again) {
    for (bool in_front = false;; in_front = true) {
      if (const queue_result r = attempt(); r != queue_result::blocked) return r;
      chosen_.set(0);
      events.add(*this, in_front);
      if constexpr (Fault != fault::lists_without_test) {
        if (const queue_result r = again(); r != queue_result::blocked) {
          withdraw<Fault>(events);
          return r;
        }
      }
      home_.wait();
      check(chosen_.get() == 1, "it has been chosen once");
    }
  }

  template <fault Fault = fault::none>
  queue_result wait(event_count& events, auto attempt) {
    return wait<Fault>(events, attempt, attempt);
  }

  /// Lists itself, and leaves without looking: as one that is cancelled.
  template <fault Fault = fault::none>
  void come_and_go(event_count& events) {
    events.add(*this, false);
    withdraw<Fault>(events);
  }

 private:
  template <fault Fault>
  void withdraw(event_count& events) {
    if (events.remove(*this)) return check(chosen_.get() == 0, "it has not been chosen");
    check(chosen_.get() == 1, "it has been chosen");
    if constexpr (Fault != fault::leaves_early) home_.wait();
    if constexpr (Fault != fault::keeps_wake_up) events.wake(1);
  }

  static listed_waiter& of(queue_waiter& w) { return static_cast<listed_waiter&>(w); }
  static void reserve(queue_waiter& w) noexcept { of(w).chosen_.set(of(w).chosen_.get() + 1); }
  static void notify(queue_waiter& w) noexcept {
    check(of(w).lives_.get() && of(w).chosen_.get() == 1, "it lives, and has been chosen once");
    of(w).home_.put();
  }
  static constexpr operations table{reserve, notify};

  mailbox& home_;
  async::detail::cell<bool> lives_{false};
  async::detail::cell<unsigned> chosen_{0};  // guarded by the lock of the list
};

/// A thread that takes elements, or puts them in, as a listed waiter does.
template <class Queue>
class client {
 public:
  unsigned sum = 0;    // of the elements it has taken
  unsigned count = 0;  // of them

  bool take(Queue& q) { return look(q) == queue_result::done; }
  template <fault Fault = fault::none>
  bool wait(Queue& q) {
    const listed_waiter::life begins(waiter_);
    const auto attempt = [&] { return look(q); };
    const auto again = [&] { return queue_access::is_blocked(q) ? queue_result::blocked : attempt(); };
    return waiter_.wait<Fault>(queue_access::items(q), attempt, again) == queue_result::done;
  }
  bool put(Queue& q, unsigned value) {
    const listed_waiter::life begins(waiter_);
    const auto attempt = [&] { return queue_access::put(q, value); };
    return waiter_.wait(queue_access::room(q), attempt) == queue_result::done;
  }
  template <fault Fault = fault::none>
  void come_and_go(event_count& events) {
    const listed_waiter::life begins(waiter_);
    waiter_.come_and_go<Fault>(events);
  }
  /// Sleeps in the queue.
  bool sleep(Queue& q) {
    typename Queue::value_type out(99U);
    return q.blocking_dequeue(out) && add(out);
  }

 private:
  queue_result look(Queue& q) {
    typename Queue::value_type out(99U);
    const queue_result r = queue_access::take(q, [&out](auto&& value) { out = std::move(value); });
    if (r == queue_result::done) add(out);
    return r;
  }
  bool add(const auto& out) {
    sum += out.value();
    return ++count != 0;
  }

  mailbox home_;
  listed_waiter waiter_{home_};
};

}  // namespace model
