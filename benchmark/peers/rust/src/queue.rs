// SPDX-License-Identifier: BSL-1.0
//! crossbeam's queues and channels of 64-bit numbers. The counterpart of support/queue_workloads.hpp: every element that
//! goes in must come out once. Counts and sums are compared after each sample.
use crate::harness::{Plan, Sample};
use crate::machine::{processors, resident_bytes, run_together, Padded, Patience};
use crossbeam_channel::{Receiver, Sender};
use crossbeam_queue::{ArrayQueue, SegQueue};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

const CAPACITY: usize = 1024;

trait Queue: Sync {
    fn new() -> Self;
    /// False: full.
    fn enqueue(&self, value: u64) -> bool;
    /// None: empty.
    fn dequeue(&self) -> Option<u64>;
    /// Block while full or empty.
    fn wait_enqueue(&self, _: u64) {
        unreachable!("a queue without calls that wait")
    }
    fn wait_dequeue(&self) -> u64 {
        unreachable!("a queue without calls that wait")
    }
}

impl Queue for SegQueue<u64> {
    fn new() -> Self {
        SegQueue::new()
    }
    fn enqueue(&self, value: u64) -> bool {
        self.push(value);
        true
    }
    fn dequeue(&self) -> Option<u64> {
        self.pop()
    }
}

impl Queue for ArrayQueue<u64> {
    fn new() -> Self {
        ArrayQueue::new(CAPACITY)
    }
    fn enqueue(&self, value: u64) -> bool {
        self.push(value).is_ok()
    }
    fn dequeue(&self) -> Option<u64> {
        self.pop()
    }
}

struct Channel<const BOUNDED: bool>(Sender<u64>, Receiver<u64>);

impl<const BOUNDED: bool> Queue for Channel<BOUNDED> {
    fn new() -> Self {
        let (sender, receiver) =
            if BOUNDED { crossbeam_channel::bounded(CAPACITY) } else { crossbeam_channel::unbounded() };
        Channel(sender, receiver)
    }
    fn enqueue(&self, value: u64) -> bool {
        self.0.try_send(value).is_ok()
    }
    fn dequeue(&self) -> Option<u64> {
        self.1.try_recv().ok()
    }
    fn wait_enqueue(&self, value: u64) {
        self.0.send(value).expect("the channel is closed");
    }
    fn wait_dequeue(&self) -> u64 {
        self.1.recv().expect("the channel is closed")
    }
}

/// Count and sum of the elements that went in, or came out.
#[derive(Clone, Copy, Default, PartialEq)]
struct Ledger {
    count: u64,
    sum: u64,
}

