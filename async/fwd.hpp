// SPDX-License-Identifier: BSL-1.0
#pragma once

/// Declares the classes of async/ that other headers name by pointer or reference. Include it where a header needs no
/// more, since the namespace async has a version inside, which declarations of your own would miss.
namespace async::inline v0_1 {

class blocking_pool;
class blocking_section;
class event;
class event_loop;
class future_group;
class manual_clock;
class task;
class task_group;
class threadpool;
struct blocking_pool_options;
struct bounded_queue_traits;
struct queue_traits;
struct threadpool_options;
template <class T, class Traits = bounded_queue_traits>
class bounded_queue;
template <class T>
class future;
template <class T>
class promise;
template <class T, class Traits = queue_traits>
class queue;
template <class T>
class shared_future;

}  // namespace async::inline v0_1
