#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The tests of mutate.py, on a header of three orders and models that look at the orders themselves.

usage: selftest.py [COMPILER]
"""

import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

import mutate

COMPILER = sys.argv[1:2] or ["g++"]
HEADER = """// SPDX-License-Identifier: BSL-1.0
#pragma once
enum memory_order { memory_order_relaxed, memory_order_acquire, memory_order_release, memory_order_acq_rel };
template <class Word> int take(Word& word) {
  return word.load(memory_order_acquire);  // [Q1] acquire, pairs with [Q2]
}
template <class Word> void put(Word& word) {
  word.exchange(1, memory_order_acq_rel);  // [Q2] acq_rel, pairs with [Q1]
}
"""
MODEL = """// SPDX-License-Identifier: BSL-1.0
#include "async/a.hpp"
struct word {
  int seen = 0;
  int load(memory_order order) { return seen = order; }
  int exchange(int, memory_order order) { return seen = order; }
};
int main() {
  word a, b;
  take(a);
  put(b);
  return CONDITION ? 0 : 1;
}
"""


class Mutation(unittest.TestCase):
    def fates(self, condition, header=HEADER, pattern="", **more):
        with tempfile.TemporaryDirectory(prefix="a project ") as root:
            model = MODEL.replace("CONDITION", condition)
            for path, text in {"async/a.hpp": header, "test/model/a.cpp": model, **more}.items():
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(text)
            said = []
            return mutate.run(root, COMPILER, pattern, say=said.append), said

    def test_a_model_that_needs_every_order_kills_every_mutant(self):
        bad, said = self.fates("a.seen == memory_order_acquire && b.seen == memory_order_acq_rel")
        self.assertEqual(bad, 0)
        self.assertEqual(said[-1], "3 mutants, 3 killed, 0 explained, 0 survived")

    def test_an_order_that_no_model_needs_survives(self):
        bad, said = self.fates("b.seen == memory_order_acq_rel")
        self.assertEqual(bad, 1)
        self.assertIn("async/a.hpp:5: load acquire -> relaxed [Q1]: survived", said)

    def test_a_survivor_can_be_explained_at_its_tag(self):
        load = "  return word.load(memory_order_acquire);"
        tag = "// [Q1] acquire, pairs with [Q2]"
        for statement in (f"{load}  {tag}; not modelled: the reason", f"  {tag}; not\n  // modelled: the reason\n{load}"):
            header = HEADER.replace(f"{load}  {tag}", statement)
            bad, said = self.fates("b.seen == memory_order_acq_rel", header)
            self.assertEqual(bad, 0)
            self.assertEqual(said[-1], "3 mutants, 2 killed, 1 explained, 0 survived")

    def test_a_model_that_fails_without_a_mutation_kills_nothing(self):
        bad, said = self.fates("false")
        self.assertEqual(bad, 1)
        self.assertIn("without any mutation", said[-1])

    def test_a_pattern_judges_its_headers_by_the_models_that_include_them(self):
        other = MODEL.replace("async/a.hpp", "async/b.hpp").replace("CONDITION", "false")
        more = {"async/b.hpp": HEADER, "test/model/b.cpp": other}
        needed = "a.seen == memory_order_acquire && b.seen == memory_order_acq_rel"
        self.assertEqual(self.fates(needed, pattern="a.hpp", **more)[1][-1], "3 mutants, 3 killed, 0 explained, 0 survived")
        self.assertIn("b.cpp fails, or does not compile, without any mutation", self.fates(needed, pattern="b.hpp", **more)[1][-1])

    def test_an_order_in_a_header_that_no_model_includes_is_named_unless_it_is_explained(self):
        explained = HEADER.replace("pairs with [Q2]", "pairs with [Q2]; not modelled: the reason")
        needed = "a.seen == memory_order_acquire && b.seen == memory_order_acq_rel"
        more = {"async/b.hpp": HEADER, "async/c.hpp": "int without_orders;", "async/d.hpp": explained}
        bad, said = self.fates(needed, **more)
        self.assertEqual(bad, 3)
        self.assertIn("async/b.hpp: 2 orders in no model", said)
        self.assertIn("async/d.hpp: 1 orders in no model", said)
        self.assertIn("count: 3 orders in no model", said)
        self.assertFalse(any("c.hpp" in line for line in said), said)

    def test_a_fence_is_left_out_where_it_is_called_and_not_where_it_is_defined(self):
        header = HEADER.replace("put(Word& word) {", "put(Word& word) {\n  light_fence();")
        header = header.replace("template", "int fences = 0;\ninline void light_fence() { ++fences; }\ntemplate", 1)
        bad, said = self.fates("fences == 1 && a.seen == 1 && b.seen == 3", header)
        self.assertEqual(bad, 0)
        self.assertTrue(any("without light_fence()" in line and line.endswith("killed") for line in said), said)
        self.assertEqual(said[-1], "4 mutants, 4 killed, 0 explained, 0 survived")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
