#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes small HLO modules as JAX lowers them, with shardings over 2x2 devices and before partitioning.

  tests/oracles/dump_from_jax.py tests/data/jax [NAME…]

Needs `pip install jax jaxlib`. The files are committed; run this again only to add or change modules. Shardings are
written as `sharding=` (NAME.hlo). Modules in SHARDY are also written with Shardy's attributes (NAME.shardy.hlo).
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


# ---- a block's training step under several shardings -----------------------------------------------------------------------

def block_step(p, x):
    loss, gradient = jax.value_and_grad(block_loss)(p, x)
    return loss, jax.tree.map(lambda a, g: a - 0.1 * g, p, gradient)


def block_sharded(qkv, o, ln, up, down):
    """Widths of 8 with 4 heads of 3, and an inner width of 20."""
    return {name: (shape(8, 4, 3), qkv) for name in "qkv"} | {
        "o": (shape(4, 3, 8), o), "ln_1": (shape(8), ln), "ln_2": (shape(8), ln), "up": (shape(8, 20), up),
        "down": (shape(20, 8), down)}


REPLICATED = block_sharded(P(), P(), P(), P(), P())
TENSOR = block_sharded(P(None, "model", None), P("model", None, None), P(), P(None, "model"), P("model", None))
FULLY = block_sharded(P(("data", "model")), P("data"), P(("data", "model")), P(("data", "model")), P(("data", "model")))

CASES |= {
    "block_step_data": (block_step, [REPLICATED, (shape(4, 6, 8), P(("data", "model")))]),
    "block_step_tensor": (block_step, [TENSOR, (shape(4, 6, 8), P("data"))]),
    "block_step_fsdp": (block_step, [FULLY, (shape(4, 6, 8), P(("data", "model")))]),
    "block_step_sequence": (block_step, [TENSOR, (shape(4, 6, 8), P("data", "model"))]),
}


# ---- a mixture of experts, dispatched by one-hot products ---------------------------------------------------------------------

def moe(p, x):
    """x [groups, tokens, width]: sends each token to its best expert, up to the capacity of each expert."""
    experts, room = p["up"].shape[0], 4
    gates = jax.nn.softmax(x @ p["router"])
    best = jnp.argmax(gates, -1)
    chosen = jax.nn.one_hot(best, experts)
    before = jnp.tril(jnp.ones((x.shape[1], x.shape[1])))  # a cumulative sum would be a reduce-window
    place = jnp.einsum("ts,gse->gte", before, chosen) * chosen - 1
    dispatch = chosen[..., None] * jax.nn.one_hot(place.astype(jnp.int32).max(-1), room)[:, :, None, :]
    sent = constrained(jnp.einsum("gtec,gtd->egcd", dispatch, x), P("model", "data"))
    done = jnp.einsum("egch,ehd->egcd", jax.nn.gelu(jnp.einsum("egcd,edh->egch", sent, p["up"])), p["down"])
    back = constrained(done, P("model", "data"))
    return constrained(jnp.einsum("gtec,egcd->gtd", dispatch * gates[..., None], back), P(("data", "model")))


def moe_loss(p, x):
    return jnp.sum(moe(p, x) ** 2)


def constrained(x, spec):
    return jax.lax.with_sharding_constraint(x, NamedSharding(MESH, spec))


# ---- layers in a loop, recomputed in the backward pass ------------------------------------------------------------------------

def layers_loss(p, x):
    @jax.checkpoint
    def layer(h, w):
        return h + jax.nn.gelu(h @ w["up"]) @ w["down"], None

    return jnp.sum(jax.lax.scan(layer, x, p)[0] ** 2)


MOE = {"router": (shape(6, 4), P()), "up": (shape(4, 6, 10), P("model")), "down": (shape(4, 10, 6), P("model"))}
LAYERS = {"up": (shape(3, 8, 12), P(None, "data", "model")), "down": (shape(3, 12, 8), P(None, "model", "data"))}
CASES |= {
    "moe_gradient": (jax.grad(moe_loss), [MOE, (shape(4, 5, 6), P(("data", "model")))]),
    "layers_gradient": (jax.grad(layers_loss), [LAYERS, (shape(4, 8), P("data"))]),
}


# ---- manual regions (shard_map) -----------------------------------------------------------------------------------------------

def manual(function, in_specs, out_specs, axes=("data", "model")):
    return jax.shard_map(function, mesh=MESH, in_specs=in_specs, out_specs=out_specs, axis_names=set(axes))


def manual_collectives(x):
    gathered = jax.lax.all_gather(x, "data", axis=0, tiled=True)
    scattered = jax.lax.psum_scatter(gathered * 2, "data", scatter_dimension=0, tiled=True)
    moved = jax.lax.ppermute(scattered, "data", [(0, 1), (1, 0)])
    return moved + jax.lax.axis_index("model").astype(jnp.float32)


def manual_exchange(x):
    return jax.lax.all_to_all(jnp.sin(x), "model", split_axis=1, concat_axis=0, tiled=True)


def manual_product(a, b):
    return jax.lax.psum(jnp.tanh(a @ b), "model")


def manual_step(a, b, c):
    product = manual(manual_product, (P(None, "model"), P("model", None)), P(), ("model",))
    return jnp.sum((product(a, b) + c) ** 2)


