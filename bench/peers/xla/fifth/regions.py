# SPDX-License-Identifier: Apache-2.0
"""shard_map: pipelines, rings, manual exchange of experts, combined with axes for the partitioner."""
import numpy as np
from corpus import case, jax, jnp, lax, P

I32, BF = jnp.int32, jnp.bfloat16


def ring(n, by=1):
    return [(i, (i + by) % n) for i in range(n)]


@case("4", "2x4 s", "8 perm", "3x2 s")
def ring_attention_causal_gradient(k):
    """Ring attention: keys and values circulate; running maxima and sums; later blocks are masked."""
    B, H, h = 2, 4, 8
    n = k.n("a")
    T = 8 * n
    q, key, v = (k.s((B, H, T, h), None, "b", "a") for _ in range(3))

    def local(q, key, v):
        me, t = lax.axis_index("a"), q.shape[2]

        def turn(carry, step):
            key, v, top, total, out = carry
            s = jnp.einsum("bhtk,bhsk->bhts", q, key) / np.sqrt(h)
            ahead = ((me - step) % n) * t + jnp.arange(t) > (me * t + jnp.arange(t))[:, None]
            s = jnp.where(ahead, -1e9, s)
            new = jnp.maximum(top, s.max(-1))
            e, scale = jnp.exp(s - new[..., None]), jnp.exp(top - new)
            out = out * scale[..., None] + jnp.einsum("bhts,bhsk->bhtk", e, v)
            key, v = (lax.ppermute(x, "a", ring(n)) for x in (key, v))
            return (key, v, new, total * scale + e.sum(-1), out), None

        start = (key, v, jnp.full(q.shape[:3], -1e9), jnp.zeros(q.shape[:3]), jnp.zeros_like(q))
        _, _, _, total, out = lax.scan(turn, start, jnp.arange(n))[0]
        return out / total[..., None]

    spec = P(None, "b" if k.n("b") > 1 else None, "a")
    f = k.map(local, (spec,) * 3, spec)
    return jax.grad(lambda q, key, v: jnp.mean(f(q, key, v) ** 2), (0, 1, 2)), (q, key, v)


@case("4", "2x2 s", "8 s", "4x2 perm")
def heads_by_all_to_all(k):
    """Ulysses: the sequence is sharded outside of attention, heads inside, with two exchanges."""
    B, T, H, h = 2, 32, 8, 4
    p, x = {"qkv": k.s((3, 32, H, h)), "o": k.s((H, h, 32))}, k.s((B, T, 32), "b", "a")

    def local(p, x):
        qkv = jnp.einsum("btd,cdhk->cbthk", x, p["qkv"])
        q, key, v = lax.all_to_all(qkv, "a", 3, 2, tiled=True)
        s = jnp.where(jnp.tril(jnp.ones((T, T), bool)), jnp.einsum("bthk,bshk->bhts", q, key), -1e9)
        o = jnp.einsum("bhts,bshk->bthk", jax.nn.softmax(s), v)
        return x + jnp.einsum("bthk,hkd->btd", lax.all_to_all(o, "a", 1, 2, tiled=True), p["o"])

    spec = P("b" if k.n("b") > 1 else None, "a")
    f = k.map(local, (P(), spec), spec)
    return lambda p, x: (f(p, x), jax.grad(lambda p: jnp.mean(f(p, x) ** 2))(p)), (p, x)


@case("4", "2x4 s", "8", "2x2x2 s")
def pipeline_with_automatic_tensor_axis(k):
    """Pipeline stages with permutes over a; the weights of a stage are sharded over b, which the partitioner uses."""
    n, M, B, D, F = k.n("a"), 6, 4, 16, 32
    u, d, x = k.s((n, D, F), "a", None, "b"), k.s((n, F, D), "a", "b"), k.s((M, B, D), None, "c")

    def local(u, d, x):
        me = lax.axis_index("a")

        def tick(c, t):
            h, out = c
            h = jnp.where(me == 0, x[jnp.minimum(t, M - 1)], h)
            h = h + jax.nn.gelu(h @ u[0]) @ d[0]
            at = jnp.maximum(t - n + 1, 0)
            out = jnp.where((me == n - 1) & (t >= n - 1), out.at[at].set(h), out)
            return (lax.ppermute(h, "a", ring(n)), out), None

        out = lax.scan(tick, (x[0] * 0, x * 0), jnp.arange(M + n - 1))[0][1]
        return lax.psum(jnp.where(me == n - 1, out, 0), "a")

    f = k.map(local, (P("a"), P("a"), P()), P(), axis_names={"a"})
    return lambda u, d, x: jax.value_and_grad(lambda u, d: jnp.mean(f(u, d, x) ** 2), (0, 1))(u, d), (u, d, x)


