#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""python corpus.py FOLDER [NAME..]: models and ops lowered by JAX, shardings written by hand for roles a, b, c of mesh
axes.

Made by somebody who had read neither corpus.py nor held_out.py above; weights and orders of the partitioner were not
chosen by it.
"""
import os, sys, re, random, pathlib, zlib
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=64"
os.environ["JAX_PLATFORMS"] = "cpu"
import jax, jax.numpy as jnp, numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

CASES = []
def case(*variants):
    def wrap(f):
        for i, v in enumerate(variants):
            CASES.append((f"{f.__name__}-{i}", f, v))
        return f
    return wrap

class K:
    """Variant: '2x4 in g' (mesh, kind, form), 'j' = header of jit (the shardings of results are free)."""
    def __init__(self, name, variant):
        words = variant.split()
        self.name, self.sizes, self.kind, self.shardy = name, tuple(int(n) for n in words[0].split("x")), words[1], words[2] == "s"
        self.jit, self.i = "j" in words[3:], int(name.rsplit("-", 1)[1])
        self.odd = "odd" in words[3:]
        names = [("data", "model", "pipe"), ("x", "y", "z"), ("dp", "tp", "sp"), ("fsdp", "tensor", "expert")][zlib.crc32(name.encode()) % 4][:len(self.sizes)]
        self.mesh = Mesh(np.array(jax.devices()[:int(np.prod(self.sizes))]).reshape(self.sizes), names)
        self.role = dict(zip("abc", names))
        self.draw = random.Random(name)
        self.loose = self.kind in ("ann", "uneven", "text")
        self.specs, self.kept = {}, []
    def n(self, axis):
        return self.mesh.shape[self.role[axis]] if axis in self.role else 1
    def spec(self, dims, entries, loose=False):
        out, used = [], set()
        for d, e in zip(dims, list(entries) + [None] * (len(dims) - len(entries))):
            if e == "?":
                out.append(P.UNCONSTRAINED); continue
            names, count = [], 1
            for r in (e or ""):
                if r in self.role and r not in used and (loose or d % (count * self.n(r)) == 0):
                    names.append(self.role[r]); used.add(r); count *= self.n(r)
            out.append(tuple(names) if len(names) > 1 else names[0] if names else None)
        return P(*out)
    def s(self, dims, *entries, dtype=jnp.float32):
        a = jax.ShapeDtypeStruct(tuple(dims), dtype)
        self.specs[id(a)] = self.spec(dims, entries, self.loose); self.kept.append(a)
        return a
    def c(self, x, *entries):
        if self.kind not in ("mid", "inmid", "open"):
            return x
        if self.kind == "open":
            entries = [e or "?" for e in list(entries) + [None] * (x.ndim - len(entries))]
        spec = self.spec(x.shape, entries, self.shardy is False)
        return lax.with_sharding_constraint(x, NamedSharding(self.mesh, spec))

def tidy(text):
    text = re.sub(r", metadata=\{[^}]*\}", "", text)
    return text
def header_devices(text, n):
    if "num_partitions=" not in text.split("\n", 1)[0]:
        text = text.replace("\n", f", num_partitions={n}\n", 1)
    return text
def hlo_sharding(mesh, spec, ndim):
    return str(NamedSharding(mesh, spec)._to_xla_hlo_sharding(ndim))
def v1(mesh, spec, ndim, draw=None):
    """The list form, as PyTorch/XLA prints it."""
    sizes, ids, dims, used = dict(mesh.shape), np.arange(mesh.devices.size).reshape(mesh.devices.shape), [], []
    for e in list(spec) + [None] * (ndim - len(spec)):
        names = () if e is None else (e,) if isinstance(e, str) else e
        dims.append(int(np.prod([sizes[n] for n in names], dtype=int))); used += names
    rest = [n for n in mesh.axis_names if n not in used]
    order = [mesh.axis_names.index(n) for n in used + rest]
    flat = ids.transpose(order).reshape(-1)
    if all(d == 1 for d in dims): return "{replicated}"
    left = mesh.devices.size // int(np.prod(dims))
    if left > 1:
        return "{devices=[" + ",".join(map(str, dims + [left])) + "]" + ",".join(map(str, flat)) + " last_tile_dim_replicate}"
    return "{devices=[" + ",".join(map(str, dims)) + "]" + ",".join(map(str, flat)) + "}"

def entry_parameters(text):
    start = text.index("\nENTRY")
    return {int(m[2]): m for m in re.finditer(r"  (?:ROOT )?%?(\S+) = \S+ parameter\((\d+)\)[^\n]*", text[start:])}, start

def free_header(text, results, params=0):
    return text.replace("\n", ", allow_spmd_sharding_propagation_to_output={" + ",".join(["true"] * results) + "}\n", 1)

def auto_out(k, leaf):
    entries, left = [], [k.role[r] for r in "abc" if r in k.role]
    for d in leaf.shape:
        hit = next((n for n in left if d % k.mesh.shape[n] == 0 and d > 1), None)
        entries.append(hit)
        if hit: left.remove(hit)
    return P(*entries)

def build(folder, name, f, variant):
    k = K(name, variant)
    jax.config.update("jax_use_shardy_partitioner", k.shardy)
    fn, args, *outs = f(k)
    leaves, tree = jax.tree.flatten(args)
    specs = [k.specs.get(id(a), P()) for a in leaves]
    kw = {}
    if k.kind in ("in", "io", "inmid", "open"):
        kw["in_shardings"] = jax.tree.unflatten(tree, [NamedSharding(k.mesh, s) for s in specs])
    if k.kind == "in1":
        kw["in_shardings"] = jax.tree.unflatten(tree, [NamedSharding(k.mesh, s) if any(s) and j % 2 == k.i % 2 else None for j, s in enumerate(specs)])
    if k.kind in ("out", "io"):
        shapes = jax.eval_shape(fn, *args)
        given = outs[0] if outs else None
        kw["out_shardings"] = jax.tree.map(lambda l: NamedSharding(k.mesh, auto_out(k, l)), shapes)
        if k.kind == "io":  # results of an argument's shape have its sharding
            like = {a.shape: s for a, s in zip(leaves[::-1], specs[::-1])}
            kw["out_shardings"] = jax.tree.map(lambda l: NamedSharding(k.mesh, like.get(l.shape, auto_out(k, l))), shapes)
    low = jax.jit(fn, keep_unused=True, **kw).lower(*args)
    text = header_devices(tidy(low.compiler_ir("hlo").as_hlo_text()), k.mesh.devices.size)
    full = f"{name}-{k.kind}-{'x'.join(map(str, k.sizes))}{'-shardy' if k.shardy else ''}{'-jit' if k.jit else ''}"
    results = len(jax.tree.leaves(low.out_info))
    other = None
    if k.kind in ("ann", "uneven", "text"):
        params, start = entry_parameters(text)
        bare, options = text, ["--mesh", ",".join(f"{n}={s}" for n, s in k.mesh.shape.items())]
        body = text[start:]
        for j, (leaf, s) in enumerate(zip(leaves, specs)):
            if not any(s) or j not in params: continue
            m = params[j]
            sharding = (v1 if k.kind == "text" else hlo_sharding)(k.mesh, s, len(leaf.shape))
            body = body.replace(m[0] + "\n", m[0] + ", sharding=" + sharding + "\n", 1)
            ent = list(s) + [None] * (len(leaf.shape) - len(s))
            options += ["--annotate", f"{m[1]}=" + ",".join("-" if e is None else e if isinstance(e, str) else "+".join(e) for e in ent)]
        if k.kind in ("text", "ann"):  # also annotates two values inside
            lines = [m for m in re.finditer(r"  %?(\S+) = \w+\[([\d,]+)\]\{[\d,]*\} (dot|add|multiply|tanh|exponential|select|reduce|transpose|reshape|maximum|subtract|convolution|divide)\([^\n]*", body)]
            inside = [m for m in lines if "sharding=" not in m[0] and np.prod([int(d) for d in m[2].split(",")]) >= k.mesh.devices.size]
            for m in k.draw.sample(inside, min(2, len(inside))):
                dims = [int(d) for d in m[2].split(",")]
                spec = auto_out(k, jax.ShapeDtypeStruct(dims, jnp.float32))
                if not any(spec): continue
                sharding = (v1 if k.kind == "text" else hlo_sharding)(k.mesh, spec, len(dims))
                body = body.replace(m[0] + "\n", m[0] + ", sharding=" + sharding + "\n", 1)
                options += ["--annotate", f"{m[1]}=" + ",".join("-" if e is None else e for e in spec)]
        text = text[:start] + body
        if k.kind == "ann":
            other, text = text, bare
            (folder / f"{full}.annotate").write_text("\n".join(options) + "\n")
    if k.jit:
        text = free_header(text, results)
        other = free_header(other, results) if other else None
    if other: (folder / f"{full}.xla.hlo").write_text(other)
    (folder / f"{full}.hlo").write_text(text)

def main():
    folder = pathlib.Path(sys.argv[1]); folder.mkdir(parents=True, exist_ok=True)
    import cases, cases_models, cases_ops  # noqa: F401, E401: they fill CASES
    made = 0
    for name, f, variant in CASES:
        if len(sys.argv) > 2 and not any(name.startswith(p) for p in sys.argv[2:]): continue
        try:
            build(folder, name, f, variant); made += 1
        except Exception as e:
            print("FAILED", name, variant, type(e).__name__, str(e).splitlines()[0][:250] if str(e) else "")
    print(made, "of", len(CASES))

if __name__ == "__main__":
    sys.modules["corpus"] = sys.modules["__main__"]
    main()
