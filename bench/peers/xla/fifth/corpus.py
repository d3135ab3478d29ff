#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""python corpus.py FOLDER [NAME..]: a fifth corpus, of modules that are not in the other four, with annotations of
every kind.

A variant is "2x3 WORDS": a mesh with axes a, b, c, and words
  s      Shardy's form, else GSPMD's              perm   devices in another order
  out    also annotates results                   few    annotates only every other argument
  only   annotates only results                   inner  only constraints inside (`k.c`)
  raw    shardings written into the text, which need not divide evenly      v1     the same as lists of devices
  ann    the same as options of `tessera partition`                         text   also annotates two values inside
  max    one argument is on one device only       pri    Shardy's priorities on some dims
  j      the header leaves the shardings of results to propagation
"""
import os
import pathlib
import random
import re
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=64"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402, F401
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P  # noqa: E402

CASES = []
WRITTEN = {"raw", "v1", "ann", "text", "max"}  # these write shardings into the text, not through jit


def case(*variants):
    def wrap(function):
        CASES.extend((f"{function.__name__}-{i}", function, v) for i, v in enumerate(variants))
        return function

    return wrap


class Kit:
    """The tools of a case: `s` the shape and sharding of a parameter, `c` a constraint, `map` a shard_map, `n` the size
    of an axis.
    """

    def __init__(self, name, variant):
        first, *words = variant.split()
        self.sizes, self.words = tuple(int(n) for n in first.split("x")), set(words)
        self.i, self.draw = int(name.rsplit("-", 1)[1]), random.Random(name)
        self.written, self.inner = bool(self.words & WRITTEN), "inner" in self.words
        self.loose = self.written and "max" not in self.words
        self.count = int(np.prod(self.sizes))
        devices = list(jax.devices()[: self.count])
        if "perm" in self.words:
            self.draw.shuffle(devices)
        self.names = ("a", "b", "c")[: len(self.sizes)]
        self.mesh = Mesh(np.array(devices).reshape(self.sizes), self.names)
        self.specs, self.kept = {}, []

    def n(self, axis):
        return self.mesh.shape.get(axis, 1)

    def spec(self, dims, entries, loose):
        out, used = [], set()
        for size, entry in zip(dims, list(entries) + [None] * (len(dims) - len(entries))):
            if entry == "?":
                out.append(P.UNCONSTRAINED)
                continue
            names, count = [], 1
            for axis in entry or "":
                if axis in self.names and axis not in used and size > 1 and (loose or size % (count * self.n(axis)) == 0):
                    names.append(axis)
                    used.add(axis)
                    count *= self.n(axis)
            out.append(tuple(names) if len(names) > 1 else names[0] if names else None)
        return P(*out)

    def s(self, dims, *entries, dtype=jnp.float32):
        made = jax.ShapeDtypeStruct(tuple(dims), dtype)
        self.specs[id(made)] = P() if self.inner else self.spec(dims, entries, self.loose)
        self.kept.append(made)
        return made

    def c(self, x, *entries):
        return lax.with_sharding_constraint(x, NamedSharding(self.mesh, self.spec(x.shape, entries, True)))

    def map(self, function, ins, outs, **options):
        return jax.shard_map(function, mesh=self.mesh, in_specs=ins, out_specs=outs, check_vma=False, **options)

    def like(self, leaf):
        """Returns a sharding for a result: assigns axes to the first dims that they divide."""
        entries, left = [None] * len(leaf.shape), list(self.names)
        for d, size in enumerate(leaf.shape):
            hit = next((n for n in left if size % self.n(n) == 0 and size > 1), None)
            if hit:
                entries[d] = hit
                left.remove(hit)
        return P(*entries)


def tidy(text, devices):
    text = re.sub(r"\n(FileNames|FunctionNames|FileLocations|StackFrames)\n(.+\n)*", "\n", text)
    text = re.sub(r", metadata=\{[^}]*\}", "", text).strip() + "\n"
    if "num_partitions=" in text.split("\n", 1)[0]:
        return re.sub(r"num_partitions=\d+", f"num_partitions={devices}", text, count=1)
    return text.replace("\n", f", num_partitions={devices}\n", 1)


def spelled(kit, spec, ndim):
    """Returns a sharding in HLO's text, in iota form or (v1) as a list of devices."""
    text = str(NamedSharding(kit.mesh, spec)._to_xla_hlo_sharding(ndim))
    if "v1" not in kit.words:
        return text

    def listed(match):
        ids = np.arange(kit.count).reshape([int(n) for n in match[2].split(",")])
        ids = ids.transpose([int(n) for n in match[3].split(",")]) if match[3] else ids
        return match[1] + ",".join(map(str, ids.reshape(-1)))

    return re.sub(r"(devices=\[[\d,]+\])<=\[([\d,]+)\](?:T\(([\d,]+)\))?", listed, text)


def entry_parameters(text):
    start = text.index("\nENTRY")
    return {int(m[2]): m for m in re.finditer(r"  (?:ROOT )?%?(\S+) = \S+ parameter\((\d+)\)[^\n]*", text[start:])}, start


