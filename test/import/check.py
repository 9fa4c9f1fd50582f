#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Builds the module asyncsteps as users without CMake do, and programs that import it.

usage: check.py module ROOT WORK COMPILER [FLAG...]
       check.py program NAME ROOT WORK SOURCE... -- COMPILER [FLAG...]

"module" writes WORK/asyncsteps.pcm and WORK/asyncsteps.o from steps/asyncsteps.cppm of the source tree ROOT, with the
functions of asyncsteps::compiled in it. "program" compiles SOURCES of test/import, which import the module, include
headers, or do both, links them as WORK/NAME, and runs it. The compiler is a clang; a warning is an error.
"""

import os
import subprocess
import sys

STRICT = "-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wold-style-cast -Werror".split()


def execute(*command):
    done = subprocess.run(command, check=False)
    if done.returncode:
        sys.exit(f"exit code {done.returncode}: {' '.join(command)}")


def build_module(root, work, *compiler):
    os.makedirs(work, exist_ok=True)
    module = os.path.join(work, "asyncsteps.pcm")
    source = os.path.join(root, "steps", "asyncsteps.cppm")
    execute(*compiler, *STRICT, "-DASYNCSTEPS_IMPLEMENT", "-I", root, "--precompile", source, "-o", module)
    execute(*compiler, "-c", module, "-o", os.path.join(work, "asyncsteps.o"))
    print("count: 1 modules built")


def run_program(name, root, work, sources, *compiler):
    objects = [os.path.join(work, "asyncsteps.o")]
    for source in sources:
        objects.append(os.path.join(work, f"{name}_{os.path.basename(source)}.o"))
        execute(*compiler, *STRICT, "-DASYNCSTEPS_COMPILED", f"-fmodule-file=asyncsteps={work}/asyncsteps.pcm", "-I", root,
                "-I", os.path.join(root, "test"), "-c", os.path.join(root, "test", "import", source), "-o", objects[-1])
    program = os.path.join(work, name)
    execute(*compiler, *objects, "-o", program)
    execute(program)


def main(arguments):
    if arguments[:1] == ["module"] and len(arguments) >= 4:
        build_module(*arguments[1:])
    elif arguments[:1] == ["program"] and "--" in arguments:
        end = arguments.index("--")
        name, root, work, *sources = arguments[1:end]
        run_program(name, root, work, sources, *arguments[end + 1 :])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
