# SPDX-License-Identifier: Apache-2.0
"""Operations by family: name: (function, shapes, number of modules). `corpus.py` draws the shardings."""
import jax
import jax.numpy as jnp
from jax import lax

from corpus_models import INT, attention, conv, shape


def einsum(text):
    return lambda a, b: jnp.einsum(text, a, b)


def windowed(reducer, initial, window, stride, padding="SAME", dilation=None):
    return lambda x: lax.reduce_window(x, initial, reducer, window, stride, padding, window_dilation=dilation)


def convolved(dims, **options):
    return lambda x, w: lax.conv_general_dilated(x, w, dimension_numbers=dims, **options)


def grad_sum(function, which=(0, 1)):
    return jax.grad(lambda *a: jnp.sum(function(*a) ** 2), which)


NHWC = ("NHWC", "HWIO", "NHWC")
IMAGE, KERNEL = shape(4, 16, 16, 8), shape(3, 3, 8, 16)


def threefry(x):
    return x + jax.random.normal(jax.random.key(3), x.shape)


def rng_bits(x):
    return x ^ lax.rng_bit_generator(jnp.zeros(4, jnp.uint32), x.shape, dtype=jnp.uint32)[1]


def loop(x, w):
    return lax.fori_loop(0, 5, lambda i, h: jnp.tanh(h @ w) + i, x)


def until(x):
    return lax.while_loop(lambda s: jnp.sum(s) < 1e3, lambda s: s * s + 1, x)


def branches(x, y, k):
    return lax.cond(k > 2, lambda a, b: a @ b, lambda a, b: a + b, x, y)


def switched(x, k):
    return lax.switch(k, [lambda a: a * 2, lambda a: jnp.cumsum(a, 0), lambda a: jnp.flip(a, 1)], x)


def scanned(x):
    return lax.scan(lambda h, row: (h * 0.5 + row, h), jnp.zeros(x.shape[1:]), x)


def quantized(x, w, scale):
    return lax.dot_general(x, w, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32).astype(jnp.float32) * scale


def one_hot_product(ids, table):
    return jax.nn.one_hot(ids, table.shape[0]) @ table


def batched_gather(x, i):
    return jax.vmap(lambda a, k: a[k])(x, i)


def scatter_add(x, i, u):
    return x.at[i].add(u)


def scatter_set(x, i, u):
    return x.at[:, i].set(u)


def batched_scatter(x, i, u):
    return jax.vmap(lambda a, k, b: a.at[k].add(b))(x, i, u)


def triangular(a, b):
    return lax.linalg.triangular_solve(a, b, left_side=True, lower=True)


