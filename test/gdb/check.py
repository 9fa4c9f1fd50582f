#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Looks at program.cpp with gdb and compares what it says: check.py GDB PROGRAM [--optimised]

Optimised programs lose variables; what the commands show must be found without them.
"""

import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

LAMBDA = r"main.*(?:\{lambda.*\}|\$_\d+)"  # as g++ and as clang name them
ASK = r"#0 \(anonymous namespace\)::ask\(steps::IAsyncSteps&\) at program\.cpp:\d+ \[timeout\]"
COMMANDS = {
    "asyncsteps loops": [
        r"^0x\w+ thread 1: async::event_loop with 4 flows, 1 ready, 6 timers$",
        r"^0x\w+ thread \d: async::event_loop with 1 flow, 0 ready, 1 timer$",
        r"^0x\w+ worker 0 of pool 0x\w+: async::event_loop with 0 flows, 0 ready, 0 timers$",
        r"^0x\w+ worker 1 of pool 0x\w+: async::event_loop with 0 flows, 0 ready, 0 timers$",
        r"^0x\w+ flows of pool 0x\w+: async::event_loop with 1 flow, 0 ready, 1 timer$",
    ],
    "asyncsteps pools": [
        r"^0x\w+ threads \d, \d: async::threadpool of 2 threads, 2 live, 0 tasks from outside waiting$"
    ],
    "asyncsteps flows": [
        r"^loop 0x\w+ of thread 1: 4 flows$",
        rf"^  flow 0x\w+: waiting, 1 step deep\n    {ASK}$",
        r"^  flow 0x\w+: waiting, 1 step deep\n    #0 parallel_step \[parallel\]\n"
        r"      branch 0x\w+: waiting, 1 step deep\n        #0 " + LAMBDA + r".* \[timeout\]\n"
        r"      branch 0x\w+: waiting, 1 step deep\n        #0 " + LAMBDA,
        rf"^  flow 0x\w+: waiting, 3 steps deep\n    {ASK}, 1 to come\n"
        r"    #1 " + LAMBDA + r".* \[loop\]\n    #2 " + LAMBDA + r".* \[timeout\], 1 to come$",
        r"^  flow 0x\w+: queued, not begun$",
        r"^loop 0x\w+ of flows of pool 0x\w+: 1 flow\n  flow 0x\w+: waiting, 1 step deep\n    #0 " + LAMBDA + r".* \[timeout\]$",
        rf"^loop 0x\w+ of thread \d: 1 flow\n  flow 0x\w+: waiting, 1 step deep\n    {ASK}$",
    ],
}
VARIABLES = {
    "frame function main": [],
    "print numbers": [r"= async::queue of 10 elements = \{4990, 4991, .*, 4999\}$"],
    "print ended": [r"= async::queue of 1 element, closed = \{1\}$"],
    "print texts": [r'= async::bounded_queue of 2 of 8 = \{"one", "two"\}$'],
    "print closed": [r"= async::bounded_queue of 0 of 4, closed$"],
    "print empty": [r"= async::task, empty$"],
    "print small": [r"= async::task of main.*(?:\{lambda\(\)#1\}|\$_0)$"],
    "print large": [r"= async::task of main.*(?:\{lambda\(\)#2\}|\$_1), in a block$"],
    "print loop": [r"= async::event_loop with 4 flows, 1 ready, 6 timers$"],
    "print pool": [r"= async::threadpool of 2 threads, 2 live, 0 tasks from outside waiting$"],
    "print idle": [r"= steps::AsyncSteps: idle$"],
    "print waiting": [r"= steps::AsyncSteps: waiting, 3 steps deep$"],
    "print fixed": [r"= steps::NitroSteps: waiting, 1 step deep$"],
    "asyncsteps flows waiting": [rf"^flow 0x\w+: waiting, 3 steps deep\n  {ASK}, 1 to come\n.* at program\.cpp:\d+ \[loop\]"],
    "asyncsteps flows tool": [rf"^loop 0x\w+: 1 flow\n  flow 0x\w+: waiting, 1 step deep\n    {ASK}$"],
    "asyncsteps flows numbers": [r"^neither a flow nor an event loop: async::queue<int"],
}
RUNNING = {
    "continue": [r"stop_in_a_step \(\)"],
    "asyncsteps flows": [r"^  flow 0x\w+: running, 1 step deep\n    #0 " + LAMBDA + r" at program\.cpp:\d+$"],
}


def main():
    if len(sys.argv) not in (3, 4) or sys.argv[3:] not in ([], ["--optimised"]):
        sys.exit(__doc__)
    sections = list(COMMANDS.items())
    if len(sys.argv) == 3:
        sections += [*VARIABLES.items(), *RUNNING.items()]
    script = ["set debuginfod enabled off", "set width 0", "set style enabled off", "set disable-randomization off"]
    script += [f"source {HERE}/asyncsteps.py", "break stop_here", "break stop_in_a_step", "run"]
    for number, (command, _) in enumerate(sections):
        # One by one, so that an error of one does not end the script.
        script += [f"echo \\n=={number}==\\n", f"python try: gdb.execute({command!r})\nexcept gdb.error as e: print(e)"]
    arguments = [sys.argv[1], "-q", "-batch", "-nx"]
    for line in script:
        first, _, rest = line.partition("\n")
        arguments += ["-ex", line if not rest else f"python exec({(first[7:] + chr(10) + rest)!r})"]
    environment = dict(os.environ, LC_ALL="C")
    done = subprocess.run([*arguments, sys.argv[2]], capture_output=True, text=True, env=environment, timeout=100)
    output = done.stdout + done.stderr
    if re.search(r"Could not trace|ptrace: Operation not permitted|Python scripting is not supported", output):
        print("skipped: gdb can't run programs here, or has no Python")
        return 0
    wrong = 0
    for number, (command, expected) in enumerate(sections):
        found = re.search(rf"^=={number}==\n(.*?)(?=^==\d+==$|\Z)", done.stdout, re.MULTILINE | re.DOTALL)
        text = found.group(1) if found else ""
        for pattern in expected:
            if not re.search(pattern, text, re.MULTILINE):
                print(f"(gdb) {command}\n{text}\ndoes not say {pattern}\n")
                wrong += 1
    if wrong:
        print(output)
    print(f"count: {sum(len(expected) for _, expected in sections)} answers of the debugger")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
