// SPDX-License-Identifier: BSL-1.0
//! tokio: tasks on a runtime of one thread.
use crate::harness::{Plan, Sample};
use crate::machine::resident_bytes;
use std::future::{pending, poll_fn, Future};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::task::{unconstrained, yield_now};
use tokio::time::sleep;

const ALIVE: usize = 30_000;

/// Runs `body` and the tasks that it spawns.
fn on_one_thread<T>(body: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread().enable_time().build().expect("cannot start a runtime");
    runtime.block_on(body)
}

/// The number of things done, by one thread at a time.
#[derive(Clone, Default)]
struct Count(Arc<AtomicU64>);

impl Count {
    fn add(&self) {
        self.0.store(self.get() + 1, Ordering::Relaxed);
    }
    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

async fn create(tasks: usize) -> Sample {
    let done = Count::default();
    let begin = Instant::now();
    for _ in 0..tasks {
        let done = done.clone();
        tokio::spawn(async move { done.add() }).await.expect("a task panicked");
    }
    Sample::finished(begin.elapsed(), done.get(), tasks as u64)
}

async fn give_way(times: usize, done: Count) {
    for _ in 0..times {
        yield_now().await;
        done.add();
    }
}

/// `tasks` tasks that give way `times` times, ALIVE of them alive at a time.
async fn alive(tasks: usize, times: usize) -> Sample {
    let done = Count::default();
    let mut batch = Vec::with_capacity(ALIVE);
    let mut resident = 0;
    let begin = Instant::now();
    for first in (0..tasks).step_by(ALIVE) {
        batch.extend((first..tasks.min(first + ALIVE)).map(|_| tokio::spawn(give_way(times, done.clone()))));
        if resident == 0 {
            resident = resident_bytes();
        }
        for each in batch.drain(..) {
            each.await.expect("a task panicked");
        }
    }
    let mut sample = Sample::finished(begin.elapsed(), done.get(), (tasks * times) as u64);
    sample.figures.insert("resident MB", resident as f64 / 1e6);
    sample
}

/// Tasks that wait for an event from outside.
async fn waiting(tasks: usize) -> Sample {
    let started = Count::default();
    let before = resident_bytes();
    let start = |_| {
        let started = started.clone();
        tokio::spawn(async move {
            started.add();
            pending::<()>().await
        })
    };
    let all: Vec<_> = (0..tasks).map(start).collect();
    for _ in 0..tasks {
        if started.get() == tasks as u64 {
            break;
        }
        yield_now().await;
    }
    let mut sample = Sample::finished(Duration::ZERO, started.get(), all.len() as u64);
    sample.figures.insert("value", (resident_bytes() - before) as f64 / tasks as f64);
    sample
}

/// Timers due within a minute that are all armed at a time and then cancelled, as most timeouts are. A timer is armed
/// when it is polled first.
async fn timers(count: usize) -> Sample {
    let mut armed = Vec::with_capacity(count);
    let begin = Instant::now();
    for i in 0..count {
        let mut timer = Box::pin(sleep(Duration::from_millis(10_000 + (i * 7919 % 50_000) as u64)));
        if poll_fn(|context| Poll::Ready(timer.as_mut().poll(context))).await.is_pending() {
            armed.push(timer);
        }
    }
    yield_now().await;
    let done = armed.iter().filter(|timer| !timer.is_elapsed()).count();
    armed.clear();
    Sample::finished(begin.elapsed(), done as u64, count as u64)
}

pub fn add(plan: &mut Plan) {
    const NAME: &str = "tokio current_thread (Rust)";
    plan.add("steps/create", NAME, plan.size(1_000_000, 200_000), |count| on_one_thread(create(count)));
    plan.add("steps/alive", NAME, plan.size(990_000, 300_000), |count| on_one_thread(alive(count, 1)));
    plan.add("steps/switch", NAME, plan.size(9_990_000, 1_980_000), |count| on_one_thread(alive(ALIVE, count / ALIVE)));
    plan.add("steps/waiting", NAME, 100_000, |count| on_one_thread(waiting(count)));
    plan.last().only_once = true;
    // Without a limit to the polls that a task may make in its turn.
    plan.add("steps/timers", "tokio::time::Sleep (Rust)", plan.size(1_000_000, 200_000), |count| {
        on_one_thread(unconstrained(timers(count)))
    });
}
