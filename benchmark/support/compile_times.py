# SPDX-License-Identifier: BSL-1.0
"""Measures how long files that use the library take to compile: with headers only, as users of asyncsteps::compiled,
and by import.

usage: python3 benchmark/support/compile_times.py [--compiler CXX] [--clang CXX] [--rounds N] [--publish] [--import-only]

Prints three tables: small programs, beside the same with std::async, at -O0 and -O2; two of them by import, with clang
(left out where there is none); and the inclusion of each public header alone. Each figure is the median of N rounds
(default: 7; of a third as many for the headers) of the compiler's CPU time; a round compiles everything once. --publish
also writes the tables to README.md and to benchmark/NOTES.md; --import-only leaves out the first and the last one.
"""
import argparse
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PROGRAMS = {
    "`std::async`": """
#include <future>
int main() { return std::async([] { return 1; }).get() - 1; }
""",
    "`async::async`": """
#include <async/async.hpp>
int main() { return async::async([] { return 1; }).get() - 1; }
""",
    "`pool.post()`": """
#include <async/threadpool.hpp>
int main() {
  async::threadpool pool;
  return pool.post([] { return 1; }).get() - 1;
}
""",
    "`task_group`": """
#include <async/task_group.hpp>
int main() {
  async::task_group group;
  group.run([] {});
  group.wait();
}
""",
    "`async::queue`": """
#include <async/queue.hpp>
int main() {
  async::queue<int> queue;
  queue.enqueue(1);
  return queue.dequeue().value() - 1;
}
""",
    "a flow of three steps": """
#include <async/threadpool.hpp>
#include <steps/asyncsteps.hpp>
#include <steps/spawn.hpp>
int main() {
  async::threadpool pool;
  steps::post(pool, [](steps::IAsyncSteps& root) {
    root.add([](steps::IAsyncSteps& asi) { asi.success(20, 22); }, [](steps::IAsyncSteps&, steps::ErrorCode) {});
    root.add([](steps::IAsyncSteps& asi, int a, int b) { asi.success(a + b); });
  }).get();
}
""",
}
# What a row is measured with: headers only, asyncsteps::compiled.
WAYS = {"headers only": (), "compiled": ("-DASYNCSTEPS_COMPILED",)}
IMPORTERS = ("`pool.post()`", "a flow of three steps")


def public_headers():
    return [f"{part}/{name}" for part in ("async", "steps") for name in sorted(os.listdir(os.path.join(ROOT, part)))
            if name.endswith(".hpp")]


