// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstddef>  // for ptrdiff_t
#include <map>      // for multimap
#include <memory>   // for unique_ptr
#include <mutex>    // for mutex, lock_guard
#include <new>      // for placement new
#include <utility>  // for move, pair

#include "async/detail/base/config.hpp"           // for ASYNCSTEPS_SHARED
#include "steps/errors.hpp"                       // for errors
#include "steps/interop/binary.h"                 // for FutoInSync, FutoInSyncAPI
#include "steps/interop/detail/foreign_flow.hpp"  // for foreign_flow, with_error_of
#include "steps/isync.hpp"                        // for ISync

/// Synchronisation objects of this library behind FTN12's functions (2.7.3), for flows of any runtime.
namespace steps::inline v0_1::interop::detail {

class lock_holders;

/// A flow that has a place in an object, or waits for one, on behalf of another flow.
class lock_holder final : public foreign_flow {
 public:
  lock_holder(FutoInAsyncSteps& bsi, lock_holders& all) : foreign_flow(bsi), step_(bsi), all_(all) {}

  /// In a step of the other flow, which waits if the object is taken.
  void lock(ISync& object);

  bool has_place = false;  // written under the lock of `all`, when this is no longer used
  int nested = 0;          // further locks of the same root; likewise

 private:
  /// In the memory of a step that waits.
  struct request {
    lock_holders& all;
    lock_holder& holder;  // gone once the request is granted
    bool is_granted;
  };

  inline bool has_turned() override;  // inline here: else each file has the class
  /// The object has refused: tells the step. This is gone afterwards.
  void refused();

  FutoInAsyncSteps& step_;
  lock_holders& all_;
  request* request_ = nullptr;
  bool has_entered_ = false;
};

/// Those of one object, by the root that they serve.
class lock_holders {
 public:
  void lock(FutoInAsyncSteps& bsi, ISync& object) {
    const key root = key_of(bsi);
    lock_holder* made;
    {
      const std::lock_guard<std::mutex> together(lock_);
      if (const auto found = find(root); found != holders_.end()) {
        ++found->second->nested;
        return;
      }
      made = holders_.emplace(root, std::make_unique<lock_holder>(bsi, *this))->second.get();
    }
    try {
      made->lock(object);
    } catch (...) {
      remove(*made);
      throw;
    }
  }
  void unlock(FutoInAsyncSteps& bsi) {
    std::unique_ptr<lock_holder> last;  // destroyed without the lock
    const std::lock_guard<std::mutex> together(lock_);
    const auto found = find(key_of(bsi));
    if (found == holders_.end() || found->second->nested-- != 0) return;
    last = std::move(found->second);
    holders_.erase(found);
  }
  /// The holder is any branch's of its root to unlock from now on, on any thread: it may be gone afterwards.
  void has_entered(lock_holder& holder) noexcept {
    const std::lock_guard<std::mutex> together(lock_);
    holder.has_place = true;
  }
  void remove(lock_holder& holder) {
    std::unique_ptr<lock_holder> last;
    const std::lock_guard<std::mutex> together(lock_);
    for (auto at = holders_.begin(); at != holders_.end(); ++at) {
      if (at->second.get() != &holder) continue;
      last = std::move(at->second);
      holders_.erase(at);
      return;
    }
  }

 private:
  using key = std::pair<const FutoInAsyncStepsAPI*, std::ptrdiff_t>;
  using map = std::multimap<key, std::unique_ptr<lock_holder>>;

  static key key_of(FutoInAsyncSteps& bsi) { return {bsi.api, bsi.api->rootId(&bsi)}; }
  /// The holder of that root that has a place.
  map::iterator find(const key& root) {
    auto [at, end] = holders_.equal_range(root);
    while (at != end && !at->second->has_place) ++at;
    return at != end ? at : holders_.end();
  }

  std::mutex lock_;
  map holders_;
};

/// An object with the functions.
struct lockable : FutoInSync {
  explicit lockable(ISync& o) noexcept;

  ISync& object;
  lock_holders holders;
};

/// The functions of the table. No exception leaves them.
struct lockable_calls {
  static void lock(FutoInAsyncSteps* bsi, FutoInSync* sync) noexcept {
    auto& self = *static_cast<lockable*>(sync);
    try {
      self.holders.lock(*bsi, self.object);
    } catch (...) {
      bsi->api->handle_error(bsi, errors::InternalError.c_str(), "no memory for a place in a sync object");
    }
  }
  static void unlock(FutoInAsyncSteps* bsi, FutoInSync* sync) { static_cast<lockable*>(sync)->holders.unlock(*bsi); }
};

ASYNCSTEPS_SHARED inline constexpr FutoInSyncAPI table_of_sync{{{&lockable_calls::lock, &lockable_calls::unlock}}};

/// The table by whose address an object of this library is known.
inline const FutoInSyncAPI& binary_sync_api() noexcept { return table_of_sync; }

inline lockable::lockable(ISync& o) noexcept : FutoInSync(&binary_sync_api()), object(o) {}

inline void lock_holder::lock(ISync& object) {
  flow().sync(object, [this](IAsyncSteps& asi) {
    has_entered_ = true;
    asi.waitExternal();
  });
  execute();
  async::event_loop::cycle_result next = turn();
  while (!has_entered_ && !has_ended() && next.have_work && next.delay <= next.delay.zero()) next = turn();
  if (has_ended()) return refused();
  if (has_entered_) {
    part();
    return all_.has_entered(*this);
  }
  void* const memory = step_.api->stack(&step_, sizeof(request), nullptr);
  if (memory == nullptr) return all_.remove(*this);  // the foreign flow knows
  request_ = ::new (memory) request{all_, *this, false};
  step_.api->waitExternal(&step_);
  step_.api->setCancel(&step_, request_, [](FutoInAsyncSteps* bsi, void* of) {
    const auto& cancelled = *static_cast<request*>(of);
    if (cancelled.is_granted) return cancelled.all.unlock(*bsi);
    cancelled.all.remove(cancelled.holder);
  });
  drive_after(next);
}

inline bool lock_holder::has_turned() {
  if (has_ended()) {
    refused();
    return true;
  }
  if (!has_entered_) return false;
  FutoInAsyncSteps& step = step_;
  request_->is_granted = true;
  part();
  all_.has_entered(*this);
  step.api->success(&step, nullptr);
  return true;
}

inline void lock_holder::refused() {
  FutoInAsyncSteps& step = step_;
  async::future<void> ended = std::move(end());
  all_.remove(*this);
  with_error_of(ended, [&step](const char* code, const char* info) { step.api->handle_error(&step, code, info); });
}

}  // namespace steps::inline v0_1::interop::detail
