// SPDX-License-Identifier: BSL-1.0
//
// A server on Boost.Asio whose connections are flows: a line comes in, its words are counted on a pool, the number goes
// out. Idle connections are closed after a time. The flows run inside the io_context, beside Asio's own handlers.
#if __has_include(<boost/version.hpp>)
#include <boost/version.hpp>
#endif

#include <cstdio>
#include <utility>

// Boost before 1.79 does not compile with a libc++ without std::result_of.
#if __has_include(<boost/asio.hpp>) && (!defined(_LIBCPP_VERSION) || BOOST_VERSION >= 107900)
#include <boost/asio.hpp>
#include <chrono>
#include <cstdint>
#include <list>
#include <string>
#include <thread>

#include "async/threadpool.hpp"
#include "steps/asyncsteps.hpp"
#include "steps/interop/asio.hpp"

namespace asio = boost::asio;
using asio::ip::tcp;
using steps::interop::asio_token;
using namespace std::chrono_literals;

namespace {

std::size_t words_in(const std::string& line) {
  std::size_t words = 0;
  for (std::size_t i = 0; i < line.size(); ++i) words += line[i] > ' ' && (i == 0 || line[i - 1] <= ' ') ? 1U : 0U;
  return words;
}

class server {
 public:
  server(asio::io_context& io, async::threadpool& pool)
      : loop_(io), pool_(pool), acceptor_(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0)), accepting_(loop_) {
    accepting_.loop([this](steps::IAsyncSteps& each) {
      each.add([this](steps::IAsyncSteps& asi) { acceptor_.async_accept(asio_token(asi, acceptor_)); });
      each.add([this](steps::IAsyncSteps&, tcp::socket socket) {
        connections_.remove_if([](const connection& c) { return c.ended; });
        connections_.emplace_back(loop_, std::move(socket));
        serve(connections_.back());
      });
    });
    accepting_.execute();
  }
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  void close() {
    accepting_.cancel();
    connections_.clear();  // ends their flows, and cancels their operations
  }

 private:
  struct connection {
    connection(async::event_loop& loop, tcp::socket s) : socket(std::move(s)), flow(loop) {}
    tcp::socket socket;
    std::string line;
    steps::AsyncSteps flow;
    bool ended = false;
  };

  void serve(connection& c) {
    // [asio]
    c.flow.loop([&](steps::IAsyncSteps& each) {
      each.add([&](steps::IAsyncSteps& asi) {
        asi.setTimeout(100ms);  // cancels the read
        asio::async_read_until(c.socket, asio::dynamic_buffer(c.line), '\n', asio_token(asi, c.socket));
      });
      each.add([&](steps::IAsyncSteps& asi, std::size_t size) {
        std::string line = c.line.substr(0, size);
        c.line.erase(0, size);
        asi.await(pool_.post(words_in, std::move(line)));
      });
      each.add([&](steps::IAsyncSteps& asi, std::size_t words) {
        const std::string& reply = asi.stack<std::string>(std::to_string(words) + "\n");
        asio::async_write(c.socket, asio::buffer(reply), asio_token(asi, c.socket));
      });
    });
    // [/asio]
    c.flow.state().set_unhandled_error([&c](steps::ErrorCode) {  // "End of file", "Timeout"
      c.socket.close();
      c.ended = true;
    });
    c.flow.execute();
  }

  steps::interop::asio_loop loop_;
  async::threadpool& pool_;
  tcp::acceptor acceptor_;
  std::list<connection> connections_;
  steps::AsyncSteps accepting_;
};

/// Sends lines, and returns the sum of the replies; then waits until the server closes.
std::size_t client(std::uint16_t port, int lines) {
  asio::io_context io;
  tcp::socket socket(io);
  socket.connect({asio::ip::address_v4::loopback(), port});
  std::size_t sum = 0;
  std::string reply;
  for (int i = 0; i < lines; ++i) {
    asio::write(socket, asio::buffer(std::string("a line of six words here\n")));
    const std::size_t size = asio::read_until(socket, asio::dynamic_buffer(reply), '\n');
    sum += std::stoul(reply.substr(0, size));
    reply.erase(0, size);
  }
  boost::system::error_code closed;
  char byte = 0;
  asio::read(socket, asio::buffer(&byte, 1), closed);
  return closed == asio::error::eof ? sum : 0;
}

}  // namespace

int main() {
  async::threadpool pool(2);
  asio::io_context io;
  server s(io, pool);
  std::size_t sums[4] = {};
  std::thread clients([&] {
    std::thread each[4];
    for (std::size_t i = 0; i < 4; ++i) each[i] = std::thread([&, i] { sums[i] = client(s.port(), 50); });
    for (std::thread& t : each) t.join();
    asio::post(io, [&s] { s.close(); });
  });
  io.run();  // returns when the server has been closed
  clients.join();
  std::printf("words counted: %zu\n", sums[0] + sums[1] + sums[2] + sums[3]);
  for (const std::size_t sum : sums) {
    if (sum != 50 * 6) return 1;
  }
  return 0;
}
#else
int main() { std::puts("boost/asio.hpp not found"); }
#endif
