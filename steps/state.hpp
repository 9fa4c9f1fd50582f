// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <any>          // for any
#include <cstddef>      // for byte, size_t
#include <cstdint>      // for uintptr_t
#include <cstring>      // for memmove
#include <exception>    // for exception, exception_ptr
#include <map>          // for map
#include <string>       // for basic_string
#include <string_view>  // for string_view
#include <utility>      // for exchange, forward, move, swap
#include <vector>       // for vector

#include "async/detail/base/block_cache.hpp"       // for allocate_block, free_block
#include "async/detail/base/config.hpp"            // for ASYNCSTEPS_FUNCTION, ASYNCSTEPS_TSAN
#include "async/detail/base/min_max.hpp"           // for min_of
#include "async/detail/base/spin_lock.hpp"         // for spin_lock
#include "async/detail/future/unseen_by_tsan.hpp"  // for unseen_by_tsan
#include "steps/detail/flow/hook.hpp"              // for hook
#include "steps/errors.hpp"                        // for ErrorCode, Error

namespace steps::inline v0_1 {

namespace detail {

struct flow;
struct state_access;
std::vector<std::string_view> stack_of(const flow& f);
std::exception_ptr error_of(flow& f);

/// Memory for the state of a flow that allocates nothing: each byte is handed out once, until the flow goes.
struct fixed_buffer {
  std::byte* next;
  std::byte* end;
};

/// Allocator of the state's map: recycled blocks, or a buffer of fixed size.
template <class T>
struct state_allocator {
  using value_type = T;

  state_allocator() noexcept = default;  // the strings of libstdc++'s old ABI need it
  explicit state_allocator(fixed_buffer* from) noexcept : buffer(from) {}
  template <class U>
  state_allocator(const state_allocator<U>& other) noexcept : buffer(other.buffer) {}  // NOLINT: rebinding

  T* allocate(std::size_t n) {
    const std::size_t bytes = n * sizeof(T);
    if (buffer == nullptr) return static_cast<T*>(async::detail::allocate_block(bytes, alignof(T)));
    const std::size_t step = (bytes + alignof(std::max_align_t) - 1) / alignof(std::max_align_t);
    if (static_cast<std::size_t>(buffer->end - buffer->next) < step * alignof(std::max_align_t)) {
      throw Error(errors::InternalError, "the state exceeds nitro::MaxStateBytes");
    }
    void* const memory = buffer->next;
    buffer->next += step * alignof(std::max_align_t);
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, std::size_t n) noexcept {
    if (buffer == nullptr) async::detail::free_block(memory, n * sizeof(T), alignof(T));
  }
  friend bool operator==(const state_allocator& a, const state_allocator& b) noexcept { return a.buffer == b.buffer; }

  fixed_buffer* buffer = nullptr;
};

}  // namespace detail

/// The values that the steps of one flow share, by key, and facts about the last error (FTN12 1.7, 2.1).
///
/// Use it for values that many steps need: a request, a connection. Do not use it for a value that only the next step
/// needs (success(args...)), or for objects that live as long as one step (stack<T>()).
///
///   asi.state()["user"] = std::string("joe");   auto& user = asi.state<std::string>("user");
///
/// Threads     the flow's only; before execute() the builder's. The branches of parallel() share the values and hooks;
///             each has its own error_info() and last_exception(). On a pool branches run at the same time. They may
///             look up and make values; they guard what a value holds (sync()), and set no hooks, which they may call
///             at the same time.
/// Lifetime    values live as long as the root flow, over several executions; references to them stay valid.
/// Exceptions  std::bad_alloc where a value, key or hook needs memory.
class State {
 public:
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();

  /// The value of a key. A new key gets an empty std::any.
  std::any& operator[](std::string_view name);
  /// True when the key has been used.
  bool contains(std::string_view name) const noexcept;

