# SPDX-License-Identifier: BSL-1.0
"""Builds the project of test/consumer, two folders up, with the package."""

import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout


class AsyncstepsTestConan(ConanFile):
    settings = "os", "arch", "compiler", "build_type"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["HOW"] = "package"
        toolchain.cache_variables["VERSION"] = str(self.dependencies["asyncsteps"].ref.version)
        toolchain.user_presets_path = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure(build_script_folder=os.path.join(self.recipe_folder, "..", ".."))
        cmake.build()

    def test(self):
        if can_run(self):
            for program in ("consumer", "consumer_without_rtti", "consumer_mixed"):
                self.run(os.path.join(self.cpp.build.bindir, program), env="conanrun")
