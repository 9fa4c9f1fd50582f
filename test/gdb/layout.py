# SPDX-License-Identifier: BSL-1.0
"""Where loops, pools and flows keep what: the same as in the headers, as the debugger sees it."""

import os
import re

import gdb
from layout_basics import QueueWords, elements_of, evaluate, fields_of, full, load, plain, pointer, symbol_at

RUN_STATES = {0: "idle", 1: "queued", 2: "running", 3: "waiting"}  # run_state
IS_STEP, IS_JUMP, IS_LOOP, IS_GROUP = 1, 2, 8, 64  # record_flag
LEAVE_FIRST, CANCEL = 0, 1  # scope_ops::kind
VERDICT_ERROR = 4  # verdict


# --- loops and pools -------------------------------------------------------------------------------------------------


def value_of(expression):
    value = evaluate(expression)
    while value.type.strip_typedefs().code in (gdb.TYPE_CODE_PTR, gdb.TYPE_CODE_REF):
        value = value.referenced_value()
    return value


def is_flow(value):
    try:
        return value["flow_"].type.strip_typedefs().target().name == full("steps::detail::flow")
    except gdb.error:
        return False


def core_of(value):
    """The loop_core of an event_loop or an AsyncTool."""
    try:
        if "loop_" in fields_of(value) and value["loop_"].type.strip_typedefs().code == gdb.TYPE_CODE_STRUCT:
            value = value["loop_"]
        return value["core_"].dereference()
    except gdb.error:
        raise gdb.GdbError(f"neither a flow nor an event loop: {plain(str(value.type))}") from None


def keep_selection(function):
    """The same function, after which the thread and the frame are selected that were before."""

    def wrapped(*arguments):
        thread = gdb.selected_thread()
        frame = gdb.selected_frame() if thread else None
        try:
            return function(*arguments)
        finally:
            if thread:
                thread.switch()
                frame.select()

    return wrapped


@keep_selection
def each_thread(name):
    """A thread-local variable of each thread that has it."""
    found = []
    for thread in sorted(gdb.selected_inferior().threads(), key=lambda t: t.num):
        thread.switch()
        try:
            found.append((thread, evaluate(name)))
        except gdb.error:
            continue
    return found


def loops():
    """Each loop of the pools' workers, each of their flows that has something, and each other that a thread is in,
    innermost first; with where that is."""
    found, seen = [], set()

    def add(where, core):
        if int(core.address) not in seen:
            seen.add(int(core.address))
            found.append((where, core))

    for pool, _ in pools():
        for worker in elements_of(pool["crew_"]["members_"]):
            worker = pointer(worker).dereference()
            add(f"worker {int(worker['index'])} of pool {pool['facade_']}", worker["own_loop"]["core_"].dereference())
        of_flow = pool["flow_loops_"]["all_"]
        while of_flow:
            core = of_flow["core_"].dereference()
            if flows_of(core) or queued_in(core) or timers_in(core["timers_"]):
                add(f"flows of pool {pool['facade_']}", core)
            of_flow = of_flow["next_of_all"]
    for thread, core in each_thread(full("async::detail::current_loop")):
        while core:
            add(f"thread {thread.num}", core.dereference())
            core = core["around_"]
    return found


def pools():
    """Each pool with the numbers of its threads."""
    found = {}
    for thread, worker in each_thread(full("async::detail::this_worker")):
        if worker:
            found.setdefault(int(worker["pool"].address), (worker["pool"], []))[1].append(thread.num)
    return list(found.values())


def timers_in(timers):
    wheels = timers["wheels_"]
    count = 0
    for heads in [timers["lists_"]] + ([wheels["heads"]] if wheels else []):
        for index in range(heads.type.range()[1] + 1):
            link = heads[index]["next"]
            while link != heads[index].address and count < 10000:
                count += 1
                link = link["next"]
    return count


def queued_in(core):
    """What is ready, oldest first."""
    ready = core["ready_"]
    ring, capacity = ready["ring_"], int(ready["capacity_"])
    head, tail = int(ready["head_"]), int(ready["tail_"])
    places = (ring[p & (capacity - 1)] for p in range(head, head + ((tail - head) & 0xFFFFFFFF)))
    return [runnable for runnable in places if runnable]


def describe_loop(core):
    timers = timers_in(core["timers_"])
    flows = len(flows_of(core))
    texts = [f"{flows} flow{'' if flows == 1 else 's'}", f"{len(queued_in(core))} ready",
             f"{timers} timer{'' if timers == 1 else 's'}"]
    if core["closing_"]:
        texts.append("closing")
    return "async::event_loop with " + ", ".join(texts)


