#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""The checks' own tests: each rule is shown input that breaks it, since a check that can't fail checks nothing."""

import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

import checks
import lint

LICENCE = "// SPDX-License-Identifier: BSL-1.0\n"
HEAD = LICENCE + "#pragma once\n"
WITH_TOKENS = "#if defined(__cpp_lib_jthread)\nstd::stop_source s;\n"
GOOD = {
    "async/low.hpp": HEAD + "int low();\n",
    "async/high.hpp": HEAD
    + '#include "async/low.hpp"  // for low\n'
    + "inline std::atomic<int> word{0};\n"
    + "inline void set() { word.store(1, std::memory_order_release); }  // [Q1] release, pairs with [Q2]: publishes\n"
    + "// [Q2] acquire, pairs with [Q1]\n"
    + "inline int get() { return word.load(std::memory_order_acquire); }\n"
    + "inline int both() { return low() + get(); }\n"
    + "inline int glance() { return word.load(std::memory_order_relaxed); }\n",
    "steps/flow.hpp": HEAD + '#include "async/high.hpp"\n',
    "test/example/x.cpp": "// SPDX-License-Identifier: BSL-1.0\nint main() {\n  // [body]\n  return 0;\n  // [/body]\n}\n",
    "README.md": "# x\n\n[low](async/low.hpp), [steps](steps), [web](https://x.org/y#z), `[](int)`\n\n"
    + "<!-- snippet: test/example/x.cpp#body -->\n```cpp\nreturn 0;\n```\n\n```\n[](plain)\n```\n",
    "CMakeLists.txt": "# SPDX-License-Identifier: BSL-1.0\n",
    ".gitignore": "/build/\n",
}


def header(body):
    return HEAD + body + "\n"


def versioned(body):
    config = "#define ASYNCSTEPS_VERSION_MAJOR 3\n#define ASYNCSTEPS_VERSION_MINOR 4"
    return {"async/detail/base/config.hpp": header(config), "async/a.hpp": header(body)}


# The rooms as async/detail/README.md draws them.
MAP = "".join(
    f"| `{room}/` | what is in it | {', '.join(f'`{name}`' for name in allowed.split() if '.' not in name)} |\n"
    for room, allowed in checks.ROOMS["async/detail"].items()
)

