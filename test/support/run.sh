# SPDX-License-Identifier: BSL-1.0
# shellcheck shell=bash
#
# What test/run and benchmark/run share: values of options, and packages. They source it and set `program`, and before
# they look for packages may_install and cxx; and they define say().

# Prints the value of an option, which is what it says:  value_of "a number" "$@"
value_of() {
  [[ -n ${3:-} && $3 != --* ]] || { echo "$program: $2 needs $1" >&2; return 2; }
  echo "$3"
}

has_header() { printf '#include <%s>\n' "$1" | "$cxx" -std=c++20 -x c++ -E - >/dev/null 2>&1; }
has_python() { python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; }
# Whether a command is CMake 3.N or newer.
is_cmake() {
  local least=$2 version
  version=$("$1" --version 2>/dev/null | sed -n '1s/.* \([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
  # shellcheck disable=SC2086
  set -- ${version:-0 0}
  (($1 > 3 || ($1 == 3 && $2 >= least)))
}

# Runs apt-get, with sudo where that needs no password or has a terminal to ask on. Fails where it cannot. A package that
# the system lacks does not block the others.
#   install_with_apt LOG PACKAGE...
install_with_apt() {
  local log=$1 as_root=() package
  shift
  [[ $may_install == yes ]] && command -v apt-get >/dev/null || return 1
  ((EUID == 0)) || as_root=(sudo)
  if ((EUID != 0)) && [[ ! -t 0 ]]; then as_root=(sudo -n); fi
  ((EUID == 0)) || "${as_root[@]}" true 2>/dev/null || return 1
  local get=(${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300)
  local install=("${get[@]}" install -y --no-install-recommends)
  say "installing with apt-get: $*"
  "${get[@]}" update -qq >"$log" 2>&1 || echo "  apt-get update failed, going on (see $log)" >&2
  if ! "${install[@]}" "$@" >>"$log" 2>&1 </dev/null; then
    for package in "$@"; do
      "${install[@]}" "$package" >>"$log" 2>&1 </dev/null || echo "  apt-get can't install $package (see $log)" >&2
    done
  fi
  hash -r
}
