#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The character GPT of the demo on one rank, with the settings of char_gpt_torch.py, compared with PyTorch's results.
#   bench/peers/char_gpt.sh [SEEDS] [PyTorch's output]     bench/peers/char_gpt.sh 0,1,2 torch.log
# Needs build/release/bin/run_clm (BIN=… for another folder) and build/kjv.txt, which tools/demo.sh creates. The
# held-out losses differ only because of initial values and the order of samples: their means should agree within 0.03
# nats.
set -euo pipefail
cd "$(dirname "$0")/../.."
seeds=${1:-0,1,2}
torch_log=${2:-}
bin=${BIN:-build/release/bin}
steps=1000
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for seed in ${seeds//,/ }; do
  "$bin/run_clm" --config_name examples/configs/gpt2_char.json --train_file build/kjv.txt --tokenizer_name bytes \
    --validation_split_percentage 5 --block_size 64 --global_batch_size 12 --max_steps $steps --learning_rate 1e-3 \
    --warmup_steps 100 --weight_decay 0.01 --max_grad_norm 1.0 --seed "$seed" --per_device_eval_batch_size 64 \
    --sample_tokens 0 --disable_tqdm true >"$work/$seed.log"
  sed -n "s/^held out: loss \([0-9.]*\) nats.*/tessera seed $seed step $steps held-out \1 nats/p" "$work/$seed.log" | tee -a "$work/ours"
done
[ -z "$torch_log" ] || sed -n "s/^\(seed [0-9]* step $steps held-out .*\)/torch \1/p" "$torch_log" | tee "$work/torch"
mean() { awk '{ sum += $(NF - 1) } END { printf "%.4f", sum / NR }' "$1"; }
echo "tessera mean $(mean "$work/ours") nats"
if [ -n "$torch_log" ]; then
  echo "torch mean $(mean "$work/torch") nats"
  awk -v a="$(mean "$work/ours")" -v b="$(mean "$work/torch")" \
    'BEGIN { d = a - b; if (d < 0) d = -d; printf "difference %.4f nats: %s 0.03\n", d, d <= 0.03 ? "within" : "MORE THAN"; exit d > 0.03 }'
fi