# Rule, files laid over GOOD, a part of the message.
BAD = [
    ("top_level", {"tools/x.py": "# SPDX-License-Identifier: BSL-1.0\n"}, "top level"),
    ("top_level", {"notes.md": "text\n"}, "top level"),
    ("licence", {"async/a.hpp": "#pragma once\n"}, "SPDX"),
    ("licence", {"test/run": "#!/bin/bash\n"}, "SPDX"),
    ("licence", {"benchmark/peers/rust/src/main.rs": "fn main() {}\n"}, "SPDX"),
    ("licence", {"benchmark/peers/go/go.mod": "module peers\n"}, "SPDX"),
    ("length", {"async/a.hpp": header("\n" * 600)}, "lines"),
    ("unfinished", {"async/a.hpp": header("// TO" "DO later")}, "left"),
    ("stop_tokens", {"test/unit/a.cpp": LICENCE + "#if defined(X)\n#endif\nstd::stop_token t;\n"}, "outside"),
    ("stop_tokens", {"test/unit/a.cpp": LICENCE + WITH_TOKENS + "#else\nstd::jthread t;\n#endif\n"}, "outside"),
    ("length", {"benchmark/peers/go/main.go": "// SPDX-License-Identifier: BSL-1.0\n" + "\n" * 600}, "lines"),
    ("unfinished", {"README.md": GOOD["README.md"] + "FIX" "ME\n"}, "left"),
    ("snippets", {"README.md": "```cpp\nint x;\n```\n"}, "quotes no compiled file"),
    ("snippets", {"README.md": GOOD["README.md"].replace("return 0", "return 1")}, "differs"),
    ("snippets", {"README.md": GOOD["README.md"].replace("#body", "#gone")}, "does not exist"),
    ("snippets", {"README.md": GOOD["README.md"].replace("x.cpp#", "y.cpp#")}, "does not exist"),
    ("snippets", {"README.md": GOOD["README.md"].replace("#body -->", "#body -->\ntext\n")}, "right above"),
    ("snippets", {"steps/README.md": "```cpp\nint x;\n```\n"}, "quotes no compiled file"),
    ("links", {"README.md": GOOD["README.md"] + "[x](async/gone.hpp)\n"}, "links to async/gone.hpp"),
    ("links", {"steps/README.md": "[x](async/low.hpp)\n"}, "links to async/low.hpp"),
    ("rooms", {"async/a.hpp": header('#include "steps/flow.hpp"')}, "never the other way"),
    ("rooms", {"async/a.hpp": header('#include "async/gone.hpp"')}, "does not exist"),
    ("rooms", {"async/a.hpp": header('#include "async/b.hpp"'), "async/b.hpp": header('#include "async/a.hpp"')}, "itself"),
    ("rooms", {"async/a.hpp": header('#include "async/a.hpp"')}, "itself by way of async/a.hpp"),
    ("rooms", {"async/detail/attic/a.hpp": header("")}, "no room"),
    ("rooms", {"async/detail/a.hpp": header("")}, "no room"),
    ("rooms", {"async/detail/base/a.hpp": header('#include "async/low.hpp"')}, "may not include async/low.hpp"),
    (
        "rooms",
        {
            "async/detail/base/a.hpp": header('#include "async/detail/trace/b.hpp"'),
            "async/detail/trace/b.hpp": header(""),
        },
        "may not include async/detail/trace/b.hpp",
    ),
    ("map_of_rooms", {"async/detail/README.md": MAP.replace("`base`", "`pool`", 1)}, "row of trace/"),
    ("map_of_rooms", {"async/detail/README.md": MAP.replace("| `trace/`", "| `track/`")}, "row of trace/"),
    ("map_of_rooms", {"async/detail/README.md": MAP + "| `attic/` | old things | `base` |\n"}, "no room attic/"),
    ("pragma_once", {"async/a.hpp": "// SPDX-License-Identifier: BSL-1.0\nint x;\n"}, "pragma once"),
    ("umbrellas", {"async/async.hpp": header('#include "async/low.hpp"')}, "does not include async/high.hpp"),
    ("umbrellas", {"steps/steps.hpp": header("")}, "does not include steps/flow.hpp"),
    ("include_reasons", {"async/a.hpp": header("#include <new>  // for launder")}, "'launder'"),
    ("include_reasons", {"async/a.hpp": header("#include <new>  // for nothrow, launder\nauto& x = nothrow;")}, "'launder'"),
    ("include_reasons", {"async/a.hpp": header("#include <new>  // for launder\n// launder\nint launder_all;")}, "'launder'"),
    ("include_reasons", {"async/a.hpp": header("#include <new>  // for placement new\nauto* x = new int;")}, "'placement"),
    ("include_reasons", {"async/a.hpp": header("#include <new>  // for operator new\nauto* x = new int;")}, "'operator"),
    ("include_reasons", {"async/a.hpp": header('#include "async/low.hpp"  // for low')}, "which this header"),
    ("include_reasons", {"async/a.hpp": header('#include "async/low.hpp"  // exports high\nint high;')}, "which that header"),
    ("include_reasons", {"async/a.hpp": header("#include <new>  // exports launder")}, "which that header"),
    ("orders", {"async/a.hpp": header("int f() { return x.load(); }")}, "without a memory order"),
    ("orders", {"async/a.hpp": header("void f() { x->fetch_add(g(1, 2)); }")}, "without a memory order"),
    ("orders", {"async/a.hpp": header("void f() { x.exchange(1, std::memory_order_acq_rel); }")}, "without a tag"),
    ("orders", {"async/a.hpp": header("void f() { x.load(std::memory_order_consume); }  // [Q9]")}, "not used"),
    (
        "orders",
        {"async/a.hpp": header("void f() {\n  g();  // [Q1]\n  x.store(1, std::memory_order_release);\n}")},
        "without a tag",
    ),
    ("orders", {"async/a.hpp": header("struct s {\n  std::atomic<int> n_{0};\n  void f() { n_ = 1; }\n};")}, "operator"),
    ("orders", {"async/a.hpp": header("struct s {\n  std::atomic<int> n_{0};\n  void f() { ++n_; }\n};")}, "operator"),
    ("orders", {"async/a.hpp": header("struct s {\n  atomic<int> n_[2];\n  void f() { n_[1] += 2; }\n};")}, "operator"),
    ("tags", {"async/a.hpp": header("// [T1] release: publishes")}, "pairs with nothing"),
    ("tags", {"async/a.hpp": header("// [T1] release, pairs with [T2]")}, "does not exist"),
    ("tags", {"async/a.hpp": header("// [T1] release, pairs with [T2]\n// [T2] acquire, pairs with [T3]")}, "name it back"),
    ("tags", {"async/a.hpp": header("// [Q1] release, pairs with [Q2]")}, "is also in"),
    ("tags", {"async/high.hpp": GOOD["async/high.hpp"].replace(", pairs with [Q1]", "")}, "name it back"),
    ("tag_files", {"async/a.hpp": header("// [T1] release, pairs with [Q2] of low.hpp")}, "[Q2] is not explained in low.hpp"),
    ("tag_files", {"async/a.hpp": header("// relaxed: see [Q2], [Q7] in high.hpp")}, "[Q7] is not explained in high.hpp"),
    ("tag_files", {"async/a.hpp": header("// relaxed: see [Q1] and\n// [Q2] of other/high.hpp")}, "[Q2] is not explained"),
    ("abi_namespaces", versioned("namespace async {\n}"), "inline v3_4"),
    ("abi_namespaces", versioned("namespace async::detail {\n}"), "inline v3_4"),
    ("abi_namespaces", versioned("namespace steps::inline v3_3 {\n}"), "inline v3_4"),
    ("macro_names", {"async/a.hpp": header("#define ASYNC_X 1")}, "ASYNC_X"),
    ("macro_names", {"steps/a.hpp": header("#  define STEPS(x) x")}, "STEPS"),
    ("macro_names", {"steps/interop/a.h": "/* SPDX-License-Identifier: BSL-1.0 */\n#define FUTOIN_X\n"}, "FUTOIN_X"),
    ("macro_names", {"async/a.h": "/* SPDX-License-Identifier: BSL-1.0 */\n#define FUTOIN_BINARYVAL_H\n"}, "FUTOIN_BINARYVAL_H"),
    ("private_parts", {"async/a.hpp": header("void f(std::__future_base::_Result_base&);")}, "names __future_base"),
    ("private_parts", {"steps/a.hpp": header("auto& f() { return this->__state_; }")}, "names __state_"),
    ("private_parts", {"async/a.hpp": header("struct s : __gnu_cxx::t {};")}, "names __gnu_cxx"),
    ("private_parts", {"async/a.hpp": header("#define ASYNCSTEPS_SET(x) x._M_set()")}, "names _M_set"),
    ("private_parts", {"async/a.hpp": header("int f() { return _Exit_code; }")}, "names _Exit_code"),
    ("private_parts", {"test/unit/a.cpp": HEAD + "int x = std::__x;\n"}, "names __x"),
    ("private_parts", {"benchmark/a.c": HEAD + "int _X;\n"}, "names _X"),
    ("private_parts", {"async/detail/call/call_state_x.hpp": header("int __x;")}, "names __x"),
    ("private_parts", {"async/a.hpp": header("#include <bits/shared_ptr.h>")}, "includes bits/shared_ptr.h"),
    ("private_parts", {"async/a.hpp": header("#  include_next <__config>")}, "includes __config"),
    ("private_parts", {"async/a.hpp": header("namespace std {\n}")}, "adds to"),
    ("private_parts", {"async/a.hpp": header("namespace std::chrono {\n}")}, "adds to"),
    ("private_parts", {"async/a.hpp": header("template <>\nstruct std::hash<s> {};")}, "adds to"),
    ("private_parts", {"async/a.hpp": header("template <>\ninline constexpr bool std::ranges::enable_view<s> = true;")}, "adds to"),
    ("private_parts", {"async/a.hpp": header("template <>\ninline void ::std::swap(s&, s&) {}")}, "adds to"),
    ("platform_tests", {"async/a.hpp": header("#ifdef _WIN32\n#endif")}, "_WIN32"),
    ("platform_tests", {"async/a.hpp": header("#if X && defined(__x86_64__)\n#endif")}, "__x86_64__"),
    ("compiler_words", {"async/a.hpp": header("auto* f() { return __PRETTY_FUNCTION__; }")}, "__PRETTY_FUNCTION__"),
    ("compiler_words", {"async/a.hpp": header("#if X\nint x = __builtin_clz(1U);\n#endif")}, "__builtin_clz"),
    (
        "compiler_words",
        {"async/a.hpp": header("#if defined(__GNUC__)\n#endif\nint x = __builtin_clz(1U);")},
        "__builtin_clz",
    ),
    ("compiler_words", {"async/a.hpp": header("#if __cplusplus > 202002L\n#endif")}, "__cplusplus"),
    ("shared_state", {"async/a.hpp": header("inline constinit thread_local int n = 0;")}, "ASYNCSTEPS_SHARED"),
    ("shared_state", {"async/a.hpp": header("inline a& f() {\n  static a* const immortal = new a;\n}")}, "one per module"),
    ("banned", {"async/a.hpp": header("std::atomic_thread_fence(std::memory_order_seq_cst);")}, "fence"),
    ("banned", {"async/a.hpp": header("#ifndef NDEBUG\nint checks;\n#endif")}, "layouts"),
    ("banned", {"async/a.hpp": header("std::function<void()> f;")}, "copyable"),
    ("banned", {"async/a.hpp": header("std::counting_semaphore<1> s;")}, "wake-up"),
    ("banned", {"steps/a.hpp": header("std::jthread t;")}, "jthread"),
    ("banned", {"steps/a.hpp": header("using namespace std;")}, "directive"),
]

