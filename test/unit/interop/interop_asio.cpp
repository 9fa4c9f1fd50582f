// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <utility>

#include <boost/asio.hpp>  // 1.74 forgets <utility>
#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "steps/asyncsteps.hpp"
#include "steps/asynctool.hpp"
#include "steps/interop/asio.hpp"
#include "support/flows.hpp"
#include "support/io_context.hpp"
#include "support/scale.hpp"

namespace asio = boost::asio;
using asio::ip::tcp;
using steps::ErrorCode;
using steps::IAsyncSteps;
using steps::interop::asio_loop;
using steps::interop::asio_token;
using testing::connection;
using testing::lines;
using testing::running_context;
using namespace std::chrono_literals;

namespace {

auto noting(lines& seen) {
  return [&seen](IAsyncSteps& asi, ErrorCode code) {
    seen.emplace_back(code);
    seen.emplace_back(asi.state().error_info());
    asi.success();
  };
}

}  // namespace

TEST_CASE_TEMPLATE("an operation's results are those of the step", Flow, STEPS_FLOWS) {
  asio::io_context io;
  connection pair(io);
  asio_loop loop{io};
  Flow flow{loop};
  std::string input;
  std::string got;
  flow.add([&](IAsyncSteps& asi) {
        asio::async_write(pair.there, asio::buffer("line\nrest", 9), asio_token(asi, pair.there));
      })
      .add([&](IAsyncSteps& asi, std::size_t bytes) {
        CHECK(bytes == 9);
        asio::async_read_until(pair.here, asio::dynamic_buffer(input), '\n', asio_token(asi, pair.here));
      })
      .add([&](IAsyncSteps&, std::size_t bytes) { got = input.substr(0, bytes); });
  flow.execute();
  io.run();
  CHECK(got == "line\n");
}

TEST_CASE("an operation may hand its error_code and results over as variables") {  // as those of Boost.Beast do
  asio::io_context io;
  asio_loop loop{io};
  asio::steady_timer timer(io);  // has nothing to do with it
  const auto operation = [&io](boost::system::error_code outcome, auto token) {
    asio::async_initiate<decltype(token), void(boost::system::error_code, std::size_t)>(
        [&io, outcome](auto handler) {
          asio::post(io, [outcome, handler]() mutable {
            std::size_t bytes = 9;
            handler(outcome, bytes);
          });
        },
        token);
  };
  lines seen;
  std::size_t got = 0;
  steps::AsyncSteps flow{loop};
  flow.add([&](IAsyncSteps& asi) { operation({}, asio_token(asi, timer)); })
      .add([&](IAsyncSteps&, std::size_t bytes) { got = bytes; })
      .add([&](IAsyncSteps& asi) { operation(asio::error::eof, asio_token(asi, timer)); }, noting(seen));
  flow.execute();
  io.run();
  CHECK(got == 9);
  CHECK(seen == lines{"End of file", "asio.misc:2"});
}

TEST_CASE("an error_code is the step's error, with the code of the exception that Asio would throw") {
  asio::io_context io;
  connection pair(io);
  asio_loop loop{io};
  lines seen;
  char byte = 0;
  pair.there.close();
  steps::AsyncSteps flow{loop};
  flow.add([&](IAsyncSteps& asi) { asio::async_read(pair.here, asio::buffer(&byte, 1), asio_token(asi, pair.here)); },
           noting(seen));
  flow.execute();
  io.run();
  CHECK(seen == lines{"End of file", "asio.misc:2"});
}

namespace {

/// An operation that hands `results` over to the handler of `Signature`, in a turn of its own.
template <class Signature, class Token, class... A>
void hand_over(asio::io_context& io, Token token, A... results) {
  asio::async_initiate<Token, Signature>(
      [&io, results...](auto handler) {
        asio::post(io, [handler = std::move(handler), results...]() mutable { handler(results...); });
      },
      token);
}

}  // namespace

