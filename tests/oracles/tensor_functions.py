#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the functions of tensors, and their gradients, with those of PyTorch in float64.

    tensor_functions.py FUNCTION_VALUES      the program of function_values.cpp; needs torch

The cases are those of tests/frontend/tensor/*_cases.cpp. Random functions, and writes whose order PyTorch does not define,
are not compared.
"""
import json
import math
import subprocess
import sys

import torch

F = torch.nn.functional
CASES = {}


def case(name, shapes, function, values=None):
    CASES[name] = (shapes, function, values)


def inputs_of(shapes, values):
    """The inputs of function_cases.cpp: multiples of the golden ratio in (-1, 1)."""
    out = []
    drawn = 0
    for shape in shapes:
        numbers = []
        for _ in range(math.prod(shape)):
            drawn += 1
            turned = drawn * 0.6180339887498949
            number = 2 * (turned - math.floor(turned)) - 1
            numbers.append(values(number) if values else number)
        out.append(torch.tensor(numbers).reshape(shape).requires_grad_())
    return out


def positive(x):
    return x + 1.5


def with_zeros(x):
    return 0.0 if abs(x) < 0.2 else x


def positions(shape, size):
    return torch.tensor([(7 * i + i * i // 3 + 2) % size for i in range(math.prod(shape))]).reshape(shape)


def ids(shape, size, below=0):
    """The positions of writing_cases.cpp; with below = size, counted from the end."""
    return torch.tensor([(5 * i + i * i // 3 + 1) % size - below for i in range(math.prod(shape))]).reshape(shape)


MATMULS = [
    ('vectors', (5,), (5,)),
    ('vector_matrix', (5,), (5, 3)),
    ('matrix_vector', (5, 3), (3,)),
    ('batch_vector', (2, 5, 3), (3,)),
    ('vector_batch', (5,), (2, 5, 3)),
    ('matrix_batch', (5, 3), (2, 3, 4)),
    ('batches_of_one', (2, 1, 5, 3), (7, 3, 4)),
    ('all_batches_of_one', (1, 5, 3), (1, 3, 4)),
    ('equal_batches', (2, 3, 5, 3), (2, 3, 3, 2)),
]


EQUATIONS = [
    ('matmul', 'ij,jk->ik', [(5, 3), (3, 4)]),
    ('implicit', 'ba,cb', [(5, 3), (4, 5)]),
    ('trace', 'ii->', [(5, 5)]),
    ('diagonal', 'iji->ij', [(5, 3, 5)]),
    ('attention_values', 'bhts,bshd->bthd', [(2, 3, 5, 7), (2, 7, 3, 4)]),
    ('ellipsis_broadcast', '...i,j...->...ij', [(2, 1, 3), (4, 5)]),
    ('size_one', 'ij,jk->ik', [(5, 1), (3, 4)]),
    ('summed_before', 'ijl,jk->k', [(5, 3, 2), (3, 4)]),
    ('bilinear', 'bi,oij,bj->bo', [(5, 3), (2, 3, 4), (5, 4)]),
    ('shared_by_three', 'ai,bi,ci->abc', [(2, 3), (4, 3), (5, 3)]),
]


def add_cases():
    for n in ("expm1", "log1p", "relu", "floor", "ceil", "round"):
        case(n, [(5, 3)], getattr(torch, n))
    case('silu', [(5, 3)], F.silu)
    for n in ('selu', 'hardsigmoid', 'hardswish', 'mish'):
        case(n, [(5, 3)], getattr(F, n), lambda x: 5 * x)
    case('leaky_relu', [(5, 3)], lambda x: F.leaky_relu(x, 0.2))
    case('elu', [(5, 3)], lambda x: F.elu(x * 3, 0.7))
    case('reciprocal', [(5, 3)], torch.reciprocal, positive)
    case('softplus', [(7,)], lambda x: F.softplus(x * 9, threshold=100))
    case('softplus_beta', [(7,)], lambda x: F.softplus(x, beta=2.5))
    case('clamp', [(5, 3)], lambda x: x.clamp(-0.5, 0.4))
    case('clamp_min', [(5, 3)], lambda x: x.clamp(min=0.1))
    case('clamp_max', [(5, 3)], lambda x: x.clamp(max=0.1))
    case('masked_fill', [(5, 3), (3,)], lambda x, y: x.masked_fill(y > 0, -7))
    case('where', [(5, 1), (3,)], lambda x, y: torch.where(y > 0, x, y * x))
    case('maximum', [(5, 3), (3,)], lambda x, y: torch.maximum(x, y) * x.clamp(max=0.2))
    case('sum', [(5, 7, 3)], lambda x: x.sum((0, -1)))
    case('mean', [(5, 7)], lambda x: x.mean(1) * x.mean())
    case('max', [(5, 7)], lambda x: x.amax(0) + x.max())
    case('min_keep', [(5, 7)], lambda x: x.amin(-1, keepdim=True) * x)
    case('prod', [(5, 7)], lambda x: x.prod(1))
    case('prod_zeros', [(5, 7)], lambda x: x.prod(0), with_zeros)
    case('prod_all', [(3, 2)], lambda x: x.prod())
    case('var', [(5, 7)], lambda x: x.var(1))
    case('var_biased', [(5, 7)], lambda x: x.var(0, correction=0, keepdim=True))
    case('std', [(5, 7)], lambda x: x.std(0) * x.std())
    case('norm', [(5, 7)], lambda x: x.norm(dim=1, keepdim=True) * x)
    case('norm_of_zeros', [(5, 7)], lambda x: x.norm(dim=1) ** 2, lambda x: 0.0)
    for p, n in ((1, 'norm_1'), (3, 'norm_3')):
        case(n, [(5, 7)], lambda x, p=p: x.norm(p, dim=0))
    case('norm_inf', [(5, 7)], lambda x: x.norm(math.inf, dim=1))
    case('cumsum', [(5, 7)], lambda x: x.cumsum(1) * x.cumsum(0))
    case('cumprod', [(5, 7)], lambda x: x.cumprod(-1))
    case('cumprod_zeros', [(7, 5)], lambda x: x.cumprod(0), with_zeros)
    case('softmax', [(5, 7)], lambda x: x.softmax(0) + x.log_softmax(1))
    case('logsumexp', [(5, 7)], lambda x: x.logsumexp(1))
    case('argmax', [(5, 7)], lambda x: (x.argmax(1).sum() + x.argmin() + x.argmin(0).max()).double() + 0 * x.sum())
    case('any_all', [(5, 7)], lambda x: torch.where((x > 0.8).any(0), x, 2 * x) * (x > -0.9).all(1, keepdim=True))
    case('stack', [(5, 3), (5, 3)], lambda x, y: torch.stack([x, y * x, y], 1))
    case('cat', [(5, 3), (2, 3)], lambda x, y: torch.cat([x, y]) ** 2)
    def sp(x):
        p = x.split(2)
        o = x.split([4, 3])
        return torch.cat([p[3] * 2, p[0], p[1] * p[2], o[1] * 3])
    case('split', [(7, 3)], sp)
    def ch(x):
        p = x.chunk(3, 1)
        return p[0] * p[1] + p[2]
    case('chunk', [(3, 7)], ch)
    case('permute', [(5, 3, 2)], lambda x: x.permute(-1, 0, 1) * x.transpose(0, 1).transpose(0, 2).sum())
    case('flatten', [(5, 3, 2)], lambda x: x.flatten(1) * x.flatten().sum())
    case('expand', [(5, 1)], lambda x: x.expand(3, -1, 4))
    case('tile', [(5, 3)], lambda x: x.tile(2, 3, 2))
    case('roll', [(5, 7)], lambda x: x.roll(3, 1) * x.roll((-1, 9), (0, 1)))
    case('flip', [(5, 7)], lambda x: x.flip(0, 1) * x.flip(1))
    case('tril', [(2, 5, 7)], lambda x: x.tril(1) - x.triu(-2))
    case('subscript', [(5, 7, 3)], lambda x: x[1:4, :, 2] * x[..., 0].flip(0)[::2][0:1])
    case('subscript_new', [(5, 7)], lambda x: x[None, -1, [6, 4, 2]] * x[2][3])
    for n, a, b in MATMULS:
        case('matmul_' + n, [a, b], torch.matmul)
    for n, e, s in EQUATIONS:
        case('einsum_' + n, s, lambda *v, e=e: torch.einsum(e, *v))
    case('gather_rows', [(5, 3)], lambda x: x.gather(0, positions((4, 3), 5)))
    case('gather_fewer_rows', [(5, 7)], lambda x: x.gather(1, positions((3, 4), 7)))
    case('take_along_dim', [(5, 7)], lambda x: torch.take_along_dim(x, positions((1, 4), 7), 1))
    case('index_select', [(5, 7, 2)], lambda x: x.index_select(1, positions((9,), 7)))
    case('scatter_number', [(5, 7)], lambda x: x.scatter(1, positions((5, 3), 7), 2.5))
    case('scatter_add', [(5, 7), (5, 4)], lambda x, y: x.scatter_add(1, positions((5, 4), 7), y) ** 2)
    case('scatter_add_fewer', [(5, 7), (9, 2)], lambda x, y: x.scatter_add(0, positions((9, 2), 5), y))
    case('one_hot', [(5, 7)], lambda x: F.one_hot(positions((3,), 5), 5).double() @ x)
    case('cosine_similarity', [(5, 7), (7,)], lambda x, y: F.cosine_similarity(x, y.expand(5, 7)))
    case('sort', [(5, 7)], lambda x: x.sort().values * x.sort(dim=0, descending=True).values)
    case('argsort', [(5, 7)],
         lambda x: (x.argsort(descending=True, stable=True) + x.argsort(dim=0, stable=True)).double() + 0 * x)
    def tk(x):
        l = x.topk(3)
        return l.values * l.indices.double() + x.topk(2, 0, largest=False).values.sum()
    case('topk', [(5, 7)], tk)
    def ms(x):
        v = (x * x)[x > 0]
        return torch.cat([v, torch.full((20,), 4.0)])[:11]
    case('masked_select', [(5, 7)], ms)
    case('nonzero', [(5, 7)],
         lambda x: torch.cat([(x > 0.2).nonzero(), torch.full((40, 2), -1)])[:19].double() + 0 * x.sum())


def add_writing_cases():
    case('subscript_ids', [(5, 3)], lambda x: x[ids((2, 4), 5)])
    case('subscript_ids_from_end', [(5, 7)], lambda x: x[:, ids((4,), 7, 7)].square())
    case('subscript_pairs', [(5, 7, 2)], lambda x: x[ids((2, 1), 5), ids((3,), 7)])
    case('subscript_apart', [(5, 2, 7)], lambda x: x[ids((3,), 5), :, ids((2, 3), 7, 7)])
    case('subscript_in_range', [(5, 7, 2)], lambda x: x.flip(0)[::2, ids((4,), 7), 1])
    case('subscript_scalar', [(5, 7)], lambda x: x[1:4, ids((), 7)] * x[ids((), 5)][0])
    case('subscript_of_each_row', [(5, 7)], lambda x: x[torch.arange(5)[:, None], ids((5, 3), 7)])
    case('take', [(5, 7)], lambda x: x.take(ids((2, 9), 35, 35)))
    case('narrow', [(5, 7)], lambda x: x.narrow(1, ids((), 4), 3) * x.narrow(1, -3, 3))
    case('at_add', [(5, 3), (7, 1)],
         lambda x, v: x.index_put((ids((7,), 5, 5),), v.expand(7, 3), accumulate=True).square())
    case('index_put', [(5, 7), (4,)],
         lambda x, v: x.index_put((ids((4,), 5), ids((4,), 7)), v, accumulate=True).square())
    case('index_add', [(5, 7), (5, 4)], lambda x, v: x.index_add(1, ids((4,), 7), v).square())
    case('index_fill', [(5, 7), ()], lambda x, v: x.index_fill(1, ids((3,), 7, 7), v))
    case('masked_scatter', [(5, 7), (5, 8)], lambda x, v: x.masked_scatter(x > 0.1, v))
    for reduction in ('sum', 'prod', 'mean', 'amax', 'amin'):
        for suffix, include_self in (('', True), ('_without_self', False)):
            case(f'scatter_{reduction}{suffix}', [(5, 7), (4, 7)],
                 lambda x, v, r=reduction, s=include_self: x.scatter_reduce(0, ids((4, 6), 5), v, r, include_self=s))


def compare(name, given):
    shapes, function, values = CASES[name]
    inputs = inputs_of(shapes, values)
    result = function(*inputs)
    if list(result.shape) != given["shape"]:
        return [f"{name}: the shape is {given['shape']}, PyTorch has {list(result.shape)}"]
    weights = torch.tensor([math.cos(3 * i + 1) for i in range(result.numel())]).reshape(result.shape)
    (result * weights).sum().backward()
    expected = [result] + [x.grad if x.grad is not None else torch.zeros_like(x) for x in inputs]
    out = []
    for i, (a, b) in enumerate(zip(expected, given["values"])):
        error = (a - torch.tensor(b).reshape(a.shape)).abs().max().item() if a.numel() else 0
        if not error < 1e-12 * (1 + a.abs().max().item()):
            out.append(f"{name}: {'the result' if i == 0 else f'gradient {i - 1}'} differs by {error:.3g}")
    return out


def main():
    torch.set_default_dtype(torch.float64)
    add_cases()
    add_writing_cases()
    given = json.loads(subprocess.run([sys.argv[1]], check=True, capture_output=True, text=True).stdout)
    differences = [line for name in CASES for line in compare(name, given[name])]
    print("\n".join(differences + [f"{len(CASES)} functions with gradients, {len(differences)} differences"]))
    print("not compared:", ", ".join(sorted(set(given) - set(CASES))))
    return 1 if differences else 0


sys.exit(main())
