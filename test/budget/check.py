#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Counts the instructions of each operation of a program under callgrind and compares them with their budgets.

usage: check.py [--update] TABLE COMPILER PROGRAM

TABLE has a line "compiler: COMPILER" and a line "INSTRUCTIONS  OPERATION" for each budget. An operation that takes a
tenth more than its budget fails, as does one without a budget; one that takes a tenth less, or differs by a twentieth,
is told. Counts depend on the compiler: for another one the check is skipped. --update writes the table from what was
measured.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

TOLERANCE = 0.10
WHAT = "Instructions of one operation, as callgrind counts them; check.py fails on a tenth more."
HEAD = """{what}
To write what is measured: cmake --build .build/release --target budget.update
compiler: {compiler}

"""
LINE = re.compile(r"^ *([\d.]+)  (\S.*)$", re.MULTILINE)


def measure(program):
    """Operation -> instructions for one time, in the order of their measurement."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=" + os.path.join(folder, "out"), program]
        ended = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        if ended.returncode:
            sys.exit(f"{ended.stdout}{ended.stderr}\n{program} failed under valgrind")
        found = {}
        for path in sorted(glob.glob(os.path.join(folder, "out.*")), key=lambda p: int(p.rsplit(".", 1)[1])):
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read()
            name = re.search(r"^desc: Trigger: Client Request: (\d+) (.+)$", text, re.MULTILINE)
            total = re.search(r"^totals: (\d+)", text, re.MULTILINE)
            if name and total:
                found.setdefault(name.group(2), []).append((int(name.group(1)), int(total.group(1))))
    return {name: slope(points) for name, points in found.items()}


def slope(points):
    (small, few), (large, many) = points
    return (many - few) / (large - small)


def judge(measured, budgets, tolerance=TOLERANCE):
    """A line for each operation, and how many of them fail."""
    lines, failed = [], 0
    for name, count in measured.items():
        budget = budgets.get(name)
        if budget is None:
            note, failed = "  has no budget (--update)", failed + 1
        elif count > budget * (1 + tolerance):
            note, failed = f"  FAILED: its budget is {budget:g}, this is {count / budget - 1:+.0%}", failed + 1
        elif count < budget * (1 - tolerance):
            note = f"  could have a lower budget than {budget:g} (--update)"
        else:
            drift = count / budget - 1
            note = f"  {drift:+.0%} of its budget" if abs(drift) >= tolerance / 2 else ""
        lines.append(f"{count:10.1f}  {name}{note}")
    return lines, failed


def settle(table, compiler, update, take, what=WHAT, tolerance=TOLERANCE):
    """Compares what take() measures with the table, or writes the table. Returns how it failed, or a false value."""
    text = ""
    if os.path.exists(table):
        with open(table, encoding="utf-8") as file:
            text = file.read()
    if not update and f"compiler: {compiler}\n" not in text:
        return f"skipped: the budgets are not those of {compiler}"
    measured = take()
    if update:
        with open(table, "w", encoding="utf-8") as file:
            file.write(HEAD.format(what=what, compiler=compiler))
            file.writelines(f"{count:8.1f}  {name}\n" for name, count in measured.items())
        return None
    budgets = {name: float(count) for count, name in LINE.findall(text)}
    lines, failed = judge(measured, budgets, tolerance)
    print("\n".join(lines))
    forgotten = [name for name in budgets if name not in measured]
    for name in forgotten:
        print(f"not measured: {name} (--update)")
    print(f"count: {len(measured) - failed} budgets kept")
    if failed:
        return f"{failed} operations take more than their budgets"
    return "some budgets are of nothing that was measured" if forgotten or not measured else None


def finish(result):
    if result:
        print(result)
    sys.exit(1 if result and not result.startswith("skipped: ") else 0)


def main(arguments):
    update = arguments[:1] == ["--update"]
    if len(arguments) != 3 + update:
        sys.exit(__doc__)
    table, compiler, program = arguments[update:]
    if not shutil.which("valgrind"):
        return "skipped: valgrind not found (Debian: valgrind)"
    return settle(table, compiler, update, lambda: measure(program))


if __name__ == "__main__":
    finish(main(sys.argv[1:]))
