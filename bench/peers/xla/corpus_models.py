# SPDX-License-Identifier: Apache-2.0
"""Small models in the style of users, which `corpus.py` lowers with many shardings.

A model is a function of (c, w) that returns (function, arguments): c(x, *spec) constrains a value; `w` specifies
the axes for each role. Arguments are trees of (shape, spec).
"""
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P


def shape(*dims, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(dims, dtype)


INT = jnp.int32


def is_leaf(node):
    return isinstance(node, tuple) and len(node) == 2 and isinstance(node[0], jax.ShapeDtypeStruct)


class AxisRoles:
    """Axes by role: rows of a batch, heads and hidden units, positions, parameters (fsdp), layers of a stack."""

    def __init__(self, data=None, tensor=None, time=None, fsdp=None, layers=None, expert=None):
        self.data, self.tensor, self.time, self.fsdp, self.layers, self.expert = data, tensor, time, fsdp, layers, expert


def layer_norm(x, scale):
    centered = x - x.mean(-1, keepdims=True)
    return scale * centered * jax.lax.rsqrt((centered**2).mean(-1, keepdims=True) + 1e-5)


def attention(q, k, v):
    """Causal attention, [rows, heads, time, width]."""
    scores = jnp.einsum("bhtd,bhsd->bhts", q, k) / np.sqrt(q.shape[-1])
    scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e9)
    return jnp.einsum("bhts,bhsd->bthd", jax.nn.softmax(scores), v)


def block(c, w, p, x):
    h = layer_norm(x, p["ln_1"])
    q, k, v = (jnp.einsum("btc,chd->bhtd", h, p[n]) for n in "qkv")
    q = c(q, w.data, w.tensor)
    x = x + jnp.einsum("bthd,hdc->btc", attention(q, k, v), p["o"])
    x = c(x, w.data, w.time)
    up = c(jax.nn.gelu(layer_norm(x, p["ln_2"]) @ p["up"]), w.data, None, w.tensor)
    return c(x + up @ p["down"], w.data, w.time)


def block_parameters(w, layers=None, width=16, heads=8, head=4, hidden=32):
    lead, lead_spec = ((), ()) if layers is None else ((layers,), (w.layers,))

    def leaf(dims, *spec):
        return shape(*lead, *dims), P(*lead_spec, *spec)

    return {n: leaf((width, heads, head), w.fsdp, w.tensor) for n in "qkv"} | {
        "o": leaf((heads, head, width), w.tensor, None, w.fsdp), "ln_1": leaf((width,)), "ln_2": leaf((width,)),
        "up": leaf((width, hidden), w.fsdp, w.tensor), "down": leaf((hidden, width), w.tensor, w.fsdp)}


def sgd(loss):
    def step(p, *batch):
        value, gradient = jax.value_and_grad(loss)(p, *batch)
        return value, jax.tree.map(lambda a, g: a - 0.1 * g, p, gradient)

    return step


def adam(loss):
    def step(p, m, v, *batch):
        value, gradient = jax.value_and_grad(loss)(p, *batch)
        m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, m, gradient)
        v = jax.tree.map(lambda a, g: 0.99 * a + 0.01 * g * g, v, gradient)
        return value, jax.tree.map(lambda a, b, d: a - 0.01 * b / (jnp.sqrt(d) + 1e-8), p, m, v), m, v

    return step


def block_forward(c, w):
    return lambda p, x: block(c, w, p, x), [block_parameters(w), (shape(8, 16, 16), P(w.data, w.time))]


def block_loss(c, w):
    return lambda p, x: jnp.sum(block(c, w, p, x) ** 2)


def block_gradient(c, w):
    return jax.grad(block_loss(c, w)), [block_parameters(w), (shape(8, 16, 16), P(w.data, w.time))]


def block_step(c, w):
    return sgd(block_loss(c, w)), [block_parameters(w), (shape(8, 16, 16), P(w.data, w.time))]


def block_adam(c, w):
    p = block_parameters(w)
    return adam(block_loss(c, w)), [p, p, p, (shape(8, 16, 16), P(w.data, w.time))]


