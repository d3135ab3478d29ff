#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes several hundred small modules as JAX lowers them, before partitioning, with shardings of many kinds.

  bench/peers/xla/corpus.py FOLDER [PREFIX…]

Needs jax and jaxlib (0.10.2). The module's name seeds all random choices, so that each module can be generated
separately. Modules alternate between GSPMD's and Shardy's form, and between having jit's header (propagation chooses
the shardings of results) and not having it (results are fixed). NAME.annotate contains the shardings as options of
`tessera partition`; XLA's text is then NAME.xla.hlo.
"""
import os
import pathlib
import random
import re
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=64"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P  # noqa: E402

from corpus_models import INT, MODELS, is_leaf, shape  # noqa: E402
from corpus_ops import OPS  # noqa: E402

ONE = [(2,), (4,), (8,), (3,), (16,), (6,)]
TWO = [(2, 2), (2, 4), (4, 2), (2, 3), (8, 2), (4, 4), (3, 4), (8, 4), (8, 8), (2, 8)]
THREE = [(2, 2, 2), (2, 4, 2), (4, 4, 4), (2, 3, 2), (4, 2, 4)]
NAMES = "abc"


def mesh_of(sizes):
    count = int(np.prod(sizes))
    return Mesh(np.array(jax.devices()[:count]).reshape(sizes), tuple(NAMES[: len(sizes)]))


def sharded(mesh, spec):
    return NamedSharding(mesh, spec)


def tiles(mesh, entry):
    names = () if entry is None else (entry,) if isinstance(entry, str) else entry
    return int(np.prod([mesh.shape[n] for n in names], dtype=int))


def drawn_spec(draw, mesh, dims, even=True, density=0.75):
    """Assigns each axis to a dim that it divides, or to none; sometimes minor to another axis of the dim."""
    entries = [[] for _ in dims]
    for axis in draw.sample(list(mesh.axis_names), len(mesh.axis_names)):
        fits = [d for d, size in enumerate(dims)
                if (size % (tiles(mesh, tuple(entries[d])) * mesh.shape[axis]) == 0 if even else size > 1)]
        if fits and draw.random() < density:
            entries[draw.choice(fits)].append(axis)
    return P(*[tuple(e) if len(e) > 1 else e[0] if e else None for e in entries])


class Unfit(Exception):
    """Raised for sizes that do not divide evenly."""


def check_even(mesh, leaf):
    for size, entry in zip(leaf[0].shape, leaf[1]):
        if size % tiles(mesh, entry):
            raise Unfit


def lowered(function, arguments, mesh, shardy, outs=None):
    """outs: a tree of specs for the results, or None. An argument whose spec is None is not annotated."""
    jax.config.update("jax_use_shardy_partitioner", shardy)
    shapes = jax.tree.map(lambda leaf: leaf[0], arguments, is_leaf=is_leaf)
    ins = jax.tree.map(lambda leaf: None if leaf[1] is None else sharded(mesh, leaf[1]), arguments, is_leaf=is_leaf)
    options = {} if outs is None else {"out_shardings": outs}
    return jax.jit(function, in_shardings=tuple(ins), keep_unused=True, **options).lower(*shapes)


def tidy(text):
    text = re.sub(r"\n(FileNames|FunctionNames|FileLocations|StackFrames)\n(.+\n)*", "\n", text)
    return re.sub(r", metadata=\{[^}]*\}", "", text).strip() + "\n"


def permuted(text, draw):
    """Applies one random permutation to every device list of the text."""
    order = None

    def swap(match):
        nonlocal order
        dims, shape_, turn = match[2], [int(n) for n in match[3].split(",")], match[4]
        devices = np.arange(int(np.prod(shape_))).reshape(shape_)
        if turn:
            devices = devices.transpose([int(n) for n in turn.split(",")])
        order = order or draw.sample(range(devices.size), devices.size)
        return f"devices=[{dims}]" + ",".join(str(order[d]) for d in devices.reshape(-1))

    return re.sub(r"(devices=\[([\d,]+)\])<=\[([\d,]+)\](?:T\(([\d,]+)\))?", swap, text)


def header(text, leaves, outs, arguments):
    """Adds the header that jit passes to XLA: propagation chooses the shardings of results and of arguments without
    one.
    """
    free = [leaf[1] is None for leaf in jax.tree.leaves(arguments, is_leaf=is_leaf)]
    line = ""
    if any(free):
        line += ", allow_spmd_sharding_propagation_to_parameters={" + ",".join(str(f).lower() for f in free) + "}"
    if outs is None:
        line += ", allow_spmd_sharding_propagation_to_output={" + ",".join(["true"] * leaves) + "}"
    return text.replace("\n", line + "\n", 1)


def write(folder, name, function, arguments, mesh, shardy, jit, outs=None, shuffled=None, raw=False):
    for leaf in jax.tree.leaves(arguments, is_leaf=is_leaf):
        if leaf[1] is not None:
            check_even(mesh, leaf)
    made = lowered(function, arguments, mesh, shardy, outs)
    text = tidy(made.compiler_ir("hlo").as_hlo_text())
    devices = int(np.prod(mesh.devices.shape))
    text = re.sub(r"num_partitions=\d+", f"num_partitions={devices}", text)
    if "num_partitions=" not in text:
        text = text.replace("\n", f", num_partitions={devices}\n", 1)
    if shuffled:
        text = permuted(text, shuffled)
    if jit:
        text = header(text, len(jax.tree.leaves(made.out_info)), outs, arguments)
    if raw:
        (folder / f"{name}.annotate").write_text(annotations(text, arguments, mesh))
        (folder / f"{name}.xla.hlo").write_text(text)
        text = re.sub(r", sharding=\{[^}]*\}", "", text)
    (folder / f"{name}.hlo").write_text(text)


def annotations(text, arguments, mesh):
    """Returns the arguments' specs as options, one per line."""
    lines = ["--mesh", ",".join(f"{n}={s}" for n, s in mesh.shape.items())]
    entry = text[text.index("\nENTRY"):]
    for number, leaf in enumerate(jax.tree.leaves(arguments, is_leaf=is_leaf)):
        value = re.search(rf"%?(\S+) = \S+ parameter\({number}\)", entry)[1]
        entries = [*(leaf[1] or ()), *[None] * (len(leaf[0].shape) - len(leaf[1] or ()))]
        spec = ",".join("-" if e is None else e if isinstance(e, str) else "+".join(e) for e in entries)
        if leaf[1] is not None and spec:
            lines += ["--annotate", f"{value}={spec}"]
    return "\n".join(lines) + "\n"


