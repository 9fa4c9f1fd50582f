// SPDX-License-Identifier: BSL-1.0
//! tokio: the shares of the workers, and the lateness of timers and wake-ups beside tasks that block. The counterpart of
//! support/scheduling_workloads.hpp and support/lateness_workloads.hpp.
use crate::flows::pool;
use crate::harness::{Plan, Sample};
use crate::machine::work_for;
use crate::tally::{self, Tally};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::oneshot;
use tokio::task::{yield_now, JoinHandle};

fn milliseconds_of(each: Duration) -> f64 {
    each.as_nanos() as f64 * 1e-6
}

// --- spread ----------------------------------------------------------------------------------------------------------

const STEPS: usize = 5;
const BRANCHES: usize = 20; // of the outer burst when nested
const FIRST_WAIT: Duration = Duration::from_millis(3);

#[derive(Clone, Copy)]
enum Burst {
    Outside,
    Inside,
    Parallel,
    Nested,
}

#[derive(Clone, Copy)]
struct Flow {
    microseconds: usize,
    waits: bool,
}

impl Flow {
    async fn run(self) {
        if self.waits {
            tokio::time::sleep(FIRST_WAIT).await;
        }
        for i in 0..STEPS {
            if i != 0 {
                yield_now().await;
            }
            work_for(self.microseconds);
            tally::count();
        }
    }
}

/// Starts the tasks from inside a task, and waits for them.
async fn branches(flows: usize, flow: Flow) {
    let all: Vec<_> = (0..flows).map(|_| tokio::spawn(flow.run())).collect();
    for each in all {
        each.await.expect("a task panicked");
    }
}

fn start(from: &Handle, how: Burst, flows: usize, flow: Flow) {
    match how {
        Burst::Outside => (0..flows).for_each(|_| drop(from.spawn(flow.run()))),
        Burst::Inside => drop(from.spawn(async move { (0..flows).for_each(|_| drop(tokio::spawn(flow.run()))) })),
        Burst::Parallel => drop(from.spawn(branches(flows, flow))),
        Burst::Nested => drop(from.spawn(async move {
            let all: Vec<_> = (0..BRANCHES).map(|_| tokio::spawn(branches(flows / BRANCHES, flow))).collect();
            for each in all {
                each.await.expect("a task panicked");
            }
        })),
    }
}

fn spread(how: Burst, workers: usize, waits: bool, flows: usize) -> Sample {
    work_for(1); // calibrates itself in the first call
    let pool = pool(workers);
    let steps = (flows * STEPS) as u64;
    let ran = Tally::start();
    let begin = Instant::now();
    start(pool.handle(), how, flows, Flow { microseconds: 100_000 / flows, waits });
    let mut sample = Sample { defect: ran.wait_for(steps, Duration::from_millis(1)), ..Default::default() };
    sample.figures.insert("ms", milliseconds_of(begin.elapsed()));
    sample.figures.insert("value", (ran.busiest() * workers as u64) as f64 / steps as f64);
    sample
}

// --- disturbed -------------------------------------------------------------------------------------------------------

const TIMERS: usize = 32;
const WORKERS: usize = 4;
const WAITING: usize = 64;
const BEAT: Duration = Duration::from_millis(3);
const BLOCKED: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, PartialEq)]
enum Disturbance {
    Nothing,
    Task,
    Step,
}

/// The 99th percentile as the figure, the median and the maximum as notes.
fn lateness(mut milliseconds: Vec<f64>) -> Sample {
    let mut sample = Sample::default().checked(!milliseconds.is_empty(), || "no timer came due".into());
    milliseconds.sort_by(f64::total_cmp);
    let count = milliseconds.len();
    if count != 0 {
        sample.figures.insert("value", milliseconds[count - 1 - count / 100]);
        sample.figures.insert("median", milliseconds[count / 2]);
        sample.figures.insert("max", milliseconds[count - 1]);
    }
    sample
}

