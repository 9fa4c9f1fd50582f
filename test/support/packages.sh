# SPDX-License-Identifier: BSL-1.0
# shellcheck shell=bash
#
# Finds the compilers and tools that test/run needs, names those that are missing, and installs them on Debian. Sourced
# by test/run, which sets trees, consumer, may_install and cxx. Leaves in `packages` what is still missing.

wants() { [[ " ${trees[*]} " == *" $1 "* ]]; }

# --- looking ---------------------------------------------------------------------------------------------------------

compiles() { printf '%s\n' "$1" | "${@:2}" -std=c++20 -x c++ -fsyntax-only - >/dev/null 2>&1; }
# The first clang++ of version 16 or newer under these names.
find_clang() {
  local command version
  for command in clang++-19 clang++; do
    version=$("$command" -dumpversion 2>/dev/null) || continue
    if ((${version%%.*} >= 16)); then command -v "$command"; return; fi
  done
  echo clang++-19
}
# The compiler of the run without a profile.
quick_compiler() {
  local clang
  clang=$(find_clang)
  if [[ -z ${CXX:-} ]] && compiles '#include <concepts>' "$clang"; then echo "$clang"; else echo "$cxx"; fi
}
# The tool by which CMake finds out what files import.
has_scan_deps() {
  local clang version
  clang=$(find_clang)
  version=$("$clang" -dumpversion 2>/dev/null) || return 1
  { command -v "clang-scan-deps-${version%%.*}" || command -v clang-scan-deps; } >/dev/null
}
has_nats_server() { command -v nats-server || [[ -x /usr/sbin/nats-server ]]; } >/dev/null 2>&1
has_libcxx() { compiles '#include <version>
#ifndef _LIBCPP_VERSION
#error
#endif' "$(find_clang)" -stdlib=libc++; }

# The runtime libraries of clang's sanitizers and of libFuzzer.
has_clang_runtime() {
  echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
    "$(find_clang)" -fsanitize=fuzzer,address -x c++ -o .build/has_clang_runtime - >/dev/null 2>&1
}

# The compiler and the emulator of a tree for another machine, and their packages; CMakePresets.json has the rest.
cross() {
  case $1 in
    armhf) machine="32-bit ARM" compiler=arm-linux-gnueabihf-g++ emulator=qemu-arm ;;
    aarch64) machine="64-bit ARM" compiler=aarch64-linux-gnu-g++ emulator=qemu-aarch64 ;;
    i686) machine="32-bit x86" compiler=i686-linux-gnu-g++ emulator=${ASYNCSTEPS_TEST_I686_LOADER:-/usr/i686-linux-gnu/lib/ld-linux.so.2}
      compiler_package=g++-i686-linux-gnu emulator_package=libc6-i386-cross
      return ;;
    riscv64) machine=RISC-V compiler=riscv64-linux-gnu-g++ emulator=qemu-riscv64 ;;
    ppc64le) machine=POWER compiler=powerpc64le-linux-gnu-g++ emulator=qemu-ppc64le ;;
    s390x) machine="IBM Z" compiler=s390x-linux-gnu-g++ emulator=qemu-s390x ;;
    musl) machine=musl compiler=$PWD/.build/zig/musl-c++ emulator=env
      return ;;
    mingw) machine=Windows compiler=x86_64-w64-mingw32-g++ emulator=wine
      # Debian has a second compiler, for Windows' own threads, which std::thread does not work with.
      compiler=$(command -v $compiler-posix || echo $compiler)
      compiler_package=g++-mingw-w64-x86-64-posix emulator_package=wine
      return ;;
    *) return 1 ;;
  esac
  compiler_package=g++-${compiler%-g++} emulator_package=qemu-user
}

