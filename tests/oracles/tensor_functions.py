#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the functions of tensors, and their gradients, with those of PyTorch in float64.

    tensor_functions.py FUNCTION_VALUES      the program of function_values.cpp; needs torch

The cases are those of tests/frontend/tensor/*_cases.cpp; tensor_function_cases.py has their counterparts. Random functions,
and writes whose order PyTorch does not define, are not compared.
"""
import json
import math
import subprocess
import sys

import torch
from tensor_function_cases import case, cases

F = torch.nn.functional


def pad_modes(x):
    def pad(sizes, mode):
        return F.pad(x[None, None], sizes, mode)[0, 0]
    return (pad((3, 1, 0, 2), "reflect") * pad((1, 3, 2, 0), "replicate") * pad((2, 2, 1, 1), "circular")
            * F.pad(x, (5, -1, 3, -1), value=0.5))


def add_torch_names():
    """More cases: functions whose names are those of PyTorch."""
    case("linear", [(5, 3), (4, 3), (4,)], lambda x, y, z: F.linear(x, y, z) * F.linear(x, y))
    case("tensordot", [(5, 3, 4), (3, 4, 2), (4, 5)],
         lambda x, y, z: torch.tensordot(x, y) * torch.tensordot(x, z, ([2, 0], [0, 1])).sum())
    case("kron", [(5, 3), (2,)], lambda x, y: torch.kron(x, y) + torch.kron(y, x).t().reshape(5, 6))
    case("pad_modes", [(5, 7)], pad_modes)
    case("unfold_images", [(2, 3, 5, 4)], lambda x: F.unfold(x, (2, 3), (2, 1), (1, 0), (1, 2)))
    case("fold_images", [(2, 18, 5)], lambda x: F.fold(x, (5, 4), (2, 3), (2, 1), (1, 0), (1, 2)))
    case("names_of_shapes", [(5, 6)],
         lambda x: x.unflatten(-1, (2, -1)) * x.view(5, 2, 3) + x[0].expand_as(x).reshape(5, 2, 3))
    # PyTorch's heaviside has no gradient.
    case("heaviside", [(5, 3), (3,)],
         lambda x, y: torch.where(x > 0.5, y.expand(5, 3), (x > 0).to(x.dtype)) * x)

TOLERANCE = 1e-12


def inputs_of(case):
    """The inputs of function_cases.cpp: multiples of the golden ratio in (-1, 1)."""
    out = []
    drawn = 0
    for shape in case.shapes:
        numbers = []
        for _ in range(math.prod(shape)):
            drawn += 1
            turned = drawn * 0.6180339887498949
            number = 2 * (turned - math.floor(turned)) - 1
            numbers.append(case.values(number) if case.values else number)
        out.append(torch.tensor(numbers).reshape(shape).requires_grad_())
    return out


def gradients_of(result, inputs):
    """Those of loss_of() in function_cases.cpp. Zeros for an input on which the result does not depend."""
    weights = torch.tensor([math.cos(3 * i + 1) for i in range(result.numel())]).reshape(result.shape)
    if result.requires_grad:
        (result * weights).sum().backward()
    return [torch.zeros_like(x) if x.grad is None else x.grad for x in inputs]


def compare(name, case, given):
    inputs = inputs_of(case)
    result = case.function(*inputs)
    if list(result.shape) != given["shape"]:
        return [f"{name}: the shape is {given['shape']}, PyTorch has {list(result.shape)}"]
    expected = [result.detach()] + gradients_of(result, inputs)
    out = []
    for i, (a, b) in enumerate(zip(expected, given["values"], strict=True)):
        error = (a - torch.tensor(b).reshape(a.shape)).abs().max().item() if a.numel() else 0
        tolerance = case.gradient_tolerance if i else TOLERANCE
        if not error < tolerance * (1 + a.abs().max().item()):
            out.append(f"{name}: {f'gradient {i - 1}' if i else 'the result'} differs by {error:.3g}")
    return out


def main():
    torch.set_default_dtype(torch.float64)
    given = json.loads(subprocess.run([sys.argv[1]], check=True, capture_output=True, text=True).stdout)
    add_torch_names()
    compared = cases()
    differences = [line for name, case in compared.items() for line in compare(name, case, given[name])]
    print("\n".join(differences + [f"{len(compared)} functions with gradients, {len(differences)} differences"]))
    print("not compared:", ", ".join(sorted(set(given) - set(compared))))
    return 1 if differences else 0


sys.exit(main())
