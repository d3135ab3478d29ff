#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints a table of the times of lazy and compiled steps of ResNet-18, in training and evaluation, and of steps that are compiled
again each time because a tensor grows. With --accumulator, also the speed of the example growing_accumulator before and after its
correction.

usage: bench/lazy_compiled/table.py [--bin build/release/bin] [--model resnet18] [--batch 8] [--image_size 224] [--steps 20] [--ranks 1,2] [--threads]
       [--accumulator]

Ranks are processes of mpirun, or with --threads threads.

Fails if the losses of lazy and compiled steps differ, or if the numbers of compilations are not as expected.
"""
import argparse
import json
import math
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = {"lazy": "traced each time", "compiled": "traced once, `compile()`", "growing": "compiled each time"}


def measure(program, ranks, threads, **flags):
    words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    if threads:
        words += ["--virtual_ranks", str(ranks)]
    launcher = ["mpirun", "--bind-to", "core", "-n", str(ranks)] if ranks > 1 and not threads else []
    text = subprocess.run([*launcher, program, *words], capture_output=True, text=True, check=True).stdout
    return json.loads(text.strip().splitlines()[-1])


def check(runs):
    """The three kinds of steps compute the same, and only the growing tensor is compiled in the timed steps."""
    losses = [run["loss"] for run in runs.values()]
    if any(not math.isclose(loss, losses[0], rel_tol=1e-4, abs_tol=1e-6) for loss in losses):
        sys.exit(f"the losses differ: {runs}")
    for step, run in runs.items():
        if (run["compilations"] > 0) != (step == "growing"):
            sys.exit(f"unexpected compilations: {run}")


def seconds_of_accumulator(program, median, steps):
    start = time.monotonic()
    subprocess.run([program, "--median", median, "--steps", str(steps)], capture_output=True, check=True)
    return time.monotonic() - start


def accumulator(program, few=20, many=60):
    print("\n| median of all scores | steps per second |\n|---|---|")
    for median, text in (("device", "on the device: the tensor grows"), ("host", "on the host: `host_region`")):
        seconds = seconds_of_accumulator(program, median, many) - seconds_of_accumulator(program, median, few)
        print(f"| {text} | {(many - few) / max(seconds, 1e-9):.1f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    parser.add_argument("--bin", default=ROOT / "build/release/bin", type=pathlib.Path)
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--image_size", type=int, default=224)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--threads", action="store_true")
    parser.add_argument("--accumulator", action="store_true")
    given = parser.parse_args()
    print(f"{given.model}, {given.batch} images of {given.image_size} x {given.image_size}; medians of {given.steps} steps\n")
    print("| task | ranks | step | ms | of these, execution | compilations per step | time of a compiled step |\n|---|---|---|---|---|---|---|")
    for task in ("eval", "train"):
        for ranks in map(int, given.ranks.split(",")):
            runs = {step: measure(given.bin / "lazy_compiled", ranks, given.threads, model=given.model, task=task, step=step, batch=given.batch,
                                  image_size=given.image_size, steps=given.steps) for step in STEPS}
            check(runs)
            for step, text in STEPS.items():
                run = runs[step]
                print(f"| {task} | {ranks} | {text} | {run['milliseconds']:.2f} | {run['execution_milliseconds']:.2f} | "
                      f"{run['compilations'] / given.steps:g} | {run['milliseconds'] / runs['compiled']['milliseconds']:.2f} x |", flush=True)
    if given.accumulator:
        accumulator(given.bin / "growing_accumulator")


if __name__ == "__main__":
    main()