impl Ledger {
    fn note(&mut self, value: u64) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(value);
    }
    fn add(&mut self, other: Ledger) {
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

impl Sample {
    fn balanced(self, moved_in: Ledger, out: Ledger) -> Sample {
        self.checked(moved_in == out, || match moved_in.count == out.count {
            true => format!("elements changed: {} in and out, sums differ", out.count),
            false => format!("{} elements in, {} out", moved_in.count, out.count),
        })
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Single,
    Waiting,
}

/// One phase of traffic: each producer sends its share, consumers take elements until none are left.
struct Traffic<'a, Q> {
    queue: &'a Q,
    producing: Padded<AtomicUsize>, // read only by consumers that found the queue empty
    share: usize,
    producers: usize,
    consumers: usize,
    kind: Kind,
    totals: Mutex<(Ledger, Ledger)>,
}

impl<'a, Q: Queue> Traffic<'a, Q> {
    fn new(queue: &'a Q, producers: usize, consumers: usize, items: usize, kind: Kind) -> Self {
        let producing = Padded(AtomicUsize::new(producers));
        Traffic { queue, producing, share: items / producers, producers, consumers, kind, totals: Mutex::default() }
    }

    /// The part of thread i. Producers come first, then consumers.
    fn run(&self, i: usize) {
        if i < self.producers {
            let sent = self.produce(i);
            self.producing.0.fetch_sub(1, Ordering::Release);
            self.totals.lock().unwrap().0.add(sent);
        } else {
            let got = self.consume(i - self.producers);
            self.totals.lock().unwrap().1.add(got);
        }
    }

    fn produce(&self, i: usize) -> Ledger {
        let first = (i * self.share + 1) as u64;
        let mut sent = Ledger::default();
        let mut full = Patience::default();
        for next in first..first + self.share as u64 {
            if self.kind == Kind::Waiting {
                self.queue.wait_enqueue(next);
            } else {
                while !self.queue.enqueue(next) {
                    full.lost();
                }
            }
            sent.note(next);
        }
        sent
    }

    fn consume(&self, i: usize) -> Ledger {
        let mut got = Ledger::default();
        if self.kind == Kind::Waiting {
            let all = self.share * self.producers;
            let mine = all / self.consumers + usize::from(i < all % self.consumers);
            (0..mine).for_each(|_| got.note(self.queue.wait_dequeue()));
            return got;
        }
        let mut empty = Patience::default();
        loop {
            let last_look = self.producing.0.load(Ordering::Acquire) == 0;
            while let Some(value) = self.queue.dequeue() {
                got.note(value);
            }
            if last_look {
                return got;
            }
            empty.lost();
        }
    }
}

/// Traffic of `producers` and `consumers`. A quarter as much comes first, as a warm-up.
fn traffic<Q: Queue>(producers: usize, consumers: usize, items: usize, kind: Kind) -> Sample {
    let queue = Q::new();
    let warm = Traffic::new(&queue, producers, consumers, items / 4, kind);
    let measured = Traffic::new(&queue, producers, consumers, items, kind);
    let time = run_together(producers + consumers, true, |i| warm.run(i), |i| measured.run(i));
    let (mut moved_in, mut out) = *warm.totals.lock().unwrap();
    let (more_in, more_out) = *measured.totals.lock().unwrap();
    moved_in.add(more_in);
    out.add(more_out);
    while let Some(value) = queue.dequeue() {
        out.note(value); // a queue may report empty while other threads take from it
    }
    Sample::of(time).balanced(moved_in, out)
}

/// One thread puts an element in and takes one out, again and again.
fn pair<Q: Queue>(items: usize) -> Sample {
    let queue = Q::new();
    let totals = Mutex::new((Ledger::default(), Ledger::default()));
    let pairs = |count: usize| {
        let (mut moved_in, mut out) = (Ledger::default(), Ledger::default());
        for i in 1..=count as u64 {
            if queue.enqueue(i) {
                moved_in.note(i);
            }
            if let Some(value) = queue.dequeue() {
                out.note(value);
            }
        }
        let mut totals = totals.lock().unwrap();
        totals.0.add(moved_in);
        totals.1.add(out);
    };
    let time = run_together(1, true, |_| pairs(items / 4), |_| pairs(items));
    let (moved_in, out) = totals.into_inner().unwrap();
    Sample::of(time).balanced(moved_in, out)
}

/// One thread polls an empty queue.
fn empty<Q: Queue>(items: usize) -> Sample {
    let queue = Q::new();
    let found = AtomicU64::new(0);
    let polls = |count: usize| {
        let hits = (0..count).filter(|_| queue.dequeue().is_some()).count();
        found.fetch_add(hits as u64, Ordering::Relaxed);
    };
    let time = run_together(1, true, |_| polls(items / 4), |_| polls(items));
    Sample::of(time).checked(found.into_inner() == 0, || "found an element in an empty queue".into())
}

/// Two threads and two queues: an element goes there and back.
fn round_trip<Q: Queue>(items: usize) -> Sample {
    let (there, back) = (Q::new(), Q::new());
    let result = Mutex::new((Vec::new(), 0));
    let alone = processors() < 2;
    let receive = |from: &Q| loop {
        if let Some(value) = from.dequeue() {
            return value;
        }
        if alone {
            thread::yield_now();
        }
    };
    run_together(
        2,
        true,
        |_| (),
        |side| {
            let (out, from) = if side == 0 { (&there, &back) } else { (&back, &there) };
            let mut trips = Vec::with_capacity(items);
            let mut wrong = 0;
            let mut last = Instant::now();
            for i in 1..=items as u64 {
                if side == 1 {
                    receive(from);
                }
                while !out.enqueue(i) {}
                if side == 0 {
                    wrong += u64::from(receive(from) != i);
                    let now = Instant::now();
                    trips.push((now - last).as_nanos() as f64);
                    last = now;
                }
            }
            if side == 0 {
                *result.lock().unwrap() = (trips, wrong);
            }
        },
    );
    let (trips, wrong) = result.into_inner().unwrap();
    Sample::default().with_quantiles(trips).checked(wrong == 0, || "echoed wrong elements".into())
}

/// Resident memory of a backlog; noted again when it is drained.
fn memory<Q: Queue>(items: usize) -> Sample {
    let before = resident_bytes();
    let queue = Q::new();
    let (mut moved_in, mut out) = (Ledger::default(), Ledger::default());
    for i in 1..=items as u64 {
        if queue.enqueue(i) {
            moved_in.note(i);
        }
    }
    let mut sample = Sample::default();
    sample.figures.insert("value", resident_bytes().saturating_sub(before) as f64 / items as f64);
    while let Some(value) = queue.dequeue() {
        out.note(value);
    }
    sample.figures.insert("MB when drained", resident_bytes().saturating_sub(before) as f64 * 1e-6);
    sample.balanced(moved_in, out)
}

/// One thread puts `elements` elements in and then takes them all out, round after round.
fn growth<Q: Queue>(elements: usize, rounds: usize) -> Sample {
    let queue = Q::new();
    let totals = Mutex::new((Ledger::default(), Ledger::default()));
    let fill_and_drain = |times: usize| {
        let (mut moved_in, mut out) = (Ledger::default(), Ledger::default());
        for _ in 0..times {
            for i in 1..=elements as u64 {
                if queue.enqueue(i) {
                    moved_in.note(i);
                }
            }
            while let Some(value) = queue.dequeue() {
                out.note(value);
            }
        }
        let mut totals = totals.lock().unwrap();
        totals.0.add(moved_in);
        totals.1.add(out);
    };
    let time = run_together(1, true, |_| fill_and_drain(rounds.div_ceil(4)), |_| fill_and_drain(rounds));
    let (moved_in, out) = totals.into_inner().unwrap();
    Sample::of(time).balanced(moved_in, out)
}

/// Numbers of threads for a curve, as crews(2) of support/curves.hpp.
fn crews() -> Vec<usize> {
    let below = (1..).map(|power| 1 << power).take_while(|&threads| threads < processors());
    below.chain([1, 2, 4].map(|times| times * processors())).filter(|&threads| threads >= 2).collect()
}

fn add_curves<Q: Queue + 'static>(plan: &mut Plan, family: &str, name: &str) {
    let elements = plan.size(500_000, 200_000);
    for threads in crews() {
        plan.add(&format!("scaling/{family} {threads}"), name, elements, move |items| {
            traffic::<Q>(threads / 2, threads - threads / 2, items, Kind::Single)
        });
        plan.last().probes_line = true;
        plan.last().only_whole = true;
    }
    if family != "queue" {
        return;
    }
    plan.add("queue/memory", name, 10_000_000, memory::<Q>);
    plan.last().only_once = true;
    for waiting in (0..8).map(|power| 10_usize.pow(power)) {
        let rounds = (elements / waiting).clamp(1, 1_000_000);
        plan.add(&format!("growth/queue {waiting}"), name, rounds * waiting, move |_| growth::<Q>(waiting, rounds));
        plan.last().only_whole = true;
    }
}

