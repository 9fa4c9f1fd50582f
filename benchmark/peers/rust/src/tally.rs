// SPDX-License-Identifier: BSL-1.0
//! Counts the tasks that ran, on a separate cache line for each thread. The counterpart of support/tally.hpp.
use crate::machine::Padded;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const PLACES: usize = 128;
static CELLS: [Padded<AtomicU64>; PLACES] = [const { Padded(AtomicU64::new(0)) }; PLACES];
static NEXT: AtomicUsize = AtomicUsize::new(0);
static EPOCH: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static PLACE: Cell<(u64, usize)> = const { Cell::new((0, 0)) };
}

/// Called by a task.
pub fn count() {
    let epoch = EPOCH.load(Ordering::Relaxed);
    let (mut known, mut place) = PLACE.get();
    if known != epoch {
        (known, place) = (epoch, NEXT.fetch_add(1, Ordering::Relaxed));
        PLACE.set((known, place));
    }
    let cell = &CELLS[place].0;
    cell.store(cell.load(Ordering::Relaxed) + 1, Ordering::Release);
}

/// At most one may exist at a time, and no task may count while it is made.
pub struct Tally;

impl Tally {
    pub fn start() -> Tally {
        for cell in &CELLS {
            cell.0.store(0, Ordering::Relaxed);
        }
        NEXT.store(0, Ordering::Relaxed);
        EPOCH.fetch_add(1, Ordering::Release);
        Tally
    }

    fn counts(&self) -> impl Iterator<Item = u64> {
        CELLS.iter().map(|cell| cell.0.load(Ordering::Acquire))
    }

    /// Number of tasks that have run since this object was made.
    pub fn so_far(&self) -> u64 {
        self.counts().sum()
    }

    /// Number of tasks that the busiest thread has run since then.
    pub fn busiest(&self) -> u64 {
        self.counts().max().unwrap_or(0)
    }

    /// Waits until `wanted` tasks have run, and looks every `pause`. A defect if no task runs for ten seconds, or if
    /// too many have run.
    pub fn wait_for(&self, wanted: u64, pause: Duration) -> Option<String> {
        let mut seen = self.so_far();
        let mut last = Instant::now();
        while seen < wanted && last.elapsed() < Duration::from_secs(10) {
            thread::sleep(pause);
            let now = self.so_far();
            if now != seen {
                (seen, last) = (now, Instant::now());
            }
        }
        (seen != wanted).then(|| format!("{wanted} tasks posted, {seen} ran"))
    }
}