def describe_pool(core):
    injector = core["injector_"]
    bounded = injector["bounded_"]
    if bounded:
        ring = bounded["core_"]
        waiting = (load(ring["tail_"]) & ((1 << 63) - 1)) - load(ring["head_"])
    else:
        queue = injector["unbounded_"]
        waiting = QueueWords(queue["core_"], queue.type.strip_typedefs().template_argument(0)).size()
    wanted, live = load(core["crew_"]["wanted_"]), load(core["quiescence_"]["word_"]) & ((1 << 17) - 1)
    stopping = ", stopping" if load(core["shutdown_"]["begun_"]) else ""
    return f"async::threadpool of {wanted} threads, {live} live, {waiting} tasks from outside waiting{stopping}"


# --- flows -----------------------------------------------------------------------------------------------------------


@keep_selection
def running_flows():
    """Root flows whose functions are on the stack of a thread, as far as the debugger sees the engine's arguments."""
    found = []
    for thread, core in each_thread(full("async::detail::current_loop")):
        if not core:
            continue
        thread.switch()
        frame = gdb.newest_frame()
        for _ in range(500):
            if frame is None:
                break
            if plain(frame.name() or "").startswith("steps::detail::"):
                for symbol in frame.block():
                    if symbol.is_argument and plain(str(symbol.type)) == "steps::detail::flow &":
                        flow = frame.read_var(symbol)
                        if not flow.is_optimized_out:
                            found.append(flow.referenced_value())
            frame = frame.older()
    return found


def flows_of(core, running=()):
    """The root flows of a loop: those that have waited, those that are ready, and the running ones that are given."""
    flow = gdb.lookup_type(full("steps::detail::flow"))
    found = {}

    def add(pointed):
        if pointed and not pointed["root"]["parent_"]:
            found.setdefault(int(pointed), pointed.dereference())

    for flow_ in running:
        if flow_["core"] == core.address:
            add(flow_.address)
    if core["extension_"]["close_"]:  # a steps::detail::waiting_flows
        listed = core["extension_"]["memory_"].address.cast(flow.pointer().pointer()).dereference()
        while listed:
            add(listed)
            listed = listed["list_next"]
    resume = symbol_address(full("steps::detail::resume"))
    for runnable in queued_in(core):
        if int(runnable["run"]) == resume or "steps::detail::resume" in plain(symbol_at(int(runnable["run"])) or ""):
            add(runnable.cast(flow.pointer()))
    return list(found.values())


def symbol_address(name):
    try:
        return int(evaluate(f"(long)&'{name}'"))
    except gdb.error:
        return 0


def text_of(view):
    """A std::string_view of libstdc++ or libc++."""
    names = fields_of(view)
    start, size = ("_M_str", "_M_len") if "_M_str" in names else ("__data_", "__size_")
    return view[start].string(length=int(view[size]))


def place_of(name, run):
    """Where the lambda or function stands that is called by the code at `run`: " at FILE:LINE", or nothing."""
    lambda_ = re.match(r".*::(?:\{lambda\((.*)\)#\d+\}|\$_\d+)$", name)
    unknown = not lambda_ or lambda_.group(1) is None  # clang does not say
    of = full("steps::IAsyncSteps&") if unknown else lambda_.group(1)
    tries = [f"{name}::operator()({of}){const}" for const in (" const", "")] if lambda_ else [name]
    starts = [symbol_address(function) for function in tries]
    start = next((address for address in starts if address), run)  # at `run`: inlined
    block = gdb.block_for_pc(start)
    while block and block.function is None:
        block = block.superblock
    if block is None:
        return ""
    if block.function.line and start != run:
        return f" at {os.path.basename(block.function.symtab.filename)}:{block.function.line}"
    lines = {}
    for pc in range(start, min(block.end, start + 4096)):
        at = gdb.find_pc_line(pc)
        if at.symtab and at.line and not re.search(r"(^|/)(async|steps|include)/", at.symtab.filename):
            lines.setdefault(at.symtab.filename, []).append(at.line)
    for file, found in lines.items():
        return f" at {os.path.basename(file)}:{min(found)}"
    return ""


def arguments_of(template):
    """The arguments of a template's name at its outermost level."""
    start, depth, found = template.find("<") + 1, 0, []
    at = start
    for at in range(start, len(template)):
        c = template[at]
        if c in "<({[":
            depth += 1
        elif c in ")}]" or (c == ">" and template[at - 1] != "-"):
            if depth == 0:
                break
            depth -= 1
        elif c == "," and depth == 0:
            found.append(template[start:at].strip())
            start = at + 1
    return found + [template[start:at].strip()]