fn add_queue<Q: Queue + 'static>(plan: &mut Plan, family: &str, name: &str, waits: bool) {
    let elements = plan.size(500_000, 200_000);
    let mut add_traffic = |label: &str, producers, consumers, kind| {
        plan.add(&format!("{family}/{label}"), name, elements, move |items| {
            traffic::<Q>(producers, consumers, items, kind)
        });
        plan.last().probes_line = true;
    };
    add_traffic("1:1", 1, 1, Kind::Single);
    add_traffic("2:2", 2, 2, Kind::Single);
    add_traffic("1:3", 1, 3, Kind::Single);
    add_traffic("3:1", 3, 1, Kind::Single);
    add_traffic("4:4", 4, 4, Kind::Single);
    if waits {
        add_traffic("waiting 1:1", 1, 1, Kind::Waiting);
        add_traffic("waiting 4:4", 4, 4, Kind::Waiting);
    }
    plan.add(&format!("{family}/pair"), name, elements, pair::<Q>);
    plan.add(&format!("{family}/empty"), name, 2 * elements, empty::<Q>);
    plan.add(&format!("{family}/round trip"), name, plan.size(10_000, 4_000), round_trip::<Q>);
    plan.last().probes_line = true;
    add_curves::<Q>(plan, family, name);
}

pub fn add(plan: &mut Plan) {
    add_queue::<SegQueue<u64>>(plan, "queue", "crossbeam SegQueue (Rust)", false);
    add_queue::<Channel<false>>(plan, "queue", "crossbeam channel (Rust)", false);
    add_queue::<ArrayQueue<u64>>(plan, "bounded", "crossbeam ArrayQueue (Rust)", false);
    add_queue::<Channel<true>>(plan, "bounded", "crossbeam channel (Rust)", true);
}
