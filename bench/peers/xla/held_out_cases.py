# SPDX-License-Identifier: Apache-2.0
"""Programs for `held_out.py`: models, optimizers, numerics and inference steps that `corpus.py` has not.

A case is a function of a `Kit` k that gives (function, arguments). A size is drawn with k.n(usual), so that a variant has odd
ones; an argument is k.a("btc", b, t, c): one letter a dim. k.c(x, "btc") constrains a value in variants that do so. The letters in
CASES are those that mesh axes are given to.
"""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

I32, U8, U32, S8, BOOL = jnp.int32, jnp.uint8, jnp.uint32, jnp.int8, jnp.bool_


def square(tree):
    return sum(jnp.sum(jnp.real(x * jnp.conj(x)).astype(jnp.float32)) for x in jax.tree.leaves(tree))


def with_step(forward, rate=0.125):
    """A step of gradient descent on the first argument."""
    def step(p, *rest):
        loss, g = jax.value_and_grad(lambda q: square(forward(q, *rest)))(p)
        return loss, jax.tree.map(lambda a, b: a - (rate * b).astype(a.dtype), p, g)

    return step


def rms(x, scale):
    return (x * lax.rsqrt(jnp.mean(jnp.square(x.astype(jnp.float32)), -1, keepdims=True) + 1e-6).astype(x.dtype)) * scale


# ---- transformers

