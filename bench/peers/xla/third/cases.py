# SPDX-License-Identifier: Apache-2.0
"""The modules of corpus.py: a function each, its variants above it (mesh, where shardings stand, spelling)."""
from corpus import case, jax, jnp, lax, np
from functools import partial
I32, BF, F64, U32, C64 = jnp.int32, jnp.bfloat16, jnp.float64, jnp.uint32, jnp.complex64
nn = jax.nn

# ------------------------------------------------------------------ helpers
def rms(x, g): return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * g
def ln(x, g, b):
    m = x.mean(-1, keepdims=True); v = ((x - m) ** 2).mean(-1, keepdims=True)
    return (x - m) / jnp.sqrt(v + 1e-5) * g + b
def xent(logits, labels):
    return (nn.logsumexp(logits, -1) - jnp.take_along_axis(logits, labels[..., None], -1)[..., 0]).mean()
def adam(p, g, m, v, t, lr=1e-3):
    m = jax.tree.map(lambda m, g: .9 * m + .1 * g, m, g)
    v = jax.tree.map(lambda v, g: .99 * v + .01 * g * g, v, g)
    c1, c2 = 1 - .9 ** t, 1 - .99 ** t
    return jax.tree.map(lambda p, m, v: p - lr * (m / c1) / (jnp.sqrt(v / c2) + 1e-8), p, m, v), m, v
def sgd(p, g, lr=.1): return jax.tree.map(lambda p, g: p - lr * g, p, g)
def rope(x, pos):
    d = x.shape[-1] // 2
    ang = pos[..., None].astype(x.dtype) * (10000. ** (-jnp.arange(d) / d)).astype(x.dtype)
    c, s = jnp.cos(ang)[:, None], jnp.sin(ang)[:, None]
    x1, x2 = x[..., :d], x[..., d:]
    return jnp.concatenate([x1 * c - x2 * s, x1 * s + x2 * c], -1)

def block_params(k, D, H, F, kv=None, fs="b"):
    """Megatron: heads and hidden over b, or FSDP over a as well where fs says."""
    z = "a" if fs == "ab" else None
    kv = kv or H; h = D // H
    return dict(q=k.s((D, H, h), z, "b"), k=k.s((D, kv, h), z, "b"), v=k.s((D, kv, h), z, "b"), o=k.s((H, h, D), "b", None, z),
                w1=k.s((D, F), z, "b"), w3=k.s((D, F), z, "b"), w2=k.s((F, D), "b", z), g1=k.s((D,)), g2=k.s((D,)))
def attn(k, p, x, mask=None, use_rope=True):
    B, T, D = x.shape
    q, kk, v = (jnp.einsum("btd,dhk->bhtk", x, p[n]) for n in "qkv")
    if use_rope:
        pos = jnp.arange(T)[None]
        q, kk = rope(q.transpose(0, 2, 1, 3).swapaxes(1, 2), pos), rope(kk, pos)
    r = q.shape[1] // kk.shape[1]
    kk, v = jnp.repeat(kk, r, 1), jnp.repeat(v, r, 1)
    s = jnp.einsum("bhtk,bhsk->bhts", q, kk) / np.sqrt(q.shape[-1])
    s = jnp.where(jnp.tril(jnp.ones((T, T), bool)) if mask is None else mask, s, -1e9)
    o = jnp.einsum("bhts,bhsk->bhtk", nn.softmax(s, -1), v)
    return jnp.einsum("bhtk,hkd->btd", o, p["o"])
def block(k, p, x, **kw):
    x = k.c(x + attn(k, p, rms(x, p["g1"]), **kw), "a")
    h = rms(x, p["g2"])
    return k.c(x + (nn.silu(h @ p["w1"]) * (h @ p["w3"])) @ p["w2"], "a")

# ------------------------------------------------------------------ A. transformers
@case("2x2 in g", "2x4 io s", "4x2 inmid g j", "8 in s j", "3x2 uneven g", "2x2x2 in s", "2x3 ann g")
def llama_train(k):
    B, T, V, D, H, F = (8, 8, 32, 16, 4, 32) if k.kind not in ("uneven", "ann") else (5, 7, 29, 18, 3, 30)
    p = dict(e=k.s((V, D), "b"), u=k.s((D, V), None, "b"), l=[block_params(k, D, H, F, 2 if H == 4 else None) for _ in range(2)])
    x, y = k.s((B, T), "a", dtype=I32), k.s((B, T), "a", dtype=I32)
    def loss(p, x, y):
        h = p["e"][x]
        for l in p["l"]: h = block(k, l, h)
        return xent(h @ p["u"], y)
    def step(p, x, y):
        l, g = jax.value_and_grad(loss)(p, x, y)
        return l, sgd(p, g)
    return step, (p, x, y)

