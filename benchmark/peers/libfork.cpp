// SPDX-License-Identifier: BSL-1.0
//
// libfork: fork and join by coroutines. sync_wait() moves the first call to a worker, so a call from inside and one
// from outside are the same. There is no Debian package; measured when find_package() finds an installation.
#include <libfork.hpp>  // for task, fork, call, join, lazy_pool, sync_wait

#include <cstddef>  // for size_t
#include <cstdint>  // for uint64_t

#include "../support/fork_workloads.hpp"  // for add_fork_join

namespace {

constexpr auto fibonacci = [](auto self, unsigned n) -> lf::task<std::uint64_t> {
  if (n < 2) co_return n;
  std::uint64_t a = 0, b = 0;
  co_await lf::fork(&a, self)(n - 1);
  co_await lf::call(&b, self)(n - 2);
  co_await lf::join;
  co_return a + b;
};

class adapter {
 public:
  explicit adapter(std::size_t workers) : pool_(workers) {}
  std::uint64_t fibonacci(unsigned n) { return lf::sync_wait(pool_, ::fibonacci, n); }

 private:
  lf::lazy_pool pool_;  // its idle workers sleep
};

const bench::enroll contestants("libfork", LIBFORK_VERSION,
                                [](bench::plan& plan) { bench::add_fork_join<adapter>(plan, "libfork", 42); });

}  // namespace
