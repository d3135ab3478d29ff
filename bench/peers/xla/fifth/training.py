# SPDX-License-Identifier: Apache-2.0
"""Losses, optimizers, whole steps, recurrences and loops."""
import numpy as np
from corpus import case, jax, jnp, lax

I32, BF, F16, U32 = jnp.int32, jnp.bfloat16, jnp.float16, jnp.uint32


def weights(k, D=32, F=64):
    return {"w": k.s((D, F), "a", "b"), "b": k.s((F,), "b"), "v": k.s((F, D), "b", "a")}


def mlp(p, x):
    return jax.nn.gelu(x @ p["w"] + p["b"]) @ p["v"]


def loss_of(p, x):
    return jnp.mean((mlp(p, x) - x) ** 2)


def each(function, *trees):
    return jax.tree.map(function, *trees)


def norm_of(tree):
    return jnp.sqrt(sum(jnp.sum(leaf.astype(jnp.float32) ** 2) for leaf in jax.tree.leaves(tree)))


@case("4", "2x2 s", "8 out", "2x4", "2x2x2 s", "2x4 s pri")
def adamw_mixed_clipped(k):
    """bf16 compute, f32 masters, clipping by the norm of all, decay of matrices only, a warm-up that the step gives."""
    p, m, v = weights(k), weights(k), weights(k)
    x, step = k.s((16, 32), "ac"), k.s((), dtype=I32)

    def update(p, m, v, x, step):
        low = each(lambda a: a.astype(BF), p)
        loss, g = jax.value_and_grad(lambda q: loss_of(q, x.astype(BF)).astype(jnp.float32))(low)
        g = each(lambda a: a.astype(jnp.float32), g)
        g = each(lambda a: a * jnp.minimum(1.0, 1.0 / (norm_of(g) + 1e-6)), g)
        m, v = each(lambda a, b: 0.9 * a + 0.1 * b, m, g), each(lambda a, b: 0.95 * a + 0.05 * b * b, v, g)
        rate = 1e-2 * jnp.minimum((jnp.abs(step) % 100 + 1) / 10.0, 1.0)
        return loss, each(lambda a, b, c: a - rate * (b / (jnp.sqrt(jnp.abs(c)) + 1e-8) + (0.1 * a if a.ndim > 1 else 0)), p, m, v), m, v

    return update, (p, m, v, x, step)


@case("4", "2x2 s", "8 out", "2x4 few")
def lion_sign_update(k):
    p, m, x = weights(k), weights(k), k.s((16, 32), "a")

    def update(p, m, x):
        g = jax.grad(loss_of)(p, x)
        new = each(lambda a, b, c: a - 1e-3 * (jnp.sign(0.9 * b + 0.1 * c) + 0.1 * a), p, m, g)
        return new, each(lambda b, c: 0.99 * b + 0.01 * c, m, g)

    return update, (p, m, x)


@case("4", "2x2 s", "8", "2x4 s", "3x2 raw", "4x4")
def newton_schulz_updates(k):
    """Muon over matrices of two shapes, transposed where tall; bf16 iterations."""
    M, N = (32, 64) if not k.loose else (21, 35)
    g, m = {"w": k.s((M, N), "a", "b"), "v": k.s((N, M), "b", "a")}, {"w": k.s((M, N), "a", "b"), "v": k.s((N, M), "b", "a")}

    def one(m):
        tall = m.shape[0] > m.shape[1]
        x = (m.T if tall else m).astype(BF)
        x = x / (jnp.linalg.norm(x) + 1e-7)
        for a, b, c in ((4.0, -7.2, 3.4), (3.9, -6.4, 2.6), (2.9, -3.6, 1.4)):
            s = x @ x.T
            x = a * x + (b * s + c * s @ s) @ x
        x = x.astype(jnp.float32) * max(1.0, m.shape[0] / m.shape[1]) ** 0.5
        return x.T if tall else x

    def update(g, m):
        m = each(lambda a, b: 0.95 * a + b, m, g)
        return each(one, each(lambda a, b: 0.95 * a + b, m, g)), m

    return update, (g, m)


