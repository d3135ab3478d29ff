# SPDX-License-Identifier: Apache-2.0
"""Parts of language models: experts, sampling, losses and blocks of models."""
from corpus import case, jax, jnp, lax
from attention import rms

I32 = jnp.int32


def routed(x, router, experts, room):
    """Fills [experts, room] slots in order of arrival. Returns (combine weights, one-hot dispatch) of [tokens, experts,
    room].
    """
    gates = jax.nn.softmax(x @ router)
    weight, chosen = lax.top_k(gates, 2)
    hot = jax.nn.one_hot(chosen, experts)
    place = jnp.cumsum(hot.reshape(-1, experts), 0).reshape(hot.shape) * hot
    dispatch = jnp.einsum("tje,tjec->tec", hot * (place <= room), jax.nn.one_hot(place - 1, room))
    return dispatch * (weight.sum(-1) / 2)[:, None, None], dispatch, gates


@case("4", "8 s", "2x4", "4x2 s out", "2x2x2")
def moe_shared_expert_gradient(k):
    """Two of eight experts with slots, one shared expert, and the loss that balances the load."""
    T, D, E, F, C = 32, 16, 8, 32, 12
    p = {"r": k.s((D, E)), "u": k.s((E, D, F), "a", None, "b"), "d": k.s((E, F, D), "a", "b"), "su": k.s((D, F), None, "b"), "sd": k.s((F, D), "b")}
    x = k.s((T, D), "a")

    def loss(p, x):
        combine, dispatch, gates = routed(x, p["r"], E, C)
        sent = k.c(jnp.einsum("tec,td->ecd", dispatch, x), "a")
        done = k.c(jnp.einsum("ecf,efd->ecd", jax.nn.gelu(jnp.einsum("ecd,edf->ecf", sent, p["u"])), p["d"]), "a")
        y = jnp.einsum("tec,ecd->td", combine, done) + jax.nn.gelu(x @ p["su"]) @ p["sd"]
        return jnp.mean(y**2) + E * jnp.sum(gates.mean(0) * dispatch.sum(2).mean(0))

    return jax.value_and_grad(loss), (p, x)


@case("4", "2x2 s", "8", "2x4 s")
def moe_gather_weights(k):
    """For few tokens: gathers the weights of each token's two experts instead of sending the tokens."""
    T, D, E, F = 8, 16, 8, 32
    r, u, d, x = k.s((D, E)), k.s((E, D, F), "a", None, "b"), k.s((E, F, D), "a", "b"), k.s((T, D), "b" if k.i == 1 else None)

    def forward(r, u, d, x):
        weight, chosen = lax.top_k(jax.nn.softmax(x @ r), 2)
        h = jax.nn.silu(jnp.einsum("td,tjdf->tjf", x, u[chosen]))
        return jnp.einsum("tj,tjf,tjfd->td", weight, h, d[chosen])

    return forward, (r, u, d, x)


@case("4", "2x4 s", "8 few", "6 raw")
def moe_soft_gradient(k):
    """Soft mixture: every slot is a weighted mean of tokens."""
    B, T, D, E, S, F = (4, 16, 32, 8, 2, 32) if not k.loose else (2, 13, 18, 6, 2, 20)
    p = {"phi": k.s((D, E, S), None, "a"), "u": k.s((E, D, F), "a", None, "b"), "d": k.s((E, F, D), "a", "b")}
    x = k.s((B, T, D), "b" if k.i == 1 else None)

    def loss(p, x):
        logits = jnp.einsum("btd,des->btes", x, p["phi"])
        sent = jnp.einsum("btes,btd->besd", jax.nn.softmax(logits, 1), x)
        done = jnp.einsum("besf,efd->besd", jax.nn.gelu(jnp.einsum("besd,edf->besf", sent, p["u"])), p["d"])
        back = jax.nn.softmax(logits.reshape(B, T, E * S)).reshape(logits.shape)
        return jnp.mean(jnp.einsum("btes,besd->btd", back, done) ** 2)

    return jax.grad(loss), (p, x)


