# SPDX-License-Identifier: Apache-2.0
"""Programs for `held_out.py` that are manual over some or all mesh axes (`shard_map`), with collectives."""
import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P


def mapped(k, function, ins, outs, axes):
    return jax.shard_map(function, mesh=k.mesh, in_specs=ins, out_specs=outs, axis_names=set(axes), check_vma=False)


def ring_attention(k):
    axis = k.mesh.axis_names[-1]
    n = k.mesh.shape[axis]
    b, t, h, d = 4, 2 * n, 2, 4

    def ring(q, key, v):
        turn = [(i, (i + 1) % n) for i in range(n)]

        def body(_, state):
            key, v, top, total, out = state
            s = jnp.einsum("bqhd,bkhd->bhqk", q, key).astype(jnp.float32)
            new = jnp.maximum(top, s.max(-1))
            p, scale = jnp.exp(s - new[..., None]), jnp.exp(top - new)
            out = out * scale[..., None] + jnp.einsum("bhqk,bkhd->bhqd", p, v.astype(jnp.float32))
            return lax.ppermute(key, axis, turn), lax.ppermute(v, axis, turn), new, total * scale + p.sum(-1), out

        local = q.shape[1]
        start = (key, v, jnp.full((q.shape[0], h, local), -jnp.inf), jnp.zeros((q.shape[0], h, local)), jnp.zeros((q.shape[0], h, local, d)))
        state = lax.fori_loop(0, n, body, start)
        return (state[4] / state[3][..., None]).astype(q.dtype)

    # the partitioner uses the other axes of the mesh
    function = mapped(k, ring, (P(None, axis),) * 3, P(None, None, axis), [axis])
    return function, [k.a("bthd", b, t, h, d)] * 3


def pipeline(k):
    axis = k.mesh.axis_names[0]
    n = k.mesh.shape[axis]
    b, c = 4, 6

    def stage(w, x):
        here = lax.axis_index(axis)

        def tick(carry, row):
            y = jnp.tanh(jnp.where(here == 0, row, carry) @ w[0])
            return lax.ppermute(y, axis, [(i, i + 1) for i in range(n - 1)]), y

        out = lax.scan(tick, jnp.zeros((b, c), x.dtype), jnp.pad(x, ((0, n - 1), (0, 0), (0, 0))))[1]
        return lax.psum(jnp.where(here == n - 1, out[n - 1:], 0), axis)

    return mapped(k, stage, (P(axis), P()), P(), [axis]), [k.a("sde", n, c, c), k.a("tbc", 3, b, c)]


def ulysses(k):
    axis = k.mesh.axis_names[-1]
    n = k.mesh.shape[axis]

    def swap(q, key, v):
        q, key, v = (lax.all_to_all(x, axis, 2, 1, tiled=True) for x in (q, key, v))
        o = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, key)), v)
        return lax.all_to_all(o, axis, 1, 2, tiled=True)

    return mapped(k, swap, (P(None, axis),) * 3, P(None, axis), [axis]), [k.a("bthd", 2, 2 * n, n, 4)] * 3


def scattered_gradient(k):
    axis = k.mesh.axis_names[0]
    n = k.mesh.shape[axis]

    def step(w, x):
        gathered = lax.all_gather(w, axis, axis=0, tiled=True)
        g = jax.grad(lambda q: jnp.sum(jnp.tanh(x @ q) ** 2))(gathered)
        return w - 0.1 * lax.psum_scatter(g, axis, scatter_dimension=0, tiled=True)

    return mapped(k, step, (P(axis), P(axis)), P(axis), [axis]), [k.a("cm", 2 * n, 12), k.a("bc", 3 * n, 2 * n)]


def manual_between(k):
    """Products that the partitioner shards, before and after a region that is manual over one axis."""
    axis = k.mesh.axis_names[0]
    n = k.mesh.shape[axis]

    def f(x, w, v):
        h = lax.with_sharding_constraint(x @ w, NamedSharding(k.mesh, P(axis, *k.mesh.axis_names[1:2])))
        h = mapped(k, lambda y: y / lax.psum(jnp.sum(y * y, 0), axis), P(axis), P(axis), [axis])(h)
        return h @ v

    return f, [k.a("bc", 2 * n, 12), k.a("cm", 12, 24), k.a("mo", 24, 8)]


def halo_exchange(k):
    axis = k.mesh.axis_names[0]
    n = k.mesh.shape[axis]

    def f(x):
        left = lax.ppermute(x[-1:], axis, [(i, i + 1) for i in range(n - 1)])
        right = lax.ppermute(x[:1], axis, [(i + 1, i) for i in range(n - 1)])
        around = jnp.concatenate([left, x, right])
        return around[2:] - 2 * x + around[:-2]

    return mapped(k, f, P(axis), P(axis), k.mesh.axis_names), [k.a("nm", 4 * n, 6)]


def extremes(k):
    axes = k.mesh.axis_names
    n = k.mesh.devices.size

    def f(x):
        return lax.pmax(x.max(0), axes), lax.pmin(x.min(0), axes), lax.axis_index(axes[0]) + 0 * x[:, 0].astype(jnp.int32)

    return mapped(k, f, P(axes), (P(), P(), P(axes)), axes), [k.a("nm", 2 * n, 5)]


def expert_exchange(k):
    axis = k.mesh.axis_names[-1]
    n = k.mesh.shape[axis]

    def f(x, w):
        sent = lax.all_to_all(x.reshape(n, -1, x.shape[-1]), axis, 0, 0)
        y = jnp.einsum("ncd,de->nce", sent, w[0])
        return lax.all_to_all(y, axis, 0, 0).reshape(x.shape)

    return mapped(k, f, (P(axis), P(axis)), P(axis), [axis]), [k.a("nc", 2 * n * n, 6), k.a("ecd", n, 6, 6)]


def random_in_region(k):
    axis = k.mesh.axis_names[0]
    n = k.mesh.shape[axis]

    def f(x, seed):
        key = jax.random.fold_in(jax.random.key(seed[0]), lax.axis_index(axis))
        return x + jax.random.uniform(key, x.shape, x.dtype)

    return mapped(k, f, (P(axis), P()), P(axis), [axis]), [k.a("nm", 2 * n, 8), k.a(".", 1, dtype=jnp.uint32)]


MANUAL = {"ring_attention": (ring_attention, 4), "pipeline": (pipeline, 4), "ulysses": (ulysses, 3), "scattered_gradient": (scattered_gradient, 3),
          "manual_between": (manual_between, 4), "halo_exchange": (halo_exchange, 3), "extremes": (extremes, 2), "expert_exchange": (expert_exchange, 3),
          "random_in_region": (random_in_region, 3)}
