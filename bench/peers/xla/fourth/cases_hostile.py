# SPDX-License-Identifier: Apache-2.0
"""Modules of corpus.py with unusual forms: odd ops, empty and unit dims, effects, aliases, groups, nested regions."""
from cases import BF, C64, F16, I32, I8, U32, case, conv, jax, jnp, lax, nn, norm, np, partial, P
from jax.sharding import NamedSharding

@case("4", "2x3 s", "1x4", "4x1 s raw")
def empty_and_unit_dims(k):
    x, y, z = k.s((8, 0, 6), "a", None, "b"), k.s((1, 12), "a", "b"), k.s((12, 1, 1), "b", "a")
    return lambda x, y, z: (x.sum(1), jnp.concatenate([x, x + 1], 1), x.max(0, initial=-3.), y * z[:, 0], jnp.einsum("iab,bi->ab", z, y), x.reshape(0, 48), jnp.zeros((0, 4)) @ jnp.ones((4, 8))), (x, y, z)

@case("2x2", "8 s", "3x2 raw")
def identity_outputs(k):
    x, y, u = k.s((6, 6), "a", "b"), k.s((6,), "a"), k.s((5, 7), "b", "a")
    return lambda x, y, u: (x, x, (y, k.c(x, "b", "a")), jnp.float32(3), jnp.arange(12), k.c(jnp.ones((12, 6)), "a")), (x, y, u)

@case("4", "2x2 s")
def barrier_precision_composite(k):
    x, w = k.s((8, 16), "a"), k.s((16, 8), None, "b")
    def f(x, w):
        a, b = lax.optimization_barrier((x @ w, x.sum(0))); g = lax.reduce_precision(a, 5, 10)
        c = lax.composite(lambda t: jnp.tanh(t) * 2, name="my.op")(g)
        return c, b, jax.jit(lambda t: t @ w.T)(c), lax.platform_dependent(g, cpu=lambda t: t + 1, default=lambda t: t - 1)
    return f, (x, w)

@case("4", "2x2 s", "5 raw")
def special_functions(k):
    x, y = k.s((10, 6), "a", "b"), k.s((10, 6), None, "a")
    s = jax.scipy.special
    return lambda x, y: (s.erfinv(x), s.digamma(x), s.gammainc(x, y), s.betainc(x, y, y * .5), s.zeta(x + 2, y), lax.bessel_i1e(x), s.i0e(y), lax.nextafter(x, y), jnp.sinc(x), lax.cbrt(y), lax.logistic(x), s.polygamma(2, y)), (x, y)

@case("4", "2x2 s")
def random_gamma_poisson(k):
    key, a = k.s((2,), dtype=U32), k.s((8, 4), "a", "b")
    return lambda key, a: (jax.random.gamma(key, a), jax.random.beta(key, a, a + 1), jax.random.choice(key, a, (6,), replace=False), jax.random.dirichlet(key, a), jax.random.randint(key, (16,), 0, 9), jax.random.orthogonal(key, 4)), (key, a)

@case("4", "2x2 s", "8 perm raw")
def approx_top_k_reduce(k):
    x = k.s((8, 64), "b", "a")
    return lambda x: (lax.approx_max_k(x, 4), lax.approx_min_k(x, 4, aggregate_to_topk=False), lax.top_k(x.astype(BF), 3), lax.top_k(x.T, 2)), (x,)

@case("4", "2x2 s", "3 raw")
def variadic_reduce_custom(k):
    x, y = k.s((10, 12), "a", "b"), k.s((10, 12), "b", "a", dtype=I32)
    def f(x, y):
        r = lax.reduce((x, y), (jnp.float32(-1e9), I32(0)), lambda a, b: (jnp.where(a[0] > b[0], a[0], b[0]), jnp.where(a[0] > b[0], a[1], b[1])), (0,))
        w = lax.reduce_window((x, y), (jnp.float32(0), I32(0)), lambda a, b: (a[0] + b[0], a[1] * 2 + b[1]), (3, 2), (2, 1), ((1, 1), (0, 1)))
        q = lax.reduce(x, jnp.float32(1), lambda a, b: a * b + 0 * b, (1,)); m = lax.reduce((x > 0), False, lax.bitwise_or, (0, 1))
        return r, w, q, m, lax.reduce_window(x, -jnp.inf, lax.max, (5, 1), (1, 1), "SAME", window_dilation=(2, 1))
    return f, (x, y)

