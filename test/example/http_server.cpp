// SPDX-License-Identifier: BSL-1.0
//
// A small HTTP/1.1 server on Boost.Asio. A connection is a flow inside the io_context, beside Asio's own handlers; what
// a request means is a flow on a pool, with limits in time and calls to back ends at the same time.
//
//   http_server [PORT]        then, until it is interrupted:
//   curl http://127.0.0.1:PORT/user/ann       and: --data-binary @README.md http://127.0.0.1:PORT/words
#include <cstdio>
#include <utility>  // which some versions of Boost.Asio need
#if __has_include(<boost/version.hpp>)
#include <boost/version.hpp>
#endif
// Boost before 1.79 does not compile with a libc++ without std::result_of.
#if __has_include(<boost/asio.hpp>) && (!defined(_LIBCPP_VERSION) || BOOST_VERSION >= 107900)
#include <array>
#include <atomic>
#include <boost/asio.hpp>
#include <cctype>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <list>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include "steps/interop/asio.hpp"
#include "steps/steps.hpp"

namespace asio = boost::asio;
using asio::ip::tcp;
using steps::ErrorCode;
using steps::IAsyncSteps;
using steps::interop::asio_token;
using namespace std::chrono_literals;

namespace {

struct request {
  std::string method, target, body;
  std::size_t length = 0;  // of the body
  bool keep_alive = true;
};
struct response {
  int status;
  std::string body;
};

/// Reads the head of a request; none: it is not one that we understand.
std::optional<request> parse(const std::string& head) {
  std::istringstream lines(head);
  request r;
  std::string version, line;
  if (!(lines >> r.method >> r.target >> version) || version.substr(0, 7) != "HTTP/1.") return {};
  r.keep_alive = version != "HTTP/1.0";
  std::getline(lines, line);
  while (std::getline(lines, line) && line != "\r") {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) return {};
    for (char& c : line) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const std::string name = line.substr(0, colon);
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    if (begin == std::string::npos) continue;
    const std::string_view value = std::string_view(line).substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
    if (name == "connection" && value == "close") r.keep_alive = false;
    if (name == "connection" && value == "keep-alive") r.keep_alive = true;
    if (name == "transfer-encoding") return {};
    if (name == "content-length") {
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), r.length);
      if (error != std::errc() || end != value.data() + value.size()) return {};
    }
  }
  return r;
}

std::string text_of(const response& r, bool keep_alive) {
  const char* const reason = r.status == 200 ? "OK" : r.status == 404 ? "Not Found" : "Failed";
  return "HTTP/1.1 " + std::to_string(r.status) + ' ' + reason +
         "\r\nContent-Type: text/plain\r\nContent-Length: " + std::to_string(r.body.size()) +
         "\r\nConnection: " + (keep_alive ? "keep-alive" : "close") + "\r\n\r\n" + r.body;
}

std::size_t words_in(const std::string& text) {
  std::istringstream words(text);
  std::size_t count = 0;
  for (std::string word; words >> word;) ++count;
  return count;
}

/// Other servers: they answer from a thread of their own, for "nobody" never, for "slow" late.
class back_ends {
 public:
  void ask(const std::string& what, const std::string& who, steps::completion<std::string> answer) {
    if (who == "nobody") return;
    network_.deferred(who == "slow" ? 300ms : 5ms, [what, who, answer] { answer.success(what + " of " + who + '\n'); });
  }

 private:
  steps::AsyncTool network_;
};

class server {
 public:
  server(asio::io_context& io, std::uint16_t port)
      : loop_(io), acceptor_(io, {asio::ip::address_v4::loopback(), port}), signals_(io, SIGINT, SIGTERM) {
    accepting_.loop([this](IAsyncSteps& each) {
      each.add([this](IAsyncSteps& asi) { acceptor_.async_accept(asio_token(asi, acceptor_)); });
      each.add([this](IAsyncSteps&, tcp::socket socket) {
        serve(connections_.emplace_back(loop_, std::move(socket)));
        ++accepted_;
      });
    });
    accepting_.execute();
    signals_.async_wait([this](const boost::system::error_code&, int) { stop(); });
  }
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  std::size_t requests() const { return requests_; }
  std::size_t accepted() const { return accepted_; }

 private:
  struct connection {
    connection(async::event_loop& loop, tcp::socket s) : socket(std::move(s)), flow(loop) {}
    tcp::socket socket;
    std::string input, output;
    request current;
    bool idle = true, ended = false;
    steps::AsyncSteps flow;
  };

