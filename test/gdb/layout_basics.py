# SPDX-License-Identifier: BSL-1.0
"""Values as the standard libraries store them, names of addresses, and the words and segments of async::queue."""

import re

import gdb


def evaluate(expression):
    """The value of an expression of C++, whatever the language of the selected frame is."""
    language = gdb.parameter("language")
    gdb.execute("set language c++", to_string=True)
    try:
        value = gdb.parse_and_eval(expression)
        value.fetch_lazy()
        return value
    finally:
        gdb.execute(f"set language {language}", to_string=True)


def plain(name):
    """The name as users write it: without the inline namespace of the version."""
    return re.sub(r"\b(async|steps|futoin)::v\d+_\d+\b", r"\1", name)


def full(name):
    """The opposite, with the version that the program has: gdb does not look into inline namespaces by itself."""
    return re.sub(r"\b(async|steps)(?=::)", r"\1" + version(), name)


versions = {}  # by the program's file


def version():
    """The inline namespace of the program's headers: ::v0_1. Empty if the program has none."""
    program = gdb.current_progspace().filename
    if not versions.get(program):
        found = re.search(r"async(::v\d+_\d+)::", gdb.execute("info variables -q current_loop", to_string=True))
        versions[program] = found.group(1) if found else ""
    return versions[program]


def fields_of(value):
    return {field.name for field in value.type.strip_typedefs().fields()}


def load(atomic):
    """The value of an atomic of libstdc++ or libc++, of a cell, or of a plain object."""
    while True:
        kind = atomic.type.strip_typedefs()
        if kind.code == gdb.TYPE_CODE_STRUCT:
            names = [f.name for f in kind.fields()]
            inner = next((n for n in ("_M_b", "_M_base", "_M_p", "_M_i", "__a_", "__a_value", "value_") if n in names), None)
            if inner is not None:
                atomic = atomic[inner]
                continue
            bases = [f for f in kind.fields() if f.is_base_class]
            if bases:
                atomic = atomic.cast(bases[0].type)
                continue
        return int(atomic) if kind.code != gdb.TYPE_CODE_PTR else atomic


def pointer(unique):
    """What a std::unique_ptr of libstdc++ or libc++ holds."""
    if "__ptr_" in fields_of(unique):
        held = unique["__ptr_"]
        return held["__value_"] if held.type.strip_typedefs().code == gdb.TYPE_CODE_STRUCT else held
    held = unique["_M_t"]["_M_t"]
    while held.type.strip_typedefs().code == gdb.TYPE_CODE_STRUCT:
        head = [f for f in held.type.strip_typedefs().fields() if f.name == "_M_head_impl"]
        if head:
            return held[head[0]]
        bases = [f for f in held.type.strip_typedefs().fields() if f.is_base_class]
        held = held.cast(next(b.type for b in bases if "_Tuple_impl<0" in str(b.type) or "_Head_base<0" in str(b.type)))
    return held


def elements_of(vector):
    """The elements of a std::vector of libstdc++ or libc++."""
    whole = vector if "__begin_" in fields_of(vector) else vector["_M_impl"]
    names = ("__begin_", "__end_") if "__begin_" in fields_of(vector) else ("_M_start", "_M_finish")
    first, last = (whole[name] for name in names)
    return [first[i] for i in range(int(last - first))]


def symbol_at(address):
    """The name of what lies at an address, demangled; None: nothing known."""
    found = re.match(r"(.*?)(?: \+ \d+)? in section ", gdb.execute(f"info symbol {address}", to_string=True))
    return found.group(1) if found else None


def constant(name, otherwise):
    try:
        return int(evaluate(name))
    except gdb.error:
        return otherwise


# --- queues ----------------------------------------------------------------------------------------------------------


class QueueWords:
    """The words and segments of an async::queue."""

    def __init__(self, core, element):
        self.core = core
        self.element = element
        traits = core.type.strip_typedefs().template_argument(1)
        self.slot_bits = constant(f"'{traits}::slot_bits'", 12)
        self.index_bits = constant(f"'{traits}::index_bits'", 20)
        version_bits = constant(f"'{traits}::version_bits'", 30)
        self.version_bits = min(version_bits, 62 - self.index_bits - self.slot_bits)
        self.field_bits = self.slot_bits + 1  # with the bit "closed"
        fitting = 64 // (element.sizeof + 1) if element.alignof <= 64 else 0
        self.per_line = fitting if fitting >= 2 else 1
        self.shift = (self.per_line - 1).bit_length()
        segment = core["segments_"].type.strip_typedefs().template_argument(0)
        self.slots = int(segment.template_argument(1)) << self.shift
        self.capacity = int(segment.template_argument(1)) * self.per_line
        self.head, self.tail = load(core["head_"]), load(core["tail_"])

    def slot(self, word):
        return word & ((1 << self.slot_bits) - 1)

    def phase(self, word):
        return word >> (self.field_bits + self.index_bits) & 1

    def index(self, word):
        return word >> self.field_bits & ((1 << self.index_bits) - 1)

    def version(self, word):
        return word >> (self.field_bits + self.index_bits + 1)

    def is_closed(self):
        return self.tail >> self.slot_bits & 1 == 1

    def before(self, slot):
        return (slot >> self.shift) * self.per_line + (slot & ((1 << self.shift) - 1))

    def size(self):
        uses = (self.version(self.tail) - self.version(self.head)) & ((1 << self.version_bits) - 1)
        return max(0, uses * self.capacity + self.before(self.slot(self.tail)) - self.before(self.slot(self.head)))

    def segment(self, index):
        store = self.core["segments_"]
        if index < 64:
            return load(store["inline_"][index]).dereference()
        kind = store.type.strip_typedefs().template_argument(0)
        pointer = kind.pointer()
        largest = 1 << (26 if pointer.sizeof > 4 else 20)
        slab_bits = 0
        while slab_bits < 12 and kind.sizeof << (slab_bits + 1) <= largest:
            slab_bits += 1
        chunk = (index >> 6).bit_length() - 1
        place, shift = index - (64 << chunk), min(chunk + 6, slab_bits)
        slabs = int(load(store["chunks_"][chunk])) + (8 << chunk)
        slab = gdb.Value(slabs + (place >> shift) * pointer.sizeof).cast(pointer.pointer()).dereference()
        return (slab + (place & ((1 << shift) - 1))).dereference()

    def elements(self):
        """The finished elements from the head on."""
        word, size = self.head, self.size()
        while size > 0:
            home, slot = self.segment(self.index(word)), self.slot(word)
            while slot < self.slots and size > 0:
                line, at = home["lines"][slot >> self.shift], slot & ((1 << self.shift) - 1)
                if load(line["states"][at]) == self.phase(word):
                    address = int(line["values"].address) + at * self.element.sizeof
                    yield gdb.Value(address).cast(self.element.pointer()).dereference()
                size -= 1
                slot += 1
                if slot & ((1 << self.shift) - 1) >= self.per_line:
                    slot = ((slot >> self.shift) + 1) << self.shift
            linked = load(home["next"])
            if self.index(linked) == 0:
                return
            uses = self.version(word) + 1
            word = linked & ((1 << (self.field_bits + self.index_bits + 1)) - 1) & ~((1 << self.field_bits) - 1)
            word |= uses << (self.field_bits + self.index_bits + 1)
