#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scaled_dot_product_attention in PyTorch, forward and backward, as bench/attention. Prints one line of JSON.

usage: attention_torch.py [--batch 1] [--heads 1] [--length 8192] [--depth 64] [--dtype float32] [--causal] [--forward] [--steps 5]
"""
import argparse
import json
import statistics
import time

import torch


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("batch", 1), ("heads", 1), ("key_heads", 1), ("length", 8192), ("depth", 64), ("steps", 5)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--causal", action="store_true")
    parser.add_argument("--forward", action="store_true")
    a = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dtype = getattr(torch, a.dtype)

    def tensor(heads):
        return torch.randn(a.batch, heads, a.length, a.depth).to(dtype)

    q, k, v, weights = tensor(a.heads), tensor(a.key_heads), tensor(a.key_heads), tensor(a.heads)
    grouped = {"enable_gqa": True} if a.key_heads != a.heads else {}
    if not a.forward:
        for x in (q, k, v):
            x.requires_grad_()

    def step():
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=a.causal, **grouped)
        if a.forward:
            return
        (out * weights).sum().backward()
        for x in (q, k, v):
            x.grad = None

    for _ in range(2):
        step()
    times = []
    for _ in range(a.steps):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    print(json.dumps({"seconds": statistics.median(times), "torch": torch.__version__}))


if __name__ == "__main__":
    main()