  /// The info of the error being handled, else of the error that has ended the flow; empty after a recovery.
  const ErrorInfo& error_info() const noexcept { return info_; }
  /// The last exception that left a step or handler, also after a recovery; null: none in this execution. A thrown
  /// ErrorCode is a code only, and leaves the exception before it.
  const std::exception_ptr& last_exception() const noexcept { return exception_; }
  /// The error that an error handler, or the hook of set_unhandled_error(), has been called for, as an exception: the
  /// one that was thrown, or an Error of its code and info. Null elsewhere, and in a handler that has called success().
  /// For promises: promise.set_exception(asi.state().current_exception()).
  std::exception_ptr current_exception() const { return is_shown_ ? exception_ : detail::error_of(*flow_); }
  /// Types of the functions of the active steps, innermost first; for logs.
  std::vector<std::string_view> async_stack() const;

  /// Has f(ErrorCode) called for an error that ends the root flow, unless it has a promise, and for exceptions of
  /// cancel handlers and of functions of onEnd(). error_info() and last_exception() of their flow or branch tell of it
  /// meanwhile. Replaces the default: the loop's on_unhandled(), which ends the program unless it has a hook. The flow
  /// executes until f has returned: to execute it again, post that to its loop.
  template <class F>
  void set_unhandled_error(F&& f) {
    shared().unhandled_.set(std::forward<F>(f));
  }
  /// Has f(const std::exception&) called for every exception that leaves a step or handler; for logs.
  template <class F>
  void set_catch_trace(F&& f) {
    shared().trace_.set(std::forward<F>(f));
  }
  /// Replaces the info of the error, for a handler that lets it pass. The text is copied.
  void set_error_info(std::string_view info);
  /// Calls the hook of set_catch_trace(), if there is one: for code that catches an exception itself.
  void catch_trace(const std::exception& e) {
    if (const auto& trace = shared().trace_) trace(e);
  }
  /// Calls the hook of set_unhandled_error(), if there is one: for code that runs steps on its own.
  void unhandled_error(ErrorCode code) {
    if (const auto& unhandled = shared().unhandled_) unhandled(code);
  }

 private:
  friend struct detail::state_access;

  using text = std::basic_string<char, std::char_traits<char>, detail::state_allocator<char>>;
  struct less {
    using is_transparent = void;
    bool operator()(std::string_view a, std::string_view b) const noexcept { return a < b; }
  };
  using values = std::map<text, std::any, less, detail::state_allocator<std::pair<const text, std::any>>>;

  State(detail::flow& f, State* root, detail::fixed_buffer* buffer);

  /// A lock for a look-up, where branches of the flow run on several threads.
  class lock {
   public:
    explicit lock(const State& s) noexcept : lock_(s.is_shared_ ? &s.lock_ : nullptr) {
      if (lock_ != nullptr) lock_->lock();
    }
    ~lock() {
      if (lock_ != nullptr) lock_->unlock();
    }
    lock(const lock&) = delete;
    lock& operator=(const lock&) = delete;

   private:
    async::detail::spin_lock* const lock_;
  };

  std::any& find(std::string_view name);
  State& shared() noexcept { return root_ != nullptr ? *root_ : *this; }
  const State& shared() const noexcept { return root_ != nullptr ? *root_ : *this; }

