#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Checks that a program is refused by the compiler, for the right reason and with a message that says so.

usage: check.py FILE COMPILER [FLAG...]

FILE has lines "// expect: REGEX". It passes when
  - with -DCONTROL, if it mentions CONTROL, it compiles: all but the misuse is right;
  - without, it does not compile, and not for want of a header or because of the syntax;
  - every REGEX is found in the compiler's output;
  - the first error, with the notes that belong to it, has one of them: it is what the reader sees first.
"""

import os
import re
import subprocess
import sys

UNRELATED = re.compile(r"fatal error:|No such file|error: expected |error: stray |unrecognized|unknown argument")


def compile_only(command, path, *flags):
    command = [*command, "-fsyntax-only", "-fno-diagnostics-color", *flags, path]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    return result.returncode, result.stderr


def first_error(output):
    """The first error's lines: from the context printed before it to the next error."""
    lines = output.split("\n")
    errors = [number for number, line in enumerate(lines) if re.search(r"\berror:", line)]
    if not errors:
        return ""
    return "\n".join(lines[: errors[1] if len(errors) > 1 else len(lines)])


def read(path):
    """A program and the texts that its message must have."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    return text, re.findall(r"^\s*// expect: (.*\S)\s*$", text, re.MULTILINE)


def problems(path, command):
    text, expected = read(path)
    if not expected:
        return ["no line '// expect: REGEX' in it"]
    if re.search(r"\bCONTROL\b", text):
        failed, output = compile_only(command, path, "-DCONTROL")
        if failed:
            return ["does not compile with -DCONTROL either:", output]
    failed, output = compile_only(command, path)
    if not failed:
        return ["compiles, but must not"]
    found = []
    if UNRELATED.search(output):
        found.append("is refused for an unrelated reason")
    found += [f"the message lacks: {regex}" for regex in expected if not re.search(regex, output)]
    if not any(re.search(regex, first_error(output)) for regex in expected):
        found.append("the first error has none of the expected texts")
    return found + [output] if found else []


def main(arguments):
    if len(arguments) < 2:
        sys.exit(__doc__)
    found = problems(arguments[0], arguments[1:])
    for line in found:
        print(line)
    if not found:
        print(f"count: 1 mistakes refused\ncount: {len(read(arguments[0])[1])} texts in their messages")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
