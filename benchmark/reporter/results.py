# SPDX-License-Identifier: BSL-1.0
"""Writes the folder of a report, and fills the blocks of texts that show its tables and pictures:

    <!-- results: NAME -->
    …
    <!-- /results -->

NAME: machine, a family of workloads, or one of the pictures below. A block without measurements stays empty.
"""
import html
import os
import re

import bars
import figures
import lines
from drawing import DARK, LIGHT
from text import curve_tables, family_table, machine, machine_sentence, table

OVERVIEW = ["queue/4:4", "bounded/4:4", "pool/futures 2:2", "pool/flood 2", "flows/short", "steps/alive"]
ALT = {"overview": "one workload of each part as bars", "queue": "the unbounded queues' figures as bars",
       "bounded": "the bounded queues' figures as bars", "pool": "the pools' figures as bars",
       "steps": "the figures of flows on one thread as bars", "flows": "the figures of flows on pools as bars",
       "spread": "share of the busiest worker over the number of flows",
       "spread-wait": "the same for flows that wait first", "skew": "duration and share of a skew as bars",
       "disturbed": "lateness of timers and completions as bars",
       "scaling": "time per item over the number of threads", "growth": "time per item over the number of items",
       "latency": "latencies from the median to the tail", "memory": "memory of elements, tasks and flows that wait"}
OWN = {f"{name}.svg" for name in ALT} | {"README.md", "table.txt", "results.json"}  # publish() leaves other files alone
BLOCK = re.compile(r"(?P<open>^<!-- results: (?P<name>[\w-]+) -->\n).*?(?P<close>^<!-- /results -->$)",
                   re.MULTILINE | re.DOTALL)


def plots(workloads, context, dark_only=False):
    """name -> SVG."""
    found = {}
    by_name = {each.name: each for each in workloads}
    chosen = [by_name[name] for name in OVERVIEW if name in by_name]
    if len(chosen) > 1:
        found["overview"] = bars.plot("one workload of each part: shorter is better", chosen, context, dark_only)
    for family in dict.fromkeys(each.family for each in workloads):
        members = [each for each in workloads if each.family == family]
        flat = [each for each in members if not each.curve]
        if flat:
            found[family] = bars.plot(f"{family}: shorter is better", flat, context, dark_only)
        else:
            processors = float(context.get("processors", 0)) if family == "scaling" else None
            found[family] = lines.plot(f"{family}: lower is better", lines.curve_panels(members, processors), context,
                                       dark_only)
    latency = lines.latency_panels(workloads)
    if latency:
        found["latency"] = lines.plot("latency: lower is better", latency, context, dark_only)
    memory = [each for each in workloads if each.unit.startswith("bytes/") and not each.curve]
    if memory:
        found["memory"] = bars.plot("memory: shorter is better", memory, context, dark_only)
    return found


def page(pictures, workloads, context, text_table):
    """A self-contained web page with the plots and the table."""
    shown = "\n".join(f'<figure id="{html.escape(name)}">{svg}</figure>' for name, svg in pictures.items())
    defects = [f"{each.name} in {workload.name}: {each.defects[0]}"
               for workload in workloads for each in workload.contestants if each.defects]
    warning = "".join(f'<p class="wrong">{html.escape(each)}</p>' for each in defects)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>asyncsteps benchmarks</title>
