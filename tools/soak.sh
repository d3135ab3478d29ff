#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Searches for faults with new seeds: random programs, mutated HLO files, random training layouts, killed trainings (docs/internals/debugging.md).
#   tools/soak.sh [MINUTES] [options of tools/soak/soak.py]
# MINUTES is 60 by default. Builds the programs that it needs, unless --bin FOLDER gives existing ones.
set -euo pipefail
cd "$(dirname "$0")/.."

case " $* " in
  *" --bin "* | *" --help "*) ;;
  *)
    [ -f build/release/build.ninja ] || tools/configure.sh release
    cmake --build --preset release -j "$(nproc)" --target tessera_command random_programs run_clm
    ;;
esac
exec nice python3 tools/soak/soak.py "$@"
