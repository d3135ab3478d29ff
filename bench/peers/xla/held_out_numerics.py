# SPDX-License-Identifier: Apache-2.0
"""Inference, graphs, sorting and numerics for `held_out.py`. held_out_cases.py describes cases."""
import jax
import jax.numpy as jnp
from jax import lax

from held_out_parts import BOOL, I32, S8, U32, U8, with_step


# ---- inference and search

def beam_step(k):
    b, w, v, t = k.n(4), 3, k.n(10), 6

    def f(log_p, scores, tokens, at):
        total = (scores[:, :, None] + jax.nn.log_softmax(log_p)).reshape(b, w * v)
        best, where = lax.top_k(total, w)
        beam, token = where // v, where % v
        tokens = jnp.take_along_axis(tokens, beam[:, :, None], 1)
        return best, lax.dynamic_update_slice(tokens, token[:, :, None], (0, 0, at))

    return f, [k.a("bwv", b, w, v), k.a("bw", b, w), k.a("bwt", b, w, t, dtype=I32), k.a("", dtype=I32)]


def top_p(k):
    b, v = k.n(8), k.n(16)

    def f(logits, u):
        order = jnp.argsort(-logits, -1)
        p = jax.nn.softmax(jnp.take_along_axis(logits, order, -1))
        kept = jnp.cumsum(p, -1) - p < 0.9
        p = jnp.where(kept, p, 0)
        pick = jnp.sum(jnp.cumsum(p, -1) < u[:, None] * p.sum(-1, keepdims=True), -1)
        return jnp.take_along_axis(order, pick[:, None], 1)

    return f, [k.a("bv", b, v), k.a("b", b)]


def knn(k):
    q, n, c = k.n(6), k.n(16), k.n(5)

    def f(x, y, labels):
        distance = jnp.sum(x * x, 1)[:, None] - 2 * x @ y.T + jnp.sum(y * y, 1)
        near, where = lax.top_k(-k.c(distance, "qn"), 3)
        return near, labels[where]

    return f, [k.a("qc", q, c), k.a("nc", n, c), k.a("n", n, dtype=I32)]


def k_means(k):
    n, m, c = k.n(16), k.n(4), k.n(5)

    def f(x, centers):
        near = jnp.argmin(jnp.sum((x[:, None] - centers) ** 2, -1), 1)
        sums = jax.ops.segment_sum(x, near, m)
        return sums / jnp.maximum(jax.ops.segment_sum(jnp.ones(n, x.dtype), near, m), 1)[:, None]

    return f, [k.a("nc", n, c), k.a("mc", m, c)]


def mixture_em(k):
    n, m, c = k.n(12), k.n(4), k.n(5)

    def f(x, mean, log_w):
        r = jax.nn.softmax(log_w - 0.5 * jnp.sum((x[:, None] - mean) ** 2, -1), -1)
        weight = k.c(r, "nm").sum(0)
        return r.T @ x / weight[:, None], jnp.log(weight / n)

    return f, [k.a("nc", n, c), k.a("mc", m, c), k.a("m", m)]


def speculative_accept(k):
    b, t = k.n(8), 5

    def f(p, q, tokens, u):
        ratio = jnp.take_along_axis(p, tokens[..., None], 2)[..., 0] / jnp.take_along_axis(q, tokens[..., None], 2)[..., 0]
        ok = lax.cumprod((u < ratio).astype(I32), 1)
        return ok.sum(1), jnp.where(ok > 0, tokens, -1)

    return f, [k.a("btv", b, t, k.n(9)), k.a("btv", b, t, k.n(9)), k.a("bt", b, t, dtype=I32), k.a("bt", b, t)]


# ---- graphs, indices, sorting

def message_passing(k):
    n, e, c = k.n(12), k.n(24), k.n(6)

    def f(w, x, source, target):
        message = jax.nn.relu(jnp.concatenate([x[source], x[target]], -1) @ w)
        return jnp.zeros((n, c), x.dtype).at[target].add(k.c(message, "ec"))

    return with_step(f), [k.a("ic", 2 * c, c), k.a("nc", n, c), k.a("e", e, dtype=I32), k.a("e", e, dtype=I32)]


def graph_attention(k):
    n, e, c = k.n(12), k.n(20), k.n(4)

    def f(x, s, t):
        score = jnp.sum(x[s] * x[t], -1)
        top = jax.ops.segment_max(score, t, n)
        weight = jnp.exp(score - top[t])
        total = jax.ops.segment_sum(weight, t, n)
        return jax.ops.segment_sum(x[s] * (weight / total[t])[:, None], t, n)

    return f, [k.a("nc", n, c), k.a("e", e, dtype=I32), k.a("e", e, dtype=I32)]


def embedding_bag(k):
    v, c, b, t = k.n(20), k.n(6), k.n(8), k.n(5)
    return with_step(lambda table, ids, w: jnp.einsum("btc,bt->bc", k.c(table[ids], "btc"), w)), [k.a("vc", v, c), k.a("bt", b, t, dtype=I32),
                                                                                                  k.a("bt", b, t)]


