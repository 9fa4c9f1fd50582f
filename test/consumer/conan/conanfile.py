# SPDX-License-Identifier: BSL-1.0
"""Recipe of the package manager Conan 2, for the source tree that it lies in: conan create test/consumer/conan"""

import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load


class AsyncstepsConan(ConanFile):
    name = "asyncsteps"
    description = "Lock-free queues, a thread pool, an event loop and AsyncSteps for C++20"
    license = "BSL-1.0"
    topics = ("thread-pool", "lock-free", "queue", "event-loop", "async", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    no_copy_source = True

    def _tree(self):
        return os.path.join(self.recipe_folder, "..", "..", "..")

    def set_version(self):
        """The version is written once, in async/detail/base/config.hpp."""
        config = load(self, os.path.join(self._tree(), "async", "detail", "base", "config.hpp"))
        written = re.findall(r"^#define ASYNCSTEPS_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", config, re.MULTILINE)
        self.version = self.version or ".".join(written)

    def export_sources(self):
        for pattern in ("async/*.hpp", "steps/*.hpp", "steps/*.h", "steps/*.cppm", "CMakeLists.txt", "LICENSE"):
            copy(self, pattern, src=self._tree(), dst=self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def validate(self):
        check_min_cppstd(self, 20)

    def package_id(self):
        self.info.clear()

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["ASYNCSTEPS_TESTS"] = False
        toolchain.cache_variables["ASYNCSTEPS_BENCHMARKS"] = False
        toolchain.user_presets_path = False
        toolchain.generate()

    def build(self):
        CMake(self).configure()

    def package(self):
        CMake(self).install()

    def package_info(self):
        # find_package() meets the package's own files, so that the targets are the same for everyone.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("share", "cmake", "asyncsteps")]
        self.cpp_info.set_property("pkg_config_name", "asyncsteps")
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        if self.settings.get_safe("os") in ("Linux", "FreeBSD"):
            self.cpp_info.system_libs = ["pthread"]
