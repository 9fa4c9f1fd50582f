// SPDX-License-Identifier: BSL-1.0
#include <doctest/doctest.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

#include "support/flows.hpp"

// Errors. Rules 8 to 12 of steps/RULES.md.

using steps::ErrorCode;
using steps::IAsyncSteps;
using testing::bench;
using testing::lines;
using namespace std::chrono_literals;

namespace {

std::string text(IAsyncSteps& asi, ErrorCode code) {
  return std::string(code) + ": " + std::string(asi.state().error_info());
}

/// Writes a line when it is destroyed, moved-from ones aside.
struct trace {
  trace(lines& log, std::string name) : to(&log), what(std::move(name)) {}
  trace(trace&& other) noexcept : to(std::exchange(other.to, nullptr)), what(std::move(other.what)) {}
  trace(const trace&) = delete;
  ~trace() {
    if (to != nullptr) to->push_back(what);
  }
  lines* to;
  std::string what;
};

}  // namespace

TEST_CASE_TEMPLATE("rule 8: a catch of everything around error() does not swallow the error", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add(
      [&](IAsyncSteps& asi) {
        try {
          asi.error("Mine", "info");
        } catch (...) {
          seen.push_back("swallowed");
        }
      },
      [&](IAsyncSteps& asi, ErrorCode code) {
        seen.push_back(text(asi, code));
        asi.success();
      });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"swallowed", "Mine: info"});
}

TEST_CASE_TEMPLATE("rule 8: errorNoThrow() returns, and success() after it changes nothing", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add([&](IAsyncSteps& asi) {
    asi.errorNoThrow("Mine", "info");
    seen.push_back("returned");
    asi.success(1);
  });
  flow.add([&](IAsyncSteps&) { seen.push_back("never"); });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"returned"});
  CHECK(b.unhandled == lines{"Mine"});
}

TEST_CASE_TEMPLATE("rule 9: an exception becomes a code: Error's own, what() of others, else InternalError", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  const auto note = [&](IAsyncSteps& asi, ErrorCode code) {
    std::string kind = "none";
    try {
      if (asi.state().last_exception() != nullptr) std::rethrow_exception(asi.state().last_exception());
    } catch (const steps::Error&) {
      kind = "Error";
    } catch (const std::exception&) {
      kind = "exception";
    } catch (int n) {
      kind = "int " + std::to_string(n);
    }
    seen.push_back(std::string(code) + "/" + kind);
    if (kind == "Error") CHECK(asi.state().error_info() == "the info");
    asi.success();
  };
  Flow flow{b.loop};
  flow.add([](IAsyncSteps&) { throw steps::Error("Code", "the info"); }, note);
  flow.add([](IAsyncSteps&) { throw std::runtime_error("something"); }, note);
  flow.add([](IAsyncSteps&) { throw 42; }, note);
  flow.execute();
  b.drain();
  CHECK(seen == lines{"Code/Error", "something/exception", "InternalError/int 42"});
}

TEST_CASE_TEMPLATE("rule 9: a thrown ErrorCode is that code, as by errorNoThrow()", Flow, STEPS_FLOWS) {
  bench b;
  ErrorCode seen;
  Flow flow{b.loop};
  flow.add([](IAsyncSteps&) { throw std::runtime_error("before"); },
           [](IAsyncSteps& asi, ErrorCode) { asi.success(); });
  flow.add([](IAsyncSteps&) { throw steps::errors::DefenseRejected; },
           [&seen](IAsyncSteps& asi, ErrorCode code) {
             seen = code;
             CHECK_THROWS_WITH(std::rethrow_exception(asi.state().last_exception()), "before");
           });
  async::future<void> result = flow.promise();
  b.drain();
  CHECK(seen == steps::errors::DefenseRejected);
  std::string thrown;
  try {
    result.get();
  } catch (const steps::Error& error) {
    thrown = error.what();
  }
  CHECK(thrown == "DefenseRejected");
}

