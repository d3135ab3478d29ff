# SPDX-License-Identifier: Apache-2.0
"""Recurrences, fixed points, solvers and whole steps."""
from corpus import case, jax, jnp, lax
from training import BF, I32, each, loss_of, mlp, weights


@case("4", "2x2 s", "8 few", "2x4")
def gru_encoder_decoder_gradient(k):
    """A bidirectional encoder, a decoder with additive attention, teacher forcing."""
    B, T, S, D, V = 8, 5, 6, 16, 24
    p = {"e": k.s((V, D), "b"), "f": k.s((2 * D, 3 * D), None, "b"), "g": k.s((2 * D, 3 * D), None, "b"), "d": k.s((4 * D, 3 * D), None, "b"),
         "a": k.s((3 * D, D), None, "b"), "s": k.s((D,), "b"), "o": k.s((D, V), "b")}
    src, tgt = k.s((B, S), "a", dtype=I32), k.s((B, T), "a", dtype=I32)

    def cell(w, h, x):
        z = jnp.concatenate([x, h], -1) @ w
        r, u, n = jnp.split(z, 3, -1)
        u = jax.nn.sigmoid(u)
        return u * h + (1 - u) * jnp.tanh(jax.nn.sigmoid(r) * n)

    def loss(p, src, tgt):
        x = p["e"][src % V].swapaxes(0, 1)
        zero = jnp.zeros((B, D))

        def run(w, reverse):
            return lax.scan(lambda h, x: (cell(w, h, x),) * 2, zero, x, reverse=reverse)[1]

        memory = jnp.concatenate([run(p["f"], False), run(p["g"], True)], -1).swapaxes(0, 1)

        def step(h, part):
            y, label = part
            s = jnp.tanh(jnp.concatenate([memory, jnp.broadcast_to(h[:, None], (B, S, D))], -1) @ p["a"]) @ p["s"]
            c = jnp.einsum("bs,bsd->bd", jax.nn.softmax(s), memory)
            h = cell(p["d"], h, jnp.concatenate([y, c], -1))
            return h, -jnp.take_along_axis(jax.nn.log_softmax(h @ p["o"]), label[:, None] % V, 1).mean()

        y = p["e"][jnp.pad(tgt, ((0, 0), (1, 0)))[:, :-1] % V].swapaxes(0, 1)
        return lax.scan(step, zero, (y, tgt.T))[1].mean()

    return jax.grad(loss), (p, src, tgt)


