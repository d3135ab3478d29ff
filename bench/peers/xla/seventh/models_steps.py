# SPDX-License-Identifier: Apache-2.0
"""Optimizers, loops around layers, pipelines and sampling: thirteen of the cases that corpus.py writes as models."""
import jax
import jax.numpy as jnp
from jax import lax

from kit import axis, case, manual, pin


@case("data=32", [[dict(w="f32[512,30] data .", b="f32[30] .")] * 3, [dict(w="bf16[512,30] data .", b="bf16[30] .")],
                 "f32[]"], ([dict(w="data .", b=".")] * 3))
def adamw_zero_update(state, grads, step):
    """Weights and moments cut over the data axis (ZeRO), bfloat16 gradients, warm-up, decoupled decay."""
    params, mu, nu = state
    t = step + 1
    rate = 3e-4 * jnp.minimum(1.0, t / 1000)
    grads = jax.tree.map(lambda g: g.astype(jnp.float32), grads[0])
    mu = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mu, grads)
    nu = jax.tree.map(lambda v, g: 0.95 * v + 0.05 * g * g, nu, grads)

    def new(p, m, v):
        u = (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.95**t)) + 1e-8)
        return p - rate * (u + (0.1 * p if p.ndim > 1 else 0))

    return [jax.tree.map(new, params, mu, nu), mu, nu]


@case("fsdp=4 model=2", ["f32[300,44] fsdp model", "f32[300] fsdp", "f32[44] model", "bf16[300,44] fsdp model",
      "f32[]"], ("fsdp model", "fsdp", "model"))
def adafactor_factored(w, rows, columns, grad, step):
    g = grad.astype(jnp.float32)
    square = g * g + 1e-30
    decay = 1 - (step + 1) ** -0.8
    rows = decay * rows + (1 - decay) * square.mean(1)
    columns = decay * columns + (1 - decay) * square.mean(0)
    u = g * lax.rsqrt(rows / rows.mean())[:, None] * lax.rsqrt(columns)
    u = u / jnp.maximum(1.0, jnp.sqrt(jnp.mean(u * u)))
    size = jnp.maximum(1e-3, jnp.sqrt(jnp.mean(w * w)))
    return w - size * jnp.minimum(1e-2, lax.rsqrt(step + 1)) * u, rows, columns


@case("data=4", ["bf16[37,16] data .", "bf16[37,16] data .", "f32[8,37,16] . data ."], ("data .", "data ."))
def lion_sign_update(w, momentum, micro):
    """Eight micro-batches' gradients, a sign of momentum, stored in bfloat16."""
    g = micro.mean(0)
    m = momentum.astype(jnp.float32)
    update = jnp.sign(0.9 * m + 0.1 * g)
    w = w.astype(jnp.float32) * (1 - 1e-4 * 0.1) - 1e-4 * update
    return w.astype(jnp.bfloat16), (0.99 * m + 0.01 * g).astype(jnp.bfloat16)


@case("layer=3 row=2", ["f32[6,48,96] layer row .", "f32[6,48,96] layer row .", "f32[6,48,96] layer row ."],
      ("layer row .", "layer row ."))
def muon_newton_schulz(w, momentum, grad):
    momentum = 0.95 * momentum + grad
    x = (grad + 0.95 * momentum).astype(jnp.bfloat16)
    x = x / (jnp.linalg.norm(x, axis=(1, 2), keepdims=True) + 1e-7)

    def step(_, x):
        a = x @ x.mT
        b = -4.775 * a + 2.0315 * (a @ a)
        return 3.4445 * x + b @ x

    return w - 0.02 * (48 / 96) ** 0.5 * lax.fori_loop(0, 5, step, x).astype(jnp.float32), momentum


@case("data=2 model=2", [dict(a="f32[20,64] . model", b="f32[64,9] model ."), "f32[4,6,20] . data .",
      "s32[4,6] . data"], (dict(a=". model", b="model ."), None))
def accumulate_then_clip(w, x, labels):
    """Four micro-batches in a scan, a gradient's norm over all leaves, a clipped step."""
    def loss(w, x, labels):
        logits = jax.nn.relu(x @ w["a"]) @ w["b"]
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()

    def micro(total, batch):
        value, grads = jax.value_and_grad(loss)(w, *batch)
        return jax.tree.map(jnp.add, total, grads), value

    total, values = lax.scan(micro, jax.tree.map(jnp.zeros_like, w), (x, labels))
    norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(total)))
    scale = 0.1 / jnp.maximum(norm / 4, 1.0) / 4
    return jax.tree.map(lambda p, g: p - scale * g, w, total), values.mean()


