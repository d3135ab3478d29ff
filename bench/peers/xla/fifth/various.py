# SPDX-License-Identifier: Apache-2.0
"""Linear algebra, spectra, sorts, segments, graphs, simulations, data movement, types."""
from corpus import case, jax, jnp, lax

C64 = jnp.complex64


@case("4", "2x2 s", "2x3 raw", "2x4 out", "2x2x2 s", "3x4 v1")
def einsum_zoo(k):
    x, y, z, w = k.s((12, 8, 24), "a", None, "b"), k.s((24, 8, 12), "b", "a"), k.s((12, 24), "b", "a"), k.s((8, 8), "a")

    def forward(x, y, z, w):
        return (jnp.einsum("abc,cbd->ad", x, y), jnp.einsum("abc,cbd->bad", x, y), jnp.einsum("abc,ac->b", x, z), jnp.einsum("abc,bd,ac->dc", x, w, z),
                jnp.einsum("abc,dba->cd", x, y.transpose(0, 1, 2)), jnp.einsum("abc,abc->", x, x), jnp.einsum("ab,cd->acbd", w, w), jnp.einsum("ii,ij->j", w, w))

    return forward, (x, y, z, w)


@case("4", "2x2 s", "8", "2x3 raw", "2x4 few")
def tensor_train_gradient(k):
    """A matrix as a train of small cores, applied to rows."""
    B = 16 if not k.loose else 13
    cores = [k.s((1, 4, 4, 6), None, "a"), k.s((6, 4, 4, 6), None, "b"), k.s((6, 4, 4, 1), None, None, "a")]
    x = k.s((B, 64), "a")

    def loss(cores, x):
        t = x.reshape(-1, 4, 4, 4)
        return jnp.mean(jnp.einsum("bxyz,lxpm,myqn,nzro->bpqr", t, *cores) ** 2)

    return jax.grad(loss), (cores, x)


@case("4", "2x2 s", "8 out", "3 raw", "2x4")
def blocked_cholesky(k):
    """Right-looking block factorization of a matrix with sharded rows."""
    N, C = (32, 8) if not k.loose else (24, 6)
    a = k.s((N, N), "a", "b")

    def factor(a):
        a = a @ a.T / N + N * jnp.eye(N)
        for i in range(0, N, C):
            d = jnp.linalg.cholesky(a[i : i + C, i : i + C])
            a = a.at[i : i + C, i : i + C].set(d)
            if i + C < N:
                p = jax.scipy.linalg.solve_triangular(d, a[i + C :, i : i + C].T, lower=True).T
                a = a.at[i + C :, i : i + C].set(p)
                a = a.at[i + C :, i + C :].add(-p @ p.T)
        return jnp.tril(a)

    return factor, (a,)


@case("4", "2x2 s", "8", "5 raw")
def householder_loop(k):
    """QR by reflections in a loop, masks from row numbers."""
    M, N = (24, 8) if not k.loose else (23, 6)
    a = k.s((M, N), "a", "b")

    def factor(a):
        at = jnp.arange(M)

        def body(j, c):
            r, q = c
            x = jnp.where(at >= j, r[:, j], 0)
            v = x + jnp.where(at == j, jnp.sign(x[j]) * jnp.linalg.norm(x), 0)
            v = v / (jnp.linalg.norm(v) + 1e-6)
            return r - 2 * jnp.outer(v, v @ r), q - 2 * jnp.outer(q @ v, v)

        return lax.fori_loop(0, N, body, (a, jnp.eye(M)))

    return factor, (a,)


@case("4", "2x2 s", "8 out")
def lanczos_scan(k):
    """A tridiagonal form of a sharded symmetric matrix; vectors are orthogonalized twice."""
    N, S = 32, 4
    a, v = k.s((N, N), "a", "b"), k.s((N,), "a")

    def run(a, v):
        a, v = (a + a.T) / 2, v / jnp.linalg.norm(v)

        def step(c, i):
            v, old, beta, kept = c
            w = a @ v - beta * old
            alpha = w @ v
            w = w - alpha * v
            kept = kept.at[i].set(v)
            w = w - kept.T @ (kept @ w)
            beta = jnp.linalg.norm(w)
            return (w / (beta + 1e-6), v, beta, kept), (alpha, beta)

        return lax.scan(step, (v, v * 0, 0.0, jnp.zeros((S, N))), jnp.arange(S))

    return run, (a, v)


