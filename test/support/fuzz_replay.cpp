// SPDX-License-Identifier: BSL-1.0
//
// Calls a fuzz target with each file of a folder, then with random changes to them, the same ones for a seed. An input
// that ends the program by a signal is left in the file "failed.NAME" of the present folder, for NAME of the program.
#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "fuzz.hpp"
#include "scale.hpp"

namespace {

using input = std::vector<std::uint8_t>;

std::string failed;    // where to
const input* current;  // what is tried out

/// Not safe in general; the program is lost anyway.
void keep_input(int signal) {
  std::signal(signal, SIG_DFL);
  if (std::FILE* const file = std::fopen(failed.c_str(), "wb"); file != nullptr) {
    std::fwrite(current->data(), 1, current->size(), file);
    std::fclose(file);
    std::fprintf(stderr, "the input is in %s\n", failed.c_str());
  }
  std::raise(signal);
}

void try_out(const input& bytes) {
  current = &bytes;
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

input read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return {text.begin(), text.end()};
}

class random_changes {
 public:
  explicit random_changes(std::uint64_t seed) : random_(seed) {}

  input operator()(const std::vector<input>& from) {
    input made = from.empty() ? input() : from[below(from.size())];
    for (std::size_t left = 1 + below(8); left != 0; --left) {
      const std::size_t at = below(made.size() + 1);
      const auto where = made.begin() + static_cast<std::ptrdiff_t>(at);
      if (at == made.size() || below(3) == 0) {
        made.insert(where, static_cast<std::uint8_t>(random_()));
      } else if (below(2) == 0) {
        *where = static_cast<std::uint8_t>(random_());
      } else {
        made.erase(where);
      }
    }
    return made;
  }

 private:
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_() % bound); }
  std::mt19937_64 random_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::printf("usage: %s FOLDER_OR_FILE...\n", argv[0]);
    return 2;
  }
  failed = "failed." + std::filesystem::path(argv[0]).filename().string();
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGILL}) std::signal(signal, keep_input);
  std::vector<std::filesystem::path> paths;
  for (int i = 1; i < argc; ++i) {
    if (std::filesystem::is_directory(argv[i])) {
      for (const auto& entry : std::filesystem::directory_iterator(argv[i])) paths.push_back(entry.path());
    } else {
      paths.emplace_back(argv[i]);
    }
  }
  std::sort(paths.begin(), paths.end());
  std::vector<input> kept;
  for (const std::filesystem::path& path : paths) {
    kept.push_back(read(path));
    try_out(kept.back());
  }
  const bool alone = argc == 2 && std::filesystem::is_regular_file(argv[1]);
  const std::size_t changed = alone ? 0 : testing::rounds(5'000);
  random_changes change(testing::seed());
  for (std::size_t i = 0; i < changed; ++i) try_out(change(kept));
  std::printf("count: %zu inputs kept\ncount: %zu random changes to them\n", kept.size(), changed);
  if (!kept.empty()) return 0;
  std::puts("no input was found");
  return 1;
}
