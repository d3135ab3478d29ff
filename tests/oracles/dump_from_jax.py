#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes small HLO modules as JAX lowers them, with shardings over 2x2 devices and before any partitioning.

  tests/oracles/dump_from_jax.py tests/data/jax

Needs `pip install jax jaxlib`. The files are committed; only who wants other modules runs this again. Shardings are
written as `sharding=` (NAME.hlo); two modules come as Shardy writes them too (NAME.shardy.hlo).
"""
import os
import pathlib
import re
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P  # noqa: E402


def mlp(p, x, y):
    hidden = jnp.tanh(x @ p["w"] + p["b"])
    return jnp.mean((hidden @ p["v"] - y) ** 2)


def mlp_step(p, x, y):
    loss, gradient = jax.value_and_grad(mlp)(p, x, y)
    return loss, jax.tree.map(lambda a, g: a - 0.1 * g, p, gradient)


def layer_norm(x, scale):
    centered = x - x.mean(-1, keepdims=True)
    return scale * centered * jax.lax.rsqrt((centered**2).mean(-1, keepdims=True) + 1e-5)


def block(p, x):
    rows, time, width = x.shape
    h = layer_norm(x, p["ln_1"])
    q, k, v = (jnp.einsum("btc,chd->bhtd", h, p[n]) for n in "qkv")
    scores = jnp.einsum("bhtd,bhsd->bhts", q, k) / jnp.sqrt(q.shape[-1])
    scores = jnp.where(jnp.tril(jnp.ones((time, time), bool)), scores, -1e9)
    mixed = jnp.einsum("bhts,bhsd->bthd", jax.nn.softmax(scores), v)
    x = x + jnp.einsum("bthd,hdc->btc", mixed, p["o"])
    return x + jax.nn.gelu(layer_norm(x, p["ln_2"]) @ p["up"]) @ p["down"]


def block_loss(p, x):
    return jnp.sum(block(p, x) ** 2)


def scan_loss(w, x):
    def layer(h, weight):
        return jnp.tanh(h @ weight), jnp.sum(h)

    last, sums = jax.lax.scan(layer, x, w)
    return jnp.sum(last) + jnp.sum(sums)


def embed(table, ids, labels):
    logits = table[ids] @ table.T
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], axis=-1)
    return -jnp.mean(picked)


def ordered(x, k):
    largest = jnp.sort(x, axis=-1)[:, ::-1]
    window = jax.lax.dynamic_slice(largest, (k, 0), (3, 4))
    padded = jnp.concatenate([jnp.pad(window, ((1, 2), (0, 0))), window[::2]])
    return jax.lax.cond(k > 2, lambda a: a * 2, lambda a: a + 1, padded), jnp.argmax(x, axis=1)


def batch_norm(x, scale):
    centered = x - x.mean((0, 1, 2))
    return scale * centered * jax.lax.rsqrt((centered**2).mean((0, 1, 2)) + 1e-5)


def conv(x, w, stride=1, groups=1):
    return jax.lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"),
                                        feature_group_count=groups)


def resnet_block(p, x):
    h = jax.nn.relu(batch_norm(conv(x, p["in"], 2), p["norm"]))
    h = jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 1, 1, 1), "SAME")
    y = conv(h, p["grouped"], 1, 2) + conv(x, p["short"], 2)
    return jax.lax.reduce_window(jax.nn.relu(y), 0.0, jax.lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def resnet_loss(p, x):
    return jnp.sum(resnet_block(p, x) ** 2)


def moved(x):
    rolled = jnp.roll(x, 1, axis=0) + jnp.flip(x, 0)
    return jnp.cumsum(rolled, axis=0), jnp.diff(x, axis=0), jnp.pad(x, ((2, 1), (0, 0)), mode="wrap")[::2]


def shape(*dims, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(dims, dtype)


MLP = {"w": (shape(8, 12), P(None, "model")), "b": (shape(12), P("model")), "v": (shape(12, 4), P("model", None))}
BLOCK = {name: (shape(8, 4, 3), P(None, "model", None)) for name in "qkv"} | {
    "o": (shape(4, 3, 8), P("model", None, None)), "ln_1": (shape(8), P()), "ln_2": (shape(8), P()),
    "up": (shape(8, 20), P("data", "model")), "down": (shape(20, 8), P("model", "data"))}

IMAGES = {"in": (shape(3, 3, 3, 4), P()), "norm": (shape(4), P()), "grouped": (shape(3, 3, 2, 6), P()),
          "short": (shape(1, 1, 3, 6), P())}

# name: function, arguments as trees of (shape, specification)
CASES = {
    "mlp_step": (mlp_step, [MLP, (shape(6, 8), P("data")), (shape(6, 4), P("data"))]),
    "block_forward": (block, [BLOCK, (shape(4, 5, 8), P("data"))]),
    "block_gradient": (jax.grad(block_loss), [BLOCK, (shape(4, 5, 8), P("data"))]),
    "scan": (scan_loss, [(shape(3, 6, 6), P(None, "model", None)), (shape(4, 6), P("data", None))]),
    "scan_gradient": (jax.grad(scan_loss), [(shape(3, 6, 6), P(None, "model", None)), (shape(4, 6), P("data", None))]),
    "embedding_gradient": (jax.grad(embed), [(shape(10, 6), P("model", "data")), (shape(4, 5, dtype=jnp.int32), P("data")),
                                             (shape(4, 5, dtype=jnp.int32), P("data"))]),
    "resnet_block": (resnet_block, [IMAGES, (shape(4, 10, 9, 3), P("data", "model"))]),
    "resnet_gradient": (jax.grad(resnet_loss), [IMAGES, (shape(2, 12, 10, 3), P(None, "model", "data"))]),
    "moved": (moved, [(shape(12, 6), P(("data", "model"), None))]),
    "ordered": (ordered, [(shape(8, 4), P("data", "model")), (shape(dtype=jnp.int32), P())]),
}


def lower(function, arguments):
    mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))

    def is_leaf(node):
        return isinstance(node, tuple)

    shapes = jax.tree.map(lambda leaf: leaf[0], arguments, is_leaf=is_leaf)
    shardings = jax.tree.map(lambda leaf: NamedSharding(mesh, leaf[1]), arguments, is_leaf=is_leaf)
    return jax.jit(function, in_shardings=shardings).lower(*shapes)


def tidy(text):
    """Without the lines of this machine's files."""
    text = re.sub(r", metadata=\{[^}]*\}", "", text)
    return re.sub(r"\n(FileNames|FunctionNames|FileLocations|StackFrames)\n(.+\n)*", "\n", text).strip() + "\n"


def main(folder):
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    for name, shardy in [(name, False) for name in CASES] + [(name, True) for name in ("mlp_step", "scan_gradient")]:
        jax.config.update("jax_use_shardy_partitioner", shardy)
        function, arguments = CASES[name]
        text = lower(function, list(arguments)).compiler_ir("hlo").as_hlo_text()
        path = pathlib.Path(folder) / f"{name}{'.shardy' if shardy else ''}.hlo"
        path.write_text(tidy(text))
        print(path, len(text.splitlines()), "lines")


if __name__ == "__main__":
    main(sys.argv[1])
