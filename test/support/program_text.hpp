// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>  // for rotate, upper_bound
#include <cstddef>    // for size_t
#include <string>     // for string, to_string

#include "program.hpp"

/// Programs and their logs as text, for the reader of a failed test.
namespace testing::program {

inline std::string to_string(kind what) {
  static const char* const names[] = {"add",  "loop", "repeat", "forEach", "parallel",
                                      "sync", "race", "retry",  "every",   "await event"};
  return names[static_cast<std::size_t>(what)];
}

inline std::string to_string(ending end) {
  static const char* const names[] = {"",
                                      "success",
                                      "error",
                                      "errorNoThrow",
                                      "swallowed error",
                                      "errorNoThrow, then success",
                                      "wait for success",
                                      "wait for error",
                                      "wait for direct success",
                                      "wait for direct error",
                                      "wait for ever",
                                      "breakLoop",
                                      "breakLoopNoThrow",
                                      "continueLoop",
                                      "continueLoopNoThrow"};
  return names[static_cast<std::size_t>(end)];
}

inline std::string to_string(handler what) {
  static const char* const names[] = {"none", "silent", "success", "error", "errorNoThrow", "add", "add and error"};
  return names[static_cast<std::size_t>(what)];
}

inline std::string to_string(const node& of, const std::string& indent = "") {
  std::string text = indent + std::to_string(of.id) + " " + to_string(of.what);
  if (of.what == kind::sync) text += " mutex " + std::to_string(of.mutex);
  if (is_loop(of) || of.what == kind::retry) text += " x" + std::to_string(of.count);
  if (of.what == kind::event) text += " " + std::to_string(of.event);
  if (of.to_event == node::does::set) text += ", sets event " + std::to_string(of.event);
  if (of.to_event == node::does::reset) text += ", resets event " + std::to_string(of.event);
  if (of.bursts) text += " in bursts";
  if (of.pause != 0) text += " pause=" + std::to_string(of.pause);
  if (of.policy != 0) text += " policy " + std::to_string(of.policy);
  if (!of.label.empty()) text += " '" + of.label + "'";
  if (of.takes) text += " (int)";
  if (of.timeout != 0) text += " timeout=" + std::to_string(of.timeout);
  if (of.on_cancel) text += " oncancel";
  if (of.end != ending::none) text += ", " + to_string(of.end);
  if (of.end != ending::none && !of.code.empty()) text += " '" + of.code + "'";
  if (is_wait(of.end) && of.end != ending::wait) text += " after " + std::to_string(of.delay);
  if (of.result != 0) text += " result " + std::to_string(of.result);
  text += "\n";
  for (const node& sub : of.sub) text += to_string(sub, indent + "  ");
  if (of.on_error != handler::none) {
    text += indent + "  onerror: " + to_string(of.on_error);
    if (!of.new_code.empty()) text += " '" + of.new_code + "'";
    if (of.new_result != 0) text += " result " + std::to_string(of.new_result);
    text += "\n";
    for (const node& sub : of.rescue) text += to_string(sub, indent + "    ");
  }
  return text;
}

inline std::string to_string(const tree& of) {
  std::string text;
  for (const node& step : of.steps) text += to_string(step);
  if (of.cancel_at_run != 0) text += "cancel in run " + std::to_string(of.cancel_at_run) + "\n";
  if (of.cancel_at_tick != 0) text += "cancel at " + std::to_string(of.cancel_at_tick) + "\n";
  return text;
}

inline std::string to_string(const event& of) { return std::to_string(of.tick) + " " + of.branch + " " + of.what; }

inline std::string to_string(const history& of) {
  std::string text;
  for (const event& entry : of) text += to_string(entry) + "\n";
  return text;
}

/// The log with what the rules leave open made equal: in which order branches beside each other are cancelled (within a
/// branch the order stays), and when it is found that a program is stuck.
inline history normalized(history of) {
  for (std::size_t at = 0, stuck = of.size(); at < of.size(); ++at) {
    if (of[at].what == "stuck") stuck = at;
    if (at >= stuck) of[at].tick = at == 0 ? 0 : of[at - 1].tick;
  }
  const auto is_cancel = [](const event& entry) { return entry.what.rfind("oncancel", 0) == 0; };
  // A branch's name begins with that of the flow it branched from: descending order keeps the inner one first.
  const auto by_branch = [](const event& one, const event& other) { return one.branch > other.branch; };
  for (auto first = of.begin(); first != of.end();) {
    auto last = first;
    while (last != of.end() && is_cancel(*last) && last->tick == first->tick) ++last;
    for (auto next = first; next != last; ++next) {
      std::rotate(std::upper_bound(first, next, *next, by_branch), next, next + 1);
    }
    first = last == first ? first + 1 : last;
  }
  return of;
}

}  // namespace testing::program
