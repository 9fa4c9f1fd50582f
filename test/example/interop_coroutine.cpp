// SPDX-License-Identifier: BSL-1.0
//
// Coroutines that count the words of files: they read and count on a pool, a few files at a time, retry after a pause,
// and have a timeout for each file and for all of them.
#include "steps/interop/coroutine.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "async/threadpool.hpp"
#include "steps/asyncsteps.hpp"
#include "steps/asynctool.hpp"
#include "steps/limiter.hpp"

// args: @source@/test/example

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using steps::interop::co;
using steps::interop::post;
using steps::interop::sleep_for;
using steps::interop::start;
using steps::interop::task;

namespace {

std::string read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw std::runtime_error("CannotRead");
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::size_t count_words(const std::string& text) {
  std::size_t words = 0;
  bool inside = false;
  for (const char c : text) {
    const bool letter = c != ' ' && c != '\n' && c != '\t';
    words += letter && !inside ? 1U : 0U;
    inside = letter;
  }
  return words;
}

// [task]
task<std::size_t> words_in(async::threadpool& pool, async::event_loop& loop, fs::path file) {
  for (int attempt = 1;; ++attempt) {
    try {
      std::string text = co_await post(pool, read, file);
      co_return co_await post(pool, count_words, std::move(text));
    } catch (const std::exception&) {
      if (attempt == 3) throw;
    }
    co_await sleep_for(loop, 1ms * attempt);
  }
}
// [/task]

std::size_t words_in_all(async::threadpool& pool, steps::AsyncTool& tool, const std::vector<fs::path>& files) {
  std::size_t sum = 0;
  steps::Limiter limiter{{.concurrent = 4}};
  steps::AsyncSteps flow{tool};
  flow.add([&](steps::IAsyncSteps& all) {
    all.setTimeout(30s);
    auto& each = all.parallel();
    for (const fs::path& file : files) {
      each.sync(limiter, [&](steps::IAsyncSteps& one) {
        // [step]
        one.add(co([&](steps::IAsyncSteps& asi) -> task<std::size_t> {  // a step, for as long as the coroutine runs
             asi.setTimeout(10s);                                       // destroys it where it waits
             co_return co_await words_in(pool, asi.tool(), file);
           }))
            .add([&sum](steps::IAsyncSteps&, std::size_t words) { sum += words; });
        // [/step]
      });
    }
  });
  flow.promise().get();
  return sum;
}

std::string error_of_missing(async::threadpool& pool, steps::AsyncTool& tool) {
  // [start]
  async::future<std::size_t> words = start(words_in(pool, tool, "/no/such/file"));  // without a flow
  // [/start]
  try {
    words.get();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace

int main(int argc, char** argv) try {
  async::threadpool pool;
  steps::AsyncTool tool;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(argc > 1 ? argv[1] : ".")) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::size_t expected = 0;
  for (const fs::path& file : files) expected += count_words(read(file));
  const std::size_t words = words_in_all(pool, tool, files);
  const std::string error = error_of_missing(pool, tool);
  std::printf("%zu words in %zu files; a missing one: %s\n", words, files.size(), error.c_str());
  return words == expected && error == "CannotRead" ? 0 : 1;
} catch (const std::exception& error) {  // no such folder, or a file that cannot be read
  std::fprintf(stderr, "interop_coroutine: %s\n", error.what());
  return 1;
}
