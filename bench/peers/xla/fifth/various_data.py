# SPDX-License-Identifier: Apache-2.0
"""Graphs, indices, data-dependent programs, many devices."""
import numpy as np
from corpus import case, jax, jnp, lax

I32, I8, U8, U32 = jnp.int32, jnp.int8, jnp.uint8, jnp.uint32


@case("4", "2x2 s", "8 out", "5 raw", "2x4 j")
def graph_convolutions_gradient(k):
    """Symmetric normalization by degrees, two layers, sharded edges."""
    N, E, D = (32, 96, 16) if not k.loose else (29, 71, 10)
    p = {"a": k.s((D, D), None, "b"), "c": k.s((D, D), "b")}
    x, edge, weight = k.s((N, D), "b" if k.i == 1 else None), k.s((2, E), None, "a", dtype=I32), k.s((E,), "a")

    def loss(p, x, edge, weight):
        src, dst = edge % N
        degree = jnp.ones(N).at[dst].add(jnp.abs(weight))
        scale = (weight * lax.rsqrt(degree[src] * degree[dst]))[:, None]
        for n in "ac":
            h = x @ p[n]
            x = jax.nn.relu(jax.ops.segment_sum(scale * h[src], dst, N) + h / degree[:, None])
        return jnp.mean(x**2)

    return jax.value_and_grad(loss), (p, x, edge, weight)


@case("4", "2x2 s", "8", "3 raw")
def equivariant_messages_gradient(k):
    """Pairs within a radius, radial functions, vectors and scalars; forces by the gradient of the energy."""
    N, D = (24, 8) if not k.loose else (19, 6)
    r, h, w = k.s((N, 3), "a"), k.s((N, D), "a", "b"), k.s((6, D), None, "b")

    def energy(r, h, w):
        d = r[:, None] - r
        s = jnp.sqrt((d * d).sum(-1) + 1e-3)
        cutoff = jnp.where(s < 2, 0.5 * (jnp.cos(np.pi * s / 2) + 1), 0) * (1 - jnp.eye(N))
        basis = jnp.exp(-((s[..., None] - jnp.linspace(0, 2, 6)) ** 2)) @ w
        m = jnp.einsum("ij,ijd,jd->id", cutoff, basis, h)
        v = jnp.einsum("ij,ijd,ijx->idx", cutoff, basis, d)
        return jnp.sum(jnp.tanh(h + m)) + 0.1 * jnp.sum(v * v)

    return lambda r, h, w: (energy(r, h, w), -jax.grad(energy)(r, h, w)), (r, h, w)


@case("4", "2x2 s", "8 perm", "7 raw")
def union_of_components(k):
    """Labels spread along edges with scatter-min until none changes."""
    N, E = (32, 48) if not k.loose else (31, 40)
    edge = k.s((2, E), None, "a", dtype=I32)

    def run(edge):
        a, b = edge % N

        def body(c):
            t, label, _ = c
            low = jnp.minimum(label[a], label[b])
            new = label.at[a].min(low).at[b].min(low)
            new = new[new]
            return t + 1, new, jnp.any(new != label)

        return lax.while_loop(lambda c: c[2] & (c[0] < 8), body, (0, jnp.arange(N), True))[1]

    return run, (edge,)


@case("4", "2x2 s", "8 out", "5 raw")
def segments_of_sorted_rows(k):
    """Counts, means, maxima and first entries of runs in sorted keys."""
    N, D, S = (48, 4, 10) if not k.loose else (41, 3, 7)
    key, x = k.s((N,), "a", dtype=I32), k.s((N, D), "a", "b")

    def run(key, x):
        order = jnp.argsort(key % S, stable=True)
        key, x = (key % S)[order], x[order]
        count = jax.ops.segment_sum(jnp.ones(N), key, S, indices_are_sorted=True)
        mean = jax.ops.segment_sum(x, key, S) / jnp.maximum(count, 1)[:, None]
        first = jnp.searchsorted(key, jnp.arange(S))
        return count, mean, jax.ops.segment_max(x, key, S), x[jnp.minimum(first, N - 1)], jax.ops.segment_prod(1 + 0.1 * x, key, S)

    return run, (key, x)


