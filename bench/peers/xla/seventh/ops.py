# SPDX-License-Identifier: Apache-2.0
"""Programs around two or three unusual ops, with shardings of every dim: the twenty-two of the forty cases that
corpus.py writes as ops which gather, scatter, reshape, pad, reverse, concatenate and reduce windows.
"""
import jax
import jax.numpy as jnp
from jax import lax

from kit import case, pin


@case("a=2 b=4", ["f32[24,16,8] a b .", "s32[10,2] . ."], "a .")
def gather_rows_then_reverse(x, index):
    """Slices of the last dim at pairs of indices, reversed and scattered back transposed."""
    rows = x.at[index[:, 0], index[:, 1]].get(mode="clip")
    back = lax.rev(rows, (0, 1))
    return jnp.zeros((8, 24)).at[:, index[:, 0]].add(back.T, mode="drop").T


@case("a=3 b=2", ["bf16[17,14] a b", "s32[]", "s32[]"], "a b")
def dynamic_window_moved(x, i, j):
    """A window is taken at one place and written at another, on dims that do not divide."""
    window = lax.dynamic_slice(x, (i, j), (6, 5))
    padded = lax.pad(window, jnp.bfloat16(1), ((1, 2, 0), (0, 3, 1)))
    return lax.dynamic_update_slice(x, padded[:8, :10], (j, i))


@case("a=4", ["f32[12,8] a .", "f32[5,8] a .", "f32[7,8] . a"], "a .")
def concatenate_roll_split(x, y, z):
    """Three pieces that are cut in their own ways joined along the cut dim, rolled, and taken apart elsewhere."""
    joined = jnp.roll(jnp.concatenate([x, y, z], 0), 3, 0)
    p, q = jnp.split(joined, [9])
    return p.sum(0) * jnp.flip(q, 0)


@case("a=2 b=2 c=2", ["f32[4,6,8,10] a b c ."], "a+c b")
def merge_then_split_cut_dims(x):
    """(a, b, c) to one dim, to another split of it, and back to two dims."""
    flat = jnp.tanh(x.reshape(192, 10))
    other = flat.reshape(6, 32, 10).transpose(1, 0, 2)
    return lax.reshape(other * 2, (64, 30), dimensions=(0, 2, 1))


@case("a=2 b=3", ["s32[6,9] a b", "f32[6,9] . b"], ("b", "a ."))
def argmax_take_along(keys, x):
    """Where a row's largest is, what another array has there, and a sort of columns by it."""
    at = jnp.argmax(keys, 1)
    taken = jnp.take_along_axis(x, at[:, None], 1)
    order = jnp.argsort(taken[:, 0])
    return jnp.argmin(x, 0), x[order] - taken


@case("a=8 b=2", ["f32[8,96] a b", "f32[8,96] a b"], ("a .", "a b"))
def topk_scatter_sparse(x, residual):
    """The largest five by magnitude of each row are sent, the rest stays (sparse gradients)."""
    total = x + residual
    _, index = lax.top_k(jnp.abs(total), 5)
    values = jnp.take_along_axis(total, index, 1)
    rows = jnp.arange(8)[:, None]
    return values, total.at[rows, index].multiply(0.0)


@case("h=2 w=2", ["f32[2,18,22,4] . h w .", "f32[2,9,11,4] . h w ."], ". h w .")
def maxpool_select_and_scatter(x, gradient):
    def pool(x):
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")

    y, back = jax.vjp(pool, x)
    return back(gradient * jnp.sign(y))[0]


@case("h=3", ["f32[1,20,15,6] . h . .", "f32[1,7,5,6] . h . ."], ". h . .")
def unpool_overlapping_pads(x, gradient):
    """Windows of four every three, more padding before than after; the gradient of a sum of maxima and means."""
    window = ((1, 4, 3, 1), (1, 3, 3, 1), ((0, 0), (2, 1), (0, 0), (0, 0)))

    def both(x):
        return lax.reduce_window(x, -jnp.inf, lax.max, *window) + lax.reduce_window(x, 0.0, lax.add, *window) / 12

    return jax.vjp(both, x)[1](gradient)[0]


@case("a=8", ["f32[40] a", "f32[40] a"], "a")
def interior_padding_interleave(x, y):
    """Even and odd places of one array, by pads with a space between elements."""
    even = lax.pad(x, 0.0, ((0, 1, 1),))
    odd = lax.pad(y, 0.0, ((1, 0, 1),))
    return lax.pad(even + odd, 0.0, ((-3, 5, 0),))[::-1]


@case("a=5 b=2", ["f16[10,12,6] a b ."], ". b a")
def transpose_strided_slice(x):
    y = lax.slice(x, (1, 0, 0), (10, 12, 6), (2, 3, 1))
    y = jnp.transpose(y, (2, 1, 0))
    return jnp.concatenate([y, y[:, ::-1]], 1) @ jnp.ones((5, 4), x.dtype)


@case("a=4 b=4", ["f32[64,16] a b", "s32[20] b", "f32[20,16] b a"], "b a")
def scatter_min_then_max(x, index, updates):
    y = x.at[index].min(updates, mode="drop", unique_indices=False)
    return y.at[::-2].max(updates.mean(0), mode="drop")


@case("a=2 b=3 c=2", ["s32[12,5,4] a b c", "s32[4,6] c ."], "a b .")
def batched_gather_shared_table(index, table):
    """One table for each of the last dim's places, looked up with indices that wrap."""
    picked = jax.vmap(lambda i, t: t[jnp.mod(i, 6)], (2, 0), 2)(index, table)
    return lax.population_count(picked ^ lax.shift_left(index, jnp.int32(3)))


