#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Tests of names.py, on a small module.

usage: selftest.py COMPILER [FLAG...]
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

import names

COMPILER = sys.argv[1:]
HEADER = """\
#pragma once
namespace async::inline v0_1 {
namespace detail {
struct inner {};
}
template <class Parameter>
class box {
 public:
  struct nested {};
  friend bool operator==(const box&, const box&) { return true; }
};
enum class level { low, high };
template <class T>
concept anything = true;
inline constexpr int limit = 1;
inline int call() { return 1; }
inline box<int> operator+(box<int> a, box<int>) { return a; }
}
"""
MORE = """\
#pragma once
namespace steps::inline v0_1 {
using number = int;
namespace errors {
inline constexpr int Timeout = 1;
}
}
"""
MODULE = """\
module;
#include "async/box.hpp"
#include "steps/more.hpp"
export module asyncsteps;
export namespace async {
using async::box;
using async::level;
using async::anything;
using async::limit;
using async::call;
using async::operator+;
}
export namespace steps {
using steps::number;
namespace errors {
using steps::errors::Timeout;
}
}
"""


class Names(unittest.TestCase):
    def check(self, module, **headers):
        """The number of names that are found, the missing ones, and the headers that are left out."""
        with tempfile.TemporaryDirectory() as root:
            texts = {"async/box.hpp": HEADER, "steps/more.hpp": MORE, "steps/asyncsteps.cppm": module}
            texts |= {f"steps/interop/{name}.hpp": text for name, text in headers.items()}
            for name, text in texts.items():
                path = os.path.join(root, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            built = os.path.join(root, "built.pcm")
            source = os.path.join(root, "steps", "asyncsteps.cppm")
            subprocess.run([*COMPILER, "-I", root, "--precompile", source, "-o", built], check=True)
            return *names.check(root, built, COMPILER), names.headers_left_out(root, COMPILER)

    def test_all_are_exported(self):
        # With the two enumerators. Members, parameters, friends and names in detail are none.
        self.assertEqual(self.check(MODULE), (10, [], []))

    def test_names_that_are_missing_are_found(self):
        exported = re.findall(r"^using (.*);$", MODULE, re.MULTILINE)
        self.assertEqual(len(exported), 8)
        for removed in exported[::2], exported[1::2]:
            module = MODULE
            for name in removed:
                module = module.replace(f"using {name};\n", "")
            found, missing, _ = self.check(module)
            self.assertEqual(sorted({*removed, *missing}), missing)  # all, and enumerators
            self.assertEqual(found + len(missing), 10)

    def test_headers_are_found_by_their_place(self):
        header = "namespace steps::inline v0_1::interop { inline void resume() {} }\n"
        self.assertEqual(self.check(MODULE, coroutine=header)[1:],
                         (["steps::interop::resume"], ["steps/interop/coroutine.hpp"]))
        self.assertEqual(self.check(MODULE, asio="#error needs Boost\n"), (10, [], []))

    def test_an_error_in_a_header_is_an_error(self):
        with self.assertRaises(SystemExit):
            self.check(MODULE, broken="int x = unheard_of;\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
