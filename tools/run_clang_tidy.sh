#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# clang-tidy 16 over the sources of a build directory (compile_commands.json) but for tests/; FILES… instead.
# Clang's own warnings stay off where they ask for more than g++'s -Wconversion and -Wall do.
#   tools/run_clang_tidy.sh build/tidy [FILES…]
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:?usage: tools/run_clang_tidy.sh BUILD_DIR [FILES…]}
shift
if [ $# -gt 0 ]; then
  files=("$@")
else
  mapfile -t files < <(python3 -c "
import json, sys
for entry in json.load(open(sys.argv[1] + '/compile_commands.json')):
    if '/build/' not in entry['file'] and '/tests/' not in entry['file']:
        print(entry['file'])" "$build" | sort -u)
fi
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy-16 --quiet --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-overloaded-virtual --extra-arg=-Wno-sign-conversion --extra-arg=-Wno-unknown-pragmas -p "$build"
echo "clang-tidy: ${#files[@]} files are clean"
