#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Draws a trace of async/trace.hpp as an SVG: timeline.py TRACE.json PICTURE.svg [--from MS] [--to MS] [--flows N]

Each thread has a lane: tasks and callbacks are frames, steps are bars in them, sleeps are thin lines. An arrow leads
from the waking thread to the one it wakes. A diamond marks a stolen task. Below the lanes are the flows that were alive,
each from start to end.
"""
import argparse
import html
import json
import re
import sys

sys.dont_write_bytecode = True

from drawing import DARK, LIGHT, text

WIDTH, LEFT, RIGHT, LANE, HEAD = 1000, 96, 14, 40, 66
LIGHT_PARTS = {"task": "#dfe6ee", "edge": "#8c99a8", "step": "#1d6fd8", "handler": "#c2332b", "park": "#b9c4d0",
               "arrow": "#c77700", "steal": "#8b3fc7", "flow": "#7fb0ea", "failed": "#dd8a84"}
DARK_PARTS = {"task": "#28323d", "edge": "#6b7989", "step": "#4f9dff", "handler": "#ff7b72", "park": "#3d4955",
              "arrow": "#e3a54a", "steal": "#c48bff", "flow": "#2f5f96", "failed": "#9b4a45"}


def style():
    def rules(base, parts):
        return (f".back{{fill:{base['back']}}}.text{{fill:{base['text']}}}.soft{{fill:{base['soft']}}}"
                f".grid{{stroke:{base['grid']}}}.task{{fill:{parts['task']};stroke:{parts['edge']};stroke-width:.6}}"
                f".arrow{{stroke:{parts['arrow']};fill:none}}.head{{fill:{parts['arrow']}}}"
                + "".join(f".{key}{{fill:{parts[key]}}}" for key in ("step", "handler", "park", "steal", "flow", "failed")))
    return ("text{font:13px system-ui,'Segoe UI','DejaVu Sans',sans-serif}.small{font-size:11px}.strong{font-weight:600}"
            + rules(LIGHT, LIGHT_PARTS) + f"@media(prefers-color-scheme:dark){{{rules(DARK, DARK_PARTS)}}}")


class Trace:
    """The visible events between two times, in microseconds."""

    def __init__(self, events, begin, end):
        self.threads = {e["tid"]: e["args"]["name"] for e in events if e["ph"] == "M"}
        timed = [e for e in events if "ts" in e]
        first = min((e["ts"] for e in timed), default=0.0)
        last = max((e["ts"] + e.get("dur", 0.0) for e in timed), default=1.0)
        self.begin = first if begin is None else begin * 1000
        self.end = max(last if end is None else end * 1000, self.begin + 1)
        self.spans = [e for e in timed if e["ph"] == "X" and self.sees(e["ts"], e["ts"] + e["dur"])]
        self.steals = [e for e in timed if e["ph"] == "i" and e["name"] == "steal" and self.sees(e["ts"], e["ts"])]
        starts = {e["id"]: e for e in timed if e["ph"] == "s"}
        links = [(starts[e["id"]], e) for e in timed if e["ph"] == "f" and e["id"] in starts]
        self.wakes = [(a, b) for a, b in links if self.sees(a["ts"], b["ts"]) and a["tid"] != b["tid"]]
        begun = {e["id"]: e for e in timed if e["ph"] == "b"}
        ended = {e["id"]: e for e in timed if e["ph"] == "e"}
        self.flows = []  # (number, start, end, kind of end)
        for number, start in begun.items():
            stop = ended.get(number)
            to, how = (stop["ts"], stop["args"]["by"]) if stop else (last, "success")
            if self.sees(start["ts"], to):
                self.flows.append((number, start["ts"], to, how))
        order = sorted(self.threads, key=lambda t: (not self.threads[t].startswith("worker"), self.threads[t]))
        shown = {e["tid"] for e in self.spans}
        self.lanes = [t for t in order if t in shown]

    def sees(self, start, stop):
        return start <= self.end and stop >= self.begin

    def x(self, time):
        inside = min(max(time, self.begin), self.end)
        return LEFT + (WIDTH - LEFT - RIGHT) * (inside - self.begin) / (self.end - self.begin)


def bar(trace, start, stop, y, height, kind, title=""):
    x, to = trace.x(start), trace.x(stop)
    tip = f"<title>{html.escape(title)}</title>" if title else ""
    tail = f">{tip}</rect>" if tip else "/>"
    return f'<rect x="{x:.1f}" y="{y:g}" width="{max(to - x, 0.7):.1f}" height="{height:g}" class="{kind}"{tail}'


def merged(trace, spans):
    """The spans, joined where the gap between them is invisible."""
    result = []
    for start, stop in sorted(spans):
        if result and trace.x(start) - trace.x(result[-1][1]) < 0.5:
            result[-1][1] = max(result[-1][1], stop)
        else:
            result.append([start, stop])
    return result


def function_of(name):
    """The last named function in the long name of a lambda."""
    plain = re.sub(r"\([^()]*\)|<[^<>]*>| const", "", name)
    parts = [part for part in plain.split("::") if part and not part.startswith(("{", "<", "("))]
    return "::".join(parts[-2:]) or name


def lane(trace, tid, y):
    """The lane of a thread: sleeps, tasks, steps and steals."""
    spans = [e for e in trace.spans if e["tid"] == tid]

    def of(*kinds):
        return [(e["ts"], e["ts"] + e["dur"]) for e in spans if e.get("cat", e["name"]) in kinds]

    out = [text(LEFT - 8, y + LANE / 2 + 4, trace.threads[tid], "text small", "end")]
    out += [bar(trace, *span, y + LANE / 2 - 1.5, 3, "park") for span in merged(trace, of("park"))]
    out += [bar(trace, *span, y + 8, LANE - 16, "task") for span in merged(trace, of("task", "callback"))]
    out += [bar(trace, *span, y + 12, LANE - 24, "step") for span in merged(trace, of("step"))]
    out += [bar(trace, *span, y + 12, LANE - 24, "handler") for span in merged(trace, of("handler"))]
    # Wide steps have their function as a tooltip.
    for e in spans:
        width = trace.x(e["ts"] + e["dur"]) - trace.x(e["ts"])
        if e.get("cat") == "step" and width > 24:
            out.append(bar(trace, e["ts"], e["ts"] + e["dur"], y + 12, LANE - 24, "step", function_of(e["name"])))
    for e in trace.steals:
        if e["tid"] == tid:
            x, middle = trace.x(e["ts"]), y + 5
            out.append(f'<path d="M{x:.1f} {middle - 5:g}l4 5-4 5-4-5z" class="steal"/>')
    return out


def arrows(trace, tops):
    out = []
    for start, stop in trace.wakes:
        if start["tid"] in tops and stop["tid"] in tops:
            y1, y2 = tops[start["tid"]] + LANE / 2, tops[stop["tid"]] + LANE / 2
            y1, y2 = (y1 + 8, y2 - 10) if y1 < y2 else (y1 - 8, y2 + 10)
            x, down = trace.x(stop["ts"]), 4 if y1 < y2 else -4
            out.append(f'<path d="M{trace.x(start["ts"]):.1f} {y1:g}L{x:.1f} {y2:g}" class="arrow"/>'
                       f'<path d="M{x:.1f} {y2 + down:g}l-2.5 {-down}h5z" class="head"/>')
    return out


def legend(used):
    entries = [("task", "task, callback"), ("step", "step"), ("handler", "error handler"), ("park", "asleep"),
               ("head", "wake-up"), ("steal", "stolen"), ("flow", "flow"), ("failed", "flow ended by an error")]
    out, x = [], LEFT
    for kind, name in entries:
        if f'class="{kind}"' not in used:
            continue
        out.append(f'<rect x="{x}" y="37" width="11" height="11" rx="2" class="{kind}"/>')
        out.append(text(x + 16, 46.5, name, "soft small"))
        x += 34 + 6.3 * len(name)
    return out


def picture(trace, most_flows, title):
    bottom = HEAD + LANE * len(trace.lanes)
    flows = sorted(trace.flows, key=lambda flow: flow[1])[:most_flows]
    pitch = min(7.0, max(2.5, 300 / max(len(flows), 1)))
    below = bottom + (pitch * len(flows) + 26 if flows else 0)
    out = []
    span = trace.end - trace.begin
    step = next(s * 10 ** p for p in range(0, 9) for s in (1, 2, 5) if span / (s * 10 ** p) <= 10)
    tick = -(-trace.begin // step) * step
    while tick <= trace.end:
        x = trace.x(tick)
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{HEAD}" y2="{below:g}" class="grid"/>')
        out.append(text(min(x, WIDTH - 30), HEAD - 4, f"{tick / 1000:g} ms", "soft small", "middle"))
        tick += step
    tops = {tid: HEAD + LANE * i for i, tid in enumerate(trace.lanes)}
    for tid, y in tops.items():
        out += lane(trace, tid, y)
    out += arrows(trace, tops)
    if flows:
        y = bottom + 20
        out.append(text(LEFT - 8, y + 8, f"{len(flows)} flows", "text small", "end"))
        for i, (_, start, stop, how) in enumerate(flows):
            out.append(bar(trace, start, stop, y + pitch * i, pitch * 0.7, "flow" if how == "success" else "failed"))
    drawn, height = "\n".join(out), int(below + 14)
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">',
            f"<style>{style()}</style>", f'<rect width="{WIDTH}" height="{height}" rx="8" class="back"/>',
            text(LEFT, 24, title, "text strong"), *legend(drawn)]
    return "\n".join([*head, drawn, "</svg>\n"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace")
    parser.add_argument("picture")
    parser.add_argument("--from", dest="begin", type=float, metavar="MS")
    parser.add_argument("--to", dest="end", type=float, metavar="MS")
    parser.add_argument("--flows", type=int, default=100, metavar="N", help="draw at most N flows (default: 100)")
    parser.add_argument("--title", default="")
    options = parser.parse_args()
    with open(options.trace, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    trace = Trace(events, options.begin, options.end)
    if not trace.lanes:
        sys.exit("timeline.py: no events in that time (is the program compiled with -DASYNCSTEPS_TRACE=1?)")
    with open(options.picture, "w", encoding="utf-8") as file:
        file.write(picture(trace, options.flows, options.title or options.trace))


if __name__ == "__main__":
    main()
