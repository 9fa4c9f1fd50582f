# SPDX-License-Identifier: BSL-1.0
"""Runs programs that share workloads in turn, one sample at a time: ours, a peer, ours, a peer. Each contestant of a
peer has a process for each sample.

usage: python3 benchmark/support/turns.py --out FILE [--rounds N] [--filter REGEX] [--each OPTION]... [--ours OPTION]...
                                          [--alone OPTION]... PROGRAM... [--peers PROGRAM...]

A program lists its names with --list and takes samples with --filter, --repetitions and --benchmark_out. Each round of
a workload begins with another program. A workload of one program is measured as benchmark/run measures it: in a process
that interleaves its contestants.

--out FILE      the samples of all programs, in the format of one of them
--rounds N      samples of each contestant in each shared workload (default: 9)
--filter REGEX  only workloads and contestants whose "WORKLOAD/CONTESTANT" contains a match
--each OPTION   an option for each program
--ours OPTION   an option for programs that are no peers
--alone OPTION  an option for workloads of one program

The exit status is 3 if no workload or contestant matches.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time


class Failure(Exception):
    """A program that failed, with its messages."""


class Program:
    def __init__(self, path, options, is_peer):
        self.path, self.options, self.is_peer = path, options, is_peer

    def run(self, *options):
        """Its output."""
        done = subprocess.run([self.path, *self.options, *options], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=False)
        if done.returncode != 0:
            raise Failure(f"{self.path}: exit status {done.returncode}\n{done.stderr.strip()}")
        return done.stdout

    def names(self, expression):
        """The names "FAMILY/WORKLOAD/CONTESTANT" that contain a match: workload -> names."""
        found = {}
        for name in self.run("--list", f"--filter={expression}").splitlines():
            found.setdefault(name.rsplit("/", 1)[0], []).append(name)
        return found

    def samples(self, chosen, *options):
        """Its file for these names."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.json")
            self.run(f"--filter={exactly(chosen)}", f"--benchmark_out={path}", *options)
            with open(path, encoding="utf-8") as file:
                return json.load(file)


def exactly(chosen):
    """A regular expression for these names, in the syntax that C++, Rust and Go share."""
    return "^(" + "|".join(re.sub(r"[\\.^$*+?()\[\]{}|]", r"\\\g<0>", name) for name in chosen) + ")$"


def in_round(number, run):
    """The run with the round as its repetition: FAMILY/WORKLOAD/CONTESTANT/REPETITION/..."""
    parts = run["name"].split("/")
    return {**run, "name": "/".join([*parts[:3], str(number), *parts[4:]])}


def take_turns(takers, rounds):
    """The files of a workload's samples. takers: programs with their names."""
    for number in range(rounds):
        first = number % len(takers)
        for program, chosen in takers[first:] + takers[:first]:
            found = program.samples(chosen, "--repetitions=1")
            yield {**found, "benchmarks": [in_round(number, run) for run in found["benchmarks"]]}


def measure(programs, rounds, expression, alone, progress):
    """The files of all workloads. alone: options of a program whose workload no other has."""
    takers = {}
    for program in programs:
        for workload, chosen in program.names(expression).items():
            parts = [[name] for name in chosen] if program.is_peer else [chosen]
            takers.setdefault(workload, []).extend((program, part) for part in parts)
    for number, (workload, each) in enumerate(takers.items()):
        progress(number, len(takers), workload)
        if len(each) > 1:
            yield from take_turns(each, rounds)
        else:
            (program, chosen), = each
            yield program.samples(chosen, *alone)


def merged(files):
    """One file for all. What the first says about the machine counts."""
    context, runs = {}, []
    for file in files:
        context = {**file["context"], **context}
        runs += file["benchmarks"]
    return {"context": context, "benchmarks": runs}


def show_progress(begin, done, of, workload):
    left = f"{(time.monotonic() - begin) / done * (of - done):.0f} s left" if done else ""
    print(f"[{done + 1:3}/{of}] {left:>10}  {workload}", file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*")
    parser.add_argument("--peers", nargs="*", default=[])
    parser.add_argument("--out", required=True)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--filter", default="")
    parser.add_argument("--alone", action="append", default=[])
    parser.add_argument("--each", action="append", default=[])
    parser.add_argument("--ours", action="append", default=[])
    options = parser.parse_args()

    programs = [Program(path, options.each + options.ours, False) for path in options.programs]
    programs += [Program(path, options.each, True) for path in options.peers]
    begin = time.monotonic()
    try:
        found = merged(measure(programs, options.rounds, options.filter, options.alone,
                               lambda *at: show_progress(begin, *at)))
    except Failure as failure:
        sys.exit(f"turns.py: {failure}")
    with open(options.out, "w", encoding="utf-8") as file:
        json.dump(found, file, indent=1)
    sys.exit(0 if found["benchmarks"] else 3)


if __name__ == "__main__":
    main()