I8 = jnp.int8
OPS = {
    # products
    "matmul": (jnp.matmul, [shape(32, 16), shape(16, 64)], 10),
    "matmul_square": (jnp.matmul, [shape(64, 64), shape(64, 64)], 6),
    "matmul_bf16": (jnp.matmul, [shape(32, 16, dtype=jnp.bfloat16), shape(16, 64, dtype=jnp.bfloat16)], 3),
    "matmul_batch": (jnp.matmul, [shape(8, 16, 8), shape(8, 8, 16)], 6),
    "matmul_gradient": (grad_sum(jnp.matmul), [shape(32, 16), shape(16, 64)], 6),
    "matmul_chain": (lambda a, b, c: a @ b @ c, [shape(16, 32), shape(32, 16), shape(16, 64)], 6),
    "matmul_sum": (lambda a, b, c, d: a @ b + c @ d, [shape(16, 32), shape(32, 16), shape(16, 64), shape(64, 16)], 5),
    "matvec": (jnp.matmul, [shape(64, 32), shape(32)], 3),
    "outer": (jnp.outer, [shape(32), shape(64)], 2),
    "einsum_bhqk": (einsum("bqhd,bkhd->bhqk"), [shape(8, 8, 8, 4), shape(8, 8, 8, 4)], 5),
    "einsum_heads": (einsum("btc,chd->bhtd"), [shape(8, 8, 16), shape(16, 8, 4)], 4),
    "einsum_two_contracted": (einsum("bthd,hdc->btc"), [shape(8, 8, 8, 4), shape(8, 4, 16)], 4),
    "einsum_experts": (einsum("egcd,edh->egch"), [shape(8, 8, 4, 16), shape(8, 16, 32)], 3),
    "gram": (lambda a: a @ a.T, [shape(32, 16)], 4),
    "quantized": (quantized, [shape(32, 16, dtype=I8), shape(16, 32, dtype=I8), shape(32)], 3),
    "complex_product": (lambda a, b: (a * 1j) @ b, [shape(16, 16), shape(16, 16)], 2),
    # convolutions and windows
    "conv2d": (conv, [IMAGE, KERNEL], 6),
    "conv2d_strided": (lambda x, w: conv(x, w, 2), [IMAGE, KERNEL], 4),
    "conv2d_valid": (convolved(NHWC, window_strides=(1, 1), padding="VALID"), [IMAGE, KERNEL], 3),
    "conv2d_dilated": (convolved(NHWC, window_strides=(1, 1), padding="SAME", rhs_dilation=(2, 2)), [IMAGE, KERNEL], 3),
    "conv2d_transposed": (convolved(NHWC, window_strides=(1, 1), padding=[(1, 2), (1, 2)], lhs_dilation=(2, 2)), [shape(4, 8, 8, 8), KERNEL], 3),
    "conv2d_groups": (lambda x, w: conv(x, w, 1, 4), [IMAGE, shape(3, 3, 2, 16)], 3),
    "conv2d_depthwise": (lambda x, w: conv(x, w, 1, 8), [IMAGE, shape(3, 3, 1, 16)], 3),
    "conv2d_gradient": (grad_sum(conv), [IMAGE, KERNEL], 6),
    "conv2d_strided_gradient": (grad_sum(lambda x, w: conv(x, w, 2)), [IMAGE, KERNEL], 3),
    "conv2d_groups_gradient": (grad_sum(lambda x, w: conv(x, w, 1, 4)), [IMAGE, shape(3, 3, 2, 16)], 3),
    "conv1d": (convolved(("NWC", "WIO", "NWC"), window_strides=(1,), padding="SAME"), [shape(8, 32, 8), shape(5, 8, 8)], 4),
    "conv1d_causal": (convolved(("NWC", "WIO", "NWC"), window_strides=(1,), padding=[(4, 0)]), [shape(8, 32, 8), shape(5, 8, 8)], 3),
    "conv3d": (convolved(("NDHWC", "DHWIO", "NDHWC"), window_strides=(1, 1, 1), padding="SAME"), [shape(2, 8, 8, 8, 4), shape(3, 3, 3, 4, 4)], 2),
    "conv_1x1": (conv, [IMAGE, shape(1, 1, 8, 16)], 3),
    "patches": (convolved(NHWC, window_strides=(4, 4), padding="VALID"), [IMAGE, shape(4, 4, 8, 16)], 3),
    "max_pool": (windowed(lax.max, -jnp.inf, (1, 3, 3, 1), (1, 1, 1, 1)), [IMAGE], 3),
    "max_pool_strided": (windowed(lax.max, -jnp.inf, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), [IMAGE], 3),
    "max_pool_gradient": (jax.grad(lambda x: jnp.sum(windowed(lax.max, -jnp.inf, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")(x) ** 2)), [IMAGE], 3),
    "average_pool": (windowed(lax.add, 0.0, (1, 3, 3, 1), (1, 2, 2, 1)), [IMAGE], 3),
    # reductions and prefix sums
    "sum": (lambda x: jnp.sum(x, 1), [shape(16, 32)], 4),
    "sum_all": (jnp.sum, [shape(16, 32)], 2),
    "max": (lambda x: jnp.max(x, 0), [shape(32, 16)], 2),
    "any": (lambda x: jnp.any(x > 0, 0), [shape(32, 16)], 2),
    "product": (lambda x: jnp.prod(x, 1), [shape(8, 16)], 2),
    "mean_variance": (lambda x: (x.mean(0), x.var(0)), [shape(32, 16)], 3),
    "softmax": (jax.nn.softmax, [shape(16, 32)], 4),
    "logsumexp": (lambda x: jax.nn.logsumexp(x, 0), [shape(32, 16)], 3),
    "cumsum": (lambda x: jnp.cumsum(x, 0), [shape(32, 16)], 4),
    "cummax": (lambda x: lax.cummax(x, 1), [shape(16, 32)], 2),
    "argmax": (lambda x: jnp.argmax(x, 1), [shape(16, 32)], 4),
    "argmin": (lambda x: jnp.argmin(x, 0), [shape(32, 16)], 2),
    # indices
    "embedding": (lambda t, i: t[i], [shape(64, 16), shape(8, 8, dtype=INT)], 8),
    "take_columns": (lambda t, i: t[:, i], [shape(16, 64), shape(32, dtype=INT)], 3),
    "take_along": (lambda x, i: jnp.take_along_axis(x, i, 1), [shape(16, 32), shape(16, 8, dtype=INT)], 4),
    "batched_gather": (batched_gather, [shape(8, 32, 4), shape(8, 16, dtype=INT)], 4),
    "scatter_add": (scatter_add, [shape(64, 8), shape(32, dtype=INT), shape(32, 8)], 5),
    "scatter_set": (scatter_set, [shape(16, 32), shape(8, dtype=INT), shape(16, 8)], 3),
    "batched_scatter": (batched_scatter, [shape(8, 32, 4), shape(8, 16, dtype=INT), shape(8, 16, 4)], 4),
    "segment_sum": (lambda x, i: jax.ops.segment_sum(x, i, 16), [shape(32, 8), shape(32, dtype=INT)], 3),
    "take_along_gradient": (jax.grad(lambda x, i: jnp.sum(jnp.take_along_axis(x, i, 1) ** 2)), [shape(16, 32), shape(16, 8, dtype=INT)], 3),
    "dynamic_slice": (lambda x, k: lax.dynamic_slice(x, (k, 0), (8, x.shape[1])), [shape(32, 16), shape(dtype=INT)], 4),
    "dynamic_row": (lambda x, k: lax.dynamic_index_in_dim(x, k, 0, False), [shape(8, 16, 8), shape(dtype=INT)], 4),
    "dynamic_update": (lambda x, u, k: lax.dynamic_update_slice(x, u, (k, 0)), [shape(32, 16), shape(8, 16), shape(dtype=INT)], 4),
    "dynamic_update_row": (lambda x, u, k: lax.dynamic_update_index_in_dim(x, u, k, 0), [shape(32, 16), shape(16), shape(dtype=INT)], 3),
    "one_hot_product": (one_hot_product, [shape(8, 8, dtype=INT), shape(64, 16)], 4),
    # shapes
    "reshape_merge": (lambda x: x.reshape(-1, x.shape[-1]) * 2, [shape(8, 16, 8)], 4),
    "reshape_split": (lambda x: x.reshape(8, 8, -1) + 1, [shape(64, 16)], 4),
    "reshape_heads": (lambda x: x.reshape(8, 8, 8, 4).transpose(0, 2, 1, 3), [shape(8, 8, 32)], 5),
    "reshape_odd": (lambda x: x.reshape(24, 16) * 2, [shape(16, 24)], 4),
    "reshape_flat": (lambda x: x.reshape(-1), [shape(16, 8)], 4),
    "transpose": (lambda x: x.transpose(2, 0, 1) * 2, [shape(8, 16, 4)], 3),
    "concatenate": (lambda a, b: jnp.concatenate([a, b], 0), [shape(16, 16), shape(16, 16)], 4),
    "concatenate_columns": (lambda a, b, c: jnp.concatenate([a, b, c], 1), [shape(16, 8), shape(16, 16), shape(16, 8)], 3),
    "stack": (lambda a, b: jnp.stack([a, b], 1), [shape(16, 8), shape(16, 8)], 2),
    "split": (lambda x: jnp.split(x, 3, 1), [shape(16, 48)], 4),
    "pad": (lambda x: jnp.pad(x, ((2, 2), (0, 4))), [shape(28, 16)], 4),
    "pad_interior": (lambda x: lax.pad(x, 0.0, ((1, 0, 1), (0, 0, 0))), [shape(16, 8)], 2),
    "pad_wrap": (lambda x: jnp.pad(x, ((2, 2), (0, 0)), mode="wrap"), [shape(32, 8)], 2),
    "reverse": (lambda x: jnp.flip(x, 0) * 2, [shape(32, 8)], 3),
    "roll": (lambda x: jnp.roll(x, 3, 0), [shape(32, 8)], 4),
    "shifted": (lambda x: x[1:] - x[:-1], [shape(33, 16)], 2),
    "slice": (lambda x: x[4:20, ::2], [shape(32, 16)], 4),
    "repeat": (lambda x: jnp.repeat(x, 2, 0), [shape(16, 8)], 2),
    "tile": (lambda x: jnp.tile(x, (2, 2)), [shape(16, 8)], 2),
    "rotary": (lambda x: jnp.concatenate([-x[..., 4:], x[..., :4]], -1) * jnp.cos(jnp.arange(8.0)), [shape(8, 16, 8)], 4),
    "broadcast_add": (lambda a, b: a[:, None] + b[None, :], [shape(16), shape(32)], 3),
    # order
    "sort": (lambda x: jnp.sort(x, 1), [shape(16, 32)], 4),
    "argsort": (lambda x: jnp.argsort(x, 0), [shape(32, 16)], 3),
    "top_k": (lambda x: lax.top_k(x, 4), [shape(16, 32)], 4),
    # linear algebra and transforms
    "fft": (jnp.fft.fft, [shape(16, 32)], 3),
    "rfft": (jnp.fft.rfft, [shape(16, 32)], 2),
    "fft2": (jnp.fft.fft2, [shape(8, 16, 16)], 2),
    "triangular": (triangular, [shape(8, 16, 16), shape(8, 16, 8)], 3),
    "complex": (lambda x, y: jnp.abs(lax.complex(x, y) ** 2) + jnp.real(lax.complex(x, y)), [shape(16, 16), shape(16, 16)], 2),
    # random bits
    "threefry": (threefry, [shape(32, 16)], 3),
    "rng_bits": (rng_bits, [shape(32, 16, dtype=jnp.uint32)], 2),
    # control flow
    "loop": (loop, [shape(16, 16), shape(16, 16)], 5),
    "until": (until, [shape(16, 16)], 3),
    "branches": (branches, [shape(16, 16), shape(16, 16), shape(dtype=INT)], 4),
    "switched": (switched, [shape(16, 16), shape(dtype=INT)], 3),
    "scanned": (scanned, [shape(16, 32)], 4),
    "mapped": (lambda x, w: lax.map(lambda r: jnp.tanh(r @ w), x), [shape(8, 4, 16), shape(16, 16)], 3),
    # elementwise
    "select": (lambda p, a, b: jnp.where(p > 0, a, b), [shape(16, 16)] * 3, 3),
    "iota": (lambda x: x + jnp.arange(x.shape[1]) * jnp.arange(x.shape[0])[:, None], [shape(16, 32)], 2),
    "integers": (lambda a, b: (a << 2 | b) % 7 + lax.population_count(a), [shape(16, 32, dtype=INT)] * 2, 2),
    "gelu_bias": (lambda x, b: jax.nn.gelu(x + b), [shape(32, 16), shape(16)], 3),
    "triangle": (lambda x: jnp.tril(x) @ x, [shape(32, 32)], 3),
    "attention": (attention, [shape(8, 8, 8, 4)] * 3, 4),
}
