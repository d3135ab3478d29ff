# SPDX-License-Identifier: Apache-2.0
"""Data analysis, signals, images and sorting: nineteen of the forty cases that corpus.py writes as numerics."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from kit import case, pin


@case("data=8", ["f32[500,6] data .", "f32[9,6] . ."], (". .", "data", ""))
def kmeans_lloyd(points, centres):
    """Five rounds; a centre that nothing is near to stays where it is."""
    def far(centres):
        return jnp.sum((points[:, None] - centres[None]) ** 2, -1)

    def step(_, centres):
        pick = jnp.argmin(far(centres), 1)
        total = jax.ops.segment_sum(points, pick, 9)
        count = jnp.bincount(pick, length=9)[:, None]
        return jnp.where(count > 0, total / jnp.maximum(count, 1), centres)

    centres = lax.fori_loop(0, 5, step, centres)
    return centres, jnp.argmin(far(centres), 1), jnp.min(far(centres), 1).sum()


@case("data=16 feature=4", ["f32[256,36] data feature", "f32[36] feature"], ("feature", ""))
def pca_power_iteration(x, v):
    x = x - x.mean(0)

    def step(state):
        v, old, i = state
        w = x.T @ (x @ v)
        size = jnp.linalg.norm(w)
        return w / size, size, i + 1

    v, size, _ = lax.while_loop(lambda s: s[2] < 30, step, (v / jnp.linalg.norm(v), 0.0, 0))
    return v, size / 255


@case("data=2 feature=4", ["f32[128,64] data feature", "f32[64,3] feature ."], ("feature .", "."))
def subspace_iteration_gram_schmidt(x, q):
    def orthogonal(q):
        columns = []
        for i in range(3):
            v = q[:, i]
            for u in columns:
                v = v - jnp.vdot(u, v) * u
            columns.append(v / jnp.linalg.norm(v))
        return jnp.stack(columns, 1)

    q = lax.fori_loop(0, 8, lambda _, q: orthogonal(x.T @ (x @ q)), orthogonal(q))
    return q, jnp.square(x @ q).sum(0)


@case("particle=64", ["f32[256,2] particle .", "f32[256] particle", "f32[2]", "f32[]"], ("particle .", "particle"))
def particle_filter_resample(x, logw, seen, u):
    """Weights by a measurement, systematic resampling with one uniform number."""
    logw = logw - 0.5 * jnp.sum((x - seen) ** 2, -1)
    w = jax.nn.softmax(logw)
    edges = jnp.cumsum(w)
    at = jnp.searchsorted(edges, (jnp.arange(256) + u) / 256)
    few = 1 / jnp.sum(w * w) < 128
    x = jnp.where(few, x[jnp.clip(at, 0, 255)], x)
    return x, jnp.where(few, -jnp.log(256.0), jnp.log(w))


@case("row=4 col=16", ["s32[16,64] row col", "f32[16,64] row col"], ("row col", "row col"))
def bitonic_sort_pairs(keys, values):
    """A bitonic network's last six stages on rows, by reshapes that pair what is compared."""
    for stride in (32, 16, 8, 4, 2, 1):
        k, v = (a.reshape(16, -1, 2, stride) for a in (keys, values))
        swap = (k[:, :, 0] > k[:, :, 1])[:, :, None]
        keys, values = (jnp.where(swap, a[:, :, ::-1], a).reshape(16, 64) for a in (k, v))
    return keys, values


@case("row=8", ["s32[200] row", "f32[200] row", "bf16[200,12] row ."], ("row", "row", "row ."))
def lexicographic_sort_payload(major, minor, payload):
    """Rows by a key, then by another from high to low, and their data after them."""
    major, _, order = lax.sort((major, -minor, jnp.arange(200)), num_keys=2)
    new = jnp.concatenate([jnp.ones(1, bool), major[1:] != major[:-1]])
    return jnp.cumsum(new), minor[order], payload[order]


@case("height=4 width=5", ["u8[4,48,40] . height width"], ". height width")
def histogram_equalisation(images):
    """Counts of 256 levels an image by a scatter-add, and a table that is looked up."""
    def one(image):
        counts = jnp.zeros(256, jnp.int32).at[image.astype(jnp.int32)].add(1)
        total = jnp.cumsum(counts)
        low = jnp.min(jnp.where(counts > 0, total, image.size))
        table = jnp.round((total - low) * 255.0 / jnp.maximum(image.size - low, 1))
        return table.astype(jnp.uint8)[image.astype(jnp.int32)]

    return jax.vmap(one)(images)


