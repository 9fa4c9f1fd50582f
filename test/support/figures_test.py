#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Tests of figures.py: what it counts in the log of ctest, and how it puts it."""

import io
import os
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stdout
from unittest import mock

sys.dont_write_bytecode = True

import figures

LOG = """\
1/7 Testing: unit.queue
[doctest] test cases:   7 |   7 passed | 0 failed | 0 skipped
[doctest] assertions: 1000 | 1000 passed | 0 failed |
2/7 Testing: tsan.unit.queue
[doctest] test cases:   7 |   7 passed | 0 failed | 0 skipped
3/7 Testing: compile_fail.async_arguments
count: 1 mistakes refused
count: 2 texts in their messages
4/7 Testing: compile_fail.task_group_arguments
count: 1 mistakes refused
count: 3 texts in their messages
5/7 Testing: compile_fail.selftest
Ran 7 tests in 0.112s
6/7 Testing: model.inbox
iterations: 500
iterations: 20
7/7 Testing: example.pool
5 of 5 snippets do what they show
1200 files of /usr/include, the best time of each way to hash them:
57 of 57 pages with 80 requests
300 clients on 4 threads: 1200 replies in 90 ms, 13333 a second
"""


class Figures(unittest.TestCase):
    def test_equal_things_of_a_layer_are_added_up(self):
        found = figures.figures(LOG.splitlines())
        self.assertEqual(found["unit"], {"tests": 1, "cases": 7, "assertions": 1000})
        self.assertEqual(found["tsan.unit"], {"tests": 1, "cases": 7})
        self.assertEqual(found["compile_fail"], {"tests": 3, "mistakes refused": 2, "texts in their messages": 5, "cases": 7})
        self.assertEqual(found["model"], {"tests": 1, "executions": 520})

    def test_examples_are_counted_by_what_they_say(self):
        found = figures.figures(LOG.splitlines())["example"]
        wanted = {"tests": 1, "snippets do what they show": 5, "files hashed": 1200, "pages crawled": 57, "replies of a server": 1200}
        self.assertEqual(found, wanted)

    def test_what_is_printed_before_the_first_test_belongs_to_none(self):
        self.assertEqual(figures.figures(["count: 3 things", "Ran 2 tests in 1s"]), {})

    def test_a_layer_is_a_line(self):
        with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()) as said:
            with open(os.path.join(folder, "LastTest.log"), "w", encoding="utf-8") as log:
                log.write(LOG)
            figures.report(folder)
        self.assertIn("  unit               1 test, 7 cases, 1,000 assertions\n", said.getvalue())
        self.assertEqual(len(said.getvalue().splitlines()), 6)  # one of them empty

    def test_a_log_that_is_renamed_before_it_is_opened_is_read(self):
        def renamed_first(path, *arguments, **more):
            if path.endswith(".tmp"):
                os.rename(path, path[: -len(".tmp")])
            return open(path, *arguments, **more)

        with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()) as said:
            with open(os.path.join(folder, "LastTest.log.tmp"), "w", encoding="utf-8") as log:
                log.write(LOG)
            with mock.patch.object(figures, "open", renamed_first, create=True):
                figures.report(folder)
        self.assertIn("  unit               1 test, 7 cases, 1,000 assertions\n", said.getvalue())

    def test_any_bytes_pass_through(self):
        printed = b"caf\xc3\xa9, and no UTF-8: \xff\xe9\n100% tests passed, 0 tests failed out of 1\n"
        for encoding in ("utf-8:strict", "ascii"):
            with tempfile.TemporaryDirectory() as folder:
                ran = subprocess.run([sys.executable, figures.__file__, folder], input=printed, capture_output=True,
                                     check=False, env={**os.environ, "PYTHONIOENCODING": encoding})
            self.assertEqual((ran.stdout, ran.stderr), (printed, b""))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
