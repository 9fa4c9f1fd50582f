// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdio>     // for snprintf
#include <exception>  // for exception_ptr, current_exception
#include <string>     // for string
#include <utility>    // for move

#include "async/detail/base/platform.hpp"       // for set_thread_name, thread_name_length
#include "async/detail/base/unhandled.hpp"      // for terminate_for
#include "async/detail/pool/job.hpp"            // for job
#include "async/detail/pool/work_apart.hpp"     // for work_apart
#include "async/detail/trace/trace_points.hpp"  // for ASYNCSTEPS_TRACE_SPAN, ASYNCSTEPS_TRACE_THREAD
#include "async/task.hpp"                       // for task, call_once
#include "async/threadpool_options.hpp"         // for threadpool_options

namespace async::inline v0_1::detail {

/// A pool's callbacks of users. Handles exceptions that leave them or a task.
class pool_hooks {
 public:
  /// `message`: in front of an exception that ends the program, a literal.
  explicit pool_hooks(threadpool_options&& options,
                      const char* message = "async::threadpool: unhandled exception in a task")
      : message_(message),
        name_(std::move(options.name)),
        start_(std::move(options.on_thread_start)),
        stop_(std::move(options.on_thread_stop)),
        unhandled_(std::move(options.on_unhandled)) {}

  /// On a thread of the pool, before its first task and after its last.
  void started(std::size_t index) const noexcept {
    ASYNCSTEPS_TRACE_THREAD(name_.empty() ? "worker" : name_.c_str(), index);
    if (!name_.empty()) {
      char end[24];
      const int length = std::snprintf(end, sizeof end, "/%zu", index);
      char name[thread_name_length + 1];  // a long name is cut, the index is not
      const int cut = thread_name_length - length;
      if (std::snprintf(name, sizeof name, "%.*s%s", cut, name_.c_str(), end) > 0) set_thread_name(name);
    }
    call(start_, index);
  }
  void stopping(std::size_t index) const noexcept { call(stop_, index); }
  /// Whether starting threads call a function of users, which may do anything.
  bool has_start() const noexcept { return static_cast<bool>(start_); }

  /// Runs one task of the pool and destroys it.
  void run(task& work) const {
    ASYNCSTEPS_TRACE_SPAN(task, "task", 0);
    call(work);
    work.reset();
  }
  static void run(job* j) {
    ASYNCSTEPS_TRACE_SPAN(task, "task", 0);
    j->run(j);
  }

  /// Calls a task; an exception that leaves it is unhandled. Only the unwinding of pthread_exit() passes through.
  template <class Work>
  [[gnu::always_inline]] void call(Work& work) const {
    try {
      call_once(work);
    } catch (...) {
      std::exception_ptr error = std::current_exception();
      if (error == nullptr) throw;  // pthread_exit()
      unhandled(std::move(error));
    }
  }

  /// The same on a thread that runs something else, to which the task does not belong.
  template <class Work>
  void call_here(Work& work) const {
    const work_apart here;
    call(work);
  }

  /// Calls the hook. Without one: a message and std::terminate.
  [[gnu::noinline]] void unhandled(std::exception_ptr error) const noexcept {
    if (unhandled_) return unhandled_(std::move(error));
    terminate_for(error, message_);
  }

 private:
  void call(const unique_function<void(std::size_t)>& hook, std::size_t index) const noexcept {
    if (!hook) return;
    try {
      hook(index);
    } catch (...) {
      unhandled(std::current_exception());
    }
  }

  const char* const message_;
  const std::string name_;
  const unique_function<void(std::size_t)> start_;
  const unique_function<void(std::size_t)> stop_;
  const unique_function<void(std::exception_ptr)> unhandled_;
};

}  // namespace async::inline v0_1::detail