# What must not be taken for a violation.
FINE = [
    {"test/unit/a.cpp": LICENCE + WITH_TOKENS + "#if X\n#endif\nstd::stop_token t;\n#endif\n"},
    {"async/a.hpp": header("#if defined(_MSC_VER)\n#else\nint x = __builtin_clz(1U);\n#endif")},
    {"async/a.hpp": header("#if X\n#elif defined(__GNUC__)\nint x = __builtin_clz(1U);\n#endif")},
    {"async/detail/README.md": MAP},
    {
        "async/detail/call/call_state_libcxx.hpp": header("#include <__config>\nint std::__x;"),
        "async/detail/call/call_state_libstdcxx.hpp": header("int std::_X;"),
        "test/support/windows/bits/a.h": HEAD + "#define _X\nnamespace std::__x {\n}\n",
    },
    {
        "async/a.hpp": header(
            "#if __GLIBC__ > 2 && \\\n    defined(_GLIBCXX_RELEASE)\n#endif\n#ifndef __x\n#endif  // std::__x\n"
            "using namespace std::literals;\nnamespace chrono = std::chrono;\nint a__b, a_B, ends_;\n"
            'auto x = f(__FILE__, std::_Exit, sysconf(_SC_PAGESIZE), "__x");\n'
            "template <class T = std::vector<int>>\nstruct s : std::vector<T> {};\nstd::atomic<bool> y = true;"
        )
    },
    {
        "async/detail/base/a.hpp": header(""),
        "async/detail/trace/b.hpp": header('#include "async/detail/base/a.hpp"'),
        "steps/detail/flow/c.hpp": header('#include "async/detail/trace/b.hpp"'),
    },
    {"async/a.hpp": header("// x.load() and std::function and #ifdef _WIN32 in a comment")},
    {"async/a.hpp": header('const char* text = "x.load()";')},
    {"async/a.hpp": header("ASYNCSTEPS_SHARED inline a& f() {\n  static a* const immortal = new a;\n}")},
    {"async/a.hpp": header("// One per module: a hint.\ninline constinit int n = 0;")},
    {"async/a.hpp": header("void f(std::memory_order order) { x.load(order); }")},
    {"async/a.hpp": header("// [T1] seq_cst, pairs with itself on the other side\nvoid f() { x.load(std::memory_order_seq_cst); }")},
    {
        "async/a.hpp": header(
            "void f() {\n  if (x.compare_exchange_strong(a, b,\n      std::memory_order_acq_rel,  // [T1] acq_rel, pairs with\n"
            "      // [T2] and itself\n      std::memory_order_relaxed)) {\n  }\n}\n// [T2] acquire, pairs with [T1]"
        )
    },
    {"async/a.hpp": header("#include <new>  // for placement new, operator new\nauto* x = ::new (p) int(operator new(1));")},
    {"async/a.hpp": header("#include <chrono>  // for chrono: the namespace, and more\nnamespace chrono = std::chrono;")},
    {"async/a.hpp": header('#include "async/low.hpp"  // exports low')},
    {"async/a.hpp": header("// relaxed: see [Q1] and [Q2] of async/high.hpp, and [Q1] in high.hpp")},
    versioned("namespace async::inline v3_4::detail {\n}\nnamespace boost::asio {\n}\n  // #define X"),
    {"async/detail/base/platform.hpp": header("#ifdef _WIN32\n#endif\nstd::atomic_thread_fence(o);")},
    {"async/a.hpp": header("struct s {\n  std::atomic<int> n_{0};\n  int m_ = 0;\n  void f() { m_ = 1; }\n};")},
    {"steps/interop/a.hpp": header("std::jthread t;")},
    {
        "steps/interop/binary.h": "/* SPDX-License-Identifier: BSL-1.0 */\n/* #define X */\n"
        "#define FUTOIN_BINARYSTEPS_H\n#define FUTOIN_BINARYVAL_H\n#define ASYNCSTEPS_X_ 1\n"
    },
]