VALUE = re.compile(r"  %?(\S+) = f32\[([\d,]+)\]\{[\d,]*\} (dot|add|multiply|tanh|exponential|select|reduce|transpose|reshape|maximum|"
                   r"convolution|divide|gather|sort|reduce-window|concatenate|scatter)\([^\n]*")


def inside(kit, body):
    """Returns two values that may be annotated, with their shardings."""
    found = [m for m in VALUE.finditer(body) if "sharding=" not in m[0] and np.prod([int(d) for d in m[2].split(",")]) >= kit.count]
    for m in kit.draw.sample(found, min(2, len(found))):
        dims = [int(d) for d in m[2].split(",")]
        yield m, dims, kit.like(jax.ShapeDtypeStruct(dims, jnp.float32))


def option(spec, ndim):
    entries = list(spec) + [None] * (ndim - len(spec))
    return ",".join("-" if e is None else e if isinstance(e, str) else "+".join(e) for e in entries)


def write_shardings(kit, text, leaves, specs):
    """Returns (the text with shardings, the same as options)."""
    params, start = entry_parameters(text)
    body, options = text[start:], ["--mesh", ",".join(f"{n}={s}" for n, s in kit.mesh.shape.items())]
    alone = kit.draw.randrange(len(leaves)) if "max" in kit.words else -1
    chosen = [(params[j], len(leaf.shape), s) for j, (leaf, s) in enumerate(zip(leaves, specs)) if any(s) and j != alone]
    chosen += [(m, len(dims), s) for m, dims, s in inside(kit, body) if any(s)] if "text" in kit.words else []
    for m, ndim, s in chosen:
        body = body.replace(m[0] + "\n", f"{m[0]}, sharding={spelled(kit, s, ndim)}\n", 1)
        options += ["--annotate", f"{m[1]}={option(s, ndim)}"]
    if alone >= 0:
        body = body.replace(params[alone][0] + "\n", f"{params[alone][0]}, sharding={{maximal device={kit.count - 1}}}\n", 1)
    return text[:start] + body, options


def with_priorities(kit, text):
    """Some dims that name an axis get a priority."""
    def one(match):
        return match[0] + (f"p{kit.draw.randrange(3)}" if kit.draw.random() < 0.4 else "")

    return re.sub(r"(?<=[\[ ])\{\\\"[^{}]*\}(?=[,\]])", one, text)


def free_results(text, results):
    return text.replace("\n", ", allow_spmd_sharding_propagation_to_output={" + ",".join(["true"] * results) + "}\n", 1)


def bindings(kit, function, args, tree, specs):
    options = {}
    if not kit.written and not kit.inner and "only" not in kit.words:
        few = "few" in kit.words
        given = [None if few and j % 2 == kit.i % 2 else NamedSharding(kit.mesh, s) for j, s in enumerate(specs)]
        options["in_shardings"] = jax.tree.unflatten(tree, given)
    if kit.words & {"out", "only"}:
        shapes = jax.eval_shape(function, *args)
        options["out_shardings"] = jax.tree.map(lambda leaf: NamedSharding(kit.mesh, kit.like(leaf)), shapes)
    return options


def build(folder, name, make, variant):
    kit = Kit(name, variant)
    jax.config.update("jax_use_shardy_partitioner", "s" in kit.words)
    function, args = make(kit)
    leaves, tree = jax.tree.flatten(args)
    specs = [kit.specs.get(id(a), P()) for a in leaves]
    made = jax.jit(function, keep_unused=True, **bindings(kit, function, args, tree, specs)).lower(*args)
    text = tidy(made.compiler_ir("hlo").as_hlo_text(), kit.count)
    stem = f"{name}-{'-'.join(variant.split())}"
    results = len(jax.tree.leaves(made.out_info)) if "j" in kit.words else 0
    if kit.written:
        bare, (text, options) = text, write_shardings(kit, text, leaves, specs)
        if "ann" in kit.words:
            (folder / f"{stem}.annotate").write_text("\n".join(options) + "\n")
            (folder / f"{stem}.xla.hlo").write_text(free_results(text, results) if results else text)
            text = bare
    if "pri" in kit.words:
        text = with_priorities(kit, text)
    (folder / f"{stem}.hlo").write_text(free_results(text, results) if results else text)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    import attention, experts, regions, training, loops, vision, various, various_data  # noqa: F401, E401: they fill CASES
    made = 0
    for name, make, variant in CASES:
        if len(sys.argv) > 2 and not any(name.startswith(p) for p in sys.argv[2:]):
            continue
        try:
            build(folder, name, make, variant)
            made += 1
        except Exception as error:  # JAX itself refuses this module
            print("FAILED", name, variant, type(error).__name__, (str(error).splitlines() or [""])[0][:250])
    print(made, "of", len(CASES))


if __name__ == "__main__":
    sys.modules["corpus"] = sys.modules["__main__"]
    main()
