# SPDX-License-Identifier: Apache-2.0
"""More modules of corpus.py: loops, manual regions, data movement, types, linear algebra, simulations."""
from cases import I32, case, jax, jnp, lax, nn, norm, P

# ---------------------------------------------------------------- manual regions
@case("4", "2x4 s", "2x2 perm")
def collective_matmul_grad(k):
    x, w, n = k.s((16, 16), "a"), k.s((16, 32), None, "a"), k.n("a")
    def local(x, w):
        i = lax.axis_index("a"); r = x.shape[0]
        def body(c, t):
            y, x = c
            y = lax.dynamic_update_slice(y, x @ w, (((i - t) % n) * r, 0))
            return (y, lax.ppermute(x, "a", [(j, (j + 1) % n) for j in range(n)])), None
        return lax.scan(body, (jnp.zeros((r * n, w.shape[1])) + 0 * w[0], x), jnp.arange(n))[0][0]
    f = k.map(local, (P("a"), P(None, "a")), P(None, "a"), check_vma=False)
    return lambda x, w: (f(x, w), jax.grad(lambda x, w: (f(x, w) ** 2).sum(), (0, 1))(x, w)), (x, w)

@case("4", "2x3 s")
def pipeline_stages_grad(k):
    L, M, B, D = k.n("a"), 4, 6, 8
    w, x = k.s((L, D, D), "a"), k.s((M, B, D), None, "b")
    sb = "b" if k.n("b") > 1 else None
    def local(w, x):
        i = lax.axis_index("a")
        def tick(c, t):
            h, out = c
            h = jnp.where(i == 0, x[jnp.minimum(t, M - 1)], h); h = jnp.tanh(h @ w[0])
            out = jnp.where((i == L - 1) & (t >= L - 1), lax.dynamic_update_index_in_dim(out, h, jnp.maximum(t - L + 1, 0), 0), out)
            return (lax.ppermute(h, "a", [(j, (j + 1) % L) for j in range(L)]), out), None
        out = lax.scan(tick, (x[0] * 0, x * 0), jnp.arange(M + L - 1))[0][1]
        return lax.psum(jnp.where(i == L - 1, out, 0), "a")
    f = k.map(local, (P("a"), P(None, sb)), P(None, sb), check_vma=False)
    return lambda w, x: (f(w, x), jax.grad(lambda w: (f(w, x) ** 2).mean())(w)), (w, x)

@case("2x2", "2x4 s", "4x2 s perm")
def partial_manual(k):
    x, w, v = k.s((8, 16), "a"), k.s((16, 32), None, "b"), k.s((32, 16), "b")
    def local(x, w, v):
        g = jax.grad(lambda w: (jnp.tanh(x @ w) @ v).sum())(w)
        return jnp.tanh(x @ w) @ v, lax.psum(g, "a")
    return k.map(local, (P("a"), P(), P()), (P("a"), P()), axis_names={"a"}, check_vma=False), (x, w, v)

@case("4", "2x2 s", "2x2x2 s")
def fsdp_gather_scatter_manual(k):
    x, w = k.s((16, 8), "ab"), k.s((3, 8, 8), None, "a")
    xs = P(("a", "b") if k.n("b") > 1 else "a")
    def local(x, w):
        def body(h, l): return nn.relu(h @ lax.all_gather(l, "a", axis=0, tiled=True)), None
        loss = lambda w: (lax.scan(jax.checkpoint(body), x, w)[0] ** 2).sum()
        l, g = jax.value_and_grad(loss)(w)
        return lax.psum(l, k.names), w - .1 * lax.pmean(g, k.names[1:]) if len(k.names) > 1 else w - .1 * g
    return k.map(local, (xs, P(None, "a")), (P(), P(None, "a")), check_vma=False), (x, w)

@case("4", "2x2 s", "8 s perm")
def halo_exchange_wave(k):
    u, v = k.s((16, 12), "a", "b"), k.s((16, 12), "a", "b"); n = k.n("a")
    sp = P("a", "b" if k.n("b") > 1 else None)
    def local(u, v):
        up, dn = [(i, i + 1) for i in range(n - 1)], [(i + 1, i) for i in range(n - 1)]
        def step(_, c):
            u, v = c; e = jnp.concatenate([lax.ppermute(u[-1:], "a", up), u, lax.ppermute(u[:1], "a", dn)])
            v = v + .1 * (e[2:] + e[:-2] - 2 * u); return u + .1 * v, v
        return lax.fori_loop(0, 3, step, (u, v))
    return lambda u, v: k.map(local, (sp, sp), (sp, sp), check_vma=False)(u * 2, jnp.sin(v)), (u, v)

