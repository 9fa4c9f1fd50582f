# SPDX-License-Identifier: BSL-1.0
"""The house rules of headers. A check takes the project and yields (path, line from 1, message)."""

import re

from source import Source, blank

PLATFORM = "async/detail/base/platform.hpp"
INCLUDE = re.compile(r'^\s*#\s*include\s*"((?:async|steps)/[^"]+)"')

# What each room may include besides itself: rooms, and public headers by name. Rooms of steps/ may include all of async/.
ROOMS = {
    "async/detail": {
        "base": "",
        "trace": "base",
        "future": "base errors.hpp task.hpp",
        "queue": "base scope",
        "loop": "base trace errors.hpp task.hpp time_source.hpp",
        "scope": "base",
        "pool": "base trace loop scope"
        " task.hpp errors.hpp queue.hpp bounded_queue.hpp event_loop.hpp threadpool_options.hpp priority.hpp",
        "wait": "base future scope pool",
        "fork": "base future scope pool wait",
        "call": "base future scope pool wait task.hpp priority.hpp",
        "select": "base future queue pool wait call event_loop.hpp threadpool.hpp",
    },
    "steps/detail": {
        "flow": "errors.hpp state.hpp",
        "engine": "flow errors.hpp",
        "root": "flow engine",
        "parallel": "flow engine root branch_turns.hpp",
        "wait": "flow engine root every.hpp retry.hpp",
        "": "flow engine root parallel wait completion.hpp errors.hpp iasyncsteps.hpp",  # what asi's calls are made of
    },
}


def includes(source):
    for number, line in enumerate(source.code, 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1)


def room_of(path):
    """The folder of rooms a header belongs to and its room, or None for a public header."""
    match = re.match(r"((?:async|steps)/detail)/(?:(\w+)/)?[^/]+$", path)
    return (match.group(1), match.group(2) or "") if match else None


def rooms(project):
    """A header is in a room and includes what its room may; async/ never includes steps/; includes form no circle."""
    for path, source in project.headers.items():
        place = room_of(path)
        if place and place[1] not in ROOMS[place[0]]:
            yield path, 1, f"is in no room of {place[0]}: see ROOMS in test/lint/checks.py"
            continue
        for number, target in includes(source):
            if target not in project.headers and not (target.endswith(".h") and target in project.paths):
                yield path, number, f"includes {target}, which does not exist"
            elif path.startswith("async/") and target.startswith("steps/"):
                yield path, number, f"async/ includes {target}: steps/ stands on async/, never the other way round"
            elif place and not may_include(place, target):
                yield path, number, f"{place[0]}/{place[1]} may not include {target}: see ROOMS in test/lint/checks.py"
    yield from circles(project)


def may_include(place, target):
    folder, room = place
    allowed = ROOMS[folder][room].split()
    to = room_of(target)
    if to is None or to[0] != folder:
        of_other_folder = folder.split("/")[0] != target.split("/")[0]
        return of_other_folder or target.split("/")[-1] in allowed
    return to[1] == room or to[1] in allowed


def circles(project):
    """One violation for each header whose includes lead back to it."""
    done, path_to = set(), []

    def visit(path):
        if path in path_to:
            yield path, 1, "includes itself by way of " + ", ".join(path_to[path_to.index(path) + 1 :] or [path])
        elif path not in done:
            path_to.append(path)
            for _, target in includes(project.headers[path]):
                if target in project.headers:
                    yield from visit(target)
            path_to.pop()
            done.add(path)

    for path in project.headers:
        yield from visit(path)


def map_of_rooms(project):
    """The README of detail/ draws the rooms as the table above has them: | `room/` | ... | `base`, `trace` |."""
    for folder, table in ROOMS.items():
        path = f"{folder}/README.md"
        if path not in project.paths:
            continue
        drawn = {}
        for number, line in enumerate(project.read(path).split("\n"), 1):
            match = re.match(r"\| `(\w+)/` \|.*\|([^|]*)\|$", line)
            if match:
                drawn[match.group(1)] = (number, set(re.findall(r"`(\w+)`", match.group(2))))
        for room, allowed in table.items():
            if room:
                number, named = drawn.pop(room, (1, None))
                if named != {name for name in allowed.split() if "." not in name}:
                    yield path, number, f"the row of {room}/ does not name what ROOMS in test/lint/checks.py lets it include"
        for room, (number, _) in drawn.items():
            yield path, number, f"there is no room {room}/"


