#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Attention in Tessera and PyTorch in turn on one core, and the peak memory of Tessera by length.

usage: compare.py [--bin build/release/bin] [--python PATH] [--core 0] [--rounds 3] [--length 8192] [--depth 64]

Prints for each element type and mask the medians of forward and backward, and the ratios within rounds. Then the planned
peak memory for half, once and twice the length: it doubles.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def run(command, core):
    variables = {key: value for key, value in os.environ.items() if not key.startswith(("OPENBLAS_", "OMP_", "MKL_", "KMP_"))}
    variables["OMP_NUM_THREADS"] = "1"
    done = subprocess.run(["taskset", "-c", core, *command], env=variables, capture_output=True, text=True, check=True)
    return json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=str(HERE.parents[2] / "build/release/bin"))
    parser.add_argument("--python", default=sys.executable, help="has torch")
    parser.add_argument("--core", default="0")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--length", type=int, default=8192)
    parser.add_argument("--depth", type=int, default=64)
    a = parser.parse_args()
    ours = [f"{a.bin}/attention"]
    theirs = [a.python, str(HERE / "attention_torch.py")]
    given = ["--length", str(a.length), "--depth", str(a.depth)]
    for dtype in ("float32", "bfloat16"):
        for causal in (False, True):
            for forward in (False, True):
                flags = [*given, "--dtype", dtype] + ["--causal"] * causal + ["--forward"] * forward
                times = [(run([*ours, *flags], a.core)["seconds"], run([*theirs, *flags], a.core)["seconds"])
                         for _ in range(a.rounds)]
                ratios = [peer / own for own, peer in times]
                name = f"{dtype} {'causal ' if causal else ''}{'forward' if forward else 'forward+backward'}"
                print(f"{name:34} {1e3 * statistics.median(t[0] for t in times):8.1f} ms, torch "
                      f"{1e3 * statistics.median(t[1] for t in times):8.1f} ms, its time / tessera's: "
                      f"{statistics.median(ratios):5.2f} ({min(ratios):.2f}..{max(ratios):.2f})", flush=True)
    for length in (a.length // 2, a.length, 2 * a.length):
        peak = run([*ours, "--length", str(length), "--depth", str(a.depth), "--steps", "1"], a.core)["peak_bytes"]
        print(f"peak memory at {length:6}: {peak / 2**20:7.1f} MiB")


if __name__ == "__main__":
    main()
