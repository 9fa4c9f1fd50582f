#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Tests of benchmark/report on figures made up for each rule."""

import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

sys.dont_write_bytecode = True
REPORT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "benchmark", "report")
loader = importlib.machinery.SourceFileLoader("report", REPORT)
report = importlib.util.module_from_spec(importlib.util.spec_from_loader("report", loader))
loader.exec_module(report)

CONTEXT = {
    "date": "2026-01-02T03:04:05+00:00", "num_cpus": 4, "cpu": "Some CPU", "processors": "3", "system": "Some OS",
    "compiler": "some compiler", "version:Lib & Co": "1.2", "workload:queue/1:1": "ns/element|one <to> one",
    "workload:pool/latency": "us|waiting",
}


def run(name, time=1.0, unit="ns", **more):
    return {"name": name + "/iterations:10/manual_time", "run_type": "iteration", "repetitions": 1, "iterations": 10,
            "real_time": time, "cpu_time": 0.1, "time_unit": unit, **more}


def samples(contestant, times, workload="queue/1:1", **more):
    return [run(f"{workload}/{contestant}/{i}", time, **more) for i, time in enumerate(times)]


class Report(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def file(self, runs, name="a.json", context=CONTEXT):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"context": context, "benchmarks": runs}, file)
        return path

    def read(self, runs):
        workloads, _ = report.read([self.file(runs)])
        return {each.name: each for each in workloads}

    def one(self, runs):
        (workload,) = self.read(runs).values()
        return workload, {each.name: each for each in workload.contestants}

    def test_a_figure_is_the_median_of_the_samples(self):
        _, found = self.one(samples("async::queue", [3, 100, 1, 2, 4]))
        self.assertEqual(found["async::queue"].median, 3)

    def test_a_ratio_is_the_contestants_median_by_ours(self):
        workload, found = self.one(samples("async::queue", [10, 10, 10]) + samples("peer", [24, 25, 26]))
        self.assertEqual(workload.ratio(found["peer"]), 2.5)
        self.assertIsNone(workload.ratio(found["async::queue"]))

    def test_there_is_no_ratio_without_ours_or_to_nothing(self):
        workload, found = self.one(samples("peer", [1]))
        self.assertIsNone(workload.ratio(found["peer"]))
        workload, found = self.one(samples("async::queue", [1], value=0.0) + samples("peer", [1], value=3.0))
        self.assertIsNone(workload.ratio(found["peer"]))

    def test_times_are_converted_to_nanoseconds(self):
        _, found = self.one(samples("async::queue", [1.5], unit="us"))
        self.assertEqual(found["async::queue"].median, 1500)

    def test_a_value_stands_for_the_time_and_other_counters_are_notes(self):
        workload, found = self.one(samples("async::pool", [7], "pool/latency", value=4.5, p99=9.0))
        self.assertEqual((found["async::pool"].median, workload.unit, workload.title), (4.5, "us", "waiting"))
        self.assertIn("p99 9.00", report.notes_of(found["async::pool"]))

    def test_samples_of_near_and_far_cores_are_not_mixed(self):
        near, far = {"line_before": 70, "line_after": 90}, {"line_before": 400, "line_after": 300}
        moved = {"line_before": 70, "line_after": 300}
        runs = (samples("async::queue", [1, 2, 3, 4], **near) + samples("async::queue", [50, 60, 70], **far)
                + samples("async::queue", [1000] * 5, **moved))
        workload, found = self.one(runs)
        self.assertEqual((workload.place, found["async::queue"].values), ("near", [1, 2, 3, 4]))
        self.assertIn("near in 4 of 12", report.place_note(workload))

    def test_with_too_few_samples_of_that_kind_all_count(self):
        near, far = {"line_before": 70, "line_after": 90}, {"line_before": 400, "line_after": 300}
        _, found = self.one(samples("async::queue", [1] * 9, **near) + samples("peer", [2], **near)
                            + samples("peer", [6, 6], **far))
        self.assertEqual(found["peer"].values, [2, 6, 6])

    def test_a_wrong_sample_is_reported_and_not_averaged(self):
        runs = samples("async::queue", [5, 5]) + samples("lossy", [1, 1])
        runs.append(run("queue/1:1/lossy/2", 0.001, error_occurred=True, error_message="10 elements in, 9 out"))
        runs.append(run("queue/1:1/broken/0", 0.001, error_occurred=True, error_message="threw"))
        workload, found = self.one(runs)
        self.assertEqual(found["lossy"].values, [1, 1])
        shown = report.table([workload], CONTEXT)
        self.assertIn("WRONG in 1 of 3 samples: 10 elements in, 9 out", shown)
        self.assertIn("WRONG in 1 of 1 samples: threw", shown)
        self.assertIn("threw", report.plot("queue", [workload], CONTEXT))

    def test_workloads_and_contestants_keep_the_order_of_the_run(self):
        context = dict(CONTEXT)
        paths = [self.file(samples("b", [1], "queue/1:1"), "q.json"),
                 self.file(samples("async::z", [1, 1], "pool/latency") + samples("a", [1, 1], "pool/latency"), "p.json")]
        workloads, merged = report.read(paths)
        self.assertEqual([each.name for each in workloads], ["queue/1:1", "pool/latency"])
        self.assertEqual([each.name for each in workloads[1].contestants], ["async::z", "a"])
        self.assertEqual(merged["cpu"], context["cpu"])

    def test_a_rotated_round_does_not_change_the_order(self):
        _, found = self.one([run("queue/1:1/b/1"), run("queue/1:1/async::a/0"), run("queue/1:1/b/0"),
                             run("queue/1:1/async::a/1")])
        self.assertEqual(list(found), ["async::a", "b"])

    def test_numbers_are_short(self):
        shown = [report.number(value) for value in (0, 0.1234, 1.2345, 12.345, 123.45, 12345.6, 1e6)]
        self.assertEqual(shown, ["0", "0.123", "1.23", "12.3", "123", "12,346", "1,000,000"])

    def test_the_table_names_machine_compiler_peers_and_date(self):
        shown = report.table(list(self.read(samples("async::queue", [1])).values()), CONTEXT)
        for part in ("Some CPU, 3 processors", "Some OS", "some compiler", "Lib & Co 1.2", "2026-01-02"):
            self.assertIn(part, shown)

    def test_the_markdown_table_has_a_row_for_each_contestant_and_a_column_for_each_workload(self):
        found = self.read(samples("async::queue", [10, 10]) + samples("peer", [25, 25])
                          + samples("async::queue", [4], "queue/pair") + [run("queue/pair/lossy/0", error_occurred=True)])
        lines = report.markdown(list(found.values())).splitlines()
        self.assertEqual(lines[0], "| queue | 1:1<br>ns/element | pair<br>ns |")
        self.assertEqual(lines[2:], ["| **async::queue** | **10.0** | **4.00** |", "| peer | 25.0 (2.50x) |  |",
                                     "| lossy |  | wrong results |"])

    def test_an_axis_is_logarithmic_where_values_differ_by_orders_of_magnitude(self):
        self.assertFalse(report.Axis([1, 15]).is_log)
        axis = report.Axis([1, 15, 46_000])
        self.assertTrue(axis.is_log)
        self.assertLess(axis.length(1), axis.length(15))
        self.assertAlmostEqual(axis.length(46_000), report.BARS)
        self.assertGreater(axis.length(1), 0)
        for values in ([0.0], [0.0, 5.0], [1e-9, 1e9], [7.0]):
            axis = report.Axis(values)
            self.assertTrue(all(0 <= axis.length(value) <= report.BARS for value in values))
            self.assertLess(len(axis.ticks), 30)

    def test_the_command_writes_well_formed_plots_for_both_themes_and_a_page(self):
        path = self.file(samples("async::<queue>", [1, 2, 3]) + samples("a & b", [500, 600, 700])
                         + samples("async::pool", [1], "pool/latency", value=2.0))
        out = os.path.join(self.folder, "out")
        shown = subprocess.run([sys.executable, REPORT, "--out", out, path], check=True, capture_output=True, text=True)
        self.assertIn("300x", shown.stdout)
        self.assertEqual(sorted(os.listdir(out)), ["index.html", "pool.svg", "queue.svg", "table.md", "table.txt"])
        for name in ("queue.svg", "pool.svg"):
            with open(os.path.join(out, name), encoding="utf-8") as file:
                svg = file.read()
            xml.dom.minidom.parseString(svg)
            self.assertIn("prefers-color-scheme:dark", svg)
        with open(os.path.join(out, "index.html"), encoding="utf-8") as file:
            page = file.read()
        self.assertIn("async::&lt;queue&gt;", page)
        self.assertNotIn("async::<queue>", page)

    def test_asserting_ratios_fails_where_there_is_none(self):
        def code(runs):
            return subprocess.run([sys.executable, REPORT, "--assert-ratios", self.file(runs)],
                                  capture_output=True).returncode
        self.assertEqual(code(samples("async::queue", [1]) + samples("peer", [2])), 0)
        self.assertNotEqual(code(samples("async::queue", [1])), 0)
        self.assertNotEqual(code(samples("peer", [2])), 0)
        self.assertNotEqual(code([]), 0)


if __name__ == "__main__":
    unittest.main()
