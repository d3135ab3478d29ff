# SPDX-License-Identifier: Apache-2.0
"""What the files of cases share: `@case`, the constraint `pin`, the shard_map `manual`, and `write`, which lowers a
case and writes FOLDER/NAME.hlo (HLO text before partitioning).

`@case(MESH, ARGS, OUT)` is written above a function of traced arrays, which is named as the module is.
  MESH  "data=4 model=2": the axes and their sizes; "data=4 model=2 reversed", "... transposed" or "... shuffled" puts
        the devices of the mesh in another order
  ARGS  one entry an argument: "bf16[8,128] data ." is a type, a shape and for each dim an axis, "a+b" or "." (none);
        "bf16[8,128]" has no annotation, and a dict or list of such strings is a pytree
  OUT   the same for results, without type and shape: "data ."; None has no annotation, a tuple is one entry a result

`x64=True` has values of 64 bits, as NumPy would; `platform="tpu"` is for a triangular solve to be an op and not a call
of LAPACK.

A module is in one of three forms, which alternate: GSPMD's annotations with only `num_partitions` in the header (form 0
and 2), those with also the flags that jax gives the compiler for values it left without annotation (form 1), and
Shardy's annotations (form 3). Sizes need not divide by the axes, which jax refuses for arguments: two of its checks are
replaced here.
"""
import math
import os
import random
import re

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=64"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import numpy as np  # noqa: E402
from jax._src import pjit, sharding as _sharding  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P  # noqa: E402

CASES = []
TYPES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16", "f64": "float64", "s32": "int32", "u32": "uint32",
         "s8": "int8", "u8": "uint8", "s64": "int64", "pred": "bool"}
STATE = {"mesh": None, "uneven": False}


def _shard_shape(self, shape):
    partitions, _ = _sharding.get_num_ways_dim_sharded(self._to_xla_hlo_sharding(len(shape)))
    return tuple(-(-size // n) for size, n in zip(shape, partitions or [1] * len(shape)))


_check = pjit.pjit_check_aval_sharding
_sharding._common_shard_shape = _shard_shape
pjit.pjit_check_aval_sharding = lambda *args, **more: _check(*args, **{**more, "allow_uneven_sharding": True})


class Case:
    def __init__(self, function, mesh, args, out, x64, platform):
        self.function, self.name, self.args, self.out = function, function.__name__, args, out
        self.x64, self.platform = x64, platform
        self.kind = re.sub(r"\d|_.*", "", function.__module__)
        words = mesh.split()
        self.order = words.pop() if "=" not in words[-1] else ""
        self.axes = {axis: int(size) for axis, size in (word.split("=") for word in words)}

    def mesh(self):
        devices = np.array(jax.devices()[: math.prod(self.axes.values())])
        sizes = list(self.axes.values())
        if self.order == "reversed":
            devices = devices[::-1]
        if self.order == "shuffled":
            devices = np.array(random.Random(self.name).sample(list(devices), len(devices)))
        if self.order == "transposed":
            return Mesh(devices.reshape(sizes[::-1]).T, tuple(self.axes))
        return Mesh(devices.reshape(sizes), tuple(self.axes))


def case(mesh, args, out=None, x64=False, platform="cpu"):
    def wrap(function):
        CASES.append(Case(function, mesh, args, out, x64, platform))
        return function

    return wrap


def spec(words):
    parts = [None if w == "." else tuple(w.split("+")) if "+" in w else w for w in words.split()]
    return P(*parts)


def axis(name):
    """The size of an axis of the mesh."""
    return STATE["mesh"].shape[name]


def _sharded(words, shape=None):
    if shape is not None:
        for size, part in zip(shape, spec(words)):
            parts = part if isinstance(part, tuple) else (part,) if part else ()
            STATE["uneven"] |= size % math.prod(axis(p) for p in parts) != 0
    return NamedSharding(STATE["mesh"], spec(words))


def pin(x, words):
    """A constraint on a value inside: pin(x, "data . model")."""
    return jax.lax.with_sharding_constraint(x, _sharded(words, x.shape))


def manual(function, ins, outs, axes=None):
    """A shard_map; `axes` are the manual ones, if not all."""
    def specs(tree):
        return jax.tree.map(spec, tree)

    more = {"axis_names": set(axes.split())} if axes else {}
    return jax.shard_map(function, mesh=STATE["mesh"], in_specs=specs(ins), out_specs=specs(outs), check_vma=False,
                         **more)


def _argument(text):
    first, _, words = text.partition(" ")
    kind, sizes = first.rstrip("]").split("[")
    shape = tuple(int(n) for n in sizes.split(",")) if sizes else ()
    return jax.ShapeDtypeStruct(shape, TYPES[kind]), _sharded(words, shape) if words else None


def write(case, form, path):
    """Lowers a case; gives what was found: the number of instructions, whether a size does not divide evenly."""
    STATE.update(mesh=case.mesh(), uneven=False)
    jax.config.update("jax_use_shardy_partitioner", form == 3)
    with jax.enable_x64(case.x64):
        leaves, tree = jax.tree.flatten([_argument(text) for text in jax.tree.leaves(list(case.args))],
                                        is_leaf=lambda x: isinstance(x, tuple))
        tree = jax.tree.structure(list(case.args))
        shapes = tree.unflatten([shape for shape, _ in leaves])
        ins = tree.unflatten([sharding for _, sharding in leaves])
        outs = jax.tree.map(lambda x: x if x is None else _sharded(x), case.out, is_leaf=lambda x: x is None)
        jitted = jax.jit(case.function, in_shardings=tuple(ins), out_shardings=outs)
        lowered = jitted.trace(*shapes).lower(lowering_platforms=(case.platform,))
        text = lowered.as_text(dialect="hlo")
        results = jax.tree.leaves(jax.eval_shape(case.function, *shapes))
    for words, result in zip(jax.tree.leaves(case.out, is_leaf=lambda x: x is None), results):
        if words is not None and len(jax.tree.leaves(case.out, is_leaf=lambda x: x is None)) == len(results):
            _sharded(words, result.shape)
    header = f", num_partitions={math.prod(case.axes.values())}"
    if form == 1:
        args = lowered._lowering.compile_args
        for key, what in (("in_shardings", "parameters"), ("out_shardings", "output")):
            free = [not isinstance(x, jax.sharding.Sharding) for x in args[key]]
            if any(free):
                flags = ",".join(str(x).lower() for x in free)
                header = f", allow_spmd_sharding_propagation_to_{what}={{{flags}}}" + header
    first, rest = text.split("\n", 1)
    at = first.find(", frontend_attributes=")
    at = len(first) if at < 0 else at
    path.write_text(first[:at] + header + first[at:] + "\n" + rest)
    return len(re.findall(r"^ +(?:ROOT )?\S+ = ", rest, re.M)), STATE["uneven"]
