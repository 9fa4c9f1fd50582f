// SPDX-License-Identifier: BSL-1.0
// args: @source@/async 1
//
// Hashes every file below a folder, each file as a call of its own: in a loop, with std::async and with async::async.
// Prints how long each took, and fails unless all three found the same digests.
//
//   hash_tree [FOLDER [ROUNDS]]      the folder of the system's headers, and three rounds, unless others are named
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "async/async.hpp"

namespace fs = std::filesystem;

namespace {

using digest = std::uint64_t;
using digests = std::vector<digest>;

/// FNV-1a, 64 bits: quick enough that most of the work is what the system does for each file.
digest hash_bytes(std::string_view bytes, digest hash = 0xcbf29ce484222325) {
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}

/// Hashes the name and, if it can be read, the content.
digest hash_file(const fs::path& file) {
  digest hash = hash_bytes(file.string());
  std::ifstream in(file, std::ios::binary);
  char buffer[16384];
  while (in) {
    in.read(buffer, sizeof buffer);
    hash = hash_bytes({buffer, static_cast<std::size_t>(in.gcount())}, hash);
  }
  return hash;
}

digests hash_in_a_loop(const std::vector<fs::path>& files) {
  digests found;
  for (const fs::path& file : files) found.push_back(hash_file(file));
  return found;
}

digests results_of(std::vector<std::future<digest>> futures) {
  digests found;
  for (std::future<digest>& future : futures) found.push_back(future.get());
  return found;
}

// [std_async]
digests hash_with_std_async(const std::vector<fs::path>& files) {
  std::vector<std::future<digest>> futures;
  for (const fs::path& file : files) futures.push_back(std::async(hash_file, file));
  return results_of(std::move(futures));
}
// [/std_async]

// [async_async]
digests hash_with_async_async(const std::vector<fs::path>& files) {
  std::vector<std::future<digest>> futures;
  for (const fs::path& file : files) futures.push_back(async::async(hash_file, file));
  return results_of(std::move(futures));
}
// [/async_async]

/// The regular files below a folder. Links are not followed and what may not be entered is left out.
std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied)) {
    if (!entry.is_symlink() && entry.is_regular_file()) files.push_back(entry.path());
  }
  return files;
}

/// Milliseconds; infinitely many where the system does not have a thread for each call.
double time_of(digests (*hash)(const std::vector<fs::path>&), const std::vector<fs::path>& files,
               const digests& expected) try {
  const auto start = std::chrono::steady_clock::now();
  const digests found = hash(files);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  if (found == expected) return took.count();
  std::puts("The digests differ: files have changed meanwhile, or there is a defect.");
  std::exit(1);
} catch (const std::system_error& error) {
  std::puts(error.what());
  return HUGE_VAL;
}

}  // namespace

int main(int argc, char** argv) try {
  const fs::path folder = argc > 1 ? argv[1] : "/usr/include";
  int rounds = argc > 2 ? std::atoi(argv[2]) : 3;
  if (argc > 3 || rounds < 1) return std::fputs("usage: hash_tree [FOLDER [ROUNDS]]\n", stderr), 2;
  const std::vector<fs::path> files = files_below(folder);
  if (files.empty()) return std::fprintf(stderr, "hash_tree: no files below %s\n", folder.string().c_str()), 1;
  const digests expected = hash_in_a_loop(files);  // also has the files read from the disk, which is not compared
  double loop = HUGE_VAL, with_std = HUGE_VAL, with_async = HUGE_VAL;
  for (; rounds > 0; --rounds) {
    loop = (std::min)(loop, time_of(hash_in_a_loop, files, expected));
    with_std = (std::min)(with_std, time_of(hash_with_std_async, files, expected));
    with_async = (std::min)(with_async, time_of(hash_with_async_async, files, expected));
  }
  std::printf("%zu files of %s, the best time of each way to hash them:\n", files.size(), folder.string().c_str());
  std::printf("  a loop        %9.1f ms\n  std::async    %9.1f ms\n", loop, with_std);
  std::printf("  async::async  %9.1f ms on %zu threads\n", with_async, async::threadpool::shared().size());
  std::printf("async::async is %.1f times as fast as std::async.\n", with_std / with_async);
  return with_async < HUGE_VAL ? 0 : 1;
} catch (const fs::filesystem_error& error) {  // no such folder
  std::fprintf(stderr, "hash_tree: %s\n", error.what());
  return 1;
}
