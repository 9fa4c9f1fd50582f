// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>      // for min, sort, upper_bound
#include <chrono>         // for steady_clock
#include <cstddef>        // for size_t
#include <cstdint>        // for uint64_t
#include <string>         // for string
#include <unordered_set>  // for unordered_set
#include <utility>        // for move
#include <vector>         // for vector

namespace testing {

using moment = std::chrono::steady_clock::time_point;

/// One call of a queue, as its caller saw it.
struct queue_call {
  enum kind { enqueue, dequeue };
  kind what;
  bool succeeded;  // false: full, or empty
  char value;
  moment start;
  moment end;
};

/// Whether calls could have taken effect one by one, each at a moment between its start and end, on a FIFO queue of
/// `capacity` elements (0: without limit). Wing and Gong's search, with states that were seen left out; for up to 64
/// calls that overlap little, or about 20 that all overlap.
class fifo_history {
 public:
  explicit fifo_history(std::vector<queue_call> calls, std::size_t capacity = 0)
      : calls_(std::move(calls)), capacity_(capacity) {}

  bool is_linearizable() {
    seen_.clear();
    return search(0, "");
  }

 private:
  using mask = std::uint64_t;

  bool search(mask done, const std::string& content) {
    if (done == all()) return true;
    std::string key(reinterpret_cast<const char*>(&done), sizeof(done));
    if (!seen_.insert(key + content).second) return false;
    moment first_end = (moment::max)();
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      if ((done >> i & 1) == 0) first_end = (std::min)(first_end, calls_[i].end);
    }
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      const queue_call& call = calls_[i];
      if ((done >> i & 1) != 0 || call.start > first_end) continue;
      std::string after = content;
      if (takes_effect(call, after) && search(done | mask{1} << i, after)) return true;
    }
    return false;
  }
  bool takes_effect(const queue_call& call, std::string& content) const {
    if (call.what == queue_call::enqueue) {
      const bool is_full = capacity_ != 0 && content.size() == capacity_;
      if (call.succeeded) content.push_back(call.value);
      return is_full != call.succeeded;
    }
    if (!call.succeeded) return content.empty();
    if (content.empty() || content.front() != call.value) return false;
    content.erase(0, 1);
    return true;
  }
  mask all() const { return calls_.size() == 64 ? ~mask{0} : (mask{1} << calls_.size()) - 1; }

  std::vector<queue_call> calls_;
  std::size_t capacity_;
  std::unordered_set<std::string> seen_;
};

/// The way of one element through a queue.
struct passage {
  moment in_start, in_end, out_start, out_end;
};

/// How many elements were overtaken: one that was in before another's enqueue began came out only after the other's
/// dequeue had ended.
inline std::size_t count_overtaken(std::vector<passage> passages) {
  const auto earlier = [](const passage& a, const passage& b) { return a.in_start < b.in_start; };
  std::sort(passages.begin(), passages.end(), earlier);
  std::vector<moment> first_out(passages.size() + 1, (moment::max)());  // of this one and those that start later
  for (std::size_t i = passages.size(); i-- != 0;) first_out[i] = (std::min)(first_out[i + 1], passages[i].out_end);
  std::size_t overtaken = 0;
  for (const passage& each : passages) {
    const auto later = std::upper_bound(passages.begin(), passages.end(), each.in_end,
                                        [](moment end, const passage& other) { return end < other.in_start; });
    overtaken += first_out[static_cast<std::size_t>(later - passages.begin())] < each.out_start ? 1U : 0U;
  }
  return overtaken;
}

}  // namespace testing
