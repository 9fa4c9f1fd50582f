// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>      // for max, sort
#include <cstddef>        // for size_t
#include <cstdint>        // for uint64_t
#include <cstdio>         // for snprintf
#include <ostream>        // for ostream
#include <string>         // for string
#include <string_view>    // for string_view
#include <unordered_map>  // for unordered_map
#include <vector>         // for vector

#include "async/detail/trace/trace_log.hpp"  // for trace_log, trace_event

namespace async::inline v0_1::detail {

/// A readable name: "wrapper<face, function, handler>" becomes "function", "wrapper<face, no_handler>" becomes
/// "wrapper". Other names stay.
inline std::string_view short_name(std::string_view type) noexcept {
  std::size_t begin = 0;
  int depth = 0;
  bool is_wrapper = false;
  for (std::size_t i = 0; i < type.size(); ++i) {
    const char c = type[i];
    if (c == '<' || c == '(' || c == '{' || c == '[') ++depth;
    if (c == ')' || c == '}' || c == ']' || (c == '>' && type[i - 1] != '-')) --depth;  // not the > of "->"
    if ((c != ',' || depth != 1) && (c != '>' || depth != 0)) continue;
    if (begin != 0) {  // not the face
      std::string_view part = type.substr(begin, i - begin);
      while (part.ends_with(' ')) part.remove_suffix(1);
      if (!part.ends_with("no_label") && !part.ends_with("no_handler")) return part;
      is_wrapper = true;
    }
    begin = i + 2;
  }
  return is_wrapper ? type.substr(0, type.find('<')) : type;
}

/// The number of bytes of a text's first character (Unicode 15, table 3-7); 0: it is ill-formed.
inline std::size_t utf8_length(std::string_view text) noexcept {
  const auto at = [&text](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned first = at(0);
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const std::size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  const unsigned lowest = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const unsigned highest = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (at(1) < lowest || at(1) > highest) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (at(i) < 0x80 || at(i) > 0xbf) return 0;
  }
  return length;
}

/// Writes the events of logs as JSON in the Trace Event Format: one process, a track for each thread and each flow, an
/// arrow from each wake-up to the end of the sleep.
class trace_json {
 public:
  trace_json(std::ostream& to, std::int64_t begin) : to_(to), begin_(begin) {}

  /// Adds the events of a log; returns how many the log has dropped.
  std::uint64_t add(const trace_log& log) {
    const std::size_t thread = ++threads_;
    const std::string name = log.name().empty() ? "thread/" + std::to_string(thread) : std::string(log.name());
    const std::uint64_t dropped = log.read([this, thread](trace_event e) {
      e.start = (std::max)(e.start, begin_);  // if it began in an earlier session
      events_.push_back({e, thread, events_.size()});
    });
    open("M", "thread_name", thread);
    text_ += ",\"args\":{\"name\":";
    quote(name);
    text_ += ",\"dropped\":" + std::to_string(dropped) + "}";
    close();
    return dropped;
  }

  void write() {
    std::sort(events_.begin(), events_.end(),
              [](const item& a, const item& b) { return when(a) != when(b) ? when(a) < when(b) : a.order < b.order; });
    for (const item& i : events_) write(i);
    flush();
  }
  void begin() { to_ << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":["; }
  void end(std::string_view other) { to_ << "\n],\"otherData\":{" << other << "}}\n"; }

 private:
  struct item {
    trace_event event;
    std::size_t thread;
    std::size_t order;  // within its thread
  };

  /// The sort key. Flows and sleepers are identified by their addresses, which others may reuse later, so their events
  /// have to be in order.
  static std::int64_t when(const item& i) noexcept {
    return i.event.kind == trace_kind::park ? i.event.end : i.event.start;
  }

  void write(const item& i) {
    const trace_event& e = i.event;
    switch (e.kind) {
      case trace_kind::task:
      case trace_kind::callback:
        return span(i, e.name), close();
      case trace_kind::park:
        span(i, e.name);
        close();
        if (const auto found = wakes_.find(e.about); found != wakes_.end()) {
          link("f", i.thread, e.end, found->second);
          text_ += ",\"bp\":\"e\"";
          close();
          wakes_.erase(found);
        }
        return;
      case trace_kind::wake:
        span(i, e.name);
        close();
        wakes_[e.about] = ++links_;
        link("s", i.thread, e.start, links_);
        return close();
      case trace_kind::step:
      case trace_kind::handler:
        return step(i);
      case trace_kind::steal:
        open("i", e.name, i.thread);
        at(e.start);
        text_ += ",\"s\":\"t\",\"args\":{\"from\":" + std::to_string(e.about) + "}";
        return close();
      case trace_kind::flow_start:
        flows_[e.about] = ++flow_count_;
        flow("b", i, flow_count_);
        return close();
      case trace_kind::flow_end:
        return flow_end(i);
    }
  }

