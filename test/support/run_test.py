#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Tests of test/run: how it calls its tools. Scripts stand in for them and write down each call."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

TEST = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
CMAKE = """\
case $1 in
  --version) echo "cmake version 3.25.1"; exit ;;
  --fresh) mkdir -p "$5" && touch "$5/build.ninja" ;;
esac
echo "cmake $*" >>"$CALLS"
"""
CTEST = """\
echo "ctest $*" >>"$CALLS"
echo "100% tests passed, 0 tests failed out of 1"
"""
COMPILER = """\
while read -r line; do case $line in *"<${LACKING:-nothing}"*) exit 1 ;; esac; done
case "$*" in *-dumpversion*) echo 19 ;; esac
"""
MACHINES = ("arm", "aarch64", "i686", "riscv64", "powerpc64le", "s390x")
TOOLS = {"cmake": CMAKE, "ctest": CTEST, "g++": COMPILER, "clang++-19": COMPILER, "ninja": "", "valgrind": "", "wine": ""}
TOOLS |= {machine + ("-linux-gnueabihf-g++" if machine == "arm" else "-linux-gnu-g++"): COMPILER for machine in MACHINES}
TOOLS |= {"qemu-" + machine: "" for machine in ("arm", "aarch64", "riscv64", "ppc64le", "s390x")}
TOOLS |= {"x86_64-w64-mingw32-g++-posix": COMPILER, "i686-loader": "", "pkg-config": "", "git": "exit 1\n"}


