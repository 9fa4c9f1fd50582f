// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <string>

/// The functions of included.cpp, whose file includes the library's headers. This header includes none of them: the
/// file that includes it has imported the module, included them, or both.
namespace included {

async::future<int> twice_later(async::threadpool& pool, int number);
int get(async::future<int> future);
int sum_of(async::queue<int>& numbers);
async::bounded_queue<std::string>& texts();
async::threadpool& shared_pool();

/// Adds a step whose results are a text and a number.
void add_question(steps::IAsyncSteps& flow);
/// Adds a step that ends with the error "Refused" and its info.
void add_error(steps::IAsyncSteps& flow);
/// Adds a step that waits for its turn.
void add_entry(steps::IAsyncSteps& flow, steps::ISync& object, int& inside);

steps::interop::task<int> sum_in_coroutine(async::threadpool& pool, int a, int b);

/// Throws async::stopped.
void post_to_stopped_pool();
/// Whether the calling thread is in a task of the pool.
bool is_in(const async::threadpool& pool);

/// Takes an error of a flow as an exception, and gives its info.
std::string info_of(async::future<void> end);

}  // namespace included

/// What imported_then_included.cpp finds: 0, or the number of what does not hold.
int find_difference();