  void step(const item& i) {
    const trace_event& e = i.event;
    std::string name(short_name(e.name));
    if (e.kind == trace_kind::handler) name += " (error handler)";
    span(i, name);
    text_ += ",\"cat\":\"";
    text_ += e.kind == trace_kind::handler ? "handler" : "step";
    text_ += "\",\"args\":{";
    if (const auto found = flows_.find(e.about); found != flows_.end()) {
      text_ += "\"flow\":" + std::to_string(found->second) + ",";
    }
    text_ += "\"type\":";
    quote(e.name);
    text_ += "}";
    close();
  }

  /// Ends the flow's track, or writes an instant if the flow began before the recording.
  void flow_end(const item& i) {
    const auto found = flows_.find(i.event.about);
    if (found != flows_.end()) {
      flow("e", i, found->second);
      flows_.erase(found);
    } else {
      open("i", "flow ends", i.thread);
      at(i.event.start);
      text_ += ",\"s\":\"t\"";
    }
    text_ += ",\"args\":{\"by\":";
    quote(i.event.name);
    text_ += "}";
    close();
  }

  void flow(const char* phase, const item& i, std::uint64_t number) {
    open(phase, "flow " + std::to_string(number), i.thread);
    at(i.event.start);
    text_ += ",\"cat\":\"flow\",\"id\":" + std::to_string(number);
  }
  void link(const char* phase, std::size_t thread, std::int64_t time, std::uint64_t number) {
    open(phase, "wake", thread);
    at(time);
    text_ += ",\"cat\":\"wake\",\"id\":" + std::to_string(number);
  }
  void span(const item& i, std::string_view name) {
    open("X", name, i.thread);
    at(i.event.start);
    text_ += ",\"dur\":";
    micros(i.event.end - i.event.start);
  }

  void open(const char* phase, std::string_view name, std::size_t thread) {
    text_ += is_first_ ? "\n{\"ph\":\"" : ",\n{\"ph\":\"";
    is_first_ = false;
    text_ += phase;
    text_ += "\",\"pid\":1,\"tid\":" + std::to_string(thread) + ",\"name\":";
    quote(name);
  }
  void close() {
    text_ += "}";
    if (text_.size() > 60000) flush();
  }
  void at(std::int64_t time) {
    text_ += ",\"ts\":";
    micros(time - begin_);
  }
  void micros(std::int64_t nanoseconds) {
    char digits[40];
    std::snprintf(digits, sizeof digits, "%s%lld.%03lld", nanoseconds < 0 ? "-" : "",
                  static_cast<long long>((nanoseconds < 0 ? -nanoseconds : nanoseconds) / 1000),
                  static_cast<long long>((nanoseconds < 0 ? -nanoseconds : nanoseconds) % 1000));
    text_ += digits;
  }
  /// JSON is UTF-8. Names of threads may be cut in the middle of a character, or have another encoding.
  void quote(std::string_view text) {
    text_ += '"';
    while (!text.empty()) {
      const char c = text.front();
      const std::size_t length = utf8_length(text);
      if (c == '"' || c == '\\') text_ += '\\';
      if (length == 0) {
        text_ += '?';
      } else if (static_cast<unsigned char>(c) < ' ') {
        text_ += ' ';
      } else {
        text_ += text.substr(0, length);
      }
      text.remove_prefix((std::max)(length, std::size_t{1}));
    }
    text_ += '"';
  }
  void flush() {
    to_.write(text_.data(), static_cast<std::streamsize>(text_.size()));
    text_.clear();
  }

  std::ostream& to_;
  const std::int64_t begin_;
  std::vector<item> events_;
  std::size_t threads_ = 0;
  std::unordered_map<std::uint64_t, std::uint64_t> flows_, wakes_;  // address -> number of the flow, of the arrow
  std::uint64_t flow_count_ = 0;
  std::uint64_t links_ = 0;
  std::string text_;
  bool is_first_ = true;
};

}  // namespace async::inline v0_1::detail