  detail::flow* const flow_;
  State* const root_;  // of a branch: the root flow's
  ErrorInfo info_;
  text info_text_{detail::state_allocator<char>(nullptr)};  // the text of info_, unless there is a fixed buffer
  text code_text_{detail::state_allocator<char>(nullptr)};  // the text of a code that is no literal, likewise
  char* fixed_ = nullptr;                                   // buffer for both texts, of room_ bytes each
  std::size_t room_ = 0;
  bool is_shared_ = false;  // with branches on other threads; written before they start
  mutable async::detail::spin_lock lock_;
  bool own_exception_ = false;  // the pending error was made from exception_
  bool is_shown_ = false;       // exception_ is that of a hook which runs, see show()
  std::exception_ptr exception_;
  detail::hook<ErrorCode> unhandled_;
  detail::hook<const std::exception&> trace_;
  values values_;
};

#if ASYNCSTEPS_DEFINED
ASYNCSTEPS_FUNCTION State::State(detail::flow& f, State* root, detail::fixed_buffer* buffer)
    : flow_(&f), root_(root), values_(values::allocator_type(buffer)) {}

ASYNCSTEPS_FUNCTION State::~State() = default;

ASYNCSTEPS_FUNCTION std::any& State::operator[](std::string_view name) {
  const lock together(shared());
  return find(name);
}

ASYNCSTEPS_FUNCTION bool State::contains(std::string_view name) const noexcept {
  const lock together(shared());
  return shared().values_.contains(name);
}

ASYNCSTEPS_FUNCTION std::vector<std::string_view> State::async_stack() const { return detail::stack_of(*flow_); }

ASYNCSTEPS_FUNCTION std::any& State::find(std::string_view name) {
  values& all = shared().values_;
  const auto found = all.find(name);
  if (found != all.end()) return found->second;
  return all.try_emplace(text(name, all.get_allocator())).first->second;
}
#endif

namespace detail {

/// The engine's access to a State.
struct state_access {
  static State* make(void* memory, flow& f, State* root, fixed_buffer* buffer) {
    return ::new (memory) State(f, root, buffer);
  }
  static void clear_info(State& s) noexcept { s.info_.look({}); }
  /// Copies the texts of an error, each of which may be a view of the other's last copy. The returned code is valid
  /// until the next call.
  static ErrorCode keep_texts(State& s, ErrorCode code, std::string_view info);
  static void keep_info(State& s, std::string_view info);
  /// Destroys values and hooks, whose destructors may use the State.
  static void clear(State& s) noexcept;
  /// Calls f() while the State tells of this error, for a hook. A text that f sets stays.
  template <class F>
  static void show(State& s, std::string_view info, std::exception_ptr error, F f) {
    struct turn_back {
      State& state;
      std::string_view shown;
      std::string_view info;
      bool own;
      bool was_shown;
      std::exception_ptr exception;
      ~turn_back() {
        std::swap(state.exception_, exception);
        state.own_exception_ = own;
        state.is_shown_ = was_shown;
        if (state.info_.data() == shown.data()) state.info_.look(info);
      }
    } const before{s,
                   info,
                   s.info_,
                   std::exchange(s.own_exception_, false),
                   std::exchange(s.is_shown_, true),
                   std::exchange(s.exception_, std::move(error))};
    s.info_.look(info);
    f();
  }
  /// Texts are kept in `buffer`, each cut to what fits into half of it.
  static void use_buffer(State& s, char* buffer, std::size_t size) noexcept {
    s.fixed_ = buffer;
    s.room_ = size / 2;
  }
  /// Forgets the last execution; its info too unless an error is pending.
  static void reset(State& s, bool pending) noexcept {
    if (!pending) s.info_.look({});
    set_exception(s, nullptr, false);
  }
  /// `own`: the pending error was made from it. The exception before may go with this.
  static void set_exception(State& s, std::exception_ptr e, bool own) noexcept {
#if ASYNCSTEPS_TSAN
    const async::detail::unseen_by_tsan quiet;
#endif
    s.exception_ = std::move(e);
    s.own_exception_ = own;
  }
  /// The last exception, which reset() does not destroy yet: its destructor may end the flow.
  class last_exception {
   public:
    explicit last_exception(const State* s) noexcept {
#if ASYNCSTEPS_TSAN
      const async::detail::unseen_by_tsan quiet;
#endif
      if (s != nullptr) kept_ = s->exception_;
    }
#if ASYNCSTEPS_TSAN
    ~last_exception() {
      const async::detail::unseen_by_tsan quiet;
      kept_ = nullptr;
    }
#else
    ~last_exception() = default;
#endif
    last_exception(const last_exception&) = delete;
    last_exception& operator=(const last_exception&) = delete;

   private:
    std::exception_ptr kept_;
  };
  /// True when the pending error was made from exception().
  static bool own_exception(const State& s) noexcept { return s.own_exception_; }
  static const std::exception_ptr& exception(const State& s) noexcept { return s.exception_; }
  /// The pending error is another one.
  static void disown_exception(State& s) noexcept { s.own_exception_ = false; }
  static hook<ErrorCode>& unhandled(State& s) noexcept { return s.shared().unhandled_; }
  static hook<const std::exception&>& trace(State& s) noexcept { return s.shared().trace_; }
  static State& root(State& s) noexcept { return s.shared(); }
  /// Locks all further look-ups: they come from several threads.
  static void share(State& s) noexcept {
    if (!s.shared().is_shared_) s.shared().is_shared_ = true;  // a branch that has branches finds it so
  }
  /// The value of a key; one without value gets `value`, whose move may use the state if it is larger than a pointer.
  template <class T>
  static T& value(State& s, std::string_view name, T&& value) {
    std::any made;
    std::any* found = keep(s, name, made);
    if (found == nullptr) {
      made.emplace<T>(std::move(value));
      found = keep(s, name, made);
    }
    return std::any_cast<T&>(*found);
  }
  /// The value of a key; one without value takes over that of `made`. Null: neither has a value.
  static std::any* keep(State& s, std::string_view name, std::any& made);

