# SPDX-License-Identifier: Apache-2.0
"""Parts of language models: attention of many kinds, caches, experts, adapters, sampling."""
import numpy as np
from corpus import case, jax, jnp, lax

I32, BF = jnp.int32, jnp.bfloat16


def rms(x, scale=1.0):
    return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale


def rotate(x, at):
    """Rotary embedding of x [.., time, width]: rotates halves of the width by the position."""
    half = x.shape[-1] // 2
    angle = at[:, None] * 1e4 ** (-jnp.arange(half) / half)
    one, two = x[..., :half], x[..., half:]
    return jnp.concatenate([one * jnp.cos(angle) - two * jnp.sin(angle), two * jnp.cos(angle) + one * jnp.sin(angle)], -1)


def rotate_pairs(x):
    """Rotary embedding that rotates neighbours."""
    one, two = x[..., ::2], x[..., 1::2]
    angle = jnp.arange(x.shape[-2])[:, None] * 1e4 ** (-jnp.arange(one.shape[-1]) / one.shape[-1])
    pairs = jnp.stack([one * jnp.cos(angle) - two * jnp.sin(angle), two * jnp.cos(angle) + one * jnp.sin(angle)], -1)
    return pairs.reshape(x.shape)


@case("2x4", "4x2 s", "8 few", "2x3 raw", "2x4 s pri", "16 v1")
def qwen_layer(k):
    """Grouped heads with norms on queries and keys, biases on the three projections, a gated MLP."""
    B, T, D, H, G, h, F = (4, 32, 64, 8, 4, 16, 128) if not k.loose else (5, 14, 60, 6, 3, 10, 90)
    p = {"q": k.s((D, H * h), None, "b"), "k": k.s((D, G * h), None, "b"), "v": k.s((D, G * h), None, "b"), "qb": k.s((H * h,), "b"),
         "o": k.s((H * h, D), "b"), "qn": k.s((h,)), "kn": k.s((h,)), "n1": k.s((D,)), "n2": k.s((D,)),
         "g": k.s((D, F), None, "b"), "u": k.s((D, F), None, "b"), "d": k.s((F, D), "b")}
    x = k.s((B, T, D), "a")

    def forward(p, x):
        n = rms(x, p["n1"])
        q = rms((n @ p["q"] + p["qb"]).reshape(B, T, H, h), p["qn"]).swapaxes(1, 2)
        key = rms((n @ p["k"]).reshape(B, T, G, h), p["kn"]).swapaxes(1, 2)
        v = (n @ p["v"]).reshape(B, T, G, h).swapaxes(1, 2)
        q, key = rotate(q, jnp.arange(T)), rotate(key, jnp.arange(T))
        s = jnp.einsum("bgrtk,bgsk->bgrts", q.reshape(B, G, H // G, T, h), key) / np.sqrt(h)
        s = jnp.where(jnp.tril(jnp.ones((T, T), bool)), s, -jnp.inf)
        o = jnp.einsum("bgrts,bgsk->bgrtk", jax.nn.softmax(s), v).reshape(B, H, T, h).swapaxes(1, 2).reshape(B, T, H * h)
        x = x + o @ p["o"]
        n = rms(x, p["n2"])
        return x + (jax.nn.silu(n @ p["g"]) * (n @ p["u"])) @ p["d"]

    return forward, (p, x)


@case("2x4", "8 s", "4 out", "2x2x2 s", "3x4 raw")
def gemma_local_global_gradient(k):
    """Two layers, one with windowed attention, capped logits, a tied table."""
    B, T, D, H, h, V = (4, 16, 32, 4, 8, 96) if not k.loose else (3, 13, 30, 4, 7, 97)
    p = {"e": k.s((V, D), "b"), "q": k.s((2, D, H, h), None, None, "b"), "kv": k.s((2, 2, D, h)), "o": k.s((2, H, h, D), None, "b"),
         "n": k.s((2, D)), "u": k.s((2, 2, D, 48), None, None, None, "b"), "d": k.s((2, 48, D), None, "b")}
    ids, y = k.s((B, T), "ac", dtype=I32), k.s((B, T), "ac", dtype=I32)

    def loss(p, ids, y):
        x = p["e"][ids] * np.sqrt(D)
        at = jnp.arange(T)
        for layer in range(2):
            n = rms(x, 1 + p["n"][layer])
            q, (key, v) = jnp.einsum("btd,dhk->bthk", n, p["q"][layer]), jnp.einsum("btd,cdk->cbtk", n, p["kv"][layer])
            near = (at[:, None] >= at) & ((at[:, None] - at < 4) | (layer == 1))
            s = jnp.where(near, 50 * jnp.tanh(jnp.einsum("bthk,bsk->bhts", q, key) / 50), -2.4e38)
            x = x + jnp.einsum("bhts,bsk,hkd->btd", jax.nn.softmax(s), v, p["o"][layer])
            g, u = jnp.einsum("btd,cdf->cbtf", rms(x), p["u"][layer])
            x = x + (jax.nn.gelu(g) * u) @ p["d"][layer]
        logits = 30 * jnp.tanh(rms(x) @ p["e"].T / 30)
        return (jax.nn.logsumexp(logits, -1) - jnp.take_along_axis(logits, y[..., None], -1)[..., 0]).mean()

    return jax.value_and_grad(loss), (p, ids, y)


@case("2x4", "4x2 s", "8 few", "2x2 text")
def latent_attention(k):
    """Keys and values come from one narrow latent value; a part of the width is rotated and shared by heads."""
    B, T, D, H, L, h, r = 4, 16, 64, 8, 24, 8, 8
    p = {"dq": k.s((D, L)), "uq": k.s((L, H, h + r), None, "b"), "dkv": k.s((D, L + r)), "uk": k.s((L, H, h), None, "b"),
         "uv": k.s((L, H, h), None, "b"), "o": k.s((H, h, D), "b")}
    x = k.s((B, T, D), "a", None, "c")

    def forward(p, x):
        q = jnp.einsum("btl,lhk->bhtk", rms(x @ p["dq"]), p["uq"])
        c = x @ p["dkv"]
        latent, shared = rms(c[..., :L]), rotate_pairs(c[..., L:])
        s = jnp.einsum("bhtk,bsl,lhk->bhts", q[..., :h], latent, p["uk"]) + jnp.einsum("bhtk,bsk->bhts", rotate_pairs(q[..., h:]), shared)
        a = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((T, T), bool)), s / 4, -1e9))
        return jnp.einsum("bhts,bsl,lhk,hkd->btd", a, latent, p["uv"], p["o"])

    return forward, (p, x)


