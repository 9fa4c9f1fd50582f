# SPDX-License-Identifier: BSL-1.0
"""Line charts: a figure over the amount of work or the number of threads, and latencies from median to tail."""
import functools
import math
import re

from drawing import PANEL, Axis, sheet, text, tick
from figures import OURS, curves
from text import count, names_in, number

LEFT, RIGHT, AREA = 52, 206, 190  # widths beside the lines, their height
HEAD, FOOT, LABEL = 44, 46, 15  # heights: above the lines, below them, of a name
COLORS = ["#e07b39", "#3f9f68", "#a866c4", "#bd951d", "#2e9fb0", "#d2607a", "#8c7461", "#7b8794", "#6f6fd0", "#8aa33c"]


class Lines:
    """A panel with a line for each name: points of (position from 0 to 1, value)."""

    def __init__(self, title, note, marks, below):
        self.title, self.note = title, note
        self.marks = marks  # (position, label) of each mark on the axis
        self.below = below  # the unit of the axis
        self.limit = None  # (position, label) of a vertical line
        self.series = {}

    def height(self):
        return HEAD + max(AREA, LABEL * len(self.series)) + FOOT

    def draw(self, colors, x, y):
        wide = PANEL - LEFT - RIGHT
        high = self.height() - HEAD - FOOT
        left, top, bottom = x + LEFT, y + HEAD, y + HEAD + high
        axis = Axis([value for points in self.series.values() for _, value in points], high,
                    is_bars=False)
        out = [text(x, y + 14, self.title, "text strong"),
               text(x, y + 30, self.note + (", log scale" if axis.is_log else ""), "soft small")]
        for value in axis.ticks:
            at = bottom - axis.length(value)
            out.append(f'<line x1="{left}" x2="{left + wide}" y1="{at:.1f}" y2="{at:.1f}" class="grid"/>')
            out.append(text(left - 8, at + 4, tick(value), "soft small", "end"))
        for position, label in self.marks:
            out.append(text(left + wide * position, bottom + 16, label, "soft small", "middle"))
        out.append(text(left + wide / 2, bottom + 32, self.below, "soft small", "middle"))
        if self.limit:
            at = left + wide * self.limit[0]
            out.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{top}" y2="{bottom}" class="spread" '
                       'stroke-dasharray="2 4"/>')
            out.append(text(at + 4, top + 8, self.limit[1], "soft small"))
        strokes = self.strokes(colors)
        ends, numbers = [], []
        for name, points in reversed(self.series.items()):  # ours last, on top of the others
            places = [(left + wide * position, bottom - axis.length(value)) for position, value in points]
            path = " ".join(f"{px:.1f},{py:.1f}" for px, py in places)
            out.append(f'<polyline points="{path}" fill="none" {strokes[name]}/>')
            dot = 'class="ours"' if is_ours(name) else f'fill="{colors[name]}"'
            out += [f'<circle cx="{px:.1f}" cy="{py:.1f}" r="2.8" {dot}/>' for px, py in places]
            ends.append((places[-1], name))
        if self.series:
            own = next(iter(self.series))  # the first: ours
            for position, value in self.series[own]:
                at = bottom - axis.length(value) - 7
                anchor = "start" if position < 0.01 else "end" if position > 0.99 else "middle"
                numbers.append(text(left + wide * position, max(at, top - 2), number(value), "text small halo", anchor))
        return "\n".join(out + names_beside(ends, strokes, left + wide, top, bottom) + numbers)

    def strokes(self, colors):
        """The line style of each name: the first of ours thick and solid, others of ours dashed."""
        ours = [name for name in self.series if is_ours(name)]
        found = {name: f'stroke="{colors[name]}" stroke-width="1.5"' for name in self.series if name not in ours}
        for i, name in enumerate(ours):
            width = 'stroke-width="2.6"' if i == 0 else f'stroke-width="2" stroke-dasharray="{8 - 2 * i} 3"'
            found[name] = f'class="own" {width}'
        return found


