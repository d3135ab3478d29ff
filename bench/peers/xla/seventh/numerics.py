# SPDX-License-Identifier: Apache-2.0
"""Solvers, stencils, simulations and scans: twenty-one of the forty cases that corpus.py writes as numerics."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from kit import axis, case, manual, pin


@case("x=8 y=4", ["f64[64,48] x y", "f64[64,48] x y"], "x y", x64=True)
def jacobi_poisson_fixed_steps(u, f):
    """Fifty sweeps over a plate whose border is held."""
    def sweep(_, u):
        inner = (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - f[1:-1, 1:-1]) / 4
        return u.at[1:-1, 1:-1].set(inner)

    return lax.fori_loop(0, 50, sweep, u)


@case("row=8", ["f64[100,100] row .", "f64[100] row"], ("row", "", ""), x64=True)
def conjugate_gradient_tolerance(a, b):
    def unfinished(state):
        *_, rr, i = state
        return (rr > 1e-12) & (i < 200)

    def step(state):
        x, r, p, rr, i = state
        ap = a @ p
        alpha = rr / jnp.dot(p, ap)
        x, r = x + alpha * p, r - alpha * ap
        new = jnp.dot(r, r)
        return x, r, r + new / rr * p, new, i + 1

    x, _, _, rr, i = lax.while_loop(unfinished, step, (jnp.zeros_like(b), b, b, jnp.dot(b, b), 0))
    return x, jnp.sqrt(rr), i


@case("x=3 y=3 z=2", ["f32[18,18,18] x y z", "f32[18,18,18] x y z", "f32[]"], "x y z")
def red_black_gauss_seidel(u, f, omega):
    """Over-relaxed sweeps over a torus, cells of one colour at a time."""
    i = sum(jnp.meshgrid(*[jnp.arange(18)] * 3, indexing="ij")) % 2

    def half(colour, u):
        around = sum(jnp.roll(u, s, d) for d in range(3) for s in (1, -1))
        return jnp.where(i == colour, (1 - omega) * u + omega * (around - f) / 6, u)

    return lax.fori_loop(0, 10, lambda n, u: half(1, half(0, u)), u)


@case("z=16", ["f32[32,10,12] z . .", "f32[]"], "z . .")
def heat_halo_exchange_manual(u, dt):
    """A slab's faces go to its neighbours by ppermute, the outer faces see a wall of zeros."""
    n = axis("z")

    def local(u, dt):
        above = lax.ppermute(u[-1:], "z", [(i, i + 1) for i in range(n - 1)])
        below = lax.ppermute(u[:1], "z", [(i + 1, i) for i in range(n - 1)])
        p = jnp.pad(jnp.concatenate([above, u, below], 0), ((0, 0), (1, 1), (1, 1)))
        lap = p[:-2, 1:-1, 1:-1] + p[2:, 1:-1, 1:-1] + p[1:-1, :-2, 1:-1] + p[1:-1, 2:, 1:-1]
        return u + dt * (lap + p[1:-1, 1:-1, :-2] + p[1:-1, 1:-1, 2:] - 6 * u)

    return manual(lambda u, dt: lax.fori_loop(0, 3, lambda _, u: local(u, dt), u), ("z . .", ""), "z . .")(u, dt)


@case("row=2 col=3", ["f32[64,64] row col", "f32[64,5] row ."], "row .")
def chebyshev_semi_iteration(a, b):
    """Bounds on the spectrum by Gershgorin's circles, then twelve steps for five right-hand sides."""
    diagonal = jnp.diag(a)
    radius = jnp.abs(a).sum(1) - jnp.abs(diagonal)
    low, high = jnp.maximum((diagonal - radius).min(), 0.1), (diagonal + radius).max()
    middle, width = (high + low) / 2, (high - low) / 2

    def step(k, state):
        x, d, alpha = state
        r = b - a @ x
        beta = jnp.where(k == 0, 0.0, jnp.where(k == 1, 0.5, 0.25) * (width * alpha) ** 2)
        alpha = jnp.where(k == 0, 1 / middle, 1 / (middle - beta / alpha))
        d = r + beta * d
        return x + alpha * d, d, alpha

    return lax.fori_loop(0, 12, step, (jnp.zeros_like(b), jnp.zeros_like(b), jnp.float32(1.0)))[0]