@case("4", "2x2 s", "8 out", "2x4 s few", "5 raw")
def factored_second_moment(k):
    """Adafactor: rows' and columns' means in place of the matrix, updates clipped by their root mean square."""
    D, F = (32, 64) if not k.loose else (29, 43)
    w, r, c = k.s((D, F), "a", "b"), k.s((D,), "a"), k.s((F,), "b")
    g = k.s((D, F), "a", "b")

    def update(w, r, c, g):
        s = g * g + 1e-30
        r, c = 0.9 * jnp.abs(r) + 0.1 * s.mean(1), 0.9 * jnp.abs(c) + 0.1 * s.mean(0)
        u = g * lax.rsqrt(r / r.mean())[:, None] * lax.rsqrt(c)
        u = u / jnp.maximum(1.0, jnp.sqrt(jnp.mean(u * u)))
        return w - 0.01 * jnp.maximum(1e-3, jnp.sqrt(jnp.mean(w * w))) * u, r, c

    return update, (w, r, c, g)


@case("2x2", "4 s", "8 out")
def shampoo_roots(k):
    """Preconditioners' inverse fourth roots by coupled Newton iterations in a loop."""
    D, F = 16, 24
    w, l, r = k.s((D, F), "a", "b"), k.s((D, D), "a"), k.s((F, F), "b")
    x = k.s((32, D), "a")

    def root(m):
        n = m.shape[0]
        m = m / (jnp.trace(m) + 1e-6) + 1e-3 * jnp.eye(n)

        def body(_, c):
            h, m = c
            t = (5 * jnp.eye(n) - m) / 4
            return h @ t, t @ t @ t @ t @ m

        return lax.fori_loop(0, 4, body, (jnp.eye(n), m))[0]

    def update(w, l, r, x):
        g = jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)
        l, r = l + g @ g.T, r + g.T @ g
        return w - 0.1 * root(l @ l.T) @ g @ root(r @ r.T), l, r

    return update, (w, l, r, x)


@case("2x2", "8 s", "4 out")
def schedule_free_with_average(k):
    p, z, x = weights(k), weights(k), k.s((16, 32), "a")
    t = k.s((), dtype=jnp.float32)

    def update(p, z, x, t):
        t = jnp.abs(t) + 1
        y = each(lambda a, b: 0.9 * a + 0.1 * b, p, z)
        value, g = jax.value_and_grad(loss_of)(y, x)
        bad = ~jnp.isfinite(norm_of(g))
        z2 = each(lambda a, b: jnp.where(bad, a, a - 0.1 * b), z, g)
        return value, each(lambda a, b: a + (b - a) / t, p, z2), z2, bad

    return update, (p, z, x, t)


@case("4", "2x2 s", "8 few", "2x4")
def loss_scale_f16_accumulation(k):
    """Four micro-batches in f16 with a loss scale; the update is skipped in a branch where a gradient overflows."""
    p, x = weights(k), k.s((4, 16, 32), None, "a")

    def update(p, x):
        def micro(total, part):
            g = jax.grad(lambda q: loss_of(each(lambda a: a.astype(F16), q), part.astype(F16)).astype(jnp.float32) * 128)(p)
            return each(jnp.add, total, g), jnp.mean(part)

        g, means = lax.scan(micro, each(jnp.zeros_like, p), x)
        fine = jnp.isfinite(norm_of(g))
        return lax.cond(fine, lambda p, g: each(lambda a, b: a - 0.1 * b / 512, p, g), lambda p, g: p, p, g), means, fine

    return update, (p, x)


@case("4", "2x2 s", "8", "2x3 raw", "4x4 s")
def contrastive_queue_gradient(k):
    """MoCo: a queue of keys, positive pairs, and the queue moved on by a dynamic update."""
    B, D, Q = (16, 16, 64) if not k.loose else (10, 14, 45)
    w, x, y, queue, at = k.s((D, D), None, "b"), k.s((B, D), "a"), k.s((B, D), "a"), k.s((Q, D), "a"), k.s((), dtype=I32)

    def unit(x):
        return x / (jnp.linalg.norm(x, axis=-1, keepdims=True) + 1e-6)

    def loss(w, x, y, queue, at):
        q, key = unit(x @ w), lax.stop_gradient(unit(y @ w))
        z = jnp.concatenate([(q * key).sum(1, keepdims=True), q @ unit(queue).T], 1) / 0.2
        new = lax.dynamic_update_slice(queue, key, (at % Q, 0))
        return -jax.nn.log_softmax(z)[:, 0].mean(), new

    return jax.value_and_grad(loss, has_aux=True), (w, x, y, queue, at)