def apart(wanted, low, high):
    """Places near the wanted ones, at least LABEL apart. `wanted` ascends; places that would overlap are centred."""
    groups = []  # [sum of the wanted places, each less its offset in the group; number of places]
    for place in wanted:
        groups.append([place, 1])
        while len(groups) > 1 and groups[-2][0] / groups[-2][1] + LABEL * groups[-2][1] > groups[-1][0] / groups[-1][1]:
            total, size = groups.pop()
            groups[-1][0] += total - LABEL * groups[-1][1] * size
            groups[-1][1] += size
    places = [total / size + LABEL * i for total, size in groups for i in range(size)]
    for i, place in enumerate(places):
        places[i] = max(place, low + LABEL * i, places[i - 1] + LABEL if i else low)
    for i in reversed(range(len(places))):
        places[i] = min(places[i], high if i + 1 == len(places) else places[i + 1] - LABEL)
    return places


def names_beside(ends, strokes, right, top, bottom):
    """The names at the right ends of their lines, without overlap."""
    ends = sorted(ends, key=lambda each: each[0][1])
    places = apart([y for (_, y), _ in ends], top, bottom + 6)
    out = []
    for ((x, y), name), place in zip(ends, places):
        thin = re.sub(r'stroke-(width|dasharray)="[^"]*"', "", strokes[name])
        out.append(f'<polyline points="{x + 4:.1f},{y:.1f} {right + 12:.1f},{place:.1f} {right + 20:.1f},{place:.1f}" '
                   f'fill="none" {thin} opacity="0.7"/>')
        out.append(text(right + 24, place + 4, name, "text small strong" if is_ours(name) else "text small"))
    return out


def is_ours(name):
    return name.startswith(OURS)


def colors_of(panels):
    """A colour for each peer, the same in all panels."""
    peers = list(dict.fromkeys(name for panel in panels for name in panel.series if not is_ours(name)))
    return {name: COLORS[i % len(COLORS)] for i, name in enumerate(peers)}


def plot(title, panels, context, dark_only=False):
    colors = colors_of(panels)
    return sheet(title, [(each.height(), functools.partial(each.draw, colors)) for each in panels], context, dark_only)


def along(xs):
    """A function from x to its position between the minimum (0) and the maximum (1), on a logarithmic scale."""
    low, high = math.log(min(xs)), math.log(max(xs))
    return lambda x: (math.log(x) - low) / (high - low) if high > low else 0.5


def curve_panels(workloads, processors=None):
    """A panel for each curve. `processors` adds a line at that number of threads."""
    panels = []
    for points in curves(workloads).values():
        xs = [each.curve[1] for each in points]
        place = along(xs)
        panel = Lines(points[0].title, f"{points[0].curve[0]}, {points[0].unit}",
                      [(place(x), count(x)) for x in xs], points[0].curve[2])
        if processors and min(xs) <= processors < max(xs):
            panel.limit = place(processors), "processors"
        for name in names_in(points):
            series = [(place(each.curve[1]), each.find(name).median) for each in points
                      if each.find(name) and each.find(name).median is not None and not each.find(name).defects]
            if series:
                panel.series[name] = series
        if panel.series:
            panels.append(panel)
    return panels


def latency_panels(workloads):
    """A panel for each workload with noted quantiles."""
    panels = []
    for workload in workloads:
        found = {each.name: each.quantiles() for each in workload.contestants if each.quantiles() and not each.defects}
        if not found:
            continue
        names = sorted({name for each in found.values() for name in each}, key=lambda name: float(name[1:]))
        place = {name: i / max(1, len(names) - 1) for i, name in enumerate(names)}
        title = (workload.title or workload.name).removesuffix(", median")
        panel = Lines(title, f"{workload.name}, {workload.unit}",
                      [(place[name], name) for name in names], "quantile")
        panel.series = {name: [(place[at], value) for at, value in each.items()] for name, each in found.items()}
        panels.append(panel)
    return panels