@case("4", "2x4 s", "8 perm", "2x3 raw", "2x2 j")
def paged_decode(k):
    """One token per sequence. Keys are in pages that a table lists; the new key is written into its page."""
    B, H, G, h, N, S, M = (8, 8, 4, 16, 32, 8, 4) if not k.loose else (7, 6, 3, 8, 30, 5, 4)
    q, new = k.s((B, H, h), "a", "b"), k.s((2, B, G, h), None, "a", "b")
    pages = k.s((2, N, S, G, h), None, None if k.i == 1 else "a", None, "b")
    table, length = k.s((B, M), "a", dtype=I32), k.s((B,), "a", dtype=I32)

    def step(q, new, pages, table, length):
        at = length % (M * S)
        page = jnp.take_along_axis(table, (at // S)[:, None], 1)[:, 0] % N
        pages = pages.at[:, page, at % S].set(new)
        keys, values = pages[:, table % N].reshape(2, B, M * S, G, h)
        s = jnp.einsum("bgrk,bsgk->bgrs", q.reshape(B, G, H // G, h), keys) / np.sqrt(h)
        s = jnp.where(jnp.arange(M * S) <= at[:, None, None, None], s, -jnp.inf)
        return jnp.einsum("bgrs,bsgk->bgrk", jax.nn.softmax(s), values).reshape(B, H, h), pages

    return step, (q, new, pages, table, length)


@case("4", "2x4 s", "8", "2x2x2 s perm", "5 raw")
def decode_loop_with_cache(k):
    """Greedy decoding: a while loop over a cache, to which each step writes one position."""
    B, T, D, H, h, V = (8, 12, 32, 4, 8, 64) if not k.loose else (5, 9, 20, 5, 4, 33)
    p = {"e": k.s((V, D), None, "b"), "qkv": k.s((3, D, H, h), None, None, "b"), "o": k.s((H, h, D), "b"), "u": k.s((D, V), None, "b")}
    cache, first = k.s((2, B, H, T, h), None, "a", "b"), k.s((B,), "a", dtype=I32)

    def generate(p, cache, first):
        def body(carry):
            t, token, cache, out = carry
            x = p["e"][token]
            q, key, v = jnp.einsum("bd,cdhk->cbhk", rms(x), p["qkv"])
            cache = lax.dynamic_update_slice(cache, jnp.stack([key, v])[:, :, :, None], (0, 0, 0, t, 0))
            s = jnp.where(jnp.arange(T) <= t, jnp.einsum("bhk,bhtk->bht", q, cache[0]), -1e9)
            x = x + jnp.einsum("bht,bhtk,hkd->bd", jax.nn.softmax(s), cache[1], p["o"])
            token = jnp.argmax(rms(x) @ p["u"], -1).astype(I32)
            return t + 1, token, cache, out.at[:, t].set(token)

        start = (0, first % V, cache, jnp.zeros((B, 4), I32))
        return lax.while_loop(lambda c: c[0] < 4, body, start)[2:]

    return generate, (p, cache, first)


@case("2x4", "8 s", "4x2 out", "7 raw")
def cross_attention_gated_gradient(k):
    """Text attends to image tokens behind a gate; lengths mask both sides."""
    B, T, S, D, H = (4, 16, 24, 32, 4) if not k.loose else (3, 10, 21, 28, 7)
    h = D // H
    p = {"q": k.s((D, H, h), None, "b"), "kv": k.s((2, D, H, h), None, None, "b"), "o": k.s((H, h, D), "b"), "gate": k.s((1,))}
    x, m, length = k.s((B, T, D), "a"), k.s((B, S, D), "a", "b"), k.s((B,), "a", dtype=I32)

    def loss(p, x, m, length):
        q, (key, v) = jnp.einsum("btd,dhk->bhtk", x, p["q"]), jnp.einsum("bsd,cdhk->cbhsk", m, p["kv"])
        live = jnp.arange(S) < length[:, None]
        s = jnp.where(live[:, None, None], q @ key.swapaxes(2, 3) / np.sqrt(h), -1e9)
        return jnp.mean((x + jnp.tanh(p["gate"]) * jnp.einsum("bhts,bhsk,hkd->btd", jax.nn.softmax(s), v, p["o"])) ** 2)

    return jax.grad(loss), (p, x, m, length)


@case("4", "2x2 s", "8 out", "3 raw")
def block_sparse_attention(k):
    """Each block of queries attends to its block and the previous one."""
    B, H, N, C, h = (2, 4, 8, 8, 8) if not k.loose else (2, 3, 7, 6, 5)
    q, key, v = (k.s((B, H, N * C, h), None, "b", "a") for _ in range(3))

    def forward(q, key, v):
        q, key, v = (t.reshape(B, H, N, C, h) for t in (q, key, v))
        before = [jnp.pad(t[:, :, :-1], ((0, 0), (0, 0), (1, 0), (0, 0), (0, 0))) for t in (key, v)]
        key, v = jnp.concatenate([before[0], key], 3), jnp.concatenate([before[1], v], 3)
        s = jnp.einsum("bhnqk,bhnsk->bhnqs", q, key)
        at = jnp.arange(2 * C) - C
        live = (jnp.arange(C)[:, None] >= at) & ((jnp.arange(N) > 0)[:, None, None] | (at >= 0))
        return jnp.einsum("bhnqs,bhnsk->bhnqk", jax.nn.softmax(jnp.where(live, s, -1e9)), v).reshape(B, H, N * C, h)

    return forward, (q, key, v)


@case("4", "2x2 s", "8", "2x3 raw")
def relative_shift_attention_gradient(k):
    """Transformer-XL: pad and reshape shift the scores of distances to their positions."""
    B, H, T, h = (4, 4, 16, 8) if not k.loose else (3, 4, 11, 6)
    q, key, r = k.s((B, H, T, h), "a", "b"), k.s((B, H, T, h), "a", "b"), k.s((H, T, h), "b")

    def loss(q, key, r):
        s = jnp.einsum("bhtk,hsk->bhts", q, r)
        s = jnp.pad(s, ((0, 0), (0, 0), (0, 0), (1, 0))).reshape(B, H, T + 1, T)[:, :, 1:].reshape(B, H, T, T)
        s = s + jnp.einsum("bhtk,bhsk->bhts", q, key)
        return jnp.sum(jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((T, T), bool)), s, -1e9)) ** 2)

    return jax.grad(loss, (0, 1, 2)), (q, key, r)


@case("4", "2x2 s", "8 s", "2x4 few")
def performer_features_gradient(k):
    """Random features instead of a softmax, causal through a running sum."""
    B, H, T, h, M = 2, 8, 16, 8, 16
    q, key, v = (k.s((B, H, T, h), "a" if k.i == 1 else None, "b" if k.i == 1 else "a", "b") for _ in range(3))
    w = k.s((h, M))

    def loss(w, q, key, v):
        def feature(x):
            return jnp.exp(x @ w - (x * x).sum(-1, keepdims=True) / 2)

        f, g = feature(q), feature(key)
        top = jnp.einsum("bhtm,bhtmk->bhtk", f, jnp.cumsum(g[..., None] * v[..., None, :], 2))
        return jnp.mean((top / (jnp.einsum("bhtm,bhtm->bht", f, jnp.cumsum(g, 2))[..., None] + 1e-3)) ** 2)

    return jax.grad(loss, (0, 1, 2, 3)), (w, q, key, v)


@case("2x4", "8 s", "4 out", "2x2x2 s", "2x4 ann")
def lora_many_adapters(k):
    """Each row of a batch uses another adapter; the base weight is bf16 and frozen."""
    B, T, D, F, N, R = 8, 8, 64, 128, 6, 4
    w, a, b = k.s((D, F), None, "b", dtype=BF), k.s((N, D, R)), k.s((N, R, F), None, None, "b")
    x, which = k.s((B, T, D), "a"), k.s((B,), "a", dtype=I32)

    def loss(ab, w, x, which):
        a, b = ab[0][which % N], ab[1][which % N]
        y = (x.astype(BF) @ w).astype(jnp.float32) + 2 * jnp.einsum("btd,bdr,brf->btf", x, a, b)
        return jnp.mean(jax.nn.relu(y) ** 2)

    return jax.value_and_grad(loss), ((a, b), w, x, which)


@case("4", "2x4 s", "8 out", "2x2 few")
def dora_gradient(k):
    """Weights as magnitude and direction, with a low-rank change of the direction."""
    B, D, F, R = 16, 64, 96, 4
    p = {"m": k.s((F,), "b"), "a": k.s((D, R), "a"), "b": k.s((R, F), None, "b")}
    w, x = k.s((D, F), "a" if k.i == 2 else None, "b"), k.s((B, D), "a")

    def loss(p, w, x):
        v = w + p["a"] @ p["b"]
        return jnp.mean((x @ (p["m"] * v / jnp.linalg.norm(v, axis=0))) ** 2)

    return jax.grad(loss), (p, w, x)
