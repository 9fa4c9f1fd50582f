# SPDX-License-Identifier: BSL-1.0
"""Views of a source file that the checks share: code without comments, comments without code, calls, statements."""

import os
import re
import subprocess


class Source:
    """A file as three lists of lines of equal length: text, code (comments and literals blanked) and comments."""

    def __init__(self, root, path):
        self.path = path
        with open(os.path.join(root, path), encoding="utf-8") as file:
            self.text = file.read()
        self.lines = self.text.split("\n")
        if self.lines and self.lines[-1] == "":
            self.lines.pop()
        code, comments = split_comments(self.text)
        self.flat_code = code
        self.code = code.split("\n")
        self.comments = comments.split("\n")

    def line_of(self, offset):
        """The number, from 0, of the line at an offset of flat_code."""
        return self.flat_code.count("\n", 0, offset)

    def call_arguments(self, offset):
        """The text between the parenthesis at the offset and its partner, and the offset of the partner."""
        depth = 0
        for end in range(offset, len(self.flat_code)):
            if self.flat_code[end] in "({[":
                depth += 1
            elif self.flat_code[end] in ")}]":
                depth -= 1
                if depth == 0:
                    return self.flat_code[offset + 1 : end], end
        return self.flat_code[offset + 1 :], len(self.flat_code)

    def comments_of_statement(self, first, last):
        """The comments beside the statement that holds the lines first..last, and directly above it."""
        while first > 0 and self.code[first - 1].strip() and not re.search(r"[;{}:]\s*$", self.code[first - 1]):
            first -= 1
        while last + 1 < len(self.code) and not re.search(r"[;{}]\s*$", self.code[last]):
            last += 1
        above = first
        while above > 0 and not self.code[above - 1].strip() and self.comments[above - 1].strip():
            above -= 1
        return " ".join(self.comments[above : last + 1])


TOKEN = re.compile(
    r"""(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)|(?P<raw>R"(?P<tag>[^\s()\\]{0,16})\(.*?\)(?P=tag)")"""
    r"""|(?P<string>"(?:\\.|[^"\\\n])*")|(?P<char>(?<![0-9a-zA-Z_])'(?:\\.|[^'\\\n])+')""",
    re.DOTALL,
)


def blank(text):
    return re.sub(r"[^\n]", " ", text)


def split_comments(text):
    """Two texts of the same shape: one with comments and literals blanked (not those of #include), one of comments."""
    code, comments, at = [], [], 0
    for match in TOKEN.finditer(text):
        between = text[at : match.start()]
        code.append(between)
        comments.append(blank(between))
        is_comment = match.group("line") is not None or match.group("block") is not None
        is_include = re.search(r"#\s*include\s*$", text[text.rfind("\n", 0, match.start()) + 1 : match.start()])
        code.append(match.group() if is_include and not is_comment else blank(match.group()))
        comments.append(match.group() if is_comment else blank(match.group()))
        at = match.end()
    code.append(text[at:])
    comments.append(blank(text[at:]))
    return "".join(code), "".join(comments)


def git_files(root, *options):
    command = ["git", "-C", root, "ls-files", "-z", *options]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")) - {""}


def list_files(root):
    """Paths of the project's files: what git tracks, or would add to the four folders; without git, all but build trees."""
    try:
        top = subprocess.run(
            ["git", "-C", root, "rev-parse", "--show-toplevel"], capture_output=True, text=True, check=True
        ).stdout.strip()
        if os.path.realpath(top) == os.path.realpath(root):
            paths = git_files(root, "--cached") | {
                path
                for path in git_files(root, "--others", "--exclude-standard")
                if path.startswith(("async/", "steps/", "test/", "benchmark/"))
            }
            return [path for path in sorted(paths) if os.path.isfile(os.path.join(root, path))]
    except (OSError, subprocess.CalledProcessError):
        pass
    paths = []
    for folder, folders, names in os.walk(root):
        if folder == root:
            folders[:] = [name for name in folders if name not in (".git", ".build", "build", ".cache")]
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        paths += [os.path.relpath(os.path.join(folder, name), root) for name in sorted(names)]
    return [path for path in paths if not path.endswith((".swp", ".pyc"))]
