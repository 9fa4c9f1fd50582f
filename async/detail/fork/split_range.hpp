// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for size_t
#include <cstdint>  // for uint64_t, uint8_t
#include <memory>   // for destroy_at
#include <new>      // for placement new

#include "async/detail/base/atomics.hpp"       // for atomic, wait_clock
#include "async/detail/base/chrono.hpp"        // for microseconds
#include "async/detail/base/min_max.hpp"       // for max_of, min_of
#include "async/detail/base/resumptions.hpp"   // for resumptions_apart
#include "async/detail/fork/fork_join.hpp"     // for fork_join
#include "async/detail/pool/participant.hpp"   // for participant
#include "async/detail/pool/pool_core.hpp"     // for pool_core
#include "async/detail/pool/wait_in_turn.hpp"  // for wait_in_turn
#include "async/detail/scope/scope_cache.hpp"  // for task_scope, current_scope
#include "async/detail/wait/visit.hpp"         // for visit, working_visit

namespace async::inline v0_1::detail {

/// Predicts from the durations of recent loops of one type whether the next ends before a helper would wake up, which
/// takes some microseconds.
class loop_habit {
 public:
  static constexpr std::chrono::microseconds short_time{10};

  bool is_short() const noexcept { return short_runs_.load(std::memory_order_relaxed) >= enough; }  // relaxed: a guess
  void note(wait_clock::duration took) noexcept {
    const std::uint8_t runs = short_runs_.load(std::memory_order_relaxed);
    if (took > 2 * short_time) {
      if (runs != 0) short_runs_.store(0, std::memory_order_relaxed);
    } else if (runs < enough) {
      short_runs_.store(static_cast<std::uint8_t>(runs + 1), std::memory_order_relaxed);
    }
  }

 private:
  static constexpr std::uint8_t enough = 2;
  atomic<std::uint8_t> short_runs_{0};
};

/// The cursor for an upper half, if another thread takes it.
template <class Piece>
class stolen_piece {
 public:
  stolen_piece() noexcept {}
  ~stolen_piece() {
    if (is_made_) std::destroy_at(&piece_);
  }
  stolen_piece(const stolen_piece&) = delete;
  stolen_piece& operator=(const stolen_piece&) = delete;

  /// By the thief.
  void make(const Piece& lower) {
    ::new (static_cast<void*>(&piece_)) Piece(lower.upper());
    is_made_ = true;
  }
  Piece& get() noexcept { return piece_; }
  void join_to(Piece& lower) {
    if (is_made_) lower.join(piece_);
  }

 private:
  union {
    Piece piece_;
  };
  bool is_made_ = false;
};

/// Divides a range of numbers between threads. Each thread offers the upper half of its part to the others: first until
/// there are about four pieces a thread, then whenever the others have taken all that it offered.
///
/// `Piece` is a cursor over the work: piece(first, count) works on a run of numbers, in their order. For an upper half
/// that another thread has taken there is a cursor of its own, which piece.upper() returns, perhaps while piece() is
/// running; piece.join(upper) adds the result of that half.
template <class Stop>
class range_splitter {
 public:
  /// `grain`: numbers in a run; 0: chosen automatically. `own_workers`: of the pool's threads, how many call this.
  range_splitter(pool_core& pool, std::uint64_t count, std::uint64_t grain, std::size_t own_workers,
                 const Stop& stop) noexcept
      : pool_(pool),
        stop_(stop),
        grain_(grain),
        own_workers_(own_workers),
        piece_(max_of(count / (4 * threads(pool, own_workers)), max_of(grain, std::uint64_t{1}))) {
    is_shared();
  }
  range_splitter(const range_splitter&) = delete;
  range_splitter& operator=(const range_splitter&) = delete;

  /// Whether the pool has other threads, or has had some. The first thread alone asks until there are.
  bool is_shared() noexcept {
    if (!is_shared_) is_shared_ = pool_.size() > own_workers_;
    return is_shared_;
  }

  /// Works on [first, last). False: it ended early.
  template <class Piece>
  bool run(participant& part, task_scope* around, Piece& piece, std::uint64_t first, const std::uint64_t last) {
    std::uint64_t length = grain_ != 0 ? grain_ : is_shared_ ? 1 : run_unshared;
    while (first != last) {
      if (is_stopped(around)) return false;
      const std::uint64_t left = last - first;
      if (left > grain_ && left > 1 && is_shared() && (left > piece_ || part.own.empty())) {
        return split(part, around, piece, first, last);
      }
      const std::uint64_t count = min_of(length, left);
      guarded([&] { piece(first, count); });
      first += count;
      if (grain_ == 0 && is_shared_) {
        length = min_of(min_of(2 * length, longest), max_of((last - first) / 4, std::uint64_t{1}));
      }
    }
    return true;
  }

