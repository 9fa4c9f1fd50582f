// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <compare>      // for strong_ordering
#include <concepts>     // for same_as
#include <cstddef>      // for size_t
#include <memory>       // for shared_ptr
#include <string>       // for string
#include <string_view>  // for string_view

#include "async/detail/base/config.hpp"     // for ASYNCSTEPS_FUNCTION, ASYNCSTEPS_SHARED_TYPE
#include "async/detail/base/unhandled.hpp"  // for explained_error

/// Error codes and the exception that carries them (FTN12 2.1, 2.2.2).
namespace steps::inline v0_1 {

/// The code of an error: a short text such as "Timeout", compared by content.
///
/// Use it by value. A code made from a literal or an array constant may be kept for good. Do not keep any other code
/// (made from a pointer, a std::string or an exception) beyond the flow that raised it: it views the flow's copy.
///
///   asi.error("NotFound");  …  if (code == "NotFound" || code == steps::errors::Timeout) …
///
/// Threads     as a plain object.            Exceptions  none.
class ASYNCSTEPS_SHARED_TYPE ErrorCode {
 public:
  /// The empty code.
  constexpr ErrorCode() noexcept = default;
  /// A literal, or another constant array that lives as long as the program: a member of a constant object does not,
  /// and is passed as a pointer, `&reply.code[0]`, or as a std::string.
  template <std::size_t N>
  constexpr ErrorCode(const char (&literal)[N]) noexcept  // NOLINT: implicit by contract
      : text_(literal), lasting_(true) {}
  /// A buffer; its text is copied when the error is raised.
  template <std::size_t N>
  constexpr ErrorCode(char (&buffer)[N]) noexcept : text_(buffer) {}  // NOLINT: implicit by contract
  /// A pointer to a text; copied when the error is raised. Null is the empty code.
  template <class T>
    requires(std::same_as<T, const char*> || std::same_as<T, char*>)
  constexpr ErrorCode(const T& text) noexcept  // NOLINT: implicit by contract
      : text_(text == nullptr ? "" : text) {}
  /// A string; its text is copied when the error is raised.
  ErrorCode(const std::string& text) noexcept : text_(text.c_str()) {}  // NOLINT: implicit by contract

  /// The text, ended by a zero.
  constexpr const char* c_str() const noexcept { return text_; }
  /// The text.
  constexpr std::string_view view() const noexcept { return text_; }
  /// The text, ended by a zero.
  constexpr operator const char*() const noexcept { return text_; }  // NOLINT: implicit by contract
  /// True when the text lives as long as the program.
  constexpr bool is_lasting() const noexcept { return lasting_; }

  friend constexpr bool operator==(ErrorCode a, ErrorCode b) noexcept {
    return a.text_ == b.text_ || a.view() == b.view();
  }
  /// By content, too.
  friend constexpr std::strong_ordering operator<=>(ErrorCode a, ErrorCode b) noexcept { return a.view() <=> b.view(); }
  friend constexpr bool operator==(ErrorCode a, const char* b) noexcept {
    return b != nullptr && (a.text_ == b || a.view() == b);
  }
  template <std::same_as<std::string_view> T>
  friend constexpr bool operator==(ErrorCode a, T b) noexcept {
    return a.view() == b;
  }

 private:
  const char* text_ = "";
  bool lasting_ = false;
};

/// An error of steps as an exception: for user code without an `asi` at hand, and for the future of a flow that fails.
///
///   throw steps::Error("NotFound", path);
///
/// Use it to raise an error with a code and an info from a function that does not know that it runs inside a step. Do
/// not use it where `asi.error(code, info)` or `asi.errorNoThrow(code, info)` can be called: the latter is more than
/// ten times faster.
///
/// Threads     as a plain object; copies share their text.
/// Exceptions  std::bad_alloc from the constructor unless the code is a literal and the info has at most 79
///             characters; copies never throw.
class ASYNCSTEPS_SHARED_TYPE Error : public async::detail::explained_error {
 public:
  /// An error without an explanation.
  Error(ErrorCode code)  // NOLINT: implicit, `throw steps::Error("Code")`
      : Error(code, std::string_view()) {}
  /// An error with an explanation for people. Handlers get it as state().error_info().
  Error(ErrorCode code, std::string_view info);

  /// Valid as long as this object or a copy of it.
  ErrorCode code() const noexcept { return literal_.is_lasting() || texts_ == nullptr ? literal_ : texts_->code; }
  /// The explanation; empty when there is none.
  std::string error_info() const { return std::string(explanation()); }
  /// The text of the code.
  const char* what() const noexcept override { return code().c_str(); }
  /// The explanation without a copy: valid as long as this object.
  std::string_view explanation() const noexcept override {
    return texts_ == nullptr ? std::string_view(info_, info_size()) : texts_->info;
  }

