#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD_DIR VERSION: installs, runs the installed programs, then builds and runs programs with find_package (complete, and
# core only) and with pkg-config.
set -euo pipefail
build=$1
version=$2
source=$(cd "$(dirname "$0")/consumer" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# Installs to another prefix than the configured one, then moves the folder: no file may contain an absolute path.
cmake --install "$build" --prefix "$work/first" >"$work/log" 2>&1 || { tail -5 "$work/log"; exit 1; }
mv "$work/first" "$work/prefix"

# The installed programs need nothing of the build, and tessera launch finds those beside it although PATH has none of them.
bin=$work/prefix/bin
share=$work/prefix/share/tessera
for program in tessera run_clm run_mlm run_classification train_imagenet train_moe generate plan_gpt2; do
  "$bin/$program" --help >"$work/log" || { echo "$program --help failed"; exit 1; }
  if readelf -d "$bin/$program" | grep -F "$build"; then echo "$program needs libraries of the build"; exit 1; fi
done
small=(--fake_data --block_size 8 --global_batch_size 2 --max_steps 1 --do_eval false --report_to none --disable_tqdm)
"$bin/tessera" launch -np 2 -- run_clm --config_name "$share/configs/gpt2_char.json" "${small[@]}" \
  --output_dir "$work/run" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
[ -s "$work/run/model.safetensors" ] || { echo "the installed run_clm saved no model"; exit 1; }
"$bin/tessera" stats "$share/hlo/mlp.hlo" >/dev/null

expect() { [ "$2" = "$3" ] || { echo "$1 printed '$2', expected '$3'"; exit 1; }; }
core="tessera $version: f32[4,6] on mesh<data=2, model=3>"
training="tessera $version: 258 ids, 3 tokens, policy 1"

cmake -S "$source" -B "$work/cmake" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DWANTED_VERSION="$version" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cmake --build "$work/cmake" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
expect "find_package, component core" "$("$work/cmake/consumer_core")" "$core"
expect "find_package, everything" "$("$work/cmake/consumer_training")" "$training"

# The project of the tutorial.
top=$(cd "$(dirname "$0")/../.." && pwd)
cmake -S "$top/examples/tutorial" -B "$work/tutorial" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/prefix" \
  >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
cmake --build "$work/tutorial" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
first=$("$work/tutorial/tutorial" --text "$top/LICENSE" --steps 1)
case $first in "step   1  loss 5."*) ;; *) echo "the tutorial printed '$first'"; exit 1 ;; esac

pc=$(dirname "$(find "$work/prefix" -name tessera.pc)")
export PKG_CONFIG_PATH=$pc
expect "pkg-config --modversion" "$(pkg-config --modversion tessera)" "$version"
# shellcheck disable=SC2046  # flags are words
g++ -std=c++20 "$source/core.cpp" -o "$work/core" $(pkg-config --cflags --libs tessera)
expect "pkg-config" "$("$work/core")" "$core"
# shellcheck disable=SC2046
g++ -std=c++20 "$source/training.cpp" -o "$work/training" $(pkg-config --static --cflags --libs tessera)
expect "pkg-config --static" "$("$work/training")" "$training"
echo "installed, found by find_package and pkg-config, ran"
