#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Saves and loads the state of GPT-2 124M with AdamW, sharded over two ranks, with torch.distributed.checkpoint.

usage: PYTHON -m torch.distributed.run --nproc_per_node 2 dcp_bench.py FOLDER

Prints a line of JSON: medians of three rounds of dcp.save, of dcp.async_save (the call, and until the checkpoint is complete), and
of dcp.load with the files outside of the page cache. The rank that prints is rank 0.
"""
import json
import os
import shutil
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

ROUNDS = 3


def shapes():
    """The parameters of GPT-2 124M."""
    width, layers, vocabulary, positions = 768, 12, 50257, 1024
    yield "wte", (vocabulary, width)
    yield "wpe", (positions, width)
    for layer in range(layers):
        for name, shape in {"ln_1.weight": (width,), "ln_1.bias": (width,), "attn.c_attn.weight": (width, 3 * width),
                            "attn.c_attn.bias": (3 * width,), "attn.c_proj.weight": (width, width), "attn.c_proj.bias": (width,),
                            "ln_2.weight": (width,), "ln_2.bias": (width,), "mlp.c_fc.weight": (width, 4 * width),
                            "mlp.c_fc.bias": (4 * width,), "mlp.c_proj.weight": (4 * width, width), "mlp.c_proj.bias": (width,)}.items():
            yield f"h.{layer}.{name}", shape
    yield "ln_f.weight", (width,)
    yield "ln_f.bias", (width,)


def timed(work):
    dist.barrier()
    start = time.perf_counter()
    work()
    dist.barrier()
    return time.perf_counter() - start


def forget(folder):
    for name in os.listdir(folder):
        descriptor = os.open(os.path.join(folder, name), os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def main():
    folder = sys.argv[1]
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    state = {}
    for kind in ("model", "exp_avg", "exp_avg_sq"):
        for name, shape in shapes():
            state[f"{kind}.{name}"] = distribute_tensor(torch.randn(shape), mesh, [Shard(0)])
    times = {"save": [], "async_call": [], "async_until_complete": [], "load": []}

    def sync_files():
        if dist.get_rank() == 0:
            for name in os.listdir(folder):
                descriptor = os.open(os.path.join(folder, name), os.O_RDONLY)
                os.fsync(descriptor)
                os.close(descriptor)

    def replace():
        dist.barrier()
        if dist.get_rank() == 0:
            shutil.rmtree(folder, ignore_errors=True)
        dist.barrier()

    for _ in range(ROUNDS):
        replace()

        def save():
            dcp.save(state, checkpoint_id=folder)
            sync_files()

        times["save"].append(timed(save))
        if dist.get_rank() == 0:
            forget(folder)
        times["load"].append(timed(lambda: dcp.load(state, checkpoint_id=folder)))
        replace()
        dist.barrier()
        start = time.perf_counter()
        pending = dcp.async_save(state, checkpoint_id=folder)
        times["async_call"].append(time.perf_counter() - start)
        pending.result()
        dist.barrier()
        times["async_until_complete"].append(time.perf_counter() - start)
    replace()
    if dist.get_rank() == 0:
        print(json.dumps({"torch": torch.__version__, **{name: round(statistics.median(values), 3) for name, values in times.items()}}))
    dist.destroy_process_group()


main()
