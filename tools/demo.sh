#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trains a small GPT-2 on the King James Bible with 4 ranks on a 2x2 mesh: FSDP over one axis, tensor parallelism over
# the other one. Installs missing packages and builds the programs that it needs. Further flags are passed to run_clm:
# tools/demo.sh --max_steps 100
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh build

tools/configure.sh release
cmake --build --preset release -j "$(nproc)" --target run_clm

text=build/kjv.txt
if [ ! -s $text ]; then
  PATH=$PATH:/usr/games bible -f -l0 'gen1:1-rev22:21' | cut -d' ' -f2- >$text.part
  mv $text.part $text
fi

command=(mpirun --oversubscribe --mca mpi_yield_when_idle 1 -np 4 build/release/bin/run_clm
  --config_name examples/configs/gpt2_char.json --train_file $text --tokenizer_name bytes --block_size 64
  --mesh data=2,model=2 --fsdp full_shard --tensor_parallel model --global_batch_size 12
  --learning_rate 1e-3 --warmup_steps 100 --weight_decay 0.01 --max_steps 1000 --logging_steps 50
  --output_dir build/demo --overwrite_output_dir "$@")
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
printf '\n%s\n\n' "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ${command[*]}"
exec "${command[@]}"