def pragma_once(project):
    """A header starts with #pragma once, after its head."""
    for path, source in project.headers.items():
        first = next((line.strip() for line in source.code if line.strip()), "")
        if first != "#pragma once":
            yield path, 2, "the first line of code is not '#pragma once'"


def umbrellas(project):
    """async/async.hpp and steps/steps.hpp include every public header of their folder but the opt-in ones."""
    for path in ("async/async.hpp", "steps/steps.hpp"):
        source = project.headers.get(path)
        if source is None:
            continue
        included = {target for _, target in includes(source)}
        for other in project.headers:
            folder, _, name = other.rpartition("/")
            if folder == path.split("/")[0] and other != path and name != "trace.hpp" and other not in included:
                yield path, 1, f"does not include {other}"


INCLUDE_LINE = re.compile(r"^\s*#\s*include\b")
REASON = re.compile(r"//\s*(for|exports)\s+([^:]*)")  # what follows a colon is prose


def include_reasons(project):
    """#include "x.hpp"  // for a, b: the header uses the names; // exports a, b: x.hpp has them, for this header's users."""
    for path, source in (project.headers | project.support).items():
        code = own_code(source)
        for number, (line, comment) in enumerate(zip(source.code, source.comments), 1):
            reason = REASON.search(comment) if INCLUDE_LINE.match(line) else None
            if not reason:
                continue
            target = INCLUDE.match(line)
            exported = target and project.headers.get(target.group(1))
            if reason.group(1) == "exports":
                place, text = "that header", own_code(exported) if exported else ""
            else:
                place, text = "this header", code
            for name in (part.strip() for part in reason.group(2).split(",")):
                if not mentions(text, name):
                    yield path, number, f"gives '{name}' as its reason, which {place} does not mention"


def own_code(source):
    """The code without its #include lines."""
    return "\n".join(line for line in source.code if not INCLUDE_LINE.match(line))


def mentions(code, name):
    if name == "placement new":
        return re.search(r"\bnew\s*\(", code) is not None
    pattern = r"\s*".join(re.escape(part) for part in re.findall(r"\w+|\S", name))
    return re.search(rf"(?<!\w){pattern}(?!\w)", code) is not None


# --- memory orders ---------------------------------------------------------------------------------------------------

OPERATION = re.compile(
    r"(?:\.|->)\s*(load|store|exchange|compare_exchange_(?:weak|strong)|fetch_(?:add|sub|and|or|xor)|test_and_set)\s*\("
)
ORDER = re.compile(r"\bmemory_order(?:_|::)(\w+)|\b(\w*order\w*)\b")
TAG = re.compile(r"\[([A-Z]+\d+[a-z]?)\]")
ATOMIC_NAME = re.compile(r"\batomic<[^;(){}]*>\s+(\w+)\s*(?:\[[^\]]*\]\s*)?[;{=]")


def orders(project):
    """Every atomic operation names its memory order; one that is not relaxed has a tag, as in // [Q3]."""
    for path, source in project.headers.items():
        for match in OPERATION.finditer(source.flat_code):
            arguments, end = source.call_arguments(match.end() - 1)
            line = source.line_of(match.start())
            named = [group or other for group, other in ORDER.findall(arguments)]
            if not named:
                yield path, line + 1, f"{match.group(1)}() without a memory order"
            elif "consume" in named:
                yield path, line + 1, "memory_order_consume is not used"
            elif any(name in ("acquire", "release", "acq_rel", "seq_cst") for name in named):
                if not TAG.search(source.comments_of_statement(line, source.line_of(end))):
                    yield path, line + 1, f"{match.group(1)}() of order {named[0]} without a tag such as // [Q3]"
        for name in sorted(set(ATOMIC_NAME.findall(source.flat_code))):
            operators = re.compile(
                rf"(?<![\w.>])(?:\+\+|--)\s*{name}\b|(?<![\w&*>]\s)\b{name}\s*(?:\[[^\]]*\]\s*)?"
                r"(?:\+\+|--|[-+|&^]=|=(?!=))"
            )
            for match in operators.finditer(source.flat_code):
                line = source.line_of(match.start())
                if not re.search(rf"\batomic<.*\b{name}\b", source.code[line]):
                    yield path, line + 1, f"an operator on the atomic {name}: its memory order is not named"