@case("time=2", ["f64[6,100] . time"], (". time", ". time", ". time", "."), x64=True)
def drawdown_cumulative(returns):
    """Cumulative products, maxima and sums along a dim that is cut; a rolling mean as a difference of sums."""
    wealth = jnp.cumprod(1 + 0.01 * jnp.tanh(returns), 1)
    peak = lax.cummax(wealth, 1)
    total = jnp.pad(jnp.cumsum(returns, 1), ((0, 0), (1, 0)))
    rolling = (total[:, 10:] - total[:, :-10]) / 10
    return wealth, peak, lax.cumlogsumexp(returns, 1, reverse=True), jnp.max((peak - wealth) / peak, 1) + rolling[:, -1]


@case("channel=2 time=16", ["f32[6,512] channel time", "f32[31]"], "channel time")
def fir_decimate_then_energy(signal, taps):
    """A windowed filter that keeps every fourth sample, then the energy of what is near."""
    taps = taps * jnp.hanning(31)
    y = lax.conv_general_dilated(signal[:, None], (taps / taps.sum())[None, None, ::-1], (4,), ((15, 15),))[:, 0]
    near = lax.reduce_window(y * y, 0.0, lax.add, (1, 9), (1, 1), ((0, 0), (4, 4)))
    return y / jnp.sqrt(near + 1e-3)


@case("height=3 width=2", ["f16[3,44,36] . height width"], (". height width", ". height width"))
def canny_nonmax_suppression(image):
    """Blurred by two one-dimensional filters, Sobel's differences, and what is less than its neighbours left out."""
    g = jnp.array([1, 4, 6, 4, 1], jnp.float16) / 16
    x = jnp.pad(image, ((0, 0), (2, 2), (2, 2)), mode="edge")
    x = sum(g[i] * x[:, i : i + 44] for i in range(5))
    x = sum(g[i] * x[:, :, i : i + 36] for i in range(5))
    dx, dy = jnp.roll(x, -1, 2) - jnp.roll(x, 1, 2), jnp.roll(x, -1, 1) - jnp.roll(x, 1, 1)
    size = jnp.sqrt(dx * dx + dy * dy)
    flat = jnp.abs(dx) > jnp.abs(dy)
    near = [jnp.where(flat, jnp.roll(size, s, 2), jnp.roll(size, s, 1)) for s in (1, -1)]
    return jnp.where((size >= near[0]) & (size >= near[1]), size, 0), flat.astype(jnp.int32)


@case("row=8 col=2", ["f32[64,50] row col", "f32[64,4] row .", "f32[4,50] . col"], ("row .", ". col", ""))
def nmf_multiplicative_updates(v, w, h):
    v, w, h = jnp.abs(v), jnp.abs(w), jnp.abs(h)

    def step(_, wh):
        w, h = wh
        h = h * (w.T @ v) / (w.T @ w @ h + 1e-9)
        return w * (v @ h.T) / (w @ (h @ h.T) + 1e-9), h

    w, h = lax.fori_loop(0, 15, step, (w, h))
    return w, h, jnp.linalg.norm(v - w @ h)


@case("rating=4 factor=2", ["s32[600] rating", "s32[600] rating", "f32[600] rating", "f32[80,8] . factor",
      "f32[60,8] . factor"], (". factor", ". factor"))
def ratings_factorisation_epoch(user, item, stars, u, v):
    """Ratings in three batches, each a gather, a product and two scatters that add."""
    def batch(carry, now):
        u, v = carry
        i, j, s = now
        p, q = u[i], v[j]
        e = (s - jnp.sum(p * q, -1))[:, None]
        u = u.at[i].add(0.05 * (e * q - 0.02 * p), mode="drop")
        return (u, v.at[j].add(0.05 * (e * p - 0.02 * q), mode="drop")), jnp.sum(e * e)

    (u, v), _ = lax.scan(batch, (u, v), tuple(pin(a.reshape(3, 200), ". rating") for a in (user, item, stars)))
    return u, v


@case("row=6", ["f32[96,10] row .", "s32[96] row"], ("row .", ". .", "."))
def ragged_segment_softmax(x, lengths):
    """Rows in groups by their ids, which are sorted first: a softmax in each group, and its mean and its largest."""
    ids = jnp.sort(lengths % 12)
    top = jax.ops.segment_max(x, ids, 12, indices_are_sorted=True)
    e = jnp.exp(x - top[ids])
    p = e / jax.ops.segment_sum(e, ids, 12, indices_are_sorted=True)[ids]
    count = jnp.diff(jnp.searchsorted(ids, jnp.arange(13)))
    return p, jax.ops.segment_sum(p * x, ids, 12), count


