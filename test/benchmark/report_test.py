#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Tests of benchmark/reporter on figures made up for each rule."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

sys.dont_write_bytecode = True
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
REPORT = os.path.join(ROOT, "benchmark", "reporter")
sys.path.insert(0, REPORT)

import bars
import figures
import lines
import results
import text
from drawing import Axis

CONTEXT = {
    "date": "2026-01-02T03:04:05+00:00", "num_cpus": 4, "cpu": "Some CPU", "processors": "3", "system": "Some OS",
    "compiler": "some compiler", "version:Lib & Co": "1.2", "workload:queue/1:1": "ns/element|one <to> one",
    "workload:pool/latency": "us|waiting", "workload:growth/items 10": "ns/item|many", "curve:growth/items 10":
    "growth/items|10.000|items", "workload:growth/items 1": "ns/item|many", "curve:growth/items 1":
    "growth/items|1.000|items",
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
        workloads, _ = figures.read([self.file(runs)])
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
        self.assertIn("p99 9.00", text.notes_of(found["async::pool"]))

    def test_samples_of_near_and_far_cores_are_not_mixed(self):
        near, far = {"line_before": 70, "line_after": 90}, {"line_before": 400, "line_after": 300}
        moved = {"line_before": 70, "line_after": 300}
        runs = (samples("async::queue", [1, 2, 3, 4], **near) + samples("async::queue", [50, 60, 70], **far)
                + samples("async::queue", [1000] * 5, **moved))
        workload, found = self.one(runs)
        self.assertEqual((workload.place, found["async::queue"].values), ("near", [1, 2, 3, 4]))
        self.assertIn("near in 4 of 12", text.place_note(workload))

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
        shown = text.table([workload], CONTEXT)
        self.assertIn("WRONG in 1 of 3 samples: 10 elements in, 9 out", shown)
        self.assertIn("WRONG in 1 of 1 samples: threw", shown)
        self.assertIn("threw", bars.plot("queue", [workload], CONTEXT))

    def test_workloads_and_contestants_keep_the_order_of_the_run(self):
        context = dict(CONTEXT)
        paths = [self.file(samples("b", [1], "queue/1:1"), "q.json"),
                 self.file(samples("async::z", [1, 1], "pool/latency") + samples("a", [1, 1], "pool/latency"), "p.json")]
        workloads, merged = figures.read(paths)
        self.assertEqual([each.name for each in workloads], ["queue/1:1", "pool/latency"])
        self.assertEqual([each.name for each in workloads[1].contestants], ["async::z", "a"])
        self.assertEqual(merged["cpu"], context["cpu"])

    def test_a_rotated_round_does_not_change_the_order(self):
        _, found = self.one([run("queue/1:1/b/1"), run("queue/1:1/async::a/0"), run("queue/1:1/b/0"),
                             run("queue/1:1/async::a/1")])
        self.assertEqual(list(found), ["async::a", "b"])

    def test_numbers_are_short(self):
        shown = [text.number(value) for value in (0, 0.1234, 1.2345, 12.345, 123.45, 12345.6, 1e6)]
        self.assertEqual(shown, ["0", "0.123", "1.23", "12.3", "123", "12,346", "1,000,000"])

    def test_the_table_names_machine_compiler_peers_and_date(self):
        shown = text.table(list(self.read(samples("async::queue", [1])).values()), CONTEXT)
        for part in ("Some CPU, 3 processors", "Some OS", "some compiler", "Lib & Co 1.2", "2026-01-02"):
            self.assertIn(part, shown)

    def test_the_markdown_table_has_a_row_for_each_contestant_and_a_column_for_each_workload(self):
        found = self.read(samples("async::queue", [10, 10]) + samples("peer", [25, 25])
                          + samples("async::queue", [4], "queue/pair") + [run("queue/pair/lossy/0", error_occurred=True)])
        lines = text.family_table("queue", list(found.values())).splitlines()
        self.assertEqual(lines[0], "| queue | 1:1<br>ns/element | pair<br>ns |")
        self.assertEqual(lines[2:], ["| **async::queue** | **10.0** | **4.00** |", "| peer | 25.0 (2.50x) |  |",
                                     "| lossy |  | wrong results |"])

    def test_an_axis_is_logarithmic_where_values_differ_by_orders_of_magnitude(self):
        self.assertFalse(Axis([1, 15], 200).is_log)
        axis = Axis([1, 15, 46_000], 200)
        self.assertTrue(axis.is_log)
        self.assertLess(axis.length(1), axis.length(15))
        self.assertAlmostEqual(axis.length(46_000), 200)
        self.assertGreater(axis.length(1), 0)
        for values in ([0.0], [0.0, 5.0], [1e-9, 1e9], [7.0]):
            axis = Axis(values, 200)
            self.assertTrue(all(0 <= axis.length(value) <= 200 for value in values))
            self.assertLess(len(axis.ticks), 30)

    def test_the_command_writes_well_formed_plots_for_both_themes_and_a_page(self):
        path = self.file(samples("async::<queue>", [1, 2, 3]) + samples("a & b", [500, 600, 700])
                         + samples("async::pool", [1], "pool/latency", value=2.0))
        out = os.path.join(self.folder, "out")
        shown = subprocess.run([sys.executable, REPORT, "--out", out, path], check=True, capture_output=True, text=True)
        self.assertIn("300x", shown.stdout)
        self.assertEqual(sorted(os.listdir(out)), ["README.md", "index.html", "pool.svg", "queue.svg", "results.json", "table.txt"])
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

    # --- curves and latencies

    def curve(self):
        return (samples("async::queue", [5, 5], "growth/items 10") + samples("peer", [8], "growth/items 10")
                + samples("async::queue", [4], "growth/items 1") + samples("async::queue", [1], "queue/1:1"))

    def test_points_of_a_curve_are_ordered_by_their_size(self):
        (name, points), = figures.curves(self.read(self.curve()).values()).items()
        self.assertEqual((name, [each.curve[1] for each in points]), ("growth/items", [1, 10]))

    def test_a_curve_is_a_row_of_a_table_and_no_column_of_its_familys(self):
        found = list(self.read(self.curve()).values())
        self.assertEqual(text.family_table("growth", found), "")
        self.assertEqual(text.curve_tables("growth", found).splitlines(),
                         ["| growth | | 1 | 10 |", "|---|---|---:|---:|",
                          "| many, ns/item | **async::queue** | **4.00** | **5.00** |", "|  | peer |  | 8.00 (1.60x) |"])

    def test_a_curve_is_drawn_from_its_least_to_its_greatest_size(self):
        (panel,) = lines.curve_panels(self.read(self.curve()).values())
        self.assertEqual(panel.series, {"async::queue": [(0.0, 4), (1.0, 5)], "peer": [(1.0, 8)]})
        self.assertEqual([label for _, label in panel.marks], ["1", "10"])
        xml.dom.minidom.parseString(lines.plot("growth", [panel], CONTEXT))

    def test_latencies_go_from_the_median_through_the_quantiles_that_were_noted(self):
        runs = samples("async::pool", [1], "pool/latency", value=4.5, **{"p99.9": 20.0, "p90": 5.0, "p99": 9.0, "MB": 1.0})
        (panel,) = lines.latency_panels(self.read(runs + samples("none", [1], "queue/1:1")).values())
        self.assertEqual([label for _, label in panel.marks], ["p50", "p90", "p99", "p99.9"])
        self.assertEqual([value for _, value in panel.series["async::pool"]], [4.5, 5.0, 9.0, 20.0])

    def test_names_beside_lines_do_not_overlap(self):
        for wanted in ([0, 0, 0], [1, 2, 200], [190, 195, 199], [0, 100, 101, 102, 200], [50]):
            places = lines.apart(wanted, 0, 200)
            self.assertTrue(all(b - a >= lines.LABEL - 1e-9 for a, b in zip(places, places[1:])), places)
            self.assertTrue(0 <= places[0] and places[-1] <= 200, places)
        self.assertEqual(lines.apart([50, 100], 0, 200), [50, 100])

    # --- what is published

    def project(self, runs):
        """A project with a text that has blocks, and the figures of these runs."""
        root = os.path.join(self.folder, "project")
        shutil.rmtree(root, ignore_errors=True)
        os.makedirs(os.path.join(root, "sub"))
        with open(os.path.join(root, "sub", "README.md"), "w", encoding="utf-8") as file:
            file.write("before\n\n<!-- results: queue -->\nold\n<!-- /results -->\n\nbetween\n\n"
                       "<!-- results: nothing -->\nold\n<!-- /results -->\n\nafter\n")
        results.publish(root, "results", *figures.read([self.file(runs)]))
        return root

    def test_publishing_fills_the_blocks_and_leaves_the_rest(self):
        root = self.project(samples("async::queue", [10]) + samples("peer", [25]))
        with open(os.path.join(root, "sub", "README.md"), encoding="utf-8") as file:
            filled = file.read()
        self.assertEqual(filled, "before\n\n<!-- results: queue -->\n\n| queue | 1:1<br>ns/element |\n|---|---:|\n"
                         "| **async::queue** | **10.0** |\n| peer | 25.0 (2.50x) |\n\n"
                         "![the unbounded queues' figures as bars](../results/queue.svg)\n\n<!-- /results -->\n\nbetween\n\n"
                         "<!-- results: nothing -->\n<!-- /results -->\n\nafter\n")
        self.assertEqual(sorted(os.listdir(os.path.join(root, "results"))), ["README.md", "queue.svg", "results.json", "table.txt"])

    def test_the_folder_shows_all_tables_and_plots_to_who_opens_it(self):
        root = self.project(samples("async::queue", [10]) + samples("peer", [25]) + self.curve())
        with open(os.path.join(root, "results", "README.md"), encoding="utf-8") as file:
            shown = file.read()
        for part in ("Some CPU, 3 processors", "Lib & Co 1.2", "| peer | 25.0 (4.55x) |", "(queue.svg)", "(table.txt)",
                     "(results.json)", "| growth | |", "(growth.svg)"):
            self.assertIn(part, shown)

    def test_publishing_removes_what_was_made_of_other_figures_and_nothing_else(self):
        root = self.project(samples("async::queue", [10]))
        for name in ("pool.svg", "other.svg"):
            with open(os.path.join(root, "results", name), "w", encoding="utf-8"):
                pass
        results.publish(root, "results", *figures.read([os.path.join(root, "results", "results.json")]))
        self.assertEqual(sorted(os.listdir(os.path.join(root, "results"))),
                         ["README.md", "other.svg", "queue.svg", "results.json", "table.txt"])

    def test_publishing_again_from_what_was_published_changes_nothing(self):
        root = self.project(samples("async::queue", [1 / 3, 2, 12345.678901]) + self.curve()
                            + samples("async::pool", [1], "pool/latency", value=4.5, p99=9.0)
                            + [run("queue/1:1/lossy/0", error_occurred=True, error_message="10 in, 9 out")])
        self.assertEqual(results.differences(root, "results"), [])
        before = results.wanted(root, "results")
        results.publish(root, "results", *figures.read([os.path.join(root, "results", "results.json")]))
        self.assertEqual(results.wanted(root, "results"), before)

    def test_what_differs_from_the_published_figures_is_found(self):
        def changed(path, change):
            root = self.project(samples("async::queue", [10]))
            path = os.path.join(root, path)
            old = ""
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    old = file.read()
            with open(path, "w", encoding="utf-8") as file:
                file.write(change(old))
            return results.differences(root, "results")
        text_of = os.path.join("sub", "README.md")
        self.assertEqual(changed(text_of, lambda old: old), [])
        self.assertEqual(changed(text_of, lambda old: old.replace("10.0", "9.99")), [text_of])
        self.assertEqual(changed(text_of, lambda old: old.replace("between", "more")), [])
        self.assertIn("results/table.txt", changed("results/results.json", lambda old: old.replace("10.0", "11.0")))
        self.assertEqual(changed("results/queue.svg", lambda old: old + " "), ["results/queue.svg"])
        self.assertEqual(changed("results/pool.svg", lambda old: old), ["results/pool.svg"])
        self.assertEqual(changed("results/other.svg", lambda old: old), [])

    def test_what_this_project_shows_is_what_was_measured(self):
        self.assertEqual(results.differences(ROOT, "benchmark/report"), [], "python3 benchmark/reporter --publish")


if __name__ == "__main__":
    unittest.main()
