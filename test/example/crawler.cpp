// SPDX-License-Identifier: BSL-1.0
// args: @source@ test/unit/steps_pool.cpp
//
// A crawler: from one page to all that it leads to, each once, as flows on a pool. Pages are files, links are their
// #include lines, and the site is as sites are: slow, of limited patience, and not always there.
//
//   crawler [FOLDER [FIRST_PAGE [THREADS [TRACE_FILE]]]]         (a trace needs -DASYNC_TRACE=1)
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "async/trace.hpp"
#include "steps/steps.hpp"

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using steps::ErrorCode;
using steps::IAsyncSteps;

namespace {

std::vector<std::string> links_in(const std::string& text) {
  static const std::string mark = "#include \"";
  std::vector<std::string> links;
  for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark, at)) {
    at += mark.size();
    links.push_back(text.substr(at, text.find('"', at) - at));
  }
  return links;
}

/// Answers from a thread of its own after a millisecond. Of the pages asked for it loses the first request for every
/// tenth, and is too busy for the first for every seventh. It takes no more connections than eight.
class site {
 public:
  explicit site(fs::path root) : root_(std::move(root)) {
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
    ++requests_;
    network_.deferred(1ms, [this, page, answer] {
      const bool first = asked_.insert(page).second;
      if (first && asked_.size() % 10 == 0) return;
      if (first && asked_.size() % 7 == 0) return static_cast<void>(answer.error("Busy", page));
      std::ifstream file(root_ / page, std::ios::binary);
      if (!file) return static_cast<void>(answer.error("NotFound", page));
      if (answer.success(std::string(std::istreambuf_iterator<char>(file), {}))) ++delivered_;
    });
  }
  std::size_t requests() const { return requests_; }
  std::size_t delivered() const { return delivered_; }  // in time

 private:
  const fs::path root_;
  std::atomic<std::size_t> connections_{0}, requests_{0}, delivered_{0};
  std::set<std::string> asked_;  // by its thread only
  steps::AsyncTool network_;
};

class crawler {
 public:
  explicit crawler(site& from) : from_(from) {}

  // [crawler]
  /// Visits a page and all that can be reached from it; ends when that has been done.
  void visit(IAsyncSteps& asi, const std::string& page) {
    asi.add([this, page](IAsyncSteps& step) { fetch(step, page); },
            [this, page](IAsyncSteps& step, ErrorCode why) {
              has_failed(page, why);
              step.success("");  // nothing leads on from here
            });
    asi.add([this, page](IAsyncSteps& step, std::string text) {
      auto& branches = step.parallel();  // each runs on whichever worker is free
      for (const std::string& link : links_in(text)) {
        if (is_new(link)) branches.add([this, link](IAsyncSteps& branch) { visit(branch, link); });
      }
    });
  }

  /// Passes the text of a page on.
  void fetch(IAsyncSteps& asi, const std::string& page) {
    auto& text = asi.stack<std::string>();  // lives as long as this step and its sub-steps
    asi.sync(limiter_, [this, page, &text](IAsyncSteps& inside) {
      inside.stack<site::connection>(from_);
      inside.repeat(4, [this, page, &text](IAsyncSteps& attempt, std::size_t i) {
        attempt.add(
            [this, page](IAsyncSteps& call) {
              call.setTimeout(200ms);
              from_.get(page, call.completion<std::string>());  // a late answer is ignored
            },
            [i](IAsyncSteps& failed, ErrorCode code) {
              if ((code == steps::errors::Timeout || code == "Busy") && i < 3) failed.continueLoopNoThrow();
            });
        attempt.add([&text](IAsyncSteps& got, std::string answer) {
          text = std::move(answer);
          got.breakLoopNoThrow();
        });
      });
    });
    asi.add([&text](IAsyncSteps& last) { last.success(std::move(text)); });
  }
  // [/crawler]

  bool is_new(const std::string& page) {
    const std::lock_guard lock(mutex_);
    return pages_.emplace(page, "").second;
  }
  void has_failed(const std::string& page, ErrorCode why) {
    const std::lock_guard lock(mutex_);
    pages_[page] = why;
  }
  /// Each page with why it could not be had, if so.
  const std::map<std::string, std::string>& pages() const { return pages_; }

 private:
  site& from_;
  steps::Limiter limiter_{{.concurrent = 8, .max_queue = 100'000, .rate = 100'000, .burst = 100'000}};
  std::mutex mutex_;
  std::map<std::string, std::string> pages_;
};

/// The same without haste, to compare with.
void walk(const fs::path& root, const std::string& page, std::map<std::string, std::string>& pages) {
  if (!pages.emplace(page, "").second) return;
  std::ifstream file(root / page, std::ios::binary);
  if (!file) pages[page] = "NotFound";
  for (const std::string& link : links_in({std::istreambuf_iterator<char>(file), {}})) walk(root, link, pages);
}

}  // namespace

int main(int argc, char** argv) {
  const fs::path root = argc > 1 ? argv[1] : ".";
  const std::string first = argc > 2 ? argv[2] : "steps/steps.hpp";
  site server(root);
  crawler c(server);
  const async::trace session;
  const auto begin = std::chrono::steady_clock::now();
  {
    async::threadpool pool(argc > 3 ? static_cast<std::size_t>(std::atoi(argv[3])) : async::usable_concurrency());
    c.is_new(first);
    steps::post(pool, [&](IAsyncSteps& asi) { c.visit(asi, first); }).get();
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  if (argc > 4) {
    std::ofstream file(argv[4]);
    session.write(file);
  }

  for (const auto& [page, why] : c.pages()) {
    if (!why.empty()) std::printf("%s: %s\n", page.c_str(), why.c_str());
  }
  const std::size_t pages = c.pages().size(), requests = server.requests();
  std::printf("%zu of %zu pages, %zu requests, %.0f ms\n", server.delivered(), pages, requests, took.count());

  std::map<std::string, std::string> expected;
  walk(root, first, expected);
  const auto failed = std::ranges::count_if(expected, [](const auto& each) { return !each.second.empty(); });
  const bool each_once = server.delivered() == pages - static_cast<std::size_t>(failed);
  return c.pages() == expected && each_once && requests > pages ? 0 : 1;
}
