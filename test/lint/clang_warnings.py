#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Compiles programs with all warnings of clang but a few groups; a warning about the headers is an error.

usage: clang_warnings.py CLANG++ ROOT SOURCE...

The sources instantiate the templates; what clang says of themselves is not asked.

g++'s -Weffc++ is left out. It has two hundred warnings, of two rules that cannot be chosen one by one: that a class with
a pointer declares no copy constructor, also where its move constructor, a member or a base deletes it; and that a
constructor does not name members whose default constructors are meant.
"""

import os
import re
import subprocess
import sys
import tempfile

LEFT_OUT = {
    "about older standards": "c++98-compat c++98-compat-pedantic pre-c++14-compat pre-c++17-compat pre-c++20-compat c++20-compat",
    "about layouts": "padded",
    "about every pointer that has an index": "unsafe-buffer-usage",
    "about every class with virtual functions in a header": "weak-vtables",
    "about std::lock_guard of libstdc++": "ctad-maybe-unsupported",
    "about what lasts until the process ends, on purpose": "exit-time-destructors global-constructors",
    "about functions of libstdc++ that are overridden": "reserved-identifier",
    "against each other, and against a default": "switch-default switch-enum",
}
FLAGS = ["-std=c++20", "-fno-color-diagnostics", "-Weverything"]
FLAGS += ["-Wno-" + name for names in LEFT_OUT.values() for name in names.split()]
WARNING = re.compile(r"^(?:\S*/)?((?:async|steps)/\S+\.hpp):(\d+):\d+: (?:warning|error): (.*)$", re.MULTILINE)


PRECOMPILED = "#include \"async/async.hpp\"\n#include \"steps/steps.hpp\"\n"  # twice as fast
MACROS = re.compile(r"^ *# *define ", re.MULTILINE)


def warnings_of(compiler, root, source, arguments):
    """What the compiler says of headers under async/ and steps/; raises if the program does not compile."""
    command = [compiler, *FLAGS, "-I", root, "-I", os.path.join(root, "test"), *arguments, source]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    if done.returncode:
        raise RuntimeError(f"{source} does not compile:\n{done.stderr}")
    return [match.group(0) for match in WARNING.finditer(done.stderr)]


def has_macros(source):
    with open(source, encoding="utf-8") as file:
        return MACROS.search(file.read()) is not None


def main(arguments):
    if len(arguments) < 3:
        sys.exit(__doc__)
    compiler, root, *sources = arguments
    with tempfile.TemporaryDirectory() as folder:
        header = os.path.join(folder, "library.hpp")
        precompiled = header + ".pch"
        with open(header, "w", encoding="utf-8") as file:
            file.write(PRECOMPILED)
        found = set(warnings_of(compiler, root, header, ["-x", "c++-header", "-o", precompiled]))
        for source in sources:
            use = [] if has_macros(source) else ["-include-pch", precompiled]
            found.update(warnings_of(compiler, root, source, ["-fsyntax-only", *use]))
    found = sorted(found)
    print("\n".join(found))
    print(f"count: {len(sources)} programs compiled with all warnings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
