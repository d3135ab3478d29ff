# SPDX-License-Identifier: Apache-2.0
"""Families of ops and science, as in cases.py."""
from corpus import case, jax, jnp, lax, np
from cases import attn, block, block_params, ln, rms
I32, U32, C64 = jnp.int32, jnp.uint32, jnp.complex64
nn = jax.nn

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
