#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Checks that the module has every public header and exports every public name: all that these headers declare in the
namespaces async and steps and those inside them, but not in a namespace detail.

usage: names.py ROOT MODULE COMPILER [FLAG...]

MODULE is the precompiled steps/asyncsteps.cppm of the source tree ROOT. The compiler, a clang, lists what the headers
declare. A file with a using-declaration for each of these names tells which ones an importer finds. Those that it does
not find, and a file with the headers does, are missing in the module; the others are members and template parameters.
"""

import os
import re
import subprocess
import sys
import tempfile

# Headers that need another library, or connect to one: the module has nothing of them.
OTHER_LIBRARIES = re.compile(r"/interop/(?:asio|binary|futoin|nats\w*|pplx)\.hpp$")
NAME = re.compile(r"(?:async|steps)(?:::\w+)*::(?:\w+|operator *[^\w\s(<][^\w\s(]*|operator<)$")


def public_headers(root):
    """The public headers by the names by which they are included."""
    found = []
    for folder in ("async", "async/interop", "steps", "steps/interop"):
        path = os.path.join(root, folder)
        names = sorted(os.listdir(path)) if os.path.isdir(path) else []
        found += [f"{folder}/{name}" for name in names if name.endswith(".hpp")]
    return [header for header in found if not OTHER_LIBRARIES.search(header)]


def compile_only(command, head, lines, *flags):
    """Compiles `head` and then `lines`; returns the outputs, and the numbers from 0 of the lines that have errors."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "names.cpp")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join([*head, *lines]) + "\n")
        options = ["-fsyntax-only", "-ferror-limit=0", "-fno-spell-checking", "-fno-caret-diagnostics"]
        done = subprocess.run([*command, *options, *flags, path], capture_output=True, text=True, check=False)
    failing = set()
    for at, number in re.findall(r"^(.*?):(\d+):\d+: (?:fatal )?error:", done.stderr, re.MULTILINE):
        if at != path or int(number) <= len(head):
            sys.exit(done.stderr)  # not in what is asked
        failing.add(int(number) - len(head) - 1)
    if done.returncode and not failing:
        sys.exit(done.stderr)
    return done.stdout, failing


def headers_left_out(root, command):
    """The public headers that the module's source does not include, not even by way of others."""
    source = os.path.join(root, "steps", "asyncsteps.cppm")
    done = subprocess.run([*command, "-I", root, "-MM", source], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    included = {os.path.relpath(path, root) for path in done.stdout.replace("\\\n", " ").split()[1:]}
    return [header for header in public_headers(root) if header not in included]


def check(root, module, command):
    """Names that importers find, and names that they miss."""
    includes = [f'#include "{header}"' for header in public_headers(root)]
    headers = [*command, "-I", root]
    listed, _ = compile_only(headers, includes, [], "-Xclang", "-ast-list")
    names = sorted({name for name in listed.split("\n") if NAME.match(name) and "::detail" not in name})

    def using(wanted):
        return [f"namespace line_{number} {{ using ::{name}; }}" for number, name in enumerate(wanted)]

    importer = [*command, f"-fmodule-file=asyncsteps={module}"]
    _, failing = compile_only(importer, ["import asyncsteps;"], using(names))
    unknown = [names[number] for number in sorted(failing)]
    _, members = compile_only(headers, includes, using(unknown))
    missing = [name for number, name in enumerate(unknown) if number not in members]
    return len(names) - len(unknown), missing


def main(arguments):
    if len(arguments) < 3:
        sys.exit(__doc__)
    root, module, *command = arguments
    left_out = headers_left_out(root, command)
    found, missing = check(root, module, command)
    for header in left_out:
        print(f"steps/asyncsteps.cppm does not include {header}")
    for name in missing:
        print(f"steps/asyncsteps.cppm does not export {name}")
    if found == 0:
        print("the module exports no public name")
    print(f"count: {found} names exported")
    return 1 if left_out or missing or found == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
