#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""python pairs.py FOLDER [DRAW..]: two consecutive ops that move data, with every kind of sharding. The module's name
seeds all choices.
"""
import pathlib, random, sys
import corpus
from corpus import K, P, jax, jnp, lax, np

OPS = {
    "pad": lambda x, r: lax.pad(x, jnp.zeros((), x.dtype), ((r.choice([0, 1, 2]), r.choice([0, 1, 3]), 0), (0, r.choice([0, 1]), 0))),
    "crop": lambda x, r: x[r.choice([0, 1]):x.shape[0] - r.choice([0, 1, 2])],
    "negpad": lambda x, r: lax.pad(x, jnp.zeros((), x.dtype), ((r.choice([1, 2]), -r.choice([1, 2]), 0), (0, 0, 0))),
    "dilate": lambda x, r: lax.pad(x, jnp.zeros((), x.dtype), ((0, r.choice([0, 1]), 1), (0, 0, 0))),
    "stride": lambda x, r: x[r.choice([0, 1])::2],
    "reverse": lambda x, r: x[::-1],
    "roll": lambda x, r: jnp.roll(x, r.choice([1, -2, 5]), 0),
    "concat": lambda x, r: jnp.concatenate([x, x[:r.choice([1, 4])] * 2], 0),
    "transpose": lambda x, r: x.T,
    "merge": lambda x, r: x.reshape(-1, 2 if x.size % 2 == 0 else 1),
    "split": lambda x, r: x.reshape(x.shape[0], -1, 1).transpose(1, 0, 2).reshape(x.shape[1], x.shape[0]),
    "cumsum": lambda x, r: jnp.cumsum(x, r.choice([0, 1])),
    "sort": lambda x, r: jnp.sort(x, r.choice([0, 1])),
    "center": lambda x, r: x - x.mean(r.choice([0, 1]), keepdims=True),
    "take": lambda x, r: x[jnp.array([0, 3, 1, 3, 2, 5, 4, 0])],
    "put": lambda x, r: x.at[jnp.array([1, 3])].add(1.),
    "window": lambda x, r: lax.reduce_window(x, 0., lax.add, (3, 1), (r.choice([1, 2]), 1), "SAME"),
    "tile": lambda x, r: jnp.tile(x, (2, 1)),
    "repeat": lambda x, r: jnp.repeat(x, 2, 0),
    "tri": lambda x, r: jnp.tril(x),
    "gram": lambda x, r: x @ x.T,
    "dynamic": lambda x, r: lax.dynamic_update_slice(x, x[:2] + 1, (jnp.argmax(x[:, 0]), 0)),
}
MESHES = ["4", "2x2", "2x3", "8", "3", "2x2x2", "5", "4x2", "6", "7"]
SPECS = [("a",), (None, "a"), ("a", "b"), ("b", "a"), ("ab",), (None, "ab"), ("ba",), ()]

def main():
    folder = pathlib.Path(sys.argv[1]); folder.mkdir(parents=True, exist_ok=True)
    made = 0
    for draw in sys.argv[2:] or ["0"]:
        for one, two in [(one, two) for one in OPS for two in random.Random(one).sample(sorted(OPS), 12 if draw == "0" else len(OPS))]:
            name = f"{one}_{two}-{draw}"; r = random.Random(name)
            words = r.choice(MESHES) + r.choice([" raw", " raw s", " raw perm", " raw"])
            k = K(name, words)
            rows = r.choice([8, 12, 16, 24, 13, 9]); a, b = r.choice(SPECS[:-1]), r.choice(SPECS)
            inner = r.random() < .3
            def f(x):
                d = random.Random(name)
                y = OPS[one](x, d)
                if inner: y = k.c(y, *b[:y.ndim])
                y = OPS[two](y, d)
                return k.c(y, *(b or a)[:y.ndim])
            corpus.CASES.append((name, lambda k, f=f, rows=rows, a=a: (f, (k.s((rows, 12), *a),)), words))
            try: corpus.build(folder, *corpus.CASES[-1][:2], words); made += 1
            except Exception as e: print("FAILED", name, type(e).__name__, str(e).splitlines()[0][:150])
    print(made)
main()