@case("4", "2x2 s", "2x3")
def manual_scatter_softmax(k):
    l = k.s((12, 24), "b", "a"); s, b = P("b" if k.n("b") > 1 else None, "a"), P("b" if k.n("b") > 1 else None)
    def local(x):
        m = lax.pmax(x.max(-1, keepdims=True), "a"); e = jnp.exp(x - m); z = lax.psum(e.sum(-1, keepdims=True), "a")
        return e / z, lax.psum_scatter(jnp.repeat(e.sum(-1), k.n("a")), "a", tiled=True), lax.all_gather(x.argmax(-1), "a", axis=1)
    outs = (s, P(("b", "a") if k.n("b") > 1 else "a"), P("b" if k.n("b") > 1 else None))
    return k.map(local, (s,), outs, check_vma=False), (l,)

@case("2x2 s", "4", "4x2 perm s")
def two_manual_in_loop(k):
    x, w = k.s((8, 8), "a"), k.s((8, 8), None, "a")
    def body(_, h):
        g = k.map(lambda a, b: lax.psum(a @ b, "a"), (P(None, "a"), P("a")), P(), check_vma=False)(h, w_)
        return jnp.tanh(k.map(lambda a: lax.ppermute(a, "a", [(i, i ^ 1) for i in range(k.n("a"))]), (P("a"),), P("a"))(g))
    def f(x, w):
        nonlocal w_
        w_ = w; return lax.fori_loop(0, 3, body, x)
    w_ = None
    return f, (x, w)

# ---------------------------------------------------------------- loops and branches
@case("4", "2x2 s", "2x4 perm j")
def scan_over_sharded_axis(k):
    xs, w = k.s((16, 8, 8), "a", None, "b"), k.s((8, 8), None, "b")
    def f(xs, w):
        def cell(h, x): h = jnp.tanh(h @ w + x); return h, h.sum(-1)
        return lax.scan(cell, jnp.zeros((8, 8)), xs, reverse=True)
    return lambda xs, w: (f(xs, w), jax.grad(lambda w: f(xs, w)[1].sum())(w)), (xs, w)

@case("2x2", "4 s", "2x3")
def nested_scan_while_cond(k):
    A, x = k.s((12, 12), "a", "b"), k.s((12, 6), "a")
    def f(A, x):
        def outer(x, i):
            def inner(c): n, y = c; return n + 1, lax.cond(jnp.abs(y).max() > 10, lambda y: y / jnp.abs(y).max(), lambda y: A @ y, y)
            n, y = lax.while_loop(lambda c: (c[0] < 4) & (jnp.linalg.norm(c[1]) < 100), inner, (0, x))
            return y + x, (n, y[:, i])
        return lax.scan(outer, x, jnp.arange(3))
    return f, (A, x)

@case("4", "2x2 s", "3 raw")
def bicgstab_while(k):
    N = 24 if not k.raw else 17
    A, b = k.s((N, N), "a", "b"), k.s((N,), "a")
    return lambda A, b: jax.scipy.sparse.linalg.bicgstab(lambda v: A @ v + 9 * v, b, maxiter=6)[0], (A, b)

@case("2x2", "4 s", "8 perm")
def vmap_of_while_newton(k):
    x, w = k.s((16, 4), "a"), k.s((4, 4), None, "b")
    def one(x, w): return lax.while_loop(lambda c: (jnp.abs(c[1]).max() > 1e-3) & (c[2] < 9), lambda c: (c[0] - c[1], jnp.tanh(w @ (c[0] - c[1])) * .5, c[2] + 1), (x, x, 0))[0]
    return jax.vmap(one, (0, None)), (x, w)

@case("4", "2x2 s")
def switch_experts_scan_grad(k):
    x, w = k.s((8, 16), "a"), k.s((6, 16, 16), None, None, "b" if k.n("b") > 1 else "a")
    def loss(w, x):
        def body(h, l):
            w, i = l
            return lax.switch(i % 3, [lambda h: h + nn.relu(h @ w), lambda h: norm(h @ w, (-1,)), lambda h: h * w[0]], h), None
        return (lax.scan(jax.checkpoint(body, policy=jax.checkpoint_policies.dots_saveable), x, (w, jnp.arange(6)))[0] ** 2).mean()
    return jax.value_and_grad(loss), (w, x)