@case("4", "2x4 s", "8 out", "2x2 j", "7 raw")
def nucleus_min_p_sampling(k):
    """Temperature, repetition penalty with a scatter, top-k, min-p and nucleus filters, then a draw with Gumbel noise."""
    B, V, T = (8, 128, 12) if not k.loose else (5, 101, 9)
    logits, past, heat = k.s((B, V), "b", "a"), k.s((B, T), "b", dtype=I32), k.s((B,), "b")
    noise = k.s((B, V), "b", "a")

    def pick(logits, past, heat, noise):
        seen = jnp.zeros((B, V), bool).at[jnp.arange(B)[:, None], past % V].set(True)
        logits = jnp.where(seen, jnp.where(logits > 0, logits / 1.2, logits * 1.2), logits) / (jnp.abs(heat) + 0.5)[:, None]
        floor = lax.top_k(logits, 16)[0][:, -1:]
        logits = jnp.where(logits < floor, -jnp.inf, logits)
        order = jnp.argsort(-logits, -1)
        chance = jax.nn.softmax(jnp.take_along_axis(logits, order, -1))
        keep = (jnp.cumsum(chance, -1) - chance < 0.9) & (chance >= 0.05 * chance[:, :1])
        keep = jnp.put_along_axis(jnp.zeros_like(keep), order, keep, -1, inplace=False)
        return jnp.argmax(jnp.where(keep, logits + 0.01 * noise, -jnp.inf), -1), chance[:, 0]

    return pick, (logits, past, heat, noise)


@case("4", "2x2 s", "2x4 out", "8")
def speculative_verify(k):
    """Draft tokens are accepted up to the first rejection; the rest of the row comes from the target."""
    B, N, V = 8, 4, 64
    p, q = k.s((B, N + 1, V), "a", None, "b"), k.s((B, N, V), "a", None, "b")
    token, u = k.s((B, N), "a", dtype=I32), k.s((B, N), "a")

    def verify(p, q, token, u):
        p, q = jax.nn.softmax(p), jax.nn.softmax(q)
        at = (token % V)[..., None]
        ratio = jnp.take_along_axis(p[:, :N], at, -1) / jnp.take_along_axis(q, at, -1)
        ok = jnp.abs(u) % 1 < ratio[..., 0]
        count = jnp.cumprod(ok, 1).sum(1)
        left = jnp.maximum(p - jnp.pad(q, ((0, 0), (0, 1), (0, 0))), 0)
        new = jnp.argmax(jnp.take_along_axis(left, count[:, None, None], 1)[:, 0], -1)
        out = jnp.where(jnp.arange(N + 1) < count[:, None], jnp.pad(token, ((0, 0), (0, 1))), new[:, None])
        return jnp.where(jnp.arange(N + 1) <= count[:, None], out, -1), count

    return verify, (p, q, token, u)


@case("2x2", "8 s", "4 out", "2x4 s few")
def chunked_vocabulary_loss_gradient(k):
    """Logits for a chunk of tokens at a time, rematerialized in the backward pass."""
    N, D, V, C = 64, 32, 128, 16
    w, x, y = k.s((D, V), None, "b" if k.n("b") > 1 else "a"), k.s((N, D), "a" if k.n("b") > 1 else None), k.s((N,), dtype=I32)

    def loss(w, x, y):
        @jax.checkpoint
        def chunk(total, part):
            logits = part[0] @ w
            label = jnp.take_along_axis(logits, part[1][:, None] % V, 1)[:, 0]
            z = jax.nn.logsumexp(logits, -1)
            return total + (z - label).sum() + 1e-4 * (z * z).sum(), None

        return lax.scan(chunk, 0.0, (x.reshape(-1, C, D), y.reshape(-1, C)))[0] / N

    return jax.value_and_grad(loss, (0, 1)), (w, x, y)


