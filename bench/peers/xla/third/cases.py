# SPDX-License-Identifier: Apache-2.0
"""The modules of corpus.py: one function each, with its variants above it (mesh, position of shardings, form). Here:
transformers, and common code.
"""
from corpus import case, jax, jnp, lax, np
I32, BF, U32 = jnp.int32, jnp.bfloat16, jnp.uint32
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
    """Megatron: heads and hidden units over b, and FSDP over a if fs has it."""
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
        threshold = jnp.take_along_axis(s, (c < .9).sum(-1, keepdims=True).clip(0, V - 1), -1)
        z = jnp.where(z < threshold, -1e30, z)
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
