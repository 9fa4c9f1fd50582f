#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The tests of coverage.py, on a project of two headers and two programs.

usage: coverage_test.py COMPILER
"""

import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
FILES = {
    "async/a.hpp": """inline int half(int n) {
  if (n < 0)
    return 0;
  return n / 2;
}
template <class T>
T unused(T value) {
  return value;
}
""",
    "steps/b.hpp": "inline int twice(int n) { return 2 * n; }\n",
    "one.cpp": '#include "async/a.hpp"\n#include "steps/b.hpp"\nint main() { return half(twice(0)); }\n',
    "two.cpp": '#include "async/a.hpp"\nint main() { return half(-1); }\n',
}
COMPILER = "g++"


class Coverage(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        for name, text in FILES.items():
            os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
            with open(self.path(name), "w", encoding="utf-8") as file:
                file.write(text)
        os.mkdir(self.path("tree"))

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def program(self, name):
        command = [COMPILER, "--coverage", f"-I{self.folder.name}", "-o", name, self.path(f"{name}.cpp")]
        subprocess.run(command, cwd=self.path("tree"), check=True)
        subprocess.run([os.path.join(self.path("tree"), name)], check=False)

    def judge(self, *options):
        folder, compiler = os.path.split(COMPILER)
        gcov = os.path.join(folder, compiler.replace("g++", "gcov").replace("c++", "gcov"))
        command = [sys.executable, os.path.join(HERE, "coverage.py"), self.path("tree"), self.path("report")]
        return subprocess.run(
            [*command, "--gcov", gcov, "--root", self.folder.name, *options], capture_output=True, text=True, check=False
        )

    def test_lines_that_no_program_ran_are_named(self):
        self.program("one")
        result = self.judge()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stdout, r"async/a.hpp +3 of +4 +75.0 %  3\n")
        self.assertRegex(result.stdout, r"steps/b.hpp +1 of +1 +100.0 %\n")
        self.assertRegex(result.stdout, r"coverage +4 of +5 +80.0 %\n")
        with open(self.path("report/async_a.hpp.html"), encoding="utf-8") as page:
            self.assertIn('<pre class="no">    3', page.read())

    def test_a_line_is_run_when_one_program_runs_it(self):
        self.program("one")
        self.program("two")
        self.assertRegex(self.judge("--minimum", "100").stdout, r"coverage +5 of +5 +100.0 %\n")

    def test_too_few_lines_fail(self):
        self.program("one")
        self.assertEqual(self.judge("--minimum", "80").returncode, 0)
        result = self.judge("--minimum", "81")
        self.assertEqual(result.returncode, 1)
        self.assertIn("80.0 % of the lines, less than 81 %", result.stderr)

    def test_no_counts_at_all_fail(self):
        self.assertEqual(self.judge().returncode, 1)


if __name__ == "__main__":
    COMPILER = sys.argv.pop(1)
    unittest.main()
