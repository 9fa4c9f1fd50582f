#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Compiles and links programs for a system that nothing here runs, with zig, which brings its headers and libraries.

usage: check.py TARGET MACHINE FORMAT COMPILER ROOT OUT SOURCE...

TARGET is zig's name of the system. Each program must be an executable of that FORMAT (Mach-O or ELF) for MACHINE, as
file headers number it.
"""

import os
import struct
import subprocess
import sys

FLAGS = "-std=c++20 -O1 -Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wold-style-cast -Werror".split()


def machine_of(path, form):
    """The number of the machine in the header of an executable; None: it is not of the format."""
    with open(path, "rb") as file:
        head = file.read(20)
    if form == "Mach-O":
        magic, machine = struct.unpack("<II", head[:8])
        return machine if magic == 0xFEEDFACF else None
    return struct.unpack("<H", head[18:20])[0] if head[:4] == b"\x7fELF" else None


def main(arguments):
    if len(arguments) < 7:
        sys.exit(__doc__)
    target, machine, form, compiler, root, out, *sources = arguments
    os.makedirs(out, exist_ok=True)
    for source in sources:
        program = os.path.join(out, os.path.splitext(os.path.basename(source))[0])
        if os.path.exists(program):
            os.remove(program)
        command = [compiler, "-target", target, *FLAGS, "-I", root, "-I", os.path.join(root, "test"), source, "-o", program]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode or done.stderr.strip():
            print(f"{source} for {target}:\n{done.stderr}")
            return 1
        found = machine_of(program, form)
        if found != int(machine, 0):
            print(f"{program} is not an executable of {target}: {form}, {found}")
            return 1
    print(f"count: {len(sources)} programs linked for systems that nothing here runs")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