@case("4", "2x2 s", "8 out", "6 raw")
def packed_documents_attention_gradient(k):
    """Several documents per row: masks and positions from segment ids."""
    B, T, H, h = (4, 16, 4, 8) if not k.loose else (2, 15, 6, 4)
    q, key, v = (k.s((B, T, H, h), "b", "a" if k.i != 2 else None, None if k.i != 2 else "a") for _ in range(3))
    doc = k.s((B, T), "b", dtype=I32)

    def loss(q, key, v, doc):
        doc = jnp.cumsum(doc % 3 == 0, 1)
        start = jnp.concatenate([jnp.ones((B, 1), bool), doc[:, 1:] != doc[:, :-1]], 1)
        at = jnp.arange(T) - lax.cummax(jnp.where(start, jnp.arange(T), 0), axis=1)
        q = q * jnp.cos(at)[:, :, None, None]
        live = (doc[:, :, None] == doc[:, None]) & jnp.tril(jnp.ones((T, T), bool))
        s = jnp.where(live[:, None], jnp.einsum("bthk,bshk->bhts", q, key), -1e9)
        return jnp.mean(jnp.einsum("bhts,bshk->bthk", jax.nn.softmax(s), v) ** 2)

    return jax.grad(loss, (0, 1, 2)), (q, key, v, doc)


@case("2x4", "8 s", "2x2x2 s", "4x4", "32 s", "4x2x4 pri s")
def parallel_blocks_scan_gradient(k):
    """PaLM's blocks (one norm, attention and MLP in parallel) over stacked weights, rematerialized in the backward
    pass.
    """
    L, B, T, D, H, h, F = 3, 8, 16, 32, 8, 8, 64
    p = {"n": k.s((L, D)), "in": k.s((L, D, H, 2 * h + F // H), None, "a", "b"), "kv": k.s((L, D, 2 * h), None, "a"), "out": k.s((L, H, h + F // H, D), None, "b", None, "a")}
    x = k.s((B, T, D), "ac")

    def layer(x, w):
        n = rms(x, w["n"])
        z = k.c(jnp.einsum("btd,dhf->bthf", n, w["in"]), "ac", None, "b")
        q, u = z[..., :h], jax.nn.silu(z[..., 2 * h:]) * z[..., h : h + 1]
        key, v = jnp.split(n @ w["kv"], 2, -1)
        s = jnp.where(jnp.tril(jnp.ones((T, T), bool)), jnp.einsum("bthk,bsk->bhts", q, key), -1e9)
        o = jnp.einsum("bhts,bsk->bthk", jax.nn.softmax(s), v)
        return k.c(x + jnp.einsum("bthf,hfd->btd", jnp.concatenate([o, u], -1), w["out"]), "ac"), None

    return jax.grad(lambda p, x: jnp.mean(lax.scan(jax.checkpoint(layer), x, p)[0] ** 2)), (p, x)


@case("2x4 inner", "8 s inner", "2x2x2 inner s", "4 inner j", "2x3 inner s")
def sequence_parallel_inner(k):
    """Only constraints: sharded by tokens between layers, and by heads inside."""
    B, T, D, H, h, F = 4, 24, 32, 8, 4, 64
    p = {"qkv": k.s((D, 3, H, h)), "o": k.s((H, h, D)), "u": k.s((D, F)), "d": k.s((F, D))}
    x = k.s((B, T, D))

    def forward(p, x):
        x = k.c(x, "a", "b")
        q, key, v = jnp.einsum("btd,dchk->cbhtk", rms(x), k.c(p["qkv"], None, None, "b"))
        o = jnp.einsum("bhts,bhsk->bthk", jax.nn.softmax(k.c(q, "a", "b") @ key.swapaxes(2, 3)), v)
        x = k.c(x + jnp.einsum("bthk,hkd->btd", o, p["o"]), "a", "b")
        return k.c(x + k.c(jax.nn.gelu(rms(x) @ p["u"]), "?", None, "b") @ p["d"], "a", "b")

    return forward, (p, x)
