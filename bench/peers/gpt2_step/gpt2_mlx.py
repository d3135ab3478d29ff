#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The step of bench/train_step in MLX on the CPU: GPT-2, forward, backward, AdamW on random tokens, one compiled function.
Prints one line of JSON.

usage: gpt2_mlx.py --model gpt2 --batch 4 --dtype float32     (--batch counts all sequences)
"""
import argparse
import importlib.metadata
import json
import statistics
import time

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optimizers

MODELS = {"gpt2": (12, 768, 12, 50257), "small": (4, 256, 8, 256), "small50k": (4, 256, 8, 50257), "tiny": (1, 16, 2, 256)}


def read_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=MODELS, default="gpt2")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--block_size", type=int, default=256)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2)
    return parser.parse_args()


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.c_out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attend(self, x):
        b, t, c = x.shape
        q, k, v = (part.reshape(b, t, self.heads, c // self.heads).transpose(0, 2, 1, 3) for part in mx.split(self.c_attn(x), 3, axis=2))
        y = mx.fast.scaled_dot_product_attention(q, k, v, scale=(c // self.heads) ** -0.5, mask="causal")
        return self.c_proj(y.transpose(0, 2, 1, 3).reshape(b, t, c))

    def __call__(self, x):
        x = x + self.attend(self.ln_1(x))
        return x + self.c_out(nn.gelu_approx(self.c_fc(self.ln_2(x))))


class GPT2(nn.Module):
    def __init__(self, layers, width, heads, vocabulary, positions):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.h = [Block(width, heads) for _ in range(layers)]
        self.ln_f = nn.LayerNorm(width)

    def __call__(self, tokens):
        x = self.wte(tokens) + self.wpe(mx.arange(tokens.shape[1]))
        for block in self.h:
            x = block(x)
        return self.wte.as_linear(self.ln_f(x))  # tied


def main():
    arguments = read_arguments()
    mx.set_default_device(mx.cpu)
    mx.random.seed(1)
    vocabulary = MODELS[arguments.model][3]
    model = GPT2(*MODELS[arguments.model], positions=max(1024, arguments.block_size))
    narrow = mx.bfloat16 if arguments.dtype == "bfloat16" else mx.float32
    optimizer = optimizers.AdamW(learning_rate=1e-4, weight_decay=0.01, bias_correction=True)

    def loss_of(parameters, tokens):
        model.update(nn.utils.tree_map(lambda p: p.astype(narrow), parameters))
        logits = model(tokens)[:, :-1].astype(mx.float32)
        return nn.losses.cross_entropy(logits, tokens[:, 1:], reduction="mean")

    parameters = model.parameters()
    optimizer.init(parameters)

    @mx.compile
    def step(parameters, state, tokens):
        loss, gradients = mx.value_and_grad(loss_of)(parameters, tokens)
        optimizer.state = state
        parameters = optimizer.apply_gradients(gradients, parameters)
        return loss, parameters, optimizer.state

    state = optimizer.state
    times = []
    for i in range(arguments.warmup + arguments.steps):
        tokens = mx.random.randint(0, vocabulary, (arguments.batch, arguments.block_size))
        mx.eval(tokens)
        start = time.perf_counter()
        loss, parameters, state = step(parameters, state, tokens)
        mx.eval(loss, parameters, state)
        if i >= arguments.warmup:
            times.append(time.perf_counter() - start)
    rate = arguments.batch * arguments.block_size / statistics.median(times)
    version = importlib.metadata.version("mlx")
    print(json.dumps({"tokens_per_second": rate, "version": version, "loss": float(loss)}), flush=True)


if __name__ == "__main__":
    main()
