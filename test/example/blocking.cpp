// SPDX-License-Identifier: BSL-1.0
//
// async::blocking_pool: calls that block, beside tasks and flows that never do. Counts the lines of a folder's files.
// args: @source@/async
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "async/blocking_pool.hpp"
#include "async/blocking_section.hpp"
#include "steps/steps.hpp"

namespace fs = std::filesystem;

namespace {

std::size_t count_lines(const fs::path& file) {  // waits for the disk
  std::ifstream in(file);
  if (!in) throw std::runtime_error("cannot open " + file.string());
  std::size_t lines = 0;
  for (std::string line; std::getline(in, line);) ++lines;
  return lines;
}

std::size_t with_futures(const std::vector<fs::path>& files) {
  // [post]
  async::blocking_pool disk({.max_threads = 64});

  std::vector<async::future<std::size_t>> counts;
  for (const fs::path& file : files) counts.push_back(disk.post(count_lines, file));

  std::size_t lines = 0;
  for (async::future<std::size_t>& count : counts) lines += count.get();
  // [/post]
  return lines;
}

std::size_t with_flows(async::threadpool& pool, const std::vector<fs::path>& files) {
  std::size_t lines = 0;
  auto done = steps::post(pool, [&files, &lines](steps::IAsyncSteps& root) {
    root.forEach(files, [&lines](steps::IAsyncSteps& asi, std::size_t, const fs::path& file) {
      // [await]
      asi.await(async::blocking_pool::shared(), count_lines, file);  // the flow's worker runs other flows meanwhile
      asi.add([&lines](steps::IAsyncSteps&, std::size_t count) { lines += count; });
      // [/await]
    });
  });
  done.get();
  return lines;
}

std::size_t in_tasks(async::threadpool& pool, const std::vector<fs::path>& files) {
  std::vector<async::future<std::size_t>> counts;
  for (const fs::path& file : files) {
    // [section]
    counts.push_back(pool.post([&file] {
      const async::blocking_section here;  // another worker takes this one's place
      return count_lines(file);
    }));
    // [/section]
  }
  std::size_t lines = 0;
  for (async::future<std::size_t>& count : counts) lines += count.get();
  return lines;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(argc > 1 ? argv[1] : ".")) {
    if (entry.is_regular_file() && entry.path().extension() == ".hpp") files.push_back(entry.path());
  }
  async::threadpool pool(2);
  const std::size_t lines = with_futures(files);
  std::printf("%zu lines in %zu files\n", lines, files.size());
  const bool agree = with_flows(pool, files) == lines && in_tasks(pool, files) == lines;
  return !files.empty() && lines != 0 && agree ? 0 : 1;
}
