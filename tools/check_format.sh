#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that clang-format 16 would not change the C++ files; --fix reformats them. Without FILES… it takes all files
# under version control.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(--dry-run --Werror)
if [ "${1:-}" = --fix ]; then
  mode=(-i)
  shift
fi
if ! command -v clang-format-16 >/dev/null; then
  echo "clang-format-16 is not installed; tools/setup.sh installs it" >&2
  exit 2
fi
if [ $# -gt 0 ]; then
  files=("$@")
elif git rev-parse --git-dir >/dev/null 2>&1; then
  mapfile -t files < <(git ls-files '*.h' '*.cpp')
else
  mapfile -t files < <(find . -path ./build -prune -o \( -name '*.h' -o -name '*.cpp' \) -print)
fi
printf '%s\0' "${files[@]}" | xargs -0 -n 40 -P "$(nproc)" clang-format-16 "${mode[@]}" || {
  echo "format: tools/check_format.sh --fix mends the above" >&2
  exit 1
}
echo "format: ${#files[@]} files are formatted"
