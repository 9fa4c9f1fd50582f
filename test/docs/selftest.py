#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The reference's own tests: what it must refuse, and what it makes of a comment."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

import docs

GOOD = """\
// SPDX-License-Identifier: BSL-1.0
#pragma once

namespace async::inline v3_4 {

/// Holds a number.
///
/// Threads     any, and a second line
///             about it.
/// The rest.
class holder {
 public:
  holder() = default;
  explicit holder(int n) : n_(n) {}  ///< holds `n`
  holder(const holder& other) : n_(other.n_) {}
  /// The number.
  int get() const { return n_; }
  int get(int factor) const { return n_ * factor; }

 private:
  class hidden {
   public:
    int m = 0;
  };
  int n_ = 0;
};

}  // namespace async::inline v3_4
"""


class Reference(unittest.TestCase):
    def write(self, header, in_folder="async"):
        """The exit status and the output for a tree with that header alone."""
        with tempfile.TemporaryDirectory() as tree:
            for folder in {"async", "steps", "test/docs", in_folder}:
                os.makedirs(os.path.join(tree, folder), exist_ok=True)
            with open(os.path.join(tree, in_folder, "holder.hpp"), "w", encoding="utf-8") as file:
                file.write(header)
            with open(docs.__file__, encoding="utf-8") as file:
                script = file.read()
            with open(os.path.join(tree, "test/docs/docs.py"), "w", encoding="utf-8") as file:
                file.write(script)
            command = [sys.executable, os.path.join(tree, "test/docs/docs.py"), os.path.join(tree, "out")]
            done = subprocess.run(command, capture_output=True, text=True)
            page = os.path.join(tree, "out/html/classasync_1_1holder.html")
            self.page = ""
            if os.path.exists(page):
                with open(page, encoding="utf-8") as file:
                    self.page = file.read()
            return done.returncode, done.stdout + done.stderr

    def refuse(self, header, message, in_folder="async"):
        self.assertNotEqual((header, in_folder), (GOOD, "async"))
        status, output = self.write(header, in_folder)
        self.assertEqual(status, 1, output)
        self.assertIn(message, output)

    def test_a_good_header_passes_and_its_rows_are_paragraphs(self):
        status, output = self.write(GOOD)
        self.assertEqual(status, 0, output)
        details = re.search(r"Detailed Description.*?Definition at", self.page, re.DOTALL).group()
        self.assertRegex(details, r"<dt>Threads *</dt><dd>any, and a second line about it\. *</dd>")
        self.assertRegex(details, r"<p *>The rest\.")

    def test_a_class_without_a_comment_is_refused(self):
        start, end = GOOD.index("/// Holds"), GOOD.index("class holder")
        self.refuse(GOOD[:start] + GOOD[end:], "async::holder has no comment")

    def test_a_function_without_a_comment_is_refused(self):
        self.refuse(GOOD.replace("  /// The number.\n", ""), "async/holder.hpp:16: async::holder::get has no comment")

    def test_a_constructor_without_a_comment_is_refused(self):
        self.refuse(GOOD.replace("  ///< holds `n`", ""), "async::holder::holder has no comment")

    def test_a_header_without_public_names_is_refused(self):
        self.refuse(GOOD.replace("async::inline v3_4", "other"), "no public name")

    def test_a_folder_without_a_title_is_refused(self):
        self.refuse(GOOD, "async/detail/attic has headers and no title", "async/detail/attic")

    def test_a_warning_of_doxygen_is_refused(self):
        self.refuse(GOOD.replace("The rest.", "The rest, \\nothing."), "async/holder.hpp")


if __name__ == "__main__":
    unittest.main()