TEST_CASE_TEMPLATE("an operation's exception is the step's error", Flow, STEPS_FLOWS) {
  asio::io_context io;
  asio_loop loop{io};
  asio::steady_timer timer(io);
  const auto thrown = std::make_exception_ptr(std::runtime_error("failed"));
  lines seen;
  Flow flow{loop};
  const auto note = [&seen](IAsyncSteps& asi, ErrorCode code) {
    seen.emplace_back(code);
    try {
      std::rethrow_exception(asi.state().last_exception());
    } catch (const std::runtime_error& e) {
      seen.emplace_back(e.what());
    }
    asi.success();
  };
  const auto lost = [&seen](IAsyncSteps&) { seen.emplace_back("lost"); };
  flow.add(
      [&](IAsyncSteps& asi) {
        asi.add([&](IAsyncSteps& step) { hand_over<void(std::exception_ptr)>(io, asio_token(step, timer), thrown); });
        asi.add(lost);
      },
      note);
  flow.add(
      [&](IAsyncSteps& asi) {
        asi.add([&](IAsyncSteps& step) {
          hand_over<void(const std::exception_ptr&, int)>(io, asio_token(step, timer), thrown, 1);
        });
        asi.add(lost);
      },
      note);
  flow.execute();
  io.run();
  CHECK(seen == lines{"failed", "failed", "failed", "failed"});
}

TEST_CASE("an operation without an exception hands its results over, and with_error_code() the exception as well") {
  asio::io_context io;
  asio_loop loop{io};
  asio::steady_timer timer(io);
  const auto thrown = std::make_exception_ptr(std::runtime_error("failed"));
  int got = 0;
  steps::AsyncSteps flow{loop};
  flow.add([&](IAsyncSteps& asi) {
        hand_over<void(std::exception_ptr)>(io, asio_token(asi, timer), std::exception_ptr());
      })
      .add([&](IAsyncSteps& asi) { hand_over<void(std::exception_ptr, int)>(io, asio_token(asi, timer), nullptr, 7); })
      .add([&](IAsyncSteps&, int value) { got += value; })
      .add([&](IAsyncSteps& asi) {
        hand_over<void(std::exception_ptr, int)>(io, asio_token(asi, timer).with_error_code(), thrown, 8);
      })
      .add([&](IAsyncSteps&, std::exception_ptr error, int value) { got += error == thrown ? value : 0; });
  flow.execute();
  io.run();
  CHECK(got == 15);
}

TEST_CASE("an exception while results are stored is the step's error") {
  struct refuses {
    operator int() const { throw std::runtime_error("no value"); }
  };
  asio::io_context io;
  asio_loop loop{io};
  asio::steady_timer timer(io);
  lines seen;
  steps::AsyncSteps flow{loop};
  flow.add([&](IAsyncSteps& asi) { hand_over<void(int)>(io, asio_token(asi, timer), refuses()); }, noting(seen));
  flow.add(
      [&](IAsyncSteps& asi) {
        hand_over<void(boost::system::error_code, int)>(io, asio_token(asi, timer), boost::system::error_code(),
                                                        refuses());
      },
      noting(seen));
  flow.execute();
  io.run();
  CHECK(seen == lines{"no value", "", "no value", ""});
}

TEST_CASE("operations without an error_code or without results are steps, too") {
  asio::io_context io;
  asio_loop loop{io};
  asio::steady_timer timer(io, 2ms);
  bool after = false;
  steps::AsyncSteps flow{loop};
  flow.add([&](IAsyncSteps& asi) { timer.async_wait(asio_token(asi, timer)); })
      .add([&](IAsyncSteps& asi) { asio::post(io, asio_token(asi, timer)); })
      .add([&](IAsyncSteps&) { after = true; });
  const auto begin = std::chrono::steady_clock::now();
  flow.execute();
  io.run();
  CHECK(after);
  CHECK(std::chrono::steady_clock::now() - begin >= 2ms);
}

TEST_CASE_TEMPLATE("a timeout and cancel() of the step cancel the operation", Flow, STEPS_FLOWS) {
  for (const bool by_timeout : {true, false}) {
    asio::io_context io;
    connection pair(io);
    asio_loop loop{io};
    lines seen;
    char byte = 0;
    Flow flow{loop};
    flow.add(
        [&](IAsyncSteps& asi) {
          if (by_timeout) asi.setTimeout(3ms);
          asio::async_read(pair.here, asio::buffer(&byte, 1), asio_token(asi, pair.here));
        },
        noting(seen));
    flow.execute();
    if (!by_timeout) asio::post(io, [&] { asio::post(io, [&] { flow.cancel(); }); });
    io.run();  // returns, since nothing waits any more
    CHECK(seen == (by_timeout ? lines{"Timeout", ""} : lines{}));
    CHECK(pair.here.is_open());
  }
}