TEST_CASE_TEMPLATE("rule 9: a handler's error may be made of the texts of the one that it handles", Flow, STEPS_FLOWS) {
  for (const bool is_long : {false, true}) {  // longer than what lies in the objects themselves
    bench b;
    const std::string more(is_long ? 100 : 0, 'x');
    const std::string code = "NoSuchFile" + more, info = "the disk" + more;
    lines seen;
    Flow flow{b.loop};
    const auto inner = [&](IAsyncSteps& asi) { asi.error(code, info); };
    const auto wrap = [](IAsyncSteps& asi, ErrorCode old) {
      const auto because = asi.state().error_info();
      const std::string first(1, std::string_view(because).front());
      asi.error(first + old.c_str(), old.view());
    };
    const auto swap = [](IAsyncSteps& asi, ErrorCode old) {
      const std::string_view info_as_code = asi.state().error_info();
      asi.error(info_as_code.data(), old.view());
    };
    const auto note = [&](IAsyncSteps& asi, ErrorCode last) {
      seen.push_back(std::string(last) + "/" + std::string(asi.state().error_info()));
      try {
        std::rethrow_exception(asi.state().last_exception());
      } catch (const steps::Error& e) {
        seen.push_back(std::string(e.what()) + "/" + e.error_info());
      }
      asi.success();
    };
    flow.add([&](IAsyncSteps& asi) { asi.add(inner, wrap); }, note);
    flow.add([&](IAsyncSteps& asi) { asi.add(inner, swap); }, note);
    flow.execute();
    b.drain();
    const std::string wrapped = "t" + code + "/" + code, swapped = info + "/" + code;
    CHECK(seen == lines{wrapped, wrapped, swapped, swapped});
  }
}

TEST_CASE_TEMPLATE("rule 9: current_exception is the error that a handler is called for, however it was raised", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  const auto look = [&seen](IAsyncSteps& asi) {
    const std::exception_ptr current = asi.state().current_exception();
    if (current == nullptr) return seen.push_back("none");
    try {
      std::rethrow_exception(current);
    } catch (const steps::Error& e) {
      seen.push_back(std::string(e.what()) + "/" + e.error_info());
    } catch (const std::exception& e) {
      seen.push_back(e.what());
    }
  };
  const auto recover = [&](IAsyncSteps& asi, ErrorCode) {
    look(asi);
    asi.success();
    look(asi);
  };
  const auto replace = [&](IAsyncSteps& asi, ErrorCode) {
    look(asi);
    asi.errorNoThrow("Other", "newer");
  };
  Flow flow{b.loop};
  flow.state().set_unhandled_error([&](ErrorCode) { look(flow); });
  flow.add([](IAsyncSteps&) { throw std::runtime_error("thrown"); }, recover);
  flow.add([](IAsyncSteps& asi) { asi.errorNoThrow("Code", "info"); }, recover);
  flow.add([](IAsyncSteps& asi) { asi.error("Raised"); }, recover);
  flow.add([](IAsyncSteps& asi) { asi.setTimeout(1ms); }, recover);
  flow.add([&](IAsyncSteps& asi) { asi.add([](IAsyncSteps&) { throw std::runtime_error("again"); }, replace); },
           recover);
  flow.add([&](IAsyncSteps& asi) {
    look(asi);
    asi.error("Last", "of all");
  });
  flow.execute();
  b.pass(3ms);
  CHECK(seen == lines{"thrown", "none", "Code/info", "none", "Raised/", "none", "Timeout/", "none", "again",
                      "Other/newer", "none", "none", "Last/of all"});
}

TEST_CASE_TEMPLATE("rule 9: a recovery clears error_info and keeps last_exception", Flow, STEPS_FLOWS) {
  for (const bool adds : {false, true}) {
    bench b;
    int checked = 0;
    const auto check = [&](IAsyncSteps& asi) {
      CHECK(asi.state().error_info().empty());
      CHECK(asi.state().last_exception() != nullptr);
      ++checked;
    };
    Flow flow{b.loop};
    flow.add([](IAsyncSteps&) { throw steps::Error("Code", "the info"); },
             [&, adds](IAsyncSteps& asi, ErrorCode) {
               if (adds) {
                 asi.add(check);
               } else {
                 asi.success();
               }
             });
    flow.add(check);
    flow.execute();
    b.drain();
    CHECK(checked == (adds ? 2 : 1));
  }
}

