# SPDX-License-Identifier: Apache-2.0
"""Common code of the cases of `held_out.py`."""
import jax
import jax.numpy as jnp
from jax import lax

I32, U8, U32, S8, BOOL = jnp.int32, jnp.uint8, jnp.uint32, jnp.int8, jnp.bool_


def square(tree):
    return sum(jnp.sum(jnp.real(x * jnp.conj(x)).astype(jnp.float32)) for x in jax.tree.leaves(tree))


def with_step(forward, rate=0.125):
    """A step of gradient descent on the first argument."""
    def step(p, *rest):
        loss, g = jax.value_and_grad(lambda q: square(forward(q, *rest)))(p)
        return loss, jax.tree.map(lambda a, b: a - (rate * b).astype(a.dtype), p, g)

    return step


def rms(x, scale):
    return (x * lax.rsqrt(jnp.mean(jnp.square(x.astype(jnp.float32)), -1, keepdims=True) + 1e-6).astype(x.dtype)) * scale
