#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the results of Tessera and XLA, op by op, on unusual inputs.

  tests/oracles/compare_ops_with_xla.py build/release/bin/tessera [--engine reference|runtime] [--keep FOLDER] [PATTERN…]

Needs `pip install jax jaxlib`. The modules are in op_cases.py: NaN, infinities, -0, empty arrays, indices out of range,
every element type. Floats may differ by the case's share of the larger magnitude; all other types must be equal. Signs
of zero count if the share is 0. Denormal results count as 0 (XLA's CPU backend flushes them). The exit status is 1 if
there is a difference that the case does not explain.
"""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_ENABLE_X64"] = "1"
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import jax  # noqa: E402
import jaxlib  # noqa: E402
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
from jax._src.lib import _jax, xla_client  # noqa: E402

import op_cases  # noqa: E402

NUMPY = {"pred": np.bool_, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
         **{f"s{n}": np.dtype(f"int{n}").type for n in (8, 16, 32, 64)},
         **{f"u{n}": np.dtype(f"uint{n}").type for n in (8, 16, 32, 64)}}
SAFE = {"pred": "BOOL", "f16": "F16", "bf16": "BF16", "f32": "F32", "f64": "F64",
        **{f"{k}{n}": f"{k.upper().replace('S', 'I')}{n}" for k in "su" for n in (8, 16, 32, 64)}}
BY_SAFE = {word: NUMPY[name] for name, word in SAFE.items()}


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, (dtype, array) in tensors.items():
        raw = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": SAFE[dtype], "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    with open(path, "rb") as file:
        raw = file.read()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    out = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        first, last = entry["data_offsets"]
        out[name] = np.frombuffer(raw[8 + size + first:8 + size + last], BY_SAFE[entry["dtype"]]).reshape(entry["shape"])
    return [out[name] for name in sorted(out, key=lambda n: [int(k) for k in re.findall(r"\d+", n)])]


def run_xla(text, arguments):
    module = xla_client.hlo.hlo_module_from_text(text)
    stablehlo = _jax.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
    device = jax.devices()[0]
    compiled = device.client.compile_and_load(stablehlo, xla_client.DeviceList((device,)), xla_client.CompileOptions())
    results = compiled.execute_sharded([jax.device_put(array, device) for _, array in arguments])
    return [np.asarray(leaf[0]) for leaf in results.disassemble_into_single_device_arrays()]


def run_tessera(binary, engine, path, arguments, folder):
    inputs, outputs = f"{folder}/in.safetensors", f"{folder}/out.safetensors"
    write_safetensors(inputs, {f"p{k}": argument for k, argument in enumerate(arguments)})
    command = [binary, "run", path, "--engine", engine, "--inputs", inputs, "--outputs", outputs]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[0] if done.stderr else f"exit {done.returncode}")
    return read_safetensors(outputs)


def first_difference(due, have, share, elementwise):
    """Returns the index of the first element that differs, or None if all agree."""
    if due.shape != have.shape or due.dtype != have.dtype:
        return f"{due.dtype}{due.shape} against {have.dtype}{have.shape}"
    if due.dtype.kind in "iub":
        bad = due != have
    else:
        tiny = float(ml_dtypes.finfo(due.dtype).smallest_normal)
        a, b = due.astype(np.float64), have.astype(np.float64)
        with np.errstate(all="ignore"):
            same = (a == b) | (np.isnan(a) & np.isnan(b)) | ((np.abs(a) <= tiny) & (np.abs(b) <= tiny))
            scale = np.maximum(np.abs(a), np.abs(b))
            if not elementwise:  # sums may cancel
                scale = np.max(np.where(np.isfinite(a), scale, 0), initial=0)
            if share:
                same |= np.isfinite(a) & np.isfinite(b) & (np.abs(a - b) <= share * scale)
            else:
                same &= (np.signbit(a) == np.signbit(b)) | (a != 0) | (b != 0)
        bad = ~same
    if not np.any(bad):
        return None
    where = tuple(int(k) for k in np.argwhere(np.atleast_1d(bad))[0]) if bad.ndim else ()
    return (f"at {list(where)}: XLA {due[where]!r}, Tessera {have[where]!r}; {int(np.sum(bad))} of {bad.size}")


def operands_at(case, arguments, message):
    """Returns the inputs of the first difference of an elementwise case."""
    found = re.search(r"at \[(\d+)\]", message)
    if not case.elementwise or not found:
        return ""
    return " for " + ", ".join(str(a.reshape(-1)[int(found[1])]) for _, a in arguments)


def compare(case, binary, engine, folder):
    """Returns a list of differences, or a text if one side could not run."""
    path = f"{folder}/{re.sub(r'[^A-Za-z0-9_.-]', '_', case.name)}.hlo"
    with open(path, "w", encoding="utf-8") as file:
        file.write(case.text)
    try:
        due = run_xla(case.text, case.arguments)
    except Exception as error:  # XlaRuntimeError has moved between versions of jaxlib
        return "XLA: " + str(error).strip().splitlines()[0][:200]
    try:
        have = run_tessera(binary, engine, path, case.arguments, folder)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return "Tessera: " + str(error)[:300]
    out = []
    if len(due) != len(have):
        return f"{len(due)} results of XLA, {len(have)} of Tessera"
    for k, (a, b) in enumerate(zip(due, have)):
        if message := first_difference(a, b, case.share, case.elementwise):
            label = f"{case.labels[k]}: " if k < len(case.labels) else f"result {k}: " if len(due) > 1 else ""
            out.append(label + message + operands_at(case, case.arguments, message))
    return out


def main(words):
    engine, keep, patterns = "reference", None, []
    binary = words.pop(0) if words else sys.exit(__doc__)
    while words:
        word = words.pop(0)
        if word == "--engine":
            engine = words.pop(0)
        elif word == "--keep":
            keep = words.pop(0)
            os.makedirs(keep, exist_ok=True)
        else:
            patterns.append(word)
    counts = {"agrees": 0, "explained": 0, "DIFFERS": 0, "refused": 0}
    results = 0
    with tempfile.TemporaryDirectory() as scratch:
        for case in op_cases.all_cases():
            if patterns and not any(p in case.name for p in patterns):
                continue
            found = compare(case, binary, engine, keep or scratch)
            kind = ("agrees" if not found else "explained" if case.explained else "refused"
                    if isinstance(found, str) and found.startswith("XLA") else "DIFFERS")
            counts[kind] += 1
            results += case.text.count("\n")
            if kind == "agrees":
                continue
            print(f"{kind} {case.name}" + (f" ({case.explained})" if case.explained else ""))
            for line in [found] if isinstance(found, str) else found[:12]:
                print("    " + line)
    print(f"jaxlib {jaxlib.__version__}, engine {engine}: {sum(counts.values())} modules of {results} lines; " +
          ", ".join(f"{n} {kind}" for kind, n in counts.items()))
    return 1 if counts["DIFFERS"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
