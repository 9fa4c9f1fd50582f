// SPDX-License-Identifier: BSL-1.0
//
// A chat room. Each member is a flow that waits for its own inbox; the room is a coroutine that passes on what members
// say. None of them takes a thread while it waits.
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <deque>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "async/async.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/steps.hpp"

using namespace std::chrono_literals;
using steps::IAsyncSteps;

namespace {

/// A leaver goes after ten messages. A slow one misses messages that its inbox has no room for. The room waits for all
/// others: they miss none.
enum class kind { talker, leaver, slow, listener };
constexpr kind kinds[] = {kind::talker, kind::leaver, kind::slow, kind::listener, kind::listener};

struct member;
struct message {
  enum { join, leave, say } what;
  member* from;
  std::string text;
  std::size_t number = 0;  // counted by the room
};
using shared_message = std::shared_ptr<const message>;

struct member {
  explicit member(kind what) : is(what), inbox(what == kind::slow ? 2 : 16) {}
  const kind is;
  async::bounded_queue<shared_message> inbox;
  std::size_t joined = 0, left = 0, missed = 0;   // set by the room: the last message before it came, and left
  std::size_t heard = 0, last = 0, disorder = 0;  // set by itself
};

struct room {
  std::size_t expected = 1'000;  // members that have to join before it closes
  async::queue<message> said;    // unbounded: the room waits for members, so members must not wait for the room
  std::vector<member*> members;
  std::size_t joined = 0, messages = 0;
};

steps::interop::task<> serve(room& r) {
  while (std::optional<message> next = co_await r.said.pop()) {  // until it is closed, and all is read
    member& from = *next->from;
    if (next->what == message::join) {
      from.joined = r.messages;
      r.members.push_back(&from);
      if (++r.joined == r.expected) r.said.enqueue(message{message::say, &from, "all are here"});
    } else if (next->what == message::leave) {
      from.left = r.messages;
      std::erase(r.members, &from);
      from.inbox.close();  // the member still hears what is inside
    } else {
      next->number = ++r.messages;
      const shared_message said = std::make_shared<message>(std::move(*next));
      for (member* to : r.members) {
        const bool waits = !to->inbox.enqueue(said);
        if (waits && (to->is == kind::slow || !co_await to->inbox.push(said))) ++to->missed;
      }
    }
    if (r.joined == r.expected && r.messages >= 300) r.said.close();
  }
  for (member* each : r.members) each->left = r.messages, each->inbox.close();
}

void hear(IAsyncSteps& asi, room& r, member& me, const message& heard) {
  if (heard.number <= me.last || heard.number <= me.joined) ++me.disorder;
  me.last = heard.number;
  if (++me.heard == 10 && me.is == kind::leaver) r.said.enqueue(message{message::leave, &me, ""});
  if (heard.from == &me) r.said.enqueue(message{message::say, &me, "and again"});  // false: the room is closing
  if (me.is == kind::slow) asi.tool().deferred(1ms, [awake = asi.completion<>()] { awake.success(); });
}

void be_member(IAsyncSteps& asi, room& r, member& me) {
  asi.enqueue(r.said, message{message::join, &me, ""});
  if (me.is == kind::talker) asi.enqueue(r.said, message{message::say, &me, "hello"});
  asi.loop([&r, &me](IAsyncSteps& turn) {
    turn.await(me.inbox, [](IAsyncSteps& end, steps::ErrorCode code) {
      if (code == steps::errors::QueueClosed) end.breakLoopNoThrow();  // it has left, or the room is closed
    });
    turn.add([&](IAsyncSteps& got, const shared_message& next) { hear(got, r, me, *next); });
  });
}

}  // namespace

int main() {
  std::deque<member> members;
  room r;
  async::threadpool pool(2);

  std::vector<async::future<void>> ends;
  ends.push_back(steps::interop::start(serve(r)));
  for (std::size_t i = 0; i < r.expected; ++i) {
    member& me = members.emplace_back(kinds[i % std::size(kinds)]);
    ends.push_back(steps::post(pool, [&r, &me](IAsyncSteps& asi) { be_member(asi, r, me); }));
  }
  for (auto& end : ends) end.get();

  std::size_t wrong = 0, missed = 0;
  for (const member& m : members) {
    const bool is_all = m.heard + m.missed == m.left - m.joined && (m.is == kind::slow || m.missed == 0);
    if (!is_all || m.disorder != 0 || m.last > m.left) ++wrong;
    missed += m.missed;
  }
  std::printf("%zu members, %zu messages, %zu missed; %zu heard wrong\n", r.joined, r.messages, missed, wrong);
  return wrong == 0 && r.joined == r.expected && r.messages >= 300 ? 0 : 1;
}
