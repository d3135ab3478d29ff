# SPDX-License-Identifier: Apache-2.0
"""Types, random numbers, linear algebra, norms and simulations, as in cases.py."""
from cases import BF, C64, F16, I32, I8, U32, case, conv, jax, jnp, lax, nn, norm

# ---------------------------------------------------------------- types, random numbers
@case("4", "2x2 s", "2x4")
def int8_w8a8_bf16(k):
    x, w, s, b = k.s((8, 16), "a", dtype=BF), k.s((16, 32), "b" if k.i else None, None if k.i else "a", dtype=I8), k.s((32,)), k.s((32,), dtype=BF)
    def f(x, w, s, b):
        sx = jnp.abs(x).max(-1, keepdims=True).astype(jnp.float32) / 127; q = jnp.round(x / sx).astype(I8)
        y = lax.dot_general(q, w, (((1,), (0,)), ((), ())), preferred_element_type=I32)
        return (y * sx * s).astype(BF) + b
    return f, (x, w, s, b)

@case("2x2", "8 s")
def f8_and_int4_dots(k):
    x, w, q = k.s((8, 32), "a", dtype=BF), k.s((32, 16), None, "b", dtype=jnp.float8_e4m3fn), k.s((32, 16), "a", dtype=jnp.int4)
    return lambda x, w, q: (x @ w.astype(BF), x @ (q.astype(BF) * .1), jnp.dot(x.astype(jnp.float8_e4m3fn), w, preferred_element_type=jnp.float32)), (x, w, q)

@case("4", "2x3 s", "2x2 raw")
def complex_unitary_chain(k):
    a, b = k.s((12, 12), "a", "b", dtype=C64), k.s((4, 12, 12), None, "b", "a", dtype=C64)
    def f(a, b):
        y = jnp.einsum("ij,bjk,lk->bil", a, b, a.conj()); return y, jnp.abs(y).sum(2), jnp.angle(y.trace(axis1=1, axis2=2)), y.real.max(1), jnp.fft.fft(y, axis=0)
    return f, (a, b)

@case("4", "2x2 s", "5 raw")
def bits_and_bools(k):
    x, y = k.s((10, 16), "a", "b", dtype=U32), k.s((10, 16), "b", "a")
    def f(x, y):
        h = (x ^ (x >> 16)) * jnp.uint32(0x45d9f3b); p = lax.population_count(h)
        return p.sum(1), lax.bitcast_convert_type(y, U32) ^ h, jnp.packbits((h & 1).astype(bool), axis=1), (y > 0).any(0), lax.clz(h), lax.reduce(h, jnp.uint32(0), lax.bitwise_xor, (1,)), lax.bitcast_convert_type(x, jnp.uint8)
    return f, (x, y)

@case("2x2", "4 s", "8 out")
def random_many(k):
    key, x = k.s((2,), dtype=U32), k.s((16, 8), "a", "b")
    def f(key, x):
        a, b, c, d = jax.random.split(key, 4)
        return k.c(jax.random.normal(a, (16, 8)), "a", "b") + x, jax.random.categorical(b, x), jax.random.permutation(c, x), jax.random.bernoulli(d, nn.sigmoid(x)), jax.random.truncated_normal(d, -1., 1., (32,))
    return f, (key, x)

@case("4", "2x2 s")
def rbg_dropout_f16_grad(k):
    x, w, key = k.s((16, 32), "a", "b", dtype=F16), k.s((32, 16), "b", dtype=F16), k.s((4,), dtype=U32)
    def f(w, x, key):
        _, bits = lax.rng_bit_generator(key, x.shape, dtype=U32)
        return ((jnp.where(k.c(bits, "a", "b") >> 31 > 0, x, 0) @ w) ** 2).astype(jnp.float32).mean()
    return jax.grad(f, (0, 1)), (w, x, key)

# ---------------------------------------------------------------- linear algebra
@case("2x2", "4 s", "3 raw")
def triangular_solves_sharded(k):
    L, b = k.s((4, 8, 8), None, "a"), k.s((4, 8, 6), None, None, "b" if k.n("b") > 1 else "a")
    return lambda L, b: (lax.linalg.triangular_solve(L, b, left_side=True, lower=True), lax.linalg.triangular_solve(L, b.swapaxes(1, 2), lower=True, transpose_a=True)), (L, b)

@case("4", "2x2 s", "5 raw")
def gp_marginal_grad(k):
    x, y, p = k.s((15 if k.raw else 16, 4), "a"), k.s((15 if k.raw else 16,), "a"), k.s((2,))
    def f(p, x, y):
        d = ((x[:, None] - x) ** 2).sum(-1); K = jnp.exp(p[0] - d * jnp.exp(p[1])) + .1 * jnp.eye(len(y))
        L = jnp.linalg.cholesky(K); a = lax.linalg.triangular_solve(L, y[:, None], left_side=True, lower=True)
        return (a ** 2).sum() / 2 + jnp.log(jnp.diagonal(L)).sum()
    return jax.value_and_grad(f), (p, x, y)