@case("2x2", "4 s", "2x2x2")
def custom_vjp_fused_mlp(k):
    x, w, v = k.s((8, 4, 16), "a", "c"), k.s((16, 32), None, "b"), k.s((32, 16), "b")
    @jax.custom_vjp
    def mlp(x, w, v): return nn.silu(x @ w) @ v
    def fwd(x, w, v): return mlp(x, w, v), (x, w, v)
    def bwd(r, g):
        x, w, v = r; z = x @ w; h, dv = jax.vjp(lambda z: nn.silu(z) @ v, z); (dz,) = dv(g)
        return (dz @ w.T).clip(-1, 1), jnp.einsum("btd,btf->df", x, dz), jnp.einsum("btf,btd->fd", nn.silu(z), g)
    mlp.defvjp(fwd, bwd)
    return jax.value_and_grad(lambda w, v, x: (mlp(x, w, v) ** 2).sum(), (0, 1)), (w, v, x)

@case("4", "2x2 s")
def equilibrium_implicit_grad(k):
    x, w, u = k.s((8, 16), "a"), k.s((16, 16), None, "b"), k.s((16, 16), "b")
    fp = lambda w, u, x, z0: lax.fori_loop(0, 6, lambda _, z: jnp.tanh(z @ w * .1 + x @ u), z0)
    def f(w, u, x):
        z = fp(w, u, x, jnp.zeros_like(x)); _, vjp = jax.vjp(lambda z: jnp.tanh(z @ w * .1 + x @ u), z)
        l = lax.fori_loop(0, 6, lambda _, l: vjp(l)[0] + 2 * z, z)
        return jax.vjp(lambda w, u: jnp.tanh(z @ w * .1 + x @ u), w, u)[1](l)
    return f, (w, u, x)

@case("4", "2x3 s")
def map_batched_bands(k):
    x, w = k.s((12, 6, 6), "a", "b"), k.s((6, 6))
    return lambda x, w: (lax.map(lambda a: jnp.linalg.norm(a @ w) * a, x, batch_size=4), lax.map(lambda a: a.T @ w, x)), (x, w)

@case("2x2", "4 s")
def edit_distance_scan(k):
    a, b = k.s((8, 12), "a", dtype=I32), k.s((8, 16), "a", "b", dtype=I32)
    def f(a, b):
        def row(prev, c):
            ch, i = c; sub = jnp.minimum(prev[:, :-1] + (ch[:, None] != b), prev[:, 1:] + 1)
            cur = jnp.concatenate([jnp.full((8, 1), i + 1), sub], 1)
            return lax.cummin(cur - jnp.arange(17), 1) + jnp.arange(17), None
        return lax.scan(row, jnp.broadcast_to(jnp.arange(17), (8, 17)), (a.T, jnp.arange(12)))[0][:, -1]
    return f, (a, b)

# ---------------------------------------------------------------- data movement
@case("2x2", "4x2 s", "2x2x2 out", "2x3 raw")
def reshape_chain(k):
    x = k.s((12, 8, 10) if not k.raw else (7, 6, 10), "a", "b", "c")
    def f(x):
        n = x.shape[0]
        return x.reshape(n * 8 if not k.raw else 42, -1) * 2, x.reshape(-1), x.transpose(2, 0, 1).reshape(10, -1), x.reshape(n, -1, 5)[:, ::2], x.reshape(-1, 2, 5).swapaxes(0, 1)
    return f, (x,)

@case("2x4", "2x2 s perm", "16")
def transpose_5d_constraints(k):
    x = k.s((4, 8, 2, 16, 4), "a", "b")
    def f(x):
        y = k.c(x.transpose(3, 1, 0, 4, 2) + 1, "b", "a"); z = k.c(jnp.sin(y).reshape(16, 32, 8), "?", "ab")
        return k.c(z.transpose(1, 0, 2), None, "ba"), y
    return f, (x,)

@case("4", "2x3 s", "5 raw", "2x2 out")
def concat_pad_reverse_roll(k):
    x, y = k.s((12, 9), "a", "b"), k.s((5, 9) if not k.raw else (6, 9), "a")
    def f(x, y):
        z = jnp.concatenate([x, y, x[::-1]], 0)
        return z, jnp.roll(z, (5, -2), (0, 1)), lax.pad(x, 0., ((2, -1, 1), (-1, 3, 0))), jnp.concatenate([x, x * 2], 1)[:, ::2], jnp.pad(x, 2, mode="reflect")
    return f, (x, y)