@case("fsdp=4 model=8 shuffled", ["bf16[4,18,32] fsdp . .", dict(up="bf16[6,32,80] . fsdp model",
      down="bf16[6,80,32] . model fsdp", norm="bf16[6,32] . ."), "bf16[4,18,32] fsdp . ."], dict(up=". fsdp model",
      down=". model fsdp", norm=". ."))
def scanned_layers_remat_grad(x, stack, target):
    """Six layers as one scan whose body is computed again in the backward pass, except for its products."""
    def layer(x, w):
        h = x * lax.rsqrt(jnp.mean(jnp.square(x.astype(jnp.float32)), -1, keepdims=True) + 1e-5).astype(x.dtype)
        h = pin(jax.nn.gelu((h * w["norm"]) @ w["up"]), "fsdp . model")
        return pin(x + h @ w["down"], "fsdp . ."), None

    layer = jax.checkpoint(layer, policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable)

    def loss(stack):
        return jnp.mean(jnp.square((lax.scan(layer, x, stack)[0] - target).astype(jnp.float32)))

    return jax.grad(loss)(stack)


@case("stage=4 data=4", ["f32[6,8,24] . data .", "f32[4,24,24] stage . .", "f32[4,24] stage ."], ". data .")
def gpipe_microbatch_pipeline(x, w, b):
    """Six micro-batches through four stages, nine ticks; what a stage has goes to the next."""
    n = axis("stage")

    def local(x, w, b):
        me = lax.axis_index("stage")

        def tick(carry, t):
            held, done = carry
            take = lax.dynamic_index_in_dim(x, jnp.minimum(t, 5), 0, keepdims=False)
            y = jnp.tanh(jnp.where(me == 0, take, held) @ w[0] + b[0])
            slot = jnp.clip(t - (n - 1), 0, 5)
            kept = jnp.where((me == n - 1) & (t >= n - 1), y, done[slot])
            done = lax.dynamic_update_index_in_dim(done, kept, slot, 0)
            return (lax.ppermute(y, "stage", [(i, i + 1) for i in range(n - 1)]), done), None

        (_, done), _ = lax.scan(tick, (jnp.zeros_like(x[0]), jnp.zeros_like(x)), jnp.arange(6 + n - 1))
        return lax.psum(jnp.where(me == n - 1, done, 0), "stage")

    return manual(local, (". data .", "stage . .", "stage ."), ". data .")(x, w, b)


@case("data=2 vocab=8", ["f32[6,4,1000] data . vocab", "f32[6,4] data .", "s32[6,4,20] data . .", "pred[6,4] data .",
      "s32[]"], ("data .", "data . .", "data ."))
def beam_search_step(logits, scores, tokens, finished, at):
    """Four beams; those that have ended go on with token 0 at no cost; length is normalised."""
    logp = jax.nn.log_softmax(logits)
    logp = jnp.where(finished[..., None], jnp.where(jnp.arange(1000) == 0, 0.0, -1e9), logp)
    total = (scores[..., None] + logp).reshape(6, 4000)
    best, index = lax.top_k(total / (5 + at) ** 0.6, 4)
    beam, token = index // 1000, index % 1000
    tokens = jnp.take_along_axis(tokens, beam[..., None], 1)
    tokens = tokens.at[:, :, at].set(token, mode="drop")
    return best, tokens, jnp.take_along_axis(finished, beam, 1) | (token == 0)


@case("data=8", ["bf16[30,512] data .", "u32[2] .", "f32[30] data"], "data")
def top_k_gumbel_sampling(logits, key, temperature):
    """The forty best of a row, one of which is drawn with noise."""
    values, index = lax.top_k(logits.astype(jnp.float32), 40)
    noise = jax.random.uniform(key, values.shape, minval=1e-7)
    pick = jnp.argmax(values / jnp.maximum(temperature, 1e-3)[:, None] - jnp.log(-jnp.log(noise)), -1)
    return jnp.take_along_axis(index, pick[:, None], -1)[:, 0]


