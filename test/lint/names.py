#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Compiles a program whose types lie in a namespace that has a deleted function of each name that the headers call.

usage: names.py CLANG++ ROOT SOURCE

An unqualified call with such a type as argument finds the deleted function, which takes anything: then a function of a
user's with that name would be called instead of the library's. Write detail::f(x), or std::move(x), in place of f(x).
"""

import os
import re
import subprocess
import sys
import tempfile

CALL = re.compile(r"\b([a-z_]\w*)\s*(?:<[^;(){}]*>)?\s*\(")
WORDS = set(
    "alignas alignof and assert auto bool break case catch char class compl concept const const_cast consteval constexpr"
    " constinit continue co_await co_return co_yield decltype default defined delete do double dynamic_cast else enum"
    " errno explicit export extern false final float for friend goto if import inline int long mutable namespace new"
    " noexcept not nullptr offsetof operator or override private protected public register reinterpret_cast requires"
    " return short signed sizeof static static_assert static_cast struct switch template this thread_local throw true try"
    " typedef typeid typename union unsigned using va_arg va_end va_start virtual void volatile while xor".split()
)
OF_STD = set(
    "addressof advance apply as_const begin bit_cast cbegin cend construct_at copy data destroy_at distance empty end"
    " exchange fill find for_each forward get in_range invoke iter_move iter_swap launder make_pair make_tuple max min"
    " move next prev rbegin ref rend size ssize swap tie".split()
)


def names_of(root):
    found = set(OF_STD)
    for part in ("async", "steps"):
        for folder, _, files in os.walk(os.path.join(root, part)):
            for name in files:
                if name.endswith(".hpp"):
                    with open(os.path.join(folder, name), encoding="utf-8") as file:
                        code = re.sub(r'//[^\n]*|"(?:\\.|[^"\\])*"', "", file.read())
                    found.update(CALL.findall(code))
    return sorted(name for name in found - WORDS if not name.startswith("__"))


def main(compiler, root, source):
    names = names_of(root)
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "deleted_functions.inc"), "w", encoding="utf-8") as file:
            file.writelines(f"template <class... A>\nvoid {name}(A&&...) = delete;\n" for name in names)
        command = [compiler, "-std=c++20", "-fsyntax-only", "-fdiagnostics-color=never", "-I", root, "-I", folder, source]
        results = [
            subprocess.run(command + form, capture_output=True, text=True, check=False)
            for form in ([], ["-DASYNCSTEPS_CALL_STATE=0"])
        ]
    for result in results:
        for line in result.stderr.split("\n"):
            if re.search(r"error:|note: in instantiation", line):
                print(line)
    print(f"count: {len(names)} names of functions, deleted beside a user's types")
    return max(result.returncode for result in results)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