@case("4", "2x2 s", "3 raw")
def tile_repeat_stack_tril(k):
    x = k.s((8, 12), "a", "b")
    return lambda x: (jnp.tile(x, (2, 3)), jnp.repeat(x, 3, 0), jnp.stack([x, -x], 1).reshape(16, 12), jnp.tril(x) + jnp.triu(x, 2), jnp.kron(x, jnp.eye(2)), jnp.diagonal(x)), (x,)

@case("4", "2x2 s", "8 perm", "6 raw")
def dynamic_slices_of_sharded(k):
    x, u, i = k.s((24, 10), "a", "b"), k.s((6, 10), "a", "b"), k.s((3,), dtype=I32)
    def f(x, u, i):
        a = lax.dynamic_slice(x, (i[0], 0), (8, 10)); b = lax.dynamic_update_slice(x, u, (i[1], 0))
        return a * 2, b, jax.vmap(lambda r, s: lax.dynamic_slice(r, (s,), (4,)))(x[:3], i), lax.dynamic_index_in_dim(x, i[2], 0, False)
    return f, (x, u, i)

@case("4", "2x2 s", "2x4 perm")
def beam_reorder_cache(k):
    B, W, T, H, V = 4, 4, 8, 4, 16
    c, l, s, t = k.s((B, W, T, H, 4), "a", None, None, "b"), k.s((B, W, V), "a", None, "b"), k.s((B, W), "a"), k.s((B, W, T), "a", dtype=I32)
    def f(c, l, s, t, n):
        sc, ix = lax.top_k((s[..., None] + nn.log_softmax(l)).reshape(B, W * V), W); par = ix // V
        c = jnp.take_along_axis(c, par[:, :, None, None, None], 1); t = jnp.take_along_axis(t, par[..., None], 1)
        return c, sc, lax.dynamic_update_slice(t, (ix % V)[..., None], (0, 0, n))
    return f, (c, l, s, t, k.s((), dtype=I32))

@case("2x2", "8 s", "2x3")
def gather_scatter_nd(k):
    x, i, u = k.s((12, 6, 8), "a", "b"), k.s((10, 2), dtype=I32), k.s((10, 8), None, "b")
    return lambda x, i, u: (x[i[:, 0], i[:, 1]], x.at[i[:, 0], i[:, 1]].set(u), x[:, i[:, 1]] * 2, x.at[:, 2].multiply(3.), x.at[i[:, 0]].min(u[:, None])), (x, i, u)

@case("4", "2x2 s perm", "3x4 raw")
def einsums_many_dims(k):
    a, b, c = k.s((4, 6, 8, 5), "a", None, "b"), k.s((8, 5, 4, 7), "b", None, "a"), k.s((7, 6, 4), None, "b", "a")
    return lambda a, b, c: (jnp.einsum("ijkl,klmn->ijmn", a, b), jnp.einsum("ijkl,klin,njm->jm", a, b, c), jnp.einsum("ijkl,njm->ikm", a, c), jnp.einsum("ijkl,ijkl->jl", a, a)), (a, b, c)

@case("32", "64 s", "8x8 perm", "4x4x4 s", "24", "2x3x4 s")
def many_devices_mlp_grad(k):
    n = 48 if 3 in k.sizes or 24 in k.sizes else 64
    x, w, v = k.s((n, 24), "a", "b"), k.s((24, n), "b", "ca"), k.s((n, 24), "cb", "a")
    return jax.grad(lambda w, v, x: (k.c(nn.gelu(x @ w), "a", "b") @ v).std(), (0, 1, 2)), (w, v, x)

@case("16", "3x4 s raw", "2x2x2 raw", "7 raw")
def tuple_params_partial(k):
    t = (k.s((9, 13), "b", "a"), (k.s((13, 5), "a"), k.s((5,), "c")), dict(z=k.s((9, 5), "c", "b")))
    def f(t):
        x, (w, b), d = t; y = x @ w + b
        return (y, (y.sum(0), d["z"] * y)), y.argmax(1), (x > x.mean()).sum(), norm(d["z"], (0,))
    return f, (t,)

@case("2x2 inner", "4 s inner", "2x4 inner s perm", "2x2x2 inner j")
def inner_only_constraints(k):
    x, w, v = k.s((8, 16)), k.s((16, 32)), k.s((32, 16))
    def f(x, w, v):
        h = k.c(x @ w, None, "b" if k.n("b") > 1 else "a"); g = k.c(jnp.tanh(h).reshape(8, 4, 8), "a", "?", "?")
        return k.c(g.reshape(8, 32) @ v, "ab"), jnp.sum(g, 1), k.c(v * 2, "?", "c" if k.n("c") > 1 else "a")
    return f, (x, w, v)
