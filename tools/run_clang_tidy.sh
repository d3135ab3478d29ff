#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs clang-tidy 16 on the sources of a build directory (compile_commands.json) except tests/, or on FILES….
# Disables warnings of Clang that are stricter than -Wconversion and -Wall of g++.
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