@case("4", "2x2 s", "8 perm")
def batched_qr_svd_lu(k):
    x, b = k.s((8, 6, 4), "a", None, "b"), k.s((8, 4, 4), "a")
    return lambda x, b: (*jnp.linalg.qr(x), jnp.linalg.svd(x, compute_uv=False), jnp.linalg.solve(b, x[:, :4]), jnp.linalg.slogdet(b)[1], jnp.linalg.inv(b)), (x, b)

@case("2x2", "4 s")
def gram_schmidt_expm(k):
    x = k.s((8, 8), "a", "b")
    def f(x):
        def body(i, q):
            v = x[:, i] - q @ (q.T @ x[:, i]); return q.at[:, i].set(v / jnp.linalg.norm(v))
        t = lax.fori_loop(1, 6, lambda i, c: (c[0] + c[1], c[1] @ x / (i + 1)), (jnp.eye(8) + x, x))[0]
        return lax.fori_loop(0, 8, body, jnp.zeros((8, 8))), t, jnp.linalg.matrix_power(x, 5)
    return f, (x,)

@case("4", "2x3 s")
def thomas_tridiagonal(k):
    a, b, c, d = (k.s((12, 18), "a", "b") for _ in range(4))
    def f(a, b, c, d):
        def fw(s, z):
            a, b, c, d = z; m = 1 / (b + 4 - a * s[0]); s = (c * m, (d - a * s[1]) * m); return s, s
        _, (cp, dp) = lax.scan(fw, (jnp.zeros(12), jnp.zeros(12)), (a.T, b.T, c.T, d.T))
        return lax.scan(lambda x, z: (z[1] - z[0] * x,) * 2, jnp.zeros(12), (cp, dp), reverse=True)[1].T
    return f, (a, b, c, d)

# ---------------------------------------------------------------- norms, simulations
@case("4", "2x2 s", "2x2x2", "3 raw")
def group_batch_norm_grad(k):
    x, g = k.s((4, 12, 12, 8), "a", "c", None, "b"), k.s((8,), "b")
    def f(g, x):
        y = norm(x.reshape(4, 12, 12, 2, 4), (1, 2, 4)).reshape(x.shape) * g
        m = y.mean((0, 1, 2)); return ((norm(y, (0, 1, 2)) + norm(x, (1, 2))) ** 3).sum(), m
    return jax.value_and_grad(f, (0, 1), has_aux=True), (g, x)

@case("2x2", "8 s")
def spectral_weight_norm_grad(k):
    w, u, x = k.s((16, 32), "a", "b"), k.s((16,), "a"), k.s((8, 16), "a")
    def f(w, u, x):
        v = w.T @ u; v = v / jnp.linalg.norm(v); u = lax.stop_gradient(w @ v); s = u @ w @ v / jnp.linalg.norm(u)
        return ((x @ (w / s)) ** 2).sum() + ((x @ (w / jnp.linalg.norm(w, axis=0))) ** 2).sum(), u
    return jax.grad(f, has_aux=True), (w, u, x)

@case("4", "2x2 s")
def nerf_render_grad(k):
    o, w, v = k.s((16, 8, 3), "a", "b"), k.s((9, 16), None, "b" if k.n("b") > 1 else None), k.s((16, 4))
    def f(w, v, o):
        e = jnp.concatenate([o, jnp.sin(o), jnp.cos(o)], -1); z = nn.relu(e @ w) @ v
        al = 1 - jnp.exp(-nn.softplus(z[..., 3])); t = jnp.cumprod(jnp.concatenate([jnp.ones((16, 1)), 1 - al[:, :-1]], 1), 1)
        return jnp.mean(((al * t)[..., None] * nn.sigmoid(z[..., :3])).sum(1) ** 2)
    return jax.grad(f, (0, 1)), (w, v, o)

@case("4", "2x2 s perm", "2x3", "7 raw")
def ising_checkerboard(k):
    s, key = k.s((12 if not k.raw else 14, 12), "a", "b", dtype=I8), k.s((2,), dtype=U32)
    def f(s, key):
        m = (jnp.arange(s.shape[0])[:, None] + jnp.arange(12)) % 2
        for p in (0, 1):
            n = sum(jnp.roll(s, d, a) for d in (1, -1) for a in (0, 1))
            s = jnp.where((m == p) & (jax.random.uniform(jax.random.fold_in(key, p), s.shape) < jnp.exp(-.8 * (s * n).astype(jnp.float32))), -s, s)
        return s, s.sum(dtype=I32)
    return f, (s, key)

