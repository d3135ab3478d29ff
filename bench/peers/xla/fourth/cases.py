# SPDX-License-Identifier: Apache-2.0
"""Modules of corpus.py, one function each with its variants above it: attention, experts, embeddings, losses,
optimizers; and common code.
"""
from functools import partial
from corpus import case, jax, jnp, lax, np, P
I32, BF, F16, I8, U32, C64 = jnp.int32, jnp.bfloat16, jnp.float16, jnp.int8, jnp.uint32, jnp.complex64
nn = jax.nn

def rms(x): return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)
def norm(x, axes): m = x.mean(axes, keepdims=True); return (x - m) * lax.rsqrt(((x - m) ** 2).mean(axes, keepdims=True) + 1e-5)
def conv(x, w, s=1, pad="SAME", g=1, d=1, ld=1, bg=1):
    return lax.conv_general_dilated(x, w, (s, s), pad, (ld, ld), (d, d), ("NHWC", "HWIO", "NHWC"), feature_group_count=g, batch_group_count=bg)
def sgd(p, g): return jax.tree.map(lambda p, g: p - .1 * g, p, g)

# ---------------------------------------------------------------- attention
@case("2x4", "2x2x2 s", "3x2 raw", "4x4 s perm")
def gqa_grad(k):
    B, T, D, G, R, h = (4, 8, 16, 2, 4, 4) if not k.raw else (5, 7, 18, 3, 2, 3)
    p = dict(q=k.s((D, G, R, h), "c", "b" if k.i else None, None if k.i else "b"), kv=k.s((2, D, G, h), None, "c", "b"), o=k.s((G, R, h, D), "b", None, None, "c"))
    x = k.s((B, T, D), "ac")
    def loss(p, x):
        h_ = rms(x)
        q, (kk, v) = jnp.einsum("btd,dgrh->btgrh", h_, p["q"]), jnp.einsum("btd,cdgh->cbtgh", h_, p["kv"])
        s = jnp.einsum("btgrh,bsgh->bgrts", q, kk) / 2 + jnp.where(jnp.arange(T)[:, None] < jnp.arange(T), -1e9, 0)
        return jnp.mean((x + jnp.einsum("bgrts,bsgh,grhd->btd", nn.softmax(s), v, p["o"])) ** 2)
    return jax.value_and_grad(loss), (p, x)

@case("4", "2x3 s", "8 perm j")
def alibi_softcap_grad(k):
    H, T, h = 12 if k.i == 1 else 8, 12, 4
    q, kk, v = (k.s((2, H, T, h), None, "a", "b") for _ in range(3))
    def f(q, kk, v):
        m = 2. ** (-8 * (1 + jnp.arange(H)) / H)
        s = 5 * jnp.tanh(jnp.einsum("bhtk,bhsk->bhts", q, kk) / 10) - m[:, None, None] * jnp.abs(jnp.arange(T)[:, None] - jnp.arange(T))
        return (jnp.einsum("bhts,bhsk->bhtk", nn.softmax(s), v) ** 2).sum()
    return jax.grad(f, (0, 1, 2)), (q, kk, v)

