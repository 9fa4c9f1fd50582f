// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <netinet/in.h>  // for sockaddr_in
#include <poll.h>        // for poll
#include <sys/prctl.h>   // for prctl
#include <sys/socket.h>  // for socket, connect, bind
#include <sys/wait.h>    // for waitpid
#include <unistd.h>      // for fork, execvp, execv

#include <chrono>        // for steady_clock
#include <csignal>       // for kill
#include <cstdlib>       // for mkdtemp
#include <filesystem>    // for remove_all, path
#include <stdexcept>     // for runtime_error
#include <string>        // for string, to_string
#include <system_error>  // for error_code
#include <thread>        // for sleep_for

namespace testing {

/// A nats-server of the test's own: on loopback, on a free port, with a store in a new directory. It ends with this
/// object, and with the process that made it.
class nats_server {
 public:
  nats_server() {
    char made[] = "/tmp/asyncsteps-nats-XXXXXX";
    if (::mkdtemp(made) == nullptr) throw std::runtime_error("mkdtemp");
    folder_ = made;
    for (int attempts = 0; attempts < 10; ++attempts) {  // another program may take the port
      port_ = free_port();
      if (start()) return;
    }
    throw std::runtime_error("nats-server does not start (Debian: nats-server)");
  }
  nats_server(const nats_server&) = delete;
  nats_server& operator=(const nats_server&) = delete;
  ~nats_server() {
    kill();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::string folder() const { return folder_.string(); }
  std::string url() const { return "nats://127.0.0.1:" + std::to_string(port_); }
  /// As a crash would.
  void kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = -1;
  }
  void restart() {
    kill();
    if (!start()) throw std::runtime_error("nats-server does not start again");
  }
  /// It takes nothing from its sockets until resume().
  void pause() const { ::kill(process_, SIGSTOP); }
  void resume() const { ::kill(process_, SIGCONT); }

 private:
  static sockaddr_in address(unsigned short port) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_port = htons(port);
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return a;
  }
  static unsigned short free_port() {
    const int file = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in a = address(0);
    socklen_t size = sizeof a;
    ::bind(file, reinterpret_cast<sockaddr*>(&a), size);
    ::getsockname(file, reinterpret_cast<sockaddr*>(&a), &size);
    ::close(file);
    return ntohs(a.sin_port);
  }
  /// True when it answers; false when it has ended.
  bool start() {
    const std::string port = std::to_string(port_);
    const std::string log = folder_ / "log";
    const char* const arguments[] = {"nats-server",   "-a", "127.0.0.1", "-p",   port.c_str(), "-js", "-sd",
                                     folder_.c_str(), "-l", log.c_str(), nullptr};
    process_ = ::fork();
    if (process_ == 0) {  // of a process with threads: no memory is allocated here
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::execvp("nats-server", const_cast<char* const*>(arguments));
      ::execv("/usr/sbin/nats-server", const_cast<char* const*>(arguments));
      ::_exit(127);
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    for (; std::chrono::steady_clock::now() < end; std::this_thread::sleep_for(std::chrono::milliseconds(2))) {
      if (::waitpid(process_, nullptr, WNOHANG) != 0) break;
      if (answers()) return true;
    }
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = -1;
    return false;
  }
  /// A server that accepts sends a line at once.
  bool answers() const {
    const int file = ::socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in a = address(port_);
    pollfd readable{file, POLLIN, 0};
    char byte = 0;
    const bool ok = ::connect(file, reinterpret_cast<const sockaddr*>(&a), sizeof a) == 0 &&
                    ::poll(&readable, 1, 1000) == 1 && ::read(file, &byte, 1) == 1;
    ::close(file);
    return ok;
  }

  std::filesystem::path folder_;
  unsigned short port_ = 0;
  pid_t process_ = -1;
};

}  // namespace testing
