#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Passes ctest's output through and puts what the tests counted, layer by layer, before its closing lines.

usage: ctest ... | figures.py FOLDER_OF_LASTTEST_LOG

Counted are the cases of doctest and unittest, doctest's assertions, the executions of models ("iterations: N"),
libFuzzer's inputs, what examples say of themselves, and lines of a test's own, "count: N THINGS". Equal things of a
layer are added up.
"""

import collections
import os
import re
import signal
import sys

PATTERNS = [
    (re.compile(r"^\[doctest\] test cases:\s*(\d+)"), "cases"),
    (re.compile(r"^\[doctest\] assertions:\s*(\d+)"), "assertions"),
    (re.compile(r"^Ran (\d+) tests? in "), "cases"),
    (re.compile(r"^(\d+) of \d+ snippets do what they show$"), "snippets do what they show"),
    (re.compile(r"^(\d+) files of .*hash"), "files hashed"),
    (re.compile(r"^(\d+) of \d+ pages "), "pages crawled"),
    (re.compile(r" threads: (\d+) replies "), "replies of a server"),
    (re.compile(r"^iterations:\s*(\d+)"), "executions"),
    (re.compile(r"^stat::number_of_executed_units:\s*(\d+)"), "inputs"),
    (re.compile(r"^count: (\d+) (\S.*)$"), None),
]


def figures(log):
    """Layer -> thing -> sum, in the order of their appearance."""
    layers = {}
    things = None
    for line in log:
        line = line.rstrip("\n")
        started = re.match(r"^\d+/\d+ Testing: (\S+)$", line)
        if started:
            things = layers.setdefault(layer_of(started.group(1)), collections.Counter())
            things["tests"] += 1
        elif things is not None:
            for pattern, thing in PATTERNS:
                match = pattern.search(line)
                if match:
                    things[thing or match.group(2)] += int(match.group(1))
    return layers


def layer_of(test):
    """tsan.unit.queue belongs to tsan.unit."""
    return test.rsplit(".", 1)[0]


def report(folder):
    """Prints a line for each layer. ctest may rename its log at any moment, from the first name to the second."""
    for name in ("LastTest.log.tmp", "LastTest.log"):
        try:
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as log:
                found = figures(log)
        except FileNotFoundError:
            continue
        for layer in sorted(found):
            text = ", ".join(f"{count:,} {thing[:-1] if count == 1 and thing == 'tests' else thing}" for thing, count in found[layer].items())
            print(f"  {layer:<18} {text}")
        print()
        return


def main():
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for ctest, whose last words go through here
    for stream in sys.stdin, sys.stdout:
        stream.reconfigure(encoding="utf-8", errors="surrogateescape")  # what a test prints may be any bytes
    for line in sys.stdin:
        if re.match(r"^\d+% tests passed, ", line):
            report(sys.argv[1])
        sys.stdout.write(line)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
