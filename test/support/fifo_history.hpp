// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>      // for min, sort
#include <cstddef>        // for size_t
#include <cstdint>        // for uint64_t
#include <limits>         // for numeric_limits
#include <string>         // for string
#include <unordered_set>  // for unordered_set
#include <utility>        // for move
#include <vector>         // for vector

#include "support/call_clock.hpp"  // for call_clock

namespace testing {

using moment = call_clock::moment;

/// One call of a queue, as its caller saw it.
struct queue_call {
  enum kind { enqueue, dequeue, blocking_enqueue, blocking_dequeue, close, is_closed };
  kind what;
  bool succeeded;  // false: full or closed; empty; closed; closed and drained; -; open
  char value;
  moment start;
  moment end;
  std::size_t thread = 0;
  bool withdrawn = false;  // ended a wait: it was full, or empty, and open
};

inline std::string to_string(const queue_call& call) {
  if (call.what == queue_call::close) return "close";
  if (call.what == queue_call::is_closed) return call.succeeded ? "is closed" : "is open";
  const bool enqueues = call.what == queue_call::enqueue || call.what == queue_call::blocking_enqueue;
  const bool waits = call.what == queue_call::blocking_enqueue || call.what == queue_call::blocking_dequeue;
  std::string text = enqueues ? "in" : "out";
  if (enqueues || call.succeeded) text += std::string(" ") + call.value;
  if (call.succeeded) return text;
  return text + (call.withdrawn ? ": withdrawn" : waits ? ": end" : enqueues ? ": full" : ": empty");
}

/// Calls as a person reads them: a line for each thread, time runs to the right, a bar reaches from a call to its
/// return. Bars that share a column overlapped.
inline std::string timeline(const std::vector<queue_call>& calls) {
  struct event {
    moment at;
    bool is_end;
    std::size_t call;
  };
  std::vector<event> events;
  std::size_t threads = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    events.push_back({calls[i].start, false, i});
    events.push_back({calls[i].end, true, i});
    threads = (std::max)(threads, calls[i].thread + 1);
  }
  std::sort(events.begin(), events.end(), [](const event& a, const event& b) {
    if (a.at != b.at) return a.at < b.at;
    return a.is_end != b.is_end ? b.is_end : a.call < b.call;  // calls that touch overlap
  });
  constexpr std::size_t none = ~std::size_t{0};
  struct lane {
    std::string text;
    std::size_t open = none;  // the call
  };
  std::vector<lane> lanes(threads);
  std::size_t column = 0;
  const auto close = [&column](lane& of) {
    column = (std::max)(column, of.text.size());
    of.text.resize(column++, '-');
    of.text += '|';
    of.open = none;
  };
  for (const event& each : events) {
    lane& its = lanes[calls[each.call].thread];
    if (each.is_end) {
      if (its.open == each.call) close(its);
      continue;
    }
    if (its.open != none) close(its);  // no other call ended meanwhile
    its.text.resize(column++, ' ');
    its.text += "|" + to_string(calls[each.call]);
    its.open = each.call;
  }
  std::string text;
  for (std::size_t i = 0; i < threads; ++i) {
    if (lanes[i].open != none) close(lanes[i]);
    text += "thread " + std::to_string(i) + "  " + lanes[i].text + "\n";
  }
  return text;
}

/// Whether calls could have taken effect one by one, each at a moment between its start and end, on a FIFO queue of
/// `capacity` elements (0: without limit) that may be closed. Wing and Gong's search, with states that were seen left
/// out; for up to 64 calls that overlap little, or about 20 that all overlap.
class fifo_history {
 public:
  explicit fifo_history(std::vector<queue_call> calls, std::size_t capacity = 0)
      : calls_(std::move(calls)), capacity_(capacity) {}

  bool is_linearizable() {
    seen_.clear();
    path_.clear();
    longest_.clear();
    return search(0, {});
  }

  /// After is_linearizable() was false: the calls as a timeline, and how far an order explains them.
  std::string explanation() const {
    std::string text = timeline(calls_) + "an order explains " + std::to_string(longest_.size()) + " of " +
                       std::to_string(calls_.size()) + " calls:";
    for (const std::size_t i : longest_) text += " (" + to_string(calls_[i]) + ")";
    return text + "\n";
  }

 private:
  using mask = std::uint64_t;

  struct state {
    std::string content;
    bool closed = false;
  };

  bool search(mask done, const state& before) {
    if (done == all()) return true;
    if (path_.size() > longest_.size()) longest_ = path_;
    std::string key(reinterpret_cast<const char*>(&done), sizeof(done));
    key += before.closed ? 'c' : 'o';
    if (!seen_.insert(key + before.content).second) return false;
    moment first_end = (std::numeric_limits<moment>::max)();
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      if ((done >> i & 1) == 0) first_end = (std::min)(first_end, calls_[i].end);
    }
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      const queue_call& call = calls_[i];
      if ((done >> i & 1) != 0 || call.start > first_end) continue;
      state after = before;
      if (!takes_effect(call, after)) continue;
      path_.push_back(i);
      if (search(done | mask{1} << i, after)) return true;
      path_.pop_back();
    }
    return false;
  }
  bool takes_effect(const queue_call& call, state& now) const {
    std::string& content = now.content;
    if (call.what == queue_call::close) return now.closed = true;
    if (call.what == queue_call::is_closed) return now.closed == call.succeeded;
    if (call.what == queue_call::enqueue || call.what == queue_call::blocking_enqueue) {
      const bool is_full = capacity_ != 0 && content.size() == capacity_;
      if (call.withdrawn) return is_full && !now.closed;
      if (!call.succeeded) return now.closed || (is_full && call.what == queue_call::enqueue);
      content.push_back(call.value);
      return !is_full && !now.closed;
    }
    if (call.withdrawn) return content.empty() && !now.closed;
    if (!call.succeeded) return content.empty() && (now.closed || call.what == queue_call::dequeue);
    if (content.empty() || content.front() != call.value) return false;
    content.erase(0, 1);
    return true;
  }
  mask all() const { return calls_.size() == 64 ? ~mask{0} : (mask{1} << calls_.size()) - 1; }

  std::vector<queue_call> calls_;
  std::size_t capacity_;
  std::unordered_set<std::string> seen_;
  std::vector<std::size_t> path_;
  std::vector<std::size_t> longest_;
};

}  // namespace testing