def constraint(mesh, kinds):
    """Returns c(x, axes…), which adds a constraint if the kind of annotation has it and the axes divide."""
    def c(x, *axes):
        entries = (list(axes) + [None] * x.ndim)[: x.ndim]
        if "middle" not in kinds or any(n % tiles(mesh, e) for n, e in zip(x.shape, entries)):
            return x
        return jax.lax.with_sharding_constraint(x, sharded(mesh, P(*entries)))

    return c


def model_modules(write_one):
    for model, layouts, count in MODELS:
        for k in range(count):
            draw = random.Random(f"{model.__name__} {k}")
            named = list(layouts.items())
            layout, w = named[k % len(named)]
            used = {n for e in vars(w).values() if e for n in ((e,) if isinstance(e, str) else e)}
            meshes = list(ONE if len(used) == 1 else TWO)
            draw.shuffle(meshes)
            for sizes in meshes:
                mesh = mesh_of(sizes)
                kinds = draw.choice([(), ("middle",), ("middle",), ("outs",)])
                try:
                    function, arguments = model(constraint(mesh, kinds), w)
                    outs = result_specs(function, arguments, mesh) if "outs" in kinds else None
                    name = f"{model.__name__}-{k}-{layout}-{'x'.join(map(str, sizes))}"
                    write_one(name, draw, function, arguments, mesh, outs)
                    break
                except Unfit:
                    continue


def result_specs(function, arguments, mesh):
    """A result of an argument's shape has the sharding of the first such argument; others are replicated."""
    leaves = jax.tree.leaves(arguments, is_leaf=is_leaf)
    like = {leaf[0].shape: leaf[1] for leaf in reversed(leaves)}
    results = jax.eval_shape(function, *jax.tree.map(lambda leaf: leaf[0], arguments, is_leaf=is_leaf))
    return jax.tree.map(lambda r: sharded(mesh, like.get(r.shape, P())), results)


