#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Configures a preset: tools/configure.sh release. Quiet unless it fails. With ccache where there is one; precompiled headers
# otherwise (ccache cannot keep what uses them). CCACHE_DISABLE=1 leaves ccache alone.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:?usage: tools/configure.sh PRESET}
how=(-DCMAKE_CXX_COMPILER_LAUNCHER=)
if [ -z "${CCACHE_DISABLE:-}" ] && command -v ccache >/dev/null; then
  how=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DTESSERA_PRECOMPILE=OFF)
fi
mkdir -p build
log=build/$preset.configure.log
cmake --preset "$preset" "${how[@]}" >"$log" 2>&1 || {
  cat "$log"
  exit 1
}
