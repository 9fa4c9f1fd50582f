// SPDX-License-Identifier: BSL-1.0
//
// What no example instantiates; see clang_warnings.py.
#include <memory>
#include <string>
#include <vector>

#include "async/async.hpp"
#include "async/trace.hpp"
#include "steps/interop/coroutine.hpp"
#include "steps/interop/futoin.hpp"
#include "steps/interop/stop_token.hpp"
#include "steps/interop/when_all.hpp"
#include "steps/steps.hpp"

using text = std::unique_ptr<std::string>;
template class async::queue<int>;
template class async::queue<text>;
template class async::bounded_queue<text>;
template class async::future<text>;
template class async::shared_future<std::string>;
template class async::promise<void>;
template class steps::NitroSteps<>;

int main() {
  async::threadpool pool(1);
  std::vector<async::future<int>> both;
  both.push_back(pool.post(async::priority::low, [] { return 1; }));
  both.push_back(pool.post([] { return async::async([] { return 2; }).get(); }));
  return async::when_all(std::move(both)).get().size() == 2 ? 0 : 1;
}
