#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that XLA computes the same results for a program before and after Tessera partitioned it.

  tests/oracles/evaluate_with_xla.py GLOBAL.hlo PER_DEVICE.hlo   (both as `--for-xla` writes them)

Needs `pip install jax jaxlib`. Partitions run as replicas, because XLA would otherwise partition again: partition-id
becomes replica-id, and collectives lose their channels. Padding of uneven shards holds NaN or the largest integer. A
global program with manual regions is only meaningful on all devices: XLA partitions it, with replicated arguments and
results.
"""
import os
import re
import sys

DEVICES = int(re.search(r"num_partitions=(\d+)", open(sys.argv[2], encoding="utf-8").read()).group(1))
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import numpy as np  # noqa: E402
from jax._src.lib import _jax, xla_client  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

TYPES = {"f32": np.float32, "f64": np.float64, "s32": np.int32, "u32": np.uint32, "s64": np.int64, "pred": np.bool_,
         "s8": np.int8, "u8": np.uint8, "f16": np.float16, "bf16": jax.numpy.bfloat16, "c64": np.complex64}


def without(text, name):
    """Returns the text without attribute `name`, whose value is in braces."""
    while (at := text.find(f", {name}={{")) >= 0:
        end, depth = text.index("{", at), 0
        while True:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
            if depth == 0:
                break
        text = text[:at] + text[end:]
    return text


def sharding_at(line):
    """Returns the leaves of `sharding={…}` in a line."""
    if "sharding={" not in line:
        return None
    rest = line[line.index("sharding=") + 9:]
    depth, end = 0, 0
    while end == 0 or depth:
        depth += {"{": 1, "}": -1}.get(rest[end], 0)
        end += 1
    text = rest[:end]
    leaves = re.findall(r"\{[^{}]*\}", text) if text.startswith("{{") else [text]
    return [xla_client.hlo.HloSharding.from_string(leaf) for leaf in leaves]


def tile_of(sharding, device, ndim):
    """Returns the coordinates of the device's tile and the tile counts."""
    if sharding is None or sharding.is_replicated() or ndim == 0:
        return (0,) * ndim, (1,) * ndim
    dims = tuple(sharding.tile_assignment_dimensions())
    where = np.argwhere(np.array(sharding.tile_assignment_devices()).reshape(dims) == device)[0]
    return tuple(where[:ndim]), dims[:ndim]