@case("x=3 y=2", ["f32[9,40,30] . x y", "pred[40,30] x y"], ". x y")
def lattice_boltzmann_d2q9(f, wall):
    e = np.array([(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)], np.int32)
    weight = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4, np.float32)
    back = np.array([0, 3, 4, 1, 2, 7, 8, 5, 6])
    rho = f.sum(0)
    u = jnp.einsum("qd,qxy->dxy", e.astype(np.float32), f) / rho
    eu = jnp.einsum("qd,dxy->qxy", e.astype(np.float32), u)
    equal = weight[:, None, None] * rho * (1 + 3 * eu + 4.5 * eu**2 - 1.5 * (u**2).sum(0))
    f = jnp.where(wall, f[back], f + (equal - f) / 0.6)
    return jnp.stack([jnp.roll(f[q], tuple(int(s) for s in e[q]), (0, 1)) for q in range(9)])


@case("x=4 y=4", ["s32[50,70] x y"], "x y")
def game_of_life_conv(board):
    """A sum of neighbours as a convolution of integers on a board that wraps."""
    ring = jnp.array([[1, 1, 1], [1, 0, 1], [1, 1, 1]], jnp.int32)[None, None]

    def step(board, _):
        near = lax.conv_general_dilated(jnp.pad(board, 1, mode="wrap")[None, None], ring, (1, 1), "VALID")[0, 0]
        board = ((near == 3) | ((near == 2) & (board == 1))).astype(jnp.int32)
        return board, board.sum()

    return lax.scan(step, board & 1, None, length=4)[0]


@case("body=16", ["f32[48,3] body .", "f32[48,3] body .", "f32[48] body"], ("body .", "body .", ""))
def nbody_leapfrog(x, v, mass):
    def pull(x):
        d = x[None] - x[:, None]
        return jnp.einsum("ijd,ij,j->id", d, (jnp.sum(d * d, -1) + 1e-2) ** -1.5, mass)

    def step(carry, _):
        x, v = carry
        v = v + 0.005 * pull(x)
        x = x + 0.01 * v
        v = v + 0.005 * pull(x)
        return (x, v), 0.5 * jnp.sum(mass[:, None] * v * v)

    (x, v), energy = lax.scan(step, (x, v), length=20)
    return x, v, energy


@case("row=2 col=2", ["f32[24,31,3] row col .", "f32[24,31,3] row col .", "f32[3]"], ("row col .", "row col ."))
def cloth_springs_step(x, v, wind):
    """Forces between the points of a cloth by differences and pads; its top row is held."""
    def springs(x, dim):
        d = jnp.diff(x, axis=dim)
        length = jnp.sqrt(jnp.sum(d * d, -1, keepdims=True) + 1e-9)
        f = 50 * (length - 0.1) * d / length
        before, after = [[(0, 0)] * 3 for _ in range(2)]
        before[dim], after[dim] = (0, 1), (1, 0)
        return jnp.pad(f, before) - jnp.pad(f, after)

    force = springs(x, 0) + springs(x, 1) - 0.2 * v + wind
    v = (v + 0.01 * force) * (jnp.arange(24) > 0)[:, None, None]
    return x + 0.01 * v, v


@case("particle=8", ["f32[500] particle", "f32[500] particle", "f32[64] ."], ("particle", "particle", "."))
def particle_in_cell_step(x, v, field):
    """Charges to a grid by linear weights, a field by a cumulative sum, and a push of what is between its points."""
    at = jnp.mod(x, 1.0) * 64
    left, part = jnp.floor(at).astype(jnp.int32) % 64, at - jnp.floor(at)
    density = jnp.zeros(64).at[left].add(1 - part).at[(left + 1) % 64].add(part) / 500
    e = jnp.cumsum(density - density.mean())
    field = 0.5 * field + 0.5 * (e - e.mean())
    v = v - 0.1 * ((1 - part) * field[left] + part * field[(left + 1) % 64])
    return jnp.mod(x + 0.1 * v, 1.0), v, field


