# SPDX-License-Identifier: Apache-2.0
"""Transformers and mixtures of experts for `held_out.py`. held_out_cases.py describes cases."""
import jax
import jax.numpy as jnp
from jax import lax

from held_out_parts import I32, rms, square, with_step


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


CASES = {
    "llama": (llama, "bkmtc", 4), "llama_step": (llama_step, "bkmc", 5), "llama_remat_scan": (llama_remat_scan, "bkmc", 4),
    "t5_attention": (t5_attention, "bht", 4), "t5_bias_gradient": (t5_bias_gradient, "bhg", 3), "vit": (vit, "bmcs", 4),
    "mlp_mixer": (mlp_mixer, "bmtc", 4), "perceiver": (perceiver, "bnt", 3), "linear_attention": (linear_attention, "bht", 3),
    "window_attention": (window_attention, "bht", 4), "alibi_step": (alibi_step, "bht", 3), "triangle_update": (triangle_update, "ijc", 4),
    "outer_product_mean": (outer_product_mean, "si", 3), "decode_step": (decode_step, "bht", 4),
    "decode_ragged_positions": (decode_ragged_positions, "btd", 3), "lora": (lora, "bcm", 3), "moe_top2": (moe_top2, "gesm", 4),
    "moe_top2_step": (moe_top2_step, "gem", 4), "moe_ragged": (moe_ragged, "nem", 3), "moe_sorted_dispatch": (moe_sorted_dispatch, "nec", 3),
}