@case("4", "2x2 s", "8 raw")
def nbody_lennard_jones_grad(k):
    x, v = k.s((16 if not k.raw else 13, 3), "a"), k.s((16 if not k.raw else 13, 3), "a")
    def e(x):
        d = ((x[:, None] - x) ** 2).sum(-1) + 9 * jnp.eye(len(x)); i = 1 / d ** 3; return (i * i - i).sum()
    return lambda x, v: lax.fori_loop(0, 3, lambda _, c: (c[0] + .1 * c[1], c[1] - .1 * jax.grad(e)(c[0])), (x, v)), (x, v)

@case("4", "2x2 s", "5 raw")
def maxwell_fdtd(k):
    e, h = k.s((2, 15 if k.raw else 16, 12), None, "a", "b"), k.s((15 if k.raw else 16, 12), "a", "b")
    def f(e, h):
        def step(c, _):
            ex, ey, h = c; h = h.at[:-1, :-1].add(.5 * (jnp.diff(ex, axis=1)[:-1] - jnp.diff(ey, axis=0)[:, :-1]))
            ex = ex.at[:, 1:].add(.5 * jnp.diff(h, axis=1)); ey = ey.at[1:].add(-.5 * jnp.diff(h, axis=0))
            return (ex, ey, h), (h ** 2).sum()
        return lax.scan(step, (e[0], e[1], h), None, length=4)
    return f, (e, h)

@case("4", "2x2 s", "6 raw")
def simplex_projection_ot(k):
    x, c = k.s((8, 12), "a", "b"), k.s((12, 12), "b", "a")
    def f(x, c):
        u = -jnp.sort(-x, 1); s = (jnp.cumsum(u, 1) - 1) / jnp.arange(1, 13); r = jnp.sum(u > s, 1)
        p = nn.relu(x - jnp.take_along_axis(s, r[:, None] - 1, 1))
        def it(_, fg): g = -nn.logsumexp(fg[0][:, None] - c, 0); return -nn.logsumexp(g - c, 1), g
        return p, lax.fori_loop(0, 4, it, (x[0], x[1]))
    return f, (x, c)

@case("4", "2x2 s", "3x2 raw")
def hmm_forward_backward_grad(k):
    B, T, S = 6, 5, 8
    A, E, o = k.s((S, S), None, "b"), k.s((S, 12), "b"), k.s((T, B), None, "a", dtype=I32)
    def f(A, E, o):
        lA, lE = nn.log_softmax(A), nn.log_softmax(E)
        al, _ = lax.scan(lambda a, x: (nn.logsumexp(a[:, :, None] + lA, 1) + lE[:, x].T, None), jnp.zeros((B, S)), o)
        return nn.logsumexp(al, 1).sum()
    return jax.grad(f, (0, 1)), (A, E, o)

@case("4", "2x2 s")
def ppo_gae_step(k):
    T, B, D, A = 8, 8, 6, 4
    o, a, r, lp, w, v = k.s((T, B, D), None, "a"), k.s((T, B), None, "a", dtype=I32), k.s((T, B), None, "a"), k.s((T, B), None, "a"), k.s((D, A), None, "b"), k.s((D,))
    def f(w, v, o, a, r, lp):
        val = o @ v; d = r + .99 * jnp.concatenate([val[1:], val[-1:]]) - val
        adv = lax.stop_gradient(lax.scan(lambda c, d: ((d + .9 * c,) * 2), jnp.zeros(B), d, reverse=True)[1]); adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        l = nn.log_softmax(o @ w); p = jnp.take_along_axis(l, a[..., None], -1)[..., 0]; q = jnp.exp(p - lp)
        return -jnp.minimum(q * adv, jnp.clip(q, .8, 1.2) * adv).mean() + ((val - lax.stop_gradient(val + adv)) ** 2).mean() - .01 * (-(jnp.exp(l) * l).sum(-1)).mean()
    return jax.value_and_grad(f, (0, 1)), (w, v, o, a, r, lp)

@case("4", "2x2 s")
def diffusion_ddim_loop(k):
    x, w, v, t = k.s((4, 8, 8, 4), "a"), k.s((3, 3, 4, 8), None, None, None, "b"), k.s((3, 3, 8, 4), None, None, "b"), k.s((8, 8), None, "b")
    def f(x, w, v, t):
        def step(i, x):
            emb = jnp.sin(i * 1. + jnp.arange(8)) @ t; e = conv(nn.silu(conv(x, w) + emb), v); a = jnp.cos(i * .1)
            return (x - jnp.sqrt(1 - a * a) * e) * a
        return lax.fori_loop(0, 4, step, x)
    return f, (x, w, v, t)