@case("4", "2x4 s", "8 perm", "4x2")
def experts_sent_by_hand(k):
    """Tokens sorted by expert into slots, sent with all-to-all, computed, sent back."""
    n, T, D, F = k.n("a"), 16, 8, 16
    E = 2 * n
    r, u, d, x = k.s((D, E)), k.s((E, D, F), "a"), k.s((E, F, D), "a"), k.s((T * n, D), "a")
    C = 4

    def local(r, u, d, x):
        chosen = jnp.argmax(x @ r, -1)
        hot = jax.nn.one_hot(chosen, E, dtype=I32)
        place = (jnp.cumsum(hot, 0) * hot).sum(1) - 1
        slots = jnp.zeros((E, C, D)).at[chosen, place].set(x, mode="drop")
        sent = lax.all_to_all(slots.reshape(n, E // n, C, D), "a", 0, 0)
        done = jnp.einsum("necf,efd->necd", jax.nn.relu(jnp.einsum("necd,edf->necf", sent, u)), d)
        back = lax.all_to_all(done, "a", 0, 0).reshape(E, C, D)
        y = back.at[chosen, place].get(mode="fill", fill_value=0)
        return y, lax.pmean(hot.astype(jnp.float32).mean(0), "a")

    f = k.map(local, (P(), P("a"), P("a"), P("a")), (P("a"), P()))

    def loss(u, d, r, x):
        y, load = f(r, u, d, x)
        return jnp.mean(y**2) + jnp.sum(load**2)

    return jax.value_and_grad(loss, (0, 1)), (u, d, r, x)


@case("4", "2x2 s", "2x4", "8 s")
def megatron_by_hand_step(k):
    """Column- and row-parallel products with psum, the vocabulary sharded over the axis, gradients with pmean."""
    B, D, F, V = 16, 16, 32, 32
    t = "b" if k.n("b") > 1 else "a"
    rows = P("a") if t == "b" else P()
    p = {"e": k.s((V, D), t), "u": k.s((D, F), None, t), "d": k.s((F, D), t)}
    ids, y = k.s((B,), "a" if t == "b" else None, dtype=I32), k.s((B,), "a" if t == "b" else None, dtype=I32)

    def local(p, ids, y):
        size = V // k.n(t)
        low = lax.axis_index(t) * size

        def loss(p):
            at = ids % V - low
            x = lax.psum(jnp.where(((at >= 0) & (at < size))[:, None], p["e"][jnp.clip(at, 0, size - 1)], 0), t)
            x = x + lax.psum(jax.nn.relu(x @ p["u"]) @ p["d"], t)
            z = x @ p["e"].T
            top = lax.pmax(lax.stop_gradient(z).max(-1), t)
            total = jnp.log(lax.psum(jnp.exp(z - top[:, None]).sum(-1), t)) + top
            at = y % V - low
            mine = jnp.where((at >= 0) & (at < size), jnp.take_along_axis(z, jnp.clip(at, 0, size - 1)[:, None], 1)[:, 0], 0)
            return jnp.mean(total - lax.psum(mine, t))

        value, g = jax.value_and_grad(loss)(p)
        if t == "b":
            value, g = lax.pmean(value, "a"), lax.pmean(g, "a")
        return value, jax.tree.map(lambda a, b: a - 0.1 * b, p, g)

    specs = {"e": P(t), "u": P(None, t), "d": P(t)}
    return k.map(local, (specs, rows, rows), (P(), specs)), (p, ids, y)


@case("4", "2x2 s", "8", "2x3 s")
def local_sgd_then_average(k):
    """Each replica performs separate steps in a loop; then weights are averaged with psum_scatter and a gather."""
    B, D = 48, 24
    w, x = k.s((D, D)), k.s((B, D), "ab")
    axes = k.names

    def local(w, x):
        def body(i, w):
            return w - 0.1 * jax.grad(lambda w: jnp.mean((jnp.tanh(x @ w) - x) ** 2))(w)

        w = lax.fori_loop(0, 3, body, w)
        part = lax.psum_scatter(w, "a", scatter_dimension=0, tiled=True) / k.n("a")
        return lax.pmean(lax.all_gather(part, "a", axis=0, tiled=True), axes)

    return k.map(local, (P(), P(axes)), P()), (w, x)


@case("4", "2x2 s", "8 perm", "2x4")
def sample_sort_by_hand(k):
    """Odd-even merge of neighbouring blocks with permutes."""
    n, T = k.n("a"), 8
    x = k.s((n * T, 4), "a", "b")

    def local(x):
        me = lax.axis_index("a")
        x = jnp.sort(x, 0)
        for turn in range(n):
            partner = [(i, i ^ 1) for i in range(n)] if turn % 2 == 0 else [(i, i + 1 if i % 2 else i - 1) for i in range(1, n - 1)]
            other = lax.ppermute(x, "a", partner)
            both = jnp.sort(jnp.concatenate([x, other]), 0)
            low = me % 2 == turn % 2
            alone = (turn % 2 == 1) & ((me == 0) | (me == n - 1))
            x = jnp.where(alone, x, jnp.where(low, both[:T], both[T:]))
        return x

    spec = P("a", "b" if k.n("b") > 1 else None)
    return k.map(local, spec, spec), (x,)


@case("4", "2x2 s", "8 s")
def stencil_halo_by_hand_gradient(k):
    """A 2-D heat equation with halo rows from neighbours, in a scan, differentiated."""
    n = k.n("a")
    u, c = k.s((8 * n, 16), "a", "b"), k.s((), dtype=jnp.float32)

    def local(u, c):
        def step(u, _):
            up = lax.ppermute(u[-1:], "a", [(i, i + 1) for i in range(n - 1)])
            down = lax.ppermute(u[:1], "a", [(i + 1, i) for i in range(n - 1)])
            v = jnp.concatenate([up, u, down])
            return u + 0.1 * jnp.tanh(c) * (v[2:] + v[:-2] - 2 * u), None

        return lax.scan(step, u, None, length=4)[0]

    f = k.map(local, (P("a"), P()), P("a"), axis_names={"a"})
    return jax.value_and_grad(lambda c, u: jnp.mean(jnp.sin(f(u, c))), (0, 1)), (c, u)


@case("4", "2x2 s", "2x4 s", "8")
def regions_between_automatic_layers(k):
    """A region for the norm over a sharded width, automatically sharded products before and after it, all in one scan."""
    L, B, D = 3, 8, 32
    w, x = k.s((L, D, D), None, None, "a"), k.s((B, D), "b")

    def norm(x):
        return x * lax.rsqrt(lax.pmean(jnp.mean(x * x, -1, keepdims=True), "a") + 1e-6)

    normed = k.map(norm, P(None, "a"), P(None, "a"), axis_names={"a"})

    def layer(x, w):
        return x + jax.nn.silu(normed(x @ w)), None

    return jax.value_and_grad(lambda w, x: jnp.sum(lax.scan(layer, x, w)[0] ** 2)), (w, x)


@case("2x2 s", "2x4", "2x2x2 s", "4x2 perm")
def two_regions_of_two_axes(k):
    """A region over a that contains another one over b."""
    x, w = k.s((8, 16), "a", "b"), k.s((16, 8), "b")

    def inner(x, w):
        return lax.psum(x @ w, "b")

    def outer(x, w):
        y = jax.shard_map(inner, in_specs=(P(None, "b"), P("b")), out_specs=P(), axis_names={"b"}, check_vma=False)(x, w)
        return y - lax.pmean(y.mean(0), "a")

    return k.map(outer, (P("a"), P()), P("a"), axis_names={"a"}), (x, w)


@case("8", "2x4 s", "4x4", "2x16 s")
def tree_reductions_by_hand(k):
    """Sums by recursive doubling, scans over devices, a broadcast from one device, gathers without tiling."""
    n = k.n(k.names[-1])
    last = k.names[-1]
    x = k.s((n * 4, 6), last)

    def local(x):
        me, total, count = lax.axis_index(last), x, 1
        before = x.sum(0)
        while count < n:
            total = total + lax.ppermute(total, last, [(i, i ^ count) for i in range(n)])
            shifted = lax.ppermute(before, last, [(i, i + count) for i in range(n - count)])
            before = before + jnp.where(me >= count, shifted, 0)
            count *= 2
        first = lax.psum(jnp.where(me == 0, x, 0), last)
        return total, before[None], first, lax.all_gather(x.max(), last), lax.pmin(x, last), lax.psum(1, last) * x

    return k.map(local, P(last), (P(), P(last), P(), P(), P(), P(last))), (x,)


@case("4", "2x2 s", "8")
def embedding_tables_by_hand(k):
    """Requests rows by exchanging ids, then exchanges the rows; ids out of range give zeros."""
    n, N, D, B = k.n("a"), 32, 8, 16
    table, ids = k.s((N, D), "a"), k.s((B * n,), "a", dtype=I32)

    def local(table, ids):
        low = lax.axis_index("a") * table.shape[0]
        wanted = lax.all_gather(ids, "a", tiled=True) - low
        fits = (wanted >= 0) & (wanted < table.shape[0])
        rows = jnp.where(fits[:, None], table[jnp.clip(wanted, 0, table.shape[0] - 1)], 0)
        return lax.psum_scatter(rows, "a", tiled=True)

    f = k.map(local, (P("a"), P("a")), P("a"))
    return jax.value_and_grad(lambda t, i: jnp.sum(f(t, i) ** 2)), (table, ids)
