# SPDX-License-Identifier: Apache-2.0
"""Attention layers, in training and in inference: nineteen of the cases that corpus.py writes as models."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from kit import axis, case, manual, pin


def rotary(x, positions, base=10000.0):
    half = x.shape[-1] // 2
    angle = positions[..., None].astype(jnp.float32) * base ** (-jnp.arange(half) / half)
    cos, sin = jnp.cos(angle)[..., None, :].astype(x.dtype), jnp.sin(angle)[..., None, :].astype(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def causal(n):
    return jnp.tril(jnp.ones((n, n), bool))


@case("data=4 model=4", ["bf16[4,64,256] data . .", dict(q="bf16[256,16,32] . model .", k="bf16[256,4,32] . model .",
                         v="bf16[256,4,32] . model .", o="bf16[16,32,256] model . .")], "data . .")
def gqa_rotary_prefill(x, w):
    b, t, _ = x.shape
    at = jnp.arange(t)
    q = rotary(jnp.einsum("btd,dhk->bthk", x, w["q"]), at).reshape(b, t, 4, 4, 32)
    k, v = rotary(jnp.einsum("btd,dhk->bthk", x, w["k"]), at), jnp.einsum("btd,dhk->bthk", x, w["v"])
    score = jnp.einsum("btgrk,bsgk->bgrts", q, k, preferred_element_type=jnp.float32) * 32**-0.5
    p = jax.nn.softmax(jnp.where(causal(t), score, -1e30), -1).astype(x.dtype)
    y = jnp.einsum("bgrts,bsgk->btgrk", p, v).reshape(b, t, 16, 32)
    return jnp.einsum("bthk,hkd->btd", y, w["o"])


@case("model=8", ["f32[2,40,96]", "f32[96,288] . model", "f32[288] model", "f32[96,96] model ."], ". . .")
def alibi_fused_qkv(x, w_qkv, b_qkv, w_out):
    """Twelve heads over eight devices, as a PyTorch user splits them with view and chunk."""
    b, t, d = x.shape
    q, k, v = jnp.split(x @ w_qkv + b_qkv, 3, -1)
    q, k, v = (a.reshape(b, t, 12, 8).transpose(0, 2, 1, 3) for a in (q, k, v))
    slope = 2.0 ** (-8.0 * np.arange(1, 13, dtype=np.float32) / 12)
    far = jnp.arange(t)[None, :] - jnp.arange(t)[:, None]
    score = q @ k.swapaxes(-1, -2) / np.float32(8**0.5) + slope[:, None, None] * jnp.minimum(far, 0)
    p = jax.nn.softmax(jnp.where(far <= 0, score, -jnp.inf), -1)
    return (p @ v).transpose(0, 2, 1, 3).reshape(b, t, d) @ w_out


@case("data=2 seq=4", ["f32[2,64,4,16] data seq . .", "f32[2,64,4,16] data seq . .", "f32[2,64,4,16] data seq . ."],
      "data seq . .")
def sliding_window_blocks(q, k, v):
    """Each block of 16 looks at itself and at the block before it."""
    b, t, h, d = q.shape
    q, k, v = (a.reshape(b, t // 16, 16, h, d) for a in (q, k, v))

    def with_previous(a):
        return jnp.concatenate([jnp.pad(a, ((0, 0), (1, 0), (0, 0), (0, 0), (0, 0)))[:, :-1], a], 2)

    score = jnp.einsum("bnihd,bnjhd->bnhij", q, with_previous(k)) / 4.0
    i, j = jnp.arange(16)[:, None] + 16, jnp.arange(32)[None, :]
    ok = (j <= i) & (j > i - 16)
    first = (jnp.arange(t // 16) > 0)[:, None, None, None] | (j >= 16)
    p = jax.nn.softmax(jnp.where(ok & first, score, -1e9), -1)
    return jnp.einsum("bnhij,bnjhd->bnihd", p, with_previous(v)).reshape(b, t, h, d)


@case("data=3 model=2", ["bf16[7,20,64] data . .", "bf16[7,33,48] data . .", "s32[7] data", "bf16[64,4,16] . model .",
                         "bf16[48,4,32] . model .", "bf16[4,16,64] model . ."], "data . model")
def cross_attention_lengths(x, memory, lengths, wq, wkv, wo):
    q = jnp.einsum("btd,dhk->bthk", x, wq)
    k, v = jnp.split(jnp.einsum("bsd,dhk->bshk", memory, wkv), 2, -1)
    score = jnp.einsum("bthk,bshk->bhts", q, k).astype(jnp.float32) * 0.25
    valid = jnp.arange(33)[None, :] < lengths[:, None]
    p = jax.nn.softmax(jnp.where(valid[:, None, None, :], score, -1e9), -1)
    return x + jnp.einsum("bhts,bshk,hkd->btd", p.astype(x.dtype), v, wo)


@case("data=8 model=2", ["bf16[8,1,128] data . .", "bf16[8,96,2,32] data . model .",
                         "bf16[8,96,2,32] data . model .", "s32[]", "bf16[128,256] . model", "bf16[128,128] model ."],
      ("data . .", "data . model .", "data . model ."))
def decode_step_kv_cache(x, k_cache, v_cache, pos, wqkv, wo):
    q, k, v = jnp.split(x @ wqkv, [128, 192], -1)
    q, k, v = q.reshape(8, 2, 2, 32), k.reshape(8, 1, 2, 32), v.reshape(8, 1, 2, 32)
    k_cache = lax.dynamic_update_slice(k_cache, k, (0, pos, 0, 0))
    v_cache = lax.dynamic_update_slice_in_dim(v_cache, v, pos, 1)
    score = jnp.einsum("bgrk,bsgk->bgrs", q, k_cache, preferred_element_type=jnp.float32)
    score = jnp.where(jnp.arange(96) <= pos, score * 32**-0.5, -1e30)
    y = jnp.einsum("bgrs,bsgk->bgrk", jax.nn.softmax(score).astype(x.dtype), v_cache)
    return y.reshape(8, 1, 128) @ wo, k_cache, v_cache


@case("seq=8", ["f32[3,4,16] . . .", "f32[3,4,16] . . .", "f32[3,4,16]", "f32[3,50,4,16] . seq . .",
                "f32[3,50,4,16] . seq . .", "s32[3]"], (". . .", ". seq . .", ". seq . ."))
def ring_buffer_cache(q, k, v, keys, values, step):
    """A cache of fifty places that wraps, with a place of its own for each row; the places are over the devices."""
    rows, place = jnp.arange(3), step % 50
    keys, values = keys.at[rows, place].set(k), values.at[rows, place].set(v)
    age = (place[:, None] - jnp.arange(50)[None, :]) % 50
    score = jnp.einsum("bhk,bshk->bhs", q, keys) - 0.1 * age[:, None, :]
    score = jnp.where((age <= step[:, None])[:, None, :], score, -1e30)
    return jnp.einsum("bhs,bshk->bhk", jax.nn.softmax(score, -1), values), keys, values


@case("data=2 model=2", ["bf16[7,8,64] data model .", "bf16[40,16,64] . . .", "bf16[40,16,64] . . .", "s32[7,5] data .",
                         "s32[7] data"], "data model .")
def paged_attention(q, k_pages, v_pages, table, lengths):
    k = jnp.take(k_pages, table, axis=0, mode="clip").reshape(7, 80, 64)
    v = jnp.take(v_pages, table, axis=0, mode="clip").reshape(7, 80, 64)
    score = jnp.einsum("bhd,bsd->bhs", q, k, preferred_element_type=jnp.float32) / 8
    score = jnp.where(jnp.arange(80)[None, None] < lengths[:, None, None], score, -1e30)
    e = jnp.exp(score - lax.stop_gradient(score.max(-1, keepdims=True)))
    return jnp.einsum("bhs,bsd->bhd", e.astype(v.dtype), v) / e.sum(-1, keepdims=True).astype(v.dtype)


@case("data=2 ring=4", ["f32[2,64,2,16] data ring . .", "f32[2,64,2,16] data ring . .", "f32[2,64,2,16] data ring . ."],
      "data ring . .")
def ring_attention(q, k, v):
    n = axis("ring")

    def local(q, k, v):
        def body(_, carry):
            k, v, top, total, acc = carry
            s = jnp.einsum("bthd,bshd->bhts", q, k) / 4
            new = jnp.maximum(top, s.max(-1))
            p, fix = jnp.exp(s - new[..., None]), jnp.exp(top - new)
            acc = acc * fix[..., None] + jnp.einsum("bhts,bshd->bhtd", p, v)
            k, v = (lax.ppermute(a, "ring", [(i, (i + 1) % n) for i in range(n)]) for a in (k, v))
            return k, v, new, total * fix + p.sum(-1), acc

        b, t, h, d = q.shape
        start = jnp.full((b, h, t), -1e30), jnp.zeros((b, h, t)), jnp.zeros((b, h, t, d))
        *_, total, acc = lax.fori_loop(0, n, body, (k, v, *start))
        return (acc / total[..., None]).transpose(0, 2, 1, 3)

    return manual(local, ("data ring . .",) * 3, "data ring . .")(q, k, v)


@case("data=2 model=2 seq=2", ["f32[2,33,4,8] data seq model .", "f32[2,48,4,8] data seq model .",
                               "f32[2,48,4,8] data seq model ."], "data seq model .")
def online_softmax_scan(q, k, v):
    """Flash attention as a scan over six blocks of keys."""
    blocks = [a.reshape(2, 6, 8, 4, 8).swapaxes(0, 1) for a in (k, v)]

    def step(carry, block):
        top, total, acc = carry
        s = jnp.einsum("bthd,bshd->bhts", q, block[0]) * 8**-0.5
        new = jnp.maximum(top, s.max(-1))
        p, fix = jnp.exp(s - new[..., None]), jnp.exp(top - new)
        acc = acc * fix[..., None] + jnp.einsum("bhts,bshd->bhtd", p, block[1])
        return (new, total * fix + p.sum(-1), acc), None

    start = jnp.full((2, 4, 33), -1e30), jnp.zeros((2, 4, 33)), jnp.zeros((2, 4, 33, 8))
    (_, total, acc), _ = lax.scan(step, start, tuple(blocks))
    return (acc / total[..., None]).transpose(0, 2, 1, 3)


@case("model=6", ["f32[2,50,10,8] . . model .", "f32[2,50,10,8] . . model .", "f32[2,50,10,8] . . model ."])
def linear_attention_causal(q, k, v):
    q, k = jax.nn.elu(q) + 1, jax.nn.elu(k) + 1
    state = jnp.cumsum(k[..., :, None] * v[..., None, :], 1)
    norm = jnp.cumsum(k, 1)
    return jnp.einsum("bthk,bthkd->bthd", q, state) / (jnp.einsum("bthk,bthk->bth", q, norm)[..., None] + 1e-6)


@case("data=4 model=4 transposed",
      ["bf16[4,24,64] data . .", dict(qkv="bf16[3,64,4,16] . data model .", o="bf16[4,16,64] model . data",
                                      scale="f32[2,16] . ."), "bf16[4,24,64] data . ."],
      (None, dict(qkv=". data model .", o="model . data", scale=". .")))
def qk_norm_softcap_grad(x, w, target):
    """Gemma's logit cap and normalised queries and keys, with gradients kept in FSDP's layout."""
    def norm(a, scale):
        a = a.astype(jnp.float32)
        return (a * lax.rsqrt((a * a).mean(-1, keepdims=True) + 1e-6) * (1 + scale)).astype(jnp.bfloat16)

    def loss(w):
        q, k, v = jnp.einsum("btd,cdhk->cbthk", x, w["qkv"])
        q, k = norm(q, w["scale"][0]), norm(k, w["scale"][1])
        s = jnp.einsum("bthk,bshk->bhts", q, k).astype(jnp.float32)
        s = jnp.where(causal(24), 50.0 * jnp.tanh(s / 50.0), -1e9)
        y = jnp.einsum("bhts,bshk,hkd->btd", jax.nn.softmax(s).astype(x.dtype), v, w["o"])
        return ((y - target).astype(jnp.float32) ** 2).mean()

    return jax.value_and_grad(loss)(w)


@case("data=2 model=4", ["f32[2,6,30,8] data model . .", "f32[2,6,30,8] data model . .", "f32[2,6,30,8] data model . .",
                         "f32[32,6] . model"], "data model . .")
def t5_relative_buckets(q, k, v, table):
    far = jnp.arange(30)[None, :] - jnp.arange(30)[:, None]
    bucket = jnp.where(far > 0, 16, 0)
    n = jnp.abs(far)
    large = 8 + (jnp.log(jnp.maximum(n, 1) / 8.0) / np.log(128 / 8) * 8).astype(jnp.int32)
    bucket += jnp.where(n < 8, n, jnp.minimum(large, 15))
    bias = table[bucket].transpose(2, 0, 1)
    return jax.nn.softmax(jnp.einsum("bhtd,bhsd->bhts", q, k) + bias, -1) @ v


@case("data=4 model=8", ["bf16[4,20,128] data . .", dict(down="bf16[128,40] . .", up="bf16[32,8,32] . model .",
                         q="bf16[128,8,24] . model .", o="bf16[8,16,128] model . .")], ("data . .", "data . ."))
def latent_attention(x, w):
    """DeepSeek's compressed keys and values, of which eight rotary dims are shared by the heads."""
    c = x @ w["down"]
    latent, shared = c[..., :32], rotary(c[:, :, None, 32:], jnp.arange(20))
    k, v = jnp.split(jnp.einsum("bsc,chk->bshk", latent, w["up"]), 2, -1)
    q = jnp.einsum("btd,dhk->bthk", x, w["q"])
    q, q_rope = q[..., :16], rotary(q[..., 16:], jnp.arange(20))
    k = jnp.concatenate([k, jnp.broadcast_to(shared, (4, 20, 8, 8))], -1)
    q = jnp.concatenate([q, q_rope], -1)
    s = jnp.where(causal(20), jnp.einsum("bthk,bshk->bhts", q, k).astype(jnp.float32) * 24**-0.5, -1e30)
    y = jnp.einsum("bhts,bshk->bthk", jax.nn.softmax(s).astype(x.dtype), v)
    return jnp.einsum("bthk,hkd->btd", y, w["o"]), latent


