#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a second corpus for `compare.py`, independent of the one that guided the work (`corpus.py`): a check, not a
target.

  bench/peers/xla/held_out.py FOLDER [PREFIX…]

Dims have names, and rules assign mesh axes to names (as in MaxText). Sizes are usual or odd, floats have four types,
and annotations are on arguments, inside, on results, given as options, uneven on arguments, or over two meshes. As in
`corpus.py` the module's name seeds all random choices.
"""
import pathlib
import random
import re
import sys

from corpus import header, permuted, tidy  # sets the environment
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

from held_out_cases import CASES
from held_out_manual import MANUAL

MESHES = [(2,), (3,), (5,), (7,), (12,), (24,), (2, 3), (3, 2), (2, 5), (4, 3), (3, 8), (2, 6), (4, 12), (8, 8), (6, 4), (2, 2), (4, 2),
          (2, 3, 2), (2, 2, 3), (4, 2, 3), (3, 2, 8), (4, 4, 4), (2, 2, 2), (2, 4, 6)]
KINDS = ["args", "middle", "outs", "raw", "uneven", "middle", "open", "two_meshes"]


class Kit:
    """The source of a case's sizes, arguments and constraints."""

    def __init__(self, draw, letters, kind, sizes, dtype, odd):
        self.draw, self.kind, self.dtype, self.odd, self.letters, self.kept = draw, kind, dtype, odd, {}, []
        names = draw.sample(["x", "y", "z"], len(sizes)) if draw.random() < 0.5 else ["data", "fsdp", "model"][:len(sizes)]
        devices = np.array(jax.devices()[:int(np.prod(sizes))])
        self.mesh = Mesh(devices.reshape(sizes), tuple(names))
        self.other = Mesh(devices.reshape(sizes[::-1]), tuple("other_" + n for n in reversed(names)))
        self.rules = {}
        for axis in names:
            for letter in draw.sample(letters, min(len(letters), draw.choice([1, 1, 2]))):
                self.rules.setdefault(letter, []).append(axis)

    def n(self, usual):
        if self.odd:
            return usual + self.draw.choice([-1, 1, 3]) if usual % 2 == 0 else usual
        return usual * self.draw.choice([1, 1, 2, 3])

    def a(self, letters, *dims, dtype=None):
        made = jax.ShapeDtypeStruct(dims, dtype or self.dtype)
        self.letters[id(made)] = letters
        self.kept.append(made)
        return made

    def spec(self, letters, dims, uneven=False, prefix="", absent=None):
        entries, used = [], set()
        for letter, size in zip(letters.ljust(len(dims), "."), dims):
            entry, count = [], 1
            for axis in self.rules.get(letter, []):
                n = self.mesh.shape[axis]
                if axis not in used and (size % (count * n) == 0 or (uneven and size > 1)):
                    entry.append(prefix + axis)
                    used.add(axis)
                    count *= n
            entries.append(tuple(entry) if len(entry) > 1 else entry[0] if entry else absent)
        return P(*entries)

    def c(self, x, letters):
        """Sizes here need not divide evenly."""
        if self.kind not in ("middle", "open", "two_meshes"):
            return x
        absent = P.UNCONSTRAINED if self.kind == "open" else None
        if self.kind == "two_meshes":
            return jax.lax.with_sharding_constraint(x, NamedSharding(self.other, self.spec(letters, x.shape, True, "other_")))
        return jax.lax.with_sharding_constraint(x, NamedSharding(self.mesh, self.spec(letters, x.shape, True, absent=absent)))

    def specs(self, arguments):
        return jax.tree.map(lambda s: self.spec(self.letters[id(s)], s.shape, self.kind == "uneven"), arguments)


def is_spec(x):
    return isinstance(x, P)


def with_devices(text, devices):
    text = re.sub(r"num_partitions=\d+", f"num_partitions={devices}", text)
    return text if "num_partitions=" in text else text.replace("\n", f", num_partitions={devices}\n", 1)


def parameter(text, number):
    return re.search(rf"(?m)^ENTRY(?:.*\n)*?.*?(  \S+ = \S+ parameter\({number}\))", text)


def with_parameter_shardings(text, mesh, leaves, specs):
    """Shardings of arguments as text, which need not divide evenly (JAX refuses those)."""
    start = text.index("\nENTRY")
    for number, (leaf, spec) in enumerate(zip(leaves, specs)):
        spelled = str(NamedSharding(mesh, spec)._to_xla_hlo_sharding(len(leaf.shape)))
        entry = re.sub(rf"(parameter\({number}\))", rf"\1, sharding={spelled}", text[start:])
        text = text[:start] + entry
    return text


def options(text, mesh, leaves, specs):
    lines = ["--mesh", ",".join(f"{n}={s}" for n, s in mesh.shape.items())]
    for number, (leaf, spec) in enumerate(zip(leaves, specs)):
        value = re.search(rf"%?(\S+) = \S+ parameter\({number}\)", text[text.index("\nENTRY"):])[1]
        entries = [*spec, *[None] * (len(leaf.shape) - len(spec))]
        if any(entries):
            lines += ["--annotate", f"{value}=" + ",".join("-" if e is None else e if isinstance(e, str) else "+".join(e) for e in entries)]
    return "\n".join(lines) + "\n"