# Sets `packages` and `lacking`: the packages that this run needs and does not find, and a reason for each.
look() {
  packages=() lacking=()
  lacks() { packages+=("$1"); lacking+=("$1: $2"); }
  if wants docs || [[ $consumer == yes ]]; then
    command -v doxygen >/dev/null || lacks doxygen "Doxygen, which writes the reference (without it that is not tested)"
  fi
  if wants docs; then
    has_python || lacks python3 "Python 3.9 or newer"
    return
  fi
  compiles '#include <concepts>
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 11
#error
#endif' "$cxx" || lacks g++ "a C++20 compiler (g++ 11 or clang 14, or newer), found through CXX"
  is_cmake cmake 25 || lacks cmake "CMake 3.25 or newer"
  command -v ninja >/dev/null || lacks ninja-build "the build tool Ninja"
  has_python || lacks python3 "Python 3.9 or newer, for the checks of the house rules"
  has_header doctest/doctest.h || lacks doctest-dev "the test framework doctest"
  if wants quick && [[ $(quick_compiler) == "$cxx" && -z ${CXX:-} ]]; then
    lacks clang-19 "clang++ 16 or newer, which compiles in half the time (without it g++ does)"
  fi
  if wants release; then
    has_header relacy/relacy.hpp || lacks relacy-dev "the model checker Relacy (without it the models are skipped)"
  fi
  if wants release || wants quick; then
    [[ ! -e steps/interop/asio.hpp ]] || has_header boost/asio.hpp ||
      lacks libboost-dev "Boost.Asio (without it the test of steps/interop/asio.hpp is skipped)"
    [[ ! -e steps/interop/nats.hpp ]] || {
      has_header nats/nats.h || lacks libnats-dev "the C client of NATS (without it the tests of steps/interop/nats.hpp are skipped)"
      has_nats_server || lacks nats-server "the server of NATS (without it these tests are skipped)"
    }
    command -v curl >/dev/null || lacks curl "curl, which asks the example's HTTP server (without it that test is skipped)"
  fi
  if [[ $consumer == yes ]]; then
    { command -v valgrind && has_header valgrind/callgrind.h; } >/dev/null ||
      lacks valgrind "valgrind, to count instructions (without it the budgets are not checked)"
    command -v git >/dev/null || lacks git "git, by which CMake fetches the library in a test"
    command -v pkg-config >/dev/null || lacks pkgconf "pkg-config, to test that the installed library is found by it"
    has_header benchmark/benchmark.h ||
      lacks libbenchmark-dev "Google Benchmark (without it the test of benchmark/run is skipped)"
    command -v gdb >/dev/null || lacks gdb "the debugger (without it its printers are not tested)"
    command -v clang-format-19 >/dev/null ||
      lacks clang-format-19 "clang-format 19 (without it formatting is not checked)"
    command -v clang-tidy-19 >/dev/null || lacks clang-tidy-19 "clang-tidy 19 (without it the test lint.tidy is skipped)"
    compiles '#include <concepts>' "$(find_clang)" ||
      lacks clang-19 "clang++ 16 or newer (without it the module is not tested)"
    has_scan_deps || lacks clang-tools-19 "clang-scan-deps (without it the module is not tested with CMake)"
  fi
  if wants clang; then
    compiles '#include <concepts>' "$(find_clang)" || lacks clang-19 "clang++ 16 or newer"
    has_libcxx || { lacks libc++-19-dev "libc++ of clang"; packages+=(libc++abi-19-dev); }
  fi
  if wants asan || wants fuzz; then
    has_clang_runtime || { lacks clang-19 "clang++ 16 or newer"; lacks libclang-rt-19-dev "clang's sanitizers"; }
  fi
  if wants coverage; then
    command -v "$gcov" >/dev/null || lacks gcc "gcov, which counts the lines that are run"
  fi
  for tree in "${trees[@]}"; do
    [[ $tree != musl ]] && cross "$tree" || continue  # musl: see provide_zig()
    compiles $'#include <mutex>\nstd::mutex mutex;' "$compiler" || lacks "$compiler_package" "a compiler for $machine"
    command -v "$emulator" >/dev/null ||
      lacks "$emulator_package" "what runs programs for $machine here (without wine they are only built)"
  done
}

# --- installing ------------------------------------------------------------------------------------------------------

