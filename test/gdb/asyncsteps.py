# SPDX-License-Identifier: BSL-1.0
"""Pretty-printers and commands of gdb for asyncsteps: (gdb) source test/gdb/asyncsteps.py

Shows queues with what is in them, tasks with what they call, event loops, pools and flows. Commands:

  asyncsteps loops         the event loops that threads are in, and those of the pools' workers and flows
  asyncsteps flows [EXPR]  the flows of these loops, or of the loop or flow EXPR, each with its stack of steps
  asyncsteps pools         the thread pools whose threads there are
"""

import os
import re
import sys

import gdb
import gdb.printing

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import layout
from layout_basics import QueueWords, load, plain, symbol_at

MOST = 200  # elements of a queue that are shown


class Queue:
    """async::queue<T>."""

    def __init__(self, value):
        self.value = value
        self.core = value["core_"]
        self.element = value.type.strip_typedefs().template_argument(0)

    def to_string(self):
        words = QueueWords(self.core, self.element)
        size = words.size()
        closed = ", closed" if words.is_closed() else ""
        return f"async::queue of {size} element{'' if size == 1 else 's'}{closed}"

    def children(self):
        words = QueueWords(self.core, self.element)
        for number, element in enumerate(words.elements()):
            if number == MOST:
                return
            yield f"[{number}]", element

    def display_hint(self):
        return "array"


class BoundedQueue:
    """async::bounded_queue<T>."""

    def __init__(self, value):
        self.ring = value["core_"]
        self.head = load(self.ring["head_"])
        tail = load(self.ring["tail_"])
        self.closed = tail >> 63 != 0
        self.tail = tail & ((1 << 63) - 1)
        self.mask = int(self.ring["mask_"])

    def to_string(self):
        closed = ", closed" if self.closed else ""
        return f"async::bounded_queue of {max(0, self.tail - self.head)} of {self.mask + 1}{closed}"

    def children(self):
        element = self.ring.type.strip_typedefs().template_argument(0)
        for number, ticket in enumerate(range(self.head, min(self.tail, self.head + MOST))):
            slot = self.ring["slots_"][ticket & self.mask]
            turn = load(slot["turn"])
            if turn & 3 == 1:  # full
                yield f"[{number}]", slot["storage"].address.cast(element.pointer()).dereference()

    def display_hint(self):
        return "array"


class Task:
    """async::task."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        operations = self.value["operations_"]
        if not operations:
            return "async::task, empty"
        symbol = symbol_at(int(operations)) or "?"
        held = re.search(r"(inline|block)_operations<(.*)>$", symbol)
        if held is None:
            return f"async::task with {plain(symbol)}"
        where = "" if held.group(1) == "inline" else ", in a block"
        return f"async::task of {plain(held.group(2))}{where}"


class EventLoop:
    """async::event_loop."""

    def __init__(self, value):
        self.core = value["core_"].dereference()

    def to_string(self):
        return layout.describe_loop(self.core)


class Threadpool:
    """async::threadpool."""

    def __init__(self, value):
        self.core = value["core_"]

    def to_string(self):
        return layout.describe_pool(self.core)


class Flow:
    """steps::AsyncSteps, NitroSteps and the `asi` of a step."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        flow = self.value["flow_"]
        name = plain(str(self.value.type.strip_typedefs().unqualified())).split("<")[0]
        return f"{name} of no flow" if not flow else f"{name}: {layout.FlowView(flow.dereference()).state()}"


class ErrorCode:
    """steps::ErrorCode."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        return self.value["text_"].string() if self.value["text_"] else ""

    def display_hint(self):
        return "string"


PRINTERS = [
    (r"^async::queue<.*>$", Queue),
    (r"^async::bounded_queue<.*>$", BoundedQueue),
    (r"^async::task$", Task),
    (r"^async::event_loop$", EventLoop),
    (r"^async::threadpool$", Threadpool),
    (r"^steps::(AsyncSteps|IAsyncSteps|NitroSteps<.*>)$", Flow),
    (r"^steps::ErrorCode$", ErrorCode),
]


class Printers:
    name = "asyncsteps"
    enabled = True

    def __init__(self):
        self.subprinters = None

    def __call__(self, value):
        kind = value.type
        if kind.code == gdb.TYPE_CODE_REF:
            kind = kind.target()
            value = value.referenced_value()
        name = kind.strip_typedefs().unqualified().name
        for pattern, printer in PRINTERS if name else ():
            if re.match(pattern, plain(name)):
                return printer(value)
        return None


class Commands(gdb.Command):
    """Looks into asyncsteps: asyncsteps loops, asyncsteps flows [LOOP-OR-FLOW], asyncsteps pools."""

    def __init__(self):
        super().__init__("asyncsteps", gdb.COMMAND_DATA, prefix=True)


class Loops(gdb.Command):
    """Shows the event loops that threads are in, and those of the pools' workers and flows."""

    def __init__(self):
        super().__init__("asyncsteps loops", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        count = 0
        for where, core in layout.loops():
            count += 1
            print(f"{core['loop_']} {where}: {layout.describe_loop(core)}")
        if count == 0:
            print("No thread is in an event loop or belongs to a pool.")


class Flows(gdb.Command):
    """Shows flows with their stacks of steps: of all loops that are known, or of the loop or flow that is named."""

    def __init__(self):
        super().__init__("asyncsteps flows", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        if argument:
            named = layout.value_of(argument)
            if layout.is_flow(named):
                flow = named["flow_"]
                print("\n".join(layout.FlowView(flow.dereference()).stack()) if flow else "no flow")
                return
            cores = [("", layout.core_of(named))]
        else:
            cores = list(layout.loops())
            if not cores:
                print("No thread is in an event loop or belongs to a pool: name a loop or a flow, asyncsteps flows EXPR.")
        running = layout.running_flows()
        for where, core in cores:
            flows = layout.flows_of(core, running)
            where = f" of {where}" if where else ""
            print(f"loop {core['loop_']}{where}: {len(flows)} flow{'' if len(flows) == 1 else 's'}")
            for flow in flows:
                print("\n".join("  " + line for line in layout.FlowView(flow).stack()))


class Pools(gdb.Command):
    """Shows the thread pools whose threads there are."""

    def __init__(self):
        super().__init__("asyncsteps pools", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        pools = layout.pools()
        for pool, threads in pools:
            print(f"{pool['facade_']} threads {', '.join(map(str, threads))}: {layout.describe_pool(pool)}")
        if not pools:
            print("No thread belongs to a pool.")


gdb.printing.register_pretty_printer(None, Printers(), replace=True)
for command in (Commands, Loops, Flows, Pools):
    command()
