# SPDX-License-Identifier: Apache-2.0
"""Programs around two or three unusual ops, with control flow and collectives: eighteen of the forty cases that
corpus.py writes as ops.
"""
import jax
import jax.numpy as jnp
from jax import lax

from kit import axis, case, manual, pin


@case("a=4 b=4", ["f32[16,12] a b", "s32[]", "f32[12,16] b a"], "a b")
def switch_of_layouts(x, which, y):
    """One of four branches, each of which would like another sharding of its argument."""
    branches = [lambda x, y: x + y.T, lambda x, y: jnp.sort(x, 0), lambda x, y: x[::-1] * y[:, 3],
                lambda x, y: x @ y @ x]
    return lax.switch(which, branches, x, y)


@case("a=3", ["f32[20,9] a .", "f32[]"], ("a .", "."))
def cond_tuple_of_shapes(x, limit):
    """A branch that is taken by a reduction over cut rows and gives two values of other shapes."""
    def hot(x):
        return jnp.cumsum(x, 0), jnp.max(x, 0)

    def cold(x):
        return jnp.concatenate([x[1:], x[:1]]), x[0] * 0

    return lax.cond(jnp.abs(x).mean() > limit, hot, cold, x)


@case("a=32", ["f32[64,6] a .", "s32[]"], "a .")
def while_rotate_slabs(x, turns):
    """A loop whose trip count is an argument moves slabs by dynamic slices of what is joined."""
    def body(state):
        i, x = state
        both = jnp.concatenate([x, x * 0.5], 0)
        return i + 1, lax.dynamic_slice_in_dim(both, (i * 7) % 64, 64, 0)

    return lax.while_loop(lambda s: s[0] < jnp.minimum(turns, 5), body, (0, x))[1]


@case("a=2 b=2", ["f32[9,10] a b", "f32[9,10] . ."], ("a .", ". b"))
def fori_carry_two_layouts(x, y):
    """Two carried values, cut on other dims, that exchange a row and a column each turn."""
    def turn(i, xy):
        x, y = xy
        row, column = lax.dynamic_slice_in_dim(x, i, 1, 0), lax.dynamic_slice_in_dim(y, i, 1, 1)
        y = lax.dynamic_update_slice_in_dim(y, row + 1, 8 - i, 0)
        return lax.dynamic_update_slice_in_dim(x, column * 0.5, 9 - i, 1), y

    return lax.fori_loop(0, 5, turn, (x, y))


@case("a=4 b=8", ["bf16[12,8,16] . a b", "bf16[16,16] b ."], (". a b", ". a"))
def scan_over_whole_dim(xs, w):
    """Scan's stacked results with its first dim whole, a counter in the carry, and one step in two that differs."""
    def step(carry, x):
        i, h = carry
        h = lax.cond(i % 2 == 0, lambda h: jnp.tanh(h @ w + x), lambda h: jnp.roll(h, 1, 0) - x, h)
        return (i + 1, h), (h, h.max(0))

    return lax.scan(step, (0, jnp.zeros((8, 16), xs.dtype)), xs)[1]


@case("a=6", ["f32[13,7] a ."], "a .")
def scan_over_cut_dim_reverse(x):
    """A scan whose steps take the rows that the devices have, from the last to the first."""
    def step(carry, row):
        carry = jnp.maximum(carry * 0.9, row)
        return carry, jnp.sort(carry)[::-1]

    return lax.scan(step, jnp.zeros(7), x, reverse=True)[1]


@case("a=2 b=2", ["s32[7,8] a b", "s32[9,8] . b"], ("", "a ."))
def edit_distance_table(words, others):
    """The distance of two words by a scan over a table's rows; windows' sums of which letters of more are equal."""
    a, b = words[0], others[0]

    def row(before, letter):
        top = before[:1] + 1
        least = jnp.minimum(before[1:] + 1, before[:-1] + (b != letter))
        new = jnp.concatenate([top, least])
        new = lax.cummin(new - jnp.arange(9)) + jnp.arange(9)
        return new, None

    last, _ = lax.scan(row, jnp.arange(9), a)
    return last[-1], lax.reduce_window((words == others[:7]).astype(jnp.int32), 0, lax.add, (2, 1), (1, 1), "SAME")


