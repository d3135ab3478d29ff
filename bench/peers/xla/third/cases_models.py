# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts, vision and recurrences, as in cases.py."""
from corpus import case, jax, jnp, lax
I32 = jnp.int32
nn = jax.nn

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
