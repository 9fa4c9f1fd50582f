// SPDX-License-Identifier: BSL-1.0
//! Samples, and the workloads of this program with their contestants. The counterpart of support/harness.hpp.
use std::collections::BTreeMap;
use std::time::Duration;

/// The result of one repetition of one contestant.
#[derive(Default)]
pub struct Sample {
    /// The time for all items, in workloads that measure a time.
    pub time: Duration,
    /// "value": the result, in workloads that measure no time; others: notes.
    pub figures: BTreeMap<&'static str, f64>,
    /// The error of the contestant.
    pub defect: Option<String>,
}

impl Sample {
    pub fn of(time: Duration) -> Sample {
        Sample { time, ..Default::default() }
    }

    /// The time, and a defect unless all work was done.
    pub fn finished(time: Duration, done: u64, expected: u64) -> Sample {
        Sample::of(time).checked(done == expected, || format!("{done} of {expected} were done"))
    }

    /// Adds a defect unless `right`.
    pub fn checked(mut self, right: bool, defect: impl FnOnce() -> String) -> Sample {
        if !right && self.defect.is_none() {
            self.defect = Some(defect());
        }
        self
    }

    /// Makes the median of `values` the value. Notes the tail quantiles for which there are enough values.
    pub fn with_quantiles(mut self, mut values: Vec<f64>) -> Sample {
        values.sort_by(f64::total_cmp);
        let count = values.len();
        self.figures.insert("value", values[count / 2]);
        for (name, outside) in [("p90", 10), ("p99", 100), ("p99.9", 1_000)] {
            if count >= outside {
                self.figures.insert(name, values[count - 1 - count / outside]);
            }
        }
        self
    }
}

/// One contestant in one workload.
pub struct Entry {
    pub workload: String,
    pub contestant: String,
    /// The argument of run(), and the divisor of its time.
    pub items: usize,
    /// Measures the round trip of a cache line before and after each sample.
    pub probes_line: bool,
    /// Runs only with --whole, or when a filter chooses it.
    pub only_whole: bool,
    /// Takes one sample in a process: a second one would use memory that the first has freed.
    pub only_once: bool,
    pub run: Box<dyn Fn(usize) -> Sample>,
}

pub struct Plan {
    pub quick: bool,
    pub entries: Vec<Entry>,
}

impl Plan {
    pub fn size(&self, full: usize, when_quick: usize) -> usize {
        if self.quick {
            when_quick
        } else {
            full
        }
    }

    /// Number of items for a sample, from the duration of one item, and at most `most`.
    pub fn sized(&self, nanoseconds_each: usize, most: usize) -> usize {
        (self.size(200_000_000, 40_000_000) / nanoseconds_each).clamp(1, most)
    }

    pub fn add(&mut self, workload: &str, contestant: &str, items: usize, run: impl Fn(usize) -> Sample + 'static) {
        self.entries.push(Entry {
            workload: workload.into(),
            contestant: contestant.into(),
            items,
            probes_line: false,
            only_whole: false,
            only_once: false,
            run: Box::new(run),
        });
    }

    /// The entry that was added last.
    pub fn last(&mut self) -> &mut Entry {
        self.entries.last_mut().expect("no entry was added")
    }
}
