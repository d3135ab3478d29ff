#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the losses of bf16 and f32 training of a small GPT-2 on the text of the demo.

    bench/precision/bf16_losses.py RUN_CLM TEXT [STEPS]      TEXT: build/kjv.txt of tools/demo.sh

A run's figure is the mean of its last 100 losses. For each seed and mesh, f32 and bf16 start from the same weights and
read the same batches. The figure of bf16 must be within 0.5% of that of f32, and the spread of bf16 over meshes must be at
most its spread over seeds.
"""
import json
import subprocess
import sys
import tempfile

SEEDS = (42, 43, 44)
MESHES = ('data=1', 'fsdp=2', 'model=2', 'data=3', 'fsdp=2,model=2')
LIMIT = 0.005
CONFIG = {'model_type': 'gpt2', 'vocab_size': 256, 'n_positions': 32, 'n_embd': 48, 'n_layer': 2, 'n_head': 4,
          'resid_pdrop': 0.0, 'embd_pdrop': 0.0, 'attn_pdrop': 0.0}


def figure(program, text, steps, seed, mesh, is_bf16):
    with tempfile.TemporaryDirectory() as folder:
        config = folder + '/config.json'
        with open(config, 'w', encoding='utf-8') as out:
            json.dump(CONFIG, out)
        command = [program, '--config_name', config, '--train_file', text, '--tokenizer_name', 'bytes', '--block_size', '32',
                   '--mesh', mesh, '--global_batch_size', '12', '--learning_rate', '1e-3', '--warmup_steps', '100',
                   '--max_steps', str(steps), '--logging_steps', '1', '--logging_dir', folder, '--disable_tqdm',
                   '--seed', str(seed), '--data_seed', '42', '--do_eval', 'false', '--sample_tokens', '0']
        ranks = 1
        for axis in mesh.split(','):
            ranks *= int(axis.split('=')[1])
        command += ['--virtual_ranks', str(ranks)] if ranks > 1 else []
        command += ['--fsdp', 'full_shard'] if 'fsdp' in mesh else []
        command += ['--tensor_parallel', 'model'] if 'model' in mesh else []
        command += ['--bf16'] if is_bf16 else []
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode:
            sys.exit(' '.join(command) + '\n' + run.stdout + run.stderr)
        with open(folder + '/log.jsonl', encoding='utf-8') as log:
            losses = [entry['loss'] for entry in map(json.loads, log) if 'loss' in entry]
    last = losses[-100:]
    return sum(last) / len(last)


def main():
    program, text = sys.argv[1:3]
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else 1000
    cases = [(seed, MESHES[0]) for seed in SEEDS] + [(SEEDS[0], mesh) for mesh in MESHES[1:]]
    found = {}
    print(f'mean of the last 100 of {steps} losses\n{"seed":>4}  {"mesh":16} {"f32":>9} {"bf16":>9} {"difference":>11}')
    for seed, mesh in cases:
        f32, bf16 = (figure(program, text, steps, seed, mesh, b) for b in (False, True))
        found[seed, mesh] = (f32, bf16)
        print(f'{seed:>4}  {mesh:16} {f32:9.5f} {bf16:9.5f} {100 * (bf16 / f32 - 1):+10.3f}%', flush=True)
    spread = lambda values: max(values) - min(values)
    over_seeds = spread([found[seed, MESHES[0]][1] for seed in SEEDS])
    over_meshes = spread([found[SEEDS[0], mesh][1] for mesh in MESHES])
    worst = max(abs(b / f - 1) for f, b in found.values())
    print(f'largest difference {100 * worst:.3f}% (limit {100 * LIMIT}%), spread of bf16 over meshes {over_meshes:.5f}, over seeds {over_seeds:.5f}')
    good = worst <= LIMIT and over_meshes <= over_seeds
    print('holds' if good else 'DOES NOT HOLD')
    sys.exit(not good)


if __name__ == '__main__':
    main()
