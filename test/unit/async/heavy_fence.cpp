// SPDX-License-Identifier: BSL-1.0
//
// The heavy fence when a filter that the program installs late forbids the system call membarrier.
#include <doctest/doctest.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <string>

#include "async/detail/base/platform.hpp"
#include "async/threadpool.hpp"
#include "support/child.hpp"
#include "support/membarrier_filter.hpp"

using async::detail::heavy_fence;
using testing::can_forbid_membarrier;
using testing::ending;
using testing::every_command;
using testing::forbid_membarrier;
using testing::in_child;

namespace {

bool system_has(int command) { return ::syscall(SYS_membarrier, command, 0, 0) == 0; }

}  // namespace

TEST_CASE("a filter that comes late and forbids membarrier ends the program with a message") {
  if (!can_forbid_membarrier()) return;
  const ending e = in_child([] {
    heavy_fence();
    if (!forbid_membarrier(every_command)) ::_exit(1);
    heavy_fence();
  });
  CHECK(e.aborted());
  CHECK(e.error.find("membarrier has worked and fails now (Operation not permitted)") != std::string::npos);
  CHECK(e.error.find("-DASYNCSTEPS_REMOTE_FENCE=0") != std::string::npos);
}

TEST_CASE("a pool does not lose wake-ups silently under such a filter") {
  if (!can_forbid_membarrier()) return;
  const ending e = in_child([] {
    async::threadpool pool(1);
    pool.post([] {}).get();
    if (!forbid_membarrier(every_command)) ::_exit(1);
    async::threadpool late(1);  // its worker is under the filter, the other pool's is not
    for (int i = 0; i < 1'000; ++i) late.post([] {}).get();
  });
  CHECK(e.aborted());
  CHECK(e.error.find("membarrier has worked and fails now") != std::string::npos);
}

TEST_CASE("the system-wide command takes the place of one that is forbidden") {
  if (!can_forbid_membarrier()) return;
  if (!system_has(MEMBARRIER_CMD_GLOBAL)) {
    std::printf("not tested: the system has no system-wide membarrier\n");
    return;
  }
  const ending e = in_child([] {
    if (!forbid_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) ::_exit(1);
    for (int i = 0; i < 3; ++i) heavy_fence();
    async::threadpool pool(1);
    ::_exit(pool.post([] { return 4; }).get());
  });
  CHECK(e.error == "");
  CHECK(e.exit_code == 4);
}

TEST_CASE("under a filter that was there before the program, both fences are full ones") {
  if (!can_forbid_membarrier()) return;
  const ending e = in_child([] {
    using namespace async::detail::platform;
    if (!forbid_membarrier(every_command)) ::_exit(1);
    fence_state.store(fence_kind::unknown, std::memory_order_relaxed);  // as when the program starts
    if (async::detail::light_fence_is_free()) ::_exit(2);
    heavy_fence();
    async::threadpool pool(1);
    ::_exit(pool.post([] { return 4; }).get());
  });
  CHECK(e.error == "");
  CHECK(e.exit_code == 4);
}
