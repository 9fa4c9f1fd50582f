#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Writes all of async/ and steps/, without interop/, as one header: amalgamate.py OUT

A program includes either that header or those of the folders, not both in one translation unit.
"""

import glob
import os
import re
import sys

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
OWN = re.compile(r'#include "((?:async|steps)/[^"]+)"')
STANDARD = re.compile(r"#include (<[^>]+>)")
HEAD = """\
// SPDX-License-Identifier: BSL-1.0
//
// asyncsteps {version}: async/ and steps/ in one header. Written by test/consumer/amalgamate.py; changes belong into the
// headers that it is made from.
#pragma once
"""


class Amalgamation:
    def __init__(self):
        self.seen = set()
        self.standard = set()
        self.body = []

    def add(self, path):
        """A header after those that it includes. What it always includes of the standard library goes to the top; what
        it includes under a condition stays there, but headers of our own, all of which the result holds anyway."""
        if path in self.seen:
            return
        self.seen.add(path)
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            lines = file.read().split("\n")
        kept = []
        depth = 0
        for line in lines:
            code = line.strip()
            own, standard = OWN.match(code), STANDARD.match(code)
            if own:
                self.add(own.group(1))
            elif standard and not depth:
                self.standard.add(standard.group(1))
            elif not re.match(r"#pragma once|// SPDX-", code):
                kept.append(line)
                depth += bool(re.match(r"#\s*if", code)) - bool(re.match(r"#\s*endif", code))
        text = "\n".join(kept).strip("\n")
        if text:
            self.body.append(f"// ---- {path} {'-' * (110 - len(path))}\n\n{text}\n")

    def text(self):
        with open(os.path.join(ROOT, "async/detail/base/config.hpp"), encoding="utf-8") as file:
            version = ".".join(re.findall(r"^#define ASYNCSTEPS_VERSION_\w+ (\d+)$", file.read(), re.MULTILINE))
        includes = "".join(f"#include {name}\n" for name in sorted(self.standard))
        return HEAD.format(version=version) + includes + "\n" + "\n".join(self.body)


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    one = Amalgamation()
    for folder in ("async", "steps"):
        for path in sorted(glob.glob(f"{ROOT}/{folder}/**/*.hpp", recursive=True)):
            if "/interop/" not in path:
                one.add(os.path.relpath(path, ROOT))
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write(one.text())


if __name__ == "__main__":
    main()