<style>
:root {{ color-scheme: light dark; --back: #f4f6f8; --text: #1f2933; --wrong: {LIGHT['wrong']} }}
@media (prefers-color-scheme: dark) {{ :root {{ --back: #0a0d11; --text: #e4e9ef; --wrong: {DARK['wrong']} }} }}
body {{ margin: 2rem auto; max-width: 1180px; padding: 0 1rem; background: var(--back); color: var(--text);
       font: 15px/1.5 system-ui, sans-serif }}
figure {{ margin: 0 0 1.5rem }} figure svg {{ width: 100%; height: auto }}
pre {{ overflow-x: auto; font-size: 13px }} .wrong {{ color: var(--wrong) }}
</style></head><body>
<h1>asyncsteps benchmarks</h1>
<p>{"<br>".join(html.escape(line) for line in machine(context))}</p>
<p>Bars show medians, thin lines the range of the samples. The ratio is the contestant's median divided by ours.</p>
{warning}
{shown}
<pre>{html.escape(text_table)}</pre>
</body></html>
"""


def readme(pictures, workloads, context):
    """README.md of the folder, with all tables and plots."""
    families = dict.fromkeys(each.family for each in workloads)
    parts = ["# Measurements\n", machine_sentence(context) + "\n",
             "Medians. In brackets: the ratio to ours; above 1, ours is faster or smaller. [table.txt](table.txt) adds the\n"
             "minimum and maximum of each figure. [results.json](results.json) has the data.\n"]
    for name in dict.fromkeys([*pictures, *families]):
        parts += [f"## {name}\n", family_table(name, workloads), curve_tables(name, workloads)]
        if name in pictures:
            parts.append(f"![{ALT.get(name, name)}]({name}.svg)\n")
    return "\n".join(part for part in parts if part)


def files(workloads, context, dark_only=False):
    """The files of the folder: name -> content."""
    pictures = plots(workloads, context, dark_only)
    made = {f"{name}.svg": svg for name, svg in pictures.items()}
    made["README.md"] = readme(pictures, workloads, context)
    made["table.txt"] = table(workloads, context) + "\n"
    made["results.json"] = figures.dump(workloads, context)
    return made


def write(folder, workloads, context, dark_only=False):
    """Writes the folder of a local report, which also has a web page."""
    made = files(workloads, context, dark_only)
    made["index.html"] = page(plots(workloads, context, dark_only), workloads, context, table(workloads, context))
    put(folder, made)


def put(folder, made):
    os.makedirs(folder, exist_ok=True)
    for name, content in made.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(content)


# --- texts -----------------------------------------------------------------------------------------------------------

def fill(text, pictures_at, workloads, context):
    """The text with its blocks filled. pictures_at: path of the folder, relative to the text."""
    pictures = plots(workloads, context)

    def block(found):
        name = found.group("name")
        parts = [machine_sentence(context) + "\n" if name == "machine" else "", family_table(name, workloads),
                 curve_tables(name, workloads)]
        if name in pictures:
            parts.append(f"![{ALT.get(name, name)}]({pictures_at}/{name}.svg)\n")
        body = "\n".join(part for part in parts if part)
        return found.group("open") + (f"\n{body}\n" if body else "") + found.group("close")

    return BLOCK.sub(block, text)


def texts(root):
    """The paths below root of the texts that have blocks."""
    found = []
    for folder, below, names in os.walk(root):
        below[:] = [each for each in below if not each.startswith(".") and each != "build"]
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith(".md"):
                with open(path, encoding="utf-8") as file:
                    if BLOCK.search(file.read()):
                        found.append(os.path.relpath(path, root))
    return sorted(found)


def wanted(root, folder):
    """The expected folder and texts, from the folder's results.json: path below root -> content."""
    workloads, context = figures.read([os.path.join(root, folder, "results.json")])
    made = {os.path.join(folder, name): content for name, content in files(workloads, context).items()}
    for path in texts(root):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            made[path] = fill(file.read(), os.path.relpath(folder, os.path.dirname(path) or "."), workloads, context)
    return made


def differences(root, folder):
    """The paths below root whose content differs from the expected one."""
    found = []
    made = wanted(root, folder)
    for path, content in made.items():
        try:
            with open(os.path.join(root, path), encoding="utf-8") as file:
                if file.read() != content:
                    found.append(path)
        except FileNotFoundError:
            found.append(path)
    there = {os.path.join(folder, name) for name in OWN.intersection(os.listdir(os.path.join(root, folder)))}
    return sorted(found + list(there - made.keys()))


def publish(root, folder, workloads, context):
    """Writes the folder, removes outdated plots and fills the texts."""
    os.makedirs(os.path.join(root, folder), exist_ok=True)
    for name in OWN.intersection(os.listdir(os.path.join(root, folder))):
        os.remove(os.path.join(root, folder, name))
    put(os.path.join(root, folder), files(workloads, context))
    for path, content in wanted(root, folder).items():
        with open(os.path.join(root, path), "w", encoding="utf-8") as file:
            file.write(content)
