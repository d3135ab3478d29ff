# SPDX-License-Identifier: Apache-2.0
"""Recurrences, image models, losses and generative models for `held_out.py`. held_out_cases.py describes cases."""
import jax
import jax.numpy as jnp
from jax import lax

from held_out_parts import I32, U32, square, with_step


# ---- recurrences

def lstm(k):
    b, t, c, h = k.n(4), k.n(6), k.n(8), k.n(8)

    def f(p, x):
        def cell(carry, step):
            hidden, state = carry
            gates = step @ p["w"] + jnp.einsum("bh,hgo->bgo", hidden, p["u"]).reshape(b, 4 * h)
            i, o, u, forget = jnp.split(gates, 4, -1)
            state = jax.nn.sigmoid(forget) * state + jax.nn.sigmoid(i) * jnp.tanh(u)
            hidden = k.c(jax.nn.sigmoid(o) * jnp.tanh(state), "bh")
            return (hidden, state), hidden

        zero = jnp.zeros((b, h), x.dtype)
        return lax.scan(cell, (zero, zero), x.swapaxes(0, 1))[1]

    return f, [{"w": k.a("ch", c, 4 * h), "u": k.a("h.o", h, 4, h)}, k.a("btc", b, t, c)]


def lstm_step(k):
    f, arguments = lstm(k)
    return with_step(f), arguments


def gru_step(k):
    b, t, h = k.n(4), k.n(5), k.n(8)

    def f(p, x):
        def cell(hidden, step):
            z, r = jax.nn.sigmoid(step @ p["z"] + hidden @ p["uz"]), jax.nn.sigmoid(step @ p["r"] + hidden @ p["ur"])
            new = (1 - z) * hidden + z * jnp.tanh(step @ p["n"] + (r * hidden) @ p["un"])
            return k.c(new, "bh"), new.sum(-1)

        return lax.scan(cell, jnp.zeros((b, h), x.dtype), x, reverse=True)

    return with_step(f), [{n: k.a("oh", h, h) for n in ("z", "r", "n", "uz", "ur", "un")}, k.a("tbo", t, b, h)]


def mamba(k):
    b, t, c, n = k.n(4), k.n(8), k.n(6), 3

    def f(x, delta, a, mix, out):
        decay = jnp.exp(-jax.nn.softplus(delta)[..., None] * jnp.exp(a))
        drive = (delta * x)[..., None] * mix[:, :, None, :]
        combine = lambda left, right: (left[0] * right[0], right[0] * left[1] + right[1])
        state = lax.associative_scan(combine, (decay, drive), axis=1)[1]
        return k.c(jnp.einsum("btcn,btn->btc", state, out), "btc")

    return f, [k.a("btc", b, t, c), k.a("btc", b, t, c), k.a("cn", c, n), k.a("btn", b, t, n), k.a("btn", b, t, n)]


def mamba_gradient(k):
    f, arguments = mamba(k)
    return jax.grad(lambda *x: square(f(*x)), argnums=(0, 2)), arguments


def viterbi(k):
    b, t, s = k.n(4), k.n(6), k.n(8)

    def f(scores, moves):
        def forward(best, score):
            table = best[:, :, None] + moves
            return k.c(table.max(1) + score, "bs"), jnp.argmax(table, 1)

        best, back = lax.scan(forward, scores[:, 0], scores[:, 1:].swapaxes(0, 1))
        last = jnp.argmax(best, -1)
        walk = lambda state, row: (jnp.take_along_axis(row, state[:, None], 1)[:, 0],) * 2
        return lax.scan(walk, last, back, reverse=True)[1]

    return f, [k.a("bts", b, t, s), k.a("su", s, s)]


def ctc_forward(k):
    b, t, s = k.n(4), k.n(6), k.n(9)

    def f(logits):
        def step(alpha, row):
            moved = jnp.pad(alpha[:, :-1], ((0, 0), (1, 0)), constant_values=-1e9)
            twice = jnp.pad(alpha[:, :-2], ((0, 0), (2, 0)), constant_values=-1e9)
            return jax.nn.logsumexp(jnp.stack([alpha, moved, twice]), 0) + row, None

        return lax.scan(step, logits[:, 0], logits[:, 1:].swapaxes(0, 1))[0]

    return f, [k.a("bts", b, t, s)]


# ---- images