class Run(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.calls = os.path.join(folder.name, "calls")
        self.tools = os.path.join(folder.name, "tools")
        self.project = os.path.join(folder.name, "a project")
        os.makedirs(os.path.join(self.project, "test/support"))
        for name in ("run", "CMakePresets.json", "support/figures.py", "support/run.sh", "support/packages.sh"):
            shutil.copy(os.path.join(TEST, name), os.path.join(self.project, "test", name))
        os.mkdir(self.tools)
        for name, text in TOOLS.items():
            self.provide(name, text)

    def provide(self, name, text):
        """A script that stands in for a tool."""
        path = os.path.join(self.tools, name)
        with open(path, "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o755)) as file:
            file.write("#!/bin/bash\n" + text)

    def run_it(self, *arguments, project=None, program="", **more):
        """Its exit code, its errors, and the calls it made."""
        path = self.tools + os.pathsep + os.environ["PATH"]
        environment = {key: value for key, value in os.environ.items() if key not in ("CI", "CXX")}
        loader = os.path.join(self.tools, "i686-loader")  # which a path names: no stand-in in PATH takes its place
        environment.update(PATH=path, CALLS=self.calls, ASYNCSTEPS_TEST_I686_LOADER=loader, **more)
        with open(self.calls, "w", encoding="utf-8"):
            pass
        project = project or self.project
        ran = subprocess.run([program or os.path.join(project, "test/run"), "--no-install", *arguments], env=environment,
                             cwd=project, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        with open(self.calls, encoding="utf-8") as file:
            return ran.returncode, ran.stderr, file.read().splitlines()

    def provide_zig(self):
        os.makedirs(os.path.join(self.project, ".build/zig"))
        self.provide(os.path.join(self.project, ".build/zig/musl-c++"), COMPILER)

    def assert_configures(self, expected, calls):
        self.assertEqual([call.split(" ")[5] for call in calls if call.startswith("cmake --fresh")], expected, calls)

    def test_a_tree_is_configured_once(self):
        code, errors, calls = self.run_it()
        self.assertEqual((code, errors), (0, ""))
        self.assert_configures([".build/quick"], calls)
        self.assertRegex("\n".join(calls), r"cmake --build .build/quick --parallel \d+\nctest ")
        code, errors, calls = self.run_it()
        self.assertEqual((code, errors), (0, ""))
        self.assert_configures([], calls)

    def test_a_filter_builds_tests_one_by_one(self):
        self.run_it("--filter", "stress")
        code, errors, calls = self.run_it("--filter", "unit")
        self.assertEqual((code, errors), (0, ""))
        self.assert_configures([], calls)
        self.assertNotIn("GROUPS=ON", " ".join(calls))
        self.assertIn("cmake --build .build/release --target build.ninja", calls)
        self.assertRegex(calls[-1], "^ctest .* -R unit$")
        self.run_it("--tsan")
        self.assertIn("cmake -DASYNCSTEPS_TEST_GROUPS=OFF .build/tsan", self.run_it("--tsan", "--filter", "unit")[2])
        self.assertIn("cmake -DASYNCSTEPS_TEST_GROUPS=ON .build/tsan", self.run_it("--tsan")[2])
        self.assertNotIn("GROUPS", " ".join(self.run_it("--tsan")[2]))

    def test_every_profile_builds_its_presets(self):
        with open(os.path.join(TEST, "CMakePresets.json"), encoding="utf-8") as file:
            presets = {preset["name"] for preset in json.load(file)["configurePresets"] if not preset.get("hidden")}
        for arguments in ["--all"], ["--ci"], ["--soak"], ["--coverage"], ["--tsan"]:
            for call in self.run_it(*arguments)[2]:
                if " --preset " in call:
                    self.assertIn(call.split(" ")[7], presets)
                    self.assertEqual(call.split(" ")[5], ".build/" + call.split(" ")[7])

    def test_each_commit_builds_one_of_the_slow_trees(self):
        built = []
        for number in "0123456789abcdef":
            self.provide("git", f"echo 000000{number}\n")
            self.provide_zig()
            calls = [call for call in self.run_it("--ci")[2] if call.startswith("cmake --fresh")]
            shutil.rmtree(os.path.join(self.project, ".build"))
            release, turn = (call.split(" ")[5] for call in calls)
            self.assertEqual(release, ".build/release")
            built.append(turn.removeprefix(".build/"))
        machines = "armhf aarch64 i686 riscv64 ppc64le s390x musl mingw".split()
        self.assertEqual(set(built), {"tsan", "asan", "clang", *machines})
        self.assertEqual((built.count("tsan"), built.count("asan")), (4, 3))

    def test_without_zig_the_others_are_built(self):
        configured = [call.split(" ")[5] for call in self.run_it("--all")[2] if call.startswith("cmake --fresh")]
        self.assertIn(".build/s390x", configured)
        self.assertNotIn(".build/musl", configured)
        for arguments, more in ((["--musl"], {}), (["--all"], {"CI": "true"})):
            code, errors, calls = self.run_it(*arguments, **more)
            self.assertEqual(code, 1)
            self.assertRegex(errors, "no zig|nothing is skipped")
            self.assertEqual(calls, [])

    def test_other_arguments_configure_it_anew(self):
        self.run_it()
        self.assert_configures([".build/quick"], self.run_it(CXX="g++")[2])

    def test_the_run_without_a_profile_takes_clang_where_it_is_there(self):
        self.assertIn("clang++-19 ", self.run_it()[2][0] + " ")
        for name in ("clang++-19", "clang++"):
            self.provide(name, "exit 1\n")
        self.assertIn("-DCMAKE_CXX_COMPILER=g++", self.run_it()[2][0])

    def test_what_is_there_by_now_is_looked_for(self):
        some = ["--filter", "model"]
        self.assert_configures([".build/release"], self.run_it(*some, LACKING="relacy/")[2])
        self.assert_configures([], self.run_it(*some, LACKING="relacy/")[2])
        self.assert_configures([".build/release"], self.run_it(*some)[2])

    def test_a_copy_builds_itself(self):
        self.run_it()
        copy = self.project + " 2"
        shutil.copytree(self.project, copy)
        self.assert_configures([".build/quick"], self.run_it(project=copy)[2])

    def test_changed_presets_configure_again(self):
        self.run_it()
        with open(os.path.join(self.project, "test/CMakePresets.json"), "a", encoding="utf-8") as file:
            file.write("\n")
        self.assert_configures([".build/quick"], self.run_it()[2])

    def test_it_finds_its_project_beside_one_of_CDPATH(self):
        other = os.path.join(self.tools, "other")
        os.makedirs(os.path.join(other, "test"))
        code, errors, calls = self.run_it(program="test/run", CDPATH=other)
        self.assertEqual((code, errors), (0, ""))
        self.assert_configures([".build/quick"], calls)
        self.assertTrue(os.path.exists(os.path.join(self.project, ".build/quick")))

    def test_it_does_not_go_on_without_what_all_need(self):
        code, errors, calls = self.run_it(LACKING="doctest/")
        self.assertEqual((code, errors, calls), (1, "test/run: can't go on without doctest-dev\n", []))
        code, errors, calls = self.run_it("--ci", LACKING="relacy/", CI="true")
        self.assertRegex(errors, r"^test/run: [\w-]+ is missing, and with CI=true nothing is skipped\n$")
        self.assertEqual((code, calls), (1, []))

    def test_a_failing_build_fails(self):
        for tool, failing in (("cmake", CMAKE + "[[ $1 != --build ]]"), ("ctest", CTEST + "exit 8"), ("cmake", CMAKE + "false")):
            with self.subTest(failing):
                with open(os.path.join(self.tools, tool), "w", encoding="utf-8") as file:
                    file.write("#!/bin/bash\n" + failing)
                shutil.rmtree(os.path.join(self.project, ".build"), ignore_errors=True)
                self.assertNotEqual(self.run_it()[0], 0)

    def test_arguments(self):
        for arguments, said in ((["--tsan", "--asan"], "test/run: --tsan or --asan, not both\n"),
                                (["--filter"], "--filter needs a regular expression\n"),
                                (["--no-such"], "test/run: unknown option --no-such\n")):
            with self.subTest(arguments):
                code, errors, calls = self.run_it(*arguments)
                self.assertIn(said, errors)
                self.assertNotEqual(code, 0)
                self.assertEqual(calls, [])
        self.assertIn("--schedule-random", self.run_it("--tsan", "--", "--schedule-random")[2][-1])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
