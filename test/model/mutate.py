#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Weakens one memory order of the shipped headers at a time and sees whether a model fails.

usage: mutate.py [--header REGEX] [--compiler COMMAND] [--jobs N]

Each non-relaxed order of an atomic operation in a header that some model includes is replaced by the next weaker ones,
and each light_fence() and heavy_fence() is left out. The models that include the header must notice: an order that no
model needs is too strong, or a model is missing. A tag's comment that says "not modelled: REASON" explains a survivor.
An order in a header that no model includes is told, and fails, too, unless its comment explains that.
"""

import argparse
import concurrent.futures
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lint"))

from checks import OPERATION, TAG
from source import Source, list_files

STRONG = re.compile(r"\bmemory_order(?:_|::)(acquire|release|acq_rel|seq_cst)\b")
FENCE = re.compile(r"\b(?:\w+::)*(?:light|free_light|heavy)_fence\(\)")
FLAGS = ["-std=c++20", "-O1", "-UNDEBUG", "-fno-sized-deallocation"]


def weaker(order, operation):
    if order == "acq_rel":
        return ["acquire", "release"]
    if order == "seq_cst":
        return [{"load": "acquire", "store": "release"}.get(operation, "acq_rel")]
    return ["relaxed"]


class Mutant:
    def __init__(self, source, start, end, text, what):
        line = source.line_of(start)
        self.path, self.start, self.end, self.text = source.path, start, end, text
        comments = source.comments_of_statement(line, source.line_of(end))
        tags = TAG.findall(comments)
        self.name = f"{source.path}:{line + 1}: {what}" + (f" [{tags[0]}]" if tags else "")
        self.explained = "not modelled:" in re.sub(r"\s*//\s*", " ", comments)  # which may break the line there

    def apply(self, text):
        return text[: self.start] + self.text + text[self.end :]


def mutants(source):
    for match in OPERATION.finditer(source.flat_code):
        _, end = source.call_arguments(match.end() - 1)
        for order in STRONG.finditer(source.flat_code, match.end(), end):
            for lower in weaker(order.group(1), match.group(1)):
                what = f"{match.group(1)} {order.group(1)} -> {lower}"
                yield Mutant(source, order.start(1), order.end(1), lower, what)
    for match in FENCE.finditer(source.flat_code):
        if not re.search(r"\bvoid\s+$", source.flat_code[: match.start()]):
            yield Mutant(source, match.start(), match.end(), "static_cast<void>(0)", f"without {match.group()}")


class Laboratory:
    """Compiles and runs the models of a project, over its headers or over headers with a mutation."""

    def __init__(self, root, compiler):
        self.root, self.compiler = root, compiler
        self.models = [path for path in list_files(root) if re.match(r"test/model/[^/]+\.cpp$", path)]
        self.seconds = {}
        self.kills = {}  # (header, model) -> mutants

    def command(self, model, headers):
        folders = [headers, os.path.join(self.root, "test"), os.path.join(self.root, "test", "model")]
        return [*self.compiler, *FLAGS, *(f"-I{folder}" for folder in folders), os.path.join(self.root, model)]

    def headers_of(self, model):
        output = subprocess.run(
            [*self.command(model, self.root), "-MM"], capture_output=True, text=True, check=True
        ).stdout
        files = (path.replace("\\ ", " ") for path in re.split(r"(?<!\\)\s+", output.replace("\\\n", ""))[1:])
        paths = (os.path.relpath(os.path.realpath(path), os.path.realpath(self.root)) for path in files)
        return {path for path in paths if re.match(r"(?:async|steps)/", path)}

    def passes(self, model, headers, folder):
        """Whether the model passes: True, False, or None when it does not compile."""
        program = os.path.join(folder, "model")
        command = [*self.command(model, headers), "-w", "-o", program]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            return None
        limit = None if model not in self.seconds else 10 + 10 * self.seconds[model]
        started = time.monotonic()
        try:
            result = subprocess.run([program], capture_output=True, timeout=limit, check=False).returncode == 0
        except subprocess.TimeoutExpired:
            return False  # it ends when nothing is wrong
        self.seconds.setdefault(model, time.monotonic() - started)
        return result

    def passes_as_it_is(self, model):
        with tempfile.TemporaryDirectory() as folder:
            return self.passes(model, self.root, folder)

    def fate(self, mutant, models):
        """killed, survived, or why it could not be told."""
        with tempfile.TemporaryDirectory() as folder:
            for part in ("async", "steps"):
                if os.path.isdir(os.path.join(self.root, part)):
                    shutil.copytree(os.path.join(self.root, part), os.path.join(folder, part))
            path = os.path.join(folder, mutant.path)
            with open(path, encoding="utf-8") as file:
                text = file.read()
            with open(path, "w", encoding="utf-8") as file:
                file.write(mutant.apply(text))
            for model in self.likeliest_first(mutant.path, models):
                result = self.passes(model, folder, folder)
                if result is None:
                    return f"does not compile with {model}"
                if not result:
                    self.kills[mutant.path, model] = self.kills.get((mutant.path, model), 0) + 1
                    return "killed"
        return "survived"

    def likeliest_first(self, header, models):
        """The model named like the header, then those that have killed mutants of it; the quick ones first."""
        stem = os.path.splitext(os.path.basename(header))[0].removesuffix("_core")

        def key(model):
            named = os.path.splitext(os.path.basename(model))[0] == stem
            return (not named, -self.kills.get((header, model), 0), self.seconds[model])

        return sorted(models, key=key)


def run(root, compiler, pattern="", jobs=1, say=print):
    """Prints each mutant's fate; the number of orders that no model needs, or that could not be judged."""
    laboratory = Laboratory(root, compiler)
    includes = {model: laboratory.headers_of(model) for model in laboratory.models}
    needed = [model for model in laboratory.models if any(re.search(pattern, header) for header in includes[model])]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for model, passes in zip(needed, pool.map(laboratory.passes_as_it_is, needed)):
            if not passes:
                say(f"{model} fails, or does not compile, without any mutation")
                return 1
    work = []
    for header in sorted(set().union(*includes.values())):
        if re.search(pattern, header):
            models = [model for model in laboratory.models if header in includes[model]]
            work += [(mutant, models) for mutant in mutants(Source(root, header))]
    killed = bad = alone = 0
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for (mutant, _), fate in zip(work, pool.map(lambda item: laboratory.fate(*item), work)):
            explained = fate == "survived" and mutant.explained
            killed += fate == "killed"
            bad += fate != "killed" and not explained
            say(f"{mutant.name}: {fate}{', explained' if explained else ''}")
    for header in set(list_files(root)).difference(*includes.values()):
        if re.match(r"(?:async|steps)/.+\.hpp$", header) and re.search(pattern, header):
            unseen = [mutant for mutant in mutants(Source(root, header)) if not mutant.explained]
            count = len({(mutant.start, mutant.end) for mutant in unseen})
            alone += count
            if count:
                say(f"{header}: {count} orders in no model")
    say(f"count: {killed} mutants killed")
    say(f"count: {alone} orders in no model")
    say(f"{len(work)} mutants, {killed} killed, {len(work) - killed - bad} explained, {bad} survived")
    return bad + alone


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--header", default="")
    parser.add_argument("--compiler", default=os.environ.get("CXX", "g++"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    root = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    sys.stdout.reconfigure(line_buffering=True)
    return 1 if run(root, shlex.split(options.compiler), options.header, options.jobs) else 0


if __name__ == "__main__":
    sys.exit(main())
