// SPDX-License-Identifier: BSL-1.0
//! tokio: the shares of the workers, and the lateness of timers and wake-ups beside tasks that block. The counterpart of
//! support/scheduling_workloads.hpp.
use crate::flows::pool;
use crate::harness::{Plan, Sample};
use crate::machine::work_for;
use crate::tally::{self, Tally};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::yield_now;

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

/// Waits for a timer of 3 ms again and again, and returns how late each was.
async fn timer_loop(stop: Arc<AtomicBool>, expected: usize) -> Vec<f64> {
    let mut late = Vec::with_capacity(expected);
    while !stop.load(Ordering::Relaxed) {
        let armed = Instant::now();
        tokio::time::sleep(BEAT).await;
        late.push(milliseconds_of(armed.elapsed()) - milliseconds_of(BEAT));
    }
    late
}

async fn blocking_loop(stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(BLOCKED);
        yield_now().await;
    }
}

fn timers(by: Disturbance, milliseconds: usize) -> Sample {
    let pool = pool(WORKERS);
    let stop = Arc::new(AtomicBool::new(false));
    let loops: Vec<_> = (0..TIMERS).map(|_| pool.spawn(timer_loop(stop.clone(), milliseconds / 2))).collect();
    let blocking = (by == Disturbance::Step).then(|| pool.spawn(blocking_loop(stop.clone())));
    let end = Instant::now() + Duration::from_millis(milliseconds as u64);
    if by != Disturbance::Task {
        thread::sleep(end - Instant::now());
    }
    while Instant::now() < end {
        // One task at a time.
        let (done, wait) = mpsc::channel();
        pool.spawn(async move {
            thread::sleep(BLOCKED);
            let _ = done.send(());
        });
        let _ = wait.recv();
    }
    stop.store(true, Ordering::Relaxed);
    let mut late = Vec::new();
    pool.block_on(async {
        for each in loops {
            late.extend(each.await.expect("a task panicked"));
        }
        if let Some(blocking) = blocking {
            blocking.await.expect("a task panicked");
        }
    });
    lateness(late)
}

/// Completions from outside for 64 tasks, while three of four workers are inside a task of 300 ms.
fn completions(rounds: usize) -> Sample {
    let mut late = Vec::new();
    for _ in 0..rounds {
        let pool = pool(WORKERS);
        let (waiting, all_wait) = mpsc::channel();
        let (begins, begun) = mpsc::channel();
        let (given, tasks): (Vec<_>, Vec<_>) = (0..WAITING)
            .map(|_| {
                let (give, wait) = oneshot::channel::<Instant>();
                let waiting = waiting.clone();
                let task = pool.spawn(async move {
                    let _ = waiting.send(());
                    wait.await.map(|given| milliseconds_of(given.elapsed()))
                });
                (give, task)
            })
            .unzip();
        (0..WAITING).for_each(|_| all_wait.recv().expect("a task has ended"));
        let blocking: Vec<_> = (1..WORKERS)
            .map(|_| {
                let begins = begins.clone();
                pool.spawn(async move {
                    let _ = begins.send(());
                    thread::sleep(3 * BLOCKED);
                })
            })
            .collect();
        (1..WORKERS).for_each(|_| begun.recv().expect("a task has ended"));
        for give in given {
            let _ = give.send(Instant::now());
        }
        pool.block_on(async {
            for each in tasks {
                late.push(each.await.expect("a task panicked").expect("a wait was not ended"));
            }
            for each in blocking {
                each.await.expect("a task panicked");
            }
        });
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
    plan.add("disturbed/completions", NAME, plan.size(8, 3), completions);
    plan.last().only_whole = true;
}