def callable_in(template):
    """The lambda or function that a template's name has somewhere in its arguments; "" if there is none."""
    for argument in arguments_of(template) if "<" in template else ():
        if re.search(r"(\{lambda\(.*\)#\d+\}|\$_\d+)$", argument):
            return argument
        found = callable_in(argument)
        if found:
            return found
    return ""


class FlowView:
    def __init__(self, flow):
        self.flow = flow

    def run_state(self):
        return RUN_STATES.get(int(self.flow["state_"]), "?")

    def active(self):
        """The active steps, innermost first."""
        step, found = self.flow["cur"], []
        root = self.flow["root"].address
        while step and step != root and len(found) < 10000:
            found.append(step)
            step = step["parent_"]
        return found if self.run_state() != "idle" else []

    def state(self):
        depth = len(self.active())
        text = f"{self.run_state()}"
        if self.run_state() != "idle":
            text += f", {depth} step{'' if depth == 1 else 's'} deep" if depth else ", not begun"
        if int(self.flow["user"]) == VERDICT_ERROR and self.run_state() == "running":
            text += f", error {self.flow['pending']['code']['text_'].string()}"
        return text

    def to_come(self, step):
        """How many steps of the same level are still to come."""
        at, end, count = int(step) + int(step["size_"]), int(step["parent_"]["sub_end_"]), 0
        record = gdb.lookup_type(full("steps::detail::record")).pointer()
        while at != end and count < 10000:
            here = gdb.Value(at).cast(record)
            flags = int(here["flags_"])
            count += flags & IS_STEP
            if flags & IS_JUMP:
                at = int(here.cast(gdb.lookup_type(full("steps::detail::jump")).pointer())["to"])
            else:
                at += int(here["size_"])
        return count

    def scopes(self, step):
        """What ends with a step, in words."""
        found, scope = [], self.flow["scopes"]
        while scope:
            if scope["holder"] == step and scope["ops"]:
                symbol = symbol_at(int(scope["ops"])) or ""
                what = int(scope["ops"]["what"])
                if what == LEAVE_FIRST:
                    if "timeout_scope" in symbol:
                        found.append("timeout")
                elif "cancel_scope" in symbol:
                    found.append("cancel handler")
                elif "sync_scope" in symbol:
                    found.append("sync")
                elif what != CANCEL:
                    found.append("object")
            scope = scope["outer"]
        return found

    def describe(self, step):
        run = re.sub(r"::run\([\w:]+::step&\)$", "", symbol_at(int(step["ops_"]["run"])) or "")
        kind = re.match(r"(?:\w+::)*(\w+)", text_of(step["ops_"]["name"])).group(1)
        arguments = arguments_of(run)
        if kind == "function_step" and len(arguments) > 1 and "(*)" in arguments[1]:
            behind = (step + 1).cast(gdb.lookup_type("long").pointer()).dereference()
            callable_ = symbol_at(int(behind)) or arguments[1]
        elif kind == "function_step" and len(arguments) > 1:
            callable_ = arguments[1]
        else:
            callable_ = callable_in(run)
        flags = int(step["flags_"])
        marks = (["loop"] if flags & IS_LOOP else []) + self.group(flags, kind) + self.scopes(step)
        coming = self.to_come(step)
        text = plain(callable_) + place_of(callable_, int(step["ops_"]["run"])) if callable_ else kind
        return text + (f" [{', '.join(marks)}]" if marks else "") + (f", {coming} to come" if coming else "")

    @staticmethod
    def group(flags, kind):
        return [kind.removesuffix("_step")] if flags & IS_GROUP else []

    def branches(self, step):
        """The flows of a parallel() or race() step."""
        group = gdb.lookup_type(full("steps::detail::group_step<steps::IAsyncSteps>"))
        branch, found = step.cast(group.pointer())["branches"]["first"], []
        while branch and len(found) < 10000:
            found.append(branch.dereference())
            branch = branch["list_next"]
        return found

    def stack(self, name="flow"):
        lines = [f"{name} {self.flow.address}: {self.state()}"]
        for number, step in enumerate(self.active()):
            lines.append(f"  #{number} {self.describe(step)}")
            if int(step["flags_"]) & IS_GROUP:
                for branch in self.branches(step):
                    lines += ["    " + line for line in FlowView(branch).stack("branch")]
        return lines