def conv(x, w, stride=1, padding="SAME", **options):
    return lax.conv_general_dilated(x, w, (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"), **options)


def unet(k):
    b, s, c = k.n(4), 8, k.n(4)

    def f(p, x):
        one = jax.nn.relu(conv(x, p["in"]))
        two = jax.nn.relu(conv(one, p["down"], 2))
        two = k.c(jax.nn.relu(conv(two, p["mid"])), "bss")
        up = lax.conv_transpose(two, p["up"], (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return conv(k.c(jnp.concatenate([one, up], -1), "bss"), p["out"])

    p = {"in": k.a("..ic", 3, 3, 3, c), "down": k.a("..co", 3, 3, c, 2 * c), "mid": k.a("..oo", 3, 3, 2 * c, 2 * c),
         "up": k.a("..oc", 2, 2, 2 * c, c), "out": k.a("..co", 1, 1, 2 * c, 2)}
    return f, [p, k.a("bsr.", b, s, s, 3)]


def unet_step(k):
    f, arguments = unet(k)
    return with_step(f), arguments


def mobile_block(k):
    b, s, c = k.n(4), k.n(8), k.n(8)

    def f(p, x):
        y = jax.nn.relu6(conv(x, p["expand"]))
        y = jax.nn.relu6(conv(y, p["depth"], 2, feature_group_count=2 * c))
        squeezed = jax.nn.sigmoid(jax.nn.relu(y.mean((1, 2)) @ p["s1"]) @ p["s2"])
        return conv(y * squeezed[:, None, None], p["project"])

    p = {"expand": k.a("..cm", 1, 1, c, 2 * c), "depth": k.a("...m", 3, 3, 1, 2 * c), "s1": k.a("m.", 2 * c, 2), "s2": k.a(".m", 2, 2 * c),
         "project": k.a("..mc", 1, 1, 2 * c, c)}
    return with_step(f), [p, k.a("bsrc", b, s, s, c)]


def batch_norm_step(k):
    b, s, c = k.n(8), k.n(4), k.n(6)

    def f(p, x):
        mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
        return p["g"] * (x - mean) * lax.rsqrt(var + 1e-5) + p["b"]

    return with_step(f), [{"g": k.a("c", c), "b": k.a("c", c)}, k.a("bsrc", b, s, s, c)]


def group_norm(k):
    b, s, c, g = k.n(4), k.n(6), 8, 4

    def f(x, scale):
        y = x.reshape(b, s, s, g, c // g)
        y = (y - y.mean((1, 2, 4), keepdims=True)) * lax.rsqrt(y.var((1, 2, 4), keepdims=True) + 1e-5)
        return y.reshape(x.shape) * scale

    return f, [k.a("bsrc", b, s, s, c), k.a("c", c)]


def wavenet(k):
    b, t, c = k.n(4), 16, k.n(6)

    def f(w, x):
        for n, dilation in enumerate((1, 2, 4)):
            y = lax.conv_general_dilated(x, w[n], (1,), [(dilation, 0)], rhs_dilation=(dilation,), dimension_numbers=("NWC", "WIO", "NWC"))
            x = k.c(x + jnp.tanh(y), "btc")
        return x

    return with_step(f), [k.a("l.cd", 3, 2, c, c), k.a("btc", b, t, c)]


def pixel_shuffle(k):
    b, s, c = k.n(4), k.n(6), k.n(3)
    return (lambda x: x.reshape(b, s, s, 2, 2, c).transpose(0, 1, 3, 2, 4, 5).reshape(b, 2 * s, 2 * s, c) + 1, [k.a("bsrc", b, s, s, 4 * c)])


def resize(k):
    b, s, c = k.n(4), k.n(6), k.n(3)
    return lambda x: jax.image.resize(x, (b, 2 * s, s + 3, c), "bilinear"), [k.a("bsrc", b, s, s, c)]


def grid_sample(k):
    b, s, n = k.n(4), k.n(6), k.n(10)

    def one(image, points):
        low = jnp.floor(points).astype(I32)
        part = points - low
        at = lambda dy, dx: image[jnp.clip(low[:, 0] + dy, 0, s - 1), jnp.clip(low[:, 1] + dx, 0, s - 1)]
        top = at(0, 0) * (1 - part[:, 1]) + at(0, 1) * part[:, 1]
        return top * (1 - part[:, 0]) + (at(1, 0) * (1 - part[:, 1]) + at(1, 1) * part[:, 1]) * part[:, 0]

    return jax.vmap(one), [k.a("bsr", b, s, s), k.a("bn.", b, n, 2)]


def random_crops(k):
    b, s, c = k.n(6), k.n(10), 3
    return (jax.vmap(lambda x, at: lax.dynamic_slice(x, (at[0], at[1], 0), (4, 4, c))), [k.a("bsrc", b, s, s, c), k.a("b.", b, 2, dtype=I32)])


def max_unpool_gradient(k):
    b, s, c = k.n(4), 9, k.n(4)
    pool = lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 3, 3, 1), "VALID")
    return jax.grad(lambda x, y: jnp.sum(pool(x) * y)), [k.a("bsrc", b, s, s, c), k.a("bqqc", b, 3, 3, c)]


# ---- losses and generative models

def contrastive_step(k):
    n, c, d = k.n(8), k.n(12), k.n(6)

    def f(p, image, text):
        a, b = image @ p["i"], text @ p["t"]
        a, b = (k.c(x / jnp.sqrt(jnp.sum(x * x, -1, keepdims=True) + 1e-6), "nd") for x in (a, b))
        logits = jnp.exp(p["s"]) * a @ b.T
        return -jnp.mean(jnp.diagonal(jax.nn.log_softmax(logits, 0)) + jnp.diagonal(jax.nn.log_softmax(logits, 1)))

    return jax.value_and_grad(f), [{"i": k.a("cd", c, d), "t": k.a("cd", c, d), "s": k.a("")}, k.a("nc", n, c), k.a("nc", n, c)]


def cross_entropy_step(k):
    b, c, v = k.n(8), k.n(12), k.n(20)

    def f(w, x, y):
        logits = k.c(x @ w, "bv")
        smooth = 0.1
        log_p = logits - jax.nn.logsumexp(logits, -1, keepdims=True)
        return -jnp.mean((1 - smooth) * jnp.take_along_axis(log_p, y[:, None], 1)[:, 0] + smooth * log_p.mean(-1))

    return jax.value_and_grad(f), [k.a("cv", c, v), k.a("bc", b, c), k.a("b", b, dtype=I32)]


def vae_step(k):
    b, c, z = k.n(8), k.n(12), k.n(4)

    def f(p, x, seed):
        mean, log_var = jnp.split(x @ p["e"], 2, -1)
        noise = jax.random.normal(jax.random.wrap_key_data(seed), mean.shape, mean.dtype)
        y = k.c(mean + jnp.exp(log_var / 2) * noise, "bz") @ p["d"]
        return jnp.sum((x - y) ** 2) - 0.5 * jnp.sum(1 + log_var - mean**2 - jnp.exp(log_var))

    return jax.value_and_grad(f), [{"e": k.a("cz", c, 2 * z), "d": k.a("zc", z, c)}, k.a("bc", b, c), k.a(".", 2, dtype=U32)]


def flow(k):
    b, c = k.n(8), 2 * k.n(5)

    def f(w, x):
        total = 0.0
        for n in range(3):
            a, y = jnp.split(x, 2, 1)
            y = y * jnp.exp(jnp.tanh(a @ w[n, 0])) + a @ w[n, 1]
            total, x = total + jnp.tanh(a @ w[n, 0]).sum(-1), k.c(jnp.concatenate([y, a], 1), "bc")
        return x, total

    return f, [k.a("l.dh", 3, 2, c // 2, c // 2), k.a("bc", b, c)]


def gan(k):
    b, z, c = k.n(8), k.n(4), k.n(10)

    def f(g, d, noise, real):
        made = lambda q: jnp.tanh(noise @ q)
        judge = lambda q, x: jnp.mean(jax.nn.softplus(k.c(x @ q, "bh").sum(-1)))
        return jax.grad(lambda q: judge(d, made(q)))(g), jax.grad(lambda q: judge(q, real) - judge(q, made(g)))(d)

    return f, [k.a("zc", z, c), k.a("ch", c, 6), k.a("bz", b, z), k.a("bc", b, c)]


def dropout_block(k):
    b, c = k.n(8), k.n(12)

    def f(x, w, seed):
        kept = jax.random.bernoulli(jax.random.key(seed), 0.75, x.shape)
        return jnp.where(kept, x / 0.75, 0) @ w

    return f, [k.a("bc", b, c), k.a("ch", c, 8), k.a("", dtype=U32)]


CASES = {
    "lstm": (lstm, "bhc", 3), "lstm_step": (lstm_step, "bhc", 3), "gru_step": (gru_step, "boh", 3), "mamba": (mamba, "btc", 4),
    "mamba_gradient": (mamba_gradient, "btc", 3), "viterbi": (viterbi, "bs", 3), "ctc_forward": (ctc_forward, "bst", 3), "unet": (unet, "bsrc", 4),
    "unet_step": (unet_step, "bsc", 4), "mobile_block": (mobile_block, "bsm", 4), "batch_norm_step": (batch_norm_step, "bsc", 3),
    "group_norm": (group_norm, "bsc", 4), "wavenet": (wavenet, "btc", 4), "pixel_shuffle": (pixel_shuffle, "bsrc", 3), "resize": (resize, "bsc", 3),
    "grid_sample": (grid_sample, "bns", 3), "random_crops": (random_crops, "bs", 3), "max_unpool_gradient": (max_unpool_gradient, "bsc", 3),
    "contrastive_step": (contrastive_step, "ndc", 4), "cross_entropy_step": (cross_entropy_step, "bvc", 4), "vae_step": (vae_step, "bzc", 3),
    "flow": (flow, "bdc", 3), "gan": (gan, "bch", 3), "dropout_block": (dropout_block, "bch", 3),
}