  /// Works on [first, last) on this thread until it is done or has taken as long as a wake-up of another thread takes.
  /// Returns where it stopped.
  template <class Piece>
  std::uint64_t run_alone(task_scope* around, Piece& piece, std::uint64_t first, const std::uint64_t last,
                          wait_clock::time_point start) {
    wait_clock::time_point before = start;
    for (std::uint64_t length = 1; first != last && !is_stopped(around);) {
      const std::uint64_t count = min_of(length, last - first);
      guarded([&] { piece(first, count); });
      first += count;
      if (first == last) break;
      const wait_clock::time_point now = wait_clock::now();
      const wait_clock::duration left = loop_habit::short_time - (now - start);
      if (left <= wait_clock::duration::zero()) break;
      // As many as may take half of the time that is left, though the next calls may take longer than the last ones.
      const auto took = max_of(now - before, wait_clock::duration(1));
      const std::uint64_t fitting = count * static_cast<std::uint64_t>(left / 2 / took);
      length = max_of(min_of(fitting, min_of(growth * count, longest)), std::uint64_t{1});
      before = now;
    }
    return first;
  }

 private:
  /// That may take part: a paused pool has no worker, not even one that calls this.
  static std::uint64_t threads(const pool_core& pool, std::size_t own_workers) noexcept {
    return max_of(pool.size(), own_workers) + 1 - own_workers;
  }

  static constexpr std::uint64_t longest = 1024;      // numbers between two checks for other threads, or the clock
  static constexpr std::uint64_t run_unshared = 128;  // numbers between two looks whether there are other threads
  static constexpr std::uint64_t growth = 16;         // from one look at the clock to the next

  template <class Piece>
  bool split(participant& part, task_scope* around, Piece& piece, std::uint64_t first, std::uint64_t last) {
    std::uint64_t half = (last - first) / 2;
    if (grain_ > 1) half = max_of(half / grain_, std::uint64_t{1}) * grain_;  // whole runs
    const std::uint64_t middle = first + half;
    bool lower = false;
    bool upper = false;
    stolen_piece<Piece> stolen;
    const bool made = fork_join(
        part, around, [&] { lower = run(part, around, piece, first, middle); },
        [&](bool is_stolen) {
          if (is_stolen) {
            const visit here(pool_);
            guarded([&] { stolen.make(piece); });
            upper = run(here.part(), current_scope(), stolen.get(), middle, last);
          } else if (lower) {
            upper = run(part, around, piece, middle, last);
          }
        });
    if (!made || !lower || !upper) return false;
    guarded([&] { stolen.join_to(piece); });
    return true;
  }

  /// Calls functions of users. An exception ends the work early.
  template <class Call>
  void guarded(Call&& call) {
    struct stopper {
      atomic<bool>& flag;
      bool is_done = false;
      ~stopper() {
        if (!is_done) flag.store(true, std::memory_order_relaxed);  // relaxed: a hint
      }
    } at_throw{has_failed_};
    call();
    at_throw.is_done = true;
  }

  bool is_stopped(task_scope* around) {
    return has_failed_.load(std::memory_order_relaxed) ||  // relaxed: a hint; the exception arrives separately
           (around != nullptr && around->is_cancelled()) || stop_();
  }

  pool_core& pool_;
  const Stop& stop_;
  const std::uint64_t grain_;
  const std::size_t own_workers_;
  const std::uint64_t piece_;  // larger ones are split in any case
  bool is_shared_ = false;
  atomic<bool> has_failed_{false};
};

/// Works on the numbers below `count` with the threads of the pool. False: a cancelled group or stop() ended it early.
template <class Piece, class Stop>
bool split_range(pool_core& pool, std::uint64_t count, std::uint64_t grain, loop_habit& habit, Piece& piece,
                 const Stop& stop) {
  if (count == 0) return true;
  const working_visit here(pool);
  const wait_in_turn allowed;
  const resumptions_apart from_those_around;
  const bool is_inside = here.part().as_worker != nullptr;
  task_scope* const around = current_scope();
  range_splitter<Stop> splitter(pool, count, grain, is_inside ? 1 : 0, stop);
  if (grain != 0 || !splitter.is_shared()) return splitter.run(here.part(), around, piece, 0, count);
  const wait_clock::time_point start = wait_clock::now();
  const std::uint64_t first = habit.is_short() ? splitter.run_alone(around, piece, 0, count, start) : 0;
  const bool done = splitter.run(here.part(), around, piece, first, count);
  habit.note(wait_clock::now() - start);
  return done;
}

}  // namespace async::inline v0_1::detail