/// A timer of 3 ms that one task has waited for.
struct Timer {
    due: Instant,
    seen: Instant,
}

async fn timer_loop(stop: Arc<AtomicBool>, expected: usize) -> Vec<Timer> {
    let mut log = Vec::with_capacity(expected);
    while !stop.load(Ordering::Relaxed) {
        let due = Instant::now() + BEAT;
        tokio::time::sleep(BEAT).await;
        log.push(Timer { due, seen: Instant::now() });
    }
    log
}

async fn blocking_loop(stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(BLOCKED);
        yield_now().await;
    }
}

/// Tasks that block a worker each, and begin to block together. Returns once all block, with the moment when all had
/// begun.
fn blocking_tasks(
    pool: &Runtime,
    count: u32,
    shortest: Duration,
    more: Duration,
) -> (Vec<JoinHandle<()>>, Instant) {
    let begin = Arc::new(Barrier::new(count as usize + 1));
    let task = |i| {
        let begin = begin.clone();
        pool.spawn(async move {
            begin.wait();
            thread::sleep(shortest + more * i);
        })
    };
    let all = (0..count).map(task).collect();
    begin.wait();
    let begun = Instant::now();
    thread::sleep(shortest / 10);
    (all, begun)
}

fn wait_for_all(pool: &Runtime, tasks: Vec<JoinHandle<()>>) {
    tasks.into_iter().for_each(|each| pool.block_on(each).expect("a task panicked"));
}

/// Tasks that wait for a timer again and again, beside what disturbs them. Returns their logs, and the moments that
/// `disturb` returns.
fn timer_logs<T>(milliseconds: usize, disturb: impl FnOnce(&Runtime, Instant) -> T) -> (Vec<Vec<Timer>>, T) {
    let pool = pool(WORKERS);
    let stop = Arc::new(AtomicBool::new(false));
    let loops: Vec<_> = (0..TIMERS).map(|_| pool.spawn(timer_loop(stop.clone(), milliseconds / 2))).collect();
    let disturbed = disturb(&pool, Instant::now() + Duration::from_millis(milliseconds as u64));
    stop.store(true, Ordering::Relaxed);
    (loops.into_iter().map(|each| pool.block_on(each).expect("a task panicked")).collect(), disturbed)
}

fn timers(by: Disturbance, milliseconds: usize) -> Sample {
    let (logs, ()) = timer_logs(milliseconds, |pool, end| {
        let stop = Arc::new(AtomicBool::new(false));
        let blocking = (by == Disturbance::Step).then(|| pool.spawn(blocking_loop(stop.clone())));
        if by != Disturbance::Task {
            thread::sleep(end - Instant::now());
        }
        while Instant::now() < end {
            wait_for_all(pool, blocking_tasks(pool, 1, BLOCKED, Duration::ZERO).0); // one task at a time
        }
        stop.store(true, Ordering::Relaxed);
        if let Some(blocking) = blocking {
            pool.block_on(blocking).expect("a task panicked");
        }
    });
    let late = |timer: &Timer| milliseconds_of(timer.seen.saturating_duration_since(timer.due));
    lateness(logs.iter().flatten().map(late).collect())
}

/// The same while all workers are in tasks, again and again. Counts the timer that each task waits for when all of these
/// have begun.
fn timers_all_busy(milliseconds: usize) -> Sample {
    let (logs, moments) = timer_logs(milliseconds, |pool, end| {
        let mut moments = Vec::new();
        while Instant::now() < end {
            let (tasks, begun) = blocking_tasks(pool, WORKERS as u32, BLOCKED, BLOCKED / 10);
            wait_for_all(pool, tasks);
            moments.push(begun);
        }
        moments
    });
    let mut late = Vec::new();
    for log in &logs {
        for begun in &moments {
            if let Some(timer) = log.iter().find(|each| each.seen >= *begun) {
                late.push(milliseconds_of(timer.seen.saturating_duration_since(timer.due)));
            }
        }
    }
    lateness(late)
}

