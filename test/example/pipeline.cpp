// SPDX-License-Identifier: BSL-1.0
// args: @source@/async
//
// A pipeline over bounded queues: one thread reads files, several count their words, one adds up. A stage that is ahead
// sleeps, so that no more than a few files are in memory; each stage ends the next one by closing its queue.
#include <atomic>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "async/bounded_queue.hpp"

namespace fs = std::filesystem;

namespace {

using word_counts = std::map<std::string, std::size_t>;

word_counts count_words(const std::string& text) {
  word_counts counts;
  std::string word;
  for (const char c : text + ' ') {
    if (std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_') {
      word += c;
    } else if (!word.empty()) {
      ++counts[std::exchange(word, {})];
    }
  }
  return counts;
}

void add(word_counts& total, const word_counts& part) {
  for (const auto& [word, count] : part) total[word] += count;
}

std::string content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

word_counts count_in_pipeline(const std::vector<fs::path>& files, unsigned counters) {
  // [pipeline]
  async::bounded_queue<std::string> texts(4);  // at most four files wait in memory
  async::bounded_queue<word_counts> parts(16);

  std::vector<std::thread> stages;
  stages.emplace_back([&] {
    for (const fs::path& file : files) texts.blocking_enqueue(content_of(file));  // sleeps while there is no room
    texts.close();  // queued elements can still be dequeued
  });
  std::atomic<unsigned> working{counters};
  for (unsigned i = 0; i < counters; ++i) {
    stages.emplace_back([&] {
      for (std::string text; texts.blocking_dequeue(text);) parts.blocking_enqueue(count_words(text));
      if (--working == 0) parts.close();  // the last one
    });
  }
  word_counts total;
  for (word_counts part; parts.blocking_dequeue(part);) add(total, part);  // until it is closed and empty
  // [/pipeline]
  for (std::thread& stage : stages) stage.join();
  return total;
}

}  // namespace

int main(int argc, char** argv) try {
  std::vector<fs::path> files;
  const auto options = fs::directory_options::skip_permission_denied;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(argc > 1 ? argv[1] : ".", options)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }

  const word_counts counts = count_in_pipeline(files, 3);
  word_counts expected;
  for (const fs::path& file : files) add(expected, count_words(content_of(file)));

  std::pair<std::string, std::size_t> most;
  for (const auto& each : counts) {
    if (each.second > most.second) most = each;
  }
  std::printf("%zu files, %zu words, most often %zu times '%s'\n", files.size(), counts.size(), most.second,
              most.first.c_str());
  return counts == expected && !files.empty() ? 0 : 1;
} catch (const fs::filesystem_error& error) {  // no such folder
  std::fprintf(stderr, "pipeline: %s\n", error.what());
  return 1;
}