def tags(project):
    """Tags that pair up: a tag is explained in one header, and the tags it pairs with exist and name it back."""
    home, pairs, place, alone = {}, {}, {}, {}
    for path, source in project.headers.items():
        for number, comment in enumerate(joined_comments(source), 1):
            match = re.match(r"\s*//[/!]?<?\s*\[([A-Z]+\d+[a-z]?)\]", comment)
            if not match:
                continue
            tag = match.group(1)
            if home.setdefault(tag, path) != path:
                yield path, number, f"the tag [{tag}] is also in {home[tag]}"
            place.setdefault(tag, (path, number))
            for clause in re.findall(r"pairs? with ((?:itself|[^.:;()]|\([^)]*\))*)", comment):
                named = TAG.findall(clause) + ([tag] if "itself" in clause else [])
                if named:
                    place[tag] = (path, number)
                pairs.setdefault(tag, set()).update(named)
            if re.match(r"[^\]]*\],?:?\s+(?:acquire|release|acq_rel|seq_cst)\b", comment):
                alone.setdefault(tag, (path, number))
    for tag, (path, number) in sorted(alone.items()):
        if not pairs.get(tag):
            yield path, number, f"[{tag}] pairs with nothing that has a tag"
    for tag, partners in sorted(pairs.items()):
        path, number = place[tag]
        for partner in sorted(partners):
            if partner not in home:
                yield path, number, f"[{tag}] pairs with [{partner}], which does not exist"
            elif tag not in pairs.get(partner, set()):
                yield path, number, f"[{tag}] pairs with [{partner}], which does not name it back"


TAG_ELSEWHERE = re.compile(r"((?:\[[A-Z]+\d+[a-z]?\](?:,? and |, )?)+) (?:of|in) ([\w/]+\.hpp)")


def tag_files(project):
    """// [Q6] of queue_core.hpp, // [Q6] in queue_core.hpp: the tag is explained in a header of that name."""
    explained = {}
    for path, source in project.headers.items():
        for comment in source.comments:
            match = re.match(r"\s*//[/!]?<?\s*\[([A-Z]+\d+[a-z]?)\]", " " + comment.strip())
            if match:
                explained.setdefault(match.group(1), set()).add(path)
    for path, source in project.headers.items():
        wrong = {}
        for number, comment in enumerate(joined_comments(source), 1):
            for match in TAG_ELSEWHERE.finditer(comment):
                for tag in TAG.findall(match.group(1)):
                    homes = explained.get(tag, set())
                    if not any(("/" + home).endswith("/" + match.group(2)) for home in homes):
                        wrong[tag, match.group(2)] = number
        for (tag, named), number in wrong.items():
            yield path, number, f"[{tag}] is not explained in {named}"


def joined_comments(source):
    """For each line the comment that starts there, with the comment lines that continue it."""
    joined = []
    for number, comment in enumerate(source.comments):
        text = comment.strip()
        for following in range(number + 1, len(source.comments)):
            more = source.comments[following].strip()
            starts_anew = re.match(r"//[/!]?<?\s*\[[A-Z]+\d+[a-z]?\]", more) and not re.search(r"(?:with|and|,)$", text)
            if not more or starts_anew or source.code[following].strip():
                break
            text += " " + more.lstrip("/!< ")
        joined.append(text)
    return joined


# --- several versions in one process ---------------------------------------------------------------------------------

CONFIG = "async/detail/base/config.hpp"


def abi_namespaces(project):
    """Everything is in an inline namespace that names the minor version, so that two versions never share a symbol."""
    if CONFIG not in project.headers:
        return
    text = "\n".join(project.headers[CONFIG].code)
    numbers = [re.search(rf"#define ASYNCSTEPS_VERSION_{part} (\d+)", text) for part in ("MAJOR", "MINOR")]
    version = "v" + "_".join(number.group(1) if number else "?" for number in numbers)
    for path, source in project.headers.items():
        for number, line in enumerate(source.code, 1):
            match = re.match(r"namespace (async|steps|futoin)\b(?:::inline (\w+))?", line)
            if match and match.group(2) != version:
                yield path, number, f"opens namespace {match.group(1)} without ::inline {version}"


# FTN12's own include guards: the header declares what <futoin/binarysteps.h> and <futoin/binaryval.h> do, in their place.
FOREIGN_MACROS = {"steps/interop/binary.h": ("FUTOIN_BINARYSTEPS_H", "FUTOIN_BINARYVAL_H")}