@case("4x2 in g", "2x2 io g j", "8 io s", "2x4 in s", "4x4 in g")
def gpt_fsdp_adam(k):
    D, H, F, V, B, T = 16, 4, 64, 64, 8, 8
    p = dict(e=k.s((V, D), "a", "b"), pos=k.s((T, D), "a"), w=k.s((D, 3, H, D // H), "a", None, "b"), o=k.s((H, D // H, D), "b", None, "a"),
             a1=k.s((D, F), "a", "b"), b1=k.s((F,), "b"), a2=k.s((F, D), "b", "a"), b2=k.s((D,), "a"), g=k.s((D,), "a"), b=k.s((D,), "a"))
    like = lambda: {n: k.s(a.shape, *[]) for n, a in p.items()}
    m, v = like(), like()
    for t in (m, v):
        for n in t: k.specs[id(t[n])] = k.specs[id(p[n])]
    x = k.s((B, T + 1), "ab" if k.i == 2 else "a", dtype=I32); t = k.s((), dtype=jnp.float32)
    def loss(p, x):
        h = p["e"][x[:, :-1]] + p["pos"]
        q, kk, vv = jnp.einsum("btd,dchk->cbhtk", ln(h, p["g"], p["b"]), p["w"])
        s = jnp.einsum("bhtk,bhsk->bhts", q, kk) / 2
        s = jnp.where(jnp.arange(T)[:, None] >= jnp.arange(T), s, -jnp.inf)
        h = h + jnp.einsum("bhts,bhsk,hkd->btd", nn.softmax(s), vv, p["o"])
        h = h + nn.gelu(h @ p["a1"] + p["b1"]) @ p["a2"] + p["b2"]
        return xent(h @ p["e"].T, x[:, 1:])
    def step(p, m, v, t, x):
        l, g = jax.value_and_grad(loss)(p, x)
        n = jnp.sqrt(sum(jnp.sum(a * a) for a in jax.tree.leaves(g)))
        g = jax.tree.map(lambda a: a * jnp.minimum(1., 1. / n), g)
        return (l, n) + adam(p, g, m, v, t)
    return step, (p, m, v, t, x)

@case("2x2 in g", "4 in s j", "2x4 inmid s", "8x2 in g j", "16 io g")
def scan_remat_train(k):
    L, D, H, F, B, T = 3, 16, 4, 32, 16, 8
    one = block_params(k, D, H, F, fs="ab")
    p = {n: k.s((L,) + a.shape, None, *[]) for n, a in one.items()}
    for n in p:
        s = k.specs[id(one[n])]
        k.specs[id(p[n])] = jax.sharding.PartitionSpec(None, *s)
    x = k.s((B, T, D), "a")
    def loss(p, x):
        f = jax.checkpoint(lambda h, l: (block(k, l, h), None))
        return jnp.mean(lax.scan(f, x, p)[0] ** 2)
    def step(p, x):
        l, g = jax.value_and_grad(loss)(p, x)
        return l, sgd(p, g)
    return step, (p, x)

@case("4 in g", "2x2 io s", "8 in g j", "2x3 in s")
def microbatch_accumulation(k):
    M, B, D, F = 4, 12, 12, 24
    p = dict(w=k.s((D, F), None, "b"), v=k.s((F, D), "b"))
    x, y = k.s((M * B, D), "a"), k.s((M * B, D), "a")
    def step(p, x, y):
        f = lambda p, x, y: jnp.mean((jnp.tanh(x @ p["w"]) @ p["v"] - y) ** 2)
        xs, ys = x.reshape(M, B, D), y.reshape(M, B, D)
        def body(c, b):
            l, g = jax.value_and_grad(f)(p, *b)
            return (c[0] + l, jax.tree.map(jnp.add, c[1], g)), None
        (l, g), _ = lax.scan(body, (0., jax.tree.map(jnp.zeros_like, p)), (xs, ys))
        return l / M, sgd(p, g, .1 / M)
    return step, (p, x, y)

@case("4 in g", "2x4 in s", "3 ann g", "8 in g j")
def sliding_window_attention(k):
    B, H, T, d, W = 4, 8, 24, 4, 3
    q, kk, v = (k.s((B, T, H, d), "a", None, "b") if k.i != 3 else k.s((B, T, H, d), None, "a") for _ in range(3))
    def f(q, kk, v):
        t = jnp.arange(T)
        m = (t[:, None] >= t) & (t[:, None] - t < W)
        s = jnp.einsum("bthd,bshd->bhts", q, kk) * d ** -.5
        return jnp.einsum("bhts,bshd->bthd", nn.softmax(jnp.where(m, s, -1e30), -1), v)
    return f, (q, kk, v)

@case("2x2 in g", "4 in s", "6 in g", "2x4 out s j")
def causal_linear_attention(k):
    B, H, T, d = 4, 4, 24, 6
    q, kk, v = (k.s((B, H, T, d), "a", None, "b") for _ in range(3))
    def f(q, kk, v):
        q, kk = nn.elu(q) + 1, nn.elu(kk) + 1
        s = jnp.cumsum(kk[..., :, None] * v[..., None, :], 2)
        z = jnp.cumsum(kk, 2)
        return jnp.einsum("bhtd,bhtde->bhte", q, s) / jnp.einsum("bhtd,bhtd->bht", q, z)[..., None]
    return f, (q, kk, v)

@case("4 in g", "8 in s", "2x2 in g j", "2x4 in s")
def chunked_flash_attention(k):
    B, H, T, d, C = 4, 4, 16, 4, 4
    q, kk, v = (k.s((B, H, T, d), "a", "b") if k.i < 2 else k.s((B, H, T, d), None, "b", "a") for _ in range(3))
    def f(q, kk, v):
        ks, vs = (a.reshape(B, H, T // C, C, d).transpose(2, 0, 1, 3, 4) for a in (kk, v))
        def body(c, kv):
            m, l, o = c; kb, vb = kv
            s = jnp.einsum("bhtd,bhsd->bhts", q, kb)
            n = jnp.maximum(m, s.max(-1)); e = jnp.exp(s - n[..., None]); r = jnp.exp(m - n)
            return (n, l * r + e.sum(-1), o * r[..., None] + jnp.einsum("bhts,bhsd->bhtd", e, vb)), None
        (m, l, o), _ = lax.scan(body, (jnp.full((B, H, T), -1e30), jnp.zeros((B, H, T)), jnp.zeros((B, H, T, d))), (ks, vs))
        return o / l[..., None]
    return f, (q, kk, v)

@case("2x2 in g", "4 in g j", "8 in s", "2x4 ann g", "2x3 uneven g")
def kv_cache_decode(k):
    B, S, H, d, D = 6, 16, 4, 4, 16
    x = k.s((B, D), "a"); kc, vc = (k.s((B, S, H, d), "a", None, "b") if k.i < 3 else k.s((B, S, H, d), None, "a", "b") for _ in range(2))
    w = k.s((D, 3, H, d), None, None, "b"); o = k.s((H, d, D), "b"); pos = k.s((), dtype=I32)
    def f(x, kc, vc, w, o, pos):
        q, kk, v = jnp.einsum("bd,dchk->cbhk", x, w)
        kc = lax.dynamic_update_slice(kc, kk[:, None], (0, pos, 0, 0)); vc = lax.dynamic_update_slice(vc, v[:, None], (0, pos, 0, 0))
        s = jnp.einsum("bhk,bshk->bhs", q, kc)
        s = jnp.where(jnp.arange(S) <= pos, s, -1e30)
        return jnp.einsum("bhs,bshk,hkd->bd", nn.softmax(s), vc, o), kc, vc
    return f, (x, kc, vc, w, o, pos)

@case("4 in g", "2x2 in s", "8 in g j", "2x2 out g")
def paged_cache_attention(k):
    B, N, Pg, S, H, d = 4, 16, 4, 4, 4, 4
    pages = k.s((N, Pg, H, d), "a" if k.i != 1 else None, None, "b"); table = k.s((B, S), "a" if k.i == 1 else None, dtype=I32)
    q = k.s((B, H, d), "a" if k.i == 1 else None, "b"); n = k.s((B,), dtype=I32)
    def f(pages, table, q, n):
        kv = pages[table].reshape(B, S * Pg, H, d)
        s = jnp.einsum("bhd,bshd->bhs", q, kv)
        s = jnp.where(jnp.arange(S * Pg)[None, None] < n[:, None, None], s, -1e30)
        return jnp.einsum("bhs,bshd->bhd", nn.softmax(s), kv)
    return f, (pages, table, q, n)

@case("4 in g", "2x2 in s", "8 io g", "2x2x2 in g", "3x2 ann g")
def vocab_parallel_loss_grad(k):
    B, T, D, V = 4, 6, 12, 64 if k.kind != "ann" else 35
    h, w, y = k.s((B, T, D), "a"), k.s((D, V), "c", "b" if len(k.sizes) > 1 else "a"), k.s((B, T), "a", dtype=I32)
    if len(k.sizes) == 1: k.specs[id(h)] = k.specs[id(y)] = jax.sharding.PartitionSpec()
    def f(h, w, y):
        def loss(h, w):
            z = k.c(h @ w, "a", None, "b")
            lse = nn.logsumexp(z, -1)
            oh = nn.one_hot(y, V)
            return (lse - (z * oh).sum(-1) + 1e-4 * lse ** 2).mean() + .1 * -(nn.log_softmax(z).mean())
        return jax.value_and_grad(loss, (0, 1))(h, w)
    return f, (h, w, y)

@case("4 in g", "2x2 in s", "8 io g", "4 in s j", "2x3 uneven g", "16 io s")
def embedding_scatter_grad(k):
    V, D, B, T = (64, 8, 8, 4) if k.kind != "uneven" else (37, 9, 7, 3)
    e, x, g = k.s((V, D), "b" if len(k.sizes) > 1 else "a"), k.s((B, T), "a" if len(k.sizes) > 1 else None, dtype=I32), k.s((B, T, D), "a" if len(k.sizes) > 1 else None)
    def f(e, x, g):
        return jax.grad(lambda e: jnp.sum(jnp.take(e, x, axis=0) * g))(e)
    return f, (e, x, g)

@case("2x2 in g", "8 in s j", "2x4 in g")
def tied_embedding_step(k):
    V, D, B, T = 48, 16, 8, 6
    e, x, w = k.s((V, D), "b", "a" if k.i == 2 else None), k.s((B, T), "a", dtype=I32), k.s((D, D), "a", "b")
    def f(e, w, x):
        def loss(e, w):
            h = jnp.tanh(e[x[:, :-1]] @ w)
            return xent(jnp.einsum("btd,vd->btv", h, e), x[:, 1:])
        l, g = jax.value_and_grad(loss, (0, 1))(e, w)
        return l, e - .1 * g[0], w - .1 * g[1]
    return f, (e, w, x)

@case("2x2 in g", "4x2 in s j", "2x4 ann g")
def lora_grad(k):
    D, F, R, B = 16, 24, 2, 8
    w, a, b, x = k.s((D, F), None, "b"), k.s((D, R)), k.s((R, F), None, "b"), k.s((B, D), "a")
    def f(w, a, b, x):
        return jax.grad(lambda ab: jnp.mean(nn.relu(x @ w + 2 * (x @ ab[0]) @ ab[1]) ** 2))((a, b))
    return f, (w, a, b, x)

@case("4 in g", "4x2 in s", "8 in g")
def pipeline_shift(k):
    S, B, D, M = 8, 4, 8, 6
    w, x = k.s((S, D, D), "a", None, "b"), k.s((M, B, D), None, None)
    def f(w, x):
        def body(c, i):
            st, out = c
            inp = lax.dynamic_index_in_dim(x, jnp.minimum(i, M - 1), 0, keepdims=False)
            st = jnp.roll(st, 1, 0).at[0].set(inp)
            st = k.c(jnp.tanh(jnp.einsum("sbd,sde->sbe", st, w)), "a")
            return (st, st[-1]), st[-1]
        (_, _), ys = lax.scan(body, (jnp.zeros((S, B, D)), jnp.zeros((B, D))), jnp.arange(M + S - 1))
        return ys[S - 1:]
    return f, (w, x)

@case("2x2 in g", "8 in s", "2x3 ann g")
def dpo_loss_grad(k):
    B, T, D, V = 6, 6, 12, 24
    w, r, h, y = k.s((D, V), None, "b"), k.s((D, V), None, "b"), k.s((2, B, T, D), None, "a"), k.s((2, B, T), None, "a", dtype=I32)
    def f(w, r, h, y):
        def lp(w): return jnp.take_along_axis(nn.log_softmax(h @ w), y[..., None], -1)[..., 0].sum(-1)
        def loss(w):
            d = lp(w) - lp(r)
            return -nn.log_sigmoid(.1 * (d[0] - d[1])).mean()
        return jax.value_and_grad(loss)(w)
    return f, (w, r, h, y)

@case("4 in g", "2x4 inmid s", "8 mid g", "2x2 mid g j")
def sequence_parallel_block(k):
    B, T, D, F = 4, 16, 16, 32
    x, w1, w2, g, b = k.s((B, T, D), "a", "b"), k.s((D, F), None, "b"), k.s((F, D), "b"), k.s((D,)), k.s((D,))
    def f(x, w1, w2, g, b):
        def fw(x, w1, w2, g, b):
            h = k.c(ln(x, g, b), "a", None)
            y = nn.gelu(h @ w1) @ w2
            return k.c(k.c(x, "a", "b") + k.c(y, "a", "b"), "a", "b")
        y, back = jax.vjp(fw, x, w1, w2, g, b)
        return back(y)
    return f, (x, w1, w2, g, b)

@case("2x2 in g", "4 out s", "2x4 in g j")
def quantized_matmul(k):
    B, D, F = 8, 16, 32
    x, w, s = k.s((B, D), "a"), k.s((D, F), None, "b", dtype=jnp.int8), k.s((F,), "b")
    def f(x, w, s):
        m = jnp.max(jnp.abs(x), -1, keepdims=True) / 127
        q = jnp.round(x / m).astype(jnp.int8)
        return lax.dot_general(q, w, (((1,), (0,)), ((), ())), preferred_element_type=I32).astype(jnp.float32) * m * s
    return f, (x, w, s)

@case("2x2 io g", "8 io s j", "4x2 in g")
def mixed_precision_lion(k):
    D, F, B = 16, 32, 16
    p, m, x, y = k.s((D, F), "a", "b"), k.s((D, F), "a", "b"), k.s((B, D), "a", dtype=BF), k.s((B, F), "a", "b", dtype=BF)
    def f(p, m, x, y):
        g = jax.grad(lambda p: jnp.mean((x @ p.astype(BF) - y).astype(jnp.float32) ** 2))(p)
        u = jnp.sign(.9 * m + .1 * g)
        return p - 1e-3 * (u + .1 * p), .99 * m + .01 * g
    return f, (p, m, x, y)

@case("2x2 in g", "4 in s", "2x3 uneven g", "8 ann g j")
def cross_attention_padding(k):
    B, T, S, H, d, D = 6, 5, 9, 4, 4, 16
    if k.i == 3: S, T = 16, 8
    x, y, n = k.s((B, T, D), "a" if k.i != 3 else None), k.s((B, S, D), "a" if k.i != 3 else None, "a" if k.i == 3 else None), k.s((B,), "a" if k.i != 3 else None, dtype=I32)
    wq, wk, wv, wo = (k.s((D, H, d), None, "b") for _ in range(3)).__iter__().__next__(), k.s((D, H, d), None, "b"), k.s((D, H, d), None, "b"), k.s((H, d, D), "b")
    def f(x, y, n, wq, wk, wv, wo):
        q, kk, v = jnp.einsum("btd,dhk->bhtk", x, wq), jnp.einsum("bsd,dhk->bhsk", y, wk), jnp.einsum("bsd,dhk->bhsk", y, wv)
        s = q @ kk.swapaxes(-1, -2)
        s = jnp.where((jnp.arange(S) < n[:, None])[:, None, None], s, -1e9)
        return jnp.einsum("bhtk,hkd->btd", nn.softmax(s) @ v, wo)
    return f, (x, y, n, wq, wk, wv, wo)

@case("4 in g", "2x4 in s", "8 in g j")
def ring_like_context_parallel(k):
    B, H, T, d = 2, 4, 32, 4
    q, kk, v = (k.s((B, H, T, d), "b" if len(k.sizes) > 1 else None, None, "a") for _ in range(3))
    def f(q, kk, v):
        def loss(q, kk, v):
            s = jnp.einsum("bhtd,bhsd->bhts", q, kk) + jnp.where(jnp.tril(jnp.ones((T, T))) > 0, 0, -1e9)
            return (k.c(jnp.einsum("bhts,bhsd->bhtd", nn.softmax(s), v), None, None, "a") ** 2).sum()
        return jax.grad(loss, (0, 1, 2))(q, kk, v)
    return f, (q, kk, v)

@case("2x2 in g", "8 in s j", "4 in g")
def top_p_sampling(k):
    B, V = 8, 32
    z, key = k.s((B, V), "a", "b" if len(k.sizes) > 1 else None), k.s((2,), dtype=U32)
    if k.i == 2: k.specs[id(z)] = jax.sharding.PartitionSpec(None, k.role["a"])
    def f(z, key):
        s = jnp.sort(z, -1)[:, ::-1]
        c = jnp.cumsum(nn.softmax(s), -1)
        cut = jnp.take_along_axis(s, (c < .9).sum(-1, keepdims=True).clip(0, V - 1), -1)
        z = jnp.where(z < cut, -1e30, z)
        return jax.random.categorical(key, z, -1)
    return f, (z, key)

@case("2 in g", "4 in s", "2x2 in g")
def beam_step(k):
    B, Kb, V, T = 4, 3, 16, 5
    seq, sc, z = k.s((B, Kb, T), "a", dtype=I32), k.s((B, Kb), "a"), k.s((B, Kb, V), "a", None, "b")
    def f(seq, sc, z):
        t = (sc[..., None] + nn.log_softmax(z)).reshape(B, Kb * V)
        s, i = lax.top_k(t, Kb)
        b, w = i // V, i % V
        seq = jnp.take_along_axis(seq, b[..., None], 1)
        return jnp.concatenate([seq[..., 1:], w[..., None]], -1), s
    return f, (seq, sc, z)

@case("2x2 in g", "2x4 in s j", "6 ann g")
def gptj_parallel_block(k):
    B, T, D, H = 4, 6, 24, 6
    p = block_params(k, D, H, 36, fs="b"); x = k.s((B, T, D), "a")
    def f(p, x):
        h = rms(x, p["g1"])
        return x + attn(k, p, h) + nn.gelu(h @ p["w1"]) @ p["w2"]
    return f, (p, x)

@case("2x2 in g", "4x2 in s", "8 in g j")
def encoder_mlm(k):
    B, T, D, H, V = 8, 8, 16, 4, 32
    p = block_params(k, D, H, 32, fs="ab"); e = k.s((V, D), None, "b")
    x, m = k.s((B, T), "a", dtype=I32), k.s((B, T), "a", dtype=jnp.bool_)
    def f(p, e, x, m):
        def loss(p, e):
            h = block(k, p, e[jnp.where(m, 3, x)], mask=jnp.ones((T, T), bool), use_rope=False)
            z = h @ e.T
            l = nn.logsumexp(z, -1) - jnp.take_along_axis(z, x[..., None], -1)[..., 0]
            return jnp.sum(l * m) / jnp.maximum(1, m.sum())
        return jax.grad(loss, (0, 1))(p, e)
    return f, (p, e, x, m)

# ------------------------------------------------------------------ B. mixtures of experts
def route(x, wr, E, C):
    g = nn.softmax(x @ wr)
    i = jnp.argmax(g, -1); oh = nn.one_hot(i, E)
    pos = (jnp.cumsum(oh, 0) - 1) * oh
    keep = (pos < C) * oh
    return g, keep[..., None] * nn.one_hot(pos.astype(I32), C)
@case("4 in g", "8 in s", "2x4 inmid g", "4 io s j", "2x2x2 in g")
def moe_dense_dispatch(k):
    G, S, D, E, F, C = 8, 8, 8, 8, 16, 2
    x, wr = k.s((G, S, D), "a"), k.s((D, E))
    wi, wo = k.s((E, D, F), "a", None, "b"), k.s((E, F, D), "a", "b")
    def f(x, wr, wi, wo):
        def loss(wr, wi, wo):
            g, d = jax.vmap(lambda x: route(x, wr, E, C))(x)
            h = k.c(jnp.einsum("gsec,gsd->egcd", d, x), "a")
            y = k.c(jnp.einsum("egcf,efd->egcd", nn.relu(jnp.einsum("egcd,edf->egcf", h, wi)), wo), "a")
            o = jnp.einsum("gsec,egcd->gsd", d * g[..., None], y)
            return jnp.mean(o ** 2) + .01 * E * jnp.sum(g.mean((0, 1)) * d.sum(-1).mean((0, 1)))
        return jax.grad(loss, (0, 1, 2))(wr, wi, wo)
    return f, (x, wr, wi, wo)

@case("4 in g", "2x2 in s", "8 in g j")
def moe_sort_dispatch(k):
    N, D, E, F, C = 32, 8, 4, 16, 12
    x, wr, wi, wo = k.s((N, D), "a"), k.s((D, E)), k.s((E, D, F), "b" if len(k.sizes) > 1 else None, None, "a" if len(k.sizes) == 1 else None), k.s((E, F, D), "b" if len(k.sizes) > 1 else None, "a" if len(k.sizes) == 1 else None)
    def f(x, wr, wi, wo):
        e = jnp.argmax(x @ wr, -1)
        o = jnp.argsort(e)
        xs, es = x[o], e[o]
        start = jnp.searchsorted(es, jnp.arange(E))
        slot = jnp.arange(N) - start[es]
        buf = jnp.zeros((E, C, D)).at[es, slot].set(xs, mode="drop")
        y = jnp.einsum("ecf,efd->ecd", nn.relu(jnp.einsum("ecd,edf->ecf", buf, wi)), wo)
        return jnp.zeros_like(x).at[o].set(y.at[es, slot].get(mode="fill", fill_value=0))
    return f, (x, wr, wi, wo)

@case("4 in g", "2x2 in s", "8 io g j")
def moe_expert_choice(k):
    B, T, D, E, F, C = 4, 16, 8, 8, 16, 4
    x, wr, wi, wo = k.s((B, T, D), "b" if len(k.sizes) > 1 else None), k.s((D, E)), k.s((E, D, F), "a"), k.s((E, F, D), "a")
    def f(x, wr, wi, wo):
        s = nn.softmax(jnp.einsum("btd,de->bet", x, wr), -1)
        g, i = lax.top_k(s, C)
        xi = jnp.take_along_axis(x[:, None], i[..., None], 2)
        y = jnp.einsum("becf,efd->becd", nn.silu(jnp.einsum("becd,edf->becf", xi, wi)), wo) * g[..., None]
        return jnp.einsum("bect,becd->btd", nn.one_hot(i, T), y)
    return f, (x, wr, wi, wo)

@case("2 in g", "4 in g", "2x2 ann g")
def moe_ragged_dot(k):
    N, D, E, F = 16, 8, 4, 16
    x, w, n = k.s((N, D), "a" if k.i == 0 else None), k.s((E, D, F), None, None, "b" if len(k.sizes) > 1 else "a"), k.s((E,), dtype=I32)
    def f(x, w, n): return lax.ragged_dot(x, w, n)
    return f, (x, w, n)

@case("4 in g", "2x4 in s", "2x2 io g")
def moe_top2_scatter(k):
    N, D, E, C = 16, 8, 8, 6
    x, wr, w = k.s((N, D), "a"), k.s((D, E)), k.s((E, D, D), "b" if len(k.sizes) > 1 else "a")
    def f(x, wr, w):
        g, i = lax.top_k(nn.softmax(x @ wr), 2)
        fl = i.T.reshape(-1)
        oh = nn.one_hot(fl, E, dtype=I32)
        p = ((jnp.cumsum(oh, 0) - 1) * oh).sum(-1)
        buf = jnp.zeros((E, C, D)).at[fl, p].add(jnp.tile(x, (2, 1)), mode="drop")
        y = jnp.einsum("ecd,edf->ecf", buf, w)
        o = y.at[fl, p].get(mode="fill", fill_value=0.).reshape(2, N, D)
        return jnp.einsum("kn,knd->nd", g.T, o)
    return f, (x, wr, w)

# ------------------------------------------------------------------ C. vision
def conv(x, w, s=1, pad="SAME", g=1, d=1, ld=1):
    return lax.conv_general_dilated(x, w, (s, s), pad, lhs_dilation=(ld, ld), rhs_dilation=(d, d), dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=g)
@case("4 in g", "2x2 in s", "2x2x2 in g j", "8 in g", "2x4 in s", "3x2 uneven g")
def resnet_block_grad(k):
    N, H, W, C = 4, 16, 16, 8
    if k.kind == "uneven": N, H, W, C = 3, 11, 13, 4
    x = k.s((N, H, W, C), "c", "a", "b"); w1, w2 = k.s((3, 3, C, C)), k.s((3, 3, C, C)); g, b = k.s((C,)), k.s((C,))
    def f(x, w1, w2, g, b):
        def bn(y): m = y.mean((0, 1, 2)); v = y.var((0, 1, 2)); return (y - m) * lax.rsqrt(v + 1e-5) * g + b
        def loss(w1, w2): return jnp.mean(nn.relu(x + bn(conv(nn.relu(bn(conv(x, w1))), w2))) ** 2)
        return jax.value_and_grad(loss, (0, 1))(w1, w2)
    return f, (x, w1, w2, g, b)

@case("4 in g", "2x2 in s", "8 in g j", "3 ann g")
def bottleneck_stride2(k):
    N, H, W, C = 4, 16, 16, 8
    if k.kind == "ann": H = 15
    x = k.s((N, H, W, C), "b", "a"); w1, w2, w3, w4 = k.s((1, 1, C, 4)), k.s((3, 3, 4, 4)), k.s((1, 1, 4, 16)), k.s((1, 1, C, 16))
    def f(x, w1, w2, w3, w4):
        h = nn.relu(conv(nn.relu(conv(nn.relu(conv(x, w1)), w2, 2)), w3) + conv(x, w4, 2))
        return lax.reduce_window(h, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME").mean((1, 2))
    return f, (x, w1, w2, w3, w4)

@case("4 in g", "2x2 in s", "2x4 io g")
def depthwise_separable(k):
    x, wd, wp = k.s((4, 12, 16, 8), None, "a", "b"), k.s((3, 3, 1, 8)), k.s((1, 1, 8, 16))
    def f(x, wd, wp):
        return jax.vjp(lambda x, wd, wp: nn.relu6(conv(nn.relu6(conv(x, wd, g=8)), wp)), x, wd, wp)[1](jnp.ones((4, 12, 16, 16)))
    return f, (x, wd, wp)

@case("2 in g", "4 in s", "2x2 in g")
def dilated_transposed_conv(k):
    x, w, u = k.s((2, 16, 16, 4), None, "a", "b"), k.s((3, 3, 4, 4)), k.s((4, 4, 4, 4))
    def f(x, w, u):
        h = conv(x, w, d=2)
        return lax.conv_transpose(nn.relu(h), u, (2, 2), "SAME")
    return f, (x, w, u)

@case("4 in g", "2x2 in s", "8 in g")
def feature_parallel_conv(k):
    x, w1, w2 = k.s((4, 6, 6, 16), "b"), k.s((3, 3, 16, 32), None, None, None, "a"), k.s((3, 3, 32, 16), None, None, "a")
    def f(x, w1, w2): return conv(nn.relu(conv(x, w1)), w2)
    return f, (x, w1, w2)

@case("2 in g", "4 in s", "2x2x2 in g", "8 in g j")
def conv3d_volume(k):
    x, w = k.s((2, 8, 8, 8, 2), None, "a", "b", "c"), k.s((3, 3, 3, 2, 4))
    def f(x, w):
        y = lax.conv_general_dilated(x, w, (1, 1, 1), "SAME", dimension_numbers=("NDHWC", "DHWIO", "NDHWC"))
        return lax.reduce_window(y, 0., lax.add, (1, 2, 2, 2, 1), (1, 2, 2, 2, 1), "VALID") / 8
    return f, (x, w)

@case("4 in g", "2x4 in s", "8 in g")
def wavenet_causal(k):
    x = k.s((2, 64, 8), "b", "a"); ws = [k.s((2, 8, 8)) for _ in range(3)]
    def f(x, *ws):
        for i, w in enumerate(ws):
            y = lax.conv_general_dilated(x, w, (1,), [(2 ** i, 0)], rhs_dilation=(2 ** i,), dimension_numbers=("NWC", "WIO", "NWC"))
            x = x + jnp.tanh(y) * nn.sigmoid(y)
        return x
    return f, (x, *ws)

@case("4 in g", "2x2 in s", "3 uneven g", "8 in g j")
def max_pool_backward(k):
    x = k.s((2, 16, 8, 4) if k.kind != "uneven" else (2, 13, 8, 4), None, "a", "b")
    def f(x):
        p = lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), ((0, 0), (1, 1), (1, 1), (0, 0)))
        return jax.grad(lambda x: (p(x) ** 2).sum())(x)
    return f, (x,)

@case("4 in g", "2x2 in s", "2x4 in g")
def vit_patches(k):
    B, H, Pz, D = 4, 16, 4, 16
    x, w, cls, pos = k.s((B, H, H, 3), "b", "a"), k.s((Pz * Pz * 3, D), None, "b"), k.s((1, 1, D)), k.s((17, D))
    def f(x, w, cls, pos):
        h = x.reshape(B, H // Pz, Pz, H // Pz, Pz, 3).transpose(0, 1, 3, 2, 4, 5).reshape(B, -1, Pz * Pz * 3) @ w
        return jnp.concatenate([jnp.broadcast_to(cls, (B, 1, D)), h], 1) + pos
    return f, (x, w, cls, pos)

@case("4 in g", "2x2 in s", "8 in g")
def swin_shift(k):
    B, H, C, W = 2, 16, 8, 4
    x, w = k.s((B, H, H, C), None, "a", "b"), k.s((C, C))
    def f(x, w):
        y = jnp.roll(x, (-2, -2), (1, 2))
        y = y.reshape(B, H // W, W, H // W, W, C).transpose(0, 1, 3, 2, 4, 5).reshape(-1, W * W, C)
        y = nn.softmax(y @ w @ y.swapaxes(1, 2)) @ y
        y = y.reshape(B, H // W, H // W, W, W, C).transpose(0, 1, 3, 2, 4, 5).reshape(B, H, H, C)
        return x + jnp.roll(y, (2, 2), (1, 2))
    return f, (x, w)

@case("4 in g", "2x2 in s", "8 io g j")
def pixel_shuffle_resize(k):
    x = k.s((2, 8, 8, 16), None, "a", "b")
    def f(x):
        y = x.reshape(2, 8, 8, 2, 2, 4).transpose(0, 1, 3, 2, 4, 5).reshape(2, 16, 16, 4)
        return y, jax.image.resize(x, (2, 16, 16, 16), "bilinear")
    return f, (x,)

@case("4 in g", "2x4 in s", "2x2 mid g")
def unet_skip(k):
    x, d, u, o = k.s((2, 16, 16, 4), "b", "a"), k.s((3, 3, 4, 8)), k.s((3, 3, 8, 4)), k.s((3, 3, 8, 4))
    def f(x, d, u, o):
        h = k.c(nn.relu(conv(x, d, 2)), "b", "a")
        h = conv(jnp.repeat(jnp.repeat(h, 2, 1), 2, 2), u)
        return conv(jnp.concatenate([x, h], -1), o)
    return f, (x, d, u, o)

@case("4 in g", "2x2 in s", "8 in g")
def group_norm_circular(k):
    x, w, g = k.s((2, 16, 8, 8), None, "a", "b"), k.s((3, 3, 8, 8)), k.s((8,))
    def f(x, w, g):
        y = conv(jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="wrap"), w, pad="VALID")
        z = y.reshape(2, 16, 8, 2, 4); z = (z - z.mean((1, 2, 4), keepdims=True)) / jnp.sqrt(z.var((1, 2, 4), keepdims=True) + 1e-5)
        return z.reshape(y.shape) * g
    return f, (x, w, g)

@case("4 in g", "2x2 in s")
def local_response_reflect(k):
    x = k.s((2, 16, 16, 8), None, "a", "b")
    def f(x):
        s = lax.reduce_window(x * x, 0., lax.add, (1, 1, 1, 5), (1, 1, 1, 1), "SAME")
        y = x * (1 + 1e-2 * s) ** -.75
        return jnp.pad(y, ((0, 0), (2, 2), (2, 2), (0, 0)), mode="reflect")[:, 1:-1, 1:-1]
    return f, (x,)

# ------------------------------------------------------------------ D. recurrences
@case("4 in g", "2x2 in s", "8 in g j", "2x4 in g")
def gru_bptt(k):
    T, B, D, H = 6, 8, 8, 16
    x, w, u, b = k.s((T, B, D), None, "a"), k.s((D, 3 * H), None, "b"), k.s((H, 3 * H), None, "b"), k.s((3 * H,), "b")
    def f(x, w, u, b):
        def loss(w, u, b):
            def cell(h, x):
                a, c = x @ w + b, h @ u
                r, z = nn.sigmoid(a[:, :H] + c[:, :H]), nn.sigmoid(a[:, H:2 * H] + c[:, H:2 * H])
                n = jnp.tanh(a[:, 2 * H:] + r * c[:, 2 * H:])
                h = (1 - z) * n + z * h
                return h, h
            return (lax.scan(cell, jnp.zeros((B, H)), x)[1] ** 2).mean()
        return jax.grad(loss, (0, 1, 2))(w, u, b)
    return f, (x, w, u, b)

@case("4 in g", "2x2 in s j", "2x3 ann g")
def lstm_bidirectional(k):
    T, B, D, H = 5, 12, 8, 12
    x = k.s((T, B, D), None, "a"); ws = [k.s((D + H, 4, H), None, None, "b") for _ in range(2)]
    def f(x, *ws):
        def run(x, w, rev):
            def cell(c, x):
                h, s = c
                i, g, fo, o = jnp.moveaxis(jnp.einsum("bd,dgh->bgh", jnp.concatenate([x, h], -1), w), 1, 0)
                s = nn.sigmoid(fo) * s + nn.sigmoid(i) * jnp.tanh(g); h = nn.sigmoid(o) * jnp.tanh(s)
                return (h, s), h
            return lax.scan(cell, (jnp.zeros((B, H)), jnp.zeros((B, H))), x, reverse=rev)[1]
        return jnp.concatenate([run(x, ws[0], False), run(x, ws[1], True)], -1)
    return f, (x, *ws)

@case("4 in g", "2x2 in s", "8 in g")
def associative_ssm(k):
    B, T, D = 4, 16, 8
    a, b = (k.s((B, T, D), "b", "a") if k.i != 1 else k.s((B, T, D), "a", None, "b") for _ in range(2))
    def f(a, b):
        return lax.associative_scan(lambda l, r: (l[0] * r[0], r[0] * l[1] + r[1]), (nn.sigmoid(a), b), axis=1)[1]
    return f, (a, b)

@case("4 in g", "2x2 in s")
def viterbi(k):
    T, B, S = 6, 8, 8
    e, a = k.s((T, B, S), None, "a"), k.s((S, S), None, "b")
    def f(e, a):
        def fw(s, e):
            c = s[:, :, None] + a
            return c.max(1) + e, c.argmax(1)
        s, bp = lax.scan(fw, e[0], e[1:])
        last = s.argmax(-1)
        _, path = lax.scan(lambda i, p: (jnp.take_along_axis(p, i[:, None], 1)[:, 0],) * 2, last, bp, reverse=True)
        return s.max(-1), path
    return f, (e, a)

@case("4 in g", "2x2 in s", "8 in g j")
def while_power_iteration(k):
    N = 16
    a, v = k.s((N, N), "a", "b"), k.s((N,))
    def f(a, v):
        def body(c):
            v, _, i = c
            w = a @ v; n = jnp.linalg.norm(w)
            return w / n, n, i + 1
        return lax.while_loop(lambda c: (c[2] < 20) & (c[1] < 1e6), body, (v, jnp.float32(0), 0))[:2]
    return f, (a, v)

@case("4 in g", "2x2 in s", "3x2 uneven g", "8 in g", "2x2 ann g")
def jacobi_fori(k):
    N, M = (16, 16) if k.kind != "uneven" else (13, 11)
    u, r = k.s((N, M), "a", "b"), k.s((N, M), "a", "b")
    def f(u, r):
        def body(_, u):
            p = jnp.pad(u, 1)
            return .25 * (p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - r)
        return lax.fori_loop(0, 5, body, u)
    return f, (u, r)

@case("4 in g", "2x2 in s", "8 in g")
def cond_in_scan(k):
    T, B, D = 6, 8, 16
    x, w, u, flag = k.s((T, B, D), None, "a"), k.s((D, D), None, "b"), k.s((D, D), "b"), k.s((T,), dtype=jnp.bool_)
    def f(x, w, u, flag):
        def body(h, xs):
            x, fl = xs
            h = lax.cond(fl, lambda h: jnp.tanh(h @ w), lambda h: h @ u + x, h)
            return h, h.sum(-1)
        return lax.scan(body, jnp.zeros((B, D)), (x, flag))
    return f, (x, w, u, flag)

@case("4 in g", "2x2 in s j")
def switch_branches(k):
    x, w, i = k.s((8, 16), "a", "b"), k.s((16, 16), "b"), k.s((), dtype=I32)
    def f(x, w, i):
        return lax.switch(i, [lambda x: x @ w, lambda x: jnp.flip(x, 1), lambda x: jnp.cumsum(x, 0), lambda x: x * x.sum(0)], x)
    return f, (x, w, i)

@case("4 in g", "2x2 in s", "8 in g")
def nested_scan_layers_time(k):
    L, T, B, D = 2, 4, 8, 8
    w, x = k.s((L, D, D), None, None, "b"), k.s((T, B, D), None, "a")
    def f(w, x):
        def layer(h, w): return lax.scan(lambda c, x: (jnp.tanh(c + x @ w),) * 2, jnp.zeros((B, D)), h)[1], None
        return lax.scan(layer, x, w)[0]
    return f, (w, x)

@case("4 in g", "2x2 in s")
def speculative_while(k):
    B, V, D, T = 4, 16, 8, 6
    e, w, x = k.s((V, D), "b"), k.s((D, V), None, "b"), k.s((B,), "a", dtype=I32)
    def f(e, w, x):
        def body(c):
            i, t, out = c
            t = jnp.argmax(jnp.tanh(e[t]) @ w, -1).astype(I32)
            return i + 1, t, lax.dynamic_update_slice(out, t[:, None], (0, i))
        return lax.while_loop(lambda c: (c[0] < T) & ~jnp.all(c[1] == 0), body, (0, x, jnp.zeros((B, T), I32)))[2]
    return f, (e, w, x)

# ------------------------------------------------------------------ E. op families
def einsum_case(name, eq, shapes, specs, *variants):
    def f(k):
        args = [k.s(s, *sp) for s, sp in zip(shapes, specs)]
        return (lambda *a: jnp.einsum(eq, *a)), tuple(args)
    f.__name__ = "einsum_" + name
    case(*variants)(f)
einsum_case("batch", "bij,bjk->bik", [(8, 4, 6), (8, 6, 4)], [("a", "b"), (None, "a", "b")], "2x2 in g", "4 in s", "2x2 out g")
einsum_case("transpose_out", "ij,jk->ki", [(16, 16), (16, 16)], [("a", "b"), ("b", "a")], "2x2 in g", "2x4 io s", "4 in g j")
einsum_case("trilinear", "bi,ijk,bj->bk", [(8, 8), (8, 8, 8), (8, 8)], [("a",), (None, "b"), ("a",)], "2x2 in g", "4x2 in s", "8 io g")
einsum_case("outer", "i,j->ij", [(16,), (24,)], [("a",), ("b",)], "4 in g", "2x2 in s", "2x3 out g")
einsum_case("two_contractions", "ijk,ijl->kl", [(8, 4, 6), (8, 4, 10)], [("a", "b"), ("b", "a")], "2x2 in g", "4x2 in s", "8 io s j")
einsum_case("diag_trace", "bii->b", [(8, 12, 12)], [("a", "b", None)], "2x2 in g", "2x3 in s")
einsum_case("chain", "ab,bc,cd,de->ae", [(8, 12), (12, 16), (16, 12), (12, 8)], [("a",), ("b",), ("a",), ("b",)], "2x2 in g", "4 in s j", "2x2x2 in g")
einsum_case("mismatch", "ik,kj->ij", [(16, 32), (32, 16)], [("ab",), (None, "ba")], "2x2 in g", "2x4 in s", "4x4 in g", "8x8 in s j")
einsum_case("bilinear_attention", "bqhd,bkhd->bhqk", [(4, 8, 4, 4), (4, 8, 4, 4)], [("a", "b"), ("a", None, "b")], "2x2 in g", "2x4 in s", "2x2 io g")
einsum_case("uneven", "mk,kn->mn", [(13, 17), (17, 11)], [("a", "b"), ("b",)], "2x3 uneven g", "3x2 ann g", "4 text g", "2x2x2 uneven g j", "6x4 uneven g")
einsum_case("contract_other", "mk,kn->mn", [(24, 32), (32, 16)], [("c", "ab"), ("ab", "c")], "2x2x2 in g", "2x2x4 in s", "4x2x2 io g")

@case("4 in g", "2x2 in s", "8 io g", "2x3 uneven g", "2x2x2 in s j", "6 ann g")
def reshape_split_merge(k):
    x = k.s((8, 12, 6), "a", "b") if k.kind not in ("uneven", "ann") else k.s((7, 10, 6), "a", "b")
    def f(x):
        a, b, c = x.shape
        y = x.reshape(a * b, c).reshape(a, b // 2, 2, c)
        return y.transpose(2, 0, 1, 3).reshape(2 * a, -1), x.reshape(-1), x.reshape(a, b * c).T
    return f, (x,)

@case("4 out g", "2x2 io s", "8 io g", "2x2x2 io g")
def transpose_reshard(k):
    x = k.s((8, 16, 8), "a", "b", "c")
    return (lambda x: (x.transpose(2, 0, 1), x.transpose(1, 2, 0) * 2)), (x,)

@case("4 in g", "2x2 in s", "3 uneven g", "8 in g j", "2x3 ann g", "16 in s")
def pad_concat_roll_slice(k):
    x, y = (k.s((16, 8), "a", "b") for _ in range(2)) if k.kind not in ("uneven", "ann") else (k.s((13, 7), "a", "b") for _ in range(2))
    def f(x, y):
        z = jnp.concatenate([x, y[2:5], x[::-1]], 0)
        return jnp.roll(z, 3, 0), lax.pad(x, 0., ((2, 1, 1), (0, 2, 0))), z[1::2, 1:-1], jnp.flip(y, (0, 1)), lax.pad(y, 1., ((-1, -2, 0), (1, -1, 0)))
    return f, (x, y)

@case("4 in g", "2x2 in s", "8 io g", "2x2 ann g", "3x2 uneven g")
def gather_forms(k):
    x = k.s((16, 12), "a", "b"); i, j = k.s((8,), dtype=I32), k.s((8, 12), "a", dtype=I32)
    def f(x, i, j):
        return x[i], x[:, i], x[i, i], jnp.take_along_axis(x, j, 0), x[j[:, 0] % 16, 1:5]
    return f, (x, i, j)

@case("4 in g", "2x2 in s", "8 io g", "2x2 ann g", "2x3 uneven g")
def scatter_forms(k):
    x, u, i = k.s((16, 12), "a", "b"), k.s((8, 12), "a" if k.i != 1 else None, "b"), k.s((8,), dtype=I32)
    def f(x, u, i):
        return x.at[i].set(u), x.at[i].add(u), x.at[i].min(u), x.at[:, i].mul(u[:, :8].T[0][:, None].T), x.at[i, i].max(u[:, 0])
    return f, (x, u, i)

@case("4 in g", "2x2 in s", "8 io g j", "4x4 in g")
def segment_graph(k):
    N, E, D = 16, 48, 8
    x, s, d, w = k.s((N, D), "b" if k.i == 3 else None, None), k.s((E,), "a", dtype=I32), k.s((E,), "a", dtype=I32), k.s((D, D), None, "b")
    def f(x, s, d, w):
        h = x @ w
        m = nn.leaky_relu((h[s] * h[d]).sum(-1))
        mx = jax.ops.segment_max(m, d, N)
        e = jnp.exp(m - mx[d]); z = jax.ops.segment_sum(e, d, N)
        return jax.ops.segment_sum((e / z[d])[:, None] * h[s], d, N)
    return f, (x, s, d, w)

@case("4 in g", "2x2 in s", "8 in g", "3 uneven g", "2x2 io s")
def sort_family(k):
    x, y = k.s((8, 24) if k.kind != "uneven" else (7, 11), "b", "a"), k.s((24,) if k.kind != "uneven" else (11,), "a")
    def f(x, y):
        return jnp.sort(x, 1), jnp.argsort(y), lax.sort((y, -y, jnp.arange(y.size)), num_keys=2)[2], lax.top_k(x, 3), jnp.median(x, 1)
    return f, (x, y)

@case("4 in g", "2x2 in s", "8 in g", "3x2 uneven g", "2x2 ann g")
def cumulative_family(k):
    x = k.s((8, 24) if k.kind != "uneven" else (7, 11), "b", "a")
    def f(x): return jnp.cumsum(x, 1), lax.cummax(x, 1), lax.cumlogsumexp(x, 0), jnp.cumprod(x, 0), lax.cumsum(x, 1, reverse=True)
    return f, (x,)

@case("4 in g", "2x2 in s", "8 io g", "2x3 uneven g")
def argminmax_family(k):
    x = k.s((12, 24) if k.kind != "uneven" else (7, 11), "b", "a")
    def f(x): return x.argmax(1), x.argmin(0), x.argmax(), jnp.nanmax(x, 1), (x > 0).any(1), (x > 0).all(0), x.prod(1), x.min()
    return f, (x,)

@case("4 in g", "2x2 in s", "8 in g j")
def histogram_searchsorted(k):
    x, e = k.s((64,), "a"), k.s((9,))
    def f(x, e):
        i = jnp.searchsorted(e, x)
        return jnp.zeros(10).at[i].add(1.), jnp.bincount(i, length=10), nn.one_hot(i, 10).mean(0), jnp.digitize(x, e)
    return f, (x, e)

@case("4 in g", "2x2 in s", "8 in g", "2x3 uneven g", "2x2 ann g")
def dynamic_slices(k):
    x, u, i, j = k.s((16, 24), "a", "b"), k.s((4, 24), None, "b"), k.s((), dtype=I32), k.s((), dtype=I32)
    def f(x, u, i, j):
        return lax.dynamic_slice(x, (i, j), (5, 6)), lax.dynamic_update_slice(x, u, (i, 0)), lax.dynamic_slice(x, (0, j), (16, 3)), lax.dynamic_update_slice(x, u[:, :7], (i, j))
    return f, (x, u, i, j)

@case("4 in g", "2x2 in s", "8 out g", "2x4 out s")
def random_family(k):
    key = k.s((2,), dtype=U32); m = k.s((16, 8), "a", "b")
    def f(key, m):
        a, b, c, d = jax.random.split(key, 4)
        return jax.random.normal(a, (16, 8)) + m, jax.random.bernoulli(b, .3, (16, 8)) * m, jax.random.gumbel(c, (16, 8)), jax.random.randint(d, (16, 8), 0, 9)
    return f, (key, m)

@case("4 in g", "2x2 in s", "2x2 out g")
def random_permutation_choice(k):
    key, x = k.s((2,), dtype=U32), k.s((16, 8), "a", "b")
    def f(key, x):
        a, b, c = jax.random.split(key, 3)
        return jax.random.permutation(a, x), x[jax.random.choice(b, 16, (8,))], jax.random.truncated_normal(c, -1., 1., (16, 8)) * x
    return f, (key, x)

@case("4 in g", "2x2 in s", "8 in g", "2x2 io g")
def fft_family(k):
    x = k.s((8, 16, 8), "a", "b", "c") if k.i != 2 else k.s((16, 16, 8), None, "a")
    def f(x):
        y = jnp.fft.rfft(x, axis=1)
        return jnp.fft.irfft(y * 2, axis=1), jnp.abs(jnp.fft.fft2(x, axes=(1, 2))), jnp.fft.fft(x, axis=0).real
    return f, (x,)

@case("4 in g", "2x2 in s", "2x3 ann g")
def linalg_batched(k):
    a, b = k.s((12, 6, 6), "a", "b"), k.s((12, 6, 3), "a", None, "b")
    def f(a, b):
        s = a @ a.swapaxes(1, 2) + 6 * jnp.eye(6)
        l = jnp.linalg.cholesky(s)
        y = lax.linalg.triangular_solve(l, b, left_side=True, lower=True)
        return l, y, jnp.log(jnp.diagonal(l, axis1=1, axis2=2)).sum(-1)
    return f, (a, b)

@case("4 in g", "2x2 in s")
def linalg_single(k):
    a, b = k.s((8, 8), "a", "b"), k.s((8, 16), None, "a")
    def f(a, b):
        s = a @ a.T + 8 * jnp.eye(8)
        l = jnp.linalg.cholesky(s)
        return lax.linalg.triangular_solve(l, b, left_side=True, lower=True), jnp.linalg.inv(l) if False else l, jnp.trace(s)
    return f, (a, b)

@case("4 in g", "2x2 in s", "8 io g")
def normalizations_grad(k):
    x, g, b = k.s((8, 6, 16), "a", None, "b"), k.s((16,), "b"), k.s((16,), "b")
    def f(x, g, b):
        return jax.grad(lambda x, g, b: (nn.softmax(ln(x, g, b), -1) * rms(x, g)).sum(), (0, 1, 2))(x, g, b)
    return f, (x, g, b)

@case("4 in g", "2x2 in s", "2x3 uneven g")
def integer_bits(k):
    x, y = k.s((12, 18), "a", "b", dtype=I32), k.s((18,), "b", dtype=U32)
    def f(x, y):
        z = (x ^ (x << 3)) & 0xff | lax.population_count(y).astype(I32)
        return z, lax.clz(x), jnp.bitwise_xor.reduce(x, 1) if hasattr(jnp.bitwise_xor, "reduce") else z.sum(1), lax.reduce_and(x > 3, (0,)), lax.shift_right_logical(y, jnp.uint32(2)), x // 3 + x % 5
    return f, (x, y)

@case("4 in g", "2x2 in s")
def complex_and_kron(k):
    a, b, c = k.s((8, 8), "a", "b", dtype=C64), k.s((8, 8), None, "b", dtype=C64), k.s((4, 2))
    def f(a, b, c):
        return (a @ b.conj()).real, jnp.kron(c, jnp.ones((2, 3))), jnp.abs(a).sum(0), jnp.angle(b).T, jnp.outer(a[0].real, c.ravel())
    return f, (a, b, c)

@case("4 in g", "2x2 in s", "8 in g")
def convolve_toeplitz(k):
    x, h = k.s((48,), "a"), k.s((5,))
    def f(x, h): return jnp.convolve(x, h, mode="same"), jnp.convolve(x, h), jnp.correlate(x, h, mode="valid"), jnp.diff(x), jnp.interp(x, jnp.arange(5.), h)
    return f, (x, h)

@case("2x2 in g", "4 in s", "2x2x2 io g", "4x2 open s")
def tile_repeat_stack(k):
    x, y = k.s((8, 6), "a", "b"), k.s((8, 6), "a")
    def f(x, y):
        z = k.c(jnp.stack([x, y], 1), "a")
        return jnp.tile(x, (2, 3)), jnp.repeat(y, 2, 0), z.reshape(16, 6), jnp.split(z, 2, 2)[1], jnp.meshgrid(x[0], y[:, 0])[0]
    return f, (x, y)

@case("2x2 open g", "2x4 open s", "4 open s", "2x2x2 open g")
def unconstrained_chain(k):
    x, w, v = k.s((8, 16), "a"), k.s((16, 24), None, "b"), k.s((24, 16))
    def f(x, w, v):
        h = k.c(x @ w, "a")
        h = k.c(jnp.sin(h), None, "b")
        return k.c(h @ v, "a").sum(0)
    return f, (x, w, v)

# ------------------------------------------------------------------ F. science
@case("4 in g", "2x2 in s", "8 in g j")
def game_of_life(k):
    x = k.s((16, 16), "a", "b", dtype=I32)
    def f(x):
        n = sum(jnp.roll(x, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)) - x
        return ((n == 3) | ((n == 2) & (x == 1))).astype(I32)
    return f, (x,)

@case("4 in g", "2x2 in s", "8 in g", "3 uneven g")
def n_body(k):
    N = 24 if k.kind != "uneven" else 13
    x, v, m = k.s((N, 3), "a"), k.s((N, 3), "a"), k.s((N,), "a")
    def f(x, v, m):
        d = x[None] - x[:, None]; r = (d ** 2).sum(-1) + 1e-2
        a = (d * (m / r ** 1.5)[..., None] if False else d * (m[None] * r ** -1.5)[..., None]).sum(1)
        return x + .1 * v, v + .1 * a, .5 * (m * (v ** 2).sum(-1)).sum()
    return f, (x, v, m)

@case("4 in g", "2x2 in s", "8 io g j")
def k_means_step(k):
    N, D, C = 48, 4, 6
    x, c = k.s((N, D), "a"), k.s((C, D))
    def f(x, c):
        d = ((x[:, None] - c) ** 2).sum(-1); i = d.argmin(1); oh = nn.one_hot(i, C)
        return oh.T @ x / jnp.maximum(1, oh.sum(0))[:, None], d.min(1).sum()
    return f, (x, c)

@case("4 in g", "2x2 in s", "8 in g")
def cg_solve(k):
    N = 16
    a, b = k.s((N, N), "a", "b"), k.s((N,), "a")
    def f(a, b):
        A = lambda v: a @ v
        def body(_, c):
            x, r, p, s = c; q = A(p); al = s / (p @ q); x = x + al * p; r = r - al * q; t = r @ r
            return x, r, r + t / s * p, t
        return lax.fori_loop(0, 4, body, (jnp.zeros(N), b, b, b @ b))[0]
    return f, (a, b)

@case("4 in g", "2x2 in s", "3x2 uneven g")
def sinkhorn(k):
    N, M = (16, 24) if k.kind != "uneven" else (11, 13)
    c = k.s((N, M), "a", "b")
    def f(c):
        def body(_, fg):
            a, b = fg
            a = -nn.logsumexp(b[None] - c, 1); b = -nn.logsumexp(a[:, None] - c, 0)
            return a, b
        a, b = lax.fori_loop(0, 3, body, (jnp.zeros(N), jnp.zeros(M)))
        return jnp.exp(a[:, None] + b - c)
    return f, (c,)

@case("4 in g", "2x2 in s", "8 in g")
def knn_topk(k):
    q, x = k.s((8, 6), "b"), k.s((48, 6), "a")
    def f(q, x):
        d = (q * q).sum(1)[:, None] - 2 * q @ x.T + (x * x).sum(1)
        s, i = lax.top_k(-d, 3)
        return -s, x[i].mean(1)
    return f, (q, x)

@case("4 in g", "2x2 in s")
def kalman_scan(k):
    T, B, D = 4, 8, 4
    z, a = k.s((T, B, D), None, "a"), k.s((D, D))
    def f(z, a):
        def step(c, z):
            m, p = c
            m, p = m @ a.T, jnp.einsum("ij,bjk,lk->bil", a, p, a) + .1 * jnp.eye(D)
            s = p + jnp.eye(D); g = p / jnp.trace(s, axis1=1, axis2=2)[:, None, None]
            m = m + jnp.einsum("bij,bj->bi", g, z - m); p = p - g @ p
            return (m, p), m
        return lax.scan(step, (jnp.zeros((B, D)), jnp.broadcast_to(jnp.eye(D), (B, D, D))), z)[1]
    return f, (z, a)

@case("4 in g", "2x2 in s", "2x4 ann g")
def matrix_factorization(k):
    U, V, D, N = 16, 24, 4, 32
    p, q, u, v, r = k.s((U, D), "a"), k.s((V, D), "b"), k.s((N,), "a", dtype=I32), k.s((N,), "a", dtype=I32), k.s((N,), "a")
    def f(p, q, u, v, r):
        g = jax.grad(lambda p, q: (((p[u] * q[v]).sum(-1) - r) ** 2).mean() + .1 * ((p ** 2).sum() + (q ** 2).sum()), (0, 1))(p, q)
        return p - .1 * g[0], q - .1 * g[1]
    return f, (p, q, u, v, r)

@case("4 in g", "2x2 in s", "8 in g j")
def monte_carlo_option(k):
    key, s0 = k.s((2,), dtype=U32), k.s((16,), "a")
    def f(key, s0):
        z = jax.random.normal(key, (4, 16))
        return jnp.maximum(s0 * jnp.exp(jnp.cumsum(.01 * z - .5e-4, 0))[-1] - 1, 0).mean()
    return f, (key, s0)

@case("4 in g", "2x2 in s", "2x3 uneven g")
def gram_schmidt(k):
    a = k.s((18, 6), "a")
    def f(a):
        def body(i, q):
            v = lax.dynamic_index_in_dim(q, i, 1)
            v = v - q @ (q.T @ v * (jnp.arange(6) < i)[:, None])
            return lax.dynamic_update_slice(q, v / jnp.sqrt((v ** 2).sum()), (0, i))
        return lax.fori_loop(0, 6, body, a)
    return f, (a,)

@case("4 in g", "2x2 in s", "8 in g")
def recommender_dlrm(k):
    B, F, V, D = 16, 4, 32, 8
    e, i, x, w, u = k.s((F, V, D), "a" if k.i == 0 else None, "b" if len(k.sizes) > 1 else None), k.s((B, F), "a" if k.i else None, dtype=I32), k.s((B, 6), "a" if k.i else None), k.s((6, D)), k.s((15 - 5, 1))
    def f(e, i, x, w, u):
        z = jax.vmap(lambda e, i: e[i], (0, 1), 1)(e, i)
        z = jnp.concatenate([(x @ w)[:, None], z], 1)
        g = jnp.einsum("bfd,bgd->bfg", z, z)
        r, c = np.triu_indices(F + 1, 1)
        return nn.sigmoid(g[:, r, c] @ u)[:, 0]
    return f, (e, i, x, w, u)

@case("2x2 in g", "8 in s", "4x2 in g j", "16x4 in s", "64 in g", "8x8 io g", "4x4x4 in s", "32 io s", "2x4x8 in g")
def wide_mlp_step(k):
    B, D, F = 64, 64, 128
    x, y, w, v, b = k.s((B, D), "a"), k.s((B, D), "a"), k.s((D, F), "c", "b"), k.s((F, D), "b", "c"), k.s((F,), "b")
    def f(x, y, w, v, b):
        def loss(w, v, b): return ((nn.gelu(x @ w + b) @ v - y) ** 2).mean()
        l, g = jax.value_and_grad(loss, (0, 1, 2))(w, v, b)
        return (l,) + tuple(a - .1 * d for a, d in zip((w, v, b), g))
    return f, (x, y, w, v, b)

@case("16 in g", "32 in s", "8x8 in g", "4x4x4 in s j", "2x32 ann g")
def wide_attention(k):
    B, T, H, d, D = 16, 8, 16, 4, 64
    p = dict(q=k.s((D, H, d), None, "b"), k=k.s((D, H, d), None, "b"), v=k.s((D, H, d), None, "b"), o=k.s((H, d, D), "b")); x = k.s((B, T, D), "a", "c")
    return (lambda p, x: attn(k, p, x)), (p, x)

@case("4 in1 g", "2x2 in1 s", "8 in1 g", "2x4 in1 s", "4x2 in1 g")
def partly_annotated_block(k):
    B, T, D, H = 8, 8, 16, 4
    p = block_params(k, D, H, 32, fs="ab"); x = k.s((B, T, D), "a")
    return (lambda p, x: jax.value_and_grad(lambda p: (block(k, p, x) ** 2).mean())(p)), (p, x)

@case("4 out g", "2x2 out s", "8 out g", "2x4 out g j", "2x2x2 out s")
def results_only_mlp(k):
    x, w, v = k.s((16, 24)), k.s((24, 32)), k.s((32, 16))
    return (lambda x, w, v: (jnp.tanh(x @ w) @ v, x @ w, jnp.sum(w, 0))), (x, w, v)

@case("4 text g", "2x2 text g", "8 text g", "2x2x2 text g", "2x3 text g j", "3x2 text g")
def text_annotated_mlp(k):
    x, w, v = k.s((16, 12), "a"), k.s((12, 30), None, "b"), k.s((30, 18), "b")
    def f(x, w, v):
        l, g = jax.value_and_grad(lambda w, v: ((nn.relu(x @ w) @ v) ** 2).mean(), (0, 1))(w, v)
        return l, g[0].T, g[1]
    return f, (x, w, v)

@case("4 text g", "2x2 text g", "6 text g", "2x4 text g")
def text_annotated_attention(k):
    B, T, D, H = 8, 6, 24, 6
    p = block_params(k, D, H, 36, fs="ab"); x = k.s((B, T, D), "a")
    return (lambda p, x: block(k, p, x)), (p, x)
