#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The step of bench/train_step in JAX: GPT-2, forward, backward, AdamW on random tokens, one jitted program with
donated state. Prints one line of JSON.

usage: gpt2_jax.py --model gpt2 --batch 4 --dtype float32 --devices 1 [--fsdp]     (--batch counts all sequences)
Sets the number of CPU devices. Parameters are replicated (data parallelism) or, with --fsdp, sharded along their first dim.
"""
import argparse
import functools
import json
import os
import statistics
import time

MODELS = {"gpt2": (12, 768, 12, 50257), "small": (4, 256, 8, 256), "small50k": (4, 256, 8, 50257), "tiny": (1, 16, 2, 256)}


def read_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=MODELS, default="gpt2")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--block_size", type=int, default=256)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--fsdp", action="store_true")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2)
    return parser.parse_args()


ARGUMENTS = read_arguments()
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={ARGUMENTS.devices} " + os.environ.get("XLA_FLAGS", "")

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

LAYERS, WIDTH, HEADS, VOCABULARY = MODELS[ARGUMENTS.model]
COMPUTE = jnp.bfloat16 if ARGUMENTS.dtype == "bfloat16" else jnp.float32


def initial_parameters():
    random = np.random.default_rng(1)

    def normal(*dims):
        return random.normal(0, 0.02, dims).astype(np.float32)

    def zeros(*dims):
        return np.zeros(dims, np.float32)

    def ones(*dims):
        return np.ones(dims, np.float32)

    def block():
        return {"ln_1": (ones(WIDTH), zeros(WIDTH)), "attn": (normal(WIDTH, 3 * WIDTH), zeros(3 * WIDTH)),
                "proj": (normal(WIDTH, WIDTH), zeros(WIDTH)), "ln_2": (ones(WIDTH), zeros(WIDTH)),
                "fc": (normal(WIDTH, 4 * WIDTH), zeros(4 * WIDTH)), "out": (normal(4 * WIDTH, WIDTH), zeros(WIDTH))}

    return {"wte": normal(VOCABULARY, WIDTH), "wpe": normal(max(1024, ARGUMENTS.block_size), WIDTH),
            "h": [block() for _ in range(LAYERS)], "ln_f": (ones(WIDTH), zeros(WIDTH))}


def layer_norm(x, parameters):
    wide = x.astype(jnp.float32)
    centered = wide - wide.mean(-1, keepdims=True)
    scale = jax.lax.rsqrt((centered * centered).mean(-1, keepdims=True) + 1e-5)
    return (centered * scale * parameters[0] + parameters[1]).astype(COMPUTE)


def linear(x, parameters):
    return x @ parameters[0].astype(COMPUTE) + parameters[1].astype(COMPUTE)


def block(x, p):
    b, t, c = x.shape
    q, k, v = (a.reshape(b, t, HEADS, c // HEADS) for a in jnp.split(linear(layer_norm(x, p["ln_1"]), p["attn"]), 3, axis=2))
    scores = jnp.einsum("bthd,bshd->bhts", q, k).astype(jnp.float32) * (c // HEADS) ** -0.5
    weights = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -1e30)).astype(COMPUTE)
    x = x + linear(jnp.einsum("bhts,bshd->bthd", weights, v).reshape(b, t, c), p["proj"])
    return x + linear(jax.nn.gelu(linear(layer_norm(x, p["ln_2"]), p["fc"]), approximate=True), p["out"])


def loss_of(parameters, tokens):
    x = (parameters["wte"][tokens] + parameters["wpe"][: tokens.shape[1]]).astype(COMPUTE)
    for p in parameters["h"]:
        x = block(x, p)
    logits = (layer_norm(x, parameters["ln_f"]) @ parameters["wte"].astype(COMPUTE).T).astype(jnp.float32)[:, :-1]
    picked = jnp.take_along_axis(logits, tokens[:, 1:, None], axis=-1)[..., 0]
    return (jax.nn.logsumexp(logits, axis=-1) - picked).mean()


def adamw(p, m, v, g, t):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    update = m / (1 - 0.9**t) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return p - 1e-4 * (update + 0.01 * p), m, v


@functools.partial(jax.jit, donate_argnums=(0,))
def step(state, tokens):
    parameters, first, second, t = state
    loss, gradients = jax.value_and_grad(loss_of)(parameters, tokens)
    t = t + 1
    done = jax.tree.map(lambda p, m, v, g: adamw(p, m, v, g, t), parameters, first, second, gradients)
    parts = [jax.tree.map(lambda three, i=i: three[i], done, is_leaf=lambda x: isinstance(x, tuple) and len(x) == 3
                          and all(hasattr(a, "dtype") for a in x)) for i in range(3)]
    return (*parts, t), loss


def main():
    mesh = Mesh(np.array(jax.devices()), ("data",))
    replicated, rows = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec("data"))

    def place(x):
        is_sharded = ARGUMENTS.fsdp and x.ndim > 0 and x.shape[0] % ARGUMENTS.devices == 0
        return jax.device_put(x, rows if is_sharded else replicated)

    parameters = jax.tree.map(place, initial_parameters())
    zeros = jax.tree.map(lambda p: place(np.zeros(p.shape, np.float32)), parameters)
    state = (parameters, zeros, jax.tree.map(lambda p: p + 0, zeros), jax.device_put(jnp.float32(0), replicated))
    random = np.random.default_rng(2)
    times = []
    for i in range(ARGUMENTS.warmup + ARGUMENTS.steps):
        tokens = jax.device_put(random.integers(VOCABULARY, size=(ARGUMENTS.batch, ARGUMENTS.block_size), dtype=np.int32), rows)
        start = time.perf_counter()
        state, loss = step(state, tokens)
        jax.block_until_ready((state, loss))
        if i >= ARGUMENTS.warmup:
            times.append(time.perf_counter() - start)
    rate = ARGUMENTS.batch * ARGUMENTS.block_size / statistics.median(times)
    print(json.dumps({"tokens_per_second": rate, "version": jax.__version__, "loss": float(loss)}), flush=True)


if __name__ == "__main__":
    main()
