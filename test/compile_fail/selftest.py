#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The checker's own tests.

usage: selftest.py COMPILER [FLAG...]
"""

import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

import check

COMPILER = sys.argv[1:]
MISUSE = '#include <concepts>\ntemplate <std::integral T> void f(T) {}\nint main() { f("text"); }\n'


class Checker(unittest.TestCase):
    def problems(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program.cpp")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            return " ".join(check.problems(path, COMPILER))

    def test_refused_for_the_expected_reason(self):
        self.assertEqual(self.problems("// expect: integral\n// expect: \\bf\\b\n" + MISUSE), "")

    def test_what_compiles_is_a_failure(self):
        self.assertIn("must not", self.problems("// expect: x\nint main() {}\n"))

    def test_an_expectation_is_required(self):
        self.assertIn("no line", self.problems(MISUSE))

    def test_every_expectation_must_be_met(self):
        self.assertIn("lacks: floating", self.problems("// expect: integral\n// expect: floating\n" + MISUSE))

    def test_a_missing_header_is_no_success(self):
        self.assertIn("unrelated", self.problems("// expect: gone\n#include <gone.hpp>\nint main() {}\n"))

    def test_a_syntax_error_is_no_success(self):
        self.assertIn("unrelated", self.problems("// expect: expected\nint main() { f( }\n"))

    def test_the_first_error_must_be_the_expected_one(self):
        self.assertIn("first error", self.problems("// expect: integral\nunheard_of x;\n" + MISUSE))

    def test_with_control_the_program_must_compile(self):
        guarded = "// expect: integral\n" + MISUSE.replace('f("text");', '\n#ifndef CONTROL\nf("text");\n#endif\n')
        self.assertEqual(self.problems(guarded), "")
        self.assertIn("-DCONTROL", self.problems(guarded.replace("#endif", "#endif\nunheard_of x;")))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