@case("data=4", ["f32[6,97,32] data . .", "f32[6,200,24] data . .", dict(q="f32[32,32]", kv="f32[24,64]",
                 o="f32[32,32]", g="f32[32]", h="f32[24]")], "data . .")
def perceiver_read(latents, inputs, w):
    def norm(x, g):
        x = x - x.mean(-1, keepdims=True)
        return x * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * g

    q, kv = norm(latents, w["g"]) @ w["q"], norm(inputs, w["h"]) @ w["kv"]
    k, v = jnp.split(kv, [32], -1)
    q, k, v = (a.reshape(6, -1, 4, 8) for a in (q, k, v))
    return latents + jax.nn.dot_product_attention(q, k, v).reshape(6, 97, 32) @ w["o"]


@case("row=3 col=5", ["f32[2,16,24,32] . row col .", "f32[2,3,32,32] . . . .", "f32[2,32,32] . . ."], ". row col .")
def axial_attention(image, qkv, out):
    """Rows then columns of an image that is cut along both."""
    def along(x, i, dims):
        q, k, v = jnp.einsum("byxc,ecd->ebyxd", x, qkv[i])
        s = jnp.einsum({"x": "byxd,byzd->byxz", "y": "byxd,bzxd->bxyz"}[dims], q, k) * 32**-0.5
        y = jnp.einsum({"x": "byxz,byzd->byxd", "y": "bxyz,bzxd->byxd"}[dims], jax.nn.softmax(s, -1), v)
        return x + y @ out[i]

    return along(pin(along(image, 0, "x"), ". row col ."), 1, "y")


