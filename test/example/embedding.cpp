// SPDX-License-Identifier: BSL-1.0
//
// An event loop inside another loop: a program waits in poll() for its sockets, and runs flows, timers and posts of
// other threads between two calls of poll(), on its only thread.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <functional>
#include <future>
#include <map>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "steps/steps.hpp"

using namespace std::chrono_literals;

namespace {

// [host]
/// A loop on poll(), with an async::event_loop in it.
class host {
 public:
  host() {
    if (::pipe(wake_) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    for (const int end : wake_) ::fcntl(end, F_SETFL, O_NONBLOCK);
  }
  ~host() { ::close(wake_[0]), ::close(wake_[1]); }
  async::event_loop& loop() { return loop_; }
  /// Calls `ready` once, when the file can be read.
  void when_readable(int file, std::function<void()> ready) { readers_[file] = std::move(ready); }
  void forget(int file) { readers_.erase(file); }

  void run_until(const bool& done) {
    while (!done) {
      const auto next = loop_.iterate();  // never blocks; returns when to call it again
      const auto delay = std::chrono::ceil<std::chrono::milliseconds>((std::min)(next.delay, longest));
      std::vector<pollfd> files{{wake_[0], POLLIN, 0}};
      for (const auto& [file, ready] : readers_) files.push_back({file, POLLIN, 0});
      // `done`: a callback has set it, and nothing else may come.
      ::poll(files.data(), files.size(), done ? 0 : next.have_work ? static_cast<int>(delay.count()) : -1);
      for (char drained[64]; ::read(wake_[0], drained, sizeof drained) > 0;) {
      }
      for (const pollfd& each : files) {
        if (auto ready = readers_.extract(each.revents != 0 ? each.fd : -1)) ready.mapped()();
      }
    }
  }

 private:
  static constexpr std::chrono::nanoseconds longest = 1h;  // poll() takes an int of milliseconds
  int wake_[2] = {-1, -1};
  std::map<int, std::function<void()>> readers_;
  // Other threads call this when they post while poll() may be waiting: one byte wakes it.
  async::event_loop loop_{[this] { static_cast<void>(::write(wake_[1], "", 1)); }};
};
// [/host]

// [read]
/// Makes a step pass on the bytes that it reads from a socket. On a timeout or cancel the host forgets the socket.
void read_from(steps::IAsyncSteps& asi, host& in, int socket) {
  auto done = asi.completion<std::string>();
  asi.setCancel([&in, socket](steps::IAsyncSteps&) { in.forget(socket); });
  in.when_readable(socket, [done, socket] {
    char bytes[256];
    const ssize_t count = ::read(socket, bytes, sizeof bytes);
    count > 0 ? done.success(std::string(bytes, static_cast<std::size_t>(count))) : done.error("Disconnected", "");
  });
}
// [/read]

}  // namespace

int main() {
  int pair[2], answered = 0;
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return 1;
  bool finished = false, posted = false;
  std::promise<void> idle;
  host program;
  steps::AsyncSteps server(program.loop());
  server.loop([&](steps::IAsyncSteps& round) {
    round.add(
        [&](steps::IAsyncSteps& asi) {
          asi.setTimeout(20ms);
          read_from(asi, program, pair[0]);
        },
        [&](steps::IAsyncSteps& asi, steps::ErrorCode code) {
          std::puts(code.c_str());
          if (code == "Disconnected") asi.breakLoop();
          if (std::exchange(posted, false)) idle.set_value();
          asi.continueLoop();
        });
    round.add([&](steps::IAsyncSteps&, const std::string& request) {
      std::puts(request.c_str());
      answered += ::write(pair[0], "ok", 2) == 2;
    });
  });
  server.add([&](steps::IAsyncSteps&) { finished = true; });
  server.execute();
  std::thread client([&] {
    char answer[2];
    for (const std::string request : {"first", "second"}) {
      const bool sent = ::write(pair[1], request.data(), request.size()) > 0;
      if (!sent || ::read(pair[1], answer, 2) != 2) std::perror("client");
    }
    program.loop().post([&posted] { posted = true; });  // wakes poll()
    idle.get_future().wait();                           // the server's time limit has passed since
    ::close(pair[1]);
  });
  program.run_until(finished);
  client.join();
  ::close(pair[0]);
  return answered == 2 ? 0 : 1;
}