@case("4", "2x2 s", "2x3")
def gather_modes_batching(k):
    x, i, u = k.s((12, 6, 8), "a", "b"), k.s((12, 5), "a", dtype=I32), k.s((12, 5, 8), "a", None, "b")
    def f(x, i, u):
        g = jax.vmap(lambda r, j: r.at[j].get(mode="fill", fill_value=-1.))(x, i); h = jax.vmap(lambda r, j, v: r.at[j].add(v, mode="drop"))(x, i, u)
        return g, h, x.at[i[:, 0]].get(mode="clip"), x.at[jnp.arange(3), :, i[0, :3]].mul(2.), x.at[i[:, 1]].apply(jnp.sin), x.at[2:7, ::2].max(0.), x[..., i[0]], x[::-2, i[3] % 6]
    return f, (x, i, u)

@case("2x4 s", "8", "16 raw")
def more_devices_than_rows(k):
    x, w = k.s((3, 5), "ab"), k.s((5, 2), "a", "b")
    return lambda x, w: (k.c(x @ w, "ab"), jnp.sort(k.c(x, None, "ab"), 1), jnp.cumsum(x, 0), k.c(x.T.reshape(15), "ab") * 2, k.c(jnp.concatenate([x, x]), "ba").sum(0)), (x, w)

