#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Which lines of the headers the tests have run, by what gcov has counted.

usage: coverage.py TREE REPORT [--gcov COMMAND] [--minimum PERCENT] [--root PROJECT]

Reads the counts (*.gcda) below the build tree TREE, prints a line for each header of async/ and steps/ and one for all,
and writes REPORT/index.html with the source of each. Fails when less than PERCENT of all lines were run. A line counts
once, whatever number of programs and instances of a template it is compiled into; one that is compiled nowhere, such as
in a template that nothing uses, has no count.
"""

import argparse
import collections
import concurrent.futures
import html
import json
import os
import re
import subprocess
import sys

HEADER = re.compile(r"(?:async|steps)/.+\.hpp$")
STYLE = "body{font:14px sans-serif}pre{margin:0;font:13px monospace}.no{background:#fcc}.yes{background:#dfd}td{padding:0 1em 0 0}"


def data_files(tree):
    for folder, _, names in os.walk(tree):
        yield from (os.path.join(folder, name) for name in sorted(names) if name.endswith(".gcda"))


def counts_of(path, gcov, root):
    """Header -> line -> count, of one translation unit."""
    command = [*gcov.split(), "--json-format", "--stdout", path]
    output = subprocess.run(command, capture_output=True, check=True).stdout
    found = collections.defaultdict(collections.Counter)
    for document in map(json.loads, output.splitlines()):
        for file in document["files"]:
            header = os.path.relpath(os.path.join(document["current_working_directory"], file["file"]), root)
            if HEADER.match(header):
                for line in file["lines"]:
                    found[header][line["line_number"]] += line["count"]
    return found


def merged(tree, gcov, root):
    total = collections.defaultdict(collections.Counter)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(lambda path: counts_of(path, gcov, root), data_files(tree)):
            for header, lines in found.items():
                total[header].update(lines)
    return total


def percent(run, lines):
    return 100 * run / lines if lines else 100


def spans(numbers):
    """3, 4, 5, 9 -> 3-5 9"""
    parts = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def page(title, body):
    return f'<!doctype html><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style><h1>{title}</h1>{body}\n'


def write_source(folder, root, header, lines):
    """The header with its lines coloured; the name of the page."""
    name = header.replace("/", "_") + ".html"
    rows = []
    with open(os.path.join(root, header), encoding="utf-8") as source:
        for number, text in enumerate(source, 1):
            count = lines.get(number)
            kind = "" if count is None else ' class="yes"' if count else ' class="no"'
            shown = "" if count is None else count
            rows.append(f'<pre{kind}>{number:5} {shown:>12}  {html.escape(text.rstrip())}</pre>')
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(page(header, "".join(rows)))
    return name


def report(total, folder, root, say=print):
    """Prints the table and writes the pages; the share of lines that were run, in percent."""
    os.makedirs(folder, exist_ok=True)
    rows = []
    sums = [0, 0]
    for header in sorted(total):
        lines = total[header]
        missing = sorted(number for number, count in lines.items() if not count)
        run = len(lines) - len(missing)
        sums = [sums[0] + run, sums[1] + len(lines)]
        share = percent(run, len(lines))
        say(f"  {header:<40} {run:>5} of {len(lines):>5}  {share:5.1f} %  {spans(missing)}".rstrip())
        link = write_source(folder, root, header, lines)
        rows.append(f'<tr><td><a href="{link}">{header}</a><td>{run} of {len(lines)}<td>{share:.1f} %</tr>')
    share = percent(*sums)
    with open(os.path.join(folder, "index.html"), "w", encoding="utf-8") as file:
        file.write(page(f"{share:.1f} % of {sums[1]} lines", f"<table>{''.join(rows)}</table>"))
    say(f"  {'coverage':<40} {sums[0]:>5} of {sums[1]:>5}  {share:5.1f} %")
    return share


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree")
    parser.add_argument("report")
    parser.add_argument("--gcov", default="gcov")
    parser.add_argument("--minimum", type=float, default=0)
    parser.add_argument("--root", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    options = parser.parse_args()
    root = os.path.realpath(options.root)
    total = merged(options.tree, options.gcov, root)
    share = report(total, options.report, root)
    if not total:
        print("coverage.py: nothing was counted", file=sys.stderr)
    if share < options.minimum:
        print(f"coverage.py: {share:.1f} % of the lines, less than {options.minimum:g} %", file=sys.stderr)
    return 0 if total and share >= options.minimum else 1


if __name__ == "__main__":
    sys.exit(main())
