// SPDX-License-Identifier: BSL-1.0
// args: @source@ test/unit/steps/steps_pool.cpp
//
// A crawler: visits each page that a first page leads to, once, as a flow on a pool. The site, see crawler_site.hpp, is
// slow, sometimes busy, and loses requests.
//
//   crawler [FOLDER [FIRST_PAGE [THREADS [TRACE_FILE]]]]         (a trace needs -DASYNC_TRACE=1)
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
  explicit crawler(site& from) : from_(from) {}

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
    asi.sync(limiter_, [this, page](IAsyncSteps& inside) {  // limits pages at a time
      inside.stack<site::connection>(from_);                // lives as long as this step and its sub-steps
      fetch(inside, page, 4);
    });
    asi.add([this](IAsyncSteps& step, const std::string& text) {
      auto& branches = step.parallel();  // each runs on a free worker
      for (const std::string& link : links_in(text)) {
        if (is_new(link)) branches.add([this, link](IAsyncSteps& branch) { visit(branch, link); });
      }
    });
  }

  /// Passes the text of a page on; an empty one on failure.
  void fetch(IAsyncSteps& asi, const std::string& page, int attempts) {
    asi.add(
        [this, page](IAsyncSteps& call) {
          call.setTimeout(200ms);
          from_.get(page, call.completion<std::string>());  // a late answer is ignored
        },
        [this, page, attempts](IAsyncSteps& failed, ErrorCode why) {
          if (attempts > 1 && (why == steps::errors::Timeout || why == "Busy"))
            return fetch(failed, page, attempts - 1);
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

  site& from_;
  steps::Limiter limiter_{{.concurrent = 8}};
  std::mutex mutex_;
  page_list pages_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string first = argc > 2 ? argv[2] : "steps/steps.hpp";
  const int threads = argc > 3 ? std::atoi(argv[3]) : static_cast<int>(async::usable_concurrency());
  if (argc > 5 || threads < 1) {
    std::fputs("usage: crawler [FOLDER [FIRST_PAGE [THREADS [TRACE_FILE]]]]\n", stderr);
    return 2;
  }
  site pages(argc > 1 ? argv[1] : ".");
  const async::trace session;
  page_list found;
  {
    async::threadpool pool(static_cast<std::size_t>(threads));
    found = crawler(pages).crawl(pool, first);
  }
  if (argc > 4) {
    std::ofstream file(argv[4]);
    session.write(file);
    if (!file.flush()) return std::perror(argv[4]), 1;
  }

  for (const auto& [page, why] : found) {
    if (!why.empty()) std::printf("%s: %s\n", page.c_str(), why.c_str());
  }
  std::printf("%zu of %zu pages with %zu requests\n", pages.delivered(), found.size(), pages.requests());
  page_list expected;
  const std::size_t there = pages.walk(first, expected);
  return found == expected && pages.delivered() == there && pages.requests() > found.size() ? 0 : 1;
}