@case("x=8", ["f64[96] x", "f64[96] x"], ("x", "x"), x64=True)
def shallow_water_lax_friedrichs(h, hu):
    def flux(h, hu):
        return hu, hu * hu / h + 4.905 * h * h

    def step(_, q):
        h, hu = q
        left, right = (jnp.roll(h, 1), jnp.roll(hu, 1)), (jnp.roll(h, -1), jnp.roll(hu, -1))
        speed = jnp.max(jnp.abs(hu / h) + jnp.sqrt(9.81 * h))
        fl, fr = flux(*left), flux(*right)
        return tuple((a + b) / 2 - 0.45 / speed * (g - f) for a, b, f, g in zip(left, right, fl, fr))

    return lax.fori_loop(0, 10, step, (jnp.abs(h) + 1, hu))


@case("member=16 reversed", ["f32[32,40] member .", "f32[]"], "member .")
def lorenz96_rk4_ensemble(x, force):
    def slope(x):
        return (jnp.roll(x, -1, 1) - jnp.roll(x, 2, 1)) * jnp.roll(x, 1, 1) - x + force

    def step(x, _):
        a = slope(x)
        b = slope(x + 0.025 * a)
        c = slope(x + 0.025 * b)
        return x + 0.05 / 6 * (a + 2 * (b + c) + slope(x + 0.05 * c)), x.mean(0)

    return lax.scan(step, x, length=8)[0]


@case("system=2 unknown=2", ["f32[12,64] system unknown"] * 4, "system unknown")
def thomas_tridiagonal_batch(lower, middle, upper, right):
    """Forward and backward scans along a dim that is cut."""
    def down(carry, row):
        c, d = carry
        a, b, up, r = row
        scale = 1 / (b + 4 - a * c)
        c, d = up * scale, (r - a * d) * scale
        return (c, d), (c, d)

    zero = jnp.zeros(12)
    _, (c, d) = lax.scan(down, (zero, zero), tuple(x.T for x in (lower, middle, upper, right)))

    def up(x, row):
        x = row[1] - row[0] * x
        return x, x

    return lax.scan(up, zero, (c, d), reverse=True)[1].T


@case("batch=4 row=2", ["f64[8,10,10] batch row ."], "batch row .", x64=True)
def expm_scaling_squaring(a):
    """A matrix exponential by Taylor's series and four squarings."""
    a = a / 16

    def term(k, carry):
        total, power = carry
        power = power @ a / k
        return total + power, power

    eye = jnp.broadcast_to(jnp.eye(10), a.shape)
    total, _ = lax.fori_loop(1, 11, term, (eye, eye))
    for _ in range(4):
        total = total @ total
    return total


@case("track=4 state=2", ["f32[20,8,3] . track .", "f32[6,6] . .", "f32[3,6] . .", "f32[8,6] track state",
                            "f32[8,6,6] track state ."], (". track state", "track state ."))
def kalman_filter_tracks(z, f, h, x, p):
    """Eight tracks, twenty measurements; the three-by-three inverse is written out."""
    def inverse(s):
        a, b, c = s[..., 0, :], s[..., 1, :], s[..., 2, :]
        rows = jnp.stack([jnp.cross(b, c), jnp.cross(c, a), jnp.cross(a, b)], -1)
        return rows / jnp.sum(a * jnp.cross(b, c), -1)[..., None, None]

    def step(carry, z):
        x, p = carry
        x, p = x @ f.T, f @ p @ f.T + 0.01 * jnp.eye(6)
        gain = p @ h.T @ inverse(h @ p @ h.T + 0.1 * jnp.eye(3))
        x = x + jnp.einsum("nij,nj->ni", gain, z - x @ h.T)
        p = p - gain @ h @ p
        return (x, (p + p.mT) / 2), x

    (_, p), xs = lax.scan(step, (x, p), z)
    return xs, p


@case("path=8", ["u32[2]", "f32[1001] path", "f32[]", "f32[]"], ("path", ""))
def monte_carlo_barrier_option(key, spot, rate, sigma):
    """Twelve monthly steps for each path from one draw of uniform numbers, summed in sixes as a normal number."""
    u = jax.random.uniform(key, (12, 6, 1001))
    z = (pin(u, ". . path").sum(1) - 3) * np.float32(2**0.5)
    path = spot * jnp.exp(jnp.cumsum((rate - sigma**2 / 2) / 12 + sigma * z / 12**0.5, 0))
    alive = jnp.all(path < 150, 0)
    pay = jnp.where(alive, jnp.maximum(path[-1] - 100, 0), 0) * jnp.exp(-rate)
    return pay, pay.mean()