def slices(shape, sharding, device):
    place, counts = tile_of(sharding, device, len(shape))
    sizes = [-(-size // count) for size, count in zip(shape, counts)]
    return tuple(slice(min(k * n, s), min((k + 1) * n, s)) for k, n, s in zip(place, sizes, shape)), sizes


def shard(array, sharding, device):
    box, sizes = slices(array.shape, sharding, device)
    fill = np.nan if array.dtype.kind in "fcV" else True if array.dtype.kind == "b" else np.iinfo(array.dtype).max
    out = np.full(sizes, fill, array.dtype)
    part = array[box]
    out[tuple(slice(0, n) for n in part.shape)] = part
    return out


def entry_of(text):
    body = text[re.search(r"^ENTRY ", text, re.M).start():]
    parameters, root = {}, None
    for line in body.splitlines():
        if match := re.match(r"\s+(?:ROOT )?%?\S+ = (\w+)\[([\d,]*)\]\S* parameter\((\d+)\)", line):
            dims = tuple(int(n) for n in match[2].split(",") if n)
            parameters[int(match[3])] = (TYPES[match[1]], dims, sharding_at(line))
        if line.startswith("  ROOT "):
            root = sharding_at(line)
    return [parameters[k] for k in sorted(parameters)], root


def with_laid_operands(text):
    """Inserts an operation before gathers of floats. The CPU backend of jaxlib 0.10.2 gathers along the first dim in
    memory even if it has chosen another layout for the operand, and then mixes up the elements.
    """
    lines = []
    for line in text.splitlines():
        match = re.match(r"  (?:ROOT )?%\S+ = .*? all-gather\(([^)]*)\)", line)
        for k, operand in enumerate(match[1].split(", ") if match else []):
            shape = re.search(rf"^  {re.escape(operand)} = ((?:f32|f64)\[[\d,]*\])", text, re.M)
            if not shape:
                continue
            name = f"%laid.{len(lines)}.{k}"
            dtype = shape[1].split("[")[0]
            lines += [f"  {name}.low = {dtype}[] constant(-1e30)",
                      f"  {name}.lows = {shape[1]} broadcast({name}.low), dimensions={{}}",
                      f"  {name} = {shape[1]} maximum({operand}, {name}.lows)"]
            line = re.sub(rf"([(, ]){re.escape(operand)}([,)])", rf"\1{name}\2", line, count=1)
        lines.append(line)
    return "\n".join(lines) + "\n"


def replicated_at_entry(text):
    """Replicates the entry's parameters and its result on every device."""
    text = re.sub(r", allow_spmd_sharding_propagation_to_\w+=\{[^}]*\}", "", text)
    start = re.search(r"^ENTRY ", text, re.M).start()
    lines = []
    for line in text[start:].splitlines():
        root = re.match(r"  ROOT (%?\S+) = (\(.*?\)|\S+) \w", line)
        if root and " tuple(" not in line:
            lines += [line.replace("  ROOT ", "  ", 1), f"  ROOT %replicated_at_end = {root[2]} copy({root[1]})"]
        else:
            line = without(line, "sharding") if " parameter(" in line or root else line
            lines.append(re.sub(r"( parameter\(\d+\))", r"\1, sharding={replicated}", line))
    return text[:start] + "\n".join(lines) + "\n"


def run(text, arguments, devices, partitions=False):
    """Takes arguments[k][device] and returns results[k][device]. Unless `partitions`, devices are replicas."""
    module = xla_client.hlo.hlo_module_from_text(text)
    stablehlo = _jax.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
    options = xla_client.CompileOptions()
    numbers = np.array([[d.id] for d in devices])
    options.num_replicas = 1 if partitions else len(devices)
    if partitions:
        options.num_partitions = len(devices)
        build = options.executable_build_options
        build.num_partitions, build.use_spmd_partitioning = len(devices), True
        build.allow_spmd_sharding_propagation_to_parameters = build.allow_spmd_sharding_propagation_to_output = [False]
    options.device_assignment = xla_client.DeviceAssignment.create(numbers.T if partitions else numbers)
    compiled = devices[0].client.compile_and_load(stablehlo, xla_client.DeviceList(tuple(devices)), options)
    mesh = Mesh(np.array(devices), ("d",))

    def spread(pieces):
        shape, spec = pieces[0].shape, PartitionSpec()
        if shape:
            shape, spec = (shape[0] * len(devices),) + shape[1:], PartitionSpec("d")
        placed = [jax.device_put(piece, device) for piece, device in zip(pieces, devices)]
        return jax.make_array_from_single_device_arrays(shape, NamedSharding(mesh, spec), placed)

    results = compiled.execute_sharded([spread(pieces) for pieces in arguments])
    return [[np.asarray(piece) for piece in leaf] for leaf in results.disassemble_into_single_device_arrays()]


def difference(due, have):
    """Returns the largest difference relative to the largest magnitude. NaN must match NaN."""
    if not due.size:
        return 0.0
    if np.any(np.isnan(due) != np.isnan(have)):
        return np.inf
    return float(np.nanmax(np.abs(due - have), initial=0.0)) / max(1.0, float(np.nanmax(np.abs(due), initial=0.0)))


def main(global_path, local_path):
    global_text, local = (open(path, encoding="utf-8").read() for path in (global_path, local_path))
    parameters, _ = entry_of(global_text)
    local_parameters, results = entry_of(local)
    draws = np.random.default_rng(0)
    arguments = [np.asarray(draws.integers(0, 4, dims) if np.dtype(t).kind in "iub" else draws.uniform(-1, 1, dims)).astype(t)
                 for t, dims, _ in parameters]
    devices = jax.devices()
    if "SPMDShardToFullShape" in global_text:
        everywhere = run(replicated_at_entry(global_text), [[a] * DEVICES for a in arguments], devices[:DEVICES], partitions=True)
    else:
        everywhere = run(without(global_text, "sharding"), [[a] for a in arguments], devices[:1])
    expected = [leaf[0] for leaf in everywhere]
    replicas = without(with_laid_operands(local), "sharding").replace("partition-id()", "replica-id()")
    replicas = re.sub(r", channel_id=\d+|, use_global_device_ids=true", "", replicas)
    replicas = re.sub(r"num_partitions=(\d+)", r"replica_count=\1", replicas)
    shards = [[shard(a, s and s[0], d) for d in range(DEVICES)] for a, (_, _, s) in zip(arguments, local_parameters)]
    got = run(replicas, shards, devices)
    worst = 0.0
    for k, want in enumerate(expected):
        sharding = None if results is None else results[k if len(results) > 1 else 0]
        for device, piece in enumerate(got[k]):
            box, _ = slices(want.shape, sharding, device)
            due = want[box]
            have = piece[tuple(slice(0, n) for n in due.shape)]
            wide = np.complex128 if due.dtype.kind == "c" else np.float64
            worst = max(worst, difference(due.astype(wide), have.astype(wide)))
    narrow = any(np.dtype(want.dtype).itemsize == 2 and want.dtype.kind in "fV" for want in expected)
    good = worst < (2e-2 if narrow else 1e-5)
    print(f"{'agrees ' if good else 'DIFFERS'} {os.path.basename(local_path)}: {len(expected)} results on {DEVICES} devices, "
          f"largest difference {worst:.2g}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