@case("2x4", "4 s", "2x2 out s")
def window_two_chunks_grad(k):
    B, T, H, h, W = 4, 32, 2, 4, 4
    q, kk, v = (k.s((B, T, H, h), "a" if k.n("b") > 1 else None, "b" if k.n("b") > 1 else "a") for _ in range(3))
    def f(q, kk, v):
        ch = lambda x: x.reshape(B, T // W, W, H, h)
        prev = lambda x: jnp.concatenate([jnp.pad(x, ((0, 0), (1, 0), (0, 0), (0, 0), (0, 0)))[:, :-1], x], 2)
        s = jnp.einsum("bnqhk,bnshk->bnhqs", ch(q), prev(ch(kk)))
        d = jnp.arange(W)[:, None] + W - jnp.arange(2 * W)
        o = jnp.einsum("bnhqs,bnshk->bnqhk", nn.softmax(jnp.where((d >= 0) & (d < W), s, -1e9)), prev(ch(v)))
        return jnp.sum(o.reshape(B, T, H, h) ** 2)
    return jax.grad(f, (0, 1, 2)), (q, kk, v)

@case("4", "2x2 s perm", "5 raw")
def rope_complex(k):
    B, T, H, h = 2, 20 if k.raw else 16, 4, 8
    x = k.s((B, T, H, h), "b", "a")
    def f(x):
        z = lax.complex(x[..., ::2], x[..., 1::2])
        ang = jnp.arange(T)[:, None] * 10000. ** (-jnp.arange(h // 2) / 4)
        r = z * jnp.exp(1j * ang.astype(C64))[:, None]
        return jnp.stack([r.real, r.imag], -1).reshape(x.shape)
    return lambda x: (f(x), jax.grad(lambda x: (f(x) ** 3).sum())(x)), (x,)

@case("2x2", "4 s", "8 perm")
def flash_scan_checkpoint_grad(k):
    B, H, T, h, C = 2, 4, 32, 4, 8
    q, kk, v = (k.s((B, H, T, h), None, "b", "a") for _ in range(3))
    def f(q, kk, v):
        kb, vb = (x.reshape(B, H, T // C, C, h).transpose(2, 0, 1, 3, 4) for x in (kk, v))
        @jax.checkpoint
        def body(c, b):
            o, m, l = c
            s = jnp.einsum("bhqk,bhsk->bhqs", q, b[0]); n = jnp.maximum(m, s.max(-1)); e = jnp.exp(s - n[..., None]); r = jnp.exp(m - n)
            return (o * r[..., None] + jnp.einsum("bhqs,bhsk->bhqk", e, b[1]), n, l * r + e.sum(-1)), None
        (o, _, l), _ = lax.scan(body, (jnp.zeros_like(q), jnp.full(q.shape[:3], -1e30), jnp.zeros(q.shape[:3])), (kb, vb))
        return jnp.sum((o / l[..., None]) ** 2)
    return jax.value_and_grad(f, (0, 1, 2)), (q, kk, v)

@case("2x2", "4x2 s")
def latent_attention_decode(k):
    B, S, D, H, R, h = 8, 16, 16, 4, 8, 4
    p = dict(dq=k.s((D, R), None, "b"), uq=k.s((R, H, h), None, "b"), dkv=k.s((D, R)), uk=k.s((R, H, h), None, "b"), uv=k.s((R, H, h), None, "b"), o=k.s((H, h, D), "b"))
    cache, pos, x = k.s((B, S, R), "a"), k.s((B,), "a", dtype=I32), k.s((B, D), "a")
    def f(p, cache, pos, x):
        cache = jax.vmap(lambda c, n, t: lax.dynamic_update_slice(c, n[None], (t, 0)))(cache, x @ p["dkv"], pos)
        q = jnp.einsum("bd,dr,rhk,lhk->bhl", x, p["dq"], p["uq"], p["uk"])
        s = jnp.where(jnp.arange(S) <= pos[:, None, None], jnp.einsum("bhl,bsl->bhs", q, cache), -1e9)
        return cache, x + jnp.einsum("bhs,bsl,lhk,hkd->bd", nn.softmax(s), cache, p["uv"], p["o"])
    return f, (p, cache, pos, x)

@case("4", "2x4 s", "2x3 raw")
def decode_cache_seq_sharded(k):
    B, S, H, h = (4, 16, 4, 4) if not k.raw else (5, 13, 3, 4)
    kc, vc = (k.s((B, S, H, h), "b", "a") for _ in range(2))
    new, q, pos = k.s((2, B, 1, H, h), None, "b"), k.s((B, H, h), "b"), k.s((), dtype=I32)
    def f(kc, vc, new, q, pos):
        kc, vc = (lax.dynamic_update_slice(c, n, (0, pos % S, 0, 0)) for c, n in zip((kc, vc), new))
        s = jnp.einsum("bhk,bshk->bhs", q, kc)
        return kc, vc, jnp.einsum("bhs,bshk->bhk", nn.softmax(jnp.where(jnp.arange(S) <= pos, s, -1e9)), vc)
    return f, (kc, vc, new, q, pos)

@case("2x2x2", "4x2 s", "2x8 perm s")
def ulysses_by_constraints_grad(k):
    B, T, D, H = 4, 16, 32, 8
    x, w, o = k.s((B, T, D), "a", "b"), k.s((D, 3, H, D // H)), k.s((H, D // H, D))
    def f(w, o, x):
        q, kk, v = (k.c(jnp.einsum("btd,dhk->bthk", x, w[:, i]), "a", None, "b") for i in range(3))
        y = k.c(jnp.einsum("bhts,bshk->bthk", nn.softmax(jnp.einsum("bthk,bshk->bhts", q, kk)), v), "a", "b")
        return jnp.mean(k.c(jnp.einsum("bthk,hkd->btd", y, o) + x, "a", "b") ** 2)
    return jax.grad(f, (0, 1, 2)), (w, o, x)

@case("4", "8 s", "2x2 perm")
def ring_attention_grad(k):
    B, T, h = 4, 16, 4
    q, kk, v = (k.s((B, T, h), "b", "a") for _ in range(3))
    spec, n = P("b" if k.n("b") > 1 else None, "a"), k.n("a")
    def local(q, kk, v):
        def body(c, _):
            o, m, l, kk, v = c
            s = q @ kk.swapaxes(1, 2); nm = jnp.maximum(m, s.max(-1)); e = jnp.exp(s - nm[..., None]); r = jnp.exp(m - nm)
            nxt = [(i, (i + 1) % n) for i in range(n)]
            return (o * r[..., None] + e @ v, nm, l * r + e.sum(-1), lax.ppermute(kk, "a", nxt), lax.ppermute(v, "a", nxt)), None
        (o, _, l, *_), _ = lax.scan(body, (q * 0, q[..., 0] * 0 - 1e30, q[..., 0] * 0, kk, v), None, length=n)
        return o / l[..., None]
    f = lambda *a: (k.map(local, (spec,) * 3, spec)(*a) ** 2).sum()
    return jax.value_and_grad(f, (0, 1, 2)), (q, kk, v)

@case("7 raw", "3x4 raw", "2x4 raw perm")
def packed_segments_attention(k):
    B, T, H, h = 5, 13, 7, 3
    q, kk, v, seg = k.s((B, T, H, h), "a", None, "b"), k.s((B, T, H, h), "a"), k.s((B, T, H, h), "b", "a"), k.s((B, T), "a", dtype=I32)
    def f(q, kk, v, seg):
        ok = (seg[:, :, None] == seg[:, None]) & (jnp.arange(T)[:, None] >= jnp.arange(T))
        s = jnp.where(ok[:, None], jnp.einsum("bthk,bshk->bhts", q, kk), -1e9)
        return jnp.einsum("bhts,bshk->bthk", nn.softmax(s), v)
    return f, (q, kk, v, seg)

@case("2x2", "8 s")
def performer_causal_grad(k):
    B, H, T, h, M = 2, 4, 16, 4, 8
    q, kk, v, w = *(k.s((B, H, T, h), "b", "a") for _ in range(3)), k.s((h, M))
    def f(q, kk, v, w):
        q, kk = jnp.exp(q @ w), jnp.exp(kk @ w)
        z = jnp.cumsum(jnp.einsum("bhtm,bhtk->bhtmk", kk, v), 2); d = jnp.cumsum(kk, 2)
        return jnp.mean(jnp.einsum("bhtm,bhtmk->bhtk", q, z) / (1 + jnp.einsum("bhtm,bhtm->bht", q, d))[..., None])
    return jax.grad(f, (0, 1, 2, 3)), (q, kk, v, w)

# ---------------------------------------------------------------- mixtures of experts
@case("4", "2x4 s", "2x2x2 perm")
def moe_group_limited_grad(k):
    N, D, E, F, C = 32, 8, 8, 16, 8
    p = dict(r=k.s((D, E)), b=k.s((E,)), w1=k.s((E, D, F), "a", None, "b"), w2=k.s((E, F, D), "a", "b"))
    x = k.s((N, D), "ab" if k.i else "a")
    def loss(p, x):
        sc = nn.sigmoid(x @ p["r"]); grp = (sc + p["b"]).reshape(N, 2, 4).max(-1)
        keep = jnp.repeat(nn.one_hot(jnp.argmax(grp, -1), 2), 4, axis=1)
        _, idx = lax.top_k(jnp.where(keep > 0, sc + p["b"], -1e9), 2)
        g = jnp.take_along_axis(sc, idx, 1); g = g / g.sum(-1, keepdims=True)
        oh = nn.one_hot(idx, E); pos = (jnp.cumsum(oh.reshape(2 * N, E), 0) - 1).reshape(N, 2, E)
        disp = (oh * (pos < C))[..., None] * nn.one_hot((pos * oh).astype(I32), C)
        xe = jnp.einsum("nkec,nd->ecd", disp, x)
        ye = jnp.einsum("ecf,efd->ecd", nn.silu(jnp.einsum("ecd,edf->ecf", xe, p["w1"])), p["w2"])
        return jnp.mean((jnp.einsum("nkec,nk,ecd->nd", disp, g, ye) + x) ** 2)
    return jax.value_and_grad(loss), (p, x)

@case("4 s", "2x2", "8 perm j")
def moe_gather_scatter(k):
    N, D, E, C = 16, 8, 8, 4
    x, r, w = k.s((N, D), "b"), k.s((D, E)), k.s((E, D, D), "a")
    def f(x, r, w):
        g = nn.softmax(x @ r); val, tok = lax.top_k(g.T, C)
        y = jnp.einsum("ecd,edf->ecf", x[tok], w) * val[..., None]
        return jnp.zeros_like(x).at[tok.reshape(-1)].add(y.reshape(-1, D))
    return lambda x, r, w: (f(x, r, w), jax.grad(lambda w: (f(x, r, w) ** 2).sum())(w)), (x, r, w)

@case("4", "2x4 s")
def moe_shard_map_all_to_all(k):
    N, D, E, C = 32, 8, 8, 2
    ax = k.names[-1]; x, r, w = k.s((N, D), "ab"), k.s((D, E)), k.s((E, D, D), ax)
    n = k.n(ax); sp = P(tuple(k.names))
    def local(x, r, w):
        oh = nn.one_hot(jnp.argmax(x @ r, -1), E); pos = jnp.cumsum(oh, 0) * oh - 1
        d = nn.one_hot(pos.max(-1).astype(I32), C)[:, None] * oh[..., None]
        xe = lax.all_to_all(jnp.einsum("nec,nd->ecd", d, x), ax, 0, 1, tiled=True)
        ye = lax.all_to_all(jnp.einsum("ecd,edf->ecf", xe, w), ax, 1, 0, tiled=True)
        return jnp.einsum("nec,ecd->nd", d, ye)
    f = k.map(local, (sp, P(), P(ax)), sp, check_vma=False)
    return lambda x, r, w: (f(x, r, w), jax.grad(lambda w: f(x, r, w).sum())(w)), (x, r, w)

@case("2x2", "2x3 raw", "8 s")
def soft_moe(k):
    B, T, D, E, S = 4, 8, 8, 6 if k.raw else 8, 2
    x, phi, w = k.s((B, T, D), "b"), k.s((D, E, S), None, "a"), k.s((E, D, D), "a")
    def f(x, phi, w):
        l = jnp.einsum("btd,des->btes", x, phi); d = nn.softmax(l, 1); c = nn.softmax(l.reshape(B, T, -1)).reshape(l.shape)
        return jnp.einsum("btes,besd->btd", c, nn.gelu(jnp.einsum("btes,btd,edf->besf", d, x, w)))
    return f, (x, phi, w)

# ---------------------------------------------------------------- embeddings, losses
@case("2x2", "4x2 s", "3x2 raw", "2x2x2 perm out")
def embedding_both_dims_grad(k):
    V, D, B, T = (32, 16, 8, 6) if not k.raw else (29, 13, 7, 5)
    e, u, x = k.s((V, D), "b", "c" if k.n("c") > 1 else "a"), k.s((D, V), None, "b"), k.s((B, T), "a", dtype=I32)
    def loss(e, u, x):
        l = e[x[:, :-1]] @ u
        return (nn.logsumexp(l, -1) - jnp.take_along_axis(l, x[:, 1:, None], -1)[..., 0]).mean()
    return jax.value_and_grad(loss, (0, 1)), (e, u, x)

@case("4", "2x4 s")
def factored_hash_embedding_grad(k):
    V, D, B = 16, 8, 16
    t, w, x = k.s((4, V, D), None, "a"), k.s((D, 4 * D), None, "b"), k.s((B, 3), "b" if k.n("b") > 1 else "a", dtype=U32)
    def loss(t, w, x):
        hs = jnp.stack([(x * jnp.uint32(m) >> 7) % V for m in (2654435761, 40503, 97, 31)])
        e = jax.vmap(lambda t, h: t[h])(t, hs).mean(0)
        return ((e @ w) ** 2).mean()
    return jax.grad(loss, (0, 1)), (t, w, x)

@case("4", "2x2 s", "8 perm")
def embedding_bag_segments_grad(k):
    V, D, N, S = 32, 8, 24, 8
    t, ids, seg, wt = k.s((V, D), "a", "b"), k.s((N,), "a", dtype=I32), k.s((N,), "a", dtype=I32), k.s((N,), "a")
    f = lambda t, wt, ids, seg: (jax.ops.segment_sum(t[ids] * wt[:, None], seg, S) ** 2).sum()
    return jax.grad(f, (0, 1)), (t, wt, ids, seg)

@case("2x4", "4 s", "2x3 raw")
def label_smoothing_zloss_grad(k):
    B, D, V = (8, 8, 32) if not k.raw else (9, 7, 35)
    x, w, y = k.s((B, D), "a"), k.s((D, V), None, "ba" if k.n("b") == 1 else "b"), k.s((B,), "a", dtype=I32)
    def loss(x, w, y):
        l = x @ w; z = nn.logsumexp(l, -1); t = nn.one_hot(y, V) * .9 + .1 / V
        return jnp.mean(z - (t * l).sum(-1) + 1e-4 * z * z)
    return jax.value_and_grad(loss, (0, 1)), (x, w, y)

@case("4", "2x2 s")
def chunked_xent_scan_grad(k):
    B, D, V, C = 32, 8, 32, 8
    x, w, y = k.s((B, D), "a"), k.s((D, V), None, "b"), k.s((B,), "a", dtype=I32)
    def loss(x, w, y):
        @jax.checkpoint
        def body(t, c):
            l = c[0] @ w
            return t + (nn.logsumexp(l, -1) - jnp.take_along_axis(l, c[1][:, None], 1)[:, 0]).sum(), None
        return lax.scan(body, 0., (x.reshape(C, B // C, D), y.reshape(C, B // C)))[0] / B
    return jax.value_and_grad(loss, (0, 1)), (x, w, y)

@case("8", "2x2 s")
def siglip_distill_grad(k):
    B, D = 16, 8
    a, b, t, w = k.s((B, D), "ab"), k.s((B, D), "ab"), k.s((B, D), "ab"), k.s((D, D), "b")
    def loss(w, a, b, t):
        u, v = (x / jnp.linalg.norm(x, axis=-1, keepdims=True) for x in (a @ w, b @ w))
        s = u @ v.T; sig = -nn.log_sigmoid((2 * jnp.eye(B) - 1) * (10 * s - 5)).sum() / B
        q, r = nn.log_softmax(u @ t.T), nn.log_softmax(t @ t.T)
        return sig + (jnp.exp(r) * (r - q)).sum(-1).mean()
    return jax.grad(loss), (w, a, b, t)

@case("4", "2x3 s", "6 raw")
def triplet_hard_mining_grad(k):
    B, D = 12 if not k.raw else 13, 6
    x, y, w = k.s((B, D), "a"), k.s((B,), "a", dtype=I32), k.s((D, D), None, "b")
    def loss(w, x, y):
        z = x @ w; d = ((z[:, None] - z) ** 2).sum(-1); same = y[:, None] == y
        return nn.relu(jnp.where(same, d, -1e9).max(1) - jnp.where(same, 1e9, d).min(1) + .2).mean()
    return jax.grad(loss), (w, x, y)

# ---------------------------------------------------------------- optimizers
def opt_params(k): return dict(w=k.s((16, 32), "a", "b"), v=k.s((32, 16), "b", "a"), b=k.s((32,), "b")), k.s((16, 16), "a")
def opt_loss(p, x): return jnp.mean((nn.gelu(x @ p["w"] + p["b"]) @ p["v"] - x) ** 2)
@case("4", "2x2 s", "8 perm")
def zero1_adam(k):
    p = dict(w=k.s((16, 32)), v=k.s((32, 16)), b=k.s((32,)))
    m, v = (dict(w=k.s((16, 32), "ab"), v=k.s((32, 16), "ab"), b=k.s((32,), "ab")) for _ in range(2)); x = k.s((16, 16), "ab")
    def step(p, m, v, x):
        l, g = jax.value_and_grad(opt_loss)(p, x)
        m = jax.tree.map(lambda m, g: .9 * m + .1 * g, m, g); v = jax.tree.map(lambda v, g: .99 * v + .01 * g * g, v, g)
        return l, jax.tree.map(lambda p, m, v: p - m / (jnp.sqrt(v) + 1e-8), p, m, v), m, v
    r, z = {n: P() for n in p}, {n: P(tuple(k.names)) for n in p}
    return step, (p, m, v, x), (P(), r, z, z)

@case("2x2", "4x2 s", "2x4 perm")
def lamb_step(k):
    p, x = opt_params(k); m = dict(w=k.s((16, 32), "a", "b"), v=k.s((32, 16), "b", "a"), b=k.s((32,), "b"))
    def step(p, m, x):
        g = jax.grad(opt_loss)(p, x); m = jax.tree.map(lambda m, g: .9 * m + .1 * g, m, g)
        def one(p, m):
            u = m / (jnp.abs(m).mean() + 1e-6) + .01 * p
            pn, un = jnp.linalg.norm(p), jnp.linalg.norm(u)
            return p - .01 * jnp.where(pn > 0, jnp.where(un > 0, pn / un, 1.), 1.) * u
        return jax.tree.map(one, p, m), m
    return step, (p, m, x)

@case("2x2", "8 s", "2x2x2")
def sam_hutchinson(k):
    p, x = opt_params(k); key = k.s((2,), dtype=U32)
    def step(p, x, key):
        g = jax.grad(opt_loss)(p, x); n = jnp.sqrt(sum((a * a).sum() for a in g.values()))
        g2 = jax.grad(opt_loss)(jax.tree.map(lambda p, g: p + .05 * g / n, p, g), x)
        z = {n: jnp.sign(jax.random.uniform(jax.random.fold_in(key, i), a.shape) - .5) for i, (n, a) in enumerate(p.items())}
        h = jax.jvp(lambda p: jax.grad(opt_loss)(p, x), (p,), (z,))[1]
        return jax.tree.map(lambda p, g, h, z: p - .1 * jnp.clip(g / jnp.maximum(h * z, .01), -1, 1), p, g2, h, z)
    return step, (p, x, key)

@case("2x2", "2x4 s", "4 perm", "3x2 raw")
def muon_stacked(k):
    L, M, N = (4, 16, 8) if not k.raw else (3, 13, 7)
    g = k.s((L, M, N), None if k.i == 1 else "a", "b" if k.i == 1 else None, "a" if k.i == 1 else "b", dtype=BF if k.i == 2 else jnp.float32)
    def f(g):
        x = g / (jnp.sqrt((g * g).sum((1, 2), keepdims=True)) + 1e-7)
        def body(_, x):
            a = jnp.einsum("lmn,lmk->lnk", x, x)
            return 3.4445 * x + x @ (-4.775 * a + 2.0315 * a @ a)
        return lax.fori_loop(0, 5, body, x).astype(g.dtype)
    return f, (g,)

@case("4x2", "2x2 s")
def soap_like_eigh(k):
    g, l = k.s((8, 16), "a", "b"), k.s((8, 8), "a")
    def f(g, l):
        l = .9 * l + .1 * g @ g.T
        q = jnp.linalg.qr(l @ jnp.eye(8))[0]
        w, u = jnp.linalg.eigh(l)
        return l, q @ (q.T @ g) + (u / jnp.sqrt(jnp.abs(w) + 1e-4)) @ u.T @ g
    return f, (g, l)

@case("2x2", "4 s")
def int8_state_optimizer(k):
    p, q, sc, g = k.s((16, 64), "a", "b"), k.s((16, 64), "a", "b", dtype=I8), k.s((16, 4), "a", "b"), k.s((16, 64), "a")
    def f(p, q, sc, g):
        m = (q.reshape(16, 4, 16).astype(jnp.float32) * sc[..., None]).reshape(16, 64) * .9 + .1 * g
        b = m.reshape(16, 4, 16); s = jnp.abs(b).max(-1) / 127
        return p - .1 * jnp.sign(m), jnp.clip(jnp.round(b / s[..., None]), -127, 127).astype(I8).reshape(16, 64), s
    return f, (p, q, sc, g)
