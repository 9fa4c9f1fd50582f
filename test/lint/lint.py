#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Checks the house rules; --fix repairs what has one right answer: quoted snippets, formatting.

usage: lint.py [--fix] [--no-format] [ROOT]
"""

import os
import re
import shutil
import subprocess
import sys
import textwrap

sys.dont_write_bytecode = True

from checks import HEADER_CHECKS
from source import Source, list_files

TOP_LEVEL = {"async", "steps", "test", "benchmark", "CMakeLists.txt", "README.md", "LICENSE", "CHANGELOG.md"}
SOURCE_FILE = re.compile(r"\.(?:hpp|cpp|cppm|c|h|py|cmake|sh|rs|go|s|toml|mod)$|(?:^|/)CMakeLists\.txt$|(?:^|/)run$|^\.ci/run$")
MOST_LINES = 600
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
FORMATTED = re.compile(r"^(?:async|steps|test|benchmark)/.*\.(?:hpp|cpp|cppm|c|h)$")
SHOWN = {"README.md", "async/README.md", "steps/README.md"}  # whose C++ is compiled
FORMATTER = 19  # versions differ in what they print


class Project:
    def __init__(self, root):
        self.root = root
        self.paths = list_files(root)
        self.headers = {p: Source(root, p) for p in self.paths if re.match(r"(?:async|steps)/.*\.hpp$", p)}
        self.support = {p: Source(root, p) for p in self.paths if re.match(r"(?:test|benchmark)/support/.*\.hpp$", p)}
        self.c_headers = {p: Source(root, p) for p in self.paths if re.match(r"(?:async|steps)/.*\.h$", p)}

    def read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            return file.read()

    def write(self, path, text):
        with open(os.path.join(self.root, path), "w", encoding="utf-8") as file:
            file.write(text)

    def sources(self):
        return (path for path in self.paths if SOURCE_FILE.search(path))


def top_level(project):
    """Nothing stands at the top but the four folders, CMakeLists.txt, the three texts and dotfiles."""
    for name in sorted({path.split("/")[0] for path in project.paths}):
        if name not in TOP_LEVEL and not name.startswith("."):
            yield name, 1, "does not belong at the top level"


def licence(project):
    """Every source file names its licence in its first lines."""
    for path in project.sources():
        if not any("SPDX-License-Identifier: BSL-1.0" in line for line in project.read(path).split("\n")[:3]):
            yield path, 1, "no line 'SPDX-License-Identifier: BSL-1.0' at the start"


def length(project):
    """A file is short enough to be read in one go."""
    for path in project.sources():
        lines = project.read(path).count("\n")
        if lines > MOST_LINES:
            yield path, lines, f"has {lines} lines, more than {MOST_LINES}"


def unfinished(project):
    """Nothing is marked as unfinished."""
    for path in project.paths:
        if SOURCE_FILE.search(path) or path.endswith(".md"):
            for number, line in enumerate(project.read(path).split("\n"), 1):
                match = UNFINISHED.search(line)
                if match:
                    yield path, number, f"{match.group()} is left in the text"


STOP_TOKENS = re.compile(r"\bstd::(?:stop_(?:token|source|callback)|jthread)\b")
LAYERS_OF_ALL_LIBRARIES = re.compile(r"test/(?:unit|stress|fault|example|support)/.*\.[ch]pp$")


def stop_tokens(project):
    """Tests use std::stop_token under `#if defined(__cpp_lib_jthread)`: libc++ has none by default."""
    for path in project.paths:
        if not LAYERS_OF_ALL_LIBRARIES.search(path):
            continue
        conditions = []
        for number, line in enumerate(Source(project.root, path).code, 1):
            directive = re.match(r"\s*#\s*(if\w*|else|elif|endif)\b(.*)", line)
            if directive is None:
                if STOP_TOKENS.search(line) and "__cpp_lib_jthread" not in " ".join(conditions):
                    yield path, number, "uses std::stop_token outside `#if defined(__cpp_lib_jthread)`"
            elif directive.group(1).startswith("if"):
                conditions.append(directive.group(2))
            elif directive.group(1) == "endif":
                conditions = conditions[:-1]
            else:
                conditions[-1:] = [directive.group(2)]


# --- code that texts quote -------------------------------------------------------------------------------------------

BLOCK = re.compile(
    r"(?:^<!-- snippet: (?P<file>[\w./-]+)#(?P<name>[\w-]+) -->\n\n?)?^```(?P<lang>\w*)\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


def region(project, path, name):
    """The lines between // [name] and // [/name], or # ... in scripts, without their common indentation."""
    if path not in project.paths:
        return None
    found = re.search(
        rf"^[ \t]*(?://|#) \[{re.escape(name)}\][ \t]*\n(.*?)^[ \t]*(?://|#) \[/{re.escape(name)}\][ \t]*$",
        project.read(path),
        re.MULTILINE | re.DOTALL,
    )
    return textwrap.dedent(found.group(1)).strip("\n") + "\n" if found else None


