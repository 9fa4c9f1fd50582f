#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The tests of check.py."""

import sys
import unittest

sys.dont_write_bytecode = True

import check


class Budgets(unittest.TestCase):
    def test_the_cost_of_an_operation_is_the_slope_between_two_sizes(self):
        self.assertEqual(check.slope([(100, 5000), (300, 9000)]), 20)

    def test_a_tenth_more_than_the_budget_is_allowed_and_not_more(self):
        self.assertEqual(check.judge({"push": 109.9}, {"push": 100})[1], 0)
        lines, failed = check.judge({"push": 110.1}, {"push": 100})
        self.assertEqual(failed, 1)
        self.assertIn("FAILED: its budget is 100, this is +10%", lines[0])

    def test_an_operation_without_a_budget_fails(self):
        self.assertEqual(check.judge({"push": 1, "pop": 1}, {"push": 1})[1], 1)

    def test_an_operation_that_has_become_cheaper_is_told_and_does_not_fail(self):
        lines, failed = check.judge({"push": 80}, {"push": 100})
        self.assertEqual(failed, 0)
        self.assertIn("lower budget", lines[0])


if __name__ == "__main__":
    unittest.main()
