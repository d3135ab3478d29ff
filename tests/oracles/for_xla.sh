#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks that jaxlib reads the programs that Tessera writes for XLA: modules of the tests and every example, before and
# after partitioning. Then runs the small ones with XLA.
#   PYTHON=/path/to/venv/bin/python tests/oracles/for_xla.sh [build/release/bin]
# The modules are written to a temporary folder; KEEP=folder keeps them. The exit status is 1 if XLA refuses one.
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=$(realpath "${1:-build/release/bin}")
python=${PYTHON:-python3}
work=${KEEP:-$(mktemp -d)}
[ -n "${KEEP:-}" ] || trap 'rm -rf "$work"' EXIT
mkdir -p "$work/dumps" "$work/text"

# dump NAME COMMAND…: dumps the programs that the example partitions, after every pass.
dump() {
  local name=$1
  shift
  TESSERA_DUMP_DIR=$work/dumps/$name "$@" >"$work/$name.log" 2>&1 || { tail -n 5 "$work/$name.log"; exit 1; }
}
dump hello_mesh "$bin/hello_mesh" --virtual_ranks 4
dump mlp_mark_sharding "$bin/mlp_mark_sharding" --virtual_ranks 4 --fake_data true --steps 1
dump fsdp_auto_wrap "$bin/fsdp_auto_wrap" --virtual_ranks 3
for mesh in data=2,model=2 data=2,model=3; do
  dump "run_clm-$mesh" "$bin/run_clm" --config_name examples/configs/gpt2_char.json --block_size 64 --global_batch_size 12 \
    --mesh $mesh --fsdp full_shard --tensor_parallel model --dry_run true
done
# dumps/EXAMPLE/PROGRAM.HASH/partition/NN-PASS.hlo -> EXAMPLE-PROGRAM.HASH
example_of() {
  local path=${1#"$work"/dumps/}
  path=${path%/partition/*}
  echo "${path//\//-}"
}
for file in "$work"/dumps/*/*/partition/*.hlo; do
  example=$(example_of "$file")
  "$bin/tessera" print "$file" --for-xla -o "$work/text/$example-$(basename "$file")"
done

for file in "$work"/dumps/*/*/partition/00-input.hlo; do
  example=$(example_of "$file")
  "$bin/tessera" partition "$file" --for-xla -o "$work/text/$example-per-device.hlo"
done
# module FILE [flags of partition…]
module() {
  local file=$1 name
  name=$(basename "$1" .hlo)
  shift
  "$bin/tessera" print "$file" --for-xla -o "$work/text/$name-global.hlo"
  "$bin/tessera" partition "$file" "$@" --for-xla -o "$work/text/$name-per-device.hlo"
}
for file in tests/data/jax/*.hlo; do module "$file" --num-partitions 4; done
for file in tests/fuzz/corpus/hlo/{attributes,control_flow,mlp}.hlo; do module "$file"; done
module tests/tools/data/mlp.hlo --mesh data=2,model=3 --annotate x=data,- --annotate w=-,model
"$bin/tessera" print tests/fuzz/corpus/hlo/collectives.hlo --for-xla -o "$work/text/collectives.hlo"

"$python" tests/oracles/parse_for_xla.py "$work"/text/*.hlo | sed "s|$work/text/||"

# Checks that XLA computes the same results before and after partitioning. run_clm would take too long, and jaxlib
# 0.10.2 refuses the layout that it chose for the fft in transforms.
good=0
for file in "$work"/text/*-per-device.hlo; do
  case $file in *run_clm* | */attributes-* | */transforms-*) continue ;; esac
  global=${file%-per-device.hlo}-global.hlo
  [ -s "$global" ] || global=${file%-per-device.hlo}-00-input.hlo
  "$python" tests/oracles/evaluate_with_xla.py "$global" "$file" || good=1
done
exit $good
