#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Writes the reference with Doxygen, grouped as the house is; a warning, or a public name without a comment, is an error.

usage: docs.py OUT            the reference is OUT/html/index.html
       docs.py --filter FILE  what Doxygen is shown instead of a header
"""

import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as xml

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
TITLES = {
    "async": "async: what runs things",
    "async/detail/base": "async/detail: the machine, memory, small tools",
    "async/detail/trace": "async/detail: traces",
    "async/detail/future": "async/detail: what futures are made ready by",
    "async/detail/queue": "async/detail: queues",
    "async/detail/loop": "async/detail: the event loop",
    "async/detail/scope": "async/detail: scopes of fork-join constructs",
    "async/detail/pool": "async/detail: the pool and its workers",
    "async/detail/wait": "async/detail: waits that help",
    "async/detail/fork": "async/detail: fork and join",
    "async/detail/call": "async/detail: calls with a future",
    "async/detail/select": "async/detail: the first of several sources",
    "async/interop": "async beside other libraries",
    "steps": "steps: what they mean",
    "steps/detail/flow": "steps/detail: what a flow consists of",
    "steps/detail/engine": "steps/detail: how a flow runs",
    "steps/detail/root": "steps/detail: life and end of a flow",
    "steps/detail/parallel": "steps/detail: parallel()",
    "steps/detail/wait": "steps/detail: what flows wait for",
    "steps/detail": "steps/detail: what the calls of asi do",
    "steps/interop": "steps beside other libraries",
    "steps/interop/detail": "steps/interop/detail: what the adapters share",
    "steps/interop/detail/nats": "steps/interop/detail: calls and jobs on NATS",
}
OPTIONS = {
    "PROJECT_NAME": "asyncsteps",
    "PROJECT_BRIEF": '"Lock-free queues, a thread pool, an event loop and AsyncSteps for C++20"',
    "INPUT": "async steps",
    "RECURSIVE": "YES",
    "FILE_PATTERNS": "*.hpp",
    "STRIP_FROM_PATH": ".",
    "STRIP_FROM_INC_PATH": ".",
    "FULL_PATH_NAMES": "YES",
    "JAVADOC_AUTOBRIEF": "YES",
    "SORT_GROUP_NAMES": "NO",
    "SORT_MEMBER_DOCS": "NO",
    "GENERATE_LATEX": "NO",
    "GENERATE_XML": "YES",
    "XML_PROGRAMLISTING": "NO",
    "GENERATE_TREEVIEW": "YES",
    "DISABLE_INDEX": "NO",
    "SOURCE_BROWSER": "YES",
    "HAVE_DOT": "NO",
    "QUIET": "YES",
    "WARNINGS": "YES",
    "WARN_IF_UNDOCUMENTED": "NO",  # see public_names()
    "WARN_AS_ERROR": "FAIL_ON_WARNINGS",
}
ROW = re.compile(r"^(\s*///) ([A-Z][A-Za-z]*) {2,}(\S.*)$")


def group_of(header):
    return re.sub(r"\W", "_", header)


def headers():
    """The folder and the name of every header, room by room."""
    found = []
    for folder in TITLES:
        if not os.path.isdir(os.path.join(ROOT, folder)):
            continue
        names = sorted(name for name in os.listdir(os.path.join(ROOT, folder)) if name.endswith(".hpp"))
        found += [(folder, name) for name in names]
    return found


def folders_with_headers(part):
    for folder, _, names in os.walk(os.path.join(ROOT, part)):
        if any(name.endswith(".hpp") for name in names):
            yield os.path.relpath(folder, ROOT).replace(os.sep, "/")


def filtered(path):
    """A header whose namespaces are in its group and without a version, and in whose comments a row 'Threads   any' is a
    paragraph."""
    header = os.path.relpath(os.path.abspath(path), ROOT)
    in_row = False
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    for number, line in enumerate(lines):
        line = re.sub(r"^((?:\}  // )?namespace \w+)::inline v\d+_\d+\b", r"\1", line)
        row = ROW.match(line)
        if row:
            # One line for one, so that line numbers stay: the paragraph's title ends at the end of its line.
            line = f"{row.group(1)} \\par {row.group(2)} \\ilinebr {row.group(3)}"
            in_row = True
        elif in_row and not re.match(r"^\s*/// {12,}\S", line):
            if re.match(r"^\s*///\s*\S", line):
                line = re.sub(r"^(\s*///)", r"\1 \\ilinebr \\ilinebr ", line)  # a paragraph that is not part of the row
            in_row = False
        # A namespace of one declaration ends without a comment.
        if re.match(r"^namespace [\w:]+ \{$", line) and lines[number + 2] != "}":
            line += f" /** @addtogroup {group_of(header)} */ /** @{{ */"
        elif re.match(r"^\}  // namespace [\w:]+$", line):
            line = "/** @} */ " + line
        yield line


def main_page():
    lines = ["/** @mainpage asyncsteps", ""]
    for folder in TITLES:
        if any(folder == f for f, _ in headers()):
            lines.append(f"- @ref {group_of(folder)}_folder")
    lines += ["", "README.md says what to start with, and the README of each detail folder which room includes which.", "*/"]
    for folder, title in TITLES.items():
        lines.append(f"/** @defgroup {group_of(folder)}_folder {title} */")
    for folder, name in headers():
        lines.append(f"/** @defgroup {group_of(folder + '/' + name)} {folder}/{name}")
        lines.append(f" *  @ingroup {group_of(folder)}_folder */")
    for name in ("async", "steps"):
        lines.append(f"/** @namespace {name} What {name}/ offers; see @ref {name}_folder. */")
    return "\n".join(lines) + "\n"


def text_of(node, *children):
    return "".join("".join(node.find(child).itertext()) for child in children if node.find(child) is not None).strip()


def is_assumed(member, compound):
    """Default constructors, copies, moves, destructors, operator delete: they do what everyone expects."""
    name, arguments = text_of(member, "name"), text_of(member, "argsstring")
    own = compound.split("::")[-1].split("<")[0].strip()
    return (
        name.startswith("~")
        or name in ("operator=", "operator delete")
        or (name == own and re.match(rf"\(((const )?{own} ?&&?\s*\w*)?\)", arguments))
        or re.search(r"=\s*(delete|default)$", arguments)
        or member.get("kind") == "friend"
    )


def public_names(folder):
    """Location, name, and whether it has a comment or is an overload of one that has, of what async/ and steps/ offer."""
    hidden = []  # private classes; those inside them come later
    for entry in sorted(os.listdir(folder)):
        if not re.match(r"(class|struct|namespace)", entry):
            continue
        compound = xml.parse(os.path.join(folder, entry)).getroot().find("compounddef")
        name = text_of(compound, "compoundname")
        if not re.match(r"(async|steps)\b", name) or re.search(r"\bdetail\b", name):
            continue
        if compound.get("prot") == "private":
            hidden.append(name + "::")
        if any((name + "::").startswith(outer) for outer in hidden):
            continue
        described = ("briefdescription", "detaileddescription")
        if compound.get("kind") != "namespace":
            yield compound.find("location"), name, bool(text_of(compound, *described))
        sections = compound.findall("sectiondef")
        members = [m for s in sections for m in s.findall("memberdef") if m.get("prot") == "public"]
        with_text = {text_of(m, "name") for m in members if text_of(m, *described, "inbodydescription")}
        for member in members:
            if not is_assumed(member, name):
                own = text_of(member, "name")
                yield member.find("location"), f"{name}::{own}", own in with_text


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "--filter":
        sys.stdout.write("\n".join(filtered(arguments[1])))
        return 0
    if len(arguments) != 1 or arguments[0].startswith("-"):
        sys.exit(__doc__)
    out = os.path.abspath(arguments[0])
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    with open(os.path.join(out, "house.dox"), "w", encoding="utf-8") as file:
        file.write(main_page())
    options = dict(OPTIONS)
    options["INPUT"] += f' "{out}/house.dox"'
    options["FILE_PATTERNS"] += " *.dox"
    options["OUTPUT_DIRECTORY"] = f'"{out}"'
    options["ALIASES"] = ""
    options["FILTER_PATTERNS"] = f'"*.hpp=\\"{sys.executable}\\" \\"{os.path.abspath(__file__)}\\" --filter"'
    settings = "".join(f"{name} = {value}\n" for name, value in options.items())
    done = subprocess.run(["doxygen", "-"], input=settings, cwd=ROOT, capture_output=True, text=True)
    sys.stdout.write(done.stderr.replace(ROOT + "/", ""))
    if done.returncode:
        return 1
    for folder in sorted({folder for part in ("async", "steps") for folder in folders_with_headers(part)} - set(TITLES)):
        print(f"{folder} has headers and no title in TITLES of test/docs/docs.py")
        return 1
    found = sorted(public_names(os.path.join(out, "xml")), key=lambda each: each[1])
    shutil.rmtree(os.path.join(out, "xml"))
    without = [each for each in found if not each[2]]
    for location, name, _ in without:
        print(f"{location.get('file')}:{location.get('line')}: {name} has no comment")
    if not found:
        print("Doxygen has found no public name")
        return 1
    if without:
        print(f"{len(without)} public names without a comment")
        return 1
    print(f"count: {len({name for _, name, _ in found})} public names described")
    print(f"count: {len(re.findall('warning:', done.stderr))} warnings of Doxygen")
    print(f"{out}/html/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
