# SPDX-License-Identifier: BSL-1.0
"""Shared by all plots: colours for light and dark themes, axes, a sheet of panels."""
import html
import math

from text import machine

LIGHT = {"back": "#ffffff", "text": "#1f2933", "soft": "#66727f", "grid": "#e3e8ee", "ours": "#1d6fd8",
         "peer": "#aab6c4", "spread": "#5b6673", "wrong": "#c2332b"}
DARK = {"back": "#12171d", "text": "#e4e9ef", "soft": "#94a1b0", "grid": "#2a333d", "ours": "#4f9dff",
        "peer": "#56636f", "spread": "#b4bfca", "wrong": "#ff7b72"}

PANEL, GAP, TOP = 570, 20, 62  # width of a panel, gap between panels, height of the sheet's head


def style(dark_only):
    def rules(colors):
        return (f".back{{fill:{colors['back']}}}.text{{fill:{colors['text']}}}.soft{{fill:{colors['soft']}}}"
                f".grid{{stroke:{colors['grid']}}}.ours{{fill:{colors['ours']}}}.peer{{fill:{colors['peer']}}}"
                f".spread{{stroke:{colors['spread']}}}.wrong{{fill:{colors['wrong']}}}"
                f".own{{stroke:{colors['ours']}}}.halo{{stroke:{colors['back']}}}")
    fonts = ("text{font:13px system-ui,'Segoe UI','DejaVu Sans',sans-serif}.small{font-size:11px}"
             ".strong{font-weight:600}.halo{paint-order:stroke;stroke-width:3px;stroke-linejoin:round}")
    if dark_only:
        return fonts + rules(DARK)
    return f"{fonts}{rules(LIGHT)}@media(prefers-color-scheme:dark){{{rules(DARK)}}}"


class Axis:
    """Maps a value to a length: linear from 0, or logarithmic if the values differ by orders of magnitude."""

    def __init__(self, values, whole, is_bars=True):
        positive = [value for value in values if value > 0] or [1.0]
        least, most = min(positive), max(positive)
        self.whole = whole
        self.is_log = most / least > (20 if is_bars else 8)
        if self.is_log and is_bars:  # keeps the shortest bar visible
            self.low = math.floor(math.log10(least) - 0.05)
            self.high = max(math.log10(most), self.low + 1)
            self.ticks = [10.0 ** power for power in range(self.low, math.floor(self.high) + 1)]
        elif self.is_log:
            self.low, self.high = math.log10(least) - 0.15, math.log10(most) + 0.02
            steps = (1, 2, 5) if most / least < 300 else (1,)
            ticks = (10.0 ** power * step for power in range(math.floor(self.low), math.ceil(self.high)) for step in steps)
            self.ticks = [value for value in ticks if self.low <= math.log10(value) <= self.high]
        else:
            self.top = most
            step = 10.0 ** math.floor(math.log10(self.top))
            step = next(step * part for part in (0.2, 0.5, 1, 2) if self.top / (step * part) <= 5)
            self.ticks = [step * i for i in range(int(self.top / step) + 1)]

    def length(self, value):
        if not self.is_log:
            return self.whole * max(0.0, min(value, self.top)) / self.top
        if value <= 0:
            return 0.0
        return self.whole * max(0.0, min(1.0, (math.log10(value) - self.low) / (self.high - self.low)))


def tick(value):
    return f"{value:,.0f}" if value == round(value) else f"{value:g}"


def text(x, y, content, classes="text", anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{classes}" text-anchor="{anchor}">{html.escape(content)}</text>'


def sheet(title, panels, context, dark_only=False):
    """An SVG of panels in two columns. A panel is (height, function that draws it at x, y)."""
    rows = [panels[i:i + 2] for i in range(0, len(panels), 2)]
    heights = [max(height for height, _ in row) for row in rows]
    columns = 2 if len(panels) > 1 else 1
    width = columns * PANEL + (columns + 1) * GAP
    height = TOP + sum(heights) + 12
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
           f"<style>{style(dark_only)}</style>", f'<rect width="{width}" height="{height}" rx="8" class="back"/>',
           text(GAP, 26, title, "text strong"), text(GAP, 44, machine(context)[0], "soft small")]
    y = TOP
    for row, row_height in zip(rows, heights):
        for column, (_, draw) in enumerate(row):
            out.append(draw(GAP + column * (PANEL + GAP), y))
        y += row_height
    return "\n".join(out + ["</svg>\n"])
