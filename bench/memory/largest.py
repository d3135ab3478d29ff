#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the largest model, and the largest batch, whose training fits into the memory of a device: data parallel and FSDP.

usage: bench/memory/largest.py [--memory 2GB] [--devices 1,2,4,8] [--width 768] [--resnet] [--bin build/release/bin]

Without --resnet, both tables are plans of `run_clm --dry_run` (GPT-2, blocks of 1024 tokens, AdamW, f32, recomputed blocks): nothing is trained.
With --resnet, plans of `train_imagenet --dry_run` (ResNet-50, images of 224 x 224, SGD, f32) instead: images for each data shard, also with image rows
that are sharded over two devices. The first table of GPT-2 has the number of parameters of the deepest model of the given width, with one row of tokens on each device,
so that all devices compute equally much for each parameter. The second one has the rows for each device of GPT-2 124M
(12 layers of width 768).
"""
import argparse
import json
import pathlib
import re
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
STRATEGIES = {"data parallel": ["--mesh", "data={0}"], "FSDP": ["--mesh", "fsdp={0}", "--fsdp", "full_shard"]}
IMAGE_STRATEGIES = {**STRATEGIES, "spatial": ["--mesh", "data={1},rows=2", "--spatial_sharding", "rows"]}


def planned(run, folder, layers, width, rows, strategy, devices):
    """Returns (bytes of a device, parameters) of the plan."""
    config = folder / "config.json"
    config.write_text(json.dumps({"model_type": "gpt2", "n_layer": layers, "n_embd": width, "n_head": width // 64, "vocab_size": 50257,
                                  "n_positions": 1024}))
    mesh = [word.format(devices) for word in STRATEGIES[strategy]]
    text = subprocess.run([run, "--dry_run", "--config_name", str(config), "--per_device_train_batch_size", str(rows),
                           "--gradient_checkpointing", *mesh], capture_output=True, text=True, check=True).stdout
    return bytes_in(text), int(re.search(r": (\d+) parameters", text)[1])


def bytes_in(text):
    """The memory of a device in the output of a dry run."""
    total = int(re.search(r"total at the peak.*\((\d+) bytes\)", text)[1])
    workspace = int(re.search(r"workspace of the kernels.*\((\d+) bytes\)", text)[1])
    return total + workspace


def images(bin, rows, strategy, devices):
    """Returns the bytes of a device for ResNet-50 with `rows` images for each data shard."""
    mesh = [word.format(devices, devices // 2) for word in IMAGE_STRATEGIES[strategy]]
    return bytes_in(subprocess.run([bin / "train_imagenet", "--dry_run", "--model", "resnet50", "--batch_size", str(rows), *mesh],
                                   capture_output=True, text=True, check=True).stdout)


def resnet(bin, devices, memory, given):
    print(f"images for each data shard of ResNet-50 with {given} for each device\n")
    print("| devices | " + " | ".join(IMAGE_STRATEGIES) + " |\n|---|" + "---|" * len(IMAGE_STRATEGIES))
    for count in devices:
        cells = ["-" if strategy == "spatial" and count < 2 else str(largest(lambda n: images(bin, n, strategy, count), memory, 1024)) for strategy in IMAGE_STRATEGIES]
        print(f"| {count} | " + " | ".join(cells) + " |", flush=True)


def largest(bytes_of, memory, most):
    """The largest number in [0, most] that needs at most `memory`. The bytes are nearly a linear function of the number."""
    known = {1: bytes_of(1), 2: bytes_of(2)}
    while True:
        low = max((n for n in known if known[n] <= memory), default=0)
        high = min((n for n in known if known[n] > memory), default=most + 1)
        if low == 0 or high - low == 1:
            return low
        (first, before), (last, after) = sorted(known.items(), key=lambda item: abs(item[1] - memory))[:2]
        slope = (after - before) / (last - first)
        guess = first + (memory - before) / slope if slope > 0 else high
        guess = min(max(int(guess), low + 1), high - 1)
        known[guess] = bytes_of(guess)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--devices", default="1,2,4,8")
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--bin", default="build/release/bin")
    parser.add_argument("--resnet", action="store_true")
    arguments = parser.parse_args()
    memory = int(float(arguments.memory.removesuffix("GB")) * 2**30)
    run = str(ROOT / arguments.bin / "run_clm")
    devices = [int(count) for count in arguments.devices.split(",")]
    if arguments.resnet:
        resnet(ROOT / arguments.bin, devices, memory, arguments.memory)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        print(f"million parameters of the deepest GPT-2 of width {arguments.width} that trains with {arguments.memory} for each device\n")
        print("| devices | " + " | ".join(STRATEGIES) + " |\n|---|" + "---|" * len(STRATEGIES))
        for count in devices:
            cells = []
            for strategy in STRATEGIES:
                layers = largest(lambda n: planned(run, folder, n, arguments.width, 1, strategy, count)[0], memory, 1024)
                cells.append(f"{planned(run, folder, layers, arguments.width, 1, strategy, count)[1] / 1e6:.0f}" if layers else "none")
            print(f"| {count} | " + " | ".join(cells) + " |", flush=True)
        print(f"\nrows of 1024 tokens for each device of GPT-2 124M with {arguments.memory} for each device\n")
        print("| devices | " + " | ".join(STRATEGIES) + " |\n|---|" + "---|" * len(STRATEGIES))
        for count in devices:
            cells = [str(largest(lambda n: planned(run, folder, 12, 768, n, strategy, count)[0], memory, 256)) for strategy in STRATEGIES]
            print(f"| {count} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
