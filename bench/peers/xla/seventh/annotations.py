# SPDX-License-Identifier: Apache-2.0
"""Programs that say little of how they are cut: the twenty cases that corpus.py writes as annotations. The first ten
have constraints inside only, five of the rest have annotations on results only, and five have such as conflict, two of
them on parameters too.
"""
import jax
import jax.numpy as jnp
from jax import lax

from kit import case, pin


@case("data=8 model=8", ["f32[16,32]", dict(a="f32[32,64]", b="f32[64,32]"), "f32[16,32]"])
def mlp_hidden_pinned(x, w, target):
    """Only the hidden layer says how it is cut, once in the forward and so also in the backward pass."""
    def loss(w):
        h = pin(jax.nn.relu(x @ w["a"]), "data model")
        return jnp.mean((h @ w["b"] - target) ** 2)

    return jax.tree.map(lambda p, g: p - 0.1 * g, w, jax.grad(loss)(w))


@case("data=4 head=8", ["bf16[4,16,48]", "bf16[48,144]"])
def attention_scores_pinned(x, w):
    q, k, v = jnp.moveaxis((x @ w).reshape(4, 16, 3, 8, 6), (2, 3), (0, 2))
    s = pin(jnp.einsum("bhtk,bhsk->bhts", q, k), "data head . .")
    return jnp.einsum("bhts,bhsk->bthk", jax.nn.softmax(s.astype(jnp.float32)).astype(x.dtype), v).reshape(4, 16, 48)


@case("a=3", ["f32[10,7]", "f32[7,10]"])
def symmetric_pin_uneven(x, y):
    """A product that is cut where it does not divide, with a transpose that wants the other dim."""
    z = pin(x @ y, "a .")
    return z + z.T, jnp.trace(z)


@case("a=4 b=2", ["f32[8,24]", "s32[12]"])
def pinned_gather_scatter(x, index):
    rows = pin(x.T[index], "b a")
    return jnp.zeros((24, 8)).at[index].add(pin(jnp.cumsum(rows, 0), "a ."), mode="drop")


@case("a=2 b=2 c=2", ["f32[6,20]", "f32[20,6]"])
def while_carry_pinned(x, w):
    """A carried value that the loop's body pins, and that nothing outside does."""
    def body(state):
        i, x = state
        x = pin(jnp.tanh(x @ w @ x), "a b+c")
        return i + 1, x / jnp.maximum(jnp.abs(x).max(), 1e-3)

    return lax.while_loop(lambda s: (s[0] < 8) & (s[1].sum() < 1e3), body, (0, x))[1]


@case("a=8", ["bf16[4,30,16]", "bf16[3,16,16]"])
def one_branch_pinned(x, w):
    """A conv over time, then a branch of two has a constraint, on a dim that does not divide."""
    y = lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))
    return lax.cond(y[0, 0, 0] > 0, lambda y: pin(jnp.flip(y, 1), ". a ."), lambda y: y * 2, y)


@case("h=2 w=4", ["f32[1,20,28,3]", "f32[5,5,3,8]", "f32[3,3,8,1]"])
def image_pinned_between_convs(x, first, second):
    dims = ("NHWC", "HWIO", "NHWC")
    y = lax.conv_general_dilated(x, first, (2, 2), "SAME", dimension_numbers=dims)
    y = pin(jax.nn.relu(y), ". h w .")
    return jax.image.resize(lax.conv_general_dilated(y, second, (1, 1), "SAME", dimension_numbers=dims), (1, 20, 28, 1),
                            "linear")


@case("a=2 b=4", ["f32[4,9,8]", "f32[8]"])
def reshape_pinned_twice(x, scale):
    """A merged dim is pinned over one axis, what it is split into over the other."""
    flat = pin(x.reshape(36, 8) * scale, "b a")
    return pin(flat.reshape(6, 6, 8).sum(0), "a .").max(-1), flat.min(0)


@case("a=12", ["f32[12,6]", "u32[2]"])
def random_mask_pinned(x, key):
    """Random bits that are pinned, in the manner of dropout; the key has no annotation."""
    mask = pin(jax.random.bernoulli(key, 0.8, (12, 6)), "a .")
    return jnp.where(mask, x / 0.8, 0).mean(0)