@case("4", "2x2 s", "8 out", "2x4")
def siglip_gradient(k):
    """Sigmoid loss of all pairs of images and texts, with a learned temperature and bias."""
    B, D = 32, 16
    x, y, t = k.s((B, D), "a", "b"), k.s((B, D), "a", "b"), k.s((2,))

    def loss(x, y, t):
        x, y = (z / (jnp.linalg.norm(z, axis=-1, keepdims=True) + 1e-6) for z in (x, y))
        z = jnp.exp(t[0]) * x @ y.T + t[1]
        return -jax.nn.log_sigmoid(z * (2 * jnp.eye(B) - 1)).sum() / B

    return jax.value_and_grad(loss, (0, 1, 2)), (x, y, t)


@case("4", "2x2 s", "8 few", "3 raw")
def ctc_forward_gradient(k):
    """Alignments of labels with frames by a scan in log space; rows of different lengths."""
    B, T, V, L = (8, 12, 16, 4) if not k.loose else (5, 9, 11, 3)
    logits, labels, length = k.s((B, T, V), "a", None, "b"), k.s((B, L), "a", dtype=I32), k.s((B,), "a", dtype=I32)

    def loss(logits, labels, length):
        p, S = jax.nn.log_softmax(logits), 2 * L + 1
        labels = labels % (V - 1) + 1
        wide = jnp.zeros((B, S), I32).at[:, 1::2].set(labels)
        skip = jnp.pad(labels[:, 1:] != labels[:, :-1], ((0, 0), (1, 0)))
        skip = jnp.zeros((B, S), bool).at[:, 1::2].set(skip)
        emit = jnp.take_along_axis(p, jnp.broadcast_to(wide[:, None], (B, T, S)), 2).swapaxes(0, 1)

        def step(alpha, part):
            e, t = part
            one, two = (jnp.pad(alpha, ((0, 0), (n, 0)), constant_values=-1e9)[:, :S] for n in (1, 2))
            new = jax.nn.logsumexp(jnp.stack([alpha, one, jnp.where(skip, two, -1e9)]), 0) + e
            return jnp.where((t < T - jnp.abs(length) % 3)[:, None], new, alpha), None

        start = jnp.full((B, S), -1e9).at[:, :2].set(emit[0, :, :2])
        alpha = lax.scan(step, start, (emit[1:], jnp.arange(1, T)))[0]
        return -jnp.logaddexp(alpha[:, -1], alpha[:, -2]).mean()

    return jax.value_and_grad(loss), (logits, labels, length)


@case("4", "2x2 s", "8 out", "2x4 few")
def distillation_topk_gradient(k):
    """A student follows the teacher's best tokens and the hidden layer behind a projection."""
    B, T, V, D = 4, 8, 64, 16
    s, t = k.s((B, T, V), "a", None, "b"), k.s((B, T, V), "a", None, "b")
    h, g, w = k.s((B, T, D), "a"), k.s((B, T, 2 * D), "a", None, "b"), k.s((D, 2 * D), None, "b")

    def loss(s, w, t, h, g):
        value, at = lax.top_k(t, 8)
        picked = jnp.take_along_axis(jax.nn.log_softmax(s / 2), at, -1)
        return -(jax.nn.softmax(value / 2) * picked).sum(-1).mean() + jnp.mean((h @ w - g) ** 2)

    return jax.grad(loss, (0, 1)), (s, w, t, h, g)


@case("4", "2x2 s", "8 perm", "5 raw")
def ranking_losses_gradient(k):
    """ListNet, pairwise hinge and discounted gain over lists."""
    B, N = (8, 12) if not k.loose else (6, 11)
    z, y = k.s((B, N), "b", "a"), k.s((B, N), "b", "a")

    def loss(z, y):
        pair = jax.nn.relu(1 - (z[:, :, None] - z[:, None])) * (y[:, :, None] > y[:, None])
        gain = (jnp.exp2(jax.nn.sigmoid(y)) - 1) / jnp.log2(2 + (z[:, None] > z[:, :, None]).sum(2))
        return -(jax.nn.softmax(y) * jax.nn.log_softmax(z)).sum() + pair.mean() - (gain * jax.nn.sigmoid(z)).mean()

    return jax.grad(loss), (z, y)


