#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Compares what the compiler needs for each public header, and for two small programs, with their budgets.

usage: compile_costs.py [--update] TABLE COMPILER PATH_OF_COMPILER

The cost is the memory of g++ without garbage collection, in MB: unlike the time, which grows with it, it is the same in
each run. For another compiler than the table's the check is skipped. --update writes the table from what was measured.
"""

import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "benchmark", "support"))

import check
from compile_times import PROGRAMS, ROOT, WAYS, public_headers

WHAT = "Memory that g++ takes to compile, in MB; compile_costs.py fails on a twentieth more."
TOLERANCE = 0.05
OPTIMISED = ("`pool.post()`", "a flow of three steps")
# The peak of a process's children is that of the largest one so far: each compilation has a parent of its own.
PEAK = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(done.returncode)
"""


def megabytes(compiler, text, *flags):
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "source.cpp")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        command = [compiler, "-std=c++20", "-pthread", "-I", ROOT, "--param", "ggc-min-heapsize=4000000", *flags, source]
        done = subprocess.run([sys.executable, "-c", PEAK, *command, "-o", os.path.join(folder, "out.o")],
                              capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return int(done.stdout.split()[-1]) / 1024


def measure(compiler):
    """Name -> MB."""
    found = {}
    for header in public_headers():
        found[header] = megabytes(compiler, f"#include <{header}>\n", "-O0", "-c")
    for way, flags in WAYS.items():
        for row in OPTIMISED:
            found[f"{row.strip('`')}, {way}, -O2"] = megabytes(compiler, PROGRAMS[row], *flags, "-O2", "-c")
    return found


def main(arguments):
    update = arguments[:1] == ["--update"]
    if len(arguments) != 3 + update:
        sys.exit(__doc__)
    table, compiler, path = arguments[update:]
    return check.settle(table, compiler, update, lambda: measure(path), WHAT, TOLERANCE)


if __name__ == "__main__":
    check.finish(main(sys.argv[1:]))
