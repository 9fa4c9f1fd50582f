// SPDX-License-Identifier: BSL-1.0
// args: @source@ test/unit/steps/steps_pool.cpp
//
// A crawler: visits each page that a first page leads to, once, as a flow on a pool. The site has two servers, see
// crawler_site.hpp, which are slow, sometimes busy, and lose requests.
//
//   crawler [FOLDER [FIRST_PAGE [THREADS [TRACE_FILE]]]]         (a trace needs -DASYNCSTEPS_TRACE=1)
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <string>

#include "async/trace.hpp"
#include "crawler_site.hpp"
#include "steps/steps.hpp"

using namespace std::chrono_literals;
using steps::ErrorCode;
using steps::IAsyncSteps;

namespace {
class crawler {
 public:
  explicit crawler(std::array<site, 2>& servers) : servers_(servers) {}
  int repeated() const { return repeated_; }

  /// Visits all pages that can be reached from one, and waits for the end.
  page_list crawl(async::threadpool& pool, const std::string& first) {
    is_new(first);
    steps::post(pool, [&](IAsyncSteps& asi) { visit(asi, first); }).get();
    return pages_;
  }

 private:
  // [crawler]
  /// Visits a page and all pages that it leads to.
  void visit(IAsyncSteps& asi, const std::string& page) {
    asi.sync(limiter_, [this, page](IAsyncSteps& inside) { fetch(inside, page); });  // limits pages at a time
    asi.add([this](IAsyncSteps& step, const std::string& text) {
      auto& branches = step.parallel();  // each runs on a free worker
      for (const std::string& link : links_in(text)) {
        if (is_new(link)) branches.add([this, link](IAsyncSteps& branch) { visit(branch, link); });
      }
    });
  }

  /// Passes the text of a page on; an empty one on failure.
  void fetch(IAsyncSteps& asi, const std::string& page) {
    asi.retry(
        steps::Retry{.attempts = 5, .delay = 20ms}.on(steps::errors::Timeout, "Busy"),
        [this, page](IAsyncSteps& attempt, int number) {
          if (number != 0) ++repeated_;
          attempt.setTimeout(200ms);
          auto& requests = attempt.race();  // the first answer counts; the other request is given up
          for (site& server : servers_) {
            requests.add([&server, page](IAsyncSteps& call) {
              call.stack<site::connection>(server);  // lives as long as this step
              server.get(page, call.completion<std::string>());
            });
          }
        },
        [this, page](IAsyncSteps& failed, ErrorCode why) {
          has_failed(page, why);
          failed.success("");  // no links to follow
        });
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

  std::array<site, 2>& servers_;
  steps::Limiter limiter_{{.concurrent = 8}};
  std::atomic<int> repeated_{0};
  std::mutex mutex_;
  page_list pages_;
};

}  // namespace

int main(int argc, char** argv) {
  const char* const first = argc > 2 ? argv[2] : "steps/steps.hpp";
  const int threads = argc > 3 ? std::atoi(argv[3]) : static_cast<int>(async::usable_concurrency());
  if (argc > 5 || threads < 1) {
    std::fputs("usage: crawler [FOLDER [FIRST_PAGE [THREADS [TRACE_FILE]]]]\n", stderr);
    return 2;
  }
  const std::string folder = argc > 1 ? argv[1] : ".";
  std::array<site, 2> servers{site(folder), site(folder)};
  const async::trace session;  // records from here on
  crawler robot(servers);
  page_list found;
  {
    async::threadpool pool(static_cast<std::size_t>(threads));
    found = robot.crawl(pool, first);
  }
  if (argc > 4) {
    // [trace]
    std::ofstream file(argv[4]);
    session.write(file);
    // [/trace]
    if (!file.flush()) return std::perror(argv[4]), 1;
  }
  for (const auto& [page, why] : found) {
    if (!why.empty()) std::printf("%s: %s\n", page.c_str(), why.c_str());
  }
  std::printf("%zu pages with %zu and %zu requests, %d attempts repeated\n", found.size(), servers[0].requests(),
              servers[1].requests(), robot.repeated());
  page_list expected;
  servers[0].walk(first, expected);
  return found == expected && robot.repeated() > 0 ? 0 : 1;
}
