#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares saves and loads of Tessera with those of torch.distributed.checkpoint, on the same disk in one run.

usage: bench/peers/checkpoint/compare.py --python PYTHON [--folder DIR] [--bin build/release/bin]

Runs checkpoint_bench and dcp_bench.py on two ranks, one after the other. Prints the medians in seconds, with `cp` and `sync`,
and `cat`, of the same bytes; then the limits of docs/internals/requirements.md for the saves of checkpoint_bench. Needs an idle
machine with two cores.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
RIGHTS = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
MIB = 2**20


def output_of(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env={**os.environ, **RIGHTS})
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))} exits with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout[done.stdout.index("{"):])


def table(ours, theirs):
    begin = statistics.median(save["begin_seconds"] for save in ours["saves_beside_steps"])
    rows = [("save, until it is on the disk", ours["save_seconds"], theirs["save"], ours["cp_and_sync_seconds"]),
            ("the call that starts a save", begin, theirs["async_call"], None),
            ("load, files not in the page cache", ours["load_seconds"], theirs["load"], ours["cat_seconds"])]
    yield "| | Tessera | torch.distributed.checkpoint | `cp` and `sync`, `cat` |"
    yield "|---|---|---|---|"
    for name, own, other, plain in rows:
        yield f"| {name} | {own:.4f} | {other:.3f} | {'' if plain is None else f'{plain:.3f}'} |"


def limits(ours):
    saves = ours["saves_beside_steps"]
    median = {key: statistics.median(save[key] for save in saves) for key in ("begin_seconds", "slowdown", "cpu_seconds", "copied_bytes")}
    slowdowns = ", ".join(f"{100 * save['slowdown']:.1f}" for save in saves)
    yield f"a save blocks a step for {1e3 * median['begin_seconds']:.1f} ms (goal: at most 10 ms)"
    yield f"steps during a save take {100 * median['slowdown']:.1f}% longer (each save: {slowdowns})"
    yield f"processor time of a save: {median['cpu_seconds'] / ours['memcpy_seconds']:.2f} times a memcpy (goal: at most 2)"
    yield f"bytes copied before updates: {median['copied_bytes']:.0f}"
    yield f"speed of a save: {ours['cp_and_sync_seconds'] / ours['save_seconds']:.2f} of cp and sync (goal: at least 0.9)"
    yield f"speed of a load: {ours['cat_seconds'] / ours['load_seconds']:.2f} of cat (goal: at least 0.9)"
    yield f"bytes that rank 0 reads: {ours['bytes_read_by_rank_0'] / ours['shard_bytes']:.4f} of its shards (goal: at most 1.02)"
    yield (f"memory growth in a load: {ours['memory_growth_in_load'] / MIB:.0f} MiB; the shards have {ours['shard_bytes'] / MIB:.0f} MiB "
           "(goal: at most the shards, one tensor and 64 MiB)")


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--python", required=True, help="a Python interpreter with torch")
    options.add_argument("--folder", type=pathlib.Path)
    options.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="checkpoints_", dir=given.folder) as place:
        ours = output_of(["mpirun", "-np", 2, "--bind-to", "core", given.bin / "checkpoint_bench", "--model", "gpt2", "--folder", f"{place}/tessera"])
        theirs = output_of([given.python, "-m", "torch.distributed.run", "--nproc_per_node", 2, pathlib.Path(__file__).with_name("dcp_bench.py"),
                            f"{place}/torch"])
    print("\n".join([*table(ours, theirs), "", *limits(ours)]))


if __name__ == "__main__":
    main()
