#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the modelled time of training steps with the measured time, after `tessera calibrate`.

usage: bench/step_time/step_time_table.py [--count 100] [--seed 1] [--steps 9] [--bin build/release/bin] [--json FILE]

Each configuration is a model (GPT-2, BERT or ResNet), a number of rows and words, a precision, a kind of recomputation and a
mesh of one or two ranks. The measured time is that of train_step or model_step. The modelled time is that of the lowered
program that rank 0 executed (TESSERA_DUMP_DIR), for the profile that calibrate wrote on the same number of ranks. Prints a
line for each configuration, and a summary. Needs an idle machine with two cores.
"""
import argparse
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
RIGHTS = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def output_of(command, ranks, environment=None):
    words = ["mpirun", "-np", str(ranks), "--bind-to", "core", *command] if ranks > 1 else command
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, env={**os.environ, **RIGHTS, **(environment or {})})
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, words))} exits with {done.returncode}:\n{done.stderr}")
    return done.stdout


def random_case(draw):
    """Returns the program with its options, and the number of ranks."""
    ranks = draw.choice((1, 2))
    if draw.random() < 0.3:
        model = draw.choice(("bert_tiny", "bert_small", "resnet18"))
        sizes = {"resnet18": ("--image_size", (32, 64)), "bert_tiny": ("--length", (32, 64)), "bert_small": ("--length", (32, 128, 256))}
        flag, values = sizes[model]
        return ["model_step", "--model", model, "--batch", ranks * draw.choice((1, 2, 4)), flag, draw.choice(values)], ranks
    command = ["train_step", "--model", draw.choice(("tiny", "small", "small", "small50k", "gpt2"))]
    most = 1 if command[2] == "gpt2" else 4
    command += ["--batch", min(most, draw.choice((1, 2, 4))), "--block_size", draw.choice((64, 128, 256))]
    if draw.random() < 0.3:
        command += ["--dtype", "bfloat16"]
    if draw.random() < 0.3:
        command += ["--recompute"]
    if ranks == 2:
        command += draw.choice((["--mesh", "data=2"], ["--fsdp", "--mesh", "fsdp=2"], ["--mesh", "model=2"]))
    return command, ranks


def modelled(folder, profile, program):
    """The modelled time of the largest program that ran."""
    found = []
    for file in folder.glob("step.*/run/program.hlo"):
        text = output_of([program, "stats", file, "--machine", profile], 1)
        found.append(float(re.search(r"([0-9.e+-]+) ms modelled", text).group(1)) / 1e3)
    return max(found)


def measure(case, given, folder, profiles):
    command, ranks = case
    dump = pathlib.Path(tempfile.mkdtemp(dir=folder))
    text = output_of([given.bin / command[0], *command[1:], "--steps", given.steps], ranks, {"TESSERA_DUMP_DIR": str(dump)})
    line = json.loads(text)
    return {"name": " ".join(map(str, command)), "ranks": ranks, "measured": line.get("step_seconds", line.get("seconds")),
            "modelled": modelled(dump, profiles[ranks], given.bin / "tessera")}


def ranks_of(values):
    order = sorted(range(len(values)), key=lambda i: values[i])
    out = [0] * len(values)
    for place, i in enumerate(order):
        out[i] = place
    return out


def rank_correlation(results):
    measured, model = (ranks_of([one[key] for one in results]) for key in ("measured", "modelled"))
    n = len(results)
    return 1 - 6 * sum((a - b) ** 2 for a, b in zip(measured, model, strict=True)) / (n * (n * n - 1))


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--count", type=int, default=100)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--steps", type=int, default=9)
    options.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    options.add_argument("--json", type=pathlib.Path)
    given = options.parse_args()
    draw, results, seen = random.Random(given.seed), [], set()
    with tempfile.TemporaryDirectory(prefix="step_time_") as place:
        folder = pathlib.Path(place)
        profiles = {ranks: folder / f"machine{ranks}.json" for ranks in (1, 2)}
        for ranks, file in profiles.items():
            output_of([given.bin / "tessera", "calibrate", file], ranks)
        while len(results) < given.count:
            case = random_case(draw)
            if str(case) in seen:
                continue
            seen.add(str(case))
            one = measure(case, given, folder, profiles)
            results.append(one)
            print(f"{one['ranks']} {one['name']:75} measured {1e3 * one['measured']:9.3f} ms, modelled {1e3 * one['modelled']:9.3f} ms, "
                  f"{one['modelled'] / one['measured']:.3f}", flush=True)
        if given.json:
            given.json.write_text(json.dumps({"profiles": {n: json.loads(f.read_text()) for n, f in profiles.items()}, "results": results}))
    errors = sorted(abs(one["modelled"] / one["measured"] - 1) for one in results)
    print(f"{len(results)} configurations: error of the model: median {statistics.median(errors):.3f}, 95% below {errors[int(0.95 * len(errors))]:.3f}; "
          f"rank correlation {rank_correlation(results):.3f}")


if __name__ == "__main__":
    main()
