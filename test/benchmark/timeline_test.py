#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Tests of benchmark/reporter/timeline.py on a trace made up for each rule."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
TIMELINE = os.path.join(ROOT, "benchmark", "reporter", "timeline.py")


def span(tid, name, ts, dur, **more):
    return {"ph": "X", "pid": 1, "tid": tid, "name": name, "ts": ts, "dur": dur, **more}


def flow(number, begin, end, how):
    common = {"pid": 1, "tid": 1, "name": f"flow {number}", "cat": "flow", "id": number}
    return [{"ph": "b", "ts": begin, **common}, {"ph": "e", "ts": end, "args": {"by": how}, **common}]


THREADS = [{"ph": "M", "pid": 1, "tid": i, "name": "thread_name", "args": {"name": name, "dropped": 0}}
           for i, name in enumerate(("worker/1", "a <lane>", "worker/0", "silent"), 1)]
EVENTS = THREADS + [
    span(1, "task", 1000, 2000), span(1, "main()::<lambda(A)>", 1100, 1000, cat="step"),
    span(1, "f (error handler)", 2200, 100, cat="handler"), span(3, "park", 1000, 500),
    span(2, "callback", 1400, 100), {"ph": "i", "pid": 1, "tid": 3, "name": "steal", "ts": 1600, "args": {"from": 1}},
    {"ph": "s", "pid": 1, "tid": 1, "name": "wake", "ts": 1450, "cat": "wake", "id": 1},
    {"ph": "f", "pid": 1, "tid": 3, "name": "wake", "ts": 1500, "cat": "wake", "id": 1, "bp": "e"},
    *flow(1, 1100, 2900, "success"), *flow(2, 1200, 1300, "error")]


class Timeline(unittest.TestCase):
    def draw(self, events, *options):
        with tempfile.TemporaryDirectory() as folder:
            trace, picture = os.path.join(folder, "t.json"), os.path.join(folder, "t.svg")
            with open(trace, "w", encoding="utf-8") as file:
                json.dump({"traceEvents": events}, file)
            done = subprocess.run([sys.executable, TIMELINE, trace, picture, *options], capture_output=True, text=True,
                                  check=False)
            if done.returncode != 0:
                return done.stderr
            with open(picture, encoding="utf-8") as file:
                return file.read()

    def parts(self, *options):
        """The drawn things of each class, without the legend."""
        root = xml.dom.minidom.parseString(self.draw(EVENTS, *options)).documentElement
        found = {}
        for tag in ("rect", "path", "text"):
            for node in root.getElementsByTagName(tag):
                if not (node.getAttribute("y") == "37" and node.getAttribute("width") == "11"):
                    found.setdefault(node.getAttribute("class"), []).append(node)
        return found

    def test_each_event_is_drawn(self):
        parts = self.parts()
        counts = {kind: len(parts.get(kind, [])) for kind in ("task", "handler", "park", "arrow", "steal", "flow", "failed")}
        self.assertEqual(counts, {"task": 2, "handler": 1, "park": 1, "arrow": 1, "steal": 1, "flow": 1, "failed": 1})

    def test_lanes_are_the_workers_in_order_then_other_threads_that_did_something(self):
        names = [node.firstChild.data for node in self.parts()["text small"]]
        self.assertEqual(names, ["worker/0", "worker/1", "a <lane>", "2 flows"])

    def test_positions_are_proportional_to_time(self):
        task = self.parts()["task"][0]
        self.assertEqual((task.getAttribute("x"), task.getAttribute("width")), ("96.0", "890.0"))
        step = self.parts()["step"][0]
        self.assertAlmostEqual(float(step.getAttribute("x")), 96 + 890 * 100 / 2000, delta=0.1)
        self.assertAlmostEqual(float(step.getAttribute("width")), 890 / 2, delta=0.1)

    def test_a_section_shows_what_lies_in_it_and_cuts_the_rest_off(self):
        parts = self.parts("--from", "2.15", "--to", "2.4")
        self.assertNotIn("park", parts)
        self.assertNotIn("failed", parts)
        self.assertEqual([node.getAttribute("width") for node in parts["flow"]], ["890.0"])
        self.assertEqual(len(parts["handler"]), 1)

    def test_flows_are_limited(self):
        parts = self.parts("--flows", "1")
        self.assertEqual((len(parts.get("flow", [])), len(parts.get("failed", []))), (1, 0))

    def test_long_steps_tell_their_function(self):
        self.assertIn("<title>main</title>", self.draw(EVENTS))

    def test_an_empty_trace_says_why(self):
        self.assertIn("compiled with -DASYNCSTEPS_TRACE=1", self.draw(THREADS))


if __name__ == "__main__":
    unittest.main()