TEST_CASE("an object of the step's stack() lives until its operation has been cancelled") {
  asio::io_context io;
  asio_loop loop{io};
  lines seen;
  steps::AsyncSteps flow{loop};
  flow.add(
      [&](IAsyncSteps& asi) {
        asi.setTimeout(1ms);
        auto& timer = asi.stack<asio::steady_timer>(io, 1h);
        timer.async_wait(asio_token(asi, timer));
      },
      noting(seen));
  flow.execute();
  io.run();
  CHECK(seen == lines{"Timeout", ""});
}

TEST_CASE_TEMPLATE("a composed operation that is given up still has its buffer", Flow, STEPS_FLOWS) {
  for (int arrived = 0; arrived < 3; ++arrived) {  // bytes of the line
    asio::io_context io;
    connection pair(io);
    asio_loop loop{io};
    lines seen;
    std::weak_ptr<std::string> buffer;
    Flow flow{loop};
    flow.add(
        [&](IAsyncSteps& asi) {
          asi.setTimeout(2ms);
          const auto input = std::make_shared<std::string>();
          buffer = input;
          asio::write(pair.there, asio::buffer("ab", static_cast<std::size_t>(arrived)));
          asio::async_read_until(pair.here, asio::dynamic_buffer(*input), '\n', asio_token(asi, pair.here, input));
        },
        noting(seen));
    bool had_buffer = false;
    flow.add([&](IAsyncSteps&) { had_buffer = !buffer.expired(); });  // the aborted handler is still to come
    flow.execute();
    io.run();
    CHECK(seen == lines{"Timeout", ""});
    CHECK(had_buffer);
    CHECK(buffer.expired());
  }
}

namespace {

/// An operation of two parts, each of which writes to its buffer at the end.
auto two_parts = [](asio::steady_timer& timer, std::vector<int>& buffer, auto&& token) {
  return asio::async_compose<decltype(token), void(boost::system::error_code)>(
      [&timer, &buffer, part = 0](auto& self, boost::system::error_code error = {}) mutable {
        if (part != 0) buffer.push_back(part);
        if (error || part == 2) return self.complete(error);
        ++part;
        timer.expires_after(1ms);
        timer.async_wait(std::move(self));
      },
      token, timer);
};

/// Notes that it has gone.
struct noted_buffer {
  explicit noted_buffer(lines& l) : seen(l) {}
  ~noted_buffer() { seen.push_back("gone with " + std::to_string(parts.size())); }
  lines& seen;
  std::vector<int> parts;
};

}  // namespace