@case("4", "2x2 s", "2x4", "8 few", "7 raw")
def multigrid_cycle(k):
    """Multigrid: smooth, restrict, smooth coarsely, prolong: 1-D convolutions and strides over a sharded grid."""
    N = 64 if not k.loose else 63
    u, f = k.s((4, N), "b", "a"), k.s((4, N), "b", "a")

    def smooth(u, f):
        wide = jnp.pad(u, ((0, 0), (1, 1)))
        return u + 0.3 * (f + wide[:, 2:] + wide[:, :-2] - 2 * u)

    def cycle(u, f):
        u = smooth(smooth(u, f), f)
        wide = jnp.pad(u, ((0, 0), (1, 1)))
        r = f + wide[:, 2:] + wide[:, :-2] - 2 * u
        coarse = r[:, ::2]
        e = smooth(jnp.zeros_like(coarse), 4 * coarse)
        fine = jnp.repeat(e, 2, 1)[:, :N]
        return smooth(u + 0.5 * fine, f)

    return cycle, (u, f)


@case("4", "2x2 s", "8 out", "3 raw")
def spectral_navier_step(k):
    """2-D vorticity with real FFTs and dealiasing, one Runge-Kutta step."""
    N, B = (16, 4) if not k.loose else (15, 3)
    w = k.s((B, N, N), "b", "a" if k.i else None, None if k.i else "a")

    def step(w):
        kx, ky = jnp.fft.fftfreq(N, 1 / N)[:, None], jnp.fft.rfftfreq(N, 1 / N)
        lap = kx**2 + ky**2
        keep = (jnp.abs(kx) < N / 3) & (ky < N / 3)

        def rate(z):
            psi = z / jnp.where(lap == 0, 1, lap)
            u, v, dx, dy = (jnp.fft.irfft2(q, (N, N)) for q in (1j * ky * psi, -1j * kx * psi, 1j * kx * z, 1j * ky * z))
            return -jnp.fft.rfft2(u * dx + v * dy) * keep - 0.01 * lap * z

        z = jnp.fft.rfft2(w)
        one = rate(z)
        return jnp.fft.irfft2(z + 0.01 * rate(z + 0.005 * one), (N, N)), (jnp.abs(z) ** 2).sum((1, 2))

    return step, (w,)


@case("4", "2x2 s", "8", "2x4 s")
def fourier_neural_operator_gradient(k):
    B, N, C, M = 4, 32, 8, 6
    w, v, x = k.s((2, M, C, C), None, None, "b"), k.s((C, C), None, "b"), k.s((B, N, C), "a" if k.i != 2 else None, "a" if k.i == 2 else None, "b")

    def loss(w, v, x):
        z = jnp.fft.rfft(x, axis=1)[:, :M]
        z = jnp.einsum("bmc,mcd->bmd", z, w[0] + 1j * w[1])
        y = jnp.fft.irfft(jnp.pad(z, ((0, 0), (0, N // 2 + 1 - M), (0, 0))), N, axis=1)
        return jnp.mean(jax.nn.gelu(y + x @ v) ** 2)

    return jax.grad(loss, (0, 1, 2)), (w, v, x)


@case("4", "2x2 s", "8", "5 raw")
def phase_retrieval_complex(k):
    """Gerchberg-Saxton: complex fields between two planes, magnitudes replaced in a loop."""
    B, N = (4, 16) if not k.loose else (3, 15)
    a, b = k.s((B, N, N), "a", "b"), k.s((B, N, N), "a", "b")

    def run(a, b):
        a, b = jnp.abs(a), jnp.abs(b)

        def body(_, f):
            g = jnp.fft.fft2(f)
            g = b * jnp.exp(1j * jnp.angle(g))
            f = jnp.fft.ifft2(g)
            return a * f / (jnp.abs(f) + 1e-3)

        f = lax.fori_loop(0, 2, body, a.astype(C64))
        return jnp.real(f), jnp.imag(f), jnp.conj(f).sum()

    return run, (a, b)
