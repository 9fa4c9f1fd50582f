# SPDX-License-Identifier: BSL-1.0
"""The results of a run: workloads, their contestants and figures, from the files of the benchmark programs or from
results.json, which holds the same in short.

A run is called FAMILY/WORKLOAD/CONTESTANT/REPETITION. A figure is the median of the repetitions. A ratio is the
contestant's median divided by ours: above 1, ours is faster or smaller.

Two cores can be near to or far from each other, and a virtual machine moves between cores. Samples that carry the round
trip of a cache line before and after are therefore sorted into near and far, and only the more frequent kind counts.
"""
import json
import re
import statistics

OURS = ("async::", "steps::")
FAR_NS = 200.0  # from this round trip of a cache line on, two cores are far from each other
MIN_SAMPLES = 3  # of the frequent kind; with fewer, all samples of a contestant count


class Contestant:
    def __init__(self, name):
        self.name = name
        self.samples = []  # (value, "near" | "far" | "moved" | None)
        self.notes = {}  # further figures: name -> values
        self.defects = []
        self.taken = 0  # samples, including defective ones

    def is_ours(self):
        return self.name.startswith(OURS)

    def choose(self, kind):
        """Keeps the samples of one kind, or all if there are too few of it."""
        of_kind = [value for value, place in self.samples if place == kind]
        self.values = of_kind if len(of_kind) >= MIN_SAMPLES else [value for value, _ in self.samples]
        self.median = statistics.median(self.values) if self.values else None

    def note(self, name):
        """A further figure, or None."""
        return statistics.median(self.notes[name]) if name in self.notes else None

    def quantiles(self):
        """The latency at each noted quantile: "p50" -> value. Empty if this is not a latency."""
        tail = sorted((name for name in self.notes if re.fullmatch(r"p[\d.]+", name)), key=lambda name: float(name[1:]))
        return {"p50": self.median, **{name: self.note(name) for name in tail}} if tail and self.median else {}

    def as_json(self):
        return {"name": self.name, "values": [] if self.median is None else
                [short(min(self.values)), short(self.median), short(max(self.values))],
                "samples": self.taken, "notes": {name: short(self.note(name)) for name in sorted(self.notes)},
                "defects": self.defects}

    @staticmethod
    def from_json(data):
        made = Contestant(data["name"])
        made.samples = [(value, None) for value in data["values"]]
        made.notes = {name: [value] for name, value in data["notes"].items()}
        made.defects, made.taken = data["defects"], data["samples"]
        return made


class Workload:
    def __init__(self, name, unit, title):
        self.name, self.unit, self.title = name, unit, title
        self.curve = None  # (name, x, unit of x) if it is a point of a curve
        self.place, self.placed = None, (0, 0)
        self.contestants = []

    @property
    def family(self):
        return self.name.split("/")[0]

    @property
    def label(self):
        return self.name.split("/", 1)[1]

    def contestant(self, name):
        """The contestant of that name, added if missing."""
        found = self.find(name)
        if found is None:
            found = Contestant(name)
            self.contestants.append(found)
        return found

    def find(self, name):
        return next((each for each in self.contestants if each.name == name), None)

    def finish(self):
        places = [place for each in self.contestants for _, place in each.samples if place]
        if places:
            self.place = max(("near", "far"), key=places.count)
            self.placed = places.count(self.place), len(places)
        for each in self.contestants:
            each.choose(self.place)
        self.ours = next((each for each in self.contestants if each.is_ours() and each.median is not None), None)

    def ratio(self, contestant):
        """The contestant's figure divided by ours; None if there is no such ratio."""
        if self.ours is None or contestant is self.ours or contestant.median is None or self.ours.median <= 0:
            return None
        return contestant.median / self.ours.median

    def as_json(self):
        return {"name": self.name, "unit": self.unit, "title": self.title, "curve": self.curve, "place": self.place,
                "placed": self.placed, "contestants": [each.as_json() for each in self.contestants]}

    @staticmethod
    def from_json(data):
        made = Workload(data["name"], data["unit"], data["title"])
        made.curve = tuple(data["curve"]) if data["curve"] else None
        made.contestants = [Contestant.from_json(each) for each in data["contestants"]]
        made.finish()
        made.place, made.placed = data["place"], tuple(data["placed"])
        return made


def short(value):
    """Rounded to eight digits: more than the tables show, fewer than a float has."""
    return float(f"{value:.8g}")


def place_of(run):
    if not run.get("line_before") or not run.get("line_after"):
        return None
    far = [run[key] >= FAR_NS for key in ("line_before", "line_after")]
    return "moved" if far[0] != far[1] else "far" if far[0] else "near"


KNOWN = {"name", "run_name", "run_type", "repetitions", "repetition_index", "threads", "iterations", "real_time",
         "cpu_time", "time_unit", "family_index", "per_family_instance_index", "line_before", "line_after", "value",
         "error_occurred", "error_message"}
CONTEXT = re.compile(r"date|cpu|processors|num_cpus|system|compiler|command|version:.*")
TO_NS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}


def read(paths):
    """The workloads of all files in the order of their runs, and the context of the run."""
    workloads, context = {}, {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
        for key, value in data["context"].items():
            if CONTEXT.fullmatch(key):
                context.setdefault(key, value)
        if "workloads" in data:
            workloads.update((each["name"], Workload.from_json(each)) for each in data["workloads"])
        else:
            found = read_runs(data)
            for each in found:
                each.finish()
            workloads.update((each.name, each) for each in found)
    return list(workloads.values()), context


def read_runs(data):
    """The workloads of one program's file."""
    told = data["context"]
    found = {}
    for run in data["benchmarks"]:  # in the order in which they first ran
        name = "/".join(run["name"].split("/")[:2])
        if name not in found:
            unit, title = told.get(f"workload:{name}", "ns|").split("|", 1)
            found[name] = Workload(name, unit, title)
            if f"curve:{name}" in told:
                curve, x, axis = told[f"curve:{name}"].split("|", 2)
                found[name].curve = curve, float(x), axis
    runs = [(run, run["name"].split("/")) for run in data["benchmarks"]]
    for run, (family, label, name, *_) in sorted(runs, key=lambda each: int(each[1][3])):
        contestant = found[f"{family}/{label}"].contestant(name)
        contestant.taken += 1
        if run.get("error_occurred"):
            contestant.defects.append(run.get("error_message", "failed"))
            continue
        value = run.get("value", run["real_time"] * TO_NS[run["time_unit"]])
        contestant.samples.append((value, place_of(run)))
        for key in run.keys() - KNOWN:
            contestant.notes.setdefault(key, []).append(run[key])
    return list(found.values())


def dump(workloads, context):
    """The text of results.json, one line for each contestant."""
    kept = {key: value for key, value in sorted(context.items()) if CONTEXT.fullmatch(key)}
    lines = ['{', f'"context": {json.dumps(kept, indent=1)},', '"workloads": [']
    for i, workload in enumerate(workloads):
        data = workload.as_json()
        contestants = ",\n  ".join(json.dumps(each) for each in data.pop("contestants"))
        comma = "," if i + 1 < len(workloads) else ""
        lines.append(f'{json.dumps(data)[:-1]}, "contestants": [\n  {contestants}]}}{comma}')
    return "\n".join(lines + ["]", "}"]) + "\n"


def curves(workloads):
    """The points of curves, by curve: name -> workloads in the order of x."""
    found = {}
    for each in workloads:
        if each.curve:
            found.setdefault(each.curve[0], []).append(each)
    return {name: sorted(points, key=lambda each: each.curve[1]) for name, points in found.items()}