def seconds(command):
    """The CPU time of a command that must succeed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def measure(commands, rounds):
    """name -> median. The rounds alternate their direction, so that a drift of the machine hits all alike."""
    samples = {name: [] for name in commands}
    for number in range(rounds):
        for name in list(commands)[:: -1 if number % 2 else 1]:
            samples[name].append(seconds(commands[name]))
    return {name: statistics.median(times) for name, times in samples.items()}


def commands_for(compiler, folder):
    """Programs: (row, way, level of optimisation) -> command; headers: (row, way) -> command."""
    def compile_text(name, text, *flags):
        path = os.path.join(folder, name + ".cpp")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return [compiler, "-std=c++20", "-pthread", "-I", ROOT, *flags, "-c", path, "-o", os.path.join(folder, "out.o")]

    programs, headers = {}, {}
    for way, flags in WAYS.items():
        for number, (row, text) in enumerate(PROGRAMS.items()):
            if row == "`std::async`" and flags:
                continue
            for level in ("-O0", "-O2"):
                programs[row, way, level] = compile_text(f"program_{number}", text, *flags, level)
        for number, header in enumerate(public_headers()):
            headers[header, way] = compile_text(f"header_{number}", f"#include <{header}>\n", *flags, "-O0")
    return programs, headers


def module_commands(clang, folder):
    """Commands that make the module, as asyncsteps::module does, and (row, way, level) -> command of files that use it."""
    module = os.path.join(folder, "asyncsteps.pcm")
    base = [clang, "-std=c++20", "-pthread"]
    make = [[*base, "-O2", "-DASYNCSTEPS_IMPLEMENT", "-I", ROOT, "--precompile",
             os.path.join(ROOT, "steps", "asyncsteps.cppm"), "-o", module],
            [*base, "-O2", "-c", module, "-o", os.path.join(folder, "module.o")]]
    programs = {}
    for number, row in enumerate(IMPORTERS):
        included = PROGRAMS[row].strip()
        imported = "import asyncsteps;\n" + re.sub(r"^#include <(?:async|steps)/.*>\n", "", included, flags=re.MULTILINE)
        ways = {way: (included, ("-I", ROOT, *flags)) for way, flags in WAYS.items()}
        ways["import"] = (imported, (f"-fmodule-file=asyncsteps={module}",))
        for way, (text, flags) in ways.items():
            path = os.path.join(folder, f"{way.split()[0]}_{number}.cpp")
            with open(path, "w", encoding="utf-8") as file:
                file.write(text + "\n")
            for level in ("-O0", "-O2"):
                programs[row, way, level] = [*base, level, *flags, "-c", path, "-o", os.path.join(folder, "out.o")]
    return make, programs


def table_of_importers(found):
    lines = ["| seconds to compile, clang | -O0 | -O0, compiled | -O0, import | -O2 | -O2, compiled | -O2, import |",
             "|---|---:|---:|---:|---:|---:|---:|"]
    for row in IMPORTERS:
        cells = [found[row, way, level] for level in ("-O0", "-O2") for way in (*WAYS, "import")]
        lines.append(f"| {row} | " + " | ".join(f"{cell:.1f}" for cell in cells) + " |")
    return lines


def measure_importers(clang, rounds):
    """The table, and its source with what the module itself takes."""
    with tempfile.TemporaryDirectory() as folder:
        make, programs = module_commands(clang, folder)
        once = statistics.median(sum(seconds(command) for command in make) for _ in range(rounds))
        found = measure(programs, rounds)
    return table_of_importers(found), f"The module itself takes {once:.1f} s, once. Medians with {machine(clang)}."


def table_of_programs(found):
    lines = ["| seconds to compile | -O0 | -O0, compiled | -O2 | -O2, compiled |", "|---|---:|---:|---:|---:|"]
    for row in PROGRAMS:
        cells = [found.get((row, way, level)) for level in ("-O0", "-O2") for way in WAYS]
        lines.append(f"| {row} | " + " | ".join("-" if cell is None else f"{cell:.1f}" for cell in cells) + " |")
    return lines


def table_of_headers(found):
    lines = ["| seconds to include | headers only | compiled |", "|---|---:|---:|"]
    for header in public_headers():
        cells = [found[header, way] for way in WAYS]
        lines.append(f"| `{header}` | " + " | ".join(f"{cell:.2f}" for cell in cells) + " |")
    return lines


def publish(path, name, lines):
    path = os.path.join(ROOT, path)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    block = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    if not block.search(text):
        sys.exit(f"{path} has no place for {name}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(block.sub(lambda m: m[1] + "\n" + "\n".join(lines) + "\n\n" + m[2], text))


def machine(compiler):
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout.split("\n")[0]
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = re.search(r"^model name\s*: (.*)$", file.read(), re.MULTILINE)
    return f"{version}, {model[1] if model else 'unknown processor'}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compiler", default=os.environ.get("CXX", "g++"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--clang", default=shutil.which("clang++-19") or shutil.which("clang++"))
    parser.add_argument("--publish", action="store_true")
    parser.add_argument("--import-only", action="store_true")
    chosen = parser.parse_args()
    if chosen.clang:
        importers, source = measure_importers(chosen.clang, chosen.rounds)
        print("\n".join([*importers, "", source, ""]))
        if chosen.publish:
            publish("README.md", "compile times: import", [*importers, "", source])
    if chosen.import_only:
        return
    with tempfile.TemporaryDirectory() as folder:
        programs, headers = commands_for(chosen.compiler, folder)
        found = measure(programs, chosen.rounds) | measure(headers, (chosen.rounds + 2) // 3)
    source = f"Medians with {machine(chosen.compiler)}."
    programs, headers = table_of_programs(found), table_of_headers(found)
    print("\n".join([*programs, "", *headers, "", source]))
    if chosen.publish:
        publish("README.md", "compile times", [*programs, "", source])
        publish("benchmark/NOTES.md", "compile times", [*headers, "", source])


if __name__ == "__main__":
    main()