def mlp_loss(c, w):
    def loss(p, x, y):
        h = c(jnp.tanh(x @ p["w"] + p["b"]), w.data, w.tensor)
        return jnp.mean((h @ p["v"] - y) ** 2)

    return loss


def mlp_parameters(w):
    return {"w": (shape(16, 32), P(w.fsdp, w.tensor)), "b": (shape(32), P(w.tensor)), "v": (shape(32, 8), P(w.tensor, w.fsdp))}


def mlp_step(c, w):
    return sgd(mlp_loss(c, w)), [mlp_parameters(w), (shape(64, 16), P(w.data)), (shape(64, 8), P(w.data))]


def mlp_adam(c, w):
    p = mlp_parameters(w)
    return adam(mlp_loss(c, w)), [p, p, p, (shape(64, 16), P(w.data)), (shape(64, 8), P(w.data))]


def mlp_accumulated(c, w):
    """Four micro-batches in a loop, one update."""
    def step(p, x, y):
        def micro(total, batch):
            gradient = jax.grad(mlp_loss(c, w))(p, *batch)
            return jax.tree.map(jnp.add, total, gradient), None

        zeros = jax.tree.map(jnp.zeros_like, p)
        gradient = jax.lax.scan(micro, zeros, (x, y))[0]
        return jax.tree.map(lambda a, g: a - 0.1 * g, p, gradient)

    return step, [mlp_parameters(w), (shape(4, 16, 16), P(None, w.data)), (shape(4, 16, 8), P(None, w.data))]


def mlp_accumulated_by_reshape(c, w):
    """A reshape divides the batch into micro-batches."""
    step, (p, x, y) = mlp_accumulated(c, w)
    return (lambda p, x, y: step(p, x.reshape(4, 16, 16), y.reshape(4, 16, 8))), [
        p, (shape(64, 16), P(w.data)), (shape(64, 8), P(w.data))]


def gpt_loss(c, w):
    def loss(p, ids, labels):
        x = c(p["table"][ids] + p["places"], w.data, w.time)
        for layer in p["blocks"]:
            x = block(c, w, layer, x)
        logits = c(layer_norm(x, p["ln"]) @ p["table"].T, w.data, None, w.tensor)
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], axis=-1)
        return -jnp.mean(picked)

    return loss


def gpt(c, w):
    p = {"table": (shape(48, 16), P(w.tensor, w.fsdp)), "places": (shape(8, 16), P()), "ln": (shape(16), P()),
         "blocks": [block_parameters(w)]}
    return gpt_loss(c, w), [p, (shape(8, 8, dtype=INT), P(w.data, w.time)), (shape(8, 8, dtype=INT), P(w.data, w.time))]


def gpt_step(c, w):
    loss, arguments = gpt(c, w)
    return sgd(loss), arguments


def stacked(c, w, again=False):
    """Blocks in a loop with stacked weights."""
    def loss(p, x):
        def layer(h, q):
            return block(c, w, q, h), None

        return jnp.sum(jax.lax.scan(jax.checkpoint(layer) if again else layer, x, p)[0] ** 2)

    return loss, [block_parameters(w, layers=4), (shape(8, 8, 16), P(w.data, w.time))]


def stacked_step(c, w):
    loss, arguments = stacked(c, w)
    return sgd(loss), arguments


def stacked_again_step(c, w):
    loss, arguments = stacked(c, w, True)
    return sgd(loss), arguments


def stacked_mlp_gradient(c, w):
    def loss(p, x):
        def layer(h, q):
            return c(h + jax.nn.gelu(h @ q["up"]) @ q["down"], w.data), None

        return jnp.sum(jax.lax.scan(layer, x, p)[0] ** 2)

    p = {"up": (shape(8, 16, 32), P(w.layers, w.fsdp, w.tensor)), "down": (shape(8, 32, 16), P(w.layers, w.tensor, w.fsdp))}
    return jax.value_and_grad(loss), [p, (shape(16, 16), P(w.data))]


def conv(x, w, stride=1, groups=1):
    return jax.lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"),
                                        feature_group_count=groups)


