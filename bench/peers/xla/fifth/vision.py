# SPDX-License-Identifier: Apache-2.0
"""Convolutions, pools and norms, forward and backward; images, sound, volumes."""
from corpus import case, jax, jnp, lax

I32, BF, F16 = jnp.int32, jnp.bfloat16, jnp.float16


def conv(x, w, stride=1, pad="SAME", **options):
    """Channels last, any number of spatial dims."""
    n = x.ndim - 2
    space = "DHW"[-n:]
    stride = (stride,) * n if isinstance(stride, int) else stride
    return lax.conv_general_dilated(x, w, stride, pad, dimension_numbers=(f"N{space}C", f"{space}IO", f"N{space}C"), **options)


def pool(x, start, op, window, stride=1, pad="SAME", **options):
    n = x.ndim - 2
    strides = (1, *[stride] * n, 1)
    return lax.reduce_window(x, start, op, (1, *[window] * n, 1), strides, pad, **options)


def standard(x, axes, scale=1.0, shift=0.0):
    mean = x.mean(axes, keepdims=True)
    return (x - mean) * lax.rsqrt(((x - mean) ** 2).mean(axes, keepdims=True) + 1e-5) * scale + shift


@case("4", "2x2 s", "8 out", "2x4", "5 raw", "2x2 ann")
def basic_block_gradient(k):
    """ResNet-18's block with batch norm and running statistics."""
    B, H, C, F = (8, 16, 16, 32) if not k.loose else (5, 15, 10, 20)
    p = {"a": k.s((3, 3, C, F), None, None, None, "b"), "c": k.s((3, 3, F, F), None, None, "b"), "s": k.s((1, 1, C, F)),
         "ga": k.s((F,), "b"), "gc": k.s((F,)), "ba": k.s((F,), "b")}
    kept, x = k.s((2, F), None, "b"), k.s((B, H, H, C), "a")

    def loss(p, kept, x):
        h = conv(x, p["a"], 2)
        mean, var = h.mean((0, 1, 2)), h.var((0, 1, 2))
        h = jax.nn.relu((h - mean) * lax.rsqrt(var + 1e-5) * p["ga"] + p["ba"])
        y = jax.nn.relu(standard(conv(h, p["c"]), (0, 1, 2), p["gc"]) + conv(x, p["s"], 2))
        return jnp.mean(y**2), 0.9 * kept + 0.1 * jnp.stack([mean, var])

    return jax.value_and_grad(loss, has_aux=True), (p, kept, x)