 private:
  static ErrorCode keep_in_buffer(State& s, std::string_view code, std::string_view info);
  static std::string_view copy(char* to, std::size_t room, std::string_view text) noexcept;
  static bool lies_in(std::string_view where, std::string_view text) noexcept {
    return reinterpret_cast<std::uintptr_t>(text.data()) - reinterpret_cast<std::uintptr_t>(where.data()) <
           where.size();
  }
};

#if ASYNCSTEPS_DEFINED
ASYNCSTEPS_FUNCTION void state_access::clear(State& s) noexcept {
  while (!s.values_.empty()) {
    State::values gone(s.values_.get_allocator());
    gone.swap(s.values_);
  }
  s.unhandled_.destroy();
  s.trace_.destroy();
}

ASYNCSTEPS_FUNCTION ErrorCode state_access::keep_texts(State& s, ErrorCode code, std::string_view info) {
  if (code.is_lasting()) {
    keep_info(s, info);
    return code;
  }
  if (s.fixed_ != nullptr) return keep_in_buffer(s, code.view(), info);
  if (lies_in(s.code_text_, info)) {
    State::text fresh(code.view(), s.code_text_.get_allocator());
    keep_info(s, info);
    s.code_text_.swap(fresh);
  } else {
    if (code.c_str() != s.code_text_.c_str()) s.code_text_ = code.view();
    keep_info(s, info);
  }
  return s.code_text_.c_str();
}

/// The first half of the buffer is the code's.
ASYNCSTEPS_FUNCTION ErrorCode state_access::keep_in_buffer(State& s, std::string_view code, std::string_view info) {
  char* const code_half = s.fixed_;
  char* const info_half = s.fixed_ + s.room_;
  const std::string_view old_code(code_half, s.room_);
  const std::string_view old_info(info_half, s.room_);
  if (lies_in(old_code, info) && lies_in(old_info, code)) {  // each where the other's copy comes
    for (std::size_t i = 0; i != s.room_; ++i) std::swap(code_half[i], info_half[i]);
    code = {code.data() - s.room_, code.size()};
    info = {info.data() + s.room_, info.size()};
  }
  const bool info_first = lies_in(old_code, info);
  if (info_first) keep_info(s, info);
  const ErrorCode kept = copy(code_half, s.room_, code).data();
  if (!info_first) keep_info(s, info);
  return kept;
}

ASYNCSTEPS_FUNCTION void state_access::keep_info(State& s, std::string_view info) {
  if (s.fixed_ != nullptr) return s.info_.look(copy(s.fixed_ + s.room_, s.room_, info));
  s.info_text_ = info;
  s.info_.look(s.info_text_);
}

ASYNCSTEPS_FUNCTION std::any* state_access::keep(State& s, std::string_view name, std::any& made) {
  const State::lock together(s.shared());
  std::any& found = s.find(name);
  if (!found.has_value()) found.swap(made);
  return found.has_value() ? &found : nullptr;
}

ASYNCSTEPS_FUNCTION std::string_view state_access::copy(char* to, std::size_t room, std::string_view text) noexcept {
  const std::size_t length = async::detail::min_of(text.size(), room - 1);
  if (length != 0) std::memmove(to, text.data(), length);
  to[length] = '\0';
  return {to, length};
}
#endif

}  // namespace detail

#if ASYNCSTEPS_DEFINED
ASYNCSTEPS_FUNCTION void State::set_error_info(std::string_view info) { detail::state_access::keep_info(*this, info); }
#endif

}  // namespace steps::inline v0_1
