// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <algorithm>    // for min
#include <charconv>     // for from_chars
#include <cstddef>      // for size_t
#include <cstdint>      // for uint64_t
#include <cstdio>       // for snprintf
#include <string>       // for string, to_string
#include <string_view>  // for string_view

#include "async/detail/base/chrono.hpp"  // for nanoseconds

namespace steps::inline v0_1::interop::nats::detail {

/// A text as a string of JSON. Another name than quoted(), which programs with `<iomanip>` would find in namespace std.
inline std::string json_of(std::string_view text) {
  std::string made = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') made += '\\';
    if (static_cast<unsigned char>(c) >= ' ') {
      made += c;
    } else {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
      made += escaped;
    }
  }
  return made += '"';
}
/// The server takes times as nanoseconds.
inline std::string json_of(std::chrono::nanoseconds time) { return std::to_string(time.count()); }

/// The text behind a key; empty: it is not there. Inside a text a quote has a backslash, so that no text is taken for a
/// key.
inline std::string_view value_at(std::string_view json, std::string_view key) {
  const std::string whole = json_of(key) + ':';
  const std::size_t at = json.find(whole);
  if (at == json.npos) return {};
  json.remove_prefix(at + whole.size());
  json.remove_prefix((std::min)(json.find_first_not_of(' '), json.size()));
  return json;
}
/// The object behind a key, without its braces. It has no objects inside.
inline std::string_view object_at(std::string_view json, std::string_view key) {
  const std::string whole = json_of(key) + ":{";
  const std::size_t at = json.find(whole);
  if (at == json.npos) return {};
  json.remove_prefix(at + whole.size());
  bool is_text = false;
  std::size_t end = 0;
  for (; end < json.size() && (is_text || json[end] != '}'); ++end) {
    if (json[end] == '"') is_text = !is_text;
    if (json[end] == '\\') ++end;
  }
  return json.substr(0, end);
}
/// 0: there is none.
inline std::uint64_t number_at(std::string_view json, std::string_view key) {
  const std::string_view value = value_at(json, key);
  std::uint64_t number = 0;
  std::from_chars(value.data(), value.data() + value.size(), number);
  return number;
}
inline bool is_true_at(std::string_view json, std::string_view key) { return value_at(json, key).starts_with("true"); }

/// The error in the server's answer to a request of JetStream.
struct api_error {
  explicit api_error(std::string_view answer) {
    const std::string_view error = value_at(answer, "error");
    status = static_cast<unsigned>(number_at(error, "code"));
    number = static_cast<unsigned>(number_at(error, "err_code"));
    if (std::string_view words = value_at(error, "description"); words.starts_with('"')) {
      words.remove_prefix(1);
      text = words.substr(0, words.find('"'));
    }
  }
  explicit operator bool() const noexcept { return status != 0; }

  unsigned status = 0;  // as in HTTP; 0: no error
  unsigned number = 0;
  std::string text{};
};

inline constexpr unsigned stream_is_another = 10058;  // err_code: a stream of this name has another configuration

}  // namespace steps::inline v0_1::interop::nats::detail
