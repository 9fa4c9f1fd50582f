// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>      // for size_t
#include <future>       // for future_errc
#include <type_traits>  // for remove_cvref_t
#include <utility>      // for move

#include "async/detail/base/future_errors.hpp"   // for throw_future_error
#include "async/detail/base/lazy_coroutine.hpp"  // for lazy_coroutine
#include "async/detail/base/never.hpp"           // for never
#include "async/detail/call/future_access.hpp"   // for future_access, is_own_future
#include "async/detail/call/result_group.hpp"    // for result_group
#include "async/future.hpp"                      // for future, shared_future

namespace async::inline v0_1 {

/// Any number of futures, of any types, that end together: futures are added while others become ready, and all of them
/// can be waited for and cancelled.
///
///   async::future_group requests;
///   requests.add(steps::post(pool, serve));           // any thread, at any time; also in a member
///   requests.when_empty().get();                      // throws the first exception
///   asi.await(requests.when_empty());                 // the same in a flow, or co_await in a coroutine
///   requests.cancel();                                // flows, calls that have not begun, calls with a stop_token
///
/// Use it for work whose amount is not known before: the requests of a server, the jobs of a supervisor, the flows that
/// a constructor starts and a destructor ends. Do not use it for a known set of futures (when_all, when_any), to split
/// work over threads (task_group), nor for branches of one flow (asi.parallel()). The group drops the values: pass them
/// on by a queue, in the last step of a flow, or share the futures.
///
/// Members     add the future of a flow or call itself; share it before to read its value, too. One made by then()
///             stands for the function of then(): a cancel drops this function, and the flow or call before it goes on
///             without the group. A cancel does not reach what has no cancel(): an async::promise, and a flow that
///             another object owns, whose future is that of flow.promise(). The group waits for these.
/// Errors      the first exception of a member cancels the others, and when_empty() throws it. Exceptions of members
///             that end because of the group's cancel are dropped; a member that is cancelled by itself has failed. An
///             exception that no when_empty() has told is told by the next one, also if members have been added since.
///             With on_error::keep_others one failure ends no other member; when_empty() throws the first exception,
///             and the others are dropped: look at errors inside, as in the error handler of a flow, to see each.
/// Threads     any thread may call any member at any time, also in a member of the group and in callbacks of loops.
/// Progress    add() and the end of a member take a short lock. cancel() takes as long as it has members.
/// Exceptions  add(): std::future_error (no_state) and std::bad_alloc; the future is as before then. when_empty():
///             std::bad_alloc. Others: none.
/// Lifetime    the destructor cancels the members and waits for them, see there.
/// Fork        in a child of fork(), the destructor of a group of the parent does nothing.
/// Memory      one recycled block of 64 bytes for a member.
/// Example     test/example/supervisor.cpp
class future_group {
 public:
  /// What a member that ends by an exception means for the others.
  enum class on_error : bool {
    cancel_others,  ///< they serve one purpose, which has failed
    keep_others     ///< each is for itself
  };

  /// An empty group. Throws std::bad_alloc.
  explicit future_group(on_error how = on_error::cancel_others)
      : members_(detail::result_group::make(how == on_error::keep_others)) {}
  future_group(const future_group&) = delete;
  future_group& operator=(const future_group&) = delete;
  /// Cancels the members, and waits until they and the continuations of when_empty() have ended. So these may use what
  /// was made before the group; not the functions that then(pool, f) hands to a pool or loop. In a callback of an event
  /// loop, such as the end of a step that has the group in its stack(), and in a capture that a loop destroys in a turn
  /// or at its end, it cannot wait, and members go on until they have ended: await when_empty() there before. A task
  /// that is a member and destroys its group deadlocks.
  ~future_group() { detail::result_group::end(members_); }

  /// Takes a future over. If the group is being cancelled, the new member is cancelled at once.
  template <class T>
  void add(future<T>&& member) {
    // Taken first: a continuation of when_empty(), called in add(), may use or destroy `member`.
    detail::result<T>* const state = detail::future_access::take(std::move(member));
    if (state == nullptr) detail::throw_future_error(std::future_errc::no_state);
    try {
      members_->add(*state);
    } catch (...) {
      member = detail::future_access::make(state);
      throw;
    }
  }
  /// The same for a result that others read, too. The group keeps the value until the result is ready, and the others
  /// see its cancel().
  template <class T>
  void add(shared_future<T> member) {
    detail::result<T>* const state = detail::future_access::state(member);
    if (state == nullptr) detail::throw_future_error(std::future_errc::no_state);
    members_->add_shared(*state);
    static_cast<void>(detail::future_access::take(std::move(member)));
  }
  /// Refused: add() takes the future away.
  template <class T>
  void add(future<T>&) {
    static_assert(detail::never<T>, "add() takes the future away: write add(std::move(future))");
  }
  /// Refused: a std::future tells nobody that it is ready.
  template <class Other>
    requires(!detail::is_own_future<std::remove_cvref_t<Other>>)
  void add(Other&&) {
    static_assert(!detail::lazy_coroutine<Other>, "add() takes futures: write add(start(task)), which begins the task");
    static_assert(detail::lazy_coroutine<Other>,
                  "add() takes an async::future or async::shared_future: make one of a std::future by "
                  "async::future<T>(std::move(future))");
  }

  /// A future that is ready as soon as no member is left, at once if there is none. It throws the first exception of a
  /// member. Members that are added when the group has become empty do not count for it. Several such futures may
  /// become ready in any order.
  shared_future<void> when_empty() { return detail::future_access::make<void>(members_->when_empty()); }

  /// Calls cancel() of every member, and of those that are added until all are ready. Returns the number of members
  /// that were not ready. Does not wait.
  std::size_t cancel() noexcept { return members_->cancel(); }
  /// True from cancel(), or from the first exception of a member unless others are kept, until all members are ready.
  bool is_cancelling() const noexcept { return members_->is_cancelling(); }

  /// The number of members that are not ready.
  std::size_t size() const noexcept { return members_->size(); }

 private:
  detail::result_group* const members_;
};

}  // namespace async::inline v0_1