def snippets(project):
    """C++ that users are shown is quoted from a file that is compiled: <!-- snippet: FILE#NAME --> above the block."""
    for path in project.paths:
        if not path.endswith(".md"):
            continue
        text = project.read(path)
        marked = 0
        for block in BLOCK.finditer(text):
            number = text.count("\n", 0, block.start()) + 1
            if not block.group("file"):
                if path in SHOWN and block.group("lang") in ("cpp", "c++", "cxx"):
                    yield path, number, "a block of C++ that quotes no compiled file"
                continue
            marked += 1
            source = region(project, block.group("file"), block.group("name"))
            where = f"{block.group('file')}#{block.group('name')}"
            if source is None:
                yield path, number, f"quotes {where}, which does not exist"
            elif source != block.group("body"):
                yield path, number, f"differs from {where} (lint.py --fix copies it)"
        if marked != len(re.findall(r"<!--\s*snippet\b", text)):
            yield path, 1, "a snippet mark that is not '<!-- snippet: FILE#NAME -->' right above a block"


def links(project):
    """What a text links to is there."""
    folders = {os.path.dirname(path) for path in project.paths}
    for path in project.paths:
        if not path.endswith(".md"):
            continue
        # Code is no link, whatever its brackets.
        text = re.sub(r"^```.*?^```$|`[^`\n]*`", lambda code: "\n" * code.group().count("\n"), project.read(path),
                      flags=re.MULTILINE | re.DOTALL)
        for number, line in enumerate(text.split("\n"), 1):
            for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", line):
                to = os.path.normpath(os.path.join(os.path.dirname(path), target))
                if "://" not in target and to not in project.paths and to not in folders:
                    yield path, number, f"links to {target}, which does not exist"


def fix_snippets(project):
    for path in project.paths:
        if path.endswith(".md"):
            text = project.read(path)

            def quote(block):
                source = region(project, block.group("file"), block.group("name")) if block.group("file") else None
                start, end = (at - block.start() for at in block.span("body"))
                return block.group() if source is None else block.group()[:start] + source + block.group()[end:]

            fixed = BLOCK.sub(quote, text)
            if fixed != text:
                project.write(path, fixed)


# --- formatting ------------------------------------------------------------------------------------------------------


def formatter():
    """The command of clang-format in the version whose output the sources have, or None."""
    for name in (f"clang-format-{FORMATTER}", "clang-format"):
        command = shutil.which(name)
        if command:
            said = subprocess.run([command, "--version"], capture_output=True, text=True).stdout
            if re.search(rf"version {FORMATTER}\.", said):
                return command
    return None


def run_formatter(project, *options):
    paths = [os.path.join(project.root, path) for path in project.paths if FORMATTED.match(path)]
    return subprocess.run([formatter(), *options, *paths], capture_output=True, text=True) if paths else None


def formatting(project):
    """Sources are as clang-format leaves them."""
    result = run_formatter(project, "--dry-run", "--Werror")
    if result and result.returncode:
        seen = set()
        for path, number in re.findall(r"^(.*?):(\d+):\d+: (?:error|warning): code should", result.stderr, re.MULTILINE):
            path = os.path.relpath(path, project.root)
            if path not in seen:
                yield path, int(number), "is not formatted (lint.py --fix does it)"
            seen.add(path)
        if not seen:
            yield ".clang-format", 1, result.stderr.strip()


CHECKS = [top_level, licence, length, unfinished, stop_tokens, snippets, links] + HEADER_CHECKS


def main(arguments):
    options = [argument for argument in arguments if argument.startswith("--")]
    folders = [argument for argument in arguments if not argument.startswith("--")]
    if len(folders) > 1 or set(options) - {"--fix", "--no-format"}:
        sys.exit(__doc__)
    root = os.path.abspath(folders[0] if folders else os.path.join(os.path.dirname(__file__), "..", ".."))
    checks = list(CHECKS)
    if "--no-format" not in options and formatter():
        checks.append(formatting)
    project = Project(root)
    if "--fix" in options:
        fix_snippets(project)
        if formatting in checks:
            run_formatter(project, "-i")
        project = Project(root)
    found = 0
    for check in checks:
        for path, line, message in check(project):
            found += 1
            print(f"{path}:{line}: {message} [{check.__name__}]")
    if formatting not in checks and "--no-format" not in options:
        print(f"formatting not checked: clang-format {FORMATTER} not found")
    print(f"count: {len(project.paths)} files")
    print(f"{found} violations" if found else f"{len(checks)} rules hold")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
