// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <concepts>     // for derived_from
#include <cstddef>      // for size_t
#include <limits>       // for numeric_limits
#include <string_view>  // for string_view
#include <type_traits>  // for conditional_t
#include <utility>      // for exchange

#include "steps/detail/wait/fair_semaphore.hpp"  // for fair_semaphore
#include "steps/fwd.hpp"                         // for IAsyncSteps
#include "steps/isync.hpp"                       // for ISync

namespace steps::inline v0_1 {

/// Lets at most `permits` entries at a time into the steps that it guards. sync() takes a permit when the step begins,
/// and gives it back when the step has ended, in whatever way. acquire() takes one that an object owns.
///
///   steps::Semaphore connections(8);   asi.sync(connections, [](steps::IAsyncSteps& asi) { … });
///
///   connections.acquire(asi);  // a flow is to be started only once there is a permit for it
///   asi.add([&](steps::IAsyncSteps&, steps::Semaphore::Permit permit) { serve(pool, std::move(permit)); });
///
/// Use it for a resource of which each entry takes one: connections, buffers, licences. Do not use it for a section
/// that a flow may enter again while it is inside: a Mutex(n) lets that flow in at once, where a Semaphore takes
/// another permit, and a flow that holds the last one waits for itself.
///
/// Order       first come, first served.
/// Recursion   none: each entry takes a permit, also of a flow that is inside.
/// Full queue  more than `max_queue` flows waiting: DefenseRejected at the step of sync() or acquire().
/// Threads     flows of any loops; permits and try_acquire(): any thread. A waiting flow is woken on its own loop, by
///             one message; no thread ever blocks.
/// Memory      a flow that has to wait takes a recycled block.
/// Lifetime    outlives the flows that use it, and its permits.
class Semaphore final : public ISync {
 public:
  /// max_queue for a queue of any length.
  static constexpr std::size_t unlimited = (std::numeric_limits<std::size_t>::max)();

  /// `permits` 0 lets no flow in.
  explicit Semaphore(std::size_t permits, std::size_t max_queue = unlimited) noexcept
      : semaphore_(permits, max_queue) {}

  /// A permit that belongs to its owner instead of a step: it goes where the owner moves it, such as into another flow,
  /// and comes back when it is destroyed.
  ///
  /// Threads     one at a time, any.
  class Permit {
   public:
    Permit() noexcept = default;  ///< none
    Permit(Permit&& other) noexcept : from_(std::exchange(other.from_, nullptr)) {}
    Permit& operator=(Permit&& other) noexcept {
      if (this != &other) {
        release();
        from_ = std::exchange(other.from_, nullptr);
      }
      return *this;
    }
    ~Permit() { release(); }

    /// Gives it back early. No effect if there is none.
    void release() noexcept {
      if (Semaphore* const to = std::exchange(from_, nullptr)) to->semaphore_.leave();
    }
    /// False: it has been moved or given back, or try_acquire() has found none.
    explicit operator bool() const noexcept { return from_ != nullptr; }

   private:
    friend class Semaphore;
    explicit Permit(Semaphore* from) noexcept : from_(from) {}

    Semaphore* from_ = nullptr;
  };

  /// Adds a step that waits for a permit, in turn with sync(), and passes it to the next step. Full queue:
  /// DefenseRejected at the added step. In a coroutine: `co_await acquire(semaphore)`, steps/interop/sync.hpp.
  template <std::derived_from<detail::step> Asi>
  void acquire(Asi& asi) {
    using face = std::conditional_t<std::derived_from<Asi, detail::step>, IAsyncSteps, Asi>;  // complete in the call
    asi.sync(*this, [this](face& inside) {
      detail::keep_place(inside, *this);
      inside.success(Permit(this));
    });
  }
  /// A permit, if one is free at once; else none. Takes a short lock.
  Permit try_acquire() noexcept { return Permit(semaphore_.try_enter() == entry::entered ? this : nullptr); }

  entry try_enter(bool /*nested*/) noexcept override { return semaphore_.try_enter(); }
  entry enqueue(detail::sync_waiter& waiter, bool /*nested*/) noexcept override { return semaphore_.enqueue(waiter); }
  void leave(bool /*nested*/) noexcept override { semaphore_.leave(); }
  bool withdraw(detail::sync_waiter& waiter) noexcept override { return semaphore_.withdraw(waiter); }
  std::string_view explain(entry) const noexcept override {
    return "Semaphore: all permits are taken, and `max_queue` flows wait";
  }

 private:
  detail::fair_semaphore<detail::sync_waiter> semaphore_;
};

}  // namespace steps::inline v0_1
