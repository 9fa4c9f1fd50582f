// SPDX-License-Identifier: BSL-1.0
//
// A small HTTP/1.1 server on Boost.Asio and Boost.Beast. Each connection is a flow inside the io_context, beside Asio's
// own handlers. Each request is a flow on a pool, see http_service.hpp.
//
//   http_server [PORT]        then, until it is interrupted:
//   curl http://127.0.0.1:PORT/user/ann       and: --data-binary @README.md http://127.0.0.1:PORT/words
#include "http_service.hpp"

#include <boost/asio.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include "steps/interop/asio.hpp"
#include "steps/steps.hpp"

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using steps::interop::asio_token;
using namespace service;

namespace {

struct connection : std::enable_shared_from_this<connection> {
  connection(async::event_loop& loop, tcp::socket s) : socket(std::move(s)), work(socket.get_executor()), flow(loop) {}
  tcp::socket socket;
  boost::beast::flat_buffer input;
  http::request<http::string_body> asked;
  http::response<http::string_body> told;
  asio::executor_work_guard<tcp::socket::executor_type> work;  // io.run() goes on while the flow waits for the pool
  steps::AsyncSteps flow;
};

class server {
 public:
  server(asio::io_context& io, unsigned short port)
      : loop_(io), acceptor_(io, {asio::ip::address_v4::loopback(), port}), signals_(io, SIGINT, SIGTERM) {
    accepting_.loop([this](IAsyncSteps& each) {
      each.add([this](IAsyncSteps& asi) { acceptor_.async_accept(asio_token(asi, acceptor_)); },
               [](IAsyncSteps& failed, ErrorCode) {  // "Too many open files": others will be closed
                 failed.add([](IAsyncSteps& asi) {
                   asi.tool().deferred(100ms, [done = asi.completion()] { done.success(); });
                 });
                 failed.add([](IAsyncSteps& asi) { asi.continueLoop(); });
               });
      each.add([this](IAsyncSteps&, tcp::socket socket) {
        connections_.remove_if([](const auto& c) { return !c->socket.is_open(); });
        serve(*connections_.emplace_back(std::make_shared<connection>(loop_, std::move(socket))));
        ++accepted;
      });
    });
    accepting_.execute();
    signals_.async_wait([this](const boost::system::error_code&, int) {
      stopping_ = true;  // requests under way get their answers
      accepting_.cancel(), acceptor_.close();
    });
  }
  unsigned short port() const { return acceptor_.local_endpoint().port(); }
  std::size_t requests = 0, accepted = 0;

 private:
  void serve(connection& c) {
    c.flow.add([this, &c](IAsyncSteps& asi) { asi.loop([this, &c](IAsyncSteps& each) { exchange(each, c); }); },
               [](IAsyncSteps& failed, ErrorCode) { failed.success(); });  // "end of stream", "Timeout"
    c.flow.add([&c](IAsyncSteps&) { c.socket.close(), c.work.reset(); });
    c.flow.execute();
  }

  // [connection]
  void exchange(IAsyncSteps& asi, connection& c) {
    asi.add(
        [&c](IAsyncSteps& read) {
          read.setTimeout(3s);  // cancels it, and ends the connection
          http::async_read(c.socket, c.input, c.asked = {}, asio_token(read, c.socket, c.shared_from_this()));
        },
        [&c](IAsyncSteps& failed, ErrorCode code) {
          if (code == "end of stream" || !failed.state().error_info().starts_with("beast.http")) return;
          c.asked = {};  // a request that we do not understand
          c.asked.keep_alive(false);
          failed.success();
        });
    asi.add([this, &c](IAsyncSteps& call) {
      ++requests;
      service::request r{std::string(c.asked.method_string()), std::string(c.asked.target()), c.asked.body()};
      call.await(steps::post<service::response>(pool_, [this, r](IAsyncSteps& work) { logic_.answer(work, r); }));
    });
    asi.add([this, &c](IAsyncSteps& write, service::response r) {
      c.told = {http::status(r.status), c.asked.version(), std::move(r.body)};
      c.told.keep_alive(c.asked.keep_alive() && !stopping_);
      c.told.prepare_payload();
      if (c.asked.method() == http::verb::head) c.told.body().clear();  // its length only
      write.setTimeout(10s);
      http::async_write(c.socket, c.told, asio_token(write, c.socket, c.shared_from_this()));
    });
    asi.add([&c](IAsyncSteps& end) {
      if (!c.told.keep_alive()) end.breakLoopNoThrow();
    });
  }
  // [/connection]

  steps::interop::asio_loop loop_;
  tcp::acceptor acceptor_;
  asio::signal_set signals_;
  bool stopping_ = false;
  service::logic logic_;
  async::threadpool pool_;
  std::list<std::shared_ptr<connection>> connections_;
  steps::AsyncSteps accepting_{loop_};
};

}  // namespace

int main(int argc, char** argv) try {
  const int port = argc > 1 ? std::atoi(argv[1]) : 8080;  // 0: any free port
  if (argc > 2 || port < 0 || port > 65'535) return std::fputs("usage: http_server [PORT]\n", stderr), 2;
  asio::io_context io;
  server s(io, static_cast<unsigned short>(port));
  std::printf("listening on http://127.0.0.1:%d\n", s.port());
  std::fflush(stdout);
  io.run();  // until a signal has come and the last request has been answered
  std::printf("%zu requests on %zu connections\n", s.requests, s.accepted);
} catch (const std::exception& error) {  // the port is in use
  std::fprintf(stderr, "http_server: %s\n", error.what());
  return 1;
}
