# SPDX-License-Identifier: BSL-1.0
"""Makes tables, SVG plots and a web page from the JSON files that the benchmark programs write.

usage: python3 benchmark/reporter [--out DIR] [--dark] [--assert-ratios] FILE.json...
       python3 benchmark/reporter --publish [FILE.json...]
       python3 benchmark/reporter --check

Prints the table. With --out also writes README.md with the tables in Markdown, table.txt, results.json, the plots and
index.html there. Plots follow the reader's light or dark theme; --dark makes them dark for every reader.
--publish writes them to benchmark/report and fills the blocks of README.md and other texts that show them. Without
files it does so from benchmark/report/results.json: after a change of the texts or of this program.
--check fails unless all that is as --publish would leave it.
--assert-ratios fails unless each workload has a time of ours and a ratio to it for a peer.
"""
import argparse
import os
import sys

sys.dont_write_bytecode = True

import figures
import results
from text import table

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PUBLISHED = "benchmark/report"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--out")
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--assert-ratios", action="store_true")
    parser.add_argument("--publish", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--command", help="what has measured, for the texts")
    parser.add_argument("--root", default=ROOT, help="of the project whose texts are filled")
    options = parser.parse_args()

    if options.check:
        differing = results.differences(options.root, PUBLISHED)
        if differing:
            sys.exit(f"not as python3 benchmark/reporter --publish leaves it: {', '.join(differing)}")
        return
    if not options.files and not options.publish:
        parser.error("which files?")
    workloads, context = figures.read(options.files or [os.path.join(options.root, PUBLISHED, "results.json")])
    if options.command:
        context["command"] = options.command
    print(table(workloads, context))
    if options.out:
        results.write(options.out, workloads, context, options.dark)
    if options.publish:
        results.publish(options.root, PUBLISHED, workloads, context)
    if options.assert_ratios:
        without = [each.name for each in workloads if not any(each.ratio(peer) for peer in each.contestants)]
        if without or not workloads:
            sys.exit("no ratio in: " + ", ".join(without or ["any workload"]))


if __name__ == "__main__":
    main()
