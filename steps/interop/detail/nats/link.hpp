// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <nats/nats.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>  // for min
#include <cstdint>    // for int64_t
#include <memory>     // for shared_ptr, unique_ptr, enable_shared_from_this
#include <mutex>      // for mutex, lock_guard
#include <string>     // for string
#include <utility>    // for move
#include <vector>     // for vector

#include "async/detail/base/chrono.hpp"         // for duration_cast, milliseconds, nanoseconds, steady_clock
#include "async/detail/base/config.hpp"         // for ASYNCSTEPS_SHARED
#include "steps/interop/detail/nats/waker.hpp"  // for waker
#include "steps/interop/nats_options.hpp"       // for options

namespace steps::inline v0_1::interop::nats::detail {

inline std::int64_t milliseconds_of(std::chrono::nanoseconds time) noexcept {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

/// One connection of the client, whose reads and writes are made by those who use this. Without TLS these never block.
/// A lost connection ends; another one is another object.
///
/// Threads     open(): any, and blocks; the destructor and I/O: any, one at a time; the client calls back on any.
class link : public std::enable_shared_from_this<link> {
 public:
  link(const options& how, std::shared_ptr<waker> wakes) : waker_(std::move(wakes)) {
    natsOptions* made = nullptr;
    status_ = natsOptions_Create(&made);
    options_.reset(made);
    std::vector<std::string> urls;
    for (std::size_t at = 0; at <= how.url.size();) {
      const std::size_t end = (std::min)(how.url.find(',', at), how.url.size());
      if (end != at) urls.push_back(how.url.substr(at, end - at));
      at = end + 1;
    }
    std::vector<const char*> servers;
    for (const std::string& url : urls) servers.push_back(url.c_str());
    set(natsOptions_SetServers, servers.data(), static_cast<int>(servers.size()));
    if (!how.name.empty()) set(natsOptions_SetName, how.name.c_str());
    set(natsOptions_SetTimeout, milliseconds_of(how.connect_timeout));
    set(natsOptions_SetPingInterval, milliseconds_of(how.ping));
    set(natsOptions_SetMaxPingsOut, 2);
    set(natsOptions_SetAllowReconnect, false);         // the bridge makes another link
    set(natsOptions_SetSendAsap, true);                // asks for each write at once; the bridge makes one of many
    set(natsOptions_UseGlobalMessageDelivery, false);  // a thread that polls has one subscription
    set(natsOptions_SetErrorHandler, &ignore_error, nullptr);
    set(natsOptions_SetEventLoop, static_cast<void*>(this), &attach, &read, &write, &detach);
    if (how.configure) how.configure(made);
  }
  link(const link&) = delete;
  link& operator=(const link&) = delete;
  ~link() { natsConnection_Destroy(connection_); }

  /// Connects; blocks for as long as that takes. Returns an empty text, or what went wrong.
  std::string open() {
    if (status_ == NATS_OK) status_ = natsConnection_Connect(&connection_, options_.get());
    if (status_ == NATS_OK) return {};
    natsStatus last = NATS_OK;
    const char* const text = nats_GetLastError(&last);
    return text != nullptr && *text != '\0' ? text : natsStatus_GetText(status_);
  }
  /// Ends the connection, after at most `limit` for what the client still has to write, which the system then sends.
  /// The client lets go of this object.
  void close(std::chrono::milliseconds limit) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (!is_over() && natsConnection_Buffered(connection_) > 0 && std::chrono::steady_clock::now() < end) {
      pollfd socket{file(), POLLOUT, 0};
      if (::poll(&socket, 1, 10) > 0) natsConnection_ProcessWriteEvent(connection_);
    }
    // The client has asked the system to drop what it has yet to send.
    const ::linger sends_on{0, 0};
    ::setsockopt(file(), SOL_SOCKET, SO_LINGER, &sends_on, sizeof sends_on);
    natsConnection_Close(connection_);
  }

  /// What the socket has. Not while there is nothing.
  void receive() {
    if (!has_read_) {
      unsigned char first = 0;  // of the protocol, which is text, or of a record of TLS, whose types are 20 to 24
      const bool is_there = ::recv(file(), &first, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
      never_blocks_ = is_there && (first < 20 || first > 24);
      has_read_ = true;
    }
    natsConnection_ProcessReadEvent(connection_);
  }
  /// What the client has, if anything: it takes the write of nothing for the end of the connection.
  void flush() {
    if (wants_to_write()) natsConnection_ProcessWriteEvent(connection_);
  }
  /// The connection is known to be without TLS, for which the client waits in reads and writes.
  bool never_blocks() const noexcept { return never_blocks_; }
  /// The calling thread calls flush() before it sleeps.
  ASYNCSTEPS_SHARED static inline constinit thread_local bool writes_soon = false;

  natsConnection* get() const noexcept { return connection_; }
  /// The socket to poll; -1: none.
  int file() const {
    const std::lock_guard here(lock_);
    return file_;
  }
  /// The socket is to be polled for room as well.
  bool wants_to_write() const {
    const std::lock_guard here(lock_);
    return wants_to_write_;
  }
  /// The connection is lost or closed.
  bool is_over() const {
    const std::lock_guard here(lock_);
    return is_over_;
  }

 private:
  struct destroy {
    void operator()(natsOptions* o) const noexcept { natsOptions_Destroy(o); }
  };
  template <class F, class... A>
  void set(F option, A... value) {
    if (status_ == NATS_OK) status_ = option(options_.get(), value...);
  }

  static void ignore_error(natsConnection*, natsSubscription*, natsStatus, void*) {}
  static natsStatus attach(void** user, void* loop, natsConnection*, natsSock socket) {
    auto& self = *static_cast<link*>(loop);
    const std::lock_guard here(self.lock_);
    self.file_ = socket;
    self.by_client_ = self.shared_from_this();
    *user = loop;
    return NATS_OK;
  }
  static natsStatus read(void* user, bool add) {
    auto& self = *static_cast<link*>(user);
    const std::lock_guard here(self.lock_);
    if (!add) self.file_ = -1;
    self.waker_->wake();
    return NATS_OK;
  }
  static natsStatus write(void* user, bool add) {
    auto& self = *static_cast<link*>(user);
    const std::lock_guard here(self.lock_);
    if (add && !self.wants_to_write_ && !writes_soon) self.waker_->wake();
    self.wants_to_write_ = add;
    return NATS_OK;
  }
  static natsStatus detach(void* user) {
    auto& self = *static_cast<link*>(user);
    const std::shared_ptr<link> last = std::move(self.by_client_);
    const std::lock_guard here(self.lock_);
    self.is_over_ = true;
    self.waker_->wake();
    return NATS_OK;
  }

  const std::shared_ptr<waker> waker_;
  std::unique_ptr<natsOptions, destroy> options_;
  natsStatus status_ = NATS_OK;
  natsConnection* connection_ = nullptr;
  bool has_read_ = false;
  bool never_blocks_ = false;
  std::shared_ptr<link> by_client_;  // from attach() to detach()
  mutable std::mutex lock_;          // guards the rest
  int file_ = -1;
  bool wants_to_write_ = false;
  bool is_over_ = false;
};

}  // namespace steps::inline v0_1::interop::nats::detail