@case("a=4", ["f32[6,30] . a"], (". a", "."))
def cumulative_window_log(x):
    """A cumulative product from the end, a cumulative minimum, and windows with gaps."""
    y = lax.cumprod(jnp.exp(0.1 * jnp.sin(x)), 1, reverse=True)
    low = lax.cummin(y, 1)
    spread = lax.reduce_window(low, 1.0, lax.mul, (1, 3), (1, 1), ((0, 0), (4, 0)), window_dilation=(1, 2))
    return spread, low[:, 0] - low[:, -1]


@case("a=2 b=4 transposed", ["f32[16,16] a b"], ("a", "b", ""))
def diagonals_and_triangles(x):
    lower = jnp.tril(x, -2) + jnp.triu(x, 5).T
    return jnp.diagonal(lower, -3)[:8].repeat(2), lower.sum(0), jnp.trace(x, 1)


@case("a=3 b=2", ["bf16[10,4,6] a b .", "bf16[3,4,6] . b ."], "b a .")
def stack_unstack_repeat(x, y):
    """Repeats of rows, every other of which are replaced, then the two first dims change places."""
    z = jnp.repeat(y, 3, axis=0, total_repeat_length=9)
    z = jnp.concatenate([z, x[:1]], 0)
    z = z.at[1::2].set(x[::2])
    return jnp.swapaxes(jnp.stack([z, x], 2).mean(2), 0, 1)


@case("a=8 b=4", ["u32[32,4] a b", "f32[32] a"], ("a b", "a ."))
def bitcast_pack_unpack(words, x):
    """Words as bytes, bytes reversed and back to words, and floats as two halves."""
    octets = lax.bitcast_convert_type(words, jnp.uint8)
    swapped = lax.bitcast_convert_type(octets[..., ::-1], jnp.uint32)
    halves = lax.bitcast_convert_type(x, jnp.bfloat16)
    return swapped, halves[:, 1:] + halves[:, :1]


@case("a=8", ["f32[16,33] a .", "f32[33,50] . a"], ". a")
def one_sided_concat_dot(x, y):
    """A product of blocks that are put together from a cut piece and a constant."""
    top = jnp.concatenate([x, jnp.eye(16, 33)], 1)
    side = jnp.concatenate([y, lax.broadcasted_iota(jnp.float32, (33, 50), 1) / 50], 0)
    return lax.dot_general(top, side, (((1,), (0,)), ((), ())), precision="highest")


@case("n=2 c=2 h=2", ["f32[4,6,9,7] n c h .", "f32[12,3,3,3] c . . ."], "n . h .")
def grouped_conv_shuffle(x, kernel):
    """Two groups of channels, which are shuffled after, as ShuffleNet has it."""
    y = lax.conv_general_dilated(x, kernel, (1, 2), ((1, 1), (0, 1)), feature_group_count=2)
    return y.reshape(4, 2, 6, 9, 3).swapaxes(1, 2).reshape(4, 12, 9, 3)


@case("h=2 w=2", ["f32[2,3,8,10] . . h w", "f32[5,3,3,3] . . . .", "f32[2,5,8,10] . . h w"], ". . . .")
def conv_kernel_gradient_rotated(x, kernel, gradient):
    """What a kernel's gradient is by `batch_group_count` and by hand, turned half round."""
    def conv(kernel):
        return lax.conv_general_dilated(x, kernel, (1, 1), "SAME")

    other = lax.conv_general_dilated(x.swapaxes(0, 1), gradient.swapaxes(0, 1), (1, 1), ((1, 1), (1, 1)))
    return jax.vjp(conv, kernel)[1](gradient)[0][:, :, ::-1, ::-1] - other.swapaxes(0, 1)


@case("a=2 b=4", ["f32[3,40,9] . b a", "s32[3,2] . ."], ". a")
def vmapped_dynamic_slices(x, start):
    """A window for each batch at a place of its own: dynamic slices that become one gather."""
    windows = jax.vmap(lambda x, s: lax.dynamic_slice(x, (s[0], s[1]), (8, 4)))(x, start)
    return pin(windows, ". b .").reshape(24, 4).max(0, keepdims=True) - windows[:, 0]


@case("a=4 b=2", ["f64[20,12] a b", "f64[12] b"], ("a .", "a"), x64=True)
def searchsorted_interp_rows(x, grid):
    """Rows that are sorted, where a grid falls in each of them, and an interpolation between."""
    ordered = lax.sort(x, dimension=1)
    at = jax.vmap(lambda r: jnp.searchsorted(r, grid, method="compare_all"))(ordered)
    return jnp.clip(at, 0, 11), jax.vmap(lambda r: jnp.interp(0.25, r, jnp.sort(grid)))(ordered)


@case("a=2 b=2 c=3", ["bf16[8,9,7] a c b"], "c . a")
def tile_roll_kron(x):
    """Tiles and rolls along all dims, and a block of the outer product of what is left."""
    y = jnp.tile(x, (1, 2, 1))
    y = jnp.roll(y, (3, -4, 1), (0, 1, 2))
    return jnp.kron(y[:2, ::2, :3].sum(0), jnp.ones((1, 2), x.dtype)).reshape(9, 3, 2) - y[0, :9, :1, None]