def batch_norm(x, scale):
    centered = x - x.mean((0, 1, 2))
    return scale * centered * jax.lax.rsqrt((centered**2).mean((0, 1, 2)) + 1e-5)


def resnet(c, w, stride=1):
    """Shards rows of images over `time`, columns over `expert`, features over `tensor`."""
    def forward(p, x):
        h = jax.nn.relu(batch_norm(conv(x, p["in"], stride), p["norm"]))
        h = c(h, w.data, w.time, w.expert, w.tensor)
        h = jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 1, 1, 1), "SAME")
        y = jax.nn.relu(conv(h, p["mid"]) + conv(x, p["short"], stride))
        return jax.lax.reduce_window(y, 0.0, jax.lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    p = {"in": (shape(3, 3, 4, 8), P(None, None, None, w.tensor)), "norm": (shape(8), P(w.tensor)),
         "mid": (shape(3, 3, 8, 8), P(None, None, w.tensor)), "short": (shape(1, 1, 4, 8), P())}
    return forward, [p, (shape(8, 16, 16, 4), P(w.data, w.time, w.expert))]


def resnet_step(c, w, stride=1):
    forward, arguments = resnet(c, w, stride)
    return sgd(lambda p, x: jnp.sum(forward(p, x) ** 2)), arguments


def resnet_strided(c, w):
    return resnet(c, w, 2)


def resnet_strided_step(c, w):
    return resnet_step(c, w, 2)


def moe(c, w):
    """x [groups, tokens, width]: sends each token to its best expert, up to the capacity of each expert."""
    def forward(p, x):
        experts, room = p["up"].shape[0], 4
        gates = jax.nn.softmax(x @ p["router"])
        chosen = jax.nn.one_hot(jnp.argmax(gates, -1), experts)
        place = (jnp.cumsum(chosen, axis=1) * chosen - 1).astype(jnp.int32).max(-1)
        dispatch = chosen[..., None] * jax.nn.one_hot(place, room)[:, :, None, :]
        sent = c(jnp.einsum("gtec,gtd->egcd", dispatch, x), w.expert)
        done = jnp.einsum("egch,ehd->egcd", jax.nn.gelu(jnp.einsum("egcd,edh->egch", sent, p["up"])), p["down"])
        return c(jnp.einsum("gtec,egcd->gtd", dispatch * gates[..., None], c(done, w.expert)), w.data)

    p = {"router": (shape(16, 8), P()), "up": (shape(8, 16, 32), P(w.expert, None, w.tensor)),
         "down": (shape(8, 32, 16), P(w.expert, w.tensor))}
    return forward, [p, (shape(8, 8, 16), P(w.data))]


def moe_step(c, w):
    forward, arguments = moe(c, w)
    return sgd(lambda p, x: jnp.sum(forward(p, x) ** 2)), arguments


def attention_forward(c, w):
    spec = P(w.data, w.tensor, w.time)
    return attention, [(shape(8, 8, 8, 4), spec)] * 3


def attention_gradient(c, w):
    return jax.grad(lambda q, k, v: jnp.sum(attention(q, k, v) ** 2), (0, 1, 2)), attention_forward(c, w)[1]


def norm_gradient(c, w):
    return jax.grad(lambda s, x: jnp.sum(layer_norm(x, s) ** 2), (0, 1)), [
        (shape(16), P(w.tensor)), (shape(8, 8, 16), P(w.data, w.time, w.tensor))]


def cross_entropy_gradient(c, w):
    def loss(logits, labels):
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], axis=-1))

    return jax.value_and_grad(loss), [(shape(8, 8, 48), P(w.data, w.time, w.tensor)), (shape(8, 8, dtype=INT), P(w.data, w.time))]


def embedding_gradient(c, w):
    return jax.grad(lambda t, ids: jnp.sum(t[ids] ** 2)), [
        (shape(48, 16), P(w.tensor, w.fsdp)), (shape(8, 8, dtype=INT), P(w.data, w.time))]