 private:
  struct texts {
    std::string code;
    std::string info;
  };
  static constexpr std::size_t most_here = 79;  // an info of so many characters takes no memory
  std::size_t info_size() const noexcept { return most_here - static_cast<unsigned char>(info_[most_here]); }

  ErrorCode literal_;
  std::shared_ptr<const texts> texts_;
  char info_[most_here + 1];  // ends with a zero; the last char tells how many others are free
};

#if ASYNCSTEPS_DEFINED
ASYNCSTEPS_FUNCTION Error::Error(ErrorCode code, std::string_view info) : explained_error("") {
  const bool fits = code.is_lasting() && info.size() <= most_here;
  const std::size_t size = fits ? info.copy(info_, info.size()) : 0;
  info_[size] = '\0';
  info_[most_here] = static_cast<char>(most_here - size);  // the zero if none is free
  if (code.is_lasting()) literal_ = code;
  if (!fits) {
    texts_ = std::make_shared<const texts>(texts{std::string(code.view()), std::string(info)});
  }
}
#endif

/// The text that explains an error: a std::string_view of the flow's own copy. Copies of this object own their text, so
/// `auto info = asi.state().error_info();` and `std::string info = …` may be kept.
///
/// Threads     as a plain object.            Exceptions  std::bad_alloc from copies.
class ErrorInfo : public std::string_view {
 public:
  ErrorInfo() noexcept = default;
  /// A view of a text that ends with a zero and lives longer.
  explicit ErrorInfo(const char* text, std::size_t length) noexcept : std::string_view(text, length) {}
  ErrorInfo(const ErrorInfo& other) : std::string_view(), copy_(other.data(), other.size()) { look(copy_); }
  ErrorInfo& operator=(const ErrorInfo& other) {
    copy_.assign(other.data(), other.size());
    look(copy_);
    return *this;
  }
  ~ErrorInfo() = default;

  /// The text, ended by a zero.
  const char* c_str() const noexcept { return data() == nullptr ? "" : data(); }
  /// A copy of the text.
  std::string str() const { return std::string(data(), size()); }
  /// A copy of the text.
  operator std::string() const { return str(); }  // NOLINT: implicit by contract

  /// Shows another text, which lives longer.
  void look(std::string_view text) noexcept { std::string_view::operator=(text); }

 private:
  std::string copy_;
};

/// The codes of FTN3 and FTN12, and those of what flows wait for: pools, futures, queues. Further codes are any
/// literals; programs may add theirs to this namespace.
namespace errors {
inline constexpr ErrorCode ConnectError{"ConnectError"};  ///< The connection failed before the request was sent.
inline constexpr ErrorCode CommError{"CommError"};        ///< Communication failed after that.
inline constexpr ErrorCode UnknownInterface{"UnknownInterface"};        ///< The server does not know the interface.
inline constexpr ErrorCode NotSupportedVersion{"NotSupportedVersion"};  ///< It does not know this version of it.
inline constexpr ErrorCode NotImplemented{"NotImplemented"};    ///< It knows the function, but does not offer it.
inline constexpr ErrorCode Unauthorized{"Unauthorized"};        ///< The caller may not do this.
inline constexpr ErrorCode InternalError{"InternalError"};      ///< Misuse, a mismatch of types, an exceeded limit.
inline constexpr ErrorCode InvokerError{"InvokerError"};        ///< The caller's side has failed.
inline constexpr ErrorCode InvalidRequest{"InvalidRequest"};    ///< The request breaks the interface's rules.
inline constexpr ErrorCode DefenseRejected{"DefenseRejected"};  ///< A queue or rate limit is exceeded.
inline constexpr ErrorCode PleaseReauth{"PleaseReauth"};        ///< The caller has to authenticate anew.
inline constexpr ErrorCode SecurityError{"SecurityError"};      ///< A request is not as secured as it says.
inline constexpr ErrorCode Timeout{"Timeout"};                  ///< setTimeout() or setDeadline() has expired.
inline constexpr ErrorCode QueueClosed{"QueueClosed"};          ///< The queue of await() or enqueue() is closed.
inline constexpr ErrorCode Stopped{"Stopped"};                  ///< async::stopped: the pool takes no more work.
inline constexpr ErrorCode QueueFull{"QueueFull"};              ///< async::queue_full: the pool's queue is full.
inline constexpr ErrorCode BrokenPromise{"BrokenPromise"};      ///< The awaited future will never get a value.
inline constexpr ErrorCode LoopBreak{"LoopBreak"};              ///< Seen by handlers between breakLoop() and its loop.
inline constexpr ErrorCode LoopCont{"LoopCont"};                ///< The same for continueLoop().
}  // namespace errors

}  // namespace steps::inline v0_1
