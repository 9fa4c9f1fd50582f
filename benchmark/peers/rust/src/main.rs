// SPDX-License-Identifier: BSL-1.0
//! Peers in Rust, for the workloads of queue.cpp, pool.cpp, steps.cpp and flows.cpp. The results have the format of
//! Google Benchmark.
mod flows;
mod harness;
mod machine;
mod pool;
mod queue;
mod scheduling;
mod steps;
mod tally;

use harness::{Entry, Plan, Sample};
use regex_lite::Regex;
use std::fmt::Write;
use std::process::exit;

const HELP: &str = "usage: rust [OPTIONS]
  --quick               small sizes, fewer repetitions
  --whole               also the curves and the scheduling
  --filter=REGEX        only workloads and contestants whose \"workload/contestant\" contains a match
  --repetitions=N       samples of each contestant in each workload
  --list                print the names and run nothing
  --benchmark_out=FILE  write the results to FILE";

#[derive(Default)]
struct Arguments {
    quick: bool,
    whole: bool,
    list: bool,
    filter: String,
    repetitions: usize,
    out: Option<String>,
}

fn fail(message: String) -> ! {
    eprintln!("rust: {message}");
    exit(2)
}

fn parse() -> Arguments {
    let mut found = Arguments::default();
    for argument in std::env::args().skip(1) {
        match argument.split_once('=').unwrap_or((&argument, "")) {
            ("--help", _) => {
                println!("{HELP}");
                exit(0)
            }
            ("--quick", _) => found.quick = true,
            ("--whole", _) => found.whole = true,
            ("--list", _) => found.list = true,
            ("--filter", value) => found.filter = value.into(),
            ("--repetitions", value) => match value.parse() {
                Ok(number) => found.repetitions = number,
                Err(_) => fail(format!("--repetitions needs a number, not {value}")),
            },
            ("--benchmark_out", value) => found.out = Some(value.into()),
            _ => fail(format!("unknown option {argument}")),
        }
    }
    found
}

/// The version of a crate in Cargo.lock.
fn version(name: &str) -> &'static str {
    let lock = include_str!("../Cargo.lock");
    let entry = lock.split_once(&format!("name = \"{name}\"\nversion = \"")).map_or("", |parts| parts.1);
    entry.split('"').next().unwrap_or("")
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => write!(out, "\\u{:04x}", c as u32).unwrap(),
            c => out.push(c),
        }
    }
    out + "\""
}

/// A line of the results.
fn line(entry: &Entry, repetition: usize, sample: &Sample, line: Option<(f64, f64)>) -> String {
    let name = format!("{}/{}/{repetition}/iterations:{}/manual_time", entry.workload, entry.contestant, entry.items);
    let time = sample.time.as_nanos() as f64 / entry.items as f64;
    let mut out = format!(
        "{{\"name\": {}, \"run_type\": \"iteration\", \"iterations\": {}, \"real_time\": {time}, \"time_unit\": \"ns\"",
        quoted(&name),
        entry.items
    );
    for (name, value) in &sample.figures {
        write!(out, ", {}: {value}", quoted(name)).unwrap();
    }
    if let Some((before, after)) = line {
        write!(out, ", \"line_before\": {before}, \"line_after\": {after}").unwrap();
    }
    if let Some(defect) = &sample.defect {
        write!(out, ", \"error_occurred\": true, \"error_message\": {}", quoted(defect)).unwrap();
    }
    out + "}"
}

fn take_sample(entry: &Entry, repetition: usize) -> String {
    let before = entry.probes_line.then(machine::line_round_trip);
    let run = std::panic::AssertUnwindSafe(|| (entry.run)(entry.items));
    let sample = std::panic::catch_unwind(run)
        .unwrap_or_else(|_| Sample { defect: Some("panicked".into()), ..Default::default() });
    line(entry, repetition, &sample, before.map(|each| (each, machine::line_round_trip())))
}

fn main() {
    let chosen = parse();
    let filter = Regex::new(&chosen.filter).unwrap_or_else(|error| fail(format!("--filter: {error}")));
    let mut plan = Plan { quick: chosen.quick, entries: Vec::new() };
    queue::add(&mut plan);
    pool::add(&mut plan);
    steps::add(&mut plan);
    flows::add(&mut plan);
    scheduling::add(&mut plan);
    plan.entries.retain(|each| {
        filter.is_match(&format!("{}/{}", each.workload, each.contestant))
            && (!each.only_whole || chosen.whole || !chosen.filter.is_empty())
    });
    if chosen.list {
        for each in &plan.entries {
            println!("{}/{}", each.workload, each.contestant);
        }
        return;
    }
    let usual = if chosen.quick { 5 } else { 9 };
    let repetitions = if chosen.repetitions > 0 { chosen.repetitions } else { usual };
    let mut runs = Vec::new();
    for repetition in 0..repetitions {
        let due = plan.entries.iter().filter(|each| repetition == 0 || !each.only_once);
        runs.extend(due.map(|each| take_sample(each, repetition)));
    }
    let mut context = format!("\"version:rustc\": {}", quoted(env!("RUSTC_VERSION")));
    for name in ["tokio", "crossbeam-queue", "crossbeam-channel", "rayon"] {
        write!(context, ", {}: {}", quoted(&format!("version:{name}")), quoted(version(name))).unwrap();
    }
    let text = format!("{{\"context\": {{{context}}}, \"benchmarks\": [\n{}\n]}}\n", runs.join(",\n"));
    match &chosen.out {
        None => print!("{text}"),
        Some(path) => std::fs::write(path, text).unwrap_or_else(|error| fail(format!("{path}: {error}"))),
    }
}
