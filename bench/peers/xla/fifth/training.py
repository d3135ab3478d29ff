# SPDX-License-Identifier: Apache-2.0
"""Losses and optimizers."""
from corpus import case, jax, jnp, lax

I32, BF, F16 = jnp.int32, jnp.bfloat16, jnp.float16


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
    """bf16 compute, f32 master weights, clipping by the global norm, decay of matrices only, a warm-up from the step
    number.
    """
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
    """Muon for matrices of two shapes, transposed if they are tall; bf16 iterations."""
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
    """Adafactor: means of rows and columns instead of the matrix, updates clipped by their root mean square."""
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
    """Inverse fourth roots of preconditioners by coupled Newton iterations in a loop."""
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
    """Four micro-batches in f16 with a loss scale; a branch skips the update if a gradient overflows."""
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
    """MoCo: a queue of keys, positive pairs; a dynamic update advances the queue."""
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
    """Sigmoid loss of all pairs of images and texts, with learned temperature and bias."""
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
    """A student follows the teacher's best tokens and, through a projection, its hidden layer."""
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
    """ListNet, pairwise hinge and discounted gain for lists."""
    B, N = (8, 12) if not k.loose else (6, 11)
    z, y = k.s((B, N), "b", "a"), k.s((B, N), "b", "a")

    def loss(z, y):
        pair = jax.nn.relu(1 - (z[:, :, None] - z[:, None])) * (y[:, :, None] > y[:, None])
        gain = (jnp.exp2(jax.nn.sigmoid(y)) - 1) / jnp.log2(2 + (z[:, None] > z[:, :, None]).sum(2))
        return -(jax.nn.softmax(y) * jax.nn.log_softmax(z)).sum() + pair.mean() - (gain * jax.nn.sigmoid(z)).mean()

    return jax.grad(loss), (z, y)


@case("4", "2x2 s", "2x4 out", "8")
def grpo_step(k):
    """Advantages normalized within groups, clipped ratios, a penalty for the distance to the reference, masked means."""
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
    """Retrieval: row-sharded tables, bags of ids, in-batch negatives corrected by frequency, sparse gradients added by
    scatter.
    """
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
    """Deep and cross network: an outer interaction of features, many small tables stored as one."""
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
