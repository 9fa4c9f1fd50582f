// SPDX-License-Identifier: BSL-1.0
//
// Hashes every file below a folder, each file as a call of its own: in a loop, with std::async and with async::async.
// Prints how long each took, and fails unless all three found the same digest.
//
//   hash_tree [--rounds N] [FOLDER]      the folder of the system's headers unless another is named
//
// args: --rounds 1 @source@/async
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "async/async.hpp"

namespace fs = std::filesystem;

namespace {

/// FNV-1a, 64 bits: quick enough that most of the work is what the system does for each file.
std::uint64_t hash_bytes(std::string_view bytes, std::uint64_t hash = 0xcbf29ce484222325) {
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}

struct digest {
  std::uint64_t hash = 0;
  std::uint64_t bytes = 0;
  bool readable = false;
  bool operator==(const digest&) const = default;
};

/// Of the name and the content. A file that cannot be read is reported by its name alone.
digest hash_file(const fs::path& file) {
  digest result{hash_bytes(file.string()), 0, false};
  std::ifstream in(file, std::ios::binary);
  char buffer[16384];
  while (in) {
    in.read(buffer, sizeof buffer);
    const auto count = static_cast<std::size_t>(in.gcount());
    result.hash = hash_bytes({buffer, count}, result.hash);
    result.bytes += count;
  }
  result.readable = in.eof();
  return result;
}

using digests = std::vector<digest>;

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

/// The regular files below a folder in the order of their names. Links are not followed and what may not be entered is
/// left out.
std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    std::error_code unknown;
    if (entry->symlink_status(unknown).type() == fs::file_type::regular) files.push_back(entry->path());
  }
  if (error) std::fprintf(stderr, "hash_tree: some files are missing: %s\n", error.message().c_str());
  std::sort(files.begin(), files.end());
  return files;
}

struct run {
  const char* name;
  digests (*hash)(const std::vector<fs::path>&);
  digests found{};
  std::vector<double> milliseconds{};
  std::string problem{};

  /// std::async fails where it cannot have a thread for each call.
  void measure(const std::vector<fs::path>& files) {
    const auto start = std::chrono::steady_clock::now();
    try {
      found = hash(files);
    } catch (const std::system_error& error) {
      problem = error.what();
      return;
    }
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    milliseconds.insert(std::upper_bound(milliseconds.begin(), milliseconds.end(), time.count()), time.count());
  }
  double median() const { return milliseconds[milliseconds.size() / 2]; }
  std::uint64_t digest_of_digests() const {
    std::uint64_t hash_of_all = hash_bytes("");
    for (const digest& one : found) hash_of_all = hash_bytes(std::to_string(one.hash), hash_of_all);
    return hash_of_all;
  }
};

int usage(const char* problem, std::string_view argument) {
  std::fprintf(stderr, "hash_tree: %s: %.*s\nusage: hash_tree [--rounds N] [FOLDER]\n", problem,
               static_cast<int>(argument.size()), argument.data());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  fs::path folder = "/usr/include";
  int rounds = 3;
  bool folder_is_named = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--rounds") {
      const std::string_view number = ++i < argc ? argv[i] : "";
      const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), rounds);
      if (error != std::errc() || end != number.data() + number.size() || rounds < 1) {
        return usage("--rounds needs a number from 1", number);
      }
    } else if (argument.starts_with("--")) {
      return usage("unknown option", argument);
    } else if (std::exchange(folder_is_named, true)) {
      return usage("more than one folder", argument);
    } else {
      folder = argument;
    }
  }
  std::error_code error;
  if (!fs::is_directory(folder, error)) return usage("not a folder", folder.string());

  const std::vector<fs::path> files = files_below(folder);
  run loop{"a loop", &hash_in_a_loop};
  run with_std{"std::async", &hash_with_std_async};
  run with_async{"async::async", &hash_with_async_async};
  loop.measure(files);  // the first to read the files, maybe from the disk: not compared
  loop.milliseconds.clear();
  for (int i = 0; i < rounds; ++i) {
    for (run* r : {&loop, &with_std, &with_async}) r->measure(files);
  }

  std::uint64_t bytes = 0;
  std::size_t unreadable = 0;
  for (const digest& one : loop.found) {
    bytes += one.bytes;
    unreadable += one.readable ? 0 : 1;
  }
  std::printf("%s: %zu files, %.1f MB", folder.string().c_str(), files.size(), static_cast<double>(bytes) * 1e-6);
  if (unreadable != 0) std::printf(", %zu of them cannot be read", unreadable);
  std::printf("; %zu threads\n", async::threadpool::shared().size());
  for (const run* r : {&loop, &with_std, &with_async}) {
    if (!r->problem.empty()) {
      std::printf("  %-14s failed: %s\n", r->name, r->problem.c_str());
      continue;
    }
    std::printf("  %-14s%9.1f ms   digest %016llx\n", r->name, r->median(),
                static_cast<unsigned long long>(r->digest_of_digests()));
  }
  if ((with_std.problem.empty() && with_std.found != loop.found) || with_async.found != loop.found) {
    std::puts("The digests differ: files have changed meanwhile, or there is a defect.");
    return 1;
  }
  if (!files.empty() && with_std.problem.empty()) {
    std::printf("async::async is %.1f times as fast as std::async.\n", with_std.median() / with_async.median());
  }
  return 0;
}