@case("x=4 y=8", ["s32[32,32] x y", "u32[2] .", "f32[]"], ("x y", ""))
def ising_checkerboard_metropolis(spin, key, beta):
    spin = jnp.where(spin % 2 == 0, 1, -1)
    board = (jnp.arange(32)[:, None] + jnp.arange(32)) % 2

    def half(spin, now):
        colour, u = now
        near = sum(jnp.roll(spin, s, d) for s in (1, -1) for d in (0, 1))
        flip = (u < jnp.exp(-2 * beta * (spin * near))) & (board == colour)
        spin = jnp.where(flip, -spin, spin)
        return spin, spin.mean()

    spin, m = lax.scan(half, spin, (jnp.arange(6) % 2, jax.random.uniform(key, (6, 32, 32))))
    return spin, m


@case("vertex=4", ["f32[45,45] vertex ."], ("vertex .", ""))
def floyd_warshall_paths(d):
    d = jnp.where(jnp.eye(45, dtype=bool), 0, jnp.abs(d) + 0.01)
    d = lax.fori_loop(0, 45, lambda k, d: jnp.minimum(d, d[:, k, None] + d[None, k, :]), d)
    return d, jnp.max(d)


@case("edge=4 node=2", ["s32[400] edge", "s32[400] edge", "f32[96] node"], "node")
def pagerank_edge_list(source, target, rank):
    out = jnp.zeros(96).at[source].add(1.0)
    rank = jnp.abs(rank) / jnp.abs(rank).sum()

    def step(state):
        rank, _, i = state
        flow = jnp.where(out > 0, rank / jnp.maximum(out, 1), 0)[source]
        lost = jnp.sum(jnp.where(out > 0, 0, rank))
        new = 0.15 / 96 + 0.85 * (jax.ops.segment_sum(flow, target, 96) + lost / 96)
        return new, jnp.abs(new - rank).sum(), i + 1

    return lax.while_loop(lambda s: (s[1] > 1e-6) & (s[2] < 50), step, (rank, jnp.float32(1), 0))[0]


@case("p=4 q=4", ["f32[60,3] p .", "f32[44,3] q ."], ("p q", ""))
def sinkhorn_transport(x, y):
    """Twenty rounds on logarithms; the cost is over both axes."""
    cost = jnp.sum((x[:, None] - y[None]) ** 2, -1)

    def step(_, fg):
        _, g = fg
        f = -0.1 * (jax.nn.logsumexp((g[None] - cost) / 0.1, 1) + np.log(60))
        return f, -0.1 * (jax.nn.logsumexp((f[:, None] - cost) / 0.1, 0) + np.log(44))

    f, g = lax.fori_loop(0, 20, step, (jnp.zeros(60), jnp.zeros(44)))
    plan = jnp.exp((f[:, None] + g[None] - cost) / 0.1)
    return plan, jnp.sum(plan * cost)


@case("row=2 col=3", ["f32[33,34] row col"], ("row col", "row col"))
def mandelbrot_escape(offset):
    re = jnp.linspace(-2, 0.6, 34)[None] + 0.001 * offset
    im = jnp.linspace(-1.2, 1.2, 33)[:, None] + 0 * offset

    def step(state):
        x, y, n, i = state
        inside = x * x + y * y < 4
        x, y = jnp.where(inside, x * x - y * y + re, x), jnp.where(inside, 2 * x * y + im, y)
        return x, y, n + inside, i + 1

    def unfinished(state):
        x, y, _, i = state
        return (i < 60) & jnp.any(x * x + y * y < 4)

    x, y, n, _ = lax.while_loop(unfinished, step, (re * 0, im * 0, jnp.zeros((33, 34), jnp.int32), 0))
    return n, n - jnp.log2(jnp.maximum(jnp.log(x * x + y * y + 1.01), 1e-3))
