# SPDX-License-Identifier: Apache-2.0
"""Modules of corpus.py along space and time: images, recurrences, spectra, sorts, segments, cumulative sums."""
from cases import I32, U32, case, conv, jax, jnp, lax, nn, norm

# ---------------------------------------------------------------- vision
@case("4", "2x2 s", "2x2x2", "3 raw")
def convnext_spatial_grad(k):
    B, H, C = 4, 16 if not k.raw else 13, 8
    p = dict(d=k.s((7, 7, 1, C)), w=k.s((C, 4 * C), None, "c"), v=k.s((4 * C, C), "c"), g=k.s((C,))); x = k.s((B, H, H, C), "b", "a")
    def loss(p, x): return jnp.mean((x + nn.gelu(norm(conv(x, p["d"], g=C), (-1,)) @ p["w"]) @ p["v"] * p["g"]) ** 2)
    return jax.grad(loss), (p, x)

@case("4", "2x2 s perm", "2x4")
def unet_transposed_grad(k):
    B, H, C = 2, 16, 4
    p = dict(a=k.s((3, 3, C, C)), d=k.s((3, 3, C, 2 * C), None, None, None, "c"), u=k.s((4, 4, 2 * C, C)), o=k.s((3, 3, 2 * C, C))); x = k.s((B, H, H, C), None, "a", "b")
    def loss(p, x):
        e = nn.relu(conv(x, p["a"])); m = nn.relu(conv(e, p["d"], 2))
        u = lax.conv_transpose(m, p["u"], (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return jnp.mean((conv(jnp.concatenate([u, e], -1), p["o"]) - x) ** 2)
    return jax.value_and_grad(loss), (p, x)

@case("2x4", "4 s", "8 raw")
def vit_cls_token_grad(k):
    B, H, C, D = 4, 16, 3, 16
    p = dict(e=k.s((4, 4, C, D), None, None, None, "b"), c=k.s((D,)), pos=k.s((17, D), None, "b"), qkv=k.s((D, 3, 4, 4), None, None, "b"), o=k.s((4, 4, D), "b"), h=k.s((D, 10)))
    x, y = k.s((B, H, H, C), "a"), k.s((B,), "a", dtype=I32)
    def loss(p, x, y):
        t = lax.conv_general_dilated(x, p["e"], (4, 4), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")).reshape(B, 16, D)
        t = k.c(jnp.concatenate([jnp.broadcast_to(p["c"], (B, 1, D)), t], 1) + p["pos"], "a", "b" if k.i else None)
        q, kk, v = jnp.einsum("btd,dchk->cbhtk", norm(t, (-1,)), p["qkv"])
        t = t + jnp.einsum("bhts,bhsk,hkd->btd", nn.softmax(q @ kk.swapaxes(2, 3)), v, p["o"])
        return -jnp.take_along_axis(nn.log_softmax(t[:, 0] @ p["h"]), y[:, None], 1).mean()
    return jax.grad(loss), (p, x, y)

@case("2x2", "4 s", "8 perm", "2x3 raw")
def dilated_grouped_conv(k):
    C = 8 if not k.raw else 6
    x, w = k.s((2, 12 if k.i != 3 else 11, 12, C), None, "a", None, "b"), k.s((3, 3, C // 2, 2 * C), None, None, None, "b")
    return lambda x, w: (conv(x, w, g=2, d=2), conv(x, w, 2, g=2)), (x, w)

@case("4", "2x2 s", "5 raw")
def conv_weight_grad_uneven(k):
    H = 16 if not k.raw else 13
    x, w = k.s((3, H, 9, 4), None, "a", None, "b"), k.s((4, 3, 4, 6))
    return jax.grad(lambda w, x: (conv(x, w, 2, "VALID") ** 2).sum(), (0, 1)), (w, x)

@case("2x2", "4 s")
def batch_group_conv(k):
    x, w = k.s((8, 10, 10, 4), "a"), k.s((3, 3, 4, 16), None, None, None, "b")
    return lambda x, w: conv(x, w, bg=4), (x, w)

@case("2x2x2", "4 s", "2x3")
def conv3d_causal_grad(k):
    x, w = k.s((2, 12, 12, 6, 4), "c", "a", "b"), k.s((3, 3, 3, 4, 4))
    f = lambda w, x: (lax.conv_general_dilated(x, w, (1, 2, 1), ((2, 0), (1, 1), (1, 1)), dimension_numbers=("NDHWC", "DHWIO", "NDHWC")) ** 2).mean()
    return jax.grad(f, (0, 1)), (w, x)

@case("2x2", "8 s", "3 raw")
def fpn_squeeze_excite_grad(k):
    x, y, w1, w2 = k.s((2, 16, 16, 8), "b", "a"), k.s((2, 8, 8, 8), "b", "a"), k.s((8, 4)), k.s((4, 8))
    def f(w1, w2, x, y):
        u = jax.image.resize(y, x.shape, "nearest") + x; z = nn.sigmoid(nn.relu(u.mean((1, 2)) @ w1) @ w2)
        return lax.reduce_window(norm(u * z[:, None, None], (0, 1, 2)), 0., lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME").std()
    return jax.grad(f, (0, 1, 2, 3)), (w1, w2, x, y)

@case("4", "2x2 s", "6 raw")
def patches_unfold(k):
    x, w = k.s((2, 3, 18, 12), None, None, "a", "b"), k.s((27, 8), None, "b")
    return lambda x, w: jnp.einsum("bchw,co->bhwo", lax.conv_general_dilated_patches(x, (3, 3), (1, 1), "SAME"), w), (x, w)

@case("4", "2x2 s")
def bilinear_resize_grad(k):
    x = k.s((2, 16, 12, 4), None, "a", "b")
    return jax.grad(lambda x: (jax.image.resize(x, (2, 24, 20, 4), "bilinear") ** 2).sum()), (x,)

# ---------------------------------------------------------------- recurrences
@case("4", "2x2 s", "2x4 perm")
def lstm_projected_grad(k):
    B, T, D, H = 8, 5, 8, 16
    p = dict(w=k.s((D, 4, H), None, None, "b"), u=k.s((D, 4, H), None, None, "b"), r=k.s((H, D), "b"), q=k.s((3, H), None, "b")); x = k.s((T, B, D), None, "a")
    def loss(p, x):
        def cell(c, x):
            h, s = c; z = jnp.einsum("bd,dgh->gbh", x, p["w"]) + jnp.einsum("bd,dgh->gbh", h, p["u"])
            i, f = nn.sigmoid(z[0] + p["q"][0] * s), nn.sigmoid(z[1] + p["q"][1] * s); s = f * s + i * jnp.tanh(z[2])
            h = (nn.sigmoid(z[3] + p["q"][2] * s) * jnp.tanh(s)) @ p["r"]; return (h, s), h
        return jnp.mean(lax.scan(cell, (jnp.zeros((B, D)), jnp.zeros((B, H))), x)[1] ** 2)
    return jax.value_and_grad(loss), (p, x)

@case("4", "2x2 s", "2x4")
def mamba_associative_grad(k):
    B, T, D, N = 2, 16, 8, 4
    x, a, w, o = k.s((B, T, D), None, "a", "b"), k.s((D, N), "b"), k.s((D, 2 * N + 1), "b"), k.s((D, D), "b")
    def loss(a, w, o, x):
        z = x @ w; dt = nn.softplus(z[..., :1]); b, c = z[..., 1:N + 1], z[..., N + 1:]
        A, Bx = jnp.exp(-dt[..., None] * jnp.exp(a)), (dt * x)[..., None] * b[:, :, None]
        h = lax.associative_scan(lambda l, r: (l[0] * r[0], r[0] * l[1] + r[1]), (A, Bx), axis=1)[1]
        return jnp.mean((jnp.einsum("btdn,btn->btd", h, c) * nn.silu(x) @ o) ** 2)
    return jax.grad(loss, (0, 1, 2)), (a, w, o, x)

@case("2x2", "8 s")
def rwkv_scan_grad(k):
    B, T, H, h = 4, 6, 4, 4
    r, kk, v, w = *(k.s((T, B, H, h), None, "a", "b") for _ in range(3)), k.s((H, h), "b")
    def loss(w, r, kk, v):
        def cell(s, z):
            r, kk, v = z; kv = kk[..., None] * v[..., None, :]
            return s * jnp.exp(-jnp.exp(w))[..., None] + kv, jnp.einsum("bhk,bhkv->bhv", r, s + .5 * kv)
        return (lax.scan(cell, jnp.zeros((B, H, h, h)), (r, kk, v))[1] ** 2).mean()
    return jax.grad(loss, (0, 1, 2, 3)), (w, r, kk, v)

@case("4", "2x2 s", "2x3")
def retention_chunked(k):
    B, T, H, h, C = 2, 24, 6, 4, 4
    q, kk, v = (k.s((B, T, H, h), None, "a", "b") for _ in range(3))
    def f(q, kk, v):
        q, kk, v = (x.reshape(B, T // C, C, H, h).transpose(1, 0, 3, 2, 4) for x in (q, kk, v)); g = .9
        i = jnp.arange(C); d = jnp.where(i[:, None] >= i, g ** (i[:, None] - i), 0)
        def cell(s, z):
            q, kk, v = z; inner = jnp.einsum("bhqk,bhsk->bhqs", q, kk) * d @ v
            return s * g ** C + jnp.einsum("bhsk,bhsv,s->bhkv", kk, v, g ** (C - 1 - i)), inner + jnp.einsum("bhqk,bhkv,q->bhqv", q, s, g ** (i + 1))
        return lax.scan(cell, jnp.zeros((B, H, h, h)), (q, kk, v))[1].transpose(1, 0, 3, 2, 4).reshape(B, T, H, h)
    return f, (q, kk, v)

@case("4", "2x2 s", "8 perm")
def s4_fft_conv_grad(k):
    x, h = k.s((4, 16, 8), "b", None if k.i else "a", "a"), k.s((16, 8), None, "a")
    f = lambda h, x: (jnp.fft.irfft(jnp.fft.rfft(x, 32, 1) * jnp.fft.rfft(h, 32, 0), 32, 1)[:, :16] ** 2).mean()
    return jax.grad(f, (0, 1)), (h, x)

@case("4", "2x2 s", "7 raw")
def mingru_log_space(k):
    x = k.s((3, 16 if not k.raw else 19, 8), None, "a", "b")
    def f(x):
        a = jnp.cumsum(-nn.softplus(x), 1)
        return jnp.exp(a + lax.cumlogsumexp(nn.log_sigmoid(x) - a, 1)), lax.cummax(x, 1), lax.cumprod(x, 1, reverse=True)
    return f, (x,)

@case("2x2", "4 s")
def kalman_scan(k):
    B, T, D = 8, 4, 3
    z, F, Q = k.s((T, B, D), None, "a"), k.s((D, D)), k.s((D, D))
    def f(z, F, Q):
        def step(c, z):
            m, S = c; m, S = m @ F.T, F @ S @ F.T + Q
            L = jnp.linalg.cholesky(S + jnp.eye(D)); G = jax.vmap(lambda L, S: jax.scipy.linalg.cho_solve((L, True), S))(L, S)
            m = m + jnp.einsum("bji,bj->bi", G, z - m); return (m, S - S @ G), m
        return lax.scan(step, (jnp.zeros((B, D)), jnp.broadcast_to(jnp.eye(D), (B, D, D))), z)[1]
    return f, (z, F, Q)

@case("4", "2x2 s")
def particle_filter(k):
    N, D, T = 32, 4, 3
    x, key, z = k.s((N, D), "a", "b"), k.s((2,), dtype=U32), k.s((T, D))
    def f(x, key, z):
        def step(x, t):
            z, i = t; kk = jax.random.fold_in(key, i)
            x = x + jax.random.normal(kk, x.shape); w = nn.softmax(-((x - z) ** 2).sum(-1))
            return x[jnp.searchsorted(jnp.cumsum(w), (jnp.arange(N) + .5) / N)], (w[:, None] * x).sum(0)
        return lax.scan(step, x, (z, jnp.arange(T)))
    return f, (x, key, z)

# ---------------------------------------------------------------- fft, sorts, segments, cumulative
@case("4", "2x2 s", "2x3 raw")
def fft2_poisson(k):
    x = k.s((4, 12, 10), None, "a", "b")
    def f(x):
        kx, ky = jnp.fft.fftfreq(12)[:, None], jnp.fft.rfftfreq(10)
        return jnp.fft.irfft2(jnp.fft.rfft2(x) / (1 + kx ** 2 + ky ** 2), (12, 10))
    return f, (x,)

@case("4", "2x2 s")
def stft_mel(k):
    x, m = k.s((4, 64), "b", "a"), k.s((9, 6), None, "a")
    def f(x, m):
        fr = x[:, jnp.arange(13)[:, None] * 4 + jnp.arange(16)] * jnp.hanning(16)
        return jnp.log(jnp.abs(jnp.fft.rfft(fr)) ** 2 @ m + 1e-5)
    return f, (x, m)

@case("4", "2x2 s", "5 raw", "8 out")
def sort_unique_counts(k):
    x = k.s((6, 16 if not k.raw else 13), "b", "a", dtype=I32)
    def f(x):
        s = jnp.sort(x, 1); new = jnp.concatenate([jnp.ones((6, 1), bool), s[:, 1:] != s[:, :-1]], 1)
        rank = jnp.cumsum(new, 1) - 1; cnt = jax.vmap(lambda r: jax.ops.segment_sum(jnp.ones_like(r), r, x.shape[1]))(rank)
        return s, cnt, jnp.argsort(-x, axis=0), lax.sort([x, s, s * 2], dimension=1, num_keys=2)
    return f, (x,)

@case("4", "2x2 s", "3x2 raw")
def topk_median_lexsort(k):
    x, y = k.s((8, 24 if not k.raw else 23), "b", "a"), k.s((24,), "a", dtype=I32)
    return lambda x, y: (lax.top_k(x, 5), jnp.median(x, 1), jnp.percentile(x, 30., axis=0), jnp.lexsort((y, y % 5))), (x, y)

@case("4", "2x2 s", "8 perm", "6 raw")
def segment_softmax_gat_grad(k):
    N, D, E = 16 if not k.raw else 17, 8, 40
    x, w, a, src, dst = k.s((N, D), "a"), k.s((D, D), None, "b"), k.s((2, D)), k.s((E,), "a", dtype=I32), k.s((E,), "a", dtype=I32)
    def loss(w, a, x, src, dst):
        h = x @ w; e = nn.leaky_relu((h @ a[0])[src] + (h @ a[1])[dst])
        e = jnp.exp(e - jax.ops.segment_max(e, dst, N)[dst]); al = e / (jax.ops.segment_sum(e, dst, N)[dst] + 1e-9)
        return (jax.ops.segment_sum(al[:, None] * h[src], dst, N) ** 2).mean()
    return jax.grad(loss, (0, 1)), (w, a, x, src, dst)

@case("4", "2x3 s", "7 raw", "2x2 out perm")
def cumulative_2d(k):
    x = k.s((12, 18), "a", "b")
    return lambda x: (jnp.cumsum(jnp.cumsum(x, 0), 1), lax.cummin(x, 0, reverse=True), jnp.diff(x, axis=0), jnp.trapezoid(x, axis=1)), (x,)

@case("4", "2x2 s", "5 raw")
def bincount_digitize(k):
    x, b = k.s((40,), "a"), k.s((8,))
    def f(x, b):
        d = jnp.digitize(x, b); h = jnp.zeros(9, I32).at[d].add(1)
        return h, jnp.searchsorted(jnp.sort(x), b), jnp.zeros((9,)).at[d].max(x), x[jnp.argsort(d)]
    return f, (x, b)
