// SPDX-License-Identifier: BSL-1.0
//! rayon: join, spawn and parallel iterators; tokio: tasks without a result, and an idle runtime.
use crate::harness::{Plan, Sample};
use crate::machine::{process_cpu_time, run_together};
use crate::tally::{self, Tally};
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, IntoParallelRefMutIterator, ParallelIterator};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

pub fn pool(workers: usize) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(workers).build().expect("cannot start a pool")
}

const LOOK: Duration = Duration::from_micros(20); // at the tally

/// Fork-join without a cut-off.
fn fibonacci(n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (a, b) = rayon::join(|| fibonacci(n - 1), || fibonacci(n - 2));
    a + b
}

fn fork_join(n: u32, expected: u64) -> Sample {
    let pool = pool(2);
    let found = AtomicU64::new(0);
    let run = |n| found.store(pool.install(|| fibonacci(n)), Ordering::Relaxed);
    let time = run_together(1, false, |_| run(n - 4), |_| run(n));
    Sample::of(time).checked(found.into_inner() == expected, || "a wrong Fibonacci number".into())
}

/// Tasks from a thread outside, until the last one has run. `execute` posts a task that counts.
fn flood(items: usize, execute: impl Fn() + Sync) -> Sample {
    let defect = Mutex::new(None);
    let run = |count: usize| {
        let ran = Tally::start();
        (0..count).for_each(|_| execute());
        *defect.lock().unwrap() = ran.wait_for(count as u64, LOOK);
    };
    let time = run_together(1, false, |_| run(items / 4), |_| run(items));
    Sample { time, defect: defect.into_inner().unwrap(), ..Default::default() }
}

fn rayon_tree(depth: u32) {
    tally::count();
    if depth != 0 {
        rayon::spawn(move || rayon_tree(depth - 1));
        rayon::spawn(move || rayon_tree(depth - 1));
    }
}

fn tokio_tree(handle: Handle, depth: u32) {
    handle.clone().spawn(async move {
        tally::count();
        if depth != 0 {
            tokio_tree(handle.clone(), depth - 1);
            tokio_tree(handle, depth - 1);
        }
    });
}

/// A binary tree of tasks, posted from inside: `grow` posts the root of a tree of that depth.
fn tree(items: usize, grow: impl Fn(u32) + Sync) -> Sample {
    let depth = (items + 1).ilog2() - 1;
    let defect = Mutex::new(None);
    let run = |levels: u32| {
        let ran = Tally::start();
        grow(levels);
        *defect.lock().unwrap() = ran.wait_for((2 << levels) - 1, LOOK);
    };
    let time = run_together(1, false, |_| run(depth - 2), |_| run(depth));
    Sample { time, defect: defect.into_inner().unwrap(), ..Default::default() }
}

/// Parallel loops over cheap calls, one loop after the other, inside a task or from outside.
fn loops(count: usize, rounds: usize, inside: bool) -> Sample {
    let pool = pool(2);
    let mut values = vec![0.0; count];
    let one = |values: &mut Vec<f64>, r: usize| {
        values.par_iter_mut().enumerate().for_each(|(i, value)| *value = (i + r) as f64);
    };
    let mut run = |rounds: usize| {
        let begin = Instant::now();
        if inside {
            pool.install(|| (0..rounds).for_each(|r| one(&mut values, r)));
        } else {
            (0..rounds).for_each(|r| pool.install(|| one(&mut values, r)));
        }
        begin.elapsed()
    };
    run(rounds / 4 + 1);
    let time = run(rounds);
    let right = values.iter().enumerate().all(|(i, value)| *value == (i + rounds - 1) as f64);
    Sample::of(time).checked(right, || "a call was not made".into())
}

// --- search ----------------------------------------------------------------------------------------------------------

const LEAVES: usize = 4_096;

/// The key of a leaf, as leaf_search of fork_workloads.hpp computes it.
fn key(leaf: u64) -> u64 {
    (0..32).fold(leaf, |x, _| (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9).wrapping_add(1))
}

