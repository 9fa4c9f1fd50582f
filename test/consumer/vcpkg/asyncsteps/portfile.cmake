# SPDX-License-Identifier: BSL-1.0
#
# Port of the package manager vcpkg, for the source tree that it lies in:
#   vcpkg install asyncsteps --overlay-ports=test/consumer/vcpkg
set(VCPKG_BUILD_TYPE release) # headers only
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)

vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS -DASYNCSTEPS_TESTS=OFF -DASYNCSTEPS_BENCHMARKS=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME asyncsteps CONFIG_PATH share/cmake/asyncsteps)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/lib" "${CURRENT_PACKAGES_DIR}/share/licenses")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
