#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Configures a preset: tools/configure.sh release [-DNAME=VALUE ..]. Prints nothing unless it fails. TESSERA_CCACHE=1 uses ccache, and no
# precompiled headers, which ccache does not support; the first build is then slower.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:?usage: tools/configure.sh PRESET}
how=(-DCMAKE_CXX_COMPILER_LAUNCHER= "${@:2}")
if [ -n "${TESSERA_CCACHE:-}" ]; then
  how=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DTESSERA_PRECOMPILE=OFF "${@:2}")
fi
mkdir -p build
log=build/$preset.configure.log
cmake --preset "$preset" "${how[@]}" >"$log" 2>&1 || {
  cat "$log"
  exit 1
}
