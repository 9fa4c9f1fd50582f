// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cctype>     // for isspace
#include <cstdlib>    // for strtod
#include <map>        // for map
#include <stdexcept>  // for runtime_error
#include <string>     // for string
#include <vector>     // for vector

namespace testing {

/// A value of JSON, and how it is read: strictly, but for numbers, and for \u in strings.
struct json {
  enum class kind { null, boolean, number, text, list, object } is = kind::null;
  double number = 0;
  std::string text;
  std::vector<json> list;
  std::map<std::string, json> members;

  /// The member of that name; throws std::out_of_range.
  const json& operator[](const char* name) const { return members.at(name); }
  bool has(const char* name) const { return members.count(name) != 0; }

  static json parse(const std::string& from) {
    reader r{from.c_str(), from.c_str() + from.size()};
    json all = r.value();
    r.skip();
    if (r.at != r.end) throw std::runtime_error("more after the JSON value");
    return all;
  }

 private:
  struct reader {
    const char* at;
    const char* end;

    [[noreturn]] void fail() const {
      throw std::runtime_error("bad JSON before: " + std::string(at, end).substr(0, 60));
    }
    void skip() {
      while (at != end && std::isspace(static_cast<unsigned char>(*at)) != 0) ++at;
    }
    bool take(char c) {
      skip();
      if (at == end || *at != c) return false;
      ++at;
      return true;
    }
    void need(char c) {
      if (!take(c)) fail();
    }
    bool word(const std::string& w) {
      if (std::string(at, end).compare(0, w.size(), w) != 0) return false;
      at += w.size();
      return true;
    }
    std::string string() {
      need('"');
      std::string found;
      while (at != end && *at != '"') {
        if (static_cast<unsigned char>(*at) < ' ') fail();
        if (*at == '\\' && (++at == end || (*at != '"' && *at != '\\'))) fail();
        found += *at++;
      }
      need('"');
      return found;
    }
    json value() {
      json v;
      skip();
      if (at == end) fail();
      if (*at == '"') {
        v.is = kind::text;
        v.text = string();
      } else if (take('[')) {
        v.is = kind::list;
        if (take(']')) return v;
        do v.list.push_back(value());
        while (take(','));
        need(']');
      } else if (take('{')) {
        v.is = kind::object;
        if (take('}')) return v;
        do {
          std::string name = string();
          need(':');
          if (!v.members.emplace(std::move(name), value()).second) fail();
        } while (take(','));
        need('}');
      } else if (*at == 't' || *at == 'f') {
        v.is = kind::boolean;
        v.number = *at == 't' ? 1 : 0;
        if (!word(*at == 't' ? "true" : "false")) fail();
      } else if (*at == 'n') {
        if (!word("null")) fail();
      } else {
        v.is = kind::number;
        char* after = nullptr;
        v.number = std::strtod(at, &after);
        if (after == at) fail();
        at = after;
      }
      return v;
    }
  };
};

}  // namespace testing
