# SPDX-License-Identifier: Apache-2.0
"""Layers other than attention, forward and backward: fifteen of the cases that corpus.py writes as models."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from kit import axis, case, manual, pin


def conv(x, w, stride=1, padding="SAME", groups=1, dilate=1):
    return lax.conv_general_dilated(x, w, (stride, stride), padding, rhs_dilation=(dilate, dilate),
                                    dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups)


@case("data=8 model=8", ["bf16[8,32,64] data . .", dict(gate="bf16[64,192] . model", up="bf16[64,192] . model",
      down="bf16[192,64] model .", norm="f32[64]")], ("data . .", dict(gate=". model", up=". model", down="model .",
      norm=".")))
def swiglu_block_vjp(x, w):
    def block(x, w):
        h = x.astype(jnp.float32)
        h = (h * lax.rsqrt(jnp.mean(h * h, -1, keepdims=True) + 1e-6) * w["norm"]).astype(x.dtype)
        return x + (jax.nn.silu(h @ w["gate"]) * (h @ w["up"])) @ w["down"]

    y, back = jax.vjp(block, x, w)
    return back(y)


@case("fsdp=6", ["f32[12,10,40] fsdp . .", [dict(a="f32[40,100] fsdp .", b="f32[50,40] fsdp ."),
      dict(a="f32[40,100] fsdp .", b="f32[50,40] fsdp .")], "f32[12,10,40] fsdp . ."], [dict(a="fsdp .",
      b="fsdp .")] * 2)
def geglu_fsdp_sgd(x, layers, y):
    """Weights are cut over the data axis, gathered for use, and their update is cut as they are."""
    def loss(layers):
        h = x
        for w in layers:
            u, g = jnp.split(h @ pin(w["a"], ". ."), 2, -1)
            h = h + (jax.nn.gelu(g) * u) @ pin(w["b"], ". .")
        return jnp.mean(jnp.square(h - y))

    return jax.tree.map(lambda w, g: w - 0.01 * g, layers, jax.grad(loss)(layers))


@case("data=8 hidden=4", ["bf16[8,30,64] data . hidden", "f32[64] hidden", "f32[64] hidden",
      "bf16[8,30,64] data . hidden"], ("data . hidden", "hidden", "hidden"))
def layer_norm_backward(x, scale, bias, cotangent):
    """Both passes, written by hand as a fused kernel would have them; the hidden dim is cut."""
    x, dy = x.astype(jnp.float32), cotangent.astype(jnp.float32)
    mean = x.mean(-1, keepdims=True)
    rstd = lax.rsqrt(jnp.square(x - mean).mean(-1, keepdims=True) + 1e-5)
    xhat = (x - mean) * rstd
    dxhat = dy * scale
    dx = rstd * (dxhat - dxhat.mean(-1, keepdims=True) - xhat * (dxhat * xhat).mean(-1, keepdims=True))
    return dx.astype(jnp.bfloat16), (dy * xhat).sum((0, 1)), (dy + 0 * bias).sum((0, 1))


@case("data=8", ["f32[20,9,9,16] data . . .", dict(scale="f32[16]", bias="f32[16]"), dict(mean="f32[16] .",
      var="f32[16] ."), "f32[20,9,9,16] data . . ."], (None, None, dict(mean=".", var=".")))
def batch_norm_train(x, w, stats, target):
    def loss(w):
        axes = (0, 1, 2)
        mean, square = x.mean(axes), lax.square(x).mean(axes)
        var = jnp.maximum(square - lax.square(mean), 0)
        new = dict(mean=0.9 * stats["mean"] + 0.1 * mean, var=0.9 * stats["var"] + 0.1 * var)
        y = (x - mean) * (w["scale"] * lax.rsqrt(var + 1e-5)) + w["bias"]
        return optax_huber(jax.nn.relu(y) - target).mean(), new

    def optax_huber(e):
        a = jnp.minimum(jnp.abs(e), 1.0)
        return 0.5 * a * a + jnp.abs(e) - a

    (value, new), grads = jax.value_and_grad(loss, has_aux=True)(w)
    return value, grads, new


@case("data=2 height=8", ["f32[2,32,16,24] data height . .", "f32[3,3,24,24]", "f32[24]", "f32[24]"], "data height . .")
def group_norm_conv_input_grad(x, kernel, scale, bias):
    def layer(x):
        g = x.reshape(*x.shape[:3], 6, 4)
        mean, var = g.mean((1, 2, 4), keepdims=True), g.var((1, 2, 4), keepdims=True)
        y = ((g - mean) * lax.rsqrt(var + 1e-5)).reshape(x.shape) * scale + bias
        return conv(jax.nn.silu(y), kernel)

    return jax.grad(lambda x: jnp.vdot(layer(x), x))(x)


@case("data=4 height=2 width=2", ["bf16[4,28,28,64] data height width .", "bf16[1,1,64,16] . . . .",
      "bf16[3,3,16,16] . . . .", "bf16[1,1,16,128] . . . .", "bf16[1,1,64,128] . . . ."], "data height width .")
def resnet_bottleneck_stride(x, a, b, c, short):
    y = jax.nn.relu(conv(x, a))
    y = jax.nn.relu(conv(y, b, 2))
    return jax.nn.relu(conv(y, c) + conv(x, short, 2))


@case("height=4 width=2", ["f32[1,36,20,12] . height width .", "f32[3,3,12,24]", "f32[3,3,24,24]", "f32[3,3,36,12]"],
      ". height width .")
def unet_down_up(x, down, middle, up):
    """A level of a U-Net: average pooling, nearest resize and a skip that is concatenated."""
    h = lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4
    h = jax.nn.silu(conv(h, down))
    h = h + jax.nn.silu(conv(h, middle, dilate=2))
    h = jax.image.resize(h, (1, 36, 20, 24), "nearest")
    return conv(jnp.concatenate([x, h], -1), up)


@case("data=2 height=3", ["f16[4,10,10,32] data height . .", "f16[4,4,32,16]", "f16[4,4,16,3]", "f16[16]"],
      "data height . .")
def dcgan_transposed_convs(z, w1, w2, bias):
    h = lax.conv_transpose(z, w1, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")) + bias
    h = jnp.where(h > 0, h, 0.2 * h)
    return jnp.tanh(lax.conv_transpose(h, w2, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")))


@case("data=3 model=2", ["f32[8,3,28,28] data . . .", "f32[64,3,7,7] model . . .", "f32[64] model",
      "f32[1,1,64] . . model", "f32[1,17,64] . . model"], "data . model")
def vit_patch_embedding(images, kernel, bias, token, position):
    """As PyTorch has it: a conv in NCHW with the stride of a patch, flattened, with a class token before."""
    y = lax.conv_general_dilated(images, kernel, (7, 7), "VALID", dimension_numbers=("NCHW", "OIHW", "NCHW"))
    y = (y + bias[:, None, None]).reshape(8, 64, 16).swapaxes(1, 2)
    return jnp.concatenate([jnp.broadcast_to(token, (8, 1, 64)), y], 1) + position


@case("data=4 vocab=4", ["s32[8,16] data .", "s32[8,16] data .", "bf16[1003,64] vocab .", "f32[64]"],
      ("", "vocab ."))
def tied_embedding_cross_entropy(tokens, labels, table, scale):
    """Vocabulary over four devices, not evenly; input and output share the table and its gradient."""
    def loss(table):
        x = jnp.take(table, tokens, 0, mode="clip").astype(jnp.float32) * 8
        x = (x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True)) * scale).astype(table.dtype)
        logits = pin(jnp.einsum("btd,vd->btv", x, table).astype(jnp.float32), "data . vocab")
        z = jax.nn.logsumexp(logits, -1)
        hit = jnp.sum(logits * jax.nn.one_hot(labels, 1003), -1)
        return jnp.mean(z - hit + 1e-4 * z * z)

    return jax.value_and_grad(loss)(table)


@case("data=3 model=8", ["bf16[6,12,64] data . .", "bf16[64,96] . model", dict(a="f32[64,5] . .",
      b="f32[5,96] . model"), "bf16[6,12,96] data . model", "f32[] "], dict(a=". .", b=". model"))
def lora_adapter_grad(x, frozen, lora, target, alpha):
    def loss(lora):
        low = x.astype(jnp.float32) @ lora["a"]
        y = (x @ frozen).astype(jnp.float32) + alpha / 5 * (low @ lora["b"])
        return jnp.abs(y - target).sum()

    return jax.grad(loss)(lora)


@case("data=2 token=2 channel=2", ["f32[4,49,40] data token channel", "f32[49,30] token .", "f32[30,49] . token",
      "f32[40,80] channel .", "f32[80,40] . channel"], "data token channel")
def mlp_mixer_block(x, t1, t2, c1, c2):
    def norm(x):
        return jax.nn.standardize(x, axis=-1)

    x = x + jnp.einsum("bnc,nm,mk->bkc", norm(x), t1, t2)
    return x + jax.nn.gelu(norm(x) @ c1, approximate=False) @ c2


@case("data=4 channel=8", ["f32[4,14,14,32] data . . channel", "f32[7,7,1,32] . . . channel", "f32[32,128] channel .",
      "f32[128,32] . channel", "f32[32] channel", "f32[4] data"], "data . . channel")
def convnext_depthwise_drop_path(x, depthwise, up, down, gamma, keep):
    y = conv(x, depthwise, groups=32)
    y = (y - y.mean(-1, keepdims=True)) / jnp.sqrt(y.var(-1, keepdims=True) + 1e-6)
    y = jax.nn.gelu(y @ up) @ down * gamma
    return x + y * keep[:, None, None, None]


@case("data=2 width=3", ["bf16[3,15,20,16] data . width .", "bf16[16,4]", "bf16[4,16]", "bf16[1,1,16,8]",
      "bf16[5,5,16,8]"], "data . width .")
def squeeze_excite_inception(x, squeeze, excite, one, five):
    gate = jax.nn.sigmoid(jax.nn.relu(x.mean((1, 2)) @ squeeze) @ excite)
    x = x * gate[:, None, None]
    pool = lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 1, 1, 1), "SAME")
    return jnp.concatenate([conv(x, one), conv(x, five), pool], -1)


@case("model=2", ["f32[6,64] . .", dict(up="f32[64,128] . model", bias="f32[128] model", down="f32[128,64] model .",
      last="f32[64] ."), "f32[6,64] . ."], (". .", dict(up=". model", bias="model", down="model .", last=".")))
def megatron_mlp_manual_grad(x, w, target):
    """Megatron's pair of column and row products as a shard_map, with a reduce-scatter and an all-gather."""
    def local(x, up, bias, down, last):
        h = jax.nn.gelu(x @ up + bias)
        part = lax.psum_scatter(h @ down, "model", scatter_dimension=1, tiled=True)
        part = part + lax.dynamic_slice_in_dim(last, lax.axis_index("model") * part.shape[1], part.shape[1])
        return lax.all_gather(part, "model", axis=1, tiled=True)

    mapped = manual(local, (". .", ". model", "model", "model .", "."), ". .")

    def loss(x, w):
        y = mapped(x, w["up"], w["bias"], w["down"], w["last"])
        return jnp.square(y - target).sum() / np.float32(axis("model"))

    return jax.grad(loss, (0, 1))(x, w)
