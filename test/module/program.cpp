// SPDX-License-Identifier: BSL-1.0
//
// A program and a shared library that use asyncsteps, and each the other's pools, loops, futures and flows.
//
//   program                    is linked with the library
//   program shared LIBRARY     loads it; both share what is one per process
//   program separate LIBRARY   loads it, and exports nothing: each has its own
//   program unload LIBRARY     loads it, uses it, unloads it, twice
//   program pending LIBRARY    closes it while its tasks run; it is linked with -z nodelete
//   program filtered LIBRARY   loads it where a filter of Linux has forbidden membarrier(), which the program uses
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "module/module.hpp"

#if defined(_WIN32)
extern "C" {
__declspec(dllimport) void* __stdcall LoadLibraryA(const char*);
__declspec(dllimport) int __stdcall FreeLibrary(void*);
__declspec(dllimport) void (*__stdcall GetProcAddress(void*, const char*))();
}
#else
#include <dlfcn.h>
#endif
#if defined(__linux__)
#include "support/child.hpp"
#include "support/membarrier_filter.hpp"
#endif

/// Set by linked.cpp in the programs that it belongs to.
extern module_entry linked_module;
module_entry linked_module = nullptr;

namespace {

std::atomic<const char*> current{""};
int checks = 0;
int failed = 0;

void take_note(const char* name, bool ok) {
  current = name;
  if (ok) {
    ++checks;
  } else {
    ++failed;
    std::printf("failed: %s\n", name);
  }
}

/// Ends the program when a check does not return.
void watch() {
  std::thread([] {
    std::this_thread::sleep_for(100s);
    std::printf("failed: %s has not returned\n", current.load());
    std::fflush(stdout);
    std::_Exit(1);
  }).detach();
}

/// A loaded library.
class library {
 public:
  explicit library(const char* path) {
#if defined(_WIN32)
    handle_ = LoadLibraryA(path);
    if (handle_ != nullptr) entry_ = reinterpret_cast<module_entry>(GetProcAddress(handle_, "asyncsteps_test_module"));
#else
    handle_ = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) {
      void* const symbol = dlsym(handle_, "asyncsteps_test_module");
      std::memcpy(&entry_, &symbol, sizeof entry_);
    }
#endif
    if (entry_ != nullptr) return;
    std::printf("failed: to load %s\n", path);
    std::exit(1);
  }
  library(const library&) = delete;
  library& operator=(const library&) = delete;
  const module_test::calls& calls() const { return *entry_(&take_note); }
  void unload() {
#if defined(_WIN32)
    FreeLibrary(handle_);
#else
    dlclose(handle_);
#endif
  }

 private:
  void* handle_ = nullptr;
  module_entry entry_ = nullptr;
};

void check_both(const module_test::calls& other) {
  other.check(own_calls);
  check_all(other);
}
void check_shared_pools(const module_test::calls& other) {
  check_shared(other);
  other.check_shared(own_calls);
}

/// The program's light fences cost nothing. So the library's heavy ones must end the program.
void check_filtered([[maybe_unused]] const char* path) {
#if defined(__linux__)
  if (!testing::can_forbid_membarrier()) return;
  const testing::ending e = testing::in_child([path] {
    if (!testing::forbid_membarrier(testing::every_command)) ::_exit(1);
    library(path).calls().heavy_fence();
  });
  check("a heavy fence under a filter that the library came after",
        [&e] { return e.aborted() && e.error.find("membarrier has worked and fails now") != std::string::npos; });
#endif
}

}  // namespace

int main(int argc, char** argv) {
  noted = &take_note;
  const std::string_view how = argc == 3 ? argv[1] : "";
  if (how == "filtered") check_filtered(argv[2]);  // while there is one thread
  watch();
  if (linked_module != nullptr) {
    check_shared_pools(*linked_module(&take_note));
    check_both(*linked_module(&take_note));
  } else if (how == "shared") {
    const library loaded(argv[2]);
    check_shared_pools(loaded.calls());
    check_both(loaded.calls());
  } else if (how == "separate") {
    const library loaded(argv[2]);
    loaded.calls().check_separate(own_calls);
    check_separate(loaded.calls());
  } else if (how == "unload") {
    threadpool pool(2);
    for (int i = 0; i != 2; ++i) {
      library loaded(argv[2]);
      threadpool other(2);
      loaded.calls().use(other);
      check_both(loaded.calls());
      other.stop();  // now no thread is in the library's code
      loaded.unload();
      use(pool);
    }
  } else if (how == "pending") {
    library loaded(argv[2]);
    threadpool pool(2);
    future<std::string> task = loaded.calls().answer(*loaded.calls().shared());
    AsyncSteps flow{pool};
    loaded.calls().add_timeout(flow);
    future<void> end = flow.promise();
    loaded.unload();
    check("a task whose library has been closed", [&] { return task.get() == "forty-two"; });
    check("a flow whose library has been closed", [&] {
      try {
        end.get();
      } catch (const steps::Error& e) {
        return e.code() == "Timeout";
      }
      return false;
    });
    check("the shared pool", [] { return answer(threadpool::shared()).get() == "forty-two"; });
  } else if (how != "filtered") {
    std::puts("usage: program shared|separate|unload|pending|filtered LIBRARY");
    return 1;
  }
  std::printf("count: %d checks between modules\n", checks);
  return failed == 0 ? 0 : 1;
}
