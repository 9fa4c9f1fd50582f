// SPDX-License-Identifier: BSL-1.0
//! tokio: tasks on a multi-threaded runtime, and on two runtimes of one thread each; rayon: scopes.
use crate::harness::{Plan, Sample};
use crate::tally::{self, Tally};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{mpsc, oneshot, Notify};
use tokio::task::JoinHandle;

pub fn pool(workers: usize) -> Runtime {
    let made = Builder::new_multi_thread().worker_threads(workers).enable_time().build();
    made.expect("cannot start a runtime")
}

/// A runtime of one thread, which this object starts and ends.
struct Loop {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Loop {
    fn start() -> Loop {
        let runtime = Builder::new_current_thread().enable_time().build().expect("cannot start a runtime");
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || runtime.block_on(async { stopped.await.unwrap_or(()) }));
        Loop { handle, stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Where the two tasks of each pair run.
#[derive(Clone, Copy)]
enum Place {
    Loops,
    Pool,
}

/// Calls measure(left, right) with the handles of that place.
fn at(place: Place, measure: impl Fn(&Handle, &Handle) -> Sample) -> Sample {
    match place {
        Place::Loops => {
            let (left, right) = (Loop::start(), Loop::start());
            measure(&left.handle, &right.handle)
        }
        Place::Pool => {
            let pool = pool(2);
            measure(pool.handle(), pool.handle())
        }
    }
}

/// `trips` round trips, shared among `pairs` pairs: took(n) makes n by each pair.
fn measure_round_trips(pairs: usize, trips: usize, took: impl Fn(u64) -> Sample) -> Sample {
    took((trips / pairs / 4 + 1) as u64);
    let mut sample = took((trips / pairs) as u64);
    if pairs == 1 {
        sample.figures.insert("half", sample.time.as_nanos() as f64 / trips as f64 / 2.0);
    }
    sample
}

/// The sum of what the tasks return.
fn sum_of(tasks: Vec<JoinHandle<u64>>, from: &Handle) -> u64 {
    from.block_on(async {
        let mut sum = 0;
        for task in tasks {
            sum += task.await.expect("a task panicked");
        }
        sum
    })
}

/// Each pair sends numbers to and fro through two channels of capacity 1.
fn channels(left: &Handle, right: &Handle, pairs: usize, trips: usize) -> Sample {
    measure_round_trips(pairs, trips, |each| {
        let all: Vec<_> = (0..pairs).map(|_| (mpsc::channel::<u64>(1), mpsc::channel::<u64>(1))).collect();
        let begin = Instant::now();
        let mut tasks = Vec::new();
        for ((there, mut arrivals), (back, mut replies)) in all {
            tasks.push(left.spawn(async move {
                let mut right = 0;
                for i in 1..=each {
                    let _ = there.send(i).await;
                    right += u64::from(replies.recv().await == Some(i));
                }
                right
            }));
            right.spawn(async move {
                while let Some(i) = arrivals.recv().await {
                    let _ = back.send(i).await;
                }
            });
        }
        let done = sum_of(tasks, left);
        Sample::finished(begin.elapsed(), done, each * pairs as u64)
    })
}

#[derive(Default)]
struct Waits {
    left: Notify,
    right: Notify,
    turn: AtomicU64,
}

/// The tasks of each pair end each other's waits. Each notes its turn, and checks that it is its own.
fn notifications(left: &Handle, right: &Handle, pairs: usize, trips: usize) -> Sample {
    measure_round_trips(pairs, trips, |each| {
        let all: Vec<_> = (0..pairs).map(|_| Arc::new(Waits::default())).collect();
        let begin = Instant::now();
        let mut tasks = Vec::new();
        for waits in all {
            let mine = waits.clone();
            tasks.push(left.spawn(async move {
                let mut done = 0;
                for _ in 0..each {
                    mine.right.notify_one();
                    mine.left.notified().await;
                    done += mine.turn.fetch_add(1, Ordering::Relaxed) % 2;
                }
                done
            }));
            right.spawn(async move {
                for _ in 0..each {
                    waits.right.notified().await;
                    waits.turn.fetch_add(1, Ordering::Relaxed);
                    waits.left.notify_one();
                }
            });
        }
        let done = sum_of(tasks, left);
        Sample::finished(begin.elapsed(), done, each * pairs as u64)
    })
}

/// Runs `body` as a task and waits until it ends.
fn inside<T: Send + 'static>(pool: &Runtime, body: impl std::future::Future<Output = T> + Send + 'static) -> T {
    pool.block_on(pool.spawn(body)).expect("a task panicked")
}

async fn fork_and_join(branches: usize, groups: usize) -> Duration {
    let begin = Instant::now();
    let mut all = Vec::with_capacity(branches);
    for _ in 0..groups {
        all.extend((0..branches).map(|_| tokio::spawn(async { tally::count() })));
        for each in all.drain(..) {
            each.await.expect("a task panicked");
        }
    }
    begin.elapsed()
}

/// Calls run(count), which forks and joins `branches` branches `count` times.
fn measure_fan_out(branches: usize, groups: usize, run: impl Fn(usize) -> Duration) -> Sample {
    run(groups / 4);
    let ran = Tally::start();
    let time = run(groups);
    Sample::finished(time, ran.so_far(), (branches * groups) as u64)
}

fn fan_out_of_tokio(branches: usize, groups: usize) -> Sample {
    let pool = pool(2);
    measure_fan_out(branches, groups, |count| inside(&pool, fork_and_join(branches, count)))
}

fn fan_out_of_rayon(branches: usize, groups: usize) -> Sample {
    let pool = crate::pool::pool(2);
    measure_fan_out(branches, groups, |count| {
        pool.install(|| {
            let begin = Instant::now();
            for _ in 0..count {
                rayon::scope(|scope| (0..branches).for_each(|_| scope.spawn(|_| tally::count())));
            }
            begin.elapsed()
        })
    })
}

/// Spawns tasks that return a number, and awaits every one, batch after batch.
async fn batches(spawner: Handle, batch: usize, count: usize) -> (Duration, u64) {
    let mut all = Vec::with_capacity(batch);
    let mut sum = 0;
    let begin = Instant::now();
    for _ in 0..count {
        all.extend((0..batch as u64).map(|i| spawner.spawn(async move { i })));
        for each in all.drain(..) {
            sum += each.await.expect("a task panicked");
        }
    }
    (begin.elapsed(), sum)
}

fn futures(batch: usize, items: usize, from_inside: bool) -> Sample {
    let pool = pool(2);
    let run = |count| {
        let work = batches(pool.handle().clone(), batch, count);
        if from_inside {
            inside(&pool, work)
        } else {
            pool.block_on(work)
        }
    };
    run(items / batch / 4);
    let (time, sum) = run(items / batch);
    let expected = (items / batch * (batch * (batch - 1) / 2)) as u64;
    Sample::of(time).checked(sum == expected, || "a future held a wrong value".into())
}

/// From the call that spawns a task for an idle runtime until its result has woken the caller, in microseconds.
pub fn latency(idle: Duration, items: usize) -> Sample {
    let pool = pool(4);
    let mut delays = Vec::new();
    let mut wrong = 0;
    for i in 0..items + items / 10 {
        thread::sleep(idle);
        let start = Instant::now();
        let value = pool.block_on(pool.spawn(async move { i })).expect("a task panicked");
        let delay = start.elapsed();
        wrong += usize::from(value != i);
        if i >= items / 10 {
            delays.push(delay.as_nanos() as f64 * 1e-3);
        }
    }
    Sample::default().with_quantiles(delays).checked(wrong == 0, || "a future held a wrong value".into())
}

pub fn add(plan: &mut Plan) {
    for (pairs, suffix) in [(1, ""), (64, " x64")] {
        let trips = if pairs == 1 { plan.size(200_000, 50_000) } else { plan.size(640_000, 128_000) };
        for (place, name) in [(Place::Loops, "flows/round trip"), (Place::Pool, "flows/round trip pool")] {
            let workload = format!("{name}{suffix}");
            plan.add(&workload, "tokio Notify (Rust)", trips, move |trips| {
                at(place, |left, right| notifications(left, right, pairs, trips))
            });
            plan.last().probes_line = true;
            plan.add(&workload, "tokio mpsc (Rust)", trips, move |trips| {
                at(place, |left, right| channels(left, right, pairs, trips))
            });
            plan.last().probes_line = true;
        }
    }
    for branches in [8, 64, 1_000] {
        let workload = format!("flows/fan-out {branches}");
        let groups = plan.sized(200 * branches, 1_000_000);
        plan.add(&workload, "tokio (Rust)", groups, move |groups| fan_out_of_tokio(branches, groups));
        plan.add(&workload, "rayon (Rust)", groups, move |groups| fan_out_of_rayon(branches, groups));
    }
    for (name, batch, from_inside) in [("outside", 21_000, false), ("inside", 1_000, true)] {
        let items = (plan.sized(300, 1_000_000) / batch).max(1) * batch;
        plan.add(&format!("flows/future {name}"), "tokio (Rust)", items, move |items| {
            futures(batch, items, from_inside)
        });
    }
    plan.add("flows/latency 50 us", "tokio (Rust)", plan.size(2_000, 1_000), |items| {
        latency(Duration::from_micros(50), items)
    });
}
