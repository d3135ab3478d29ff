#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A ResNet-50 block, forward and backward, in Tessera and PyTorch in turn on one core; prints medians and ratios within rounds.

usage: compare.py [--bin build/release/bin] [--python PATH] [--core 0] [--rounds 5] [--batch 4] [--size 56] [--channels 256]
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def seconds(command, core):
    variables = {key: value for key, value in os.environ.items() if not key.startswith(("OPENBLAS_", "OMP_", "MKL_", "KMP_"))}
    variables["OMP_NUM_THREADS"] = "1"
    done = subprocess.run(["taskset", "-c", core, *command], env=variables, capture_output=True, text=True, check=True)
    return json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])["seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=str(HERE.parents[2] / "build/release/bin"))
    parser.add_argument("--python", default=sys.executable, help="has torch")
    parser.add_argument("--core", default="0")
    parser.add_argument("--rounds", type=int, default=5)
    sizes = {"batch": 4, "size": 56, "channels": 256}
    for name, value in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    arguments = parser.parse_args()
    given = [word for name in sizes for word in (f"--{name}", str(getattr(arguments, name)))]
    torch = [arguments.python, str(HERE / "resnet_block_torch.py"), *given]
    contenders = {"tessera": [f"{arguments.bin}/resnet_block", *given], "torch": torch,
                  "torch channels_last": [*torch, "--channels_last"]}
    times = {name: [] for name in contenders}
    for _ in range(arguments.rounds):
        for name, command in contenders.items():
            times[name].append(seconds(command, arguments.core))
    for name, values in times.items():
        ratios = [theirs / ours for theirs, ours in zip(values, times["tessera"])]
        print(f"{name:20} {1e3 * statistics.median(values):8.2f} ms   its time / tessera's: {statistics.median(ratios):5.2f} "
              f"({min(ratios):.2f}..{max(ratios):.2f})")


if __name__ == "__main__":
    main()
