// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>        // for errno
#include <system_error>  // for system_error, generic_category

namespace steps::inline v0_1::interop::nats::detail {

/// Wakes a thread that sleeps in poll(), from any thread.
class waker {
 public:
  waker() {
    if (::pipe(ends_) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    for (const int end : ends_) {
      ::fcntl(end, F_SETFL, O_NONBLOCK);
      ::fcntl(end, F_SETFD, FD_CLOEXEC);
    }
  }
  waker(const waker&) = delete;
  waker& operator=(const waker&) = delete;
  ~waker() { ::close(ends_[0]), ::close(ends_[1]); }

  /// Readable after wake().
  int file() const noexcept { return ends_[0]; }
  /// A full pipe wakes, too.
  void wake() const noexcept {
    if (::write(ends_[1], "", 1) < 0) return;
  }
  void drain() const noexcept {
    for (char bytes[64]; ::read(ends_[0], bytes, sizeof bytes) == sizeof bytes;) {
    }
  }

 private:
  int ends_[2];
};

}  // namespace steps::inline v0_1::interop::nats::detail