def compaction(k):
    n = k.n(16)

    def f(x):
        kept = x > 0
        place = jnp.cumsum(kept.astype(I32)) - 1
        return jnp.zeros(n, x.dtype).at[jnp.where(kept, place, n)].set(x, mode="drop"), kept.sum()

    return f, [k.a("n", n)]


def histogram2d(k):
    n = k.n(24)
    return (lambda x, y: jnp.zeros((8, 6), I32).at[jnp.clip(x, 0, 7), jnp.clip(y, 0, 5)].add(1), [k.a("n", n, dtype=I32), k.a("n", n, dtype=I32)])


def median_filter(k):
    t, c = k.n(16), k.n(4)

    def f(x):
        near = jnp.stack([jnp.roll(x, s, 0) for s in (-1, 0, 1)])
        return jnp.sort(near, 0)[1]

    return f, [k.a("tc", t, c)]


def quantiles(k):
    n, c = k.n(12), k.n(8)
    return lambda x: jnp.sort(x, 0)[jnp.array([0, n // 4, n // 2, n - 1])], [k.a("nc", n, c)]


def sort_pairs(k):
    b, n = k.n(6), k.n(12)
    return lambda x, y: lax.sort((x, y), dimension=1, num_keys=1, is_stable=True), [k.a("bn", b, n), k.a("bn", b, n, dtype=I32)]


# ---- numerics

def fft_convolution(k):
    b, t, c = k.n(4), 16, k.n(6)

    def f(x, kernel):
        spectrum = jnp.fft.rfft(x, 2 * t, axis=1) * jnp.fft.rfft(kernel, 2 * t, axis=0)
        return jnp.fft.irfft(k.c(spectrum, "btc"), 2 * t, axis=1)[:, :t]

    return f, [k.a("btc", b, t, c), k.a("tc", t, c)]


def complex_rotation(k):
    b, t, d = k.n(4), k.n(6), k.n(4)
    return (lambda x, y: (jnp.real(lax.complex(x, y) * jnp.exp(1j * jnp.arange(t, dtype=x.dtype))[:, None]), jnp.abs(lax.complex(x, y)).sum(1)),
            [k.a("btd", b, t, d)] * 2)


def complex_chain(k):
    n, m = k.n(8), k.n(6)
    return lambda x, y: jnp.conj(x @ y).T @ x, [k.a("nm", n, m, dtype=jnp.complex64), k.a("mn", m, n, dtype=jnp.complex64)]


def jacobi(k):
    n, m = k.n(12), k.n(10)

    def f(x, source):
        def sweep(_, x):
            around = jnp.pad(x, 1)
            return k.c((around[2:, 1:-1] + around[:-2, 1:-1] + around[1:-1, 2:] + around[1:-1, :-2] - source) / 4, "nm")

        return lax.fori_loop(0, 5, sweep, x)

    return f, [k.a("nm", n, m)] * 2


def life(k):
    n, m = k.n(12), k.n(9)

    def f(x):
        total = sum(jnp.roll(x, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)) - x
        return ((total == 3) | ((x == 1) & (total == 2))).astype(U8)

    return f, [k.a("nm", n, m, dtype=U8)]


def conjugate_gradient(k):
    n = k.n(12)

    def f(a, b):
        a = a @ a.T + jnp.eye(n, dtype=a.dtype) * n

        def body(state):
            x, r, p, rr, turn = state
            ap = k.c(a @ p, "n")
            alpha = rr / (p @ ap)
            x, r = x + alpha * p, r - alpha * ap
            new = r @ r
            return x, r, r + new / rr * p, new, turn + 1

        return lax.while_loop(lambda s: (s[4] < 6) & (s[3] > 1e-6), body, (jnp.zeros_like(b), b, b, b @ b, 0))[0]

    return f, [k.a("nm", n, n), k.a("n", n)]


def power_iteration(k):
    n, m = k.n(12), k.n(8)

    def f(a, v):
        def body(v, _):
            u = k.c(a @ v, "n")
            v = a.T @ u
            return v / jnp.sqrt(v @ v), u @ u

        return lax.scan(body, v, None, 4)

    return f, [k.a("nm", n, m), k.a("m", m)]


def sinkhorn(k):
    n, m = k.n(8), k.n(12)

    def f(cost):
        def turn(_, uv):
            u, v = uv
            u = -jax.nn.logsumexp(v[None, :] - cost, 1)
            return u, -jax.nn.logsumexp(u[:, None] - cost, 0)

        u, v = lax.fori_loop(0, 4, turn, (jnp.zeros(n, cost.dtype), jnp.zeros(m, cost.dtype)))
        return jnp.exp(u[:, None] + v - cost)

    return f, [k.a("nm", n, m)]


def floyd_warshall(k):
    n = k.n(10)

    def f(d):
        def via(i, d):
            row, column = lax.dynamic_slice_in_dim(d, i, 1, 0), lax.dynamic_slice_in_dim(d, i, 1, 1)
            return jnp.minimum(d, column + row)

        return lax.fori_loop(0, n, via, d)

    return f, [k.a("nm", n, n)]


def runge_kutta(k):
    b, c = k.n(8), k.n(6)

    def f(w, x):
        field = lambda y: jnp.tanh(y @ w)

        def step(y, _):
            a = field(y)
            e = field(y + 0.05 * a)
            return k.c(y + 0.1 * (a + 2 * e) / 3, "bc"), None

        return lax.scan(step, x, None, 4)[0]

    return with_step(f), [k.a("cd", c, c), k.a("bc", b, c)]


def gaussian_process(k):
    n, c, b = k.n(8), 3, k.n(3)

    def f(x, y):
        gram = jnp.exp(-0.5 * jnp.sum((x[:, :, None] - x[:, None]) ** 2, -1)) + 0.1 * jnp.eye(n, dtype=x.dtype)
        root = lax.linalg.cholesky(gram)
        half = lax.linalg.triangular_solve(root, y[..., None], left_side=True, lower=True)
        return jnp.sum(half**2, (1, 2)) + jnp.log(jnp.diagonal(root, axis1=1, axis2=2)).sum(-1)

    return f, [k.a("bnc", b, n, c), k.a("bn", b, n)]


def haar(k):
    b, t = k.n(6), 16

    def f(x):
        levels = []
        for _ in range(3):
            levels.append((x[:, ::2] - x[:, 1::2]) * 0.5)
            x = (x[:, ::2] + x[:, 1::2]) * 0.5
        return jnp.concatenate([x, *levels[::-1]], 1)

    return f, [k.a("bt", b, t)]


def checksum(k):
    b, n = k.n(6), k.n(12)

    def f(x):
        mixed = (x ^ (x >> 15)) * U32(0x85EBCA6B)
        rotated = (mixed << 13) | (mixed >> 19)
        return lax.reduce(rotated, U32(0), lax.bitwise_xor, (1,)), lax.population_count(mixed).sum(), (x & 1).astype(BOOL).all(0)

    return f, [k.a("bn", b, n, dtype=U32)]


def bits_packed(k):
    b, n = k.n(6), 24

    def f(x):
        weights = (U32(1) << jnp.arange(8, dtype=U32))
        return jnp.sum(jnp.where((x > 0).reshape(b, n // 8, 8), weights, U32(0)), -1).astype(U8)

    return f, [k.a("bn", b, n)]


def quantized_linear(k):
    b, c, m = k.n(8), k.n(16), k.n(12)

    def f(x, w, scale):
        top = jnp.max(jnp.abs(x), -1, keepdims=True)
        q = jnp.clip(jnp.round(x / top * 127), -127, 127).astype(S8)
        return lax.dot(q, w, preferred_element_type=I32).astype(x.dtype) * (top / 127) * scale

    return f, [k.a("bc", b, c), k.a("cm", c, m, dtype=S8), k.a("m", m)]


def kernel_matrix(k):
    n, m, c = k.n(9), k.n(14), k.n(5)
    return lambda x, y, w: jnp.exp(-jnp.sum(jnp.abs(x[:, None] - y[None]), -1)) @ w, [k.a("nc", n, c), k.a("mc", m, c), k.a("m.", m, 3)]


def convolution_by_product(k):
    b, t, w = k.n(6), k.n(15), 4
    return (lambda x, f: jnp.stack([x[:, i:t - w + i + 1] for i in range(w)], -1) @ f, [k.a("bt", b, t), k.a("wo", w, 6)])


CASES = {
    "beam_step": (beam_step, "bvw", 3), "top_p": (top_p, "bv", 3), "knn": (knn, "qnc", 4), "k_means": (k_means, "nmc", 3),
    "mixture_em": (mixture_em, "nmc", 3), "speculative_accept": (speculative_accept, "btv", 3), "message_passing": (message_passing, "nec", 4),
    "graph_attention": (graph_attention, "nec", 3), "embedding_bag": (embedding_bag, "vbc", 4), "compaction": (compaction, "n", 2),
    "histogram2d": (histogram2d, "n", 2), "median_filter": (median_filter, "tc", 3), "quantiles": (quantiles, "nc", 3),
    "sort_pairs": (sort_pairs, "bn", 3), "fft_convolution": (fft_convolution, "btc", 3), "complex_rotation": (complex_rotation, "btd", 2),
    "complex_chain": (complex_chain, "nm", 3), "jacobi": (jacobi, "nm", 3), "life": (life, "nm", 3),
    "conjugate_gradient": (conjugate_gradient, "nm", 3), "power_iteration": (power_iteration, "nm", 3), "sinkhorn": (sinkhorn, "nm", 3),
    "floyd_warshall": (floyd_warshall, "nm", 3), "runge_kutta": (runge_kutta, "bcd", 3), "gaussian_process": (gaussian_process, "bn", 3),
    "haar": (haar, "bt", 3), "checksum": (checksum, "bn", 3), "bits_packed": (bits_packed, "bn", 3), "quantized_linear": (quantized_linear, "bcm", 3),
    "kernel_matrix": (kernel_matrix, "nmc", 3), "convolution_by_product": (convolution_by_product, "bto", 3),
}