def manual_loop(x):
    def step(i, h):
        return jax.lax.ppermute(jnp.sin(h), "data", [(0, 1), (1, 0)])

    return jax.lax.fori_loop(0, 3, step, x)


def manual_moe(x, w):
    """x [tokens, width] is sharded over both axes. Each device of model has one expert w [width, width]."""
    def body(x, w):
        tokens = x.reshape(2, -1, x.shape[-1])
        here = jax.lax.all_to_all(tokens, "model", split_axis=0, concat_axis=0)
        done = jax.nn.relu(jnp.einsum("ktd,edh->kth", here, w))
        return jax.lax.all_to_all(done, "model", split_axis=0, concat_axis=0).reshape(x.shape)

    return manual(body, (P(("data", "model")), P("model")), P(("data", "model")))(x, w)


def region(function, in_specs, out_specs, axis, mesh=None):
    return jax.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, axis_names={axis}, check_vma=False)


def manual_nested(x):
    """A region over data that contains a region over model."""
    inner = region(lambda v: jax.lax.psum(jnp.sin(v), "model"), P(None, "model"), P(), "model")
    return jax.lax.all_gather(inner(x * 2), "data", axis=0, tiled=True)


def manual_nested_loop(x):
    def step(h, _):
        swap = region(lambda v: jax.lax.ppermute(jnp.cos(v), "model", [(0, 1), (1, 0)]), P("model"), P("model"), "model")
        return swap(h), jnp.sum(h)

    last, sums = jax.lax.scan(step, x, None, length=3)
    return last, jax.lax.psum(sums, "data")


def transforms(x):
    """x [rows, time, width]: spectra, top-k, rounding ops, inverse functions, random bits."""
    spectrum = jnp.fft.rfft(x)
    largest, places = jax.lax.top_k(x, 3)
    rounded = jax.lax.reduce_precision(jnp.arcsinh(x) + jnp.exp(1j * x).real, 5, 10)
    noise = jax.random.uniform(jax.random.key(3), x.shape)
    return jnp.fft.irfft(spectrum * (1 + 2j)), largest, places, rounded + noise


MESH = Mesh(np.array(jax.devices()).reshape(2, 2), ("data", "model"))
X = (shape(6, 8), P("data", "model"))
CASES |= {
    "transforms": (transforms, [(shape(4, 6, 8), P("data", "model"))]),
    "manual_collectives": (manual(manual_collectives, P("data"), P("data", "model")), [(shape(4, 6), P("data"))]),
    "manual_exchange": (manual(manual_exchange, P("model"), P(None, "model")), [(shape(6, 8), P("model"))]),
    "manual_partial": (jax.value_and_grad(manual_step, (0, 1)),
                       [(shape(6, 8), P("data", "model")), (shape(8, 4), P("model")), (shape(6, 4), P("data"))]),
    "manual_nested": (region(manual_nested, P("data"), P(), "data", MESH), [(shape(8, 6), P(("data", "model")))]),
    "manual_nested_loop": (region(manual_nested_loop, P("data"), (P("data"), P()), "data", MESH),
                           [(shape(8, 6), P("data", "model"))]),
    "manual_loop": (manual(manual_loop, P("data", "model"), P("data", "model")), [X]),
    "manual_moe": (lambda x, w: jax.grad(lambda *a: jnp.sum(manual_moe(*a) ** 2), (0, 1))(x, w),
                   [(shape(16, 6), P(("data", "model"))), (shape(2, 6, 6), P("model"))]),
}
SHARDY = ["mlp_step", "scan_gradient", "moe_gradient", "layers_gradient"] + [
    name for name in CASES if name.startswith("manual_")]


def lower(function, arguments):
    mesh = MESH

    def is_leaf(node):
        return isinstance(node, tuple)

    shapes = jax.tree.map(lambda leaf: leaf[0], arguments, is_leaf=is_leaf)
    shardings = jax.tree.map(lambda leaf: NamedSharding(mesh, leaf[1]), arguments, is_leaf=is_leaf)
    return jax.jit(function, in_shardings=shardings).lower(*shapes)


def tidy(text):
    """Removes the lines with file names of this machine."""
    text = re.sub(r", metadata=\{[^}]*\}", "", text)
    return re.sub(r"\n(FileNames|FunctionNames|FileLocations|StackFrames)\n(.+\n)*", "\n", text).strip() + "\n"


def main(folder):
    names = set(sys.argv[2:])
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    for name, shardy in [(name, False) for name in CASES] + [(name, True) for name in SHARDY]:
        if names and name not in names:
            continue
        jax.config.update("jax_use_shardy_partitioner", shardy)
        function, arguments = CASES[name]
        text = lower(function, list(arguments)).compiler_ir("hlo").as_hlo_text()
        path = pathlib.Path(folder) / f"{name}{'.shardy' if shardy else ''}.hlo"
        text = tidy(text)
        # As jit compiles them: propagation chooses the shardings of results.
        if name.startswith(("block_step", "moe", "layers")):
            text = text.replace("\n", ", allow_spmd_sharding_propagation_to_output={true}\n", 1)
        path.write_text(text)
        print(path, len(text.splitlines()), "lines")


if __name__ == "__main__":
    main(sys.argv[1])
