#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Tests of benchmark/support/turns.py, and of peers in other languages in benchmark/reporter, with programs that are
scripts."""

import json
import os
import re
import stat
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
TURNS = os.path.join(ROOT, "benchmark", "support", "turns.py")
sys.path[:0] = [os.path.join(ROOT, "benchmark", "reporter"), os.path.dirname(TURNS)]

import figures
import text
import turns

# Notes each call in a file, and gives each sample the number of the calls before it as its time.
PROGRAM = """#!{python}
import json, re, sys
NAMES, CONTEXT, LOG = {names!r}, {context!r}, {log!r}
options = dict(each[2:].partition("=")[::2] for each in sys.argv[1:])
chosen = [name for name in NAMES if re.search(options["filter"], name)]
if "list" in options:
    print("".join(name + "\\n" for name in chosen), end="")
    sys.exit()
if "fails" in CONTEXT:
    sys.exit("out of memory")
with open(LOG, "a+") as log:
    log.seek(0)
    calls = len(log.readlines())
    print({label!r}, *sys.argv[1:], file=log)
runs = [{{"name": f"{{name}}/{{i}}/iterations:1/manual_time", "real_time": calls, "time_unit": "ns"}}
        for name in chosen for i in range(int(options.get("repetitions", 2)))]
with open(options["benchmark_out"], "w") as file:
    json.dump({{"context": CONTEXT, "benchmarks": runs}}, file)
"""
OURS = {"cpu": "some CPU", "version:a": "1", "workload:queue/1:1": "ns/element|one to one"}


class Turns(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.log = os.path.join(self.folder, "log")

    def program(self, label, names, context):
        path = os.path.join(self.folder, label)
        with open(path, "w", encoding="utf-8") as file:
            file.write(PROGRAM.format(python=sys.executable, names=names, context=context, log=self.log, label=label))
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
        return path

    def ours(self, names=("queue/1:1/async::queue", "queue/1:1/std (a)")):
        return self.program("ours", names, OURS)

    def peer(self, names=("queue/1:1/channel (Go)",), context=None):
        return self.program("peer", names, context or {"cpu": "another", "version:Go": "2"})

    def run_turns(self, *arguments):
        out = os.path.join(self.folder, "out.json")
        done = subprocess.run([sys.executable, TURNS, "--out", out, *arguments], capture_output=True, text=True,
                              check=False)
        return done, out

    def calls(self):
        with open(self.log, encoding="utf-8") as file:
            return [line.split()[0] for line in file]

    def test_programs_take_turns_and_each_round_begins_with_another(self):
        done, _ = self.run_turns("--rounds", "3", self.ours(), "--peers", self.peer())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.calls(), ["ours", "peer", "peer", "ours", "ours", "peer"])

    def test_each_contestant_of_a_peer_has_its_turn(self):
        self.run_turns("--rounds", "2", self.ours(), "--peers", self.peer(["queue/1:1/a", "queue/1:1/b"]))
        with open(self.log, encoding="utf-8") as file:
            found = re.findall(r"^\w+ --filter=\^\(queue/1:1/(.)", file.read(), re.MULTILINE)
        self.assertEqual(found, ["a", "a", "b", "a", "b", "a"])  # async::queue, a, b, and again from the second on

    def test_samples_are_numbered_by_round(self):
        _, out = self.run_turns("--rounds", "2", self.ours(["queue/1:1/async::queue"]), "--peers", self.peer())
        with open(out, encoding="utf-8") as file:
            found = [run["name"].split("/")[2:4] for run in json.load(file)["benchmarks"]]
        self.assertEqual(found, [["async::queue", "0"], ["channel (Go)", "0"], ["channel (Go)", "1"],
                                 ["async::queue", "1"]])

    def test_the_reporter_shows_all_contestants_of_a_workload_with_ratios_to_ours(self):
        _, out = self.run_turns("--rounds", "3", self.ours(), "--peers", self.peer())
        (workload,), context = figures.read([out])
        self.assertEqual([(each.name, each.values) for each in workload.contestants],
                         [("async::queue", [0, 3, 4]), ("std (a)", [0, 3, 4]), ("channel (Go)", [1, 2, 5])])
        self.assertEqual((workload.unit, workload.title), ("ns/element", "one to one"))
        self.assertAlmostEqual(workload.ratio(workload.find("channel (Go)")), 2 / 3)
        self.assertEqual((context["cpu"], text.versions(context)), ("some CPU", "Go 2; a 1"))

    def test_a_workload_of_one_program_is_run_once_with_its_own_options(self):
        ours = self.ours(["queue/1:1/async::queue", "steps/nested/steps::AsyncSteps"])
        self.run_turns("--rounds", "2", "--alone=--repetitions=4", "--each=--quick", "--ours=--mine", ours, "--peers",
                       self.peer())
        with open(self.log, encoding="utf-8") as file:
            lines = file.read().splitlines()
        self.assertEqual(len(lines), 5)
        self.assertRegex(lines[-1], r"^ours --quick --mine --filter=\^\(steps/nested/.* --repetitions=4$")
        for line in lines[:-1]:
            self.assertIn(" --quick ", line)
            self.assertEqual(" --mine " in line, line.startswith("ours"))
            self.assertTrue(line.endswith(" --repetitions=1"))

    def test_a_filter_leaves_the_other_contestants_out(self):
        _, out = self.run_turns("--rounds", "1", "--filter", "async|Go", self.ours(), "--peers", self.peer())
        (workload,), _ = figures.read([out])
        self.assertEqual([each.name for each in workload.contestants], ["async::queue", "channel (Go)"])

    def test_names_are_taken_literally(self):
        names = ["queue/1:1/a (b) + c.d*[e]", "queue/1:1/a (b) + cxd*[e]"]
        self.assertEqual([name for name in names if re.search(turns.exactly(names[:1]), name)], names[:1])
        self.assertNotIn("\\ ", turns.exactly(names))  # escapes that other languages reject
        self.assertNotIn("\\:", turns.exactly(names))

    def test_without_a_match_the_status_tells(self):
        done, _ = self.run_turns("--filter", "nothing", self.ours(), "--peers", self.peer())
        self.assertEqual(done.returncode, 3)

    def test_a_program_that_fails_is_named_with_its_message(self):
        done, out = self.run_turns("--rounds", "1", self.ours(), "--peers", self.peer(context={"fails": "1"}))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "peer: exit status 1\nout of memory")
        self.assertFalse(os.path.exists(out))


if __name__ == "__main__":
    unittest.main()
