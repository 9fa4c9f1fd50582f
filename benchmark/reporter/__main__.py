# SPDX-License-Identifier: BSL-1.0
"""Makes tables, SVG plots and a web page from the JSON files of the benchmark programs.

usage: python3 benchmark/reporter [--out DIR] [--dark] [--assert-ratios] FILE.json...
       python3 benchmark/reporter --publish [FILE.json...]
       python3 benchmark/reporter --check

Prints the table.
--out DIR also writes README.md with the tables in Markdown, table.txt, results.json, the plots and index.html to DIR.
--dark makes plots dark for every reader; without it they follow the reader's theme.
--publish writes the report to benchmark/report and fills the blocks of README.md and other texts that show it. Without
FILE it reads benchmark/report/results.json: use it after a change of the texts or of this program.
--check fails unless the report and the texts are as --publish would leave them.
--assert-ratios fails unless each workload has a figure of ours and a ratio to it for a peer.
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
    parser.add_argument("--command", help="the command that measured, for the texts")
    parser.add_argument("--root", default=ROOT, help="the root of the project whose texts are filled")
    options = parser.parse_args()

    if options.check:
        differing = results.differences(options.root, PUBLISHED)
        if differing:
            sys.exit(f"out of date: {', '.join(differing)} (run python3 benchmark/reporter --publish)")
        return
    if not options.files and not options.publish:
        parser.error("name at least one file, or --publish")
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