# Says and installs what is missing; ends the run where it cannot go on without.
provide_packages() {
  look
  ((${#packages[@]})) || return 0
  say "missing:"
  printf '  %s\n' "${lacking[@]}"
  if install_with_apt .build/apt.log "${packages[@]}"; then
    look
    ((${#packages[@]} == 0)) || { say "still missing:"; printf '  %s\n' "${lacking[@]}"; }
  elif command -v apt-get >/dev/null; then
    printf '\nTo install it, as root:\n  apt-get update && apt-get install %s\n' "${packages[*]}"
  else
    printf '\nThe names are those of Debian packages; install what they hold with the package manager of this system.\n'
  fi
  local package
  for package in ${packages[@]+"${packages[@]}"}; do
    case $package in
      doxygen) if wants docs; then echo "test/run: can't go on without $package" >&2; exit 1; fi ;;
      clang-19)
        if wants clang || wants asan || wants fuzz; then echo "test/run: can't go on without $package" >&2; exit 1; fi
        wants quick || [[ ${CI:-} != true ]] ||
          { echo "test/run: $package is missing, and with CI=true nothing is skipped" >&2; exit 1; } ;;
      relacy-dev | valgrind | clang-format-19 | clang-tidy-19 | clang-tools-19 | gdb | libboost-dev | libbenchmark-dev | libnats-dev | nats-server | curl | wine)  # skipped, which ctest shows
        [[ ${CI:-} != true ]] || { echo "test/run: $package is missing, and with CI=true nothing is skipped" >&2; exit 1; } ;;
      *) echo "test/run: can't go on without $package" >&2; exit 1 ;;
    esac
  done
}

# The compiler zig brings clang, libc++ and musl, and headers of other systems. It is no Debian package: .build/zig/c++ is
# the one of Python's package index, and musl-c++ the same for musl.
provide_zig() {
  has_zig() { .build/zig/musl-c++ --version; } >/dev/null 2>&1
  if [[ $may_install == yes ]] && ! has_zig; then
    say "installing with pip: ziglang, into .build/zig"
    { rm -rf .build/zig && python3 -m venv .build/zig && .build/zig/bin/pip install --quiet 'ziglang==0.15.*' &&
      local zig && zig=$(.build/zig/bin/python -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__))')/zig &&
      for name in c++ musl-c++; do
        # Its checks for undefined behaviour are on unless they are refused.
        printf '#!/bin/bash\nexport ZIG_GLOBAL_CACHE_DIR=%q ZIG_LOCAL_CACHE_DIR=%q\nexec %q c++ -fno-sanitize=undefined%s "$@"\n' \
          "$PWD/.build/zig/cache" "$PWD/.build/zig/cache" "$zig" "$([[ $name == c++ ]] || echo ' -target x86_64-linux-musl')" \
          >".build/zig/$name" && chmod +x ".build/zig/$name"
      done; } >.build/zig.log 2>&1 </dev/null || rm -rf .build/zig
  fi
  has_zig && return
  [[ ${CI:-} != true && $profile != --musl ]] || { echo "test/run: no zig (see .build/zig.log), which compiles for musl" >&2; exit 1; }
  echo "test/run: no zig (see .build/zig.log): musl, macOS and FreeBSD are skipped"
  packages+=(zig)
  local tree others=()
  for tree in "${trees[@]}"; do [[ $tree == musl ]] || others+=("$tree"); done
  trees=("${others[@]}")
}

# Conan is no Debian package: its test uses the one of the system, or one of our own, and is skipped without.
provide_conan() {
  has_conan() { { .build/conan/bin/conan --version || command -v conan; } >/dev/null 2>&1; }
  if [[ $may_install == yes ]] && ! has_conan; then
    say "installing with pip: conan, into .build/conan"
    { rm -rf .build/conan && python3 -m venv .build/conan &&
      .build/conan/bin/pip install --quiet 'conan>=2,<3'; } >.build/conan.log 2>&1 </dev/null ||
      { rm -rf .build/conan; echo "test/run: no Conan (see .build/conan.log): the test of its recipe is skipped"; }
  fi
  has_conan || packages+=(conan)
}

# Debian 12 has CMake 3.25. The test of asyncsteps::module uses a newer one, that of the system or one of our own, and is
# skipped without.
provide_cmake() {
  knows_modules() { is_cmake cmake 28 || is_cmake .build/cmake/bin/cmake 28; }
  if [[ $may_install == yes ]] && ! knows_modules; then
    say "installing with pip: cmake, into .build/cmake"
    { rm -rf .build/cmake && python3 -m venv .build/cmake &&
      .build/cmake/bin/pip install --quiet 'cmake>=3.28,<5'; } >.build/cmake.log 2>&1 </dev/null ||
      { rm -rf .build/cmake; echo "test/run: no CMake 3.28 (see .build/cmake.log): the test of asyncsteps::module is skipped"; }
  fi
  knows_modules || packages+=(cmake-3.28)
}
