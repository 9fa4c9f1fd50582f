// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <utility>  // boost/asio.hpp 1.74 forgets it

#include <boost/asio.hpp>
#include <cstddef>
#include <thread>
#include <vector>

namespace testing {

/// Two sockets that are connected to each other.
struct connection {
  explicit connection(boost::asio::io_context& io) : here(io), there(io) {
    using boost::asio::ip::tcp;
    tcp::acceptor acceptor(io, tcp::endpoint(boost::asio::ip::address_v4::loopback(), 0));
    there.connect(acceptor.local_endpoint());
    acceptor.accept(here);
  }
  boost::asio::ip::tcp::socket here;
  boost::asio::ip::tcp::socket there;
};

/// An io_context with its own threads.
struct running_context {
  explicit running_context(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) threads.emplace_back([this] { io.run(); });
  }
  ~running_context() {
    guard.reset();
    for (std::thread& t : threads) t.join();  // hangs when an operation was not cancelled
  }
  boost::asio::io_context io;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard = boost::asio::make_work_guard(io);
  std::vector<std::thread> threads;
};

}  // namespace testing