@case("4", "2x2 s", "8", "6 raw")
def top_k_masks_and_sorts(k):
    """Magnitude pruning with a global threshold and by rows, two of four kept, sorted pairs."""
    M, N = (16, 32) if not k.loose else (15, 28)
    w, x = k.s((M, N), "a", "b"), k.s((M, N), "a", "b")

    def run(w, x):
        size = jnp.abs(w)
        floor = jnp.sort(size.reshape(-1))[M * N // 2]
        rows = lax.top_k(size, N // 4)[0][:, -1:]
        four = size.reshape(M, N // 4, 4)
        two = four >= jnp.sort(four, -1)[..., 2:3]
        return jnp.where(size > floor, w, 0), jnp.where(size >= rows, x, 0), (w.reshape(four.shape) * two).reshape(M, N), lax.sort((size, x), dimension=0, num_keys=1)

    return run, (w, x)


@case("4", "2x2 s", "8 out", "3 raw", "2x4 s")
def scatters_of_many_forms(k):
    """Rows, columns, windows, batched rows; added, multiplied, set; repeated and out-of-range indices."""
    M, N = (16, 24) if not k.loose else (13, 22)
    x, i, u = k.s((M, N), "a", "b"), k.s((M, 3), "a", dtype=I32), k.s((M, 3), "a")

    def run(x, i, u):
        rows = jnp.arange(M)[:, None]
        return (x.at[rows, i].add(u), x.at[i[:, 0] % M].add(x * 0.5), x.at[:, i[0]].mul(2.0, mode="drop"), x.at[1:-2, ::3].set(7.0),
                lax.dynamic_update_slice(x, u[:4], (i[0, 0] % M, i[0, 1] % N)), x.at[i % M, (i + 1) % N].max(u), x.at[..., -1].set(u[:, 0]))

    return run, (x, i, u)


@case("4", "2x2 s", "8 few", "5 raw", "2x2x2")
def gathers_of_many_forms(k):
    B, M, N = (8, 16, 12) if not k.loose else (7, 13, 11)
    x, i, j = k.s((B, M, N), "a", "b", "c"), k.s((B, 4), "a", dtype=I32), k.s((6,), dtype=I32)

    def run(x, i, j):
        return (jnp.take_along_axis(x, (i % M)[..., None], 1), x[:, j % M], x[j % B, :, j % N], jnp.take(x, j, axis=2, mode="clip"), x[i[:, 0] % B],
                jax.vmap(lambda a, s: lax.dynamic_slice(a, (s[0] % M, s[1] % N), (3, 2)))(x, i), x[::-1, 1::2], jnp.roll(x, 3, 1)[:, :5])

    return run, (x, i, j)


@case("4", "2x2 s", "8 out", "2x3 raw", "7 raw")
def moves_by_shape(k):
    """Space to depth, interleaving, splits into uneven parts, tilings, block diagonals."""
    B, N, D = (4, 16, 12) if not k.loose else (3, 14, 10)
    x = k.s((B, N, D), None, "a", "b")

    def run(x):
        a, b, c = jnp.split(x, (N // 4, N // 2 + 1), 1)
        both = jnp.stack([x, -x], 2).reshape(B, 2 * N, D)
        block = (jnp.eye(B)[:, None, :, None] * x[:, :, None]).reshape(B * N, B * D)
        return (x.reshape(B, N // 2, 2, D).swapaxes(2, 3).reshape(B, N // 2, 2 * D), both, jnp.tile(x, (1, 2, 1))[:, 3:-3], block,
                jnp.concatenate([c, a, b], 1), jnp.moveaxis(x, 1, 0).reshape(N, -1), jnp.pad(x, ((0, 0), (2, 1), (0, 0)), mode="edge"), jnp.repeat(x, 2, 2))

    return run, (x,)


@case("2x2 inner", "4 inner s", "2x4 inner", "2x3 inner s", "2x2x2 inner j")
def constraints_of_all_kinds(k):
    """Replicated, sharded, open, resharded to another order, on uneven sizes."""
    x, y = k.s((14, 20)), k.s((20, 10))

    def run(x, y):
        a = k.c(jnp.sin(k.c(x, "a", "b")) @ k.c(y, "b", "?"), "ab")
        b = k.c(k.c(a.T, "b", "a") + 1, None, "ba")
        return k.c(a, "?", "a"), b.sum(1), k.c(jnp.exp(-k.c(b, "c")), "?", "?")

    return run, (x, y)


@case("4 only", "2x2 only s", "8 only", "2x4 only s", "2x3 only")
def results_alone(k):
    """Annotates only the shardings of results."""
    x, w, v, t = k.s((16, 24)), k.s((24, 48)), k.s((48, 24)), k.s((96, 24))

    def run(x, w, v, t):
        h = jax.nn.relu(x @ w)
        return h @ v, h.sum(0), t[jnp.argmax(h, 1) % 96], jnp.sort(t, 0), w * 2

    return run, (x, w, v, t)


@case("4 max", "2x2 max", "8 max", "2x3 max", "2x4 max")
def one_argument_alone(k):
    """One argument is completely on the last device."""
    x, w, b = k.s((16, 24), "a"), k.s((24, 32), None, "b"), k.s((32,), "b")
    return lambda x, w, b: (jax.nn.softmax(x @ w + b), (x * x).sum(), w.T), (x, w, b)


@case("4 ann", "2x2 ann", "8 ann text", "2x3 ann", "3x4 ann text", "5 ann")
def annotated_attention(k):
    B, T, D, H = 5, 12, 20, 4
    x, w, o = k.s((B, T, D), "a"), k.s((D, 3, H, 5), None, None, "b"), k.s((H, 5, D), "b")

    def run(x, w, o):
        q, key, v = jnp.einsum("btd,dchk->cbhtk", x, w)
        s = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((T, T), bool)), q @ key.swapaxes(2, 3), -1e9))
        return jnp.einsum("bhts,bhsk,hkd->btd", s, v, o)

    return run, (x, w, o)


@case("4", "2x2 s", "8 out", "5 raw")
def running_statistics(k):
    """Moving means and maxima, exponential averages with an associative scan, cumulative sums of three dims."""
    B, T, D = (4, 32, 8) if not k.loose else (3, 27, 6)
    x = k.s((B, T, D), None, "a", "b")

    def run(x):
        total = jnp.cumsum(x, 1)
        mean = (total[:, 4:] - total[:, :-4]) / 4
        decay = jnp.full(x.shape, 0.9)
        smooth = lax.associative_scan(lambda l, r: (l[0] * r[0], l[1] * r[0] + r[1]), (decay, 0.1 * x), axis=1)[1]
        rise = x - jnp.concatenate([x[:, :1], x[:, :-1]], 1)
        return mean, smooth, lax.cummax(x, 1), lax.cumsum(x, 0, reverse=True), jnp.maximum(rise, 0).sum(1), lax.cumlogsumexp(x, 2)

    return run, (x,)


@case("4", "2x2 s", "8 few", "3 raw", "2x4 out")
def quantized_blocks(k):
    """4-bit weights packed in bytes with block scales; 8-bit activations by rows."""
    B, D, F, G = (8, 32, 48, 8) if not k.loose else (7, 24, 30, 8)
    w, scale, x = k.s((D // 2, F), "a", "b", dtype=U8), k.s((D // G, F), "a", "b"), k.s((B, D), None, "a")

    def run(w, scale, x):
        low, high = (w & 15).astype(jnp.float32) - 8, (w >> 4).astype(jnp.float32) - 8
        full = jnp.stack([low, high], 1).reshape(D, F) * jnp.repeat(scale, G, 0)
        top = jnp.abs(x).max(1, keepdims=True) / 127
        q = jnp.round(x / top).astype(I8)
        y = lax.dot_general(q, jnp.round(full).astype(I8), (((1,), (0,)), ((), ())), preferred_element_type=I32)
        return x @ full, y.astype(jnp.float32) * top

    return run, (w, scale, x)


@case("4", "2x2 s", "8", "5 raw", "2x4 out")
def hashes_and_bits(k):
    """Integer hashes, population counts, bitonic exchanges, bytes from words."""
    M, N = (16, 32) if not k.loose else (11, 26)
    x = k.s((M, N), "a", "b", dtype=U32)

    def run(x):
        h = (x ^ (x >> 16)) * np.uint32(0x45D9F3B)
        h = (h ^ (h >> 13)) * np.uint32(0xC2B2AE35)
        words = lax.bitcast_convert_type(x, U8)
        bits = (h[..., None] >> jnp.arange(8, dtype=U32)) & 1
        bloom = jnp.zeros((M, 64), U32).at[jnp.arange(M)[:, None], h % 64].set(1)
        return lax.population_count(h).sum(1), words.max(-1), (bits << jnp.arange(8, dtype=U32)).sum(-1), bloom, lax.clz(h), lax.reduce(h, np.uint32(0), lax.bitwise_xor, (1,))

    return run, (x,)


@case("4", "2x2 s", "8 out", "2x3")
def drawn_numbers(k):
    """Dropout of two kinds, permutations, categorical draws, noise with a sharded shape."""
    key, x = k.s((2,), dtype=U32), k.s((16, 24), "a", "b")

    def run(key, x):
        one, two, three, four = jax.random.split(key, 4)
        keep = jax.random.bernoulli(one, 0.9, x.shape)
        rows = jax.random.bernoulli(two, 0.8, (16, 1))
        return jnp.where(keep & rows, x / 0.72, 0), x + 0.1 * jax.random.normal(three, x.shape), jax.random.categorical(four, x), jax.random.permutation(one, x)

    return run, (key, x)


@case("4", "2x2 s", "8 s", "2x2x2", "2x3 raw")
def branches_by_data(k):
    """A switch between layers by a value, a branch on the norm, nested in a scan."""
    B, D = (8, 16) if not k.loose else (9, 14)
    x, w, way = k.s((B, D), "a"), k.s((3, D, D), None, None, "b"), k.s((4,), dtype=I32)

    def run(x, w, way):
        def layer(x, i):
            y = lax.switch(i % 3, [lambda x: jnp.tanh(x @ w[0]), lambda x: x + jax.nn.relu(x) @ w[1], lambda x: x[::-1] * 0.5], x)
            return lax.cond(jnp.sum(y * y) > 10, lambda y: y / jnp.linalg.norm(y), lambda y: y, y), y.mean(1)

        return lax.scan(layer, x, way)

    return run, (x, w, way)


@case("4", "2x2 s", "8 out", "3 raw")
def lattice_boltzmann(k):
    """Lattice Boltzmann: nine velocities moved by rolls over a sharded grid, collisions, a wall that reflects."""
    N = 16 if not k.loose else 14
    f = k.s((9, N, N), None, "a", "b")
    e = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)]
    back = [0, 3, 4, 1, 2, 7, 8, 5, 6]

    def run(f):
        def step(_, f):
            f = jnp.stack([jnp.roll(f[i], e[i], (0, 1)) for i in range(9)])
            rho = f.sum(0)
            v = jnp.einsum("ixy,ic->cxy", f, jnp.array(e, jnp.float32)) / (rho + 10)
            wall = jnp.arange(N)[:, None] == 0
            new = f + 0.5 * (rho / 9 * (1 + 3 * jnp.einsum("ic,cxy->ixy", jnp.array(e, jnp.float32), v)) - f)
            return jnp.where(wall, f[jnp.array(back)], new)

        return lax.fori_loop(0, 3, step, f)

    return run, (f,)


@case("4", "2x2 s", "8", "7 raw", "2x4 out")
def pairwise_kernels(k):
    """Distances, soft assignments, medoids, a witness function of two samples; chunks by map."""
    M, N, D = (32, 24, 8) if not k.loose else (29, 20, 6)
    x, y = k.s((M, D), "a"), k.s((N, D), "b")

    def run(x, y):
        d = (x * x).sum(1)[:, None] + (y * y).sum(1) - 2 * x @ y.T
        kernel = jnp.exp(-d / D)
        witness = kernel.mean() - jnp.exp(-jnp.abs(x[:, None] - x).sum(-1)).mean()
        return witness, jnp.argmin(d, 1), kernel / kernel.sum(1, keepdims=True), lax.map(lambda r: jnp.abs(r - y).max(1).min(), x), jnp.sort(d, 1)[:, :3].mean(1)

    return run, (x, y)


@case("32", "64 s", "8x8", "4x4x4 s perm", "2x3x5", "7x2 raw", "48 raw", "5x5 v1")
def many_devices_attention(k):
    B, T, H, h = (32, 16, 8, 8) if not k.loose else (9, 13, 7, 6)
    if k.sizes == (2, 3, 5):
        B, H = 30, 15
    x, w, o = k.s((B, T, H * h), "a", None, "c"), k.s((H * h, 3, H, h), "c", None, "b"), k.s((H, h, H * h), "b", None, "c")

    def loss(w, o, x):
        q, key, v = jnp.einsum("btd,dchk->cbhtk", x, w)
        s = jax.nn.softmax(q @ key.swapaxes(2, 3) / np.sqrt(h))
        return jnp.mean(jnp.einsum("bhts,bhsk,hkd->btd", s, v, o) ** 2)

    return jax.value_and_grad(loss, (0, 1)), (w, o, x)
