// SPDX-License-Identifier: BSL-1.0
// floor: 14
#pragma once
#include <cstddef>  // for size_t
#include <memory>   // for destroy_at
#include <new>      // for operator delete
#include <utility>  // for exchange

#include "async/detail/block_cache.hpp"  // for allocate_block, free_block
#include "async/event_loop.hpp"          // for event_loop
#include "steps/iasyncsteps.hpp"         // for IAsyncSteps

namespace steps {

/// A root flow: steps that run one after the other on an event loop (FTN12 2.2.3).
///
/// Use it for a piece of business logic with errors, limits in time and cancellation. Do not use it where all memory
/// must be reserved beforehand (NitroSteps), or where nobody is left to own the flow.
///
///   async::event_loop loop;
///   steps::AsyncSteps flow{loop};
///   flow.add([](steps::IAsyncSteps& asi) { asi.success(42); });
///   std::future<int> answer = flow.promise<int>();
///
/// Threads     one at a time, which need not be the loop's; cancel(): any.
/// Lifetime    The loop outlives the flow's execution. Destroying a flow that executes cancels it; on another thread
///             than the loop's the destructor waits until that has been done. A flow may be destroyed by a callback of
///             its own: its memory stays until the callback has returned.
/// Memory      a recycled block of 448 bytes, which holds three or four steps; further ones in chunks of 512 bytes.
///             In the steady state a flow allocates nothing.
class AsyncSteps final : public IAsyncSteps {
 public:
  /// A flow without steps. Throws std::bad_alloc. An AsyncTool is an event_loop, too.
  explicit AsyncSteps(async::event_loop& loop) : AsyncSteps() {
    void* const block = async::detail::allocate_block(block_size);
    flow_ =
        ::new (block) detail::flow(&flow_functions, block_size - sizeof(detail::flow), &detail::resume, &detail::begin);
    flow_->core = &async::detail::core_of(loop);
  }
  /// Takes the flow over, also one that executes; `other` can only be destroyed or assigned to.
  AsyncSteps(AsyncSteps&& other) noexcept : AsyncSteps() { flow_ = std::exchange(other.flow_, nullptr); }
  AsyncSteps& operator=(AsyncSteps&& other) noexcept {
    if (this != &other) {
      destroy();
      flow_ = std::exchange(other.flow_, nullptr);
    }
    return *this;
  }
  ~AsyncSteps() { destroy(); }

  static void operator delete(void* memory) { ::operator delete(memory); }

 private:
  static constexpr std::size_t block_size = 448;

  AsyncSteps() noexcept {
    flags_ = detail::record_flag::is_root;
    ops_ = &face_functions;
  }

  void destroy() noexcept {
    detail::flow* const f = std::exchange(flow_, nullptr);
    if (f == nullptr) return;
    if (!detail::retire(*f)) {
      f->doomed = true;
      return;
    }
    drop_built(*f);
    release(*f);
  }
  static void drop_built(detail::flow& f) noexcept {
    if (!f.ended) detail::drop_steps(f, detail::arena_of(f), f.root.sub_end_);
  }
  static void release(detail::flow& f) noexcept {
    detail::destroy_flow(f);
    async::detail::free_block(&f, block_size);
  }
  static void delete_face(detail::step& face) noexcept { delete &static_cast<AsyncSteps&>(face); }

  static constexpr detail::flow_ops flow_functions{&detail::end_root, &release};
  static constexpr detail::step_ops face_functions{nullptr, nullptr, &delete_face, {}};
};

}  // namespace steps