def result_shardings(kit, function, arguments, specs):
    """A result of an argument's shape has the argument's sharding; others are sharded along the first dim that divides,
    or not at all.
    """
    like = {a.shape: s for a, s in zip(jax.tree.leaves(arguments)[::-1], jax.tree.leaves(specs, is_leaf=is_spec)[::-1])}

    def of(result):
        if result.shape in like and kit.draw.random() < 0.7:
            return NamedSharding(kit.mesh, like[result.shape])
        axis = kit.draw.choice(kit.mesh.axis_names)
        fits = [d for d, n in enumerate(result.shape) if n % kit.mesh.shape[axis] == 0 and n > 0]
        entries = [None] * len(result.shape)
        if fits:
            entries[kit.draw.choice(fits)] = axis
        return NamedSharding(kit.mesh, P(*entries))

    return jax.tree.map(of, jax.eval_shape(function, *arguments))


def make(folder, base, number, maker, letters):
    """Writes one module; draws again if nothing is sharded."""
    draw = random.Random(f"held out {base} {number}")
    kind = "manual" if letters is None else KINDS[(number * 3 + sum(map(ord, base))) % len(KINDS)]
    for _ in range(30):
        sizes, odd = draw.choice(MESHES), letters is not None and draw.random() < 0.4
        dtype = draw.choice([jnp.float32] * 4 + [jnp.bfloat16, jnp.float16, jnp.float64])
        jax.config.update("jax_enable_x64", dtype == jnp.float64)
        kit = Kit(draw, letters or "b", kind, sizes, dtype, odd)
        function, arguments = maker(kit)
        specs = [kit.specs(a) for a in arguments]
        flat = jax.tree.leaves(specs, is_leaf=is_spec)
        if letters is None or any(any(s) for s in flat):
            break
    try:
        write(folder, f"{base}-{number}", kit, function, arguments, specs, flat)
    except TypeError as error:  # the op does not support this dtype
        if dtype == jnp.float32:
            raise
        print("as float32:", base, number, str(error).splitlines()[0][:120])
    except (ValueError, NotImplementedError) as error:
        print("refused by JAX:", base, number, kind, sizes, str(error).splitlines()[0][:200])


def write(folder, name, kit, function, arguments, specs, flat):
    draw, kind, mesh = kit.draw, kit.kind, kit.mesh
    shardy = kind not in ("raw", "uneven") and draw.random() < 0.5
    jax.config.update("jax_use_shardy_partitioner", shardy)
    plain = kind in ("raw", "uneven")
    ins = {} if plain else {"in_shardings": tuple(jax.tree.map(lambda s: NamedSharding(mesh, s), s, is_leaf=is_spec) for s in specs)}
    outs = result_shardings(kit, function, arguments, specs) if kind == "outs" else None
    made = jax.jit(function, keep_unused=True, **ins, **({} if outs is None else {"out_shardings": outs})).lower(*arguments)
    text = with_devices(tidy(made.compiler_ir("hlo").as_hlo_text()), mesh.devices.size)
    leaves = jax.tree.leaves(arguments)
    name += f"-{kind}-{'x'.join(str(n) for n in mesh.devices.shape)}-{jnp.dtype(kit.dtype).name}{'-odd' if kit.odd else ''}{'-shardy' if shardy else ''}"
    free = outs is None and draw.random() < 0.5
    annotated = None
    if kind == "raw":
        annotated, bare = options(text, mesh, leaves, flat), text
    if plain:
        text = with_parameter_shardings(text, mesh, leaves, flat)
    if not shardy and kind in ("args", "uneven", "middle") and draw.random() < 0.3:
        text, name = permuted(text, draw), name + "-shuffled"
    if free:
        text, name = header(text, len(jax.tree.leaves(made.out_info)), outs, [(leaf, P()) for leaf in leaves]), name + "-jit"
    if annotated:
        (folder / f"{name}.annotate").write_text(annotated)
        (folder / f"{name}.xla.hlo").write_text(text)
        text = header(bare, len(jax.tree.leaves(made.out_info)), outs, [(leaf, P()) for leaf in leaves]) if free else bare
    (folder / f"{name}.hlo").write_text(text)


def main(folder, prefixes):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    cases = [(n, f, letters, count) for n, (f, letters, count) in CASES.items()] + [(n, f, None, count) for n, (f, count) in MANUAL.items()]
    for base, maker, letters, count in cases:
        for number in range(count):
            if not prefixes or any(f"{base}-{number}".startswith(p) for p in prefixes):
                try:
                    make(folder, base, number, maker, letters)
                except Exception as error:
                    print("FAILED", base, number, type(error).__name__, (str(error) + " ").splitlines()[0][:300])
    print(len([p for p in folder.glob("*.hlo") if not p.name.endswith(".xla.hlo")]), "modules")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