/// Workers that are not free: all but one in tasks of 300 ms, or in tasks that block 100 ms again and again; or all of
/// them in tasks of 100 ms.
#[derive(Clone, Copy, PartialEq)]
enum Occupied {
    ByTasks,
    BySteps,
    All,
}

/// Completions from outside for 64 tasks.
fn completions(how: Occupied, rounds: usize) -> Sample {
    let mut late = Vec::new();
    for _ in 0..rounds {
        let pool = pool(WORKERS);
        let (waiting, all_wait) = mpsc::channel();
        let (given, tasks): (Vec<_>, Vec<_>) = (0..WAITING)
            .map(|_| {
                let (give, wait) = oneshot::channel::<Instant>();
                let waiting = waiting.clone();
                let task = pool.spawn(async move {
                    let _ = waiting.send(());
                    wait.await.map(|given| (given, Instant::now()))
                });
                (give, task)
            })
            .unzip();
        (0..WAITING).for_each(|_| all_wait.recv().expect("a task has ended"));
        let give = |pause| {
            for each in given {
                thread::sleep(pause);
                let _ = each.send(Instant::now());
            }
        };
        if how == Occupied::BySteps {
            let stop = Arc::new(AtomicBool::new(false));
            let blocking: Vec<_> = (1..WORKERS).map(|_| pool.spawn(blocking_loop(stop.clone()))).collect();
            thread::sleep(BLOCKED / 5);
            give(BEAT); // in 192 ms, so that each of these tasks is resumed once or twice
            stop.store(true, Ordering::Relaxed);
            wait_for_all(&pool, blocking);
        } else {
            let (blocking, _) = if how == Occupied::All {
                blocking_tasks(&pool, WORKERS as u32, BLOCKED, BLOCKED / 10)
            } else {
                blocking_tasks(&pool, WORKERS as u32 - 1, 3 * BLOCKED, Duration::ZERO)
            };
            give(Duration::ZERO);
            wait_for_all(&pool, blocking);
        }
        for each in tasks {
            let (given, seen) = pool.block_on(each).expect("a task panicked").expect("a wait was not ended");
            late.push(milliseconds_of(seen.saturating_duration_since(given)));
        }
    }
    lateness(late)
}

// --- workloads -------------------------------------------------------------------------------------------------------

const CASES: [(Burst, &str); 4] =
    [(Burst::Outside, "outside"), (Burst::Inside, "inside"), (Burst::Parallel, "parallel"), (Burst::Nested, "nested")];

pub fn add(plan: &mut Plan) {
    const NAME: &str = "tokio (Rust)";
    for (waits, family) in [(false, "spread"), (true, "spread-wait")] {
        for (how, case) in CASES {
            for workers in [2, 4] {
                for flows in [200, 2_000, 20_000] {
                    let workload = format!("{family}/{case} on {workers} {flows}");
                    plan.add(&workload, NAME, 1, move |_| spread(how, workers, waits, flows));
                    plan.last().only_whole = true;
                }
            }
        }
    }
    let milliseconds = plan.size(3_000, 1_500);
    for (by, case) in [(Disturbance::Nothing, "nothing"), (Disturbance::Task, "task"), (Disturbance::Step, "step")] {
        plan.add(&format!("disturbed/{case}"), NAME, milliseconds, move |milliseconds| timers(by, milliseconds));
        plan.last().only_whole = true;
    }
    plan.add("disturbed/all busy", NAME, milliseconds, timers_all_busy);
    plan.last().only_whole = true;
    for (how, case) in [(Occupied::ByTasks, ""), (Occupied::BySteps, " step"), (Occupied::All, " all busy")] {
        let workload = format!("disturbed/completions{case}");
        plan.add(&workload, NAME, plan.size(8, 3), move |rounds| completions(how, rounds));
        plan.last().only_whole = true;
    }
}