  // [connection]
  void serve(connection& c) {
    c.flow.loop([this, &c](IAsyncSteps& each) {
      each.add([&c](IAsyncSteps& asi) {
        asi.setTimeout(3s);  // cancels the read, and closes the connection
        asio::async_read_until(c.socket, asio::dynamic_buffer(c.input, 65'536), "\r\n\r\n", asio_token(asi, c.socket));
      });
      each.add([&c](IAsyncSteps& asi, std::size_t size) {
        std::optional<request> parsed = parse(c.input.substr(0, size));
        c.input.erase(0, size);
        c.idle = false;
        if (!parsed || parsed->length > 1'000'000) return asi.error(parsed ? "TooLarge" : "BadRequest");
        c.current = std::move(*parsed);
        if (c.input.size() >= c.current.length) return;
        asi.setTimeout(10s);
        asio::async_read(c.socket, asio::dynamic_buffer(c.input),
                         asio::transfer_at_least(c.current.length - c.input.size()), asio_token(asi, c.socket));
      });
      each.add([this, &c](IAsyncSteps& asi) {
        c.current.body = c.input.substr(0, c.current.length);
        c.input.erase(0, c.current.length);
        ++requests_, ++working_;
        auto& logic = asi.stack<steps::AsyncSteps>(pool_);  // a flow on the pool; it ends with this step, at the latest
        auto done = asi.completion<response>();
        logic.add([this, r = c.current](IAsyncSteps& work) { answer(work, r); },
                  [](IAsyncSteps& failed, ErrorCode code) {
                    failed.success(response{code == steps::errors::Timeout ? 504 : 500, std::string(code) + '\n'});
                  });
        logic.add([done](IAsyncSteps&, response r) { done.success(std::move(r)); });
        logic.execute();
      });
      each.add([this, &c](IAsyncSteps& asi, response r) {
        --working_;
        c.output = text_of(r, c.current.keep_alive && !stopping_);
        asi.setTimeout(10s);
        asio::async_write(c.socket, asio::buffer(c.output), asio_token(asi, c.socket));
      });
      each.add([this, &c](IAsyncSteps& asi) {
        if (stopping_ || !c.current.keep_alive) return asi.breakLoopNoThrow();
        c.idle = c.input.empty();
      });
    });
    // [/connection]
    c.flow.add([this, &c](IAsyncSteps&) { end(c); });
    c.flow.state().set_unhandled_error([this, &c](ErrorCode code) {  // "End of file", "Timeout"
      const bool bad = code == "BadRequest";
      if (bad || code == "TooLarge") {
        boost::system::error_code ignored;
        asio::write(c.socket, asio::buffer(text_of({bad ? 400 : 413, std::string(code) + '\n'}, false)), ignored);
      }
      end(c);
    });
    c.flow.execute();
  }

  // [logic]
  void answer(IAsyncSteps& asi, const request& r) {
    if (r.target == "/status") return asi.success(response{200, std::to_string(working_) + " requests in work\n"});
    if (r.target == "/words" && r.method == "POST") {
      asi.await(pool_, words_in, r.body);
      asi.add([](IAsyncSteps& last, std::size_t words) { last.success(response{200, std::to_string(words) + '\n'}); });
      return;
    }
    if (!r.target.starts_with("/user/")) return asi.success(response{404, "no " + r.target + " here\n"});

    asi.setTimeout(2s);  // for all that is below
    auto& parts = asi.stack<std::array<std::string, 3>>();
    auto& calls = asi.parallel();  // each branch runs on whichever worker is free; an error in one cancels the others
    for (std::size_t i = 0; i < parts.size(); ++i) {
      calls.add([this, i, who = r.target.substr(6), &part = parts[i]](IAsyncSteps& branch) {
        branch.add([this, i, who](IAsyncSteps& call) {
          static constexpr std::array<const char*, 3> names{"name", "orders", "invoices"};
          back_ends_.ask(names[i], who, call.completion<std::string>());
        });
        branch.add([&part](IAsyncSteps&, std::string got) { part = std::move(got); });
      });
    }
    asi.add([&parts](IAsyncSteps& last) { last.success(response{200, parts[0] + parts[1] + parts[2]}); });
  }
  // [/logic]

  void end(connection& c) {
    c.ended = true;
    asio::post(acceptor_.get_executor(), [this] {  // not now: the flow is still running
      connections_.remove_if([](const connection& each) { return each.ended; });
      if (stopping_ && connections_.empty()) work_.reset();
    });
  }
  /// Takes no more connections, closes those that have nothing to do, and lets the others finish.
  void stop() {
    stopping_ = true;
    accepting_.cancel();
    acceptor_.close();
    connections_.remove_if([](const connection& each) { return each.idle; });
    if (connections_.empty()) work_.reset();
  }

  steps::interop::asio_loop loop_;
  tcp::acceptor acceptor_;
  asio::signal_set signals_;
  asio::executor_work_guard<asio::any_io_executor> work_{acceptor_.get_executor()};
  std::size_t requests_ = 0, accepted_ = 0;
  std::atomic<std::size_t> working_{0};
  bool stopping_ = false;
  back_ends back_ends_;
  async::threadpool pool_;
  std::list<connection> connections_;
  steps::AsyncSteps accepting_{loop_};
};

}  // namespace

int main(int argc, char** argv) {
  asio::io_context io;
  server s(io, static_cast<std::uint16_t>(argc > 1 ? std::atoi(argv[1]) : 8080));
  std::printf("listening on http://127.0.0.1:%d\n", s.port());
  std::fflush(stdout);
  io.run();  // until a signal has come and the last request has been answered
  std::printf("%zu requests on %zu connections\n", s.requests(), s.accepted());
}
#else
int main() { std::puts("skipped: boost/asio.hpp not found"); }
#endif
