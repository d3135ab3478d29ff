# SPDX-License-Identifier: Apache-2.0
"""Experts, recurrences, graphs, recommenders and contrastive losses: thirteen of the cases that corpus.py writes as
models.
"""
import jax
import jax.numpy as jnp
from jax import lax

from kit import axis, case, manual, pin


@case("data=2 expert=8", ["bf16[4,32,64] data . .", "f32[64,8] . expert", "bf16[8,64,128] expert . .",
                          "bf16[8,128,64] expert . ."], ("data . .", None))
def moe_gshard_top2_capacity(x, router, w_in, w_out):
    """Two experts a token, ten places an expert and group, dispatch and combine by einsum."""
    gates = jax.nn.softmax(x.astype(jnp.float32) @ router, -1)
    first = jax.nn.one_hot(jnp.argmax(gates, -1), 8)
    second = jax.nn.one_hot(jnp.argmax(gates - 2 * first, -1), 8)
    place1 = jnp.cumsum(first, 1) * first - first
    place2 = (jnp.cumsum(second, 1) + first.sum(1, keepdims=True)) * second - second
    balance = 8 * jnp.mean(gates.mean(1) * first.mean(1))

    def slots(mask, place):
        inside = mask * (place < 10)
        at = jax.nn.one_hot(jnp.sum(place * mask, -1).astype(jnp.int32), 10)
        return ((gates * inside)[..., None] * at[:, :, None, :]).astype(x.dtype)

    combine = slots(first, place1) + slots(second, place2)
    sent = pin(jnp.einsum("gsec,gsd->egcd", (combine > 0).astype(x.dtype), x), "expert data . .")
    h = jax.nn.relu(jnp.einsum("egcd,edf->egcf", sent, w_in))
    back = pin(jnp.einsum("egcf,efd->egcd", h, w_out), "expert data . .")
    return jnp.einsum("gsec,egcd->gsd", combine, back), balance


@case("data=4 expert=3", ["f32[24,40] data .", "f32[40,7] . expert", "f32[7,40,60] expert . .",
      "f32[7,60,40] expert . .", "f32[24,40] data ."], (None, ". expert", "expert . .", "expert . ."))
def moe_soft_onehot_train(x, router, up, down, y):
    """Seven experts over three devices; every expert sees every token, the router picks with a one-hot."""
    def loss(router, up, down):
        logits = x @ router
        pick = jax.nn.one_hot(jnp.argmax(logits, 1), 7) * jax.nn.softmax(logits, 1)
        h = jax.nn.silu(jnp.einsum("td,edf->etf", x, up))
        return jnp.mean((jnp.einsum("etf,efd,te->td", h, down, pick) - y) ** 2)

    value, grads = jax.value_and_grad(loss, (0, 1, 2))(router, up, down)
    return value, *grads


@case("data=2 expert=2 model=2", ["bf16[48,32] data .", "s32[48] data", "bf16[4,32,64] expert . model",
                                  "bf16[4,64,32] expert model ."], "data .")
def moe_sorted_dispatch(x, expert, up, down):
    """Tokens are sorted by expert, scattered to sixteen places each, and gathered back."""
    expert = jnp.clip(expert, 0, 3)
    order = jnp.argsort(expert, stable=True)
    ranked = expert[order]
    start = jnp.searchsorted(ranked, jnp.arange(4))
    place = jnp.arange(48) - start[ranked]
    slots = jnp.zeros((4, 16, 32), x.dtype).at[ranked, place].set(x[order], mode="drop")
    h = jax.nn.gelu(jnp.einsum("ecd,edf->ecf", pin(slots, "expert . ."), up))
    out = jnp.einsum("ecf,efd->ecd", h, down)
    rows = out.at[ranked, place].get(mode="fill", fill_value=0)
    return jnp.zeros_like(x).at[order].set(rows)


@case("expert=4", ["f32[64,16] expert .", "f32[16,4] . .", "f32[4,16,24] expert . .", "f32[4,24,16] expert . ."],
      "expert .")
def moe_manual_all_to_all(x, router, up, down):
    n = axis("expert")

    def local(x, router, up, down):
        gate = jax.nn.softmax(x @ router, -1)
        pick = jax.nn.one_hot(jnp.argmax(gate, -1), n)
        place = (jnp.cumsum(pick, 0) - 1) * pick
        at = pick[..., None] * jax.nn.one_hot(place.astype(jnp.int32), 6)
        sent = jnp.einsum("tec,td->ecd", at, x)
        got = lax.all_to_all(sent, "expert", 0, 0)
        y = jax.nn.relu(got.reshape(n * 6, 16) @ up[0]) @ down[0]
        back = lax.all_to_all(y.reshape(n, 6, 16), "expert", 0, 0)
        return jnp.einsum("tec,ecd,te->td", at, back, gate)

    return manual(local, ("expert .", ". .", "expert . .", "expert . ."), "expert .")(x, router, up, down)