def macro_names(project):
    """Macros of the headers, those for C too, begin with ASYNCSTEPS_: no other prefix is the library's own."""
    for path, source in (project.headers | project.c_headers).items():
        for number, line in enumerate(source.code, 1):
            match = re.match(r"\s*#\s*define\s+(?!ASYNCSTEPS_)(\w+)", line)
            if match and match.group(1) not in FOREIGN_MACROS.get(path, ()):
                yield path, number, f"defines {match.group(1)}, which does not begin with ASYNCSTEPS_"


# --- private parts of standard libraries -----------------------------------------------------------------------------

CXX_FILE = re.compile(r"(?:async|steps|test|benchmark)/.*\.(?:hpp|cpp|cppm|h|c)$")
MAY_NAME_PRIVATE_PARTS = re.compile(
    r"async/detail/call/call_state_lib(?:std)?cxx\.hpp"  # a std::future that helps when it is waited for
    r"|test/support/windows/bits/\w+\.h"  # found before libstdc++'s headers of these names, for which they define functions
)
DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(?:if|ifn?def|elif|elifn?def|include)\b(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
RESERVED = re.compile(r"(?<!\w)(?:__|_[A-Z])\w*")
RESERVED_BUT_PUBLIC = re.compile(
    # Of the language; of compilers; of sanitizers and gcov; of the C library and the system.
    r"__(?:FILE|LINE|func|VA_ARGS|VA_OPT)__|__cplusplus|__(?:cpp|has|STDCPP)_\w+|_Exit"
    r"|__(?:attribute|extension|asm|volatile|PRETTY_FUNCTION|VERSION)__|__(?:builtin_\w+|declspec|stdcall|FUNCSIG__)"
    r"|_AddressOfReturnAddress|__(?:asan|lsan|interceptor|gcov)_\w+"
    r"|_SC_\w+|__kernel_\w+|_FILE_OFFSET_BITS|_TIME_BITS"
)
PRIVATE_HEADER = re.compile(r"^[ \t]*#[ \t]*include(?:_next)?\s*<((?:bits/|ext/|__)[^>]*)>", re.MULTILINE)
INTO_STD = re.compile(r"(?<!using )\bnamespace\s+std\b|\b(?:struct|class|union|bool|void|auto)\s+(?:::\s*)?std::")


def private_parts(project):
    """Only the futures of async::async are made of private parts of a standard library: no other file has a reserved
    name that is not public, includes a private header, opens namespace std, or specialises or instantiates what is in
    it. A condition may ask for any macro."""
    for path in project.paths:
        if not CXX_FILE.match(path) or MAY_NAME_PRIVATE_PARTS.fullmatch(path):
            continue
        text = project.read(path)
        if not any(pattern.search(text) for pattern in (RESERVED, PRIVATE_HEADER, INTO_STD)):
            continue
        source = project.headers.get(path) or Source(project.root, path)
        code = source.flat_code
        for match in PRIVATE_HEADER.finditer(code):
            yield path, source.line_of(match.start()) + 1, f"includes {match.group(1)}, a private header"
        for match in INTO_STD.finditer(code):
            yield path, source.line_of(match.start()) + 1, "adds to namespace std"
        for match in RESERVED.finditer(DIRECTIVE.sub(lambda directive: blank(directive.group()), code)):
            name = match.group()
            if not RESERVED_BUT_PUBLIC.fullmatch(name):
                yield path, source.line_of(match.start()) + 1, f"names {name}, a private part of a standard library"


# --- what headers do without -----------------------------------------------------------------------------------------

PLATFORM_TEST = re.compile(
    r"^\s*#\s*(?:if|ifdef|ifndef|elif|elifdef)\b.*\b(_WIN(?:32|64)|WIN32|__MINGW\w*|__linux(?:__)?|__unix(?:__)?|__APPLE__"
    r"|__ANDROID__|__\w*BSD__|__x86_64(?:__)?|__i386(?:__)?|__amd64__|__aarch64__|__arm__|__ARM_\w+|_M_\w+|__riscv\w*"
    r"|__powerpc\w*|__ppc\w*|__mips\w*|__s390\w*|__wasm\w*|__CYGWIN__)\b"
)
COMPILER_WORD = re.compile(
    r"\b(__builtin_\w+|__PRETTY_FUNCTION__|__FUNCSIG__|__attribute__|__extension__|__u?int128(?:_t)?|__asm__|__typeof__"
    r"|__declspec|__stdcall)\b"
)
COMPILER_TEST = re.compile(r"__GNUC__|__clang__|_MSC_VER|_WIN32|ASYNCSTEPS_ON_WINDOWS|__aarch64__|__x86_64__")
FUTOIN = "steps/interop/futoin.hpp"  # whose API has it
BANNED = [
    (r"\batomic_thread_fence\b", "a fence outside platform.hpp: use light_fence() and heavy_fence()", PLATFORM),
    (r"\bhardware_(?:destructive|constructive)_interference_size\b", "use async::detail::cache_line or no_sharing", ""),
    (r"\bstd::(?:counting|binary)_semaphore\b", "libstdc++ 12's semaphores can miss a wake-up", ""),
    (r"\bstd::jthread\b", "libc++ before 20 has no jthread", ""),
    (r"\bstd::function\b", "it needs copyable callables: use async::task or a template parameter", FUTOIN),
    (r"\b(?:NDEBUG\b|assert\s*\()", "it could change layouts: use ASYNCSTEPS_ASSERT", CONFIG),
    (r"\bmemory_order(?:_|::)consume\b", "memory_order_consume is not used", ""),
    (r"\busing\s+namespace\s+(?!std::(?:chrono_)?literals)", "a using directive in a header", ""),
]


def platform_tests(project):
    """Only platform.hpp asks which operating system or processor it is compiled for."""
    for path, source in project.headers.items():
        for number, line in enumerate(source.code, 1):
            match = PLATFORM_TEST.match(line)
            if match and path != PLATFORM:
                yield path, number, f"tests {match.group(1)}: that belongs into {PLATFORM}"


def compiler_words(project):
    """What only some compilers know stands under a condition that names a compiler; only config.hpp looks at
    __cplusplus, which Visual C++ leaves at 199711."""
    for path, source in project.headers.items():
        conditions = []
        for number, line in enumerate(source.code, 1):
            directive = re.match(r"\s*#\s*(if|ifdef|ifndef|elif|elifdef|endif)\b(.*)", line)
            if directive:
                kind, condition = directive.groups()
                if kind == "endif":
                    conditions and conditions.pop()
                elif kind.startswith("el"):
                    conditions and conditions.append(conditions.pop() + condition)
                else:
                    conditions.append(condition)
            match = COMPILER_WORD.search(line)
            if match and not COMPILER_TEST.search(" ".join(conditions)):
                yield path, number, f"uses {match.group(1)} of some compilers outside a condition that names one"
            if re.search(r"\b__cplusplus\b", line) and path != CONFIG:
                yield path, number, f"looks at __cplusplus: that belongs into {CONFIG}"


def banned(project):
    """What the headers do without, each with its reason."""
    for path, source in project.headers.items():
        for pattern, reason, allowed in BANNED:
            for match in re.finditer(pattern, source.flat_code):
                in_interop = path.startswith("steps/interop/") and "jthread" in pattern
                if path != allowed and not in_interop:
                    yield path, source.line_of(match.start()) + 1, reason


def shared_state(project):
    """A variable that lasts is shared by all modules of a process, or a comment says that there is one per module."""
    lasting = re.compile(r"\b(?:thread_local|constinit)\b|\bstatic \w+\* const immortal\b")
    for path, source in project.headers.items():
        raw = project.read(path).split("\n")
        for number, line in enumerate(source.code):
            if not lasting.search(line) or is_shared(source.code, number):
                continue
            first = number
            while first > 0 and raw[first - 1].lstrip().startswith("//"):
                first -= 1
            if not re.search("one per module", " ".join(raw[first : number + 1]), re.IGNORECASE):
                yield path, number + 1, "is neither ASYNCSTEPS_SHARED nor said to be 'one per module'"


def is_shared(code, number):
    """Whether the line has ASYNCSTEPS_SHARED, or the function has it that the line is in."""
    depth = len(code[number]) - len(code[number].lstrip())
    for line in reversed(code[: number + 1]):
        here = len(line) - len(line.lstrip())
        if line is code[number] or (line.strip() and here < depth and line.rstrip().endswith("{")):
            if "ASYNCSTEPS_SHARED" in line:
                return True
            depth = here
    return False


HEADER_CHECKS = [
    rooms,
    map_of_rooms,
    pragma_once,
    umbrellas,
    include_reasons,
    orders,
    tags,
    tag_files,
    abi_namespaces,
    macro_names,
    private_parts,
    platform_tests,
    compiler_words,
    shared_state,
    banned,
]
