// SPDX-License-Identifier: BSL-1.0
#pragma once
#include <cstdint>  // for uint8_t

namespace async::inline v0_1 {

/// The priority of a task or flow of a threadpool: pool.execute(async::priority::high, f),
/// steps::post(pool, async::priority::low, body).
///
/// Use `high` for short work that others wait for, such as answers to a user. Use `low` for work in the background,
/// such as cleaning up. Do not use it to order tasks, nor for deadlines: a task that runs is never interrupted.
///
/// Order       a worker that looks for its next task takes a high one first, and a low one when it finds nothing else.
///             Tasks of one of these two priorities start in the order of their posts, also when tasks post them.
/// Flows       a flow starts at its priority, and so does each of its turns: when it goes on after a wait or
///             relinquish(). Its branches have its priority, too. Flows and tasks of one priority take turns. Callbacks
///             and flows of loop(i) are of normal priority.
/// Starvation  none. After 16 high tasks and turns in a row a worker runs another one, if there is one. A low one waits
///             for at most 61 others on each worker.
/// Waits       a thread that waits in a task runs what it waits for, whatever priority that has; see threadpool.
/// Groups      tasks of task_groups, loops and parallel_invoke() have no priority: they are parts of the task that
///             waits for them.
/// Cost        none before the first task or flow of high or low priority. From then on the workers of that pool look
///             for these before each other task, which takes some 300 instructions for a task that a task has posted.
enum class priority : std::uint8_t {
  high,    ///< before the others
  normal,  ///< as without a priority
  low,     ///< when there is nothing else to do
};

}  // namespace async::inline v0_1