TEST_CASE_TEMPLATE("rule 10: sub-steps are dropped, then cancel handler, then error handler, level by level", Flow,
                   STEPS_FLOWS) {
  for (int how = 0; how < 3; ++how) {  // thrown, not thrown, from outside
    CAPTURE(how);
    bench b;
    lines seen;
    Flow flow{b.loop};
    flow.add(
        [&](IAsyncSteps& outer) {
          outer.setCancel([&](IAsyncSteps&) { seen.push_back("outer cancel"); });
          outer.add(
              [&](IAsyncSteps& asi) {
                asi.setCancel([&](IAsyncSteps&) { seen.push_back("inner cancel"); });
                asi.add([&](IAsyncSteps& inner) {
                  inner.stack<trace>(seen, "stack");
                  if (how == 0) inner.error("E");
                  if (how == 1) return inner.errorNoThrow("E");
                  inner.setTimeout(1ms);
                });
                asi.add([t = trace(seen, "inner pending")](IAsyncSteps&) {});
              },
              [&](IAsyncSteps&, ErrorCode) { seen.push_back("inner handler"); });
          outer.add([t = trace(seen, "outer pending")](IAsyncSteps&) {});
        },
        [&](IAsyncSteps& asi, ErrorCode) {
          seen.push_back("outer handler");
          asi.success();
        });
    flow.execute();
    b.pass(5ms);
    CHECK(seen == lines{"stack", "inner pending", "inner cancel", "inner handler", "outer pending", "outer cancel",
                        "outer handler"});
  }
}

TEST_CASE_TEMPLATE("rule 10: the timer is disarmed before the handler runs, and does not cover its steps", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add(
      [](IAsyncSteps& asi) {
        asi.setTimeout(5ms);
        asi.add([](IAsyncSteps& inner) { inner.error("E"); });
      },
      [&](IAsyncSteps& asi, ErrorCode code) {
        seen.push_back(std::string(code));
        asi.add([&](IAsyncSteps& inner) { inner.waitExternal(); });
      });
  flow.execute();
  b.pass(20ms);
  CHECK(seen == lines{"E"});
  CHECK(b.unhandled.empty());
  CHECK(!flow);
}

TEST_CASE_TEMPLATE("rule 11: a handler that returns lets the error pass, error() in it replaces code and info", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add(
      [&](IAsyncSteps& a) {
        a.add(
            [&](IAsyncSteps& c) {
              c.add([](IAsyncSteps& d) { d.error("First", "1"); },
                    [&](IAsyncSteps& d, ErrorCode code) { seen.push_back(text(d, code)); });
            },
            [&](IAsyncSteps& c, ErrorCode code) {
              seen.push_back(text(c, code));
              c.error("Second", "2");
            });
      },
      [&](IAsyncSteps& a, ErrorCode code) {
        seen.push_back(text(a, code));
        a.errorNoThrow("Third");
      });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"First: 1", "First: 1", "Second: 2"});
  CHECK(b.unhandled == lines{"Third"});
  CHECK(flow.state().error_info().empty());
}

TEST_CASE_TEMPLATE("rule 11: steps added in a handler run in the step's place, without that handler", Flow,
                   STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add(
      [&](IAsyncSteps& outer) {
        outer.add([](IAsyncSteps& asi) { asi.error("E"); },
                  [&](IAsyncSteps& asi, ErrorCode code) {
                    seen.push_back("inner " + std::string(code));
                    asi.add([&](IAsyncSteps&) { seen.push_back("rescue"); });
                    asi.add([&](IAsyncSteps& inner) { inner.error("Again"); });
                  });
        outer.add([&](IAsyncSteps&) { seen.push_back("never"); });
      },
      [&](IAsyncSteps& asi, ErrorCode code) {
        seen.push_back("outer " + std::string(code));
        asi.add([](IAsyncSteps& inner) { inner.success(7); });
      });
  flow.add([&](IAsyncSteps&, int n) { seen.push_back("next " + std::to_string(n)); });
  flow.execute();
  b.drain();
  CHECK(seen == lines{"inner E", "rescue", "outer Again", "next 7"});
}

