// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdio>       // for fprintf
#include <exception>    // for exception_ptr, terminate
#include <stdexcept>    // for runtime_error
#include <string_view>  // for string_view
#include <utility>      // for swap

#include "async/detail/base/config.hpp"           // for ASYNCSTEPS_SHARED_TYPE
#include "async/detail/base/reference_count.hpp"  // for reference_count

namespace async::inline v0_1::detail {

/// An exception with more to say than what(), for the message before the program ends.
class ASYNCSTEPS_SHARED_TYPE explained_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  /// Empty when there is nothing to add; valid as long as the exception.
  virtual std::string_view explanation() const noexcept = 0;
};

/// Receives exceptions that are not handled elsewhere.
struct unhandled_hook {
  virtual ~unhandled_hook() = default;
  virtual void operator()(std::exception_ptr error) = 0;

  reference_count references;
};

/// Shares a hook, in one word: a pool has a loop for each flow. Null: there is none.
class hook_ref {
 public:
  hook_ref() = default;
  /// Takes the first reference of a hook made by new.
  explicit hook_ref(unhandled_hook* made) noexcept : hook_(made) {}
  hook_ref(const hook_ref& other) noexcept : hook_(other.hook_) {
    if (hook_ != nullptr) hook_->references.add();
  }
  hook_ref& operator=(hook_ref other) noexcept {
    std::swap(hook_, other.hook_);
    return *this;
  }
  ~hook_ref() {
    if (hook_ != nullptr && hook_->references.drop()) delete hook_;
  }

  explicit operator bool() const noexcept { return hook_ != nullptr; }
  unhandled_hook& operator*() const noexcept { return *hook_; }
  bool operator==(const hook_ref&) const noexcept = default;

 private:
  unhandled_hook* hook_ = nullptr;
};

/// Its text; empty for a class of a program that returns null.
inline const char* text_of(const std::exception& e) noexcept { return e.what() != nullptr ? e.what() : ""; }

/// Writes the exception's text and ends the program. The message begins with `where`. Null: pthread_exit(), or
/// pthread_cancel(), where it cannot end the thread.
[[noreturn]] inline void terminate_for(const std::exception_ptr& error,
                                       const char* where = "asyncsteps: unhandled exception") noexcept {
  try {
    if (error == nullptr) throw std::runtime_error("pthread_exit() or pthread_cancel() where it cannot end the thread");
    std::rethrow_exception(error);
  } catch (const explained_error& e) {
    const std::string_view more = e.explanation();
    std::fprintf(stderr, "%s: %s%s%.*s\n", where, text_of(e), more.empty() ? "" : ": ", static_cast<int>(more.size()),
                 more.data());
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", where, text_of(e));
  } catch (...) {
    std::fprintf(stderr, "%s: an exception that is no std::exception\n", where);
  }
  std::terminate();
}

}  // namespace async::inline v0_1::detail