@case("point=32", ["f64[128] point", "f64[20] .", "f64[7] ."], ("point", "point"), x64=True)
def clenshaw_and_rational(x, chebyshev, pade):
    """A Chebyshev series by Clenshaw's recurrence and a rational function by Horner's."""
    x = jnp.tanh(x)

    def step(carry, c):
        b1, b2 = carry
        return (c + 2 * x * b1 - b2, b1), None

    (b1, b2), _ = lax.scan(step, (0 * x, 0 * x), chebyshev[1:], reverse=True)
    return chebyshev[0] + x * b1 - b2, jnp.polyval(pade[:4], x) / (1 + jnp.polyval(pade[4:], x) ** 2)


@case("height=3 width=2", ["f32[30,20,3] height width .", "f32[2,3] . ."], "height width .")
def affine_warp_bilinear(image, matrix):
    y, x = jnp.meshgrid(jnp.arange(30.0), jnp.arange(20.0), indexing="ij")
    at = pin(jnp.einsum("ij,jyx->iyx", matrix, jnp.stack([y, x, jnp.ones_like(x)])), ". height width")
    low = jnp.floor(at)
    part = at - low

    def pick(dy, dx):
        i, j = low[0].astype(jnp.int32) + dy, low[1].astype(jnp.int32) + dx
        inside = (i >= 0) & (i < 30) & (j >= 0) & (j < 20)
        weight = jnp.abs(1 - dy - part[0]) * jnp.abs(1 - dx - part[1])
        return jnp.where(inside, weight, 0)[..., None] * image[jnp.clip(i, 0, 29), jnp.clip(j, 0, 19)]

    return pick(0, 0) + pick(0, 1) + pick(1, 0) + pick(1, 1)


@case("height=4", ["bf16[2,22,26] . height ."], ". height .")
def median_filter_3x3(image):
    x = jnp.pad(image, ((0, 0), (1, 1), (1, 1)), mode="reflect")
    patch = jnp.stack([x[:, i : i + 22, j : j + 26] for i in range(3) for j in range(3)], -1)
    return jnp.sort(patch, -1)[..., 4]


@case("data=2 mode=4", ["f32[64,5] data .", "f32[6,5] mode .", "f32[6,5] mode .", "f32[6] mode"],
      ("mode .", "mode .", "mode", ""))
def gaussian_mixture_em(x, mean, logvar, logit):
    logp = jax.nn.log_softmax(logit) - 0.5 * jnp.sum((x[:, None] - mean) ** 2 * jnp.exp(-logvar) + logvar, -1)
    total = jax.nn.logsumexp(logp, 1, keepdims=True)
    r = jnp.exp(logp - total)
    n = r.sum(0) + 1e-6
    mean = r.T @ x / n[:, None]
    var = jnp.maximum(r.T @ (x * x) / n[:, None] - mean**2, 1e-4)
    return mean, jnp.log(var), jnp.log(n), total.sum()


@case("height=4 width=8", ["f32[2,32,64] . height width", "f32[8,8] . ."], (". height width", ". . ."))
def jpeg_block_quantise(image, table):
    """Blocks of eight by eight by a reshape that splits cut dims, a cosine transform, a rounding and its inverse."""
    k = np.arange(8)
    c = np.cos((2 * k[None] + 1) * k[:, None] * np.pi / 16) * np.sqrt(np.where(k == 0, 1, 2) / 8)[:, None]
    c = jnp.asarray(c, jnp.float32)
    blocks = image.reshape(2, 4, 8, 8, 8)
    f = jnp.einsum("ui,byixj,vj->byuxv", c, blocks, c)
    scale = (1 + jnp.abs(table))[:, None]
    f = jnp.round(f / scale) * scale
    return jnp.einsum("ui,byuxv,vj->byixj", c, f, c).reshape(2, 32, 64), jnp.count_nonzero(f, axis=(2, 4))


@case("row=2 col=8", ["f32[8,128] row col", "s32[128] col"], "row col")
def hadamard_sketch(x, sign):
    """A fast Walsh-Hadamard transform in seven stages, after signs and before a sample of its results."""
    x = x * jnp.where(sign % 2 == 0, 1.0, -1.0)
    for stage in range(7):
        y = x.reshape(8, 2**stage, 2, -1)
        x = jnp.stack([y[:, :, 0] + y[:, :, 1], y[:, :, 0] - y[:, :, 1]], 2).reshape(8, 128)
    return x[:, jnp.abs(sign[::4]) % 128] / np.float32(128**0.5)