@case("data=2 row=4 col=4", ["f16[2,16,16,32] data row col .", "f16[32,96] . .", "f16[32,32] . .", "f32[49,4] . ."],
      "data row col .")
def swin_shifted_window(x, qkv, out, bias):
    b, size, _, c = x.shape
    y = jnp.roll(x, (-2, -2), (1, 2)).reshape(b, 4, 4, 4, 4, c).transpose(0, 1, 3, 2, 4, 5).reshape(b * 16, 16, c)
    q, k, v = jnp.moveaxis((y @ qkv).reshape(-1, 16, 3, 4, 8), (2, 3), (0, 2))
    i = np.arange(16)
    index = (i[:, None] // 4 - i // 4 + 3) * 7 + i[:, None] % 4 - i % 4 + 3
    region = np.where(np.arange(size) < 12, 0, np.where(np.arange(size) < 14, 1, 2))
    region = (region[:, None] * 3 + region).reshape(4, 4, 4, 4).swapaxes(1, 2).reshape(16, 16)
    block = np.where(region[:, :, None] != region[:, None, :], -100.0, 0.0).astype(np.float32)
    s = jnp.einsum("whid,whjd->whij", q, k).astype(jnp.float32) * 8**-0.5 + bias[index].transpose(2, 0, 1)
    s = (s.reshape(b, 16, 4, 16, 16) + block[:, None]).reshape(-1, 4, 16, 16)
    y = jnp.einsum("whij,whjd->wihd", jax.nn.softmax(s, -1).astype(x.dtype), v).reshape(-1, 16, c) @ out
    y = y.reshape(b, 4, 4, 4, 4, c).transpose(0, 1, 3, 2, 4, 5).reshape(x.shape)
    return x + jnp.roll(y, (2, 2), (1, 2))


@case("data=2 model=2", ["f32[2,18,32] data . .", "f32[3,32,8,4] . . model .", "f32[2,8,8] . . .",
                         "f32[8,4,32] model . ."], "data . .")
def talking_heads_remat(x, qkv, mix, out):
    """Heads are mixed before and after the softmax; the gradient to the input, with the layer computed again."""
    def layer(x):
        q, k, v = jnp.einsum("btd,cdhk->cbhtk", x, qkv)
        s = jnp.einsum("bhtk,bhsk,hg->bgts", q, k, mix[0]) / 2
        p = jnp.einsum("bgts,gh->bhts", jax.nn.softmax(s, -1), mix[1])
        return x + jnp.einsum("bhts,bhsk,hkd->btd", p, v, out)

    return jax.grad(lambda x: (jax.checkpoint(layer)(x) ** 2).sum())(x)


@case("data=8 seq=8", ["s32[16,256] data seq", "bf16[16,256,2,16] data seq . .", "bf16[16,256,2,16] data seq . .",
                       "bf16[16,256,2,16] data seq . ."], "data seq . .")
def packed_segments_all_gather(segments, q, k, v):
    """Documents packed in a row do not see each other; keys and values are gathered over `seq` by constraint."""
    k, v = pin(k, "data . . ."), pin(v, "data . . .")
    same = (segments[:, :, None] == pin(segments, "data .")[:, None, :]) & causal(256)
    s = jnp.einsum("bthk,bshk->bhts", q, k, preferred_element_type=jnp.float32) / 4
    s = pin(jnp.where(same[:, None], s, jnp.finfo(jnp.float32).min), "data . seq .")
    return jnp.einsum("bhts,bshk->bthk", jax.nn.softmax(s).astype(v.dtype), v)


@case("seq=4 model=2", ["bf16[2,64,64] . seq .", "bf16[3,64,64] . . model", "bf16[64,64] model ."], ". seq .")
def ulysses_all_to_all(x, qkv, out):
    """Sequence over devices outside of attention, heads inside of it: one of a device's four heads of `model`."""
    def local(x, qkv):
        def heads(w):
            y = (x @ w).reshape(2, 16, 4, 8)
            return lax.all_to_all(y, "seq", 2, 1, tiled=True)

        q, k, v = (heads(w) for w in qkv)
        s = jnp.einsum("bthk,bshk->bhts", q, k).astype(jnp.float32) * 8**-0.5
        y = jnp.einsum("bhts,bshk->bthk", jax.nn.softmax(s).astype(x.dtype), v)
        return lax.all_to_all(y, "seq", 1, 2, tiled=True).reshape(2, 16, 32)

    return manual(local, (". seq .", ". . model"), ". seq model")(x, qkv) @ out
