#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the stages of ZeRO on two ranks, with and without recomputing blocks, and prints a table.

usage: bench/train_step/zero_table.py [--model gpt2] [--batch 4] [--ranks 2] [--steps 5] [--rounds 3] [--dtype float32]

Rounds repeat all configurations; speeds are medians of them, memory is that of the last round. "planned" and "measured"
are planned_peak_bytes and measured_peak_bytes of train_step (output.md): the memory plan of a rank, and the peak of its
process, which also contains the program itself and its libraries.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def measure(given, stage, recompute):
    command = ["mpirun", "-np", str(given.ranks), "--bind-to", "core", str(given.bin / "train_step"), "--fsdp",
               "--model", given.model, "--batch", str(given.batch), "--steps", str(given.steps), "--dtype", given.dtype,
               "--zero_stage", str(stage), "--recompute", str(recompute).lower()]
    rights = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **rights})
    return json.loads(done.stdout.splitlines()[-1])


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--model", default="gpt2")
    options.add_argument("--batch", type=int, default=4)
    options.add_argument("--ranks", type=int, default=2)
    options.add_argument("--steps", type=int, default=5)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--dtype", default="float32")
    options.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    given = options.parse_args()
    cases = [(stage, recompute) for stage in (0, 1, 2, 3) for recompute in (False, True)]
    runs = {case: [] for case in cases}
    for _ in range(given.rounds):
        for case in cases:
            runs[case].append(measure(given, *case))
    base = statistics.median(run["tokens_per_second"] for run in runs[cases[0]])
    print("| ZeRO | recompute | planned | measured | measured / planned | tokens/s | of ZeRO-0 | first loss |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    for stage, recompute in cases:
        last = runs[stage, recompute][-1]
        speed = statistics.median(run["tokens_per_second"] for run in runs[stage, recompute])
        planned, measured = last["planned_peak_bytes"], last["measured_peak_bytes"]
        print(f"| {stage} | {'blocks' if recompute else 'no'} | {planned / 1e9:.3f} GB | {measured / 1e9:.3f} GB "
              f"| {measured / planned:.3f} | {speed:.0f} | {speed / base:.2f} | {last['first_loss']:.5f} |")


if __name__ == "__main__":
    main()
