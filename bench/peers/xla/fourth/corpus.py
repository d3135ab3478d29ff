#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""python corpus.py FOLDER [NAME..]: a fourth corpus, of modules that are not in the other three, written without
looking at the partitioner.

A variant is "2x3 WORDS": s = Shardy (else GSPMD), raw = shardings written into the text (may be uneven, the only
annotations), inner = only constraints of `k.c`, out = also shardings of results, perm = devices in another order, j =
the header leaves the shardings of results to propagation.
"""
import os, sys, pathlib, random
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=64"
os.environ["JAX_PLATFORMS"] = "cpu"
sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "third"))
import importlib.util
_at = importlib.util.spec_from_file_location("third_corpus", pathlib.Path(__file__).resolve().parent.parent / "third" / "corpus.py")
third = importlib.util.module_from_spec(_at); _at.loader.exec_module(third)
import jax, jax.numpy as jnp, numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

CASES = []
def case(*variants):
    def wrap(f):
        CASES.extend((f"{f.__name__}-{i}", f, v) for i, v in enumerate(variants))
        return f
    return wrap

class K:
    def __init__(self, name, variant):
        first, *words = variant.split()
        self.sizes, self.words = tuple(int(n) for n in first.split("x")), set(words)
        self.i = int(name.rsplit("-", 1)[1])
        self.raw, self.inner, self.out, self.shardy = ("raw" in words), ("inner" in words), ("out" in words), ("s" in words)
        self.count = int(np.prod(self.sizes))
        devices = list(jax.devices()[:self.count])
        if "perm" in words: random.Random(name).shuffle(devices)
        self.names = ("a", "b", "c", "d")[:len(self.sizes)]
        self.mesh = Mesh(np.array(devices).reshape(self.sizes), self.names)
        self.specs, self.kept = {}, []
    def n(self, r): return self.mesh.shape.get(r, 1)
    def spec(self, dims, entries, loose):
        out, used = [], set()
        for d, e in zip(dims, list(entries) + [None] * (len(dims) - len(entries))):
            if e == "?": out.append(P.UNCONSTRAINED); continue
            names, count = [], 1
            for r in e or "":
                if r in self.names and r not in used and d > 1 and (loose or d % (count * self.n(r)) == 0):
                    names.append(r); used.add(r); count *= self.n(r)
            out.append(tuple(names) if len(names) > 1 else names[0] if names else None)
        return P(*out)
    def s(self, dims, *entries, dtype=jnp.float32):
        a = jax.ShapeDtypeStruct(tuple(dims), dtype)
        self.specs[id(a)] = P() if self.inner else self.spec(dims, entries, self.raw); self.kept.append(a)
        return a
    def c(self, x, *entries):
        return lax.with_sharding_constraint(x, NamedSharding(self.mesh, self.spec(x.shape, entries, True)))
    def map(self, f, ins, outs, **kw):
        return jax.shard_map(f, mesh=self.mesh, in_specs=ins, out_specs=outs, **kw)

def auto(k, leaf, shift=0):
    entries, left = [None] * len(leaf.shape), list(k.names)
    for d in reversed(range(len(leaf.shape))):
        hit = next((n for n in left if leaf.shape[d] % k.n(n) == 0 and leaf.shape[d] > 1), None)
        if hit: entries[d] = hit; left.remove(hit)
    return P(*entries)

def build(folder, name, f, variant):
    k = K(name, variant)
    jax.config.update("jax_use_shardy_partitioner", k.shardy)
    fn, args, *outs = f(k)
    leaves, tree = jax.tree.flatten(args)
    specs, kw = [k.specs.get(id(a), P()) for a in leaves], {}
    if not k.raw and not k.inner:
        kw["in_shardings"] = jax.tree.unflatten(tree, [NamedSharding(k.mesh, s) for s in specs])
    if k.out:
        shapes = jax.eval_shape(fn, *args)
        kw["out_shardings"] = jax.tree.map(lambda l: NamedSharding(k.mesh, auto(k, l)), shapes)
    if outs:
        kw["out_shardings"] = jax.tree.map(lambda s: NamedSharding(k.mesh, s), outs[0], is_leaf=lambda s: isinstance(s, P))
    low = jax.jit(fn, keep_unused=True, **kw).lower(*args)
    text = third.header_devices(third.tidy(low.compiler_ir("hlo").as_hlo_text()), k.count)
    if k.raw:
        params, start = third.entry_parameters(text)
        body = text[start:]
        for j, (leaf, s) in enumerate(zip(leaves, specs)):
            if any(s): body = body.replace(params[j][0] + "\n", f"{params[j][0]}, sharding={third.hlo_sharding(k.mesh, s, len(leaf.shape))}\n", 1)
        text = text[:start] + body
    if "j" in k.words: text = third.free_header(text, len(jax.tree.leaves(low.out_info)))
    (folder / f"{name}-{'-'.join(variant.split())}.hlo").write_text(text)

def main():
    folder = pathlib.Path(sys.argv[1]); folder.mkdir(parents=True, exist_ok=True)
    import cases, cases_signals, cases_more, cases_numerics, cases_hostile  # noqa: F401, fill CASES
    made = 0
    for name, f, variant in CASES:
        if len(sys.argv) > 2 and not any(name.startswith(p) for p in sys.argv[2:]): continue
        try:
            build(folder, name, f, variant); made += 1
        except Exception as e:
            print("FAILED", name, variant, type(e).__name__, (str(e).splitlines() or [""])[0][:250])
    print(made, "of", len(CASES))

if __name__ == "__main__":
    sys.modules["corpus"] = sys.modules["__main__"]
    main()