TEST_CASE_TEMPLATE("rule 11: a handler that adds and raises: the error wins", Flow, STEPS_FLOWS) {
  bench b;
  Flow flow{b.loop};
  bool ran = false;
  flow.add([](IAsyncSteps& asi) { asi.error("E"); },
           [&](IAsyncSteps& asi, ErrorCode) {
             asi.add([&](IAsyncSteps&) { ran = true; });
             asi.error("Other");
           });
  flow.execute();
  b.drain();
  CHECK(!ran);
  CHECK(b.unhandled == lines{"Other"});
}

TEST_CASE_TEMPLATE("rule 12: a handler may raise anew after a timeout or an error from outside, and each runs once",
                   Flow, STEPS_FLOWS) {
  for (const bool throws : {true, false}) {
    for (const bool timeout : {true, false}) {
      bench b;
      lines seen;
      Flow flow{b.loop};
      flow.add(
          [&](IAsyncSteps& outer) {
            outer.add(
                [&](IAsyncSteps& asi) {
                  if (timeout) return asi.setTimeout(1ms);
                  asi.waitExternal();
                  b.loop.immediate([&asi] { asi.errorNoThrow("Outside"); });
                },
                [&](IAsyncSteps& asi, ErrorCode code) {
                  seen.push_back(std::string(code));
                  if (throws) asi.error(code, "again");
                  asi.errorNoThrow(code, "again");
                });
          },
          [&](IAsyncSteps& asi, ErrorCode code) {
            seen.push_back(text(asi, code));
            throw std::runtime_error("third");
          });
      flow.execute();
      b.pass(5ms);
      const std::string code = timeout ? "Timeout" : "Outside";
      CHECK(seen == lines{code, code + ": again"});
      CHECK(b.unhandled == lines{"third"});
    }
  }
}

TEST_CASE_TEMPLATE("rule 11: a handler replaces a code that is no literal by a longer one", Flow, STEPS_FLOWS) {
  bench b;
  lines seen;
  Flow flow{b.loop};
  flow.add(
      [&](IAsyncSteps& asi) {
        asi.add([](IAsyncSteps& inner) { inner.errorNoThrow(std::string(30, 'a')); },
                [](IAsyncSteps& inner, ErrorCode) { inner.errorNoThrow(std::string(100, 'b')); });
      },
      [&](IAsyncSteps& asi, ErrorCode code) {
        seen.emplace_back(code);
        asi.success();
      });
  flow.execute();
  b.drain();
  CHECK(seen == lines{std::string(100, 'b')});
}

TEST_CASE_TEMPLATE("rule 11: a handler's code and info may be views of the texts of the error that it replaces", Flow,
                   STEPS_FLOWS) {
  struct replaced {
    std::string code, info;
  };
  const auto replace = [](const std::string& code, const std::string& info, auto by) {
    bench b;
    Flow flow{b.loop};
    replaced found;
    flow.add(
        [&](IAsyncSteps& asi) {
          asi.add([&](IAsyncSteps& inner) { inner.error(code, info); },
                  [&by](IAsyncSteps& inner, ErrorCode now) { by(inner, now); });
        },
        [&](IAsyncSteps& asi, ErrorCode now) {
          found = {std::string(now.view()), asi.state().error_info().str()};
          asi.success();
        });
    flow.execute();
    b.drain();
    return found;
  };
  const auto swapped = [](IAsyncSteps& asi, ErrorCode code) {
    asi.errorNoThrow(asi.state().error_info().data(), code.view());
  };
  const auto explained = [](IAsyncSteps& asi, ErrorCode code) {
    asi.errorNoThrow(std::string("DiskError"), code.view().substr(1));
  };
  const auto promoted = [](IAsyncSteps& asi, ErrorCode) { asi.errorNoThrow(asi.state().error_info().c_str(), "more"); };
  for (const std::size_t length : {std::size_t{3}, std::size_t{40}}) {
    const std::string code(length, 'c');
    const std::string info = std::string(length, 'i') + "!";
    CAPTURE(length);
    CHECK(replace(code, info, swapped).code == info);
    CHECK(replace(code, info, swapped).info == code);
    CHECK(replace(code, info, explained).code == "DiskError");
    CHECK(replace(code, info, explained).info == code.substr(1));
    CHECK(replace(code, info, promoted).code == info);
    CHECK(replace(code, info, promoted).info == "more");
  }
}