@case("data=2 inner=8", ["bf16[2,24,64] data . inner", dict(a="f32[64,8] inner .", dt="f32[64] inner",
      bc="bf16[64,16] inner .", conv="bf16[4,1,64] . . inner", d="f32[64] inner"), "bf16[2,24,64] data . inner"],
      "data . inner")
def mamba_selective_scan(x, w, z):
    x = jax.nn.silu(lax.conv_general_dilated(x, w["conv"], (1,), ((3, 0),), dimension_numbers=("NWC", "WIO", "NWC"),
                                             feature_group_count=64))
    b, c = jnp.split((x @ w["bc"]).astype(jnp.float32), 2, -1)
    xf = x.astype(jnp.float32)
    dt = jax.nn.softplus(xf * 0.1 + w["dt"])
    decay = jnp.exp(dt[..., None] * -jnp.exp(w["a"]))
    drive = (dt * xf)[..., None] * b[:, :, None, :]

    def step(h, now):
        decay, drive, c = now
        h = decay * h + drive
        return h, jnp.einsum("bds,bs->bd", h, c)

    moved = tuple(jnp.moveaxis(a, 1, 0) for a in (decay, drive, c))
    _, y = lax.scan(step, jnp.zeros((2, 64, 8)), moved)
    return ((jnp.moveaxis(y, 0, 1) + xf * w["d"]) * jax.nn.silu(z.astype(jnp.float32))).astype(x.dtype)


@case("seq=4 state=2", ["f32[3,20,12] . seq state", "f32[12] state", "f32[12] state"], ". seq state")
def diagonal_ssm_associative_scan(u, log_decay, gain):
    """S5's scan in log(n) steps, over the dim that the devices have between them."""
    a = jnp.broadcast_to(jnp.exp(-jnp.exp(log_decay)), u.shape)

    def join(left, right):
        return left[0] * right[0], right[0] * left[1] + right[1]

    return lax.associative_scan(join, (a, u * gain), axis=1)[1]


@case("data=4 model=4", ["f32[10,12,24] data . .", dict(i="f32[24,4,32] . . model", h="f32[32,4,32] . . model",
      b="f32[4,32] . model"), "f32[10,32] data model", "f32[10,32] data model"], ("data . model", "data model",
      "data model"))
def lstm_scan_unroll(x, w, h0, c0):
    def cell(carry, x):
        h, c = carry
        gates = jnp.einsum("bd,dgk->gbk", x, w["i"]) + jnp.einsum("bd,dgk->gbk", h, w["h"]) + w["b"][:, None]
        i, f, g, o = gates
        c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    (h, c), hs = lax.scan(cell, (h0, c0), x.swapaxes(0, 1), unroll=3)
    return hs.swapaxes(0, 1), h, c


@case("data=2", ["f32[9,5,16] . data .", "s32[5] data", "f32[2,16,36] . . .", "f32[2,12,36] . . .",
      "f32[9,5,24] . data ."], (". data .", None))
def bidirectional_gru_padded(x, lengths, wi, wh, target):
    """Time first, as PyTorch has it; padded steps keep the state."""
    live = (jnp.arange(9)[:, None] < lengths[None])[..., None]

    def run(wi, wh, backward):
        def cell(h, now):
            x, live = now
            xr, xz, xn = jnp.split(x @ wi, 3, -1)
            hr, hz, hn = jnp.split(h @ wh, 3, -1)
            z = jax.nn.sigmoid(xz + hz)
            new = (1 - z) * jnp.tanh(xn + jax.nn.sigmoid(xr + hr) * hn) + z * h
            h = jnp.where(live, new, h)
            return h, h

        return lax.scan(cell, jnp.zeros((5, 12)), (x, live), reverse=backward)[1]

    y = jnp.concatenate([run(wi[0], wh[0], False), run(wi[1], wh[1], True)], -1)
    return y, jnp.sum(jnp.where(live, (y - target) ** 2, 0)) / jnp.sum(live)