@case("stage=2 data=2", ["f32[4,10,14]", "f32[4,14,14]"])
def scan_stack_pinned(x, w):
    """The stacks that a scan reads and what it writes are pinned on the dim of its steps."""
    w = pin(w, "stage . .")

    def step(h, now):
        x, w = now
        h = jnp.sin(h @ w) + x
        return h, h.astype(jnp.float16)

    h, hs = lax.scan(step, x[0] * 0, (pin(x, "stage data ."), w))
    return pin(hs, "stage . ."), h


@case("a=2 b=3", ["s32[20]", "f32[20,15]"], ("a", ". b"))
def histogram_results_cut(ids, x):
    """Counts and sums that are to be cut; nothing else is said."""
    ids = ids % 8
    return jnp.bincount(ids, length=8), jax.ops.segment_sum(jnp.exp(x), ids, 8)


@case("a=4 b=4", ["f32[16,12]", "f32[12,20]", "f32[20,16]"], "a b")
def matmul_chain_result_cut(a, b, c):
    return jnp.linalg.multi_dot([a, b, c]) / jnp.sqrt(jnp.square(a).sum())


@case("a=6", ["bf16[8,25]", "bf16[25]"], ("a .", ". a", None))
def norm_three_results(x, g):
    """The same value as two results that are cut on other dims, and a third that is free."""
    h = x.astype(jnp.float32)
    h = h * lax.rsqrt(jnp.mean(h * h, -1, keepdims=True) + 1e-5) * g
    return h, h.astype(jnp.bfloat16), jnp.sort(h, -1)


@case("a=2 b=2", ["f64[30]", "f64[30]"], ("a", "b"), x64=True)
def ode_results_cut(x, v):
    """Ten steps of coupled oscillators, position and velocity cut over one axis each."""
    def step(_, xv):
        x, v = xv
        v = v - 0.1 * (jnp.sin(x) + 0.3 * (2 * x - jnp.roll(x, 1) - jnp.roll(x, -1)))
        return x + 0.1 * v, v

    return lax.fori_loop(0, 10, step, (x, v))


@case("a=8", ["s32[9,11]", "bf16[50,16]"], (". . a", "a ."))
def embedding_result_cut(tokens, table):
    x = jnp.take(table, tokens, 0, mode="wrap")
    return x * 4, jnp.einsum("btd,vd->vb", x, table)


@case("a=4 b=8", ["f32[16,16]", "f32[16,16]"], "b a")
def conflict_of_neighbours(x, y):
    """Two values that are added are pinned the two ways round, and the result a third."""
    return jnp.exp(pin(x * 2, "a b")) + pin(jnp.tanh(y), "b .") @ pin(y + x, ". a")


@case("a=4 b=2", ["f32[12,10]", "f32[10,12]"], ("a .", ". a"))
def conflict_pinned_again(x, w):
    """A value is pinned, used, pinned otherwise, and then to be whole, with nothing done between."""
    h = pin(x @ w, "a b")
    again = pin(pin(h, "b a"), ". .")
    return h * again.sum(0), again[::-1]


@case("a=3 b=2", ["bf16[7,18] a .", "bf16[18,7] . a"], "b a")
def conflict_contracting_dims(x, w):
    """Operands cut over one axis on the dims that are kept; the result wants it on one and another axis beside."""
    return jnp.maximum(x @ w, 0) + lax.rev(pin(x, "b a") @ w, (0,))


@case("a=2 b=2 c=2", ["f32[8,12] a+b c", "f32[8,12] c a", "f32[8,12] . a+b+c"], ("c+a b", "b"))
def conflict_of_axis_orders(x, y, z):
    """Axes in other orders and on other dims, in arguments, inside and in results."""
    s = pin(x + y, "b+a .") * pin(z, "a c+b")
    return s, pin(s - y, "c b").sum(1)


@case("a=4 b=2 transposed", ["f32[6,9,8]", "f32[6,8,5]"], ("a . b", ". b"))
def conflict_in_loop_and_out(x, w):
    """A loop pins its value on a batch that does not divide, what is before and after wants another dim."""
    def turn(_, h):
        return pin(jnp.tanh(jnp.einsum("btd,bde->bte", h, w @ w.mT)), "a . .")

    h = lax.fori_loop(0, 3, turn, pin(x, ". a b"))
    return pin(h, ". b a"), jnp.argmax(h, 1)
