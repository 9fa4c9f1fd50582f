# SPDX-License-Identifier: BSL-1.0
"""Figures as text: a plain table with the range of each figure, and tables in Markdown."""
import datetime
import math
import statistics

from figures import OURS, curves


def number(value):
    """Three significant digits, with thousands separators."""
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{round(value, digits):,.{min(digits, 3)}f}"


def count(value):
    """A short count: 10 M."""
    return f"{value / 1e6:g} M" if value >= 1e6 else f"{value / 1e3:g} k" if value >= 1e3 else f"{value:g}"


def times(ratio):
    return "" if ratio is None else f"{ratio:.2f}x" if ratio < 10 else f"{ratio:,.0f}x"


def notes_of(contestant):
    notes = [f"{name} {number(statistics.median(values))}" for name, values in sorted(contestant.notes.items())]
    if contestant.defects:
        notes.append(f"WRONG in {len(contestant.defects)} of {contestant.taken} samples: {contestant.defects[0]}")
    return ", ".join(notes)


def place_note(workload):
    if workload.place is None:
        return ""
    counted, all_samples = workload.placed
    return f"cores {workload.place}" + ("" if counted == all_samples else f" in {counted} of {all_samples} samples")


def versions(context):
    named = [(key[len("version:"):], value) for key, value in sorted(context.items()) if key.startswith("version:")]
    return "; ".join(f"{name} {value.replace('_', '.')}" for name, value in named)


def machine(context):
    """Lines that name the machine, the compiler and the peers."""
    lines = [f"{context.get('cpu', 'processor unknown')}, {context.get('processors', context.get('num_cpus', '?'))} "
             f"processors usable, {context.get('system', 'system unknown')}",
             f"{context.get('compiler', 'compiler unknown')}, {context.get('date', 'date unknown')}"]
    return lines + ([versions(context)] if versions(context) else [])


def table(workloads, context):
    lines = machine(context) + [""]
    width = max((len(each.name) for workload in workloads for each in workload.contestants), default=10)
    for workload in workloads:
        head = f"{workload.name}  ({workload.title})" if workload.title else workload.name
        place = place_note(workload)
        lines.append(head + (f"  [{place}]" if place else ""))
        lines.append(f"  {'':{width}}  {workload.unit:>14}  {'min .. max':>21}  {'ratio':>8}")
        for each in workload.contestants:
            if each.median is None:
                shown, spread = "-", ""
            else:
                shown, spread = number(each.median), f"{number(min(each.values))} .. {number(max(each.values))}"
            lines.append(f"  {each.name:{width}}  {shown:>14}  {spread:>21}  {times(workload.ratio(each)):>8}"
                         f"  {notes_of(each)}".rstrip())
        lines.append("")
    lines.append("ratio: the contestant's median divided by ours; above 1, ours is faster or smaller")
    return "\n".join(lines)


# --- Markdown --------------------------------------------------------------------------------------------------------

def cell(workload, name):
    """The table cell of a contestant in a workload."""
    each = workload.find(name)
    if each is None:
        return ""
    if each.median is None or each.defects:
        return "wrong results"
    ratio = times(workload.ratio(each))
    shown = f"**{number(each.median)}**" if each.is_ours() else number(each.median)
    return f"{shown} ({ratio})" if ratio else shown


def strong(name):
    return f"**{name}**" if name.startswith(OURS) else name


def names_in(workloads):
    return list(dict.fromkeys(each.name for workload in workloads for each in workload.contestants))


def family_table(family, workloads):
    """A row for each contestant, a column for each workload. Leaves out points of curves."""
    members = [each for each in workloads if each.family == family and not each.curve]
    if not members:
        return ""
    heads = [f"{each.label}<br>{each.unit}" for each in members]
    lines = [f"| {family} | " + " | ".join(heads) + " |", "|---|" + "---:|" * len(members)]
    for name in names_in(members):
        lines.append(f"| {strong(name)} | " + " | ".join(cell(each, name) for each in members) + " |")
    return "\n".join(lines) + "\n"


def curve_tables(family, workloads):
    """A row for each curve and contestant, a column for each x. Curves over powers of ten have a separate table."""
    groups = {}
    for points in curves([each for each in workloads if each.family == family]).values():
        by_ten = all(math.log10(each.curve[1]).is_integer() for each in points)
        groups.setdefault(by_ten, []).append(points)
    tables = []
    for group in groups.values():
        columns = sorted({each.curve[1] for points in group for each in points})
        lines = [f"| {family} | | " + " | ".join(count(x) for x in columns) + " |",
                 "|---|---|" + "---:|" * len(columns)]
        for points in group:
            at = {each.curve[1]: each for each in points}
            head = f"{points[0].title}, {points[0].unit}"
            for i, name in enumerate(names_in(points)):
                cells = [cell(at[x], name) if x in at else "" for x in columns]
                lines.append(f"| {head if i == 0 else ''} | {strong(name)} | " + " | ".join(cells) + " |")
        tables.append("\n".join(lines) + "\n")
    return "\n".join(tables)


def machine_sentence(context):
    """The machine, command, compiler and date of the measurement, and the versions of the peers."""
    try:
        month = datetime.datetime.fromisoformat(context["date"]).strftime("%B %Y")
    except (KeyError, ValueError):
        month = "date unknown"
    return (f"`{context.get('command', 'benchmark/run')}` on {context.get('cpu', 'an unknown processor')}, "
            f"{context.get('processors', '?')} processors usable, {context.get('system', 'system unknown')}, "
            f"{context.get('compiler', 'compiler unknown')}, {month}.\n{versions(context)}.")