@case("node=4", ["f32[50,16] node .", "s32[120] node", "s32[120] node", "f32[120,4] node .", dict(m="f32[36,24]",
      u="f32[40,16]")], "node .")
def gnn_message_passing(h, source, target, edges, w):
    """Two rounds with the same weights; sums and means of messages at their targets."""
    def round_(_, h):
        m = jax.nn.relu(jnp.concatenate([h[source], h[target], edges], -1) @ w["m"])
        total = jax.ops.segment_sum(m, target, 50)
        count = jax.ops.segment_sum(jnp.ones_like(m[:, 0]), target, 50)
        mean = total / jnp.maximum(count, 1)[:, None]
        return h + jnp.tanh(jnp.concatenate([h, mean], -1) @ w["u"])

    return lax.fori_loop(0, 2, round_, h)


@case("edge=3 head=2", ["f32[30,20] . .", "s32[80] edge", "s32[80] edge", "f32[20,4,8] . head .",
      "f32[2,4,8] . head ."], ". head .")
def gat_edge_softmax(x, source, target, w, a):
    h = jnp.einsum("nd,dhk->nhk", x, w)
    score = jax.nn.leaky_relu(((h * a[0]).sum(-1))[source] + ((h * a[1]).sum(-1))[target], 0.2)
    top = jax.ops.segment_max(score, target, 30)
    e = jnp.exp(score - lax.stop_gradient(jnp.where(jnp.isfinite(top), top, 0))[target])
    total = jax.ops.segment_sum(e, target, 30)
    return jax.ops.segment_sum((e / (total[target] + 1e-9))[..., None] * h[source], target, 30)


@case("data=4 table=4", ["f32[16,13] data .", "s32[16,5,4] data . .", "f32[16,5,4] data . .", "f32[5,1000,8] . table .",
                         "f32[13,8] . .", "f32[23,1] . ."], ("data", ". table ."))
def dlrm_embedding_bags(dense, ids, weights, tables, bottom, top):
    """Five weighted bags of rows, pairwise products, a click probability; and a gradient to rows."""
    i, j = jnp.tril_indices(6, -1)

    def click(tables):
        rows = jax.vmap(lambda t, i: t.at[i].get(mode="clip"), (0, 1), 1)(tables, ids)
        bags = jnp.sum(rows * weights[..., None], 2)
        x = jax.nn.relu(dense @ bottom)
        every = jnp.concatenate([x[:, None], bags], 1)
        pairs = jnp.einsum("bid,bjd->bij", every, every)[:, i, j]
        return jax.nn.sigmoid(jnp.concatenate([x, pairs], -1) @ top)[:, 0]

    value, back = jax.vjp(click, tables)
    return value, tables - 0.1 * back(value)[0]


@case("data=10", ["bf16[40,64] data .", "bf16[40,48] data .", "bf16[64,32]", "bf16[48,32]", "f32[]"], (None, None,
      None))
def clip_contrastive_grad(image, text, w_image, w_text, log_scale):
    """Every image against every text of all devices, a loss in both directions."""
    def loss(w_image, w_text):
        def unit(x):
            x = x.astype(jnp.float32)
            return x / jnp.sqrt(jnp.sum(x * x, -1, keepdims=True) + 1e-12)

        logits = jnp.exp(log_scale) * unit(image @ w_image) @ pin(unit(text @ w_text), ". .").T
        diagonal = jnp.diagonal(logits)
        return jnp.mean(jax.nn.logsumexp(logits, 0) + jax.nn.logsumexp(logits, 1) - 2 * diagonal) / 2

    value, grads = jax.value_and_grad(loss, (0, 1))(w_image, w_text)
    return value, *grads


@case("data=4", ["f32[18,2,20] data . .", "f32[64,20] . .", "s32[]"], ("", ". ."))
def moco_queue_loss(views, queue, head):
    """NT-Xent of two views against each other and a queue, which is then written at a place that wraps."""
    z = views / jnp.linalg.norm(views, axis=-1, keepdims=True)
    both = jnp.concatenate([z[:, 0], z[:, 1]], 0)
    near = both @ both.T / 0.1 - 1e9 * jnp.eye(36)
    far = both @ queue.T / 0.1
    positive = jnp.roll(jnp.arange(36), 18)
    logp = jax.nn.log_softmax(jnp.concatenate([near, far], 1), 1)
    loss = -jnp.take_along_axis(logp, positive[:, None], 1).mean()
    return loss, lax.dynamic_update_slice(jnp.roll(queue, -head, 0), z[:, 1], (0, 0))
