// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <memory>       // for destroy_at
#include <new>          // for placement new
#include <type_traits>  // for is_invocable_v, invoke_result_t, decay_t
#include <utility>      // for forward, in_place
#include <version>      // for __cpp_lib_jthread
#if defined(__cpp_lib_jthread)
#include <stop_token>  // for stop_source, stop_token
#endif

#include "async/detail/base/block_cache.hpp"   // for allocate_block, free_block
#include "async/detail/call/call_memory.hpp"   // for stored_call
#include "async/detail/call/result_state.hpp"  // for result, result_state
#include "async/detail/pool/pool_core.hpp"     // for pool_core
#include "async/priority.hpp"                  // for priority

namespace async::inline v0_1::detail {

/// Makes a State in a recycled block. Throws what its constructor throws, and std::bad_alloc.
template <class State, class... A>
State* make_state(A&&... arguments) {
  struct memory {
    void* block = allocate_block(sizeof(State), alignof(State));
    ~memory() {
      if (block != nullptr) detail::free_block(block, sizeof(State), alignof(State));
    }
  } room;
  auto* const made = ::new (room.block) State(std::forward<A>(arguments)...);
  room.block = nullptr;
  return made;
}
template <class State>
void free_state(result_state& base) noexcept {
  auto& state = static_cast<State&>(base);
  std::destroy_at(&state);
  detail::free_block(&state, sizeof(State), alignof(State));
}

/// The result of a promise.
template <class T>
struct promised_result final : result<T> {
  promised_result() noexcept : result<T>(how) {}
  static constexpr result_state::operations how{nullptr, nullptr, nullptr, &free_state<promised_result>};
};

/// The result of a call in a pool; of a call elsewhere, if `pool` is null.
template <class T, class... Call>
class call_result_state : public result<T> {
 public:
  template <class... From>
  explicit call_result_state(pool_core* pool, From&&... from)
      : call_result_state(how, pool, std::forward<From>(from)...) {}

 protected:
  template <class... From>
  explicit call_result_state(const result_state::operations& its, pool_core* pool, From&&... from)
      : result<T>(its, pool), call_(std::in_place, std::forward<From>(from)...) {}

  static bool make(result_state& s) {
    auto& self = static_cast<call_result_state&>(s);
    self.keep([&self]() -> decltype(auto) { return self.call_(); });
    return true;
  }
  static void drop(result_state& s) noexcept { static_cast<call_result_state&>(s).call_.drop(); }

 private:
  static constexpr result_state::operations how{&make, &drop, nullptr, &free_state<call_result_state>};

  stored_call<Call...> call_;
};

#if defined(__cpp_lib_jthread)
/// Outlives the call.
struct stop_of_call {
  std::stop_source source;
};

/// The same for a call whose first parameter is a std::stop_token, by which cancel() requests it to stop.
template <class T, class F, class... A>
class stoppable_call_state final : stop_of_call, public call_result_state<T, F, std::stop_token, A...> {
  using base = call_result_state<T, F, std::stop_token, A...>;

 public:
  template <class G, class... From>
  explicit stoppable_call_state(pool_core* pool, G&& f, From&&... from)
      : base(how, pool, std::forward<G>(f), source.get_token(), std::forward<From>(from)...) {}

 private:
  static void request_stop(result_state& s) noexcept { static_cast<stoppable_call_state&>(s).source.request_stop(); }
  static constexpr result_state::operations how{&base::make, &base::drop, &request_stop,
                                                &free_state<stoppable_call_state>};
};
#endif

/// The result type of a call as std::async makes it.
template <class F, class... Args>
using call_result = std::invoke_result_t<std::decay_t<F>, std::decay_t<Args>...>;

/// The result type of a call, and its state.
template <class F, class... A>
struct call_kind {
  using type = std::invoke_result_t<F, A...>;
  using state = call_result_state<type, F, A...>;
};
#if defined(__cpp_lib_jthread)
template <class F, class... A>
  requires(!std::is_invocable_v<F, A...> && std::is_invocable_v<F, std::stop_token, A...>)
struct call_kind<F, A...> {
  using type = std::invoke_result_t<F, std::stop_token, A...>;
  using state = stoppable_call_state<type, F, A...>;
};
#endif

/// Hands a call in by submit(state), which uses the maker's reference, and keeps one for the caller. Throws what
/// submit() throws; then nothing is called, and the state has gone.
template <class State, class Submit>
State* handed_in(State* state, Submit submit) {
  struct owner {
    result_state* state;
    ~owner() {
      if (state != nullptr) state->release();
    }
  } here{state};
  submit(*state);
  here.state = nullptr;
  return state;
}

/// The same for a call of its pool. Throws what pool_core::submit() throws.
template <class State>
State* submitted(State* state, priority wanted = priority::normal) {
  return handed_in(state, [wanted](result_state& s) { s.submit_with(wanted); });
}

/// Makes a call, hands it to the pool, and returns its state with a reference for the caller. Throws what copying
/// throws, std::bad_alloc and what pool_core::submit() throws; then nothing was called.
template <class... Parts>
result<typename call_kind<std::decay_t<Parts>...>::type>* submit_call(pool_core& pool, Parts&&... parts) {
  using state = typename call_kind<std::decay_t<Parts>...>::state;
  return submitted(make_state<state>(&pool, std::forward<Parts>(parts)...));
}

/// The same with a priority.
template <class... Parts>
result<typename call_kind<std::decay_t<Parts>...>::type>* submit_call_with(priority wanted, pool_core& pool,
                                                                           Parts&&... parts) {
  using state = typename call_kind<std::decay_t<Parts>...>::state;
  return submitted(make_state<state>(&pool, std::forward<Parts>(parts)...), wanted);
}

/// The same for a call that put(task) hands to other threads than a threadpool's.
template <class Put, class... Parts>
result<typename call_kind<std::decay_t<Parts>...>::type>* hand_call_to(Put put, Parts&&... parts) {
  using state = typename call_kind<std::decay_t<Parts>...>::state;
  return handed_in(make_state<state>(nullptr, std::forward<Parts>(parts)...),
                   [&put](result_state& s) { put(s.as_task()); });
}

}  // namespace async::inline v0_1::detail