@case("4", "2x2 s", "8 perm", "2x4")
def selective_scan_chunked_gradient(k):
    """Mamba-2: chunks as products, states between chunks by a scan, a causal convolution before them."""
    B, T, H, h, N, C = 2, 32, 8, 4, 8, 8
    x, dt, bc = k.s((B, T, H, h), None if k.i == 0 else "a", None, "b" if k.i else "a"), k.s((B, T, H), None, None, "b" if k.i else "a"), k.s((2, B, T, N))
    a, w = k.s((H,)), k.s((4, 1, H * h))

    def loss(a, w, x, dt, bc):
        z = lax.conv_general_dilated(x.reshape(B, T, -1), w, (1,), ((3, 0),), dimension_numbers=("NWC", "WIO", "NWC"), feature_group_count=H * h)
        x = jax.nn.silu(z).reshape(B, T // C, C, H, h)
        d = jax.nn.softplus(dt).reshape(B, T // C, C, H)
        b, c = bc.reshape(2, B, T // C, C, N)
        s = jnp.cumsum(-jnp.exp(jnp.clip(a, -2, 2)) * d, 2)
        near = jnp.where(jnp.tril(jnp.ones((C, C), bool))[:, :, None], jnp.exp(jnp.clip(s[:, :, :, None] - s[:, :, None], -30, 0)), 0)
        y = jnp.einsum("bcqn,bcsn,bcqsh,bcsh,bcshp->bcqhp", c, b, near, d, x)
        states = jnp.einsum("bcsn,bcsh,bcshp->bchnp", b, jnp.exp(s[:, :, -1:] - s) * d, x)

        def carry(m, part):
            add, total = part
            return m * jnp.exp(total)[..., None, None] + add, m

        m = lax.scan(carry, jnp.zeros((B, H, N, h)), (states.swapaxes(0, 1), s[:, :, -1].swapaxes(0, 1)))[1]
        y = y + jnp.einsum("bcqn,cbhnp,bcqh->bcqhp", c, m, jnp.exp(s))
        return jnp.mean(y**2)

    return jax.grad(loss, (0, 1, 2)), (a, w, x, dt, bc)


@case("4", "2x2 s", "8 s", "2x2x2")
def delta_rule_scan_gradient(k):
    """DeltaNet: each token overwrites the state along its key."""
    B, T, H, h = 4, 6, 4, 8
    q, key, v, beta = *(k.s((B, T, H, h), "a", None, "b", "c") for _ in range(3)), k.s((B, T, H), "a", None, "b")

    def loss(q, key, v, beta):
        key = key / (jnp.linalg.norm(key, axis=-1, keepdims=True) + 1e-3)

        def step(m, part):
            q, key, v, b = part
            old = jnp.einsum("bhkv,bhk->bhv", m, key)
            m = m + jnp.einsum("bhk,bhv->bhkv", key, jax.nn.sigmoid(b)[..., None] * (v - old))
            return m, jnp.einsum("bhkv,bhk->bhv", m, q)

        parts = each(lambda a: a.swapaxes(0, 1), (q, key, v, beta))
        return jnp.mean(lax.scan(step, jnp.zeros((B, H, h, h)), parts)[1] ** 2)

    return jax.grad(loss, (0, 1, 2, 3)), (q, key, v, beta)


@case("4", "2x2 s", "8 out", "2x4 few", "3 raw")
def reversible_layers_gradient(k):
    """Additive coupling in a scan, offloaded by a policy that keeps only products."""
    L, B, D = (4, 16, 32) if not k.loose else (3, 11, 20)
    w = k.s((L, 2, D // 2, D // 2), None, None, "a", "b")
    x = k.s((B, D), "a")

    def layer(x, w):
        a, b = jnp.split(x, 2, -1)
        a = a + jnp.tanh(b @ w[0])
        return jnp.concatenate([b + jnp.tanh(a @ w[1]), a], -1), None

    body = jax.checkpoint(layer, policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable)
    return jax.value_and_grad(lambda w, x: jnp.sum(lax.scan(body, x, w)[0] ** 2)), (w, x)


@case("4", "2x2 s", "8")
def deep_equilibrium_anderson(k):
    """A fixed point by Anderson mixing, with a ring of earlier iterates, until it converges or a limit is reached."""
    B, D, M = 8, 16, 3
    w, u, x = k.s((D, D), None, "b"), k.s((D, D), None, "b"), k.s((B, D), "a")

    def solve(w, u, x):
        def step(z):
            return jnp.tanh(0.3 * z @ w / jnp.sqrt(D) + x @ u)

        def body(carry):
            t, z, zs, fs, _ = carry
            f = step(z)
            zs, fs = zs.at[t % M].set(z), fs.at[t % M].set(f)
            g = (fs - zs).transpose(1, 0, 2)
            gram = jnp.einsum("bmd,bnd->bmn", g, g) + 1e-2 * jnp.eye(M)
            a = jnp.linalg.solve(gram, jnp.ones((B, M, 1)))
            a = a / a.sum(1, keepdims=True)
            new = jnp.einsum("bm,mbd->bd", a[..., 0], fs)
            return t + 1, new, zs, fs, jnp.max(jnp.abs(f - z))

        start = (0, jnp.zeros((B, D)), jnp.zeros((M, B, D)), jnp.zeros((M, B, D)), jnp.inf)
        return lax.while_loop(lambda c: (c[0] < 6) & (c[4] > 1e-3), body, start)[1]

    return solve, (w, u, x)


@case("4", "2x2 s", "8 few", "5 raw")
def early_stop_rows(k):
    """Rows that have finished stay unchanged while others continue; a loop that counts them."""
    B, D = (16, 8) if not k.loose else (13, 6)
    x, w = k.s((B, D), "a", "b"), k.s((D, D), None, "b")

    def run(x, w):
        def body(c):
            t, x, done, steps = c
            new = jnp.tanh(x @ w) * 0.9
            done2 = done | (jnp.abs(new).max(1) < 0.2)
            return t + 1, jnp.where(done[:, None], x, new), done2, steps + (~done)

        return lax.while_loop(lambda c: (c[0] < 5) & ~c[2].all(), body, (0, x, jnp.zeros(B, bool), jnp.zeros(B, I32)))[1:]

    return run, (x, w)


@case("4", "2x2 s", "8 out", "2x3 raw")
def population_fitness(k):
    """An evolution strategy: pairs of noise, ranked fitness, and the weighted step."""
    N, D = (16, 32) if not k.loose else (9, 22)
    w, noise, x = k.s((D,), "b"), k.s((N, D), "a", "b"), k.s((12, D))

    def step(w, noise, x):
        def fitness(p):
            return -jnp.mean((jnp.sin(x * p).sum(1) - 1) ** 2)

        f = jnp.concatenate([jax.vmap(fitness)(w + 0.1 * noise), jax.vmap(fitness)(w - 0.1 * noise)])
        rank = jnp.argsort(jnp.argsort(f)) / (2 * N - 1) - 0.5
        return w + 0.1 * (rank[:N] - rank[N:]) @ noise / N, f.max()

    return step, (w, noise, x)


@case("2x2", "4 s", "8 s", "2x2x2 out")
def gauss_newton_products(k):
    """Conjugate gradients over Gauss-Newton products, forward over reverse."""
    p, x = weights(k, 8, 16), k.s((16, 8), "a")

    def step(p, x):
        def out(p):
            return mlp(p, x)

        g = jax.grad(loss_of)(p, x)

        def product(v):
            t = jax.jvp(out, (p,), (v,))[1]
            return each(lambda a, b: a + 0.1 * b, jax.vjp(out, p)[1](t)[0], v)

        def dot(a, b):
            return sum(jnp.vdot(u, v) for u, v in zip(jax.tree.leaves(a), jax.tree.leaves(b)))

        def body(_, c):
            s, r, d = c
            q = product(d)
            n = dot(r, r)
            a = n / dot(d, q)
            r2 = each(lambda u, v: u - a * v, r, q)
            return each(lambda u, v: u + a * v, s, d), r2, each(lambda u, v: u + dot(r2, r2) / n * v, r2, d)

        s = lax.fori_loop(0, 2, body, (each(jnp.zeros_like, g), g, g))[0]
        return each(lambda a, b: a - b, p, s)

    return step, (p, x)


@case("8", "2x4 s", "16", "4x8", "8x8 s", "64 s")
def wide_ffn_zero3_step(k):
    """Three layers whose weights are sharded over all devices and gathered for use; gradients summed in bf16."""
    D, F = 64, 128
    names = "abc"[: len(k.names)]
    p = [{"u": k.s((D, F), names), "d": k.s((F, D), names)} for _ in range(3)]
    x, y = k.s((64, D), names), k.s((64,), names, dtype=I32)

    def step(p, x, y):
        def loss(p):
            h = x.astype(BF)
            for w in p:
                u, d = (k.c(w[n].astype(BF)) for n in "ud")
                h = k.c(h + jax.nn.gelu(h @ u) @ d, names)
            z = h.astype(jnp.float32)
            return (jax.nn.logsumexp(z, -1) - jnp.take_along_axis(z, y[:, None] % D, 1)[:, 0]).mean()

        value, g = jax.value_and_grad(loss)(p)
        return value, each(lambda a, b: a - 0.1 * b, p, g)

    return step, (p, x, y)
