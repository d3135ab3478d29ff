# SPDX-License-Identifier: Apache-2.0
"""Optimizers and control flow for `held_out.py`. held_out_cases.py describes cases."""
import jax
import jax.numpy as jnp
from jax import lax

from held_out_parts import I32, square, with_step


# ---- optimizers

def shapes_tree(k):
    c, m = k.n(12), k.n(16)
    return {"w": k.a("cm", c, m), "b": k.a("m", m), "u": k.a("mc", m, c)}


def adamw_clipped(k):
    p = shapes_tree(k)

    def f(p, m, v, g, count):
        norm = jnp.sqrt(square(g))
        g = jax.tree.map(lambda x: (x * jnp.minimum(1.0, 1.0 / norm)).astype(x.dtype), g)
        m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
        v = jax.tree.map(lambda a, b: 0.99 * a + 0.01 * b * b, v, g)
        t = count.astype(jnp.float32) + 1
        fix = lambda x, r: (x / (1 - r**t)).astype(x.dtype)
        return jax.tree.map(lambda a, b, d: a - 0.01 * (fix(b, 0.9) / (jnp.sqrt(fix(d, 0.99)) + 1e-8) + 0.1 * a), p, m, v), m, v, count + 1

    return f, [p, p, p, p, k.a("", dtype=I32)]


def adafactor(k):
    c, m = k.n(12), k.n(16)

    def f(w, row, column, g):
        g2 = jnp.square(g) + 1e-30
        row, column = 0.99 * row + 0.01 * g2.mean(1), 0.99 * column + 0.01 * g2.mean(0)
        u = g * lax.rsqrt(row / row.mean())[:, None] * lax.rsqrt(column)[None]
        u = u / jnp.maximum(1.0, jnp.sqrt(jnp.mean(u * u)))
        return w - 0.01 * u * jnp.maximum(1e-3, jnp.sqrt(jnp.mean(w * w))), row, column

    return f, [k.a("cm", c, m), k.a("c", c), k.a("m", m), k.a("cm", c, m)]


def shampoo(k):
    c, m = k.n(6), k.n(8)

    def f(w, left, g):
        left = left + g @ g.T + 0.1 * jnp.eye(c, dtype=w.dtype)
        root = lax.linalg.cholesky(left)
        half = lax.linalg.triangular_solve(root, g, left_side=True, lower=True)
        return w - 0.1 * lax.linalg.triangular_solve(root, half, left_side=True, lower=True, transpose_a=True), left

    return f, [k.a("cm", c, m), k.a("cd", c, c), k.a("cm", c, m)]


def muon(k):
    c, m = k.n(8), k.n(12)

    def f(w, momentum, g):
        momentum = 0.9 * momentum + g
        x = momentum / (jnp.sqrt(jnp.sum(momentum**2)) + 1e-6)
        for _ in range(3):
            a = k.c(x @ x.T, "cd")
            x = 3.0 * x - 4.0 * (a @ x) + 2.0 * (a @ (a @ x))
        return w - 0.1 * x, momentum

    return f, [k.a("cm", c, m)] * 3


def accumulation(k):
    s, b, c, m = 3, k.n(4), k.n(8), k.n(12)

    def f(p, batches):
        def micro(total, x):
            g = jax.grad(lambda q: square(jnp.tanh(k.c(x, "bc") @ q["w"]) @ q["v"]))(p)
            return jax.tree.map(jnp.add, total, g), None

        total = lax.scan(micro, jax.tree.map(jnp.zeros_like, p), batches)[0]
        return jax.tree.map(lambda a, g: a - 0.1 * g / s, p, total)

    return f, [{"w": k.a("cm", c, m), "v": k.a("mc", m, c)}, k.a("sbc", s, b, c)]


def custom_gradient(k):
    b, c = k.n(8), k.n(12)

    @jax.custom_vjp
    def clip(x):
        return jnp.round(x * 4) / 4

    clip.defvjp(lambda x: (clip(x), x), lambda x, g: (jnp.where(jnp.abs(x) < 1, g, 0),))
    return with_step(lambda w, x: clip(k.c(x @ clip(w), "bd"))), [k.a("cd", c, c), k.a("bc", b, c)]


def ema_donated(k):
    p = shapes_tree(k)
    return lambda a, b, r: jax.tree.map(lambda x, y: (r * x + (1 - r) * y).astype(x.dtype), a, b), [p, p, k.a("")]


# ---- control flow

def carry_sharded(k):
    n, m = k.n(8), k.n(12)

    def f(x, w, limit):
        body = lambda s: (k.c(jnp.tanh(k.c(s[0], "nm") @ w), "nm"), s[1] + 1)
        return lax.while_loop(lambda s: s[1] < limit, body, (x, 0))[0]

    return f, [k.a("nm", n, m), k.a("mo", m, m), k.a("", dtype=I32)]


def cond_on_norm(k):
    n, m = k.n(8), k.n(12)
    return (lambda x, w: lax.cond(jnp.sum(x) > 0, lambda: k.c(x @ w, "no"), lambda: x @ w.T - x.mean(0)), [k.a("nm", n, m), k.a("mo", m, m)])


def switch_layers(k):
    n, m = k.n(8), k.n(6)
    return (lambda x, w, i: lax.switch(i, [lambda: x, lambda: jnp.tanh(x @ w), lambda: x.T.reshape(n, m), lambda: x[::-1]]),
            [k.a("nm", n, m), k.a("mo", m, m), k.a("", dtype=I32)])


def nested_loops(k):
    n, m = k.n(6), k.n(8)

    def f(x):
        inner = lambda x, _: (k.c(x * 0.5 + jnp.roll(x, 1, 1), "nm"), x.sum(1))
        return lax.scan(lambda x, _: (lambda r: (r[0], r[1].sum(0)))(lax.scan(inner, x, None, 2)), x, None, 3)

    return f, [k.a("nm", n, m)]


def roll_pipeline(k):
    stages, b, c = k.n(4), k.n(6), k.n(8)

    def f(w, x):
        def tick(state, t):
            state = jnp.roll(state, 1, 0).at[0].set(x[t])
            state = k.c(jax.nn.relu(jnp.einsum("sbc,scd->sbd", state, w)), "sbc")
            return state, state[-1]

        return lax.scan(tick, jnp.zeros((stages, b, c), x.dtype), jnp.arange(5))[1]

    return with_step(f), [k.a("scd", stages, c, c), k.a("tbc", 5, b, c)]


CASES = {
    "adamw_clipped": (adamw_clipped, "cm", 4), "adafactor": (adafactor, "cm", 3), "shampoo": (shampoo, "cmd", 3), "muon": (muon, "cmd", 3),
    "accumulation": (accumulation, "bcm", 3), "custom_gradient": (custom_gradient, "bcd", 3), "ema_donated": (ema_donated, "cm", 2),
    "carry_sharded": (carry_sharded, "nmo", 3), "cond_on_norm": (cond_on_norm, "nmo", 3), "switch_layers": (switch_layers, "nmo", 3),
    "nested_loops": (nested_loops, "nm", 3), "roll_pipeline": (roll_pipeline, "sbc", 4),
}