@case("tag=2 data=4", ["f32[8,10,6] data . tag", "f32[6,6] . tag"], ("data .", "data"))
def viterbi_backtrace(emission, transition):
    """A scan forward that keeps where the best came from, a scan backward that reads it."""
    def forward(score, now):
        every = score[:, :, None] + transition
        return every.max(1) + now, jnp.argmax(every, 1)

    score, came = lax.scan(forward, emission[:, 0], emission[:, 1:].swapaxes(0, 1))
    last = jnp.argmax(score, -1)

    def backward(tag, came):
        tag = jnp.take_along_axis(came, tag[:, None], 1)[:, 0]
        return tag, tag

    _, path = lax.scan(backward, last, came, reverse=True)
    return jnp.concatenate([path, last[None]]).T, score.max(-1)


@case("a=4 b=2", ["f32[16,10] a b"], ("a b", "a b", ""))
def manual_collectives_chain(x):
    """A shift, an all-gather of one axis, a scatter of sums over the other, all within one shard_map."""
    n = axis("a")

    def local(x):
        y = lax.ppermute(x, "a", [(i, (i - 1) % n) for i in range(n)])
        gathered = lax.all_gather(y, "b", axis=1, tiled=True)
        part = lax.psum_scatter(gathered, "b", scatter_dimension=1, tiled=True)
        return y, part * lax.axis_index("b"), lax.pmax(lax.pmean(jnp.sum(x), "a"), "b")

    return manual(local, "a b", ("a b", "a b", ""))(x)


@case("a=2 b=3", ["f32[8,12] a b", "f32[12,6] b ."], "a .")
def manual_one_axis_of_two(x, w):
    """A shard_map over `b` only: `a` is left to the partitioner, inside of it too."""
    def local(x, w):
        y = lax.psum(x @ w, "b")
        return jnp.flip(y, 0) + lax.dynamic_slice_in_dim(y, lax.axis_index("b") * 2, 2, 1).sum(1, keepdims=True)

    return manual(local, (". b", "b ."), ". .", axes="b")(x, w)


@case("a=2", ["f32[12,5] a .", "f32[5,5] . ."], "a .")
def map_in_batches(x, w):
    """`lax.map` in batches of five rows, a remainder after, each with a product that is repeated until it is small."""
    def one(row):
        return lax.fori_loop(0, 3, lambda _, r: jnp.tanh(w @ r) + row, row)

    return lax.map(one, x, batch_size=5)


@case("a=2 b=2 c=2", ["f32[6,8,10] a b c", "s32[3]"], ("c a b", "a b c"))
def dynamic_start_on_every_dim(x, start):
    """Windows of all dims at places that are not known, pushed back in by another order of dims."""
    window = lax.dynamic_slice(x, tuple(start), (5, 4, 3))
    turned = jnp.transpose(jnp.pad(window, ((0, 1), (2, 2), (3, 4)), mode="reflect"), (2, 0, 1))
    return turned, lax.dynamic_update_slice(x, -window, tuple(start[::-1]))


@case("a=4 shard=2 reversed", ["f32[40] a", "s32[40] a", "s32[6] ."], ("shard", "a"))
def segment_product_and_scan(x, ids, edges):
    """Products of segments by a scatter that multiplies, and a scan that starts anew at each edge."""
    product = jax.ops.segment_prod(1 + 0.1 * x, ids % 10, 10)
    start = jnp.zeros(40, bool).at[edges].set(True, mode="drop")

    def join(left, right):
        return jnp.where(right[1], right[0], left[0] + right[0]), left[1] | right[1]

    return product, lax.associative_scan(join, (x, start))[0]