class Rules(unittest.TestCase):
    def project(self, files):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for path, text in files.items():
            full = os.path.join(folder.name, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write(text)
        return lint.Project(folder.name)

    def violations(self, project):
        return [(check.__name__, message) for check in lint.CHECKS for _, _, message in check(project)]

    def test_a_good_project_has_no_violations(self):
        self.assertEqual(self.violations(self.project(GOOD)), [])

    def test_every_rule_finds_what_breaks_it(self):
        for rule, files, part in BAD:
            with self.subTest(rule=rule, files=files):
                found = self.violations(self.project({**GOOD, **files}))
                self.assertTrue(any(name == rule and part in message for name, message in found), found)

    def test_every_rule_is_broken_by_some_input(self):
        self.assertEqual({check.__name__ for check in lint.CHECKS}, {rule for rule, _, _ in BAD})

    def test_what_is_fine_is_not_reported(self):
        for files in FINE:
            with self.subTest(files=files):
                self.assertEqual(self.violations(self.project({**GOOD, **files})), [])

    def test_fix_copies_snippets(self):
        broken = {
            "README.md": GOOD["README.md"].replace("return 0", "return 1"),
        }
        project = self.project({**GOOD, **broken})
        self.assertNotEqual(self.violations(project), [])
        lint.fix_snippets(project)
        self.assertEqual(self.violations(lint.Project(project.root)), [])

    @unittest.skipIf(lint.formatter() is None, "no clang-format of the version the sources are formatted with")
    def test_badly_formatted_code_is_reported_and_fixed(self):
        project = self.project({**GOOD, ".clang-format": "BasedOnStyle: Google\n", "async/a.hpp": header("int   x ;")})
        self.assertIn("async/a.hpp", [path for path, _, _ in lint.formatting(project)])
        lint.run_formatter(project, "-i")
        self.assertNotIn("async/a.hpp", [path for path, _, _ in lint.formatting(project)])


if __name__ == "__main__":
    unittest.main()
