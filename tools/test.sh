#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs missing packages, builds, and runs every test. Stops at the first failure.
#   tools/test.sh          checks of the tree, release build and all tests, unit and conformance tests with ASan and
#   UBSan
#   tools/test.sh --all    also the tests labelled long, nearly every test with ASan and UBSan, tests with ranks as threads with TSan, clang-tidy
set -uo pipefail
cd "$(dirname "$0")/.."

all=no
case ${1:-} in
  "") ;;
  --all) all=yes ;;
  *) echo "usage: tools/test.sh [--all]" >&2; exit 2 ;;
esac
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
jobs=$(nproc)
table=""

print_table() { printf '\n%s\n' "step                                     time"; printf '%b' "$table"; }

# step NAME COMMAND…: runs the command and measures its time. After a failure, prints the name of the step and exits.
step() {
  local name=$1 start=$SECONDS
  shift
  printf '\n==> %s\n' "$name"
  if ! "$@"; then
    print_table
    printf '\nFAILED: %s (%s)\n' "$name" "$*"
    exit 1
  fi
  local took=$((SECONDS - start))
  table+=$(printf '%-36s %3d:%02d' "$name" $((took / 60)) $((took % 60)))'\n'
}

# Tests that start, kill and watch processes depend on the time that a busy machine gives them, so a test that fails runs once
# more. The output has both runs. Several tests mostly wait, so two tests more than there are cores run at the same time.
run_tests() { ctest --preset "$1" -j "$((jobs + 2))" --repeat until-pass:2 "${@:2}"; }

build() { cmake --build --preset "$1" -j "$jobs" "${@:2}"; }

if [ $all = yes ]; then step "set-up" tools/setup.sh all; else step "set-up" tools/setup.sh test; fi
step "layers" python3 tools/check_layers.py
step "sizes" python3 tools/check_sizes.py
step "licences" python3 tools/check_spdx.py
step "links" python3 tools/check_links.py
step "format" tools/check_format.sh

step "configure release" tools/configure.sh release
step "build release" build release
# Entries with the label long repeat tests with all cases.
if [ $all = yes ]; then long=(); else long=(-LE long); fi
step "tests" run_tests release "${long[@]}"

kernels=-DTESSERA_KERNELS_FROM=$PWD/build/release  # they are compiled without sanitizers
if [ $all = yes ]; then
  step "configure asan" tools/configure.sh asan_full "$kernels"
  step "build asan" build asan_full
  step "tests under ASan+UBSan" run_tests asan_full -LE "install|repo|docs|bench|long|plans"
  step "configure tsan" tools/configure.sh tsan "$kernels"
  step "build tsan" build tsan --target unit_tests conformance_tests checkpoint_tests
  step "tests under TSan" run_tests tsan -L "unit|conformance|checkpoint"
  step "configure tidy" tools/configure.sh tidy
  step "clang-tidy" tools/run_clang_tidy.sh build/tidy
else
  step "configure asan" tools/configure.sh asan "$kernels"
  step "build asan" build asan --target unit_tests conformance_tests
  step "unit tests under ASan+UBSan" run_tests asan -L "unit|conformance"
fi
print_table
printf '\nall tests passed\n'