TEST_CASE("an operation releases the object that it keeps alive after its last part") {
  for (const auto limit : {0us, 500us, 1500us, 10'000us}) {
    asio::io_context io;
    asio_loop loop{io};
    lines seen;
    asio::steady_timer timer(io);
    steps::AsyncSteps flow{loop};
    flow.add(
        [&](IAsyncSteps& asi) {
          asi.setTimeout(limit);
          const auto buffer = std::make_shared<noted_buffer>(seen);
          two_parts(timer, buffer->parts, asio_token(asi, timer, buffer));
        },
        [&](IAsyncSteps& asi, ErrorCode) { asi.success(); });
    flow.execute();
    io.run();
    REQUIRE(seen.size() == 1);
    CHECK((seen[0] == "gone with 1" || seen[0] == "gone with 2"));
  }
}

TEST_CASE_TEMPLATE("a composed read that is given up between its parts leaves the next message alone", Flow,
                   STEPS_FLOWS) {
  asio::io_context io;
  connection pair(io);
  asio_loop loop{io};
  lines seen;
  const auto input = std::make_shared<std::string>(8, ' ');
  asio::write(pair.there, asio::buffer("half", 4));
  while (pair.here.available() < 4) std::this_thread::yield();
  Flow flow{loop};
  auto& branches = flow.parallel(noting(seen));
  branches.add([&](IAsyncSteps& asi) {  // has its first part at once; the handler of this part is still to come
    asio::async_read(pair.here, asio::buffer(*input), asio_token(asi, pair.here, input));
  });
  branches.add([](IAsyncSteps& asi) { asi.error("Other"); });
  flow.execute();
  for (int i = 0; i < 10; ++i) {
    io.poll();
    io.restart();
  }
  CHECK(seen == lines{"Other", ""});
  asio::write(pair.there, asio::buffer("next", 4));
  do {
    io.restart();
    io.poll();
  } while (pair.here.available() == 0 && !input->ends_with("next"));
  CHECK(pair.here.available() == 4);
  CHECK(input.use_count() == 1);
  std::string next(4, ' ');
  asio::read(pair.here, asio::buffer(next));
  CHECK(next == "next");
}

TEST_CASE("composed operations of a strand are given up by a flow of another thread") {
  steps::AsyncTool tool;
  running_context context(2);
  const std::size_t rounds = testing::rounds(200);
  std::size_t ended = 0;
  steps::AsyncSteps flow{tool};
  flow.repeat(rounds, [&](IAsyncSteps& asi, std::size_t i) {
    const auto plain = context.io.get_executor();
    tcp::acceptor acceptor(context.io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    const auto here = std::make_shared<tcp::socket>(asio::make_strand(plain));
    const auto there = std::make_shared<tcp::socket>(plain);
    there->connect(acceptor.local_endpoint());
    acceptor.accept(*here);
    asi.add(
        [here, there, i](IAsyncSteps& read) {
          read.setTimeout(std::chrono::microseconds(i % 50));
          const auto input = std::make_shared<asio::streambuf>();
          asio::async_read_until(*here, *input, '\n', asio_token(read, here, input));
          for (int k = 0; k < 3; ++k) asio::write(*there, asio::buffer("part", 4));
        },
        [&ended](IAsyncSteps& failed, ErrorCode code) {
          if (code == steps::errors::Timeout) ++ended, failed.success();
        });
    asi.add([there](IAsyncSteps&) {});
  });
  flow.promise().get();
  CHECK(ended == rounds);
}

TEST_CASE_TEMPLATE("with_error_code() passes the error_code and all results on", Flow, STEPS_FLOWS) {
  asio::io_context io;
  connection pair(io);
  asio_loop loop{io};
  lines seen;
  std::string input(8, ' ');
  asio::write(pair.there, asio::buffer("half", 4));
  pair.there.close();
  Flow flow{loop};
  const auto note = [&seen](IAsyncSteps&, boost::system::error_code code, std::size_t bytes) {
    seen.push_back(code.message() + " " + std::to_string(bytes));
  };
  flow.add([&](IAsyncSteps& asi) {
    asio::async_read(pair.here, asio::buffer(input, 2), asio_token(asi, pair.here).with_error_code());
  });
  flow.add(note);
  flow.add([&](IAsyncSteps& asi) {
    asio::async_read(pair.here, asio::buffer(input), asio_token(asi, pair.here).with_error_code());
  });
  flow.add(note);
  asio::steady_timer timer(io, 1ms);
  flow.add([&](IAsyncSteps& asi) { timer.async_wait(asio_token(asi, timer).with_error_code()); });
  flow.add([&](IAsyncSteps&, boost::system::error_code code) { seen.push_back(code ? "failed" : "waited"); });
  flow.add(
      [&](IAsyncSteps& asi) {
        asi.setTimeout(1ms);
        timer.expires_after(1h);
        timer.async_wait(asio_token(asi, timer).with_error_code());
      },
      noting(seen));
  flow.execute();
  io.run();
  CHECK(seen == lines{boost::system::error_code().message() + " 2", "End of file 2", "waited", "Timeout", ""});
}

TEST_CASE("the loop may run on another thread than the io_context") {
  steps::AsyncTool tool;
  running_context context(2);
  lines seen;
  int rounds = 0;
  steps::AsyncSteps flow{tool};
  flow.repeat(testing::rounds(200), [&](IAsyncSteps& asi, std::size_t i) {
    const auto strand = asio::make_strand(context.io);
    auto timer = std::make_shared<asio::steady_timer>(
        strand, i % 2 == 0 ? asio::steady_timer::duration(1h) : asio::steady_timer::duration(20us));
    asi.add(
        [timer, i](IAsyncSteps& wait) {
          wait.setTimeout(std::chrono::microseconds(i % 50));
          timer->async_wait(asio_token(wait, timer));
        },
        [&](IAsyncSteps& failed, ErrorCode code) {
          if (code == steps::errors::Timeout) failed.success();
        });
    asi.add([&](IAsyncSteps&) { ++rounds; });
  });
  flow.promise().get();
  CHECK(rounds == static_cast<int>(testing::rounds(200)));
}

TEST_CASE("an asio_loop runs flows, timers and posts of other threads while several threads run the io_context") {
  running_context context(2);
  auto loop = std::make_shared<asio_loop>(context.io);
  int posted = 0;
  for (int i = 0; i < 1'000; ++i) loop->post([&posted] { ++posted; });
  steps::AsyncSteps flow{*loop};
  flow.repeat(10, [](IAsyncSteps& asi, std::size_t) {
    asi.add(
        [](IAsyncSteps& wait) {
          wait.setTimeout(1ms);
          wait.waitExternal();
        },
        [](IAsyncSteps& late, ErrorCode) { late.success(); });
  });
  flow.add([&](IAsyncSteps& asi) { asi.success(posted); });
  CHECK(flow.promise<int>().get() == 1'000);
  std::promise<void> gone;
  asio::post(context.io, [&] {
    loop->deferred(1h, [] {});
    gone.set_value();
  });
  gone.get_future().get();
}

TEST_CASE("a destroyed asio_loop leaves nothing in its io_context") {
  asio::io_context io;
  {
    asio_loop loop{io};
    loop.deferred(1h, [] {});
    io.poll();
  }
  io.restart();
  CHECK(io.run_for(10s) <= 3);
  CHECK(io.stopped());
}

TEST_CASE("an io_context returns when the flow has ended, though a timer was set for later") {
  asio::io_context io;
  asio_loop loop(io);
  steps::AsyncSteps flow{loop};
  std::string seen;
  flow.add([&](IAsyncSteps& asi) {
    asi.setTimeout(1h);
    asio::post(io, [&io, done = asi.completion<>()] { asio::post(io, [done] { done.success(); }); });
  });
  flow.add([&](IAsyncSteps&) { seen = "ended"; });
  flow.execute();
  const auto begin = std::chrono::steady_clock::now();
  io.run_for(30s);
  CHECK(seen == "ended");
  CHECK(std::chrono::steady_clock::now() - begin < 20s);
}

TEST_CASE("work posted by a handler of the same thread runs") {
  asio::io_context io;
  asio_loop loop{io};
  int ran = 0;
  io.poll();
  io.restart();
  asio::post(io, [&] {
    loop.immediate([&] { ++ran; });
    loop.post([&] { ++ran; });
    loop.deferred(1ms, [&] { ++ran; });
  });
  io.run();
  CHECK(ran == 3);
}

TEST_CASE("objects that an asio_loop destroys at its end may post to it") {
  asio::io_context io;
  std::unique_ptr<steps::AsyncSteps> flow;
  int cancelled = 0;
  {
    asio_loop loop{io};
    flow = std::make_unique<steps::AsyncSteps>(loop);
    flow->add([&](IAsyncSteps& asi) {
      asi.setCancel([&](IAsyncSteps&) {
        ++cancelled;
        loop.post([] {});
      });
    });
    flow->execute();
    io.poll();  // the flow waits, the loop sleeps
  }
  CHECK(cancelled == 1);
}

TEST_CASE("an exception of a turn of an asio_loop comes out of run(), and the loop goes on with the next run()") {
  asio::io_context io;
  asio_loop loop{io};
  loop.on_unhandled([](std::exception_ptr error) { std::rethrow_exception(error); });
  int ran = 0;
  loop.immediate([] { throw std::runtime_error("first"); });
  loop.immediate([&] { ++ran; });
  loop.deferred(2ms, [] { throw std::runtime_error("second"); });
  loop.deferred(4ms, [&] { ++ran; });
  CHECK_THROWS_WITH_AS(io.run(), "first", std::runtime_error);
  CHECK_THROWS_WITH_AS(io.run(), "second", std::runtime_error);
  io.run();
  CHECK(ran == 2);
  std::thread([&] { loop.post([&] { ++ran; }); }).join();
  io.restart();
  io.run();
  CHECK(ran == 3);
}