def llama_parts(k):
    b, t, c, kv, g, d, m = k.n(4), k.n(8), k.n(16), k.n(4), 2, 4, k.n(24)
    p = {"q": k.a("ckgd", c, kv, g, d), "k": k.a("ckd", c, kv, d), "v": k.a("ckd", c, kv, d), "o": k.a("kgdc", kv, g, d, c),
         "gate": k.a("cm", c, m), "up": k.a("cm", c, m), "down": k.a("mc", m, c), "s": k.a("c", c)}

    def rope(x):  # [b, t, ..., d]
        angle = jnp.arange(t, dtype=jnp.float32)[:, None] / 100.0 ** (jnp.arange(d // 2) / d)
        angle = angle.reshape((1, t) + (1,) * (x.ndim - 3) + (d // 2,)).astype(x.dtype)
        even, odd = x[..., ::2], x[..., 1::2]
        turned = jnp.stack([even * jnp.cos(angle) - odd * jnp.sin(angle), even * jnp.sin(angle) + odd * jnp.cos(angle)], -1)
        return turned.reshape(x.shape)

    def block(p, x):
        h = rms(x, p["s"])
        q, key = rope(jnp.einsum("btc,ckgd->btkgd", h, p["q"])), rope(jnp.einsum("btc,ckd->btkd", h, p["k"]))
        value = k.c(jnp.einsum("btc,ckd->btkd", h, p["v"]), "btkd")
        s = jnp.einsum("btkgd,bskd->bkgts", q, key) / 2
        s = jnp.where(jnp.arange(t)[:, None] >= jnp.arange(t), s, jnp.finfo(s.dtype).min)
        o = jnp.einsum("bkgts,bskd->btkgd", jax.nn.softmax(s, -1), value)
        x = k.c(x + jnp.einsum("btkgd,kgdc->btc", o, p["o"]), "btc")
        h = rms(x, p["s"])
        return k.c(x + (k.c(jax.nn.silu(h @ p["gate"]) * (h @ p["up"]), "btm") @ p["down"]), "btc")

    return block, p, k.a("btc", b, t, c)


def llama(k):
    block, p, x = llama_parts(k)
    return block, [p, x]


def llama_step(k):
    block, p, x = llama_parts(k)
    return with_step(block), [p, x]


def llama_remat_scan(k):
    block, p, x = llama_parts(k)
    stacked = {name: k.a("l" + k.letters[id(s)], 3, *s.shape, dtype=s.dtype) for name, s in p.items()}

    def forward(q, y):
        return lax.scan(lambda y, layer: (jax.checkpoint(block)(layer, y), None), y, q)[0]

    return with_step(forward), [stacked, x]


def t5_attention(k):
    b, t, h, d, buckets = k.n(4), k.n(8), k.n(4), 4, 16

    def f(q, key, v, table):
        distance = jnp.arange(t)[None, :] - jnp.arange(t)[:, None]
        near = jnp.abs(distance)
        far = 4 + jnp.log(jnp.maximum(near, 1) / 4.0).astype(I32)
        bucket = jnp.where(distance > 0, 8, 0) + jnp.clip(jnp.where(near < 4, near, far), 0, 7)
        s = jnp.einsum("bqhd,bkhd->bhqk", q, key) + table[bucket].transpose(2, 0, 1)[None]
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(k.c(s, "bhtu")), v)

    return f, [k.a("bthd", b, t, h, d)] * 3 + [k.a("gh", buckets, h)]


def t5_bias_gradient(k):
    f, arguments = t5_attention(k)
    return jax.grad(lambda *x: square(f(*x)), argnums=(0, 3)), arguments


def vit(k):
    b, s, c, h, m = k.n(4), 16, 16, 4, k.n(32)

    def f(p, image):
        x = lax.conv_general_dilated(image, p["patch"], (4, 4), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = jnp.concatenate([jnp.broadcast_to(p["cls"], (b, 1, c)), x.reshape(b, -1, c)], 1) + p["pos"]
        q, key, v = jnp.split(k.c(x @ p["qkv"], "btm"), 3, -1)
        q, key, v = (y.reshape(b, -1, h, c // h) for y in (q, key, v))
        a = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, key), -1)
        x = x + jnp.einsum("bhqk,bkhd->bqhd", a, v).reshape(b, -1, c)
        return jax.nn.gelu(x[:, 0] @ p["up"]) @ p["head"]

    p = {"patch": k.a("...c", 4, 4, 3, c), "cls": k.a(".c", 1, c), "pos": k.a("tc", 17, c), "qkv": k.a("cm", c, 3 * c), "up": k.a("cm", c, m),
         "head": k.a("mv", m, 10)}
    return with_step(f), [p, k.a("bss.", b, s, s, 3)]


def mlp_mixer(k):
    b, t, c, m = k.n(4), k.n(8), k.n(12), k.n(16)

    def f(p, x):
        y = jnp.einsum("btc,tm->bmc", x, p["t1"])
        x = x + jnp.einsum("bmc,mt->btc", jax.nn.gelu(k.c(y, "bmc")), p["t2"])
        return x + jax.nn.gelu(k.c(x @ p["c1"], "btm")) @ p["c2"]

    return with_step(f), [{"t1": k.a("tm", t, m), "t2": k.a("mt", m, t), "c1": k.a("cm", c, m), "c2": k.a("mc", m, c)}, k.a("btc", b, t, c)]


def perceiver(k):
    b, t, n, c = k.n(4), k.n(24), k.n(6), 8
    return (lambda q, x, w: jnp.einsum("bnt,btc->bnc", jax.nn.softmax(jnp.einsum("nc,btc->bnt", q, k.c(x @ w, "btc"))), x),
            [k.a("nc", n, c), k.a("btc", b, t, c), k.a("cc", c, c)])


def linear_attention(k):
    b, t, h, d = k.n(4), k.n(8), k.n(4), 4

    def f(q, key, v):
        q, key = jax.nn.elu(q) + 1, jax.nn.elu(key) + 1
        state = jnp.cumsum(jnp.einsum("bthd,bthe->bthde", key, v), 1)
        norm = jnp.einsum("bthd,bthd->bth", q, jnp.cumsum(key, 1))
        return jnp.einsum("bthd,bthde->bthe", q, k.c(state, "bth")) / norm[..., None]

    return f, [k.a("bthd", b, t, h, d)] * 3


def window_attention(k):
    b, t, h, d, w = k.n(4), 16, k.n(4), 4, 4

    def f(q, key, v):
        blocks = lambda x: x.reshape(b, t // w, w, h, d)
        around = lambda x: jnp.concatenate([jnp.pad(blocks(x)[:, :-1], ((0, 0), (1, 0), (0, 0), (0, 0), (0, 0))), blocks(x)], 2)
        s = jnp.einsum("bnqhd,bnkhd->bnhqk", blocks(q), around(key))
        s = jnp.where(jnp.arange(2 * w) <= jnp.arange(w)[:, None] + w, s, -1e4)
        return jnp.einsum("bnhqk,bnkhd->bnqhd", jax.nn.softmax(s, -1), around(v)).reshape(b, t, h, d)

    return f, [k.a("bthd", b, t, h, d)] * 3


def alibi_step(k):
    b, t, h, d = k.n(4), k.n(8), k.n(4), 4

    def f(qkv, slopes):
        q, key, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
        bias = slopes[:, None, None] * -jnp.abs(jnp.arange(t)[:, None] - jnp.arange(t))
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, key) + bias), v)

    return with_step(f), [k.a("bt.hd", b, t, 3, h, d), k.a("h", h)]


def triangle_update(k):
    n, c = k.n(8), k.n(4)
    return (lambda z, wa, wb, g: jax.nn.sigmoid(z @ g) * k.c(jnp.einsum("ikc,jkc->ijc", z @ wa, z @ wb), "ijc"),
            [k.a("ijc", n, n, c)] + [k.a("cc", c, c)] * 3)


def outer_product_mean(k):
    s, i, c = k.n(6), k.n(8), 4
    return lambda m, w: jnp.einsum("sic,sjd,cde->ije", m, m, w) / s, [k.a("sic", s, i, c), k.a("..c", c, c, 5)]


def decode_step(k):
    b, t, h, d = k.n(4), k.n(16), k.n(4), 4

    def f(q, key, v, cache_k, cache_v, position):
        cache_k = lax.dynamic_update_slice(cache_k, key[:, None], (0, position, 0, 0))
        cache_v = lax.dynamic_update_slice(cache_v, v[:, None], (0, position, 0, 0))
        s = jnp.einsum("bhd,bthd->bht", q, cache_k)
        s = jnp.where(jnp.arange(t) <= position, s, -1e9)
        return jnp.einsum("bht,bthd->bhd", jax.nn.softmax(s), k.c(cache_v, "bthd")), cache_k, cache_v

    return f, [k.a("bhd", b, h, d)] * 3 + [k.a("bthd", b, t, h, d)] * 2 + [k.a("", dtype=I32)]


def decode_ragged_positions(k):
    b, t, d = k.n(8), k.n(12), 4

    def f(cache, row, position):
        cache = cache.at[jnp.arange(b), position].set(row, mode="drop")
        return cache, jnp.where(jnp.arange(t)[None, :, None] <= position[:, None, None], cache, 0).sum(1)

    return f, [k.a("btd", b, t, d), k.a("bd", b, d), k.a("b", b, dtype=I32)]


def lora(k):
    b, c, m, r = k.n(8), k.n(16), k.n(24), 2
    return (with_step(lambda ab, w, x: x @ w + k.c(x @ ab["a"], "br") @ ab["b"]),
            [{"a": k.a("cr", c, r), "b": k.a("rm", r, m)}, k.a("cm", c, m), k.a("bc", b, c)])


# ---- mixtures of experts

def moe_top2(k):
    g, s, e, c, m, capacity = k.n(4), k.n(8), k.n(4), 6, k.n(8), 4

    def f(p, x):
        gates = jax.nn.softmax(x @ p["router"])
        first = jnp.argmax(gates, -1)
        mask1 = jax.nn.one_hot(first, e)
        mask2 = jax.nn.one_hot(jnp.argmax(gates * (1 - mask1), -1), e)
        place1 = jnp.cumsum(mask1, 1) - mask1
        place2 = jnp.cumsum(mask2, 1) - mask2 + mask1.sum(1, keepdims=True)
        total = 0.0
        for mask, place in ((mask1, place1), (mask2, place2)):
            kept = mask * (place < capacity)
            total = total + ((gates * kept)[..., None] * jax.nn.one_hot(place.astype(I32), capacity))
        routed = k.c(jnp.einsum("gsec,gsd->egcd", (total > 0).astype(x.dtype), x), "egqd")
        h = jax.nn.relu(jnp.einsum("egcd,edm->egcm", routed, p["up"]))
        return k.c(jnp.einsum("egcd,gsec->gsd", k.c(jnp.einsum("egcm,emd->egcd", h, p["down"]), "egqd"), total), "gsd")

    return f, [{"router": k.a("de", c, e), "up": k.a("edm", e, c, m), "down": k.a("emd", e, m, c)}, k.a("gsd", g, s, c)]


def moe_top2_step(k):
    f, arguments = moe_top2(k)
    return with_step(f), arguments


def moe_ragged(k):
    n, e, c, m = k.n(16), k.n(4), 6, k.n(8)

    def f(x, w, up):
        expert = jnp.argmax(x @ w, -1)
        order = jnp.argsort(expert)
        sizes = jnp.bincount(expert, length=e).astype(I32)
        y = lax.ragged_dot(x[order], up, sizes)
        return jnp.zeros_like(y).at[order].set(y)

    return f, [k.a("nc", n, c), k.a("ce", c, e), k.a("ecm", e, c, m)]


def moe_sorted_dispatch(k):
    n, e, c, capacity = k.n(16), k.n(4), 6, 5

    def f(x, w):
        expert = jnp.argmax(x @ w["router"], -1)
        place = (jnp.cumsum(jax.nn.one_hot(expert, e, dtype=I32), 0) * jax.nn.one_hot(expert, e, dtype=I32)).sum(-1) - 1
        buffer = jnp.zeros((e, capacity, c), x.dtype).at[expert, place].set(x, mode="drop")
        y = jnp.einsum("eqc,ecd->eqd", k.c(buffer, "eqc"), w["up"])
        return y.at[expert, place].get(mode="fill", fill_value=0)

    return f, [k.a("nc", n, c), {"router": k.a("ce", c, e), "up": k.a("ecd", e, c, c)}]


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
    "llama": (llama, "bkmtc", 4), "llama_step": (llama_step, "bkmc", 5), "llama_remat_scan": (llama_remat_scan, "bkmc", 4), "t5_attention": (t5_attention, "bht", 4),
    "t5_bias_gradient": (t5_bias_gradient, "bhg", 3), "vit": (vit, "bmcs", 4), "mlp_mixer": (mlp_mixer, "bmtc", 4), "perceiver": (perceiver, "bnt", 3),
    "linear_attention": (linear_attention, "bht", 3), "window_attention": (window_attention, "bht", 4), "alibi_step": (alibi_step, "bht", 3),
    "triangle_update": (triangle_update, "ijc", 4), "outer_product_mean": (outer_product_mean, "si", 3), "decode_step": (decode_step, "bht", 4),
    "decode_ragged_positions": (decode_ragged_positions, "btd", 3), "lora": (lora, "bcm", 3), "moe_top2": (moe_top2, "gesm", 4), "moe_top2_step": (moe_top2_step, "gem", 4),
    "moe_ragged": (moe_ragged, "nem", 3), "moe_sorted_dispatch": (moe_sorted_dispatch, "nec", 3), "lstm": (lstm, "bhc", 3), "lstm_step": (lstm_step, "bhc", 3),
    "gru_step": (gru_step, "boh", 3), "mamba": (mamba, "btc", 4), "mamba_gradient": (mamba_gradient, "btc", 3), "viterbi": (viterbi, "bs", 3), "ctc_forward": (ctc_forward, "bst", 3),
    "unet": (unet, "bsrc", 4), "unet_step": (unet_step, "bsc", 4), "mobile_block": (mobile_block, "bsm", 4), "batch_norm_step": (batch_norm_step, "bsc", 3),
    "group_norm": (group_norm, "bsc", 4), "wavenet": (wavenet, "btc", 4), "pixel_shuffle": (pixel_shuffle, "bsrc", 3), "resize": (resize, "bsc", 3), "grid_sample": (grid_sample, "bns", 3),
    "random_crops": (random_crops, "bs", 3), "max_unpool_gradient": (max_unpool_gradient, "bsc", 3), "contrastive_step": (contrastive_step, "ndc", 4),
    "cross_entropy_step": (cross_entropy_step, "bvc", 4), "vae_step": (vae_step, "bzc", 3), "flow": (flow, "bdc", 3), "gan": (gan, "bch", 3), "dropout_block": (dropout_block, "bch", 3),
    "beam_step": (beam_step, "bvw", 3), "top_p": (top_p, "bv", 3), "knn": (knn, "qnc", 4), "k_means": (k_means, "nmc", 3), "mixture_em": (mixture_em, "nmc", 3),
    "speculative_accept": (speculative_accept, "btv", 3), "message_passing": (message_passing, "nec", 4), "graph_attention": (graph_attention, "nec", 3),
    "embedding_bag": (embedding_bag, "vbc", 4), "compaction": (compaction, "n", 2), "histogram2d": (histogram2d, "n", 2), "median_filter": (median_filter, "tc", 3), "quantiles": (quantiles, "nc", 3),
    "sort_pairs": (sort_pairs, "bn", 3), "fft_convolution": (fft_convolution, "btc", 3), "complex_rotation": (complex_rotation, "btd", 2), "complex_chain": (complex_chain, "nm", 3),
    "jacobi": (jacobi, "nm", 3), "life": (life, "nm", 3), "conjugate_gradient": (conjugate_gradient, "nm", 3), "power_iteration": (power_iteration, "nm", 3), "sinkhorn": (sinkhorn, "nm", 3),
    "floyd_warshall": (floyd_warshall, "nm", 3), "runge_kutta": (runge_kutta, "bcd", 3), "gaussian_process": (gaussian_process, "bn", 3), "haar": (haar, "bt", 3), "checksum": (checksum, "bn", 3),
    "bits_packed": (bits_packed, "bn", 3), "quantized_linear": (quantized_linear, "bcm", 3), "kernel_matrix": (kernel_matrix, "nmc", 3),
    "convolution_by_product": (convolution_by_product, "bto", 3), "adamw_clipped": (adamw_clipped, "cm", 4), "adafactor": (adafactor, "cm", 3), "shampoo": (shampoo, "cmd", 3),
    "muon": (muon, "cmd", 3), "accumulation": (accumulation, "bcm", 3), "custom_gradient": (custom_gradient, "bcd", 3), "ema_donated": (ema_donated, "cm", 2),
    "carry_sharded": (carry_sharded, "nmo", 3), "cond_on_norm": (cond_on_norm, "nmo", 3), "switch_layers": (switch_layers, "nmo", 3), "nested_loops": (nested_loops, "nm", 3),
    "roll_pipeline": (roll_pipeline, "sbc", 4),
}
