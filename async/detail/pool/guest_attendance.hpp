// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t

#include "async/detail/base/naps.hpp"       // for look_after_pool
#include "async/detail/loop/loop_core.hpp"  // for worker_loop
#include "async/detail/pool/pool_core.hpp"  // for pool_core, guest
#include "async/detail/pool/seat.hpp"       // for this_home, this_seat

namespace async::inline v0_1::detail {

/// While it lives, the calling thread is one of the pool's that is no worker: a stand-in, which has its seat, or a
/// lookout. Sets the thread-locals, calls the hooks of users, and leaves `place`, which is the thread's own.
class pool_core::guest_attendance {
 public:
  enum class role : bool { stands_in, looks_out };

  /// By a thread that starts: counts it as a helper, so that the pool does not end before the hook has returned. False:
  /// the pool ends, and the thread is to do so, too.
  static bool arrive(pool_core& pool) noexcept {
    pool.quiescence_.helper_arrived();
    if (!pool.shutdown_.are_starts_over()) return true;
    leave(pool);
    return false;
  }
  static void leave(pool_core& pool) noexcept {
    pool.quiescence_.helper_left();
    pool.idle_.notify();
  }

  /// `index`: the worker whose hooks are called, and whose loop is the thread's.
  guest_attendance(guest& place, role as, std::size_t index) noexcept : place_(place), index_(index) {
    place.stands_for = index;
    place.is_stand_in = as == role::stands_in;
    place.is_lookout = as == role::looks_out;
    if (place.is_stand_in) this_seat = {place.pool.number(), &place, 1};
    this_home = &place;
    look_after_pool = &look_after_own;
    worker_loop = &place.pool.crew_.loop(index).core();
  }
  void call_start_hook() noexcept {
    place_.is_in_section = true;  // a section in the hook has no effect: another thread would call the hook, too
    place_.pool.hooks_.started(index_);
    place_.is_in_section = false;
    if (place_.is_polling) place_.pool.stop_polling(place_);
    place_.pool.end_if_left_behind();
  }
  ~guest_attendance() {
    pool_core& pool = place_.pool;
    place_.is_in_section = true;  // as in the start hook
    pool.hooks_.stopping(index_);
    place_.is_in_section = false;
    pool.end_if_left_behind();
    if (place_.is_polling) pool.stop_polling(place_);
    if (place_.is_stand_in) this_seat = {};
    this_home = nullptr;
    look_after_pool = nullptr;
    worker_loop = nullptr;
    place_.is_stand_in = place_.is_lookout = false;
    place_.leave();
  }
  guest_attendance(const guest_attendance&) = delete;
  guest_attendance& operator=(const guest_attendance&) = delete;

 private:
  guest& place_;
  const std::size_t index_;
};

}  // namespace async::inline v0_1::detail
