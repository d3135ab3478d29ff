#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs clang-tidy 16 on the sources of a build directory (compile_commands.json) except tests, or on FILES…. In a build with
# TESSERA_UNITY, it checks several sources at once, and so reads each header once for all of them.
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
import json, os, sys
build = os.path.abspath(sys.argv[1])
for entry in json.load(open(build + '/compile_commands.json')):
    name = os.path.relpath(entry['file'], build if '/Unity/' in entry['file'] else '.')
    if not name.startswith('tests/') and 'cmake_pch' not in name and ('/Unity/' in name or not name.startswith('build/')):
        print(entry['file'])" "$build" | sort -u)
fi
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" clang-tidy-16 --quiet --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-overloaded-virtual --extra-arg=-Wno-sign-conversion --extra-arg=-Wno-unknown-pragmas --extra-arg=-Wno-unused-command-line-argument -p "$build"
echo "clang-tidy: ${#files[@]} files are clean"