@case("4", "2x2 s", "8", "2x4 s out", "3 raw")
def inverted_bottleneck_gradient(k):
    """MobileNet v3: expand, depthwise 5x5, squeeze and excite, project."""
    B, H, C, E = (4, 16, 8, 32) if not k.loose else (3, 13, 6, 18)
    p = {"e": k.s((1, 1, C, E), None, None, None, "b"), "d": k.s((5, 5, 1, E), None, None, None, "b"), "s": k.s((E, E // 2), "b"),
         "t": k.s((E // 2, E), None, "b"), "p": k.s((1, 1, E, C), None, None, "b")}
    x = k.s((B, H, H, C), "a" if k.i != 1 else None, "a" if k.i == 1 else None)

    def loss(p, x):
        h = jax.nn.hard_swish(standard(conv(x, p["e"]), (0, 1, 2)))
        h = jax.nn.hard_swish(conv(h, p["d"], feature_group_count=E))
        z = jax.nn.hard_sigmoid(jax.nn.relu(h.mean((1, 2)) @ p["s"]) @ p["t"])
        return jnp.mean((x + conv(h * z[:, None, None], p["p"])) ** 2)

    return jax.grad(loss, (0, 1)), (p, x)


@case("4", "2x2 s", "8 few", "2x2x2", "3x2 raw")
def grouped_bottleneck_gradient(k):
    """ResNeXt: a grouped middle convolution."""
    B, H, C, G = (4, 12, 32, 8) if not k.loose else (3, 11, 18, 6)
    p = {"a": k.s((1, 1, C, C), None, None, None, "b"), "m": k.s((3, 3, C // G, C), None, None, None, "b"), "c": k.s((1, 1, C, C), None, None, "b")}
    x = k.s((B, H, H, C), "a" if k.i != 1 else None, "c" if k.i != 1 else "a")

    def loss(p, x):
        h = jax.nn.relu(conv(jax.nn.relu(conv(x, p["a"])), p["m"], feature_group_count=G))
        return jnp.mean((conv(h, p["c"]) + x) ** 2)

    return jax.value_and_grad(loss), (p, x)


@case("4", "2x2 s", "8", "2x4 s", "6 raw", "4 max")
def dilated_pyramid(k):
    """ASPP: parallel convolutions with several dilations, and a mean over the image."""
    B, H, C = (2, 24, 8) if not k.loose else (2, 22, 6)
    w = [k.s((3, 3, C, C), None, None, None, "b") for _ in range(3)]
    x, v = k.s((B, H, H, C), None, "a", "b" if k.i == 1 else None), k.s((4 * C, C), "b")

    def forward(w, x, v):
        parts = [conv(x, one, rhs_dilation=(d, d)) for one, d in zip(w, (1, 3, 6))]
        parts.append(jnp.broadcast_to(x.mean((1, 2), keepdims=True), x.shape))
        return jax.nn.relu(jnp.concatenate(parts, -1)) @ v

    return forward, (w, x, v)


@case("4", "2x2 s", "8 out", "5 raw", "2x4")
def transposed_decoder_gradient(k):
    """A decoder of transposed convolutions with instance norm, as in generators."""
    B, H, C = (4, 8, 16) if not k.loose else (3, 7, 10)
    p = {"a": k.s((4, 4, C, C), None, None, None, "b"), "c": k.s((4, 4, C, 4), None, None, "b"), "g": k.s((C,), "b")}
    x = k.s((B, H, H, C), "a" if k.i in (0, 4) else None, "a" if k.i not in (0, 4) else None)

    def loss(p, x):
        h = lax.conv_transpose(x, p["a"], (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        h = jax.nn.leaky_relu(standard(h, (1, 2), p["g"]))
        h = lax.conv_transpose(h, p["c"], (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return jnp.mean(jnp.abs(jnp.tanh(h)))

    return jax.grad(loss, (0, 1)), (p, x)


@case("4", "2x2 s", "8 perm", "7 raw", "3 v1")
def causal_convolutions_gradient(k):
    """Sound: a stack of dilated causal 1-D convolutions with gates and skip connections."""
    B, T, C = (4, 64, 16) if not k.loose else (2, 43, 12)
    p = {"w": k.s((4, 2, C, 2 * C), None, None, None, "b"), "o": k.s((4, C, C), None, "b")}
    x = k.s((B, T, C), "b" if k.i == 1 else None, "a")

    def loss(p, x):
        total = 0
        for i in range(4):
            d = 2**i
            a, b = jnp.split(conv(x, p["w"][i], pad=((d, 0),), rhs_dilation=(d,)), 2, -1)
            h = (jnp.tanh(a) * jax.nn.sigmoid(b)) @ p["o"][i]
            x, total = x + h, total + h
        return jnp.mean(total**2)

    return jax.grad(loss, (0, 1)), (p, x)


@case("4", "2x2 s", "2x2x2 s", "8")
def video_separable_gradient(k):
    """3-D: a convolution over space, then one over time, max and mean pools."""
    B, T, H, C = 2, 8, 16, 8
    p = {"s": k.s((1, 3, 3, C, C), None, None, None, None, "b"), "t": k.s((3, 1, 1, C, C), None, None, None, "b")}
    x = k.s((B, T, H, H, C), "c", "a" if k.i != 1 else None, "a" if k.i == 1 else None)

    def loss(p, x):
        h = jax.nn.relu(conv(conv(x, p["s"], (1, 2, 2)), p["t"], (2, 1, 1)))
        h = lax.reduce_window(h, -jnp.inf, lax.max, (1, 2, 2, 2, 1), (1, 1, 2, 2, 1), "VALID")
        return jnp.mean(h**2)

    return jax.value_and_grad(loss, (0, 1)), (p, x)


@case("4", "2x2 s", "8", "3 raw", "2x2 out", "5 v1")
def max_pool_overlapping_gradient(k):
    """3x3 windows with stride 2, as the first pool of ResNets; rows of images are sharded."""
    B, H, C = (4, 32, 8) if not k.loose else (2, 27, 4)
    x = k.s((B, H, H, C), "b" if k.i == 1 else None, "a")

    def loss(x):
        return jnp.sum(jnp.sin(pool(x, -jnp.inf, lax.max, 3, 2, ((0, 0), (1, 1), (1, 1), (0, 0)))))

    return jax.value_and_grad(loss), (x,)


@case("4", "2x2 s", "8 out", "3 raw")
def mean_pool_uncounted_border_gradient(k):
    """Means that count only pixels inside the image, and a strided pool of squares."""
    B, H, C = (4, 24, 8) if not k.loose else (2, 19, 6)
    x = k.s((B, H, H, C), None, "a", "b")

    def loss(x):
        total, count = pool(x, 0.0, lax.add, 3), pool(jnp.ones_like(x), 0.0, lax.add, 3)
        return jnp.mean(jnp.sqrt(pool((total / count) ** 2, 0.0, lax.add, 2, 2, "VALID") + 1e-6))

    return jax.grad(loss), (x,)


@case("4", "2x2 s", "8", "7 raw")
def pool_1d_lse_gradient(k):
    """A soft maximum over windows of a sequence, and a hard one over strided windows."""
    B, T, C = (4, 64, 8) if not k.loose else (3, 50, 5)
    x = k.s((B, T, C), "b", "a")

    def loss(x):
        top = pool(x, -jnp.inf, lax.max, 4, 4)
        soft = jnp.log(pool(jnp.exp(x), 0.0, lax.add, 5, 1))
        return jnp.sum(top**2) + jnp.mean(soft)

    return jax.grad(loss), (x,)


@case("4", "2x2 s", "8 out", "2x3 raw", "2x4 s few")
def group_norm_block_gradient(k):
    """Group norm, SiLU, convolution and the scale of a time step, as in diffusion U-Nets."""
    B, H, C, G = (4, 16, 32, 8) if not k.loose else (3, 9, 18, 6)
    p = {"g": k.s((2, C), None, "b"), "w": k.s((3, 3, C, C), None, None, None, "b"), "t": k.s((16, 2 * C), None, "b")}
    x, t = k.s((B, H, H, C), "a", None, None, "b"), k.s((B, 16), "a")

    def loss(p, x, t):
        n = standard(x.reshape(B, H, H, G, C // G), (1, 2, 4)).reshape(x.shape) * p["g"][0] + p["g"][1]
        scale, shift = jnp.split(t @ p["t"], 2, -1)
        n = n * (1 + scale[:, None, None]) + shift[:, None, None]
        return jnp.mean((x + conv(jax.nn.silu(n), p["w"])) ** 2)

    return jax.grad(loss, (0, 1)), (p, x, t)


@case("4", "2x2 s", "8 perm", "5 raw")
def instance_norm_style_gradient(k):
    """Statistics of one image applied to another one; Gram matrices of features."""
    B, H, C = (4, 16, 8) if not k.loose else (3, 13, 6)
    x, y = k.s((B, H, H, C), None, "a", None, "b"), k.s((B, H, H, C), None, "a", None, "b")

    def loss(x, y):
        z = standard(x, (1, 2)) * y.std((1, 2), keepdims=True) + y.mean((1, 2), keepdims=True)
        gram = [jnp.einsum("bhwc,bhwd->bcd", t, t) / (H * H) for t in (z, y)]
        total = jnp.abs(z[:, 1:] - z[:, :-1]).mean() + jnp.abs(z[:, :, 1:] - z[:, :, :-1]).mean()
        return jnp.mean((gram[0] - gram[1]) ** 2) + 0.1 * total

    return jax.grad(loss), (x, y)


@case("4", "2x2 s", "8 few", "2x2 out j")
def detection_head_gradient(k):
    """Focal loss over anchors, smooth L1 and IoU for boxes."""
    B, H, C, A, N = 4, 8, 16, 3, 5
    p = {"c": k.s((3, 3, C, A * N), None, None, None, "b"), "b": k.s((3, 3, C, A * 4))}
    x, label, box = k.s((B, H, H, C), "a"), k.s((B, H, H, A), "a", dtype=I32), k.s((B, H, H, A, 4), "a")

    def loss(p, x, label, box):
        z = conv(x, p["c"]).reshape(B, H, H, A, N)
        hot = jax.nn.one_hot(label % (N + 1), N)
        chance = jax.nn.sigmoid(z)
        right = chance * hot + (1 - chance) * (1 - hot)
        focal = -(jnp.where(hot > 0, 0.25, 0.75) * (1 - right) ** 2 * jnp.log(right + 1e-6)).sum()
        d = conv(x, p["b"]).reshape(box.shape) - box
        wanted = (label % (N + 1) < N)[..., None]
        smooth = jnp.where(jnp.abs(d) < 1, 0.5 * d * d, jnp.abs(d) - 0.5)
        return (focal + jnp.where(wanted, smooth, 0).sum()) / jnp.maximum(wanted.sum(), 1)

    return jax.value_and_grad(loss), (p, x, label, box)


@case("4", "2x2 s", "8")
def box_suppression(k):
    """Boxes of an image by descending score, each suppressed by a better one that it overlaps."""
    B, N = 8, 16
    box, score = k.s((B, N, 4), "a", "b"), k.s((B, N), "a", "b")

    def forward(box, score):
        order = jnp.argsort(-score, -1)
        box = jnp.take_along_axis(jnp.abs(box), order[..., None], 1)
        low, high = box[..., :2], box[..., :2] + box[..., 2:]
        both = jnp.maximum(jnp.minimum(high[:, :, None], high[:, None]) - jnp.maximum(low[:, :, None], low[:, None]), 0).prod(-1)
        area = (high - low).prod(-1)
        over = both / (area[:, :, None] + area[:, None] - both + 1e-6)

        def one(i, keep):
            gone = (over[:, i] > 0.5) & keep[:, i][:, None] & (jnp.arange(N) > i)
            return keep & ~gone

        keep = lax.fori_loop(0, N, one, jnp.ones((B, N), bool))
        return jnp.where(keep, jnp.take_along_axis(score, order, 1), 0), order

    return forward, (box, score)


@case("4", "2x2 s", "8", "3 raw")
def roi_align_gradient(k):
    """Crops of regions with bilinear weights, from rows of a sharded feature map."""
    H, C, N, S = (16, 8, 12, 4) if not k.loose else (15, 5, 7, 3)
    x, roi = k.s((H, H, C), "a", None, "b"), k.s((N, 4), "b")

    def loss(x, roi):
        at = jnp.linspace(0, 1, S)

        def one(r):
            rows, cols = (jnp.clip(jnp.abs(r[i]) + at * jnp.abs(r[i + 2]), 0, H - 1.001) for i in (0, 1))
            y, z = jnp.floor(rows).astype(I32), jnp.floor(cols).astype(I32)
            fy, fz = rows - y, cols - z

            def corner(dy, dz):
                return x[(y + dy)[:, None], (z + dz)[None]]

            return ((1 - fy)[:, None, None] * ((1 - fz)[:, None] * corner(0, 0) + fz[:, None] * corner(0, 1))
                    + fy[:, None, None] * ((1 - fz)[:, None] * corner(1, 0) + fz[:, None] * corner(1, 1)))

        return jnp.mean(jax.vmap(one)(roi) ** 2)

    return jax.value_and_grad(loss), (x, roi)


@case("4", "2x2 s", "8", "5 raw")
def gaussian_pyramid_gradient(k):
    """Blurs with separable depthwise convolutions and reflected borders, halves the size, and compares levels."""
    B, H, C = (2, 32, 4) if not k.loose else (2, 25, 3)
    x, y = k.s((B, H, H, C), None, "a", "b"), k.s((B, H, H, C), None, "a", "b")

    def half(x):
        w = jnp.array([1.0, 4, 6, 4, 1]) / 16
        n = x.shape[-1]
        x = jnp.pad(x, ((0, 0), (2, 2), (2, 2), (0, 0)), mode="reflect")
        x = conv(x, jnp.tile(w[:, None, None, None], (1, 1, 1, n)), pad="VALID", feature_group_count=n)
        return conv(x, jnp.tile(w[None, :, None, None], (1, 1, 1, n)), pad="VALID", feature_group_count=n)[:, ::2, ::2]

    def loss(x, y):
        total = 0
        for _ in range(2):
            total += jnp.abs(x - y).mean()
            x, y = half(x), half(y)
        return total + jnp.mean((x - y) ** 2)

    return jax.grad(loss), (x, y)


@case("4", "2x2 s", "2x4", "8 out")
def deformed_sampling(k):
    """Taps of a 3x3 convolution at offsets that another convolution computes."""
    B, H, C = 2, 8, 8
    x, w, o = k.s((B, H, H, C), "b", "a" if k.i != 3 else None, None), k.s((9, C, C), None, None, "a" if k.i == 3 else None), k.s((3, 3, C, 18))

    def forward(x, w, o):
        shift = conv(x, o).reshape(B, H, H, 9, 2)
        at = jnp.stack(jnp.meshgrid(jnp.arange(H), jnp.arange(H), indexing="ij"), -1)[:, :, None]
        tap = jnp.stack(jnp.meshgrid(jnp.arange(3) - 1, jnp.arange(3) - 1, indexing="ij"), -1).reshape(9, 2)
        where = jnp.clip(jnp.round(at + tap + shift), 0, H - 1).astype(I32)
        taken = jax.vmap(lambda img, q: img[q[..., 0], q[..., 1]])(x, where)
        return jnp.einsum("bhwtc,tcd->bhwd", taken, w)

    return forward, (x, w, o)


@case("4", "2x2 s", "8", "2x3 raw")
def patch_merging_windows_gradient(k):
    """Swin: shifted windows with a table of relative biases, then patches merged two by two."""
    B, H, C, W, N = (2, 16, 16, 4, 4) if not k.loose else (3, 8, 12, 4, 3)
    p = {"qkv": k.s((C, 3, N, C // N), None, None, "b"), "o": k.s((N, C // N, C), "b"), "t": k.s(((2 * W - 1) ** 2, N), None, "b"), "m": k.s((4 * C, 2 * C), None, "b")}
    x = k.s((B, H, H, C), None if k.i < 2 else "a", "a" if k.i < 2 else None)
    spot = jnp.stack(jnp.meshgrid(jnp.arange(W), jnp.arange(W), indexing="ij"), -1).reshape(-1, 2)
    apart = (spot[:, None] - spot + W - 1) @ jnp.array([2 * W - 1, 1])

    def loss(p, x):
        y = jnp.roll(x, (-2, -2), (1, 2)).reshape(B, H // W, W, H // W, W, C).swapaxes(2, 3).reshape(-1, W * W, C)
        q, key, v = jnp.einsum("ntc,cdhk->dnhtk", y, p["qkv"])
        s = q @ key.swapaxes(2, 3) + p["t"][apart].transpose(2, 0, 1)
        y = jnp.einsum("nhts,nhsk,hkc->ntc", jax.nn.softmax(s), v, p["o"])
        x = x + jnp.roll(y.reshape(B, H // W, H // W, W, W, C).swapaxes(2, 3).reshape(x.shape), (2, 2), (1, 2))
        four = x.reshape(B, H // 2, 2, H // 2, 2, C).transpose(0, 1, 3, 4, 2, 5).reshape(B, H // 2, H // 2, 4 * C)
        return jnp.mean((four @ p["m"]) ** 2)

    return jax.grad(loss), (p, x)


@case("4", "2x2 s", "8 out", "6 raw")
def masked_autoencoder_gradient(k):
    """Patches in random order; a part is encoded, the rest is replaced by a token, and the order is restored."""
    B, N, D = (4, 16, 32) if not k.loose else (3, 14, 20)
    p = {"e": k.s((48, D), None, "b"), "d": k.s((D, 48), "b"), "t": k.s((D,))}
    x, noise = k.s((B, N, 48), "a"), k.s((B, N), "a")

    def loss(p, x, noise):
        order = jnp.argsort(noise, 1)
        back = jnp.argsort(order, 1)
        kept = jnp.take_along_axis(x, order[:, : N // 4, None], 1) @ p["e"]
        full = jnp.concatenate([jax.nn.gelu(kept), jnp.broadcast_to(p["t"], (B, N - N // 4, D))], 1)
        full = jnp.take_along_axis(full, back[..., None], 1) @ p["d"]
        hidden = (back >= N // 4)[..., None]
        return jnp.sum(jnp.where(hidden, (full - standard(x, (-1,))) ** 2, 0)) / hidden.sum()

    return jax.value_and_grad(loss), (p, x, noise)


@case("4", "2x2 s", "8", "3 raw")
def mel_spectrogram_encoder(k):
    """Frames of sound, their spectrum, a filter bank, two strided convolutions."""
    B, T = (4, 256) if not k.loose else (3, 250)
    sound, bank, w, v = k.s((B, T), "b" if k.i else "a", "a" if k.i else None), k.s((9, 8)), k.s((3, 8, 16), None, None, "b"), k.s((3, 16, 16), None, "b")

    def forward(sound, bank, w, v):
        count = (T - 16) // 8 + 1
        frames = sound[:, jnp.arange(count)[:, None] * 8 + jnp.arange(16)] * jnp.hanning(16)
        mel = jnp.log(jnp.abs(jnp.fft.rfft(frames)) ** 2 @ bank**2 + 1e-6)
        mel = jnp.maximum(mel, mel.max((1, 2), keepdims=True) - 8)
        return jax.nn.gelu(conv(jax.nn.gelu(conv(mel, w)), v, 2))

    return forward, (sound, bank, w, v)


@case("2x2", "4 s", "8", "2x4 s", "3 raw", "16 s")
def conv_weights_shared_out(k):
    """Spatial filters sharded by inputs or outputs, batch in f16; the gradient of the weights only."""
    B, H, C, F = (8, 12, 16, 32) if not k.loose else (5, 11, 9, 12)
    w, x = k.s((3, 3, C, F), None, None, "b", "a") if k.i % 2 else k.s((3, 3, C, F), None, None, "a", "b"), k.s((B, H, H, C), None, None, None, "a", dtype=F16)
    return jax.grad(lambda w, x: jnp.mean(conv(x, w.astype(F16), 2).astype(jnp.float32) ** 2)), (w, x)


@case("4", "2x2 s", "8 perm")
def channels_first_gradient(k):
    """NCHW as in PyTorch: convolution, batch norm, max pool, linear."""
    B, C, H, F = 8, 4, 16, 16
    p = {"w": k.s((F, C, 3, 3), "b"), "g": k.s((F,), "b"), "l": k.s((10, F * 16), None, "b")}
    x, y = k.s((B, C, H, H), "a"), k.s((B,), "a", dtype=I32)

    def loss(p, x, y):
        h = lax.conv_general_dilated(x, p["w"], (1, 1), ((1, 1), (1, 1)))
        h = jax.nn.relu(standard(h, (0, 2, 3), p["g"][:, None, None]))
        h = lax.reduce_window(h, -jnp.inf, lax.max, (1, 1, 4, 4), (1, 1, 4, 4), "VALID")
        z = jax.nn.log_softmax(h.reshape(B, -1) @ p["l"].T)
        return -jnp.take_along_axis(z, y[:, None] % 10, 1).mean()

    return jax.value_and_grad(loss), (p, x, y)