/// Searches for leaves by find_any(), which splits the range down to one leaf and ends with the first hit.
fn search(searches: usize) -> Sample {
    fn search_for(hit: usize) -> Option<usize> {
        let wanted = key(hit as u64);
        (0..LEAVES).into_par_iter().with_max_len(1).find_any(|leaf| {
            tally::count();
            key(*leaf as u64) == wanted
        })
    }
    let hit_of = |search: usize| search * 2_654_435_761 % LEAVES;
    pool(2).install(|| {
        let whole = Tally::start();
        let mut wrong = usize::from(search_for(LEAVES).is_some());
        let missing = whole.so_far() != LEAVES as u64;
        let mut run = |count| wrong += (0..count).filter(|s| search_for(hit_of(*s)) != Some(hit_of(*s))).count();
        run(searches / 4);
        let visited = Tally::start();
        let begin = Instant::now();
        run(searches);
        let mut sample = Sample::of(begin.elapsed());
        let looked = visited.so_far() as f64 / (searches * LEAVES) as f64;
        sample.figures.insert("% visited", 100.0 * looked);
        sample
            .checked(wrong == 0, || "a wrong leaf".into())
            .checked(!missing, || "a search without a hit has not looked at each leaf once".into())
            .checked(looked <= 1.0, || "a search has looked at a leaf twice".into())
    })
}

/// CPU time of a pool that has run tasks and is idle, in milliseconds a second.
fn idle(milliseconds: usize, execute: impl Fn()) -> Sample {
    let ran = Tally::start();
    (0..1_000).for_each(|_| execute());
    let defect = ran.wait_for(1_000, LOOK);
    thread::sleep(Duration::from_millis(200));
    let before = process_cpu_time();
    thread::sleep(Duration::from_millis(milliseconds as u64));
    let used = (process_cpu_time() - before).as_nanos() as f64 * 1e-6;
    let mut sample = Sample { defect, ..Default::default() };
    sample.figures.insert("value", used * 1_000.0 / milliseconds as f64);
    sample
}

pub fn add(plan: &mut Plan) {
    const RAYON: &str = "rayon (Rust)";
    const TOKIO: &str = "tokio (Rust)";
    // The same depths as fork-join of pool_workloads.hpp: fib(23) spawns 46,367 times, fib(27) 317,810 times.
    let (spawns, n, expected) = if plan.quick { (46_367, 23, 28_657) } else { (317_810, 27, 196_418) };
    // install() moves the first call to a worker, so that a call from inside and one from outside are the same.
    plan.add("pool/fork-join", RAYON, spawns, move |_| fork_join(n, expected));
    plan.add("pool/fork-join outside", RAYON, spawns, move |_| fork_join(n, expected));
    plan.add("pool/search", RAYON, plan.size(400, 100), search);
    let tasks = plan.size(1_000_000, 166_666);
    for workers in [2, 4] {
        let workload = format!("pool/flood {workers}");
        plan.add(&workload, RAYON, tasks, move |items| {
            let pool = pool(workers);
            flood(items, || pool.spawn(tally::count))
        });
        plan.add(&workload, TOKIO, tasks, move |items| {
            let pool = crate::flows::pool(workers);
            flood(items, || drop(pool.spawn(async { tally::count() })))
        });
    }
    let nodes = plan.size(1 << 19, 1 << 17) - 1;
    plan.add("pool/tree", RAYON, nodes, |items| {
        let pool = pool(2);
        tree(items, |depth| pool.spawn(move || rayon_tree(depth)))
    });
    plan.add("pool/tree", TOKIO, nodes, |items| {
        let pool = crate::flows::pool(2);
        tree(items, |depth| tokio_tree(pool.handle().clone(), depth))
    });
    for (inside, suffix) in [(true, ""), (false, " outside")] {
        plan.add(&format!("pool/loop 100{suffix}"), RAYON, plan.size(100_000, 10_000), move |rounds| {
            loops(100, rounds, inside)
        });
        plan.add(&format!("pool/loop 10 k{suffix}"), RAYON, plan.size(10_000, 1_000), move |rounds| {
            loops(10_000, rounds, inside)
        });
    }
    let milliseconds = plan.size(2_000, 500);
    plan.add("pool/idle", RAYON, milliseconds, |milliseconds| {
        let pool = pool(8);
        idle(milliseconds, || pool.spawn(tally::count))
    });
    plan.add("pool/idle", TOKIO, milliseconds, |milliseconds| {
        let pool = crate::flows::pool(8);
        idle(milliseconds, || drop(pool.spawn(async { tally::count() })))
    });
    for (name, delay, items) in [
        ("50 us", Duration::from_micros(50), plan.size(2_000, 1_000)),
        ("5 ms", Duration::from_millis(5), plan.size(200, 30)),
    ] {
        plan.add(&format!("pool/latency {name}"), TOKIO, items, move |items| crate::flows::latency(delay, items));
    }
    plan.add("pool/construct", TOKIO, plan.size(100, 30), |items| {
        let make = |count| (0..count).for_each(|_| drop(crate::flows::pool(4)));
        Sample::of(run_together(1, false, |_| make(1), |_| make(items)))
    });
}
