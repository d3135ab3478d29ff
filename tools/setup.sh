#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs missing Debian packages that Tessera needs. Fast if all are installed.
#   tools/setup.sh [build|test|all]…   build: for the demo; test (default): also for the tests; all: also for the
#   linters
set -euo pipefail

build=(g++ make cmake ninja-build pkg-config openmpi-bin libopenmpi-dev libdnnl-dev libeigen3-dev libfmt-dev
       libboost1.81-dev libboost-json1.81-dev libboost-program-options1.81-dev libpcre2-dev libutf8proc-dev zlib1g-dev libpng-dev libxxhash-dev libyaml-dev libbenchmark-dev libgtest-dev libgmock-dev
       bible-kjv bible-kjv-text)
test=("${build[@]}" git python3 clang-format-16 doxygen dataset-fashion-mnist iproute2)
all=("${test[@]}" clang-tidy-16)
optional=(libmimalloc-dev)  # a faster partitioner in `tessera` and the benchmarks

wanted=${1:-test}
case $wanted in
  build) packages=("${build[@]}") ;;
  test) packages=("${test[@]}") ;;
  all) packages=("${all[@]}") ;;
  *) echo "usage: tools/setup.sh [build|test|all]" >&2; exit 2 ;;
esac

if ! command -v dpkg-query >/dev/null; then
  echo "setup: this is no Debian system; please install the equivalents of: ${packages[*]}" >&2
  exit 0
fi
missing_of() {
  comm -13 <(dpkg-query -W -f '${db:Status-Abbrev}|${Package}\n' "$@" 2>/dev/null | sed -n 's/^ii *|//p' | sort -u) \
    <(printf '%s\n' "$@" | sort -u)
}
mapfile -t missing < <(missing_of "${packages[@]}")
mapfile -t wanted_too < <(missing_of "${optional[@]}")
if [ ${#missing[@]} -eq 0 ] && [ ${#wanted_too[@]} -eq 0 ]; then
  echo "setup: nothing to install"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    [ ${#missing[@]} -eq 0 ] && exit 0
    echo "setup: needs root or sudo to install: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
install() {
  [ $# -eq 0 ] && return
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends --no-remove "$@" </dev/null
}
echo "setup: installing ${missing[*]} ${wanted_too[*]}"
# The package lists may be absent or old: updates them, then tries again.
if ! install "${missing[@]}" "${wanted_too[@]}" >/dev/null 2>&1; then
  "${as_root[@]}" apt-get -q update </dev/null || [ ${#missing[@]} -eq 0 ]
  install "${missing[@]}"
  install "${wanted_too[@]}" >/dev/null 2>&1 || echo "setup: without ${wanted_too[*]}, which is optional"
fi
echo "setup: done"
