#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares layers with those of PyTorch: results, final states, and the gradients of parameters and inputs.

    layers.py LAYER_VALUES [LAYER…]      the program of layer_values.cpp; needs torch and safetensors

The cases are those of layer_cases.py. Both programs have the same parameters, inputs and gradients of the results. In
float64, the largest difference in an array must be at most 1e-12 times the largest value of the array; in float32, 1e-5
times. Where small values are differences of numbers near 1, EXPLAINED gives the reason, and bounds the difference itself.
The random numbers depend only on the names of the cases. With other numbers, about 1 of 200 cases of Transformer differs by
more than 1e-5 in float32, by at most 3.2e-5 in 1080 runs. Both programs are about equally far from float64.
"""
import collections
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import warnings
import zlib

import safetensors.torch
import torch
from layer_cases import cases

TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5}
CANCELLATION = "the gradient is a small difference of numbers near 1"
# The beginning of the name of a case, the type, the largest difference, and its reason.
EXPLAINED = [
    ("InstanceNorm1d, length 2", torch.float64, 1e-13, CANCELLATION + ", times up to 1 / sqrt(eps) = 316"),
    ("InstanceNorm1d, length 2", torch.float32, 6e-5, CANCELLATION + ", times up to 1 / sqrt(eps) = 316"),
    ("Softmax, large", torch.float64, 1e-15, CANCELLATION),
    ("Softmax, large", torch.float32, 3e-7, CANCELLATION),
    ("Tanh, large", torch.float64, 1e-15, CANCELLATION),
    ("Tanh, large", torch.float32, 3e-6, "the slope is 1 - tanh(x)^2; Tessera's tanh is off by up to 4.6 units in the last place, PyTorch's by 0.6"),
    ("ELU, large negative", torch.float32, 3e-7, "Tessera computes the slope exp(x) as expm1(x) + 1"),
    ("SELU, large negative", torch.float32, 3e-7, "Tessera computes the slope exp(x) as expm1(x) + 1"),
    ("Hardsigmoid", torch.float64, 3e-7, "PyTorch's slope is 1/6 rounded to float32"),
    ("GELU, large negative", torch.float64, 1e-14, "1 + tanh(x) near 0"),
    ("GELU, large negative", torch.float32, 1e-5, "1 + erf(x) or 1 + tanh(x) near 0"),
]
# Keys of a case that are arguments of the call.
CALL_KEYS = ("is_causal", "src_is_causal", "tgt_is_causal", "memory_is_causal")


def split_options(case):
    """The arguments of the class, and those of the call."""
    options = {key: value for key, value in case.options.items() if key not in CALL_KEYS}
    return options, {key: value for key, value in case.options.items() if key in CALL_KEYS}


def make_module(case):
    options, _ = split_options(case)
    if case.layer not in ("TransformerEncoder", "TransformerDecoder"):
        return getattr(torch.nn, case.layer)(**options)
    count = options.pop("num_layers")
    norm = torch.nn.LayerNorm(options["d_model"]) if options.pop("final_norm", False) else None
    layer = getattr(torch.nn, case.layer + "Layer")(**options)
    extra = {"enable_nested_tensor": False} if case.layer == "TransformerEncoder" else {}
    return getattr(torch.nn, case.layer)(layer, count, norm, **extra)


def causal_mask(case, inputs, key):
    """PyTorch needs a mask with is_causal."""
    rows = inputs["src" if key in ("is_causal", "src_is_causal") else "tgt"]
    columns = inputs["memory" if "memory" in inputs else "src"] if key == "memory_is_causal" else rows
    t, s = (x.shape[1 if case.options.get("batch_first") else 0] for x in (rows, columns))
    return torch.full((t, s), float("-inf"), dtype=rows.dtype).triu(1)


def call(case, module, inputs):
    """Returns the list of the results."""
    _, flags = split_options(case)
    given = dict(inputs)
    for key in flags:
        given["src_mask" if key == "is_causal" else key.replace("is_causal", "mask")] = causal_mask(case, inputs, key)
    if case.layer == "TransformerEncoder" and "src_mask" in given:
        given["mask"] = given.pop("src_mask")
    if "h_0" in given:
        h = given.pop("h_0")
        given["hx"] = (h, given.pop("c_0")) if "c_0" in given else h
    if case.layer == "Bilinear":
        return [module(given["input1"], given["input2"])]
    out = []
    pending = [module(**given, **flags)]
    while pending:
        first = pending.pop(0)
        if isinstance(first, tuple):
            pending = list(first) + pending
        else:
            out.append(first)
    return out


def run_torch(case, dtype):
    """Returns what layer_values reads for the case, and what it should write."""
    torch.manual_seed(zlib.crc32(case.name.encode()))
    module = make_module(case).double()
    for p in module.parameters():
        p.data.add_(0.3 * torch.randn_like(p))
    module.to(dtype)
    inputs = {name: (x if x.dtype == torch.bool else x.to(dtype).requires_grad_()) for name, x in case.inputs().items()}
    outputs = call(case, module, inputs)
    gradients = [torch.randn_like(output) for output in outputs]
    torch.autograd.backward(outputs, gradients)
    given = {f"parameter.{name}": p for name, p in module.named_parameters()}
    given |= {f"input.{name}": x for name, x in inputs.items()}
    given |= {f"output_gradient.{i}": g for i, g in enumerate(gradients)}
    expected = {f"output.{i}": x for i, x in enumerate(outputs)}
    expected |= {f"gradient.{name}": zeros_if_none(p) for name, p in module.named_parameters()}
    expected |= {f"input_gradient.{name}": zeros_if_none(x) for name, x in inputs.items() if x.requires_grad}
    return given, expected


def zeros_if_none(variable):
    return torch.zeros_like(variable) if variable.grad is None else variable.grad


def run_tessera(program, tasks):
    """`tasks`: (name, options, tensors) of each case. Returns the tensors that the program writes."""
    with tempfile.TemporaryDirectory() as folder:
        given, wanted = pathlib.Path(folder) / "in.safetensors", pathlib.Path(folder) / "out.safetensors"
        tensors = {f"{name}/{key}": value.detach().clone().contiguous()
                   for name, _, values in tasks for key, value in values.items()}
        safetensors.torch.save_file(tensors, given, metadata={name: json.dumps(options) for name, options, _ in tasks})
        subprocess.run([program, given, wanted], check=True)
        return safetensors.torch.load_file(wanted)


def differences(name, expected, ours):
    """Yields for each array its name, the largest difference, and this difference relative to the largest value."""
    for key, value in expected.items():
        own = ours.get(f"{name}/{key}", torch.zeros_like(value))
        if own.shape != value.shape:
            print(f"{name}: {key} has the shape {list(own.shape)}, in PyTorch {list(value.shape)}")
            yield key, math.inf, math.inf
            continue
        difference = (own - value).abs().max().item()
        yield key, difference, difference / (value.abs().max().item() or 1.0)


def explanation(name, dtype, difference):
    """The reason of a difference; None if it is not known or the difference exceeds its bound."""
    for start, kind, bound, reason in EXPLAINED:
        if name.startswith(start) and kind == dtype and difference <= bound:
            return reason
    return None


def compare(layer, chosen, program):
    """Prints a line for the layer, and one for each array that differs. Returns how many differ, and how many of them for
    no known reason.
    """
    worst, lines, failed = {}, [], 0
    for dtype, tolerance in TOLERANCES.items():
        runs = {case.name: run_torch(case, dtype) for case in chosen}
        tasks = [(case.name, {"layer": case.layer, **case.options}, runs[case.name][0]) for case in chosen]
        ours = run_tessera(program, tasks)
        found = [(name, *one) for name, (_, expected) in runs.items() for one in differences(name, expected, ours)]
        counts = collections.Counter(key.split(".")[0] for _, key, _, _ in found)
        worst[dtype] = max((relative for *_, relative in found), key=lambda relative: (math.isnan(relative), relative))
        for name, key, difference, relative in found:
            if relative <= tolerance:
                continue
            reason = explanation(name, dtype, difference)
            failed += reason is None
            lines.append(f"      {name}, {str(dtype)[6:]}: {key} differs by {relative:.1e} ({difference:.1e}): {reason or 'DIFFERENT'}")
    arrays = f"{counts['output']} results, {counts['gradient'] + counts['input_gradient']} gradients"
    print(f"{'FAIL' if failed else 'ok  '}  {layer}, {len(chosen)} cases, {arrays}: float64 {worst[torch.float64]:.1e}, "
          f"float32 {worst[torch.float32]:.1e}", *lines, sep="\n", flush=True)
    return len(lines), failed


def main():
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # masks of two types; the order of the parts
    groups = collections.defaultdict(list)
    for case in cases():
        groups[case.layer].append(case)
    layers = sys.argv[2:] or list(groups)
    found = [compare(layer, groups[layer], sys.argv[1]) for layer in layers]
    failed = sum(unknown for _, unknown in found)
    print(f"torch {torch.__version__}, safetensors {safetensors.__version__}")
    print(f"{sum(len(groups[layer]) for layer in layers)} cases, {sum(count for count, _ in found)} differences, of which "
          f"{failed} have no known reason")
    return 1 if failed else 0


sys.exit(main())
