// SPDX-License-Identifier: BSL-1.0
// floor: 0
#pragma once

namespace async::detail {

/// Base of what a pool's deques hold: a piece of work that knows how to run.
///
/// Use it to give a pool work in a block of one's own, without a second block and a second indirect call, as task_group
/// and parallel_for do. The pool owns a job from the push that succeeded until it calls run, once; run destroys the job
/// and gives its block back, and lets no exception out.
struct job {
  using function = void (*)(job*) noexcept;

  explicit constexpr job(function f) noexcept : run_(f) {}
  job(const job&) = delete;
  job& operator=(const job&) = delete;

  void run() noexcept { run_(this); }

 protected:
  ~job() = default;

 private:
  const function run_;
};

}  // namespace async::detail
