#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The step of bench/train_step in PyTorch: GPT-2, forward, backward, AdamW on random tokens. Prints one line of JSON.

usage: gpt2_torch.py --model gpt2 --batch 4 --dtype float32 --mode single     (--batch counts the sequences of this process)
With --mode ddp or fsdp this is one of several processes: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT specify which.
--compile MODE compiles the model (for DDP the module inside of DDP, as in PyTorch's documentation) with torch.compile.
"""
import argparse
import contextlib
import json
import os
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

MODELS = {"gpt2": (12, 768, 12, 50257), "small": (4, 256, 8, 256), "small50k": (4, 256, 8, 50257), "demo": (4, 128, 4, 256), "tiny": (1, 16, 2, 256)}


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.c_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attend(self, x):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2) for part in self.c_attn(x).split(c, dim=2))
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            mask = torch.ones(t, t, dtype=torch.bool).tril()
            scores = (q @ k.transpose(-2, -1)) * (c // self.heads) ** -0.5
            y = scores.masked_fill(~mask, float("-inf")).softmax(-1) @ v
        return self.c_proj(y.transpose(1, 2).reshape(b, t, c))

    def forward(self, x):
        x = x + self.attend(self.ln_1(x))
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class GPT2(nn.Module):
    def __init__(self, layers, width, heads, vocabulary, positions):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        for parameter in self.parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for block in self.h:
            x = block(x)
        # Leaves out the last position before the product, because slicing the logits would copy them.
        logits = F.linear(self.ln_f(x)[:, :-1].reshape(-1, x.shape[-1]), self.wte.weight)  # tied
        return F.cross_entropy(logits.float(), tokens[:, 1:].reshape(-1))


def wrapped(model, mode, dtype):
    if mode == "ddp":
        return nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True, static_graph=True)
    if mode == "fsdp":
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
        from torch.distributed.device_mesh import init_device_mesh

        mesh = init_device_mesh("cpu", (int(os.environ["WORLD_SIZE"]),))
        narrow = torch.bfloat16 if dtype == "bfloat16" else None
        policy = MixedPrecisionPolicy(param_dtype=narrow, reduce_dtype=torch.float32 if narrow else None)
        for block in model.h:
            fully_shard(block, mesh=mesh, mp_policy=policy)
        fully_shard(model, mesh=mesh, mp_policy=policy)
    return model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=MODELS, default="gpt2")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--block_size", type=int, default=256)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--mode", choices=["single", "ddp", "fsdp"], default="single")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--adamw", choices=["fused", "foreach"], default="fused")
    parser.add_argument("--compile", default="", choices=["", "default", "reduce-overhead", "max-autotune"],
                        help="the mode of torch.compile")
    parser.add_argument("--max_grad_norm", type=float, default=0, help="clips the norm of the gradients; 0 means no clipping")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    processes = 1
    if arguments.mode != "single":
        torch.distributed.init_process_group("gloo")
        processes = torch.distributed.get_world_size()
    model = wrapped(GPT2(*MODELS[arguments.model], positions=max(1024, arguments.block_size)), arguments.mode, arguments.dtype)
    if arguments.compile:
        model = torch.compile(model, mode=arguments.compile)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, **{arguments.adamw: True})
    narrow = arguments.dtype == "bfloat16" and arguments.mode != "fsdp"  # the policy of FSDP converts

    def step():
        tokens = torch.randint(MODELS[arguments.model][3], (arguments.batch, arguments.block_size))
        with torch.autocast("cpu", torch.bfloat16) if narrow else contextlib.nullcontext():
            loss = model(tokens)
        loss.backward()
        if arguments.max_grad_norm > 0:
            nn.utils.clip_grad_norm_(model.parameters(), arguments.max_grad_norm)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    times = []
    for i in range(arguments.warmup + arguments.steps):
        if processes > 1:
            torch.distributed.barrier()
        start = time.perf_counter()
        step()
        if processes > 1:
            torch.distributed.barrier()
        if i >= arguments.warmup:
            times.append(time.perf_counter() - start)
    if processes == 1 or torch.distributed.get_rank() == 0:
        tokens = arguments.batch * arguments.block_size * processes
        print(json.dumps({"tokens_per_second": tokens / statistics.median(times), "version": torch.__version__}), flush=True)
    if processes > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