def dropout_step(c, w):
    def loss(p, x, y):
        h = jnp.tanh(x @ p["w"] + p["b"])
        h = jnp.where(jax.random.bernoulli(jax.random.key(7), 0.8, h.shape), h / 0.8, 0.0)
        return jnp.mean((h @ p["v"] - y) ** 2)

    return sgd(loss), mlp_step(c, w)[1]


def decode(c, w):
    """One new token with a cache of keys and values."""
    def step(p, x, keys, values, at):
        q, k, v = (jnp.einsum("bc,chd->bhd", x, p[n]) for n in "qkv")
        keys = jax.lax.dynamic_update_slice(keys, k[:, :, None], (0, 0, at, 0))
        values = jax.lax.dynamic_update_slice(values, v[:, :, None], (0, 0, at, 0))
        scores = jnp.einsum("bhd,bhsd->bhs", q, keys)
        scores = jnp.where(jnp.arange(keys.shape[2]) <= at, scores, -1e9)
        return jnp.einsum("bhd,hdc->bc", jnp.einsum("bhs,bhsd->bhd", jax.nn.softmax(scores), values), p["o"]), keys, values

    p = block_parameters(w)
    cache = (shape(8, 8, 16, 4), P(w.data, w.tensor, w.time))
    return step, [{n: p[n] for n in "qkvo"}, (shape(8, 16), P(w.data)), cache, cache, (shape(dtype=INT), P())]


TRANSFORMER = {
    "data": AxisRoles(data="a"), "tensor": AxisRoles(tensor="a"), "fsdp": AxisRoles(data="a", fsdp="a"),
    "sequence": AxisRoles(time="a"), "data_tensor": AxisRoles(data="a", tensor="b"), "fsdp_tensor": AxisRoles(data="a", fsdp="a", tensor="b"),
    "data_fsdp": AxisRoles(data=("a", "b"), fsdp="b"), "tensor_sequence": AxisRoles(data="a", tensor="b", time="b"),
    "data_sequence": AxisRoles(data="a", time="b"), "fsdp_both": AxisRoles(data=("a", "b"), fsdp=("a", "b"))}
LAYERED = TRANSFORMER | {"layers": AxisRoles(layers="a"), "layers_data": AxisRoles(layers="a", data="b"), "layers_tensor": AxisRoles(layers="a", tensor="b")}
IMAGES = {"data": AxisRoles(data="a"), "rows": AxisRoles(time="a"), "rows_columns": AxisRoles(time="a", expert="b"),
          "data_rows": AxisRoles(data="a", time="b"), "features": AxisRoles(tensor="a"), "data_features": AxisRoles(data="a", tensor="b")}
EXPERTS = {"expert": AxisRoles(data="a", expert="a"), "data_expert": AxisRoles(data=("a", "b"), expert="b"),
           "expert_tensor": AxisRoles(data="a", expert="a", tensor="b")}

# model, roles of its mesh axes, number of modules
MODELS = [
    (block_forward, TRANSFORMER, 10), (block_gradient, TRANSFORMER, 10), (block_step, TRANSFORMER, 14), (block_adam, TRANSFORMER, 4),
    (mlp_step, TRANSFORMER, 8), (mlp_adam, TRANSFORMER, 4), (mlp_accumulated, TRANSFORMER, 5), (mlp_accumulated_by_reshape, TRANSFORMER, 4),
    (gpt_step, TRANSFORMER, 8), (stacked_step, LAYERED, 10), (stacked_again_step, LAYERED, 4), (stacked_mlp_gradient, LAYERED, 6),
    (resnet, IMAGES, 5), (resnet_step, IMAGES, 6), (resnet_strided, IMAGES, 5), (resnet_strided_step, IMAGES, 4),
    (moe, EXPERTS, 3), (moe_step, EXPERTS, 5), (attention_forward, TRANSFORMER, 5), (attention_gradient, TRANSFORMER, 5),
    (norm_gradient, TRANSFORMER, 5), (cross_entropy_gradient, TRANSFORMER, 6), (embedding_gradient, TRANSFORMER, 6),
    (dropout_step, TRANSFORMER, 4), (decode, TRANSFORMER, 6)]
