# SPDX-License-Identifier: BSL-1.0
"""Bar charts: the contestants of a workload, each with its ratio to ours."""
import functools

from drawing import Axis, sheet, text, tick
from text import number, place_note, times

LABEL, BARS = 222, 210  # widths of the names and of the bars
ROW, HEAD, FOOT = 21, 40, 30  # heights: a row, the space above the rows, the space below


def panel(workload, x, y):
    """The bar chart of a workload."""
    shown = [each for each in workload.contestants if each.median is not None]
    axis = Axis([each.median for each in shown], BARS)
    left, top = x + LABEL, y + HEAD
    bottom = top + ROW * len(workload.contestants)
    out = [text(x, y + 14, workload.title or workload.name, "text strong"),
           text(x, y + 30, f"{workload.name}, {workload.unit}" + (", log scale" if axis.is_log else "")
                + (f", {place_note(workload)}" if workload.place else ""), "soft small")]
    last = -100.0
    for value in axis.ticks:
        at = left + axis.length(value)
        out.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{top}" y2="{bottom}" class="grid"/>')
        wide = 6.5 * len(tick(value)) + 10
        if at - last > max(30, wide):
            out.append(text(at, bottom + 14, tick(value), "soft small", "middle"))
            last = at
    for i, each in enumerate(workload.contestants):
        middle = top + ROW * i + ROW / 2
        kind = "ours" if each.is_ours() else "peer"
        out.append(text(left - 8, middle + 4.5, each.name, "text strong" if each.is_ours() else "text", "end"))
        if each.median is None:
            out.append(text(left + 4, middle + 4.5, each.defects[0] if each.defects else "no result", "wrong"))
            continue
        length = axis.length(each.median)
        out.append(f'<rect x="{left}" y="{middle - 7:.1f}" width="{max(length, 1.5):.1f}" height="14" rx="2" '
                   f'class="{kind}"/>')
        low, high = (left + axis.length(bound) for bound in (min(each.values), max(each.values)))
        if high - low > 3:
            out.append(f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{middle:.1f}" y2="{middle:.1f}" class="spread"/>')
        ratio = times(workload.ratio(each))
        mark = f'<tspan class="soft">  {ratio}</tspan>' if ratio else ""
        mark += '<tspan class="wrong">  wrong</tspan>' if each.defects else ""
        out.append(f'<text x="{max(left + length, high) + 6:.1f}" y="{middle + 4.5:.1f}" class="text" '
                   f'xml:space="preserve">{number(each.median)}{mark}</text>')
    return "\n".join(out)


def plot(title, workloads, context, dark_only=False):
    """An SVG of the bar charts of the workloads."""
    panels = [(HEAD + ROW * len(each.contestants) + FOOT, functools.partial(panel, each)) for each in workloads]
    return sheet(title, panels, context, dark_only)