@case("4", "2x2 s", "2x4 out", "8")
def grpo_step(k):
    """Advantages normed within groups, clipped ratios, a penalty towards the reference, masked means."""
    G, N, T, V = 4, 4, 8, 32
    D = 16
    w, h = k.s((D, V), None, "b"), k.s((G, N, T, D), "a")
    token, old, ref, reward = k.s((G, N, T), "a", dtype=I32), k.s((G, N, T), "a"), k.s((G, N, T), "a"), k.s((G, N), "a")

    def loss(w, h, token, old, ref, reward):
        p = jax.nn.log_softmax(h @ w)
        new = jnp.take_along_axis(p, token[..., None] % V, -1)[..., 0]
        gain = ((reward - reward.mean(1, keepdims=True)) / (reward.std(1, keepdims=True) + 1e-4))[..., None]
        ratio = jnp.exp(jnp.clip(new - old, -2, 2))
        kl = jnp.exp(jnp.clip(ref - new, -2, 2)) - (ref - new) - 1
        live = token % 5 > 0
        each_one = -jnp.minimum(ratio * gain, jnp.clip(ratio, 0.8, 1.2) * gain) + 0.04 * kl
        return (each_one * live).sum() / jnp.maximum(live.sum(), 1) - 0.01 * (p * jnp.exp(p)).sum(-1).mean()

    return jax.value_and_grad(loss), (w, h, token, old, ref, reward)


@case("4", "2x2 s", "8 out", "3 raw", "2x4 s")
def two_towers_sampled_softmax(k):
    """Retrieval: tables cut by rows, bags of ids, in-batch negatives corrected by frequency, sparse gradients added by scatter."""
    B, L, N, D = (16, 4, 64, 16) if not k.loose else (11, 3, 50, 10)
    u, v = k.s((N, D), "a", "b" if k.i == 1 else None), k.s((N, D), "a")
    uid, vid, often = k.s((B, L), "b", dtype=I32), k.s((B,), "b", dtype=I32), k.s((N,))

    def update(u, v, uid, vid, often):
        uid, vid = uid % N, vid % N
        mask = uid % 7 > 0

        def loss(a, b):
            q = (a * mask[..., None]).sum(1) / jnp.maximum(mask.sum(1), 1)[:, None]
            z = q @ b.T - jnp.log1p(jnp.abs(often[vid]))
            return -jnp.diag(jax.nn.log_softmax(z)).mean()

        value, (ga, gb) = jax.value_and_grad(loss, (0, 1))(u[uid], v[vid])
        return value, u.at[uid].add(-0.1 * ga), v.at[vid].add(-0.1 * gb)

    return update, (u, v, uid, vid, often)


@case("4", "2x2 s", "8", "7 raw")
def feature_crosses_gradient(k):
    """Deep and cross network: an outer interaction of features, many small tables as one."""
    B, F, D = (16, 6, 8) if not k.loose else (13, 5, 6)
    table, w, x, ids = k.s((F * 10, D), "a"), k.s((2, F * D, F * D), None, None, "b"), k.s((B, F), "b"), k.s((B, F), "b", dtype=I32)

    def loss(table, w, x, ids):
        e = table[ids % 10 + 10 * jnp.arange(F)] * x[..., None]
        z0 = z = e.reshape(B, F * D)
        for i in range(2):
            z = z0 * (z @ w[i]) + z
        pair = jnp.einsum("bfd,bgd->bfg", e, e)[:, *jnp.triu_indices(F, 1)]
        return jnp.mean(jnp.log1p(jnp.exp(-jnp.abs(z.sum(1) + pair.sum(1)))))

    return jax.grad(loss, (0, 1)), (table, w, x, ids)


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
    """Mamba-2: chunks by products, states between chunks by a scan, a causal convolution before."""
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
    """DeltaNet: a state that each token overwrites along its key."""
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
    """A fixed point by Anderson's mixing, with a ring of former iterates, until it stands or time is up."""
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
    """Rows that are done stand still while others go on; a loop that counts them."""
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
    """An evolution strategy: noise of pairs, ranked fitness, and the step that they vote for."""
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
    """Three layers whose weights lie over all devices, gathered for use; gradients summed in bf16."""
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
