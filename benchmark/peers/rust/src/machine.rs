// SPDX-License-Identifier: BSL-1.0
//! Facts about the machine, and helpers that depend on it. The counterpart of support/machine.hpp and busy.hpp.
use std::hint::{black_box, spin_loop};
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// The processors that this process may use, as numbers of the system.
fn usable() -> &'static [usize] {
    static LIST: OnceLock<Vec<usize>> = OnceLock::new();
    LIST.get_or_init(|| {
        // SAFETY: the set is plain data, and large enough for CPU_SETSIZE processors.
        let found: Vec<usize> = unsafe {
            let mut set: libc::cpu_set_t = mem::zeroed();
            let result = libc::sched_getaffinity(0, mem::size_of_val(&set), &mut set);
            (0..libc::CPU_SETSIZE as usize).filter(|&i| result == 0 && libc::CPU_ISSET(i, &set)).collect()
        };
        if found.is_empty() {
            vec![0]
        } else {
            found
        }
    })
}

pub fn processors() -> usize {
    usable().len()
}

/// Pins the calling thread to the n-th of these processors, modulo their number.
pub fn pin_to_processor(n: usize) {
    // SAFETY: as above. A failure leaves the thread unpinned: slower, not wrong.
    unsafe {
        let mut set: libc::cpu_set_t = mem::zeroed();
        libc::CPU_SET(usable()[n % usable().len()], &mut set);
        libc::sched_setaffinity(0, mem::size_of_val(&set), &set);
    }
}

/// Resident memory of this process.
pub fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = statm.split_whitespace().nth(1).and_then(|each| each.parse().ok()).unwrap_or(0);
    // SAFETY: has no preconditions.
    pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize
}

/// CPU time that all threads of this process have used so far.
pub fn process_cpu_time() -> Duration {
    // SAFETY: writes only to `now`.
    let now = unsafe {
        let mut now: libc::timespec = mem::zeroed();
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut now);
        now
    };
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Keeps what it holds on separate cache lines.
#[repr(align(128))]
#[derive(Default)]
pub struct Padded<T>(pub T);

/// Round trip of a cache line from one core to another and back, in nanoseconds; 0 on a single processor.
pub fn line_round_trip() -> f64 {
    if processors() < 2 {
        return 0.0;
    }
    const RALLIES: usize = 15;
    const TRIPS: usize = 100;
    let ball = Padded(AtomicUsize::new(0));
    let times = Mutex::new(Vec::new());
    run_together(
        2,
        true,
        |_| (),
        |side| {
            for rally in 0..RALLIES {
                let start = Instant::now();
                for i in 0..TRIPS {
                    let mine = 2 * (rally * TRIPS + i) + side;
                    while ball.0.load(Ordering::Acquire) != mine {}
                    ball.0.store(mine + 1, Ordering::Release);
                }
                if side == 0 {
                    times.lock().unwrap().push(start.elapsed().as_nanos() as f64 / TRIPS as f64);
                }
            }
        },
    );
    let mut times = times.into_inner().unwrap();
    times.sort_by(f64::total_cmp);
    times[RALLIES / 2] // the median: an interrupt must not pass for a distant core
}

/// Back-off after an attempt on an empty or full queue, the same for all contestants.
#[derive(Default)]
pub struct Patience {
    misses: u32,
}

impl Patience {
    pub fn lost(&mut self) {
        self.misses = self.misses.wrapping_add(1);
        if self.misses % 64 == 0 {
            thread::yield_now()
        } else {
            spin_loop()
        }
    }
}

/// Lets all threads leave wait() at the same time, as far as the machine can.
struct StartLine(AtomicUsize);

impl StartLine {
    fn wait(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
        while self.0.load(Ordering::Acquire) != 0 {
            thread::yield_now();
        }
    }
}

/// Runs warm_up(i) and then body(i) on `threads` threads, and returns the time from the start of the first body to the
/// end of the last. If `pinned`, thread i stays on processor i.
pub fn run_together(
    threads: usize,
    pinned: bool,
    warm_up: impl Fn(usize) + Sync,
    body: impl Fn(usize) + Sync,
) -> Duration {
    let (warm, line) = (StartLine(AtomicUsize::new(threads)), StartLine(AtomicUsize::new(threads)));
    let run = |i| {
        if pinned {
            pin_to_processor(i);
        }
        warm.wait();
        warm_up(i);
        line.wait();
        let start = Instant::now();
        body(i);
        (start, Instant::now())
    };
    let run = &run;
    let lanes: Vec<(Instant, Instant)> = thread::scope(|scope| {
        let crew: Vec<_> = (0..threads).map(|i| scope.spawn(move || run(i))).collect();
        crew.into_iter().map(|each| each.join().expect("a thread of a workload panicked")).collect()
    });
    let start = lanes.iter().map(|lane| lane.0).min();
    let end = lanes.iter().map(|lane| lane.1).max();
    end.zip(start).map_or(Duration::ZERO, |(end, start)| end - start)
}

/// Spins for about this many microseconds of CPU time, which pass only while the thread runs.
pub fn work_for(microseconds: usize) {
    fn work(rounds: u64) {
        let mut value = rounds;
        for _ in 0..rounds {
            value = black_box(value.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407));
        }
    }
    static ROUNDS: OnceLock<u64> = OnceLock::new();
    let rounds = *ROUNDS.get_or_init(|| {
        const PROBE: u64 = 50_000;
        let measure = || {
            let begin = Instant::now();
            work(PROBE);
            begin.elapsed().as_nanos() as u64
        };
        let best = (0..20).map(|_| measure()).min().unwrap_or(1).max(1);
        1_000 * PROBE / best
    });
    for _ in 0..microseconds {
        work(rounds);
    }
}