@case("a=3 b=2", ["f16[12,20] a b", "f16[12,20] b a", "pred[12] a"], ("a", "a b"))
def masked_argmax_variadic(x, y, mask):
    """A reduction of two values at once, as argmax of a product is written by hand."""
    z = jnp.where(mask[:, None], x * y, -jnp.inf).astype(jnp.float16)
    at = lax.broadcasted_iota(jnp.int32, z.shape, 1)

    def larger(p, q):
        first = (p[0] > q[0]) | ((p[0] == q[0]) & (p[1] < q[1]))
        return jnp.where(first, p[0], q[0]), jnp.where(first, p[1], q[1])

    value, index = lax.reduce((z, at), (jnp.float16(-jnp.inf), jnp.int32(99)), larger, (1,))
    return index, jnp.clip(z, -1, 1) - value[:, None]


@case("a=8 b=3", ["f32[8,6,6] a . b"], "a . b")
def lu_without_pivot_loop(m):
    """Gauss's elimination of a batch: a column, a row and an outer product at a place that the loop gives."""
    m = m + 6 * jnp.eye(6)

    def step(k, m):
        pivot = lax.dynamic_slice(m, (0, k, k), (8, 1, 1))
        column = lax.dynamic_slice_in_dim(m, k, 1, 2) / pivot
        column = jnp.where(jnp.arange(6)[:, None] > k, column, 0)
        m = m - column * lax.dynamic_slice_in_dim(m, k, 1, 1)
        return m + column * (jnp.arange(6) == k)

    return lax.fori_loop(0, 5, step, m)


@case("a=8 b=2", ["f32[16,24] a b", "f32[24,16] b a"], ("a b", "b ."), platform="tpu")
def triangular_solves(a, b):
    """A lower triangular system for many right-hand sides, then its transpose from the right."""
    lower = jnp.tril(a[:, :16]) * 0.1 + 2 * jnp.eye(16)
    x = lax.linalg.triangular_solve(lower, a, left_side=True, lower=True)
    return x, lax.linalg.triangular_solve(lower, b, left_side=False, lower=True, transpose_a=True)


@case("a=2 b=2", ["u32[4]", "f32[10,14] a b"], ("a b", "a ."))
def rng_bit_generator_dropout(state, x):
    """Bits of the Philox generator, a mask of them, and a sample without putting back by sorting with noise."""
    state, bits = lax.rng_bit_generator(state, (10, 14), dtype=jnp.uint32)
    keep = pin(bits, "a b") > jnp.uint32(2**31)
    return jnp.where(keep, x * 2, 0), lax.sort((bits, x), dimension=1, num_keys=1)[1][:, :5]


@case("a=4 b=2", ["f32[24,10] a b", "f32[10] b"], ("a b", "b"))
def custom_gradient_round_clip(x, scale):
    """A rounding whose gradient is made up, a stop, an optimisation barrier, and an integer product."""
    @jax.custom_vjp
    def fake_quantise(x, s):
        return jnp.clip(jnp.round(x / s), -127, 127) * s

    def forward(x, s):
        return fake_quantise(x, s), (x, s)

    def backward(kept, g):
        x, s = kept
        inside = jnp.abs(x / s) <= 127
        return jnp.where(inside, g, 0), jnp.sum(jnp.where(inside, 0, jnp.sign(x) * g), 0)

    fake_quantise.defvjp(forward, backward)

    def loss(x, s):
        y = lax.optimization_barrier(fake_quantise(x, s))
        q = (y / s).astype(jnp.int8)
        big = lax.dot_general(q, q, (((1,), (1,)), ((), ())), preferred_element_type=jnp.int32)
        return jnp.sum(y * y) + lax.stop_gradient(jnp.trace(big) * 1e-3)

    return jax.grad(loss, (0, 1))(x, jnp.exp(scale) * 0.1)
