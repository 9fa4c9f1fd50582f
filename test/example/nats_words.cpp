// SPDX-License-Identifier: BSL-1.0
// args: @source@/steps
//
// Counts the words in a tree of files on several processes, which may be on several machines: each file is a call to
// whoever is free. The example starts a server and three workers of its own.
//
//   nats_words DIRECTORY                      with a server and workers of its own
//   nats_words --work URL                     a worker, on any machine, until it is interrupted
//   nats_words DIRECTORY URL                  with the workers that there are
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "steps/interop/nats.hpp"
#include "steps/steps.hpp"
#include "support/nats_server.hpp"

namespace fs = std::filesystem;
namespace nats = steps::interop::nats;
using steps::ErrorCode;
using steps::IAsyncSteps;
using namespace std::chrono_literals;

namespace {

using word_counts = std::map<std::string, unsigned long>;

std::string content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// "word count" lines, as they go over the network.
std::string count_words(std::string text) {
  for (char& c : text) {
    if ((c < 'a' || c > 'z') && (c < 'A' || c > 'Z')) c = ' ';
  }
  word_counts counts;
  std::istringstream in(text);
  for (std::string word; in >> word;) ++counts[word];
  std::string lines;
  for (const auto& [word, count] : counts) lines += word + ' ' + std::to_string(count) + '\n';
  return lines;
}
void add(word_counts& to, const std::string& lines) {
  std::istringstream in(lines);
  unsigned long count = 0;
  for (std::string word; in >> word >> count;) to[word] += count;
}

// [worker]
/// Serves until the process is interrupted.
void work(const std::string& url) {
  async::threadpool pool;
  nats::bus bus({.url = url});
  auto service = bus.serve("words.count", "counters", pool, count_words);  // a group shares the calls
  service.stopped().wait();
}
// [/worker]

// [count]
/// One call for each file, at most 64 at a time; whoever is free answers. A call whose worker dies is made again.
void count_tree(IAsyncSteps& asi, nats::bus& bus, const std::vector<fs::path>& files, word_counts& total) {
  auto& limiter = asi.stack<steps::Semaphore>(64U);
  auto& sums = asi.stack<std::mutex>();  // branches run at the same time
  auto& branches = asi.parallel();
  for (const fs::path& file : files) {
    branches.sync(limiter, [&bus, &total, &sums, file](IAsyncSteps& branch) {
      branch.await(async::blocking_pool::shared(), content_of, file);
      branch.add([&bus](IAsyncSteps& step, const std::string& text) {
        const steps::Retry patience{.attempts = 50, .delay = 20ms, .max_delay = 200ms};
        step.retry(patience, [&bus, text](IAsyncSteps& attempt) {
          attempt.setTimeout(5s);
          bus.call(attempt, "words.count", text);
        });
      });
      branch.add([&total, &sums](IAsyncSteps&, const std::string& counts) {
        const std::lock_guard here(sums);
        add(total, counts);
      });
    });
  }
}
// [/count]

/// Processes that run this program as workers.
struct workers {
  explicit workers(const std::string& url, int count) {
    for (; count > 0; --count) {
      const pid_t made = ::fork();
      if (made == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::execl("/proc/self/exe", "nats_words", "--work", url.c_str(), nullptr);
        ::_exit(127);
      }
      if (made > 0) ids.push_back(made);
    }
  }
  workers(const workers&) = delete;
  workers& operator=(const workers&) = delete;
  ~workers() {
    for (const pid_t each : ids) ::kill(each, SIGKILL), ::waitpid(each, nullptr, 0);
  }
  std::vector<pid_t> ids;
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2 || argc > 3) return std::fputs("usage: nats_words DIRECTORY [URL] | --work URL\n", stderr), 2;
  if (argv[1] == std::string("--work")) return work(argv[2]), 0;
  std::unique_ptr<testing::nats_server> own;
  std::unique_ptr<workers> started;
  if (argc == 2) {
    own = std::make_unique<testing::nats_server>();
    started = std::make_unique<workers>(own->url(), 3);
  }
  std::vector<fs::path> files;
  for (const auto& each : fs::recursive_directory_iterator(argv[1])) {
    if (each.is_regular_file() && each.file_size() < 900'000) files.push_back(each.path());  // NATS takes 1 MB
  }
  async::threadpool pool;
  nats::bus bus({.url = argc == 3 ? argv[2] : own->url()});
  if (!bus.connected().wait_for(10s)) throw steps::Error("ConnectError", bus.failure());
  word_counts total;
  steps::post(pool, [&](IAsyncSteps& asi) { count_tree(asi, bus, files, total); }).get();

  word_counts here;
  for (const fs::path& file : files) add(here, count_words(content_of(file)));
  std::printf("%zu words in %zu files: %s\n", total.size(), files.size(),
              total == here ? "as counted in one process" : "WRONG");
  return total == here ? 0 : 1;
} catch (const steps::Error& error) {
  std::fprintf(stderr, "nats_words: %s: %s\n", error.what(), error.error_info().c_str());
  return 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "nats_words: %s\n", error.what());
  return 1;
}
