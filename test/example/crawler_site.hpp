// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "async/trace.hpp"
#include "steps/asynctool.hpp"
#include "steps/completion.hpp"

/// Pages, with the error for each page that could not be fetched.
using page_list = std::map<std::string, std::string>;

inline std::vector<std::string> links_in(const std::string& text) {
  static const std::string mark = "#include \"";
  std::vector<std::string> links;
  for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark, at)) {
    at += mark.size();
    links.push_back(text.substr(at, text.find('"', at) - at));
  }
  return links;
}

/// A server of the site that crawler.cpp visits: pages are the files below a folder, links are their #include lines. It
/// answers from its own thread after a millisecond. Its first request for a page is lost for every tenth page or so,
/// and finds it too busy for every seventh. It takes eight connections.
class site {
 public:
  explicit site(std::filesystem::path root) : root_(std::move(root)) {
    network_.immediate([] { async::trace::name_thread("site", 0); });
  }

  struct connection {
    explicit connection(site& to) : to_(to) {
      if (++to_.connections_ > 8) throw std::runtime_error("TooManyConnections");
    }
    ~connection() { --to_.connections_; }
    site& to_;
  };

  void get(const std::string& page, steps::completion<std::string> answer) {
    using namespace std::chrono_literals;
    ++requests_;
    network_.deferred(1ms, [this, page, answer] {
      const bool first = asked_.insert(page).second;
      const int sum = std::accumulate(page.begin(), page.end(), 0);
      if (first && sum % 10 == 0) return;
      std::string text;
      if (first && sum % 7 == 0) {
        answer.error("Busy", page);
      } else if (!read(page, text)) {
        answer.error("NotFound", page);
      } else {
        answer.success(std::move(text));
      }
    });
  }
  std::size_t requests() const { return requests_; }

  /// Finds the pages that a crawler should find, one after the other.
  void walk(const std::string& page, page_list& seen) const {
    if (!seen.emplace(page, "").second) return;
    std::string text;
    if (!read(page, text)) seen[page] = "NotFound";
    for (const std::string& link : links_in(text)) walk(link, seen);
  }

 private:
  bool read(const std::string& page, std::string& text) const {
    std::ifstream file(root_ / page, std::ios::binary);
    text.assign(std::istreambuf_iterator<char>(file), {});
    return file.is_open();
  }

  const std::filesystem::path root_;
  std::atomic<std::size_t> connections_{0}, requests_{0};
  std::set<std::string> asked_;  // by its thread only
  steps::AsyncTool network_;
};