@case("64 raw", "4x4x4 raw perm", "3x5 raw", "24 raw s")
def uneven_large_meshes(k):
    x, w = k.s((13, 9, 7), "a", "b", "c"), k.s((7, 9, 11), "b", "c", "a")
    def f(x, w):
        y = jnp.einsum("ijk,kjl->il", x, w); z = nn.softmax(jnp.tanh(y), -1)
        return z, jnp.einsum("ijk,kjl->jkil", x, w).transpose(3, 0, 1, 2), lax.conv_general_dilated(x[..., None], w[:3, :3, :1, None], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return f, (x, w)

@case("2x2", "4 s", "2x2x2 s")
def constraints_in_loops(k):
    x, w = k.s((8, 16), "a"), k.s((4, 16, 16), None, None, "b")
    def f(x, w):
        def body(h, l):
            h = k.c(jnp.tanh(k.c(h, "a") @ l), None, "ab"); h = lax.cond(h[0, 0] > 0, lambda h: k.c(h * 2, "ba"), lambda h: k.c(h.T, "a", "b").reshape(8, 16), h); return h, k.c(h, "b", "a")[:2]
        y, ys = lax.scan(body, x, w, unroll=2); z = lax.while_loop(lambda c: c.sum() < 5, lambda c: k.c(k.c(c, "a", "b") + 1, "b"), y)
        return z, jax.vmap(lambda r: k.c(r.reshape(4, 4), "a", "b").T, spmd_axis_name="c" if k.n("c") > 1 else None)(z), ys
    return f, (x, w)

@case("8", "2x4 s", "2x2x2 s perm")
def collectives_groups(k):
    x = k.s((16, 8), "".join(k.names)); ax = k.names; sp = P(ax); n = k.n(ax[-1])
    def local(x):
        i = lax.axis_index(ax); a = lax.psum(x * i, ax[-1]); g = [[j for j in range(n) if j % 2 == r] for r in range(2)]
        b = lax.all_gather(x, ax[-1], axis_index_groups=g).sum(0); c = lax.all_to_all(jnp.tile(x[:, None], (1, n, 1)), ax[-1], 1, 1)
        d = lax.ppermute(x, ax, [(0, 3), (3, 1), (2, 2)]); e = lax.psum((x.sum() > 0).astype(I32), ax) + lax.pmin(i, ax[0])
        f = lax.psum_scatter(jnp.tile(x, (n, 1)), ax[-1], scatter_dimension=0, tiled=True); h = lax.pmax(x.astype(BF), ax[::-1]).astype(jnp.float32)
        return a + b + c.sum(1) + d + f + h + e
    return lambda x: k.map(local, (sp,), sp, check_vma=False)(x), (x,)

@case("2x2 s", "2x2x2 s", "4x2 s perm")
def nested_shard_maps(k):
    x, w = k.s((8, 16), "a"), k.s((16, 16), None, "b")
    def inner(x, w): return lax.psum(jnp.tanh(x @ w), "b")
    def outer(x, w):
        y = jax.shard_map(inner, in_specs=(P(None, "b"), P("b")), out_specs=P(), axis_names={"b"}, check_vma=False)(x, w)
        return lax.pmean(y, "a") + x
    return k.map(outer, (P("a"), P()), P("a"), axis_names={"a"}, check_vma=False), (x, w)

@case("4 s", "2x2", "2x4 s")
def random_and_loops_in_region(k):
    x, key, w = k.s((16, 8), "a"), k.s((2,), dtype=U32), k.s((8, 8))
    def local(x, key, w):
        kk = jax.random.fold_in(key, lax.axis_index("a")); x = x * jax.random.bernoulli(kk, .8, x.shape)
        def body(c): i, h = c; return i + 1, lax.cond(i % 2 == 0, lambda h: lax.psum(h, "a") / 4, lambda h: jnp.tanh(h @ w), h)
        n = lax.pmax(jnp.where(x.max() > 1, 3, 4), "a"); s = jnp.sort(x, 0)
        return lax.while_loop(lambda c: c[0] < n, body, (0, x))[1] + s, lax.all_gather(s, "a", tiled=True)
    return k.map(local, (P("a"), P(), P()), (P("a"), P()), check_vma=False), (x, key, w)

@case("4 s", "2x2 s", "2x4 s")
def grad_through_manual_vma(k):
    x, w, v = k.s((8, 16), "a"), k.s((16, 32), None, "b"), k.s((32, 8), "b")
    sb = "b" if k.n("b") > 1 else None
    def local(x, w, v):
        y = jnp.tanh(x @ w) @ v; y = lax.psum(y, "b") if sb else y
        return lax.psum((y ** 2).sum(), "a"), y
    f = k.map(local, (P("a"), P(None, sb), P(sb)), (P(), P("a")))
    return jax.grad(lambda w, v, x: f(x, w, v)[0] + f(x, w, v)[1].sum(), (0, 1, 2)), (w, v, x)

@case("4", "2x2 s")
def ragged_and_grouped(k):
    x, w, g = k.s((16, 8), "a"), k.s((4, 8, 6), None, None, "b"), k.s((4,), dtype=I32)
    return lambda x, w, g: (lax.ragged_dot(x, w, g), jax.grad(lambda w: (lax.ragged_dot(x, w, g) ** 2).sum())(w), lax.dot_general(x.reshape(4, 4, 8), w, (((2,), (1,)), ((0,), (0,))))), (x, w, g)

@case("4", "2x2 s")
def small_types(k):
    a, b, c, d = k.s((8, 16), "a", "b", dtype=jnp.int4), k.s((8, 16), "a", dtype=jnp.float8_e5m2), k.s((8, 16), "b", "a", dtype=jnp.bool_), k.s((16, 8), "a", dtype=jnp.uint16)
    return lambda a, b, c, d: (a + a, a.astype(I8).sum(1), b.astype(F16) @ d.astype(F16), jnp.where(c, a, -a), c.argmax(1), c.T @ c, jnp.cumsum(c, 1), lax.bitcast_convert_type(d, jnp.uint8).sum(2, dtype=jnp.uint16), jnp.sort(b.astype(BF), 1), ~c, d << 3, lax.population_count(d)), (a, b, c, d)

@case("4", "2x2 s", "3 raw")
def convs_of_odd_forms(k):
    x, w = k.s((4, 10, 9, 6), "b", "a"), k.s((3, 2, 6, 4), None, None, "b")
    def f(x, w):
        d = lambda **o: lax.conv_general_dilated(x, w, dimension_numbers=("NHWC", "HWIO", "NHWC"), **o)
        return (d(window_strides=(3, 2), padding=((2, 0), (-1, 3))), d(window_strides=(1, 1), padding=((4, 4), (2, 2)), lhs_dilation=(3, 1), rhs_dilation=(1, 3)), lax.conv_general_dilated(x.transpose(3, 0, 1, 2), w.transpose(3, 2, 0, 1), (2, 1), "SAME", dimension_numbers=("CNHW", "OIHW", "HWNC")),
                lax.conv_general_dilated(x, w[::-1], (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")), jax.scipy.signal.convolve(x[0, :, :, 0], w[:, :, 0, 0]))
    return f, (x, w)

@case("4 j", "2x2 s j", "2x3 j perm")
def free_results_mixed(k):
    x, w = k.s((12, 6), "a"), k.s((6, 18), None, "b")
    return lambda x, w: ((x @ w, x.sum()), [jnp.sort(x, 0), x[:5], jnp.argmax(x @ w)], {"z": (x @ w).reshape(-1), "e": jnp.ones((7, 3))}), (x, w)

@case("2x2", "4 s")
def donated_and_aliased(k):
    x, m, c = k.s((8, 16), "a", "b"), k.s((8, 16), "a", "b"), k.s((4, 8, 4), None, "a")
    f = jax.jit(lambda x, m, c: (x - .1 * m, .9 * m + x, c.at[2].set(x[:, :4])), donate_argnums=(0, 1, 2))
    return f, (x, m, c)

@case("4", "2x2 s")
def sort_comparators_stable(k):
    x, y, z = k.s((16, 6), "a", "b"), k.s((16, 6), "a", "b", dtype=I32), k.s((16,), "a", dtype=C64)
    return lambda x, y, z: (lax.sort((x, y, x * 2), dimension=0, num_keys=2), jnp.sort(x, 0, descending=True), jnp.argsort(y, 0, stable=False), jnp.sort(z), jnp.partition(x, 3, axis=0), jnp.argpartition(y, 3, axis=0), jnp.sort_complex(z), jnp.unique(y, size=9, fill_value=0)), (x, y, z)

@case("4", "2x2 s", "2x3 raw")
def hessians_and_jacobians(k):
    w, x = k.s((6, 8), "a", "b"), k.s((5, 8), "b" if k.raw else None, "a")
    f = lambda w, x: jnp.tanh(x @ w.T).prod(1).sum()
    return lambda w, x: (jax.hessian(f)(w, x).sum((0, 1)), jax.jacfwd(lambda x: jnp.tanh(x @ w.T))(x), jax.vmap(jax.grad(f), (None, 0))(w, x[:, None])), (w, x)

@case("2x2", "4 s")
def linear_fits(k):
    x, y = k.s((16, 4), "a"), k.s((16, 2), "a")
    return lambda x, y: (jnp.linalg.lstsq(x, y)[0], jnp.cov(x.T), jnp.corrcoef(x.T), jnp.polyfit(x[:, 0], y, 2), jnp.linalg.pinv(x), jnp.interp(y, jnp.sort(x[:, 0]), x[:, 1]), jnp.linalg.det(x[:4])), (x, y)

@case("4", "2x2 s")
def rnn_odeint_adaptive(k):
    y, w = k.s((8, 4), "a"), k.s((4, 4), None, "b")
    def f(y, w):
        from jax.experimental.ode import odeint
        return odeint(lambda y, t: jnp.tanh(y @ w) - y * t, y, jnp.linspace(0., 1., 3), rtol=1e-2, atol=1e-2)
    return lambda y, w: (f(y, w), jax.grad(lambda w: f(y, w).sum())(w)), (y, w)

@case("2x2 s", "4x2 s")
def unreduced_axes_and_subaxes(k):
    x = k.s((16, 8), "ab", None)
    def f(x):
        y = x.reshape(2, 8, 8).transpose(1, 0, 2).reshape(8, 2, 2, 4); z = y.reshape(8, 16) @ x
        return z.reshape(4, 2, 8), (z.T.reshape(64) + x.reshape(2, 64)), z.reshape(-1, 16).sum(0)
    return f, (x,)

@case("4", "2x2 s", "2x4 perm")
def pmap_like_vmap_axis(k):
    x, w = k.s((8, 6, 4), "a"), k.s((4, 4), None, "b")
    def one(x): return lax.pmean(x @ x.T, "i") + lax.psum(1, "i") * lax.all_gather(x, "i").sum(0) @ x.T
    return lambda x, w: jax.vmap(one, axis_name="i", spmd_axis_name="a")(x @ w), (x, w)

@case("4", "2x2 s")
def io_and_tokens(k):
    x = k.s((8, 4), "a", "b")
    def f(x):
        jax.debug.print("sum {}", x.sum()); jax.debug.callback(lambda v: None, x[0, 0])
        return x * 2
    return f, (x,)

@case("4", "2x2 s")
def pure_callback_on_host(k):
    x = k.s((8, 4), "a", "b")
    return lambda x: jax.pure_callback(lambda v: np.sin(v), jax.ShapeDtypeStruct((8, 4), jnp.float32), x, vmap_method="sequential") + 1, (x,)

@case("4 s", "2x2")
def shard_alike_pair(k):
    from jax.experimental.shard_alike import shard_alike
    x = k.s((8, 16), "a")
    def f(x):
        y, z = shard_alike(x * 2, jnp.ones((8, 16)) * 3)
        return y, z, z.T @ y
    return f, (x,)

@case("4 s", "2x2 s")
def custom_partitioned_op(k):
    from jax.experimental.custom_partitioning import custom_partitioning
    @custom_partitioning
    def op(x, w): return jnp.tanh(x) @ w
    op.def_partition(infer_sharding_from_operands=lambda m, a, r: NamedSharding(m, P(a[0].sharding.spec[0])), sharding_rule="i j, j k -> i k",
                     partition=lambda m, a, r: (m, lambda x, w: jnp.tanh(x) @ w, r.sharding, tuple(s.sharding for s in a)))
    return lambda x, w: op(x, w) + 1, (k.s((8, 16), "a"), k.s((16, 8)))