@case("data=2 vocab=3", ["f32[8,600] data vocab", "f32[8] data", "f32[8] data", "s32[8,10] data ."], ("data", "data"))
def top_p_repetition_penalty(logits, p, uniform, past):
    """Nucleus sampling by inverse transform of given uniform numbers, after a penalty for what was said before."""
    rows = jnp.arange(8)[:, None]
    said = jnp.zeros((8, 600), bool).at[rows, past].set(True, mode="drop")
    logits = jnp.where(said, jnp.where(logits > 0, logits / 1.2, logits * 1.2), logits)
    order = jnp.argsort(-logits, -1)
    probs = jnp.take_along_axis(jax.nn.softmax(logits), order, -1)
    before = jnp.cumsum(probs, -1) - probs
    probs = jnp.where(before < p[:, None], probs, 0)
    reached = jnp.cumsum(probs, -1) >= uniform[:, None] * probs.sum(-1, keepdims=True)
    at = jnp.argmax(reached, -1)
    return order[rows[:, 0], at], jnp.log(probs[rows[:, 0], at])


@case("data=2 height=3", ["f32[4,18,16,4] data height . .", "s32[4] data", "f32[100]", "f32[4,18,16,4] data height . .",
                          dict(inside="f32[3,3,4,20]", time="f32[32,20]", out="f32[3,3,20,8]")], "data height . .")
def ddpm_guided_reverse_step(x, t, betas, noise, w):
    """A noise predictor with a sinusoidal time and a learned variance, then a step of sampling."""
    half = jnp.exp(-jnp.log(10000.0) * jnp.arange(16) / 16)
    angle = t[:, None].astype(jnp.float32) * half
    time = jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], -1) @ w["time"]
    dims = ("NHWC", "HWIO", "NHWC")
    h = lax.conv_general_dilated(x, w["inside"], (1, 1), "SAME", dimension_numbers=dims)
    h = jax.nn.silu(h + time[:, None, None])
    eps, v = jnp.split(lax.conv_general_dilated(h, w["out"], (1, 1), "SAME", dimension_numbers=dims), 2, -1)
    keep = jnp.cumprod(1 - betas)
    beta, alpha = betas[t][:, None, None, None], keep[t][:, None, None, None]
    start = jnp.clip((x - jnp.sqrt(1 - alpha) * eps) / jnp.sqrt(alpha), -1, 1)
    mean = jnp.sqrt(alpha) * beta / (1 - alpha) * start + jnp.sqrt(1 - beta) * x
    return mean + jnp.where(t > 0, 1.0, 0.0)[:, None, None, None] * jnp.exp(0.5 * jnp.tanh(v)) * noise


@case("data=4 model=4", ["f16[12,40] data .", dict(a="f32[40,56] . model", b="f32[56,3] model ."), "f16[12,3] data .",
      "f32[]", "s32[]"], (dict(a=". model", b="model ."), "", ""))
def float16_loss_scale_cond(x, w, y, scale, good):
    """Mixed precision with a dynamic scale: a step is skipped if a gradient is not finite."""
    def loss(w):
        h = jax.nn.relu(x @ w["a"].astype(jnp.float16)) @ w["b"].astype(jnp.float16)
        return jnp.mean(jnp.square((h - y).astype(jnp.float32))) * scale

    grads = jax.tree.map(lambda g: g / scale, jax.grad(loss)(w))
    finite = jnp.all(jnp.array([jnp.all(jnp.isfinite(g)) for g in jax.tree.leaves(grads)]))
    w = lax.cond(finite, lambda w: jax.tree.map(lambda p, g: p - 0.1 * g, w, grads), lambda w: w, w)
    grow = good >= 1999
    scale = jnp.where(finite, jnp.where(grow, scale * 2, scale), jnp.maximum(scale / 2, 1.0))
    return w, scale, jnp.where(finite & ~grow, good + 1, 0)


@case("data=2 code=4", ["f32[4,7,7,16] data . . .", "f32[90,16] code .", "f32[90] code", "f32[90,16] code ."],
      ("data . . .", "code .", "code", "code ."))
def vq_codebook_ema(z, codes, counts, sums):
    """The nearest of ninety codes, a straight-through gradient, and moving sums of what each code was given."""
    flat = z.reshape(-1, 16)
    far = (flat**2).sum(1, keepdims=True) - 2 * flat @ codes.T + (codes**2).sum(1)
    pick = jnp.argmin(far, 1)
    hot = jax.nn.one_hot(pick, 90)
    counts = 0.99 * counts + 0.01 * hot.sum(0)
    sums = 0.99 * sums + 0.01 * hot.T @ flat
    q = codes[pick].reshape(z.shape)

    def commit(z):
        return jnp.sum((z + lax.stop_gradient(q - z)) * 0.5 + 0.25 * jnp.square(z - lax.stop_gradient(q)))

    total = counts.sum()
    fresh = (counts + 1e-5) / (total + 90e-5) * total
    return jax.grad(commit)(z), sums / fresh[:, None], counts, sums
