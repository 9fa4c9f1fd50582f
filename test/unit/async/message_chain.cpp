// SPDX-License-Identifier: BSL-1.0
#include "async/detail/loop/message_chain.hpp"

#include <doctest/doctest.h>

#include <array>
#include <functional>
#include <string>
#include <string_view>

using async::detail::delivery;
using async::detail::message;
using async::detail::message_chain;

namespace {

/// A message with a letter, which it adds to what has been delivered; small when it is dropped.
struct letter : message {
  letter(char l, std::string& where) : message(&arrived), name(l), delivered(where) {}
  static void arrived(message& m, delivery how) {
    auto& self = static_cast<letter&>(m);
    self.delivered += how == delivery::on_loop ? self.name : static_cast<char>(self.name - 'A' + 'a');
    if (self.then) self.then();
  }

  char name;
  std::string& delivered;
  std::function<void()> then;
};

struct chain_of_five {
  chain_of_five() { append(0, 5); }
  /// Appends letters as an inbox gives them: chained.
  void append(std::size_t from, std::size_t to) {
    for (std::size_t i = from; i + 1 < to; ++i) letters[i].next.set(&letters[i + 1]);
    letters[to - 1].next.set(nullptr);
    chain.append(&letters[from]);
  }
  void deliver_rest() {
    while (!chain.empty()) chain.deliver_first();
  }
  static auto among(std::string_view names) {
    return
        [names](const message& m) { return names.find(static_cast<const letter&>(m).name) != std::string_view::npos; };
  }

  std::string delivered;
  std::array<letter, 8> letters{letter{'A', delivered}, letter{'B', delivered}, letter{'C', delivered},
                                letter{'D', delivered}, letter{'E', delivered}, letter{'F', delivered},
                                letter{'G', delivered}, letter{'H', delivered}};
  message_chain chain;
};

}  // namespace

TEST_CASE("messages are delivered in the order in which they came") {
  chain_of_five test;
  test.append(5, 8);
  test.deliver_rest();
  CHECK(test.delivered == "ABCDEFGH");
}

TEST_CASE("a message is taken out once, wherever it is") {
  chain_of_five test;
  for (const std::size_t i : {2U, 0U, 4U}) {
    CHECK(test.chain.remove(test.letters[i]));
    CHECK_FALSE(test.chain.remove(test.letters[i]));
  }
  test.append(5, 6);
  test.deliver_rest();
  CHECK(test.delivered == "BDF");
}

TEST_CASE("wanted messages are delivered, and the others keep their order") {
  for (const std::string_view wanted : {"", "A", "E", "BD", "ACE", "ABCDE"}) {
    chain_of_five test;
    test.chain.deliver_those(test.among(wanted));
    CHECK(test.delivered == wanted);
    std::string all(wanted);
    for (const char name : std::string_view("ABCDE")) {
      if (wanted.find(name) == std::string_view::npos) all += name;
    }
    test.deliver_rest();
    CHECK(test.delivered == all);
  }
}

TEST_CASE("a delivery may deliver, append and take out other messages") {
  chain_of_five test;
  test.letters[1].then = [&test] {
    test.append(5, 7);
    CHECK(test.chain.remove(test.letters[2]));
    test.chain.deliver_those(test.among("AEG"));
  };
  test.chain.deliver_those(test.among("BE"));
  CHECK(test.delivered == "BEAG");
  test.deliver_rest();
  CHECK(test.delivered == "BEAGDF");
}

TEST_CASE("a message that is dropped may deliver others") {
  chain_of_five test;
  test.letters[1].then = [&test] { test.chain.deliver_those(test.among("D")); };
  test.chain.drop_all();
  CHECK(test.delivered == "abDce");
  CHECK(test.chain.empty());
}