def with_middle(function, draw, mesh):
    """Constrains operands and results inside; sizes need not divide evenly, and some dims stay open."""
    def spec(dims):
        drawn = drawn_spec(draw, mesh, dims, even=draw.random() < 0.5)
        if draw.random() < 0.25:
            drawn = P(*[P.UNCONSTRAINED if e is None and draw.random() < 0.7 else e for e in drawn])
        return drawn

    def constrain(x):
        if x.ndim == 0 or draw.random() < 0.4:
            return x
        return jax.lax.with_sharding_constraint(x, sharded(mesh, spec(x.shape)))

    def wrapped(*arguments):
        state = draw.getstate()
        inner = [constrain(x) for x in arguments]
        result = jax.tree.map(constrain, function(*inner))
        draw.setstate(state)  # the function may be traced again
        return result

    return wrapped


def op_modules(write_one):
    for op, (function, shapes, count) in OPS.items():
        for k in range(count):
            draw = random.Random(f"{op} {k}")
            mesh = mesh_of(draw.choice(draw.choice([ONE, TWO, TWO, THREE])))
            kind = ["args", "args_outs", "middle", "some", "raw"][k % 5]
            specs = [drawn_spec(draw, mesh, s.shape) for s in shapes]
            if kind == "some" and len(shapes) > 1:
                specs[draw.randrange(len(shapes))] = None
            arguments = list(zip(shapes, specs))
            outs, used = None, function
            if kind == "args_outs":
                outs = jax.tree.map(lambda r: sharded(mesh, drawn_spec(draw, mesh, r.shape)), jax.eval_shape(function, *shapes))
            elif kind in ("middle", "some"):
                used = with_middle(function, draw, mesh)
            name = f"op_{op}-{k}-{kind}-{'x'.join(str(n) for n in mesh.devices.shape)}"
            write_one(name, draw, used, arguments, mesh, outs, raw=kind == "raw")


def reshard_modules(write_one):
    shapes = [(16, 32), (8, 16, 8), (24, 12), (64, 64), (16, 16, 16), (48,)]
    for k in range(50):
        draw = random.Random(f"reshard {k}")
        mesh, dims = mesh_of(draw.choice(draw.choice([ONE, TWO, TWO, THREE, THREE]))), draw.choice(shapes)
        even = k % 4 != 3
        before, after = (drawn_spec(draw, mesh, dims, even, 0.85) for _ in range(2))

        def function(x):
            if not even:
                x = jax.lax.with_sharding_constraint(x * 2, sharded(mesh, before))
                x = jax.lax.with_sharding_constraint(x, sharded(mesh, after))
            return x + 1

        size = "x".join(str(n) for n in mesh.devices.shape)
        write_one(f"reshard-{k}{'' if even else '-uneven'}-{size}", draw, function, [(shape(*dims), before if even else P())], mesh,
                  sharded(mesh, after) if even else None)


def main(folder, prefixes):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    count = 0

    def write_one(name, draw, function, arguments, mesh, outs, raw=False):
        nonlocal count
        count += 1
        shardy, jit = not raw and draw.random() < 0.5, outs is None and draw.random() < 0.6
        shuffled = draw if not shardy and not raw and draw.random() < 0.2 else None
        name += ("_shardy" if shardy else "") + ("_jit" if jit else "") + ("_shuffled" if shuffled else "")
        if prefixes and not any(name.startswith(p) for p in prefixes):
            for leaf in jax.tree.leaves(arguments, is_leaf=is_leaf):
                if leaf[1] is not None:
                    check_even(mesh, leaf)
            return
        try:
            write(folder, name, function, arguments, mesh, shardy, jit, outs, shuffled, raw)
        except Unfit:
            count -= 1
            raise
        except Exception as error:  # JAX itself refuses this module
            print("refused by JAX:", name, str(error).splitlines()[0][:200])

    model_modules(write_one)
    op_modules(write_one)
    reshard_modules(write_one)
    print(count, "modules")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
