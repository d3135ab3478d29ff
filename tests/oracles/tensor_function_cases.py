# SPDX-License-Identifier: Apache-2.0
"""The cases of tensor_functions.py: those of tests/frontend/tensor/*_cases.cpp, computed by PyTorch.

There is no counterpart of random functions, nor of writes with equal positions, of which PyTorch does not define the last.
"""
import dataclasses
import math
import typing

import torch

F = torch.nn.functional
CASES = {}


@dataclasses.dataclass
class Case:
    shapes: list  # of the inputs
    function: typing.Callable
    values: typing.Callable = None  # changes the numbers of the inputs, which are in (-1, 1)
    gradient_tolerance: float = 1e-12


def case(name, shapes, function, *more):
    assert name not in CASES, name
    CASES[name] = Case(shapes, function, *more)


# ---- numbers of inputs, and positions -------------------------------------------------------------------------------


def times_five(x):
    return 5 * x


def with_zeros(x):
    return 0.0 if abs(x) < 0.2 else x


def positions(shape, size):
    """The positions of function_cases.cpp."""
    return torch.tensor([(7 * i + i * i // 3 + 2) % size for i in range(math.prod(shape))]).reshape(shape)


def ids(shape, size, below=0):
    """The positions of writing_cases.cpp; with below = size, counted from the end."""
    return torch.tensor([(5 * i + i * i // 3 + 1) % size - below for i in range(math.prod(shape))]).reshape(shape)


def bounded(x, size, fill_value=0.0):
    """The first elements, as those of a function whose number of results depends on the data."""
    return torch.cat([x, x.new_full((size, *x.shape[1:]), fill_value)])[:size]


def with_nan(x):
    return torch.where(x > 0.5, math.nan, x)


# ---- elementwise functions ------------------------------------------------------------------------------------------


def compound_assignment(x, y):
    out = x * 2
    out += y
    out *= x
    out -= 0.5
    out /= y + 2
    return out


def add_pointwise():
    for name in ("expm1", "log1p", "relu", "floor", "ceil", "round"):
        case(name, [(5, 3)], getattr(torch, name))
    for name in ("selu", "hardswish", "mish"):
        case(name, [(5, 3)], getattr(F, name), times_five)
    # PyTorch's slope is 1/6 rounded to float32, which is off by 5e-9.
    case("hardsigmoid", [(5, 3)], F.hardsigmoid, times_five, 5e-9)
    case("silu", [(5, 3)], F.silu)
    case("reciprocal", [(5, 3)], torch.reciprocal, lambda x: x + 1.5)
    case("leaky_relu", [(5, 3)], lambda x: F.leaky_relu(x, 0.2))
    case("elu", [(5, 3)], lambda x: F.elu(x * 3, 0.7))
    # Above its threshold, which is 20 by default, PyTorch's softplus is the identity.
    case("softplus", [(7,)], lambda x: F.softplus(x * 9, threshold=100))
    case("softplus_beta", [(7,)], lambda x: F.softplus(x, beta=2.5))
    case("clamp", [(5, 3)], lambda x: x.clamp(-0.5, 0.4))
    case("clamp_min", [(5, 3)], lambda x: x.clamp(min=0.1))
    case("clamp_max", [(5, 3)], lambda x: x.clamp(max=0.1))
    case("masked_fill", [(5, 3), (3,)], lambda x, y: x.masked_fill(y > 0, -7))
    case("masked_fill_scalar", [(5, 3), ()], lambda x, y: x.masked_fill(x > 0.3, y))
    case("where", [(5, 1), (3,)], lambda x, y: torch.where(y > 0, x, y * x))
    case("maximum", [(5, 3), (3,)], lambda x, y: torch.maximum(x, y) * torch.minimum(x, torch.tensor(0.2)))
    case("logical", [(5, 3), (3,)],
         lambda x, y: torch.where(torch.logical_xor(x > 0, torch.logical_and(y > 0.1, torch.logical_not(x))), x, y))
    case("compound_assignment", [(5, 3), (3,)], compound_assignment)


def add_mathematics():
    for name in ("tan", "atan", "sinh", "cosh", "asinh"):
        case(name, [(5, 3)], getattr(torch, name))
    for name in ("asin", "acos", "atanh"):
        case(name, [(5, 3)], getattr(torch, name), lambda x: 0.9 * x)
    for name in ("acosh", "log2", "log10"):
        case(name, [(5, 3)], getattr(torch, name), lambda x: x + 2.5)
    for name in ("exp2", "sinc", "trunc", "frac"):
        case(name, [(5, 3)], getattr(torch, name), times_five)
    case("log_sigmoid", [(5, 3)], F.logsigmoid, times_five)
    case("relu6", [(5, 3)], F.relu6, lambda x: 9 * x)
    case("logit", [(5, 3)], lambda x: torch.logit(0.5 + 0.4 * x))
    case("logit_epsilon", [(5, 3)], lambda x: torch.logit(0.5 + 0.6 * x, 0.1))
    # PyTorch's slope has 1 / alpha with alpha rounded to float32, which is off by 1.7e-8 of it.
    case("celu", [(5, 3)], lambda x: F.celu(x * 3, 0.7), None, 2e-8)
    case("hardtanh", [(5, 3)], lambda x: F.hardtanh(x, -0.5, 0.4))
    case("threshold", [(5, 3)], lambda x: F.threshold(x, 0.1, -7))
    case("nan_to_num", [(5, 3)], lambda x: with_nan(x).nan_to_num(3) * torch.where(with_nan(x).isnan(), 2.0, x))
    case("atan2", [(5, 3), (3,)], torch.atan2)
    case("hypot", [(5, 3), (3,)], torch.hypot)
    case("logaddexp", [(5, 3), (5, 1)], lambda x, y: torch.logaddexp(3 * x, y))
    case("xlogy", [(5, 3), (3,)], lambda x, y: torch.xlogy(x, y + 1.5))
    for f in (torch.fmod, torch.remainder): case(f.__name__, [(5, 3), (3,)], lambda x, y, f=f: f(5 * x, y + 1.5))
    # PyTorch's floor_divide has no gradient; its div has the same result.
    case("floor_divide", [(5, 3), (3,)], lambda x, y: x * torch.div(5 * x, y + 1.5, rounding_mode="floor"))
    case("lerp", [(5, 3), (3,), (5, 1)], lambda x, y, w: torch.lerp(x, y, w) * torch.lerp(x, y, 0.7))
    case("prelu", [(5, 3, 2), (3,), (1,)], lambda x, v, w: F.prelu(x, v) + F.prelu(x * 2, w))
    case("glu", [(5, 6)], F.glu)


# ---- reductions, statistics and order -------------------------------------------------------------------------------


def add_reductions():
    case("sum", [(5, 7, 3)], lambda x: x.sum((0, -1)))
    case("mean", [(5, 7)], lambda x: x.mean(1) * x.mean())
    case("max", [(5, 7)], lambda x: x.amax(0) + x.max())
    case("min_keep", [(5, 7)], lambda x: x.amin(-1, keepdim=True) * x)
    case("prod", [(5, 7)], lambda x: x.prod(1))
    case("prod_zeros", [(5, 7)], lambda x: x.prod(0), with_zeros)
    case("prod_all", [(3, 2)], lambda x: x.prod())
    case("var", [(5, 7)], lambda x: x.var(1))
    case("var_biased", [(5, 7)], lambda x: x.var(0, correction=0, keepdim=True))
    case("std", [(5, 7)], lambda x: x.std(0) * x.std())
    case("norm", [(5, 7)], lambda x: x.norm(dim=1, keepdim=True) * x)
    case("norm_of_zeros", [(5, 7)], lambda x: x.norm(dim=1) ** 2, lambda x: 0.0)
    case("norm_1", [(5, 7)], lambda x: x.norm(1, dim=0))
    case("norm_3", [(5, 7)], lambda x: x.norm(3, dim=0))
    case("norm_minus_1", [(5, 7)], lambda x: (x + 2).norm(-1, dim=1))
    case("norm_inf", [(5, 7)], lambda x: x.norm(math.inf, dim=1))
    case("cumsum", [(5, 7)], lambda x: x.cumsum(1) * x.cumsum(0))
    case("cumprod", [(5, 7)], lambda x: x.cumprod(-1))
    case("cumprod_zeros", [(7, 5)], lambda x: x.cumprod(0), with_zeros)
    case("softmax", [(5, 7)], lambda x: x.softmax(0) + x.log_softmax(1))
    case("logsumexp", [(5, 7)], lambda x: x.logsumexp(1))
    case("argmax", [(5, 7)], lambda x: (x.argmax(1).sum() + x.argmin() + x.argmin(0).max()).double())
    case("any_all", [(5, 7)], lambda x: torch.where((x > 0.8).any(0), x, 2 * x) * (x > -0.9).all(1, keepdim=True))


def add_statistics():
    case("amax", [(5, 7)], lambda x: x.amax(0) * x.amin(1, keepdim=True))
    case("count_nonzero", [(5, 7)], lambda x: x.sum(0) * x.floor().count_nonzero(0))
    case("nansum", [(5, 7)], lambda x: with_nan(x).nansum(0) * with_nan(x).nansum())
    case("nanmean", [(5, 7)], lambda x: with_nan(x).nanmean(0) * with_nan(x).nanmean())
    case("softmin", [(5, 7)], lambda x: F.softmin(x, 1) + F.softmin(x, 0))
    case("logcumsumexp", [(5, 7)], lambda x: x.logcumsumexp(0) * (3 * x).logcumsumexp(-1))
    case("cov", [(5, 7)], lambda x: x.cov() * x.flatten().cov(correction=0))
    case("normalize", [(5, 7)], lambda x: F.normalize(x) * F.normalize(x, p=1, dim=0))
    case("pairwise_distance", [(5, 7), (7,)], F.pairwise_distance)
    case("cdist", [(5, 3), (7, 3)], lambda x, y: torch.cdist(x, y) * torch.cdist(x, y, p=1))
    case("cdist_batches", [(2, 1, 5, 3), (3, 2, 3)], lambda x, y: torch.cdist(x, y, p=3))


def cummax(x):
    values, indices = x.cummax(1)
    return values * indices + x.cummin(0).values


def median(x):
    values, indices = x.median(1)
    return values * indices + x.median() * x.median(0, keepdim=True).values.sum()


def topk(x):
    values, indices = x.topk(3)
    return values * indices + x.topk(2, 0, largest=False).values.sum()


def unique(x):
    values, inverse, counts = (5 * x).floor().detach().unique(return_inverse=True, return_counts=True)
    return bounded(values, 8) * bounded(counts, 8, 0) * len(values) * inverse.sum(0).max()


def add_order():
    case("cummax", [(5, 7)], cummax)
    case("median", [(5, 7)], median)
    case("quantile", [(5, 7)],
         lambda x: x.quantile(torch.tensor([0.1, 0.75]), 1) + x.quantile(0.4, interpolation="midpoint"))
    case("searchsorted", [(5, 7), (5, 3), (4,)],
         lambda x, y, z: (torch.searchsorted(x.sort().values, y) + torch.bucketize(y, z.sort().values, right=True)) * y)
    case("sort", [(5, 7)], lambda x: x.sort().values * x.sort(dim=0, descending=True).values)
    case("argsort", [(5, 7)], lambda x: (x.argsort(descending=True, stable=True) + x.argsort(dim=0, stable=True)).double())
    case("topk", [(5, 7)], topk)
    # PyTorch has no gradient of unique; that of floor is 0.
    case("unique", [(5, 7)], unique)


# ---- shapes ---------------------------------------------------------------------------------------------------------


def split(x):
    parts, others = x.split(2), x.split([4, 3])
    return torch.cat([parts[3] * 2, parts[0], parts[1] * parts[2], others[1] * 3])


def chunk(x):
    parts = x.chunk(3, 1)
    return parts[0] * parts[1] + parts[2]


def add_shaping():
    case("stack", [(5, 3), (5, 3)], lambda x, y: torch.stack([x, y * x, y], 1))
    case("cat", [(5, 3), (2, 3)], lambda x, y: torch.cat([x, y]) ** 2)
    case("split", [(7, 3)], split)
    case("chunk", [(3, 7)], chunk)
    case("permute", [(5, 3, 2)], lambda x: x.permute(-1, 0, 1) * x.transpose(0, 1).transpose(0, 2).sum())
    case("flatten", [(5, 3, 2)], lambda x: x.flatten(1) * x.flatten().sum())
    case("expand", [(5, 1)], lambda x: x.expand(3, -1, 4))
    case("tile", [(5, 3)], lambda x: x.tile(2, 3, 2))
    case("roll", [(5, 7)], lambda x: x.roll(3, 1) * x.roll((-1, 9), (0, 1)))
    case("flip", [(5, 7)], lambda x: x.flip(0, 1) * x.flip(1))
    case("tril", [(2, 5, 7)], lambda x: x.tril(1) - x.triu(-2))
    # PyTorch has no negative steps.
    case("subscript", [(5, 7, 3)], lambda x: x[1:4, :, 2] * x[..., 0].flip(0)[::2][0:1])
    case("subscript_new", [(5, 7)], lambda x: x[None, -1, [6, 4, 2]] * x[2][3])


def unbind(x):
    columns = x.unbind(1)
    return columns[0] * columns[2] + x.unbind()[4].sum() * columns[1]


def meshgrid(*axes):
    plain = torch.meshgrid(*axes, indexing="ij")
    exchanged = torch.meshgrid(*axes, indexing="xy")
    return plain[0] * plain[1] + plain[2] * (exchanged[0] * exchanged[1]).transpose(0, 1)


def free_shapes(x):
    flat = x.reshape(3, -1).unsqueeze(1).squeeze()
    return flat.view(5, 3) * x.squeeze(1).broadcast_to(2, 5, 3) * x.squeeze()


def bincount(x):
    """PyTorch has no gradient of bincount, and it refuses negative ids and counts all others."""
    given = torch.tensor([1, 4, 1, 0, 9, 4, -1])
    counted = (given >= 0) & (given < 5)
    weights = x.square()[counted]
    sums = torch.zeros(5).index_add(0, given[counted], weights)
    return torch.bincount(given[counted], weights.detach(), 5) + (sums - sums.detach())


def add_rearranging():
    case("repeat", [(5, 3)], lambda x: x.repeat(2, 1, 3) * x.tile(3))
    case("repeat_interleave", [(5, 3)], lambda x: x.repeat_interleave(2, 0) * x.repeat(2, 1))
    case("repeat_interleave_all", [(5, 3)], lambda x: x.repeat_interleave(3))
    case("repeat_interleave_counts", [(4, 3)], lambda x: bounded(x.repeat_interleave(torch.tensor([2, 0, 3, 1]), 0), 7, 5))
    case("unbind", [(5, 3)], unbind)
    case("meshgrid", [(5,), (3,), (2,)], meshgrid)
    case("diagonal", [(5, 7), (7, 2, 5)],
         lambda x, y: x.diagonal() * x.diagonal(2) + y.diagonal(1, 2, 0) + y.diagonal(0, 0, -1))
    case("diag", [(5,), (5, 7)], lambda x, y: x.diag(-2) + y.diag(1).diag().sum() + x.diag(2))
    case("diag_embed", [(2, 5)], lambda x: x.diag_embed(1) + 2 * x.diag_embed(-1, 2, 0).permute(1, 2, 0))
    case("trace", [(5, 7)], lambda x: x.trace() * x.t().trace())
    case("movedim", [(5, 3, 2)], lambda x: x.movedim(0, -1) * x.movedim((2, 1), (1, 0)) + x.swapaxes(0, 1).swapaxes(1, 2))
    case("unfold", [(5, 7)],
         lambda x: x.unfold(1, 3, 2).sum(0) + x.t().unfold(0, 2, 2).select(1, 4).sum() * x.unfold(1, 3, 2)[3])
    case("free_shapes", [(5, 1, 3)], free_shapes)
    case("padded", [(5, 3)], lambda x: F.pad(x, (2, -1), value=4).flip(0))
    case("bincount", [(7,)], bincount)


# ---- products -------------------------------------------------------------------------------------------------------

MATMULS = {
    "vectors": [(5,), (5,)],
    "vector_matrix": [(5,), (5, 3)],
    "matrix_vector": [(5, 3), (3,)],
    "batch_vector": [(2, 5, 3), (3,)],
    "vector_batch": [(5,), (2, 5, 3)],
    "matrix_batch": [(5, 3), (2, 3, 4)],
    "batches_of_one": [(2, 1, 5, 3), (7, 3, 4)],
    "all_batches_of_one": [(1, 5, 3), (1, 3, 4)],
    "equal_batches": [(2, 3, 5, 3), (2, 3, 3, 2)],
}
EQUATIONS = {
    "matmul": ("ij,jk->ik", (5, 3), (3, 4)),
    "matmul_swapped": ("ij,jk->ki", (5, 3), (3, 4)),
    "implicit": ("ba,cb", (5, 3), (4, 5)),
    "transpose": ("ijk->kij", (5, 3, 2)),
    "sum": ("ijk->j", (5, 3, 2)),
    "trace": ("ii->", (5, 5)),
    "diagonal": ("iji->ij", (5, 3, 5)),
    "diagonal_of_product": ("iij,jk->ik", (5, 5, 3), (3, 2)),
    "attention": ("bthd,bshd->bhts", (2, 5, 3, 4), (2, 7, 3, 4)),
    "attention_values": ("bhts,bshd->bthd", (2, 3, 5, 7), (2, 7, 3, 4)),
    "outer": ("i,j->ij", (5,), (3,)),
    "inner": ("i,i", (5,), (5,)),
    "rows": ("ij,ij->i", (5, 3), (5, 3)),
    "elementwise": ("ij,ji->ij", (5, 3), (3, 5)),
    "ellipsis": ("...ij,...jk->...ik", (2, 5, 3), (3, 4)),
    "ellipsis_broadcast": ("...i,j...->...ij", (2, 1, 3), (4, 5)),
    "size_one": ("ij,jk->ik", (5, 1), (3, 4)),
    "summed_before": ("ijl,jk->k", (5, 3, 2), (3, 4)),
    "three": ("ij,jk,kl->il", (5, 3), (3, 2), (2, 4)),
    "bilinear": ("bi,oij,bj->bo", (5, 3), (2, 3, 4), (5, 4)),
    "shared_by_three": ("ai,bi,ci->abc", (2, 3), (4, 3), (5, 3)),
}


def add_products():
    for name, shapes in MATMULS.items():
        case("matmul_" + name, shapes, torch.matmul)
    for name, (equation, *shapes) in EQUATIONS.items():
        case("einsum_" + name, shapes, lambda *x, text=equation: torch.einsum(text, *x))
    case("outer", [(5,), (3,)], lambda x, y: x.outer(y) * y.outer(x).t())
    case("bmm", [(2, 5, 3), (2, 3, 4)], torch.bmm)
    case("addmm", [(4,), (5, 3), (3, 4)], lambda x, y, z: x.addmm(y, z, beta=0.5, alpha=-2) * x.addmm(y, z))
    case("baddbmm", [(2, 1, 4), (2, 5, 3), (2, 3, 4)], lambda x, y, z: x.baddbmm(y, z, alpha=3) + x.baddbmm(y, z, beta=0))


# ---- positions, subscripts and writes -------------------------------------------------------------------------------


def add_indexing():
    case("gather_rows", [(5, 3)], lambda x: x.gather(0, positions((4, 3), 5)))
    case("gather_fewer_rows", [(5, 7)], lambda x: x.gather(1, positions((3, 4), 7)))
    case("take_along_dim", [(5, 7)], lambda x: x.take_along_dim(positions((1, 4), 7), 1))
    case("index_select", [(5, 7, 2)], lambda x: x.index_select(1, positions((9,), 7)))
    case("scatter_number", [(5, 7)], lambda x: x.scatter(1, positions((5, 3), 7), 2.5))
    case("scatter_add", [(5, 7), (5, 4)], lambda x, y: x.scatter_add(1, positions((5, 4), 7), y) ** 2)
    case("scatter_add_fewer", [(5, 7), (9, 2)], lambda x, y: x.scatter_add(0, positions((9, 2), 5), y))
    case("one_hot", [(5, 7)], lambda x: F.one_hot(positions((3,), 5), 5).double() @ x)
    case("cosine_similarity", [(5, 7), (7,)], lambda x, y: F.cosine_similarity(x, y.expand(5, 7)))
    case("masked_select", [(5, 7)], lambda x: bounded(x.square().masked_select(x > 0), 11, 4))
    case("masked_select_all", [(5, 3)], lambda x: bounded(x.masked_select(x < 0.5), 20))
    case("nonzero", [(5, 7)], lambda x: bounded((x > 0.2).nonzero(), 19, -1).double())
    case("take", [(5, 7)], lambda x: x.take(ids((2, 9), 35, 35)))
    case("narrow", [(5, 7)], lambda x: x.narrow(1, ids((), 4), 3) * x.narrow(1, -3, 3))


def add_subscripts():
    case("subscript_ids", [(5, 3)], lambda x: x[ids((2, 4), 5)])
    case("subscript_ids_from_end", [(5, 7)], lambda x: x[:, ids((4,), 7, 7)].square())
    case("subscript_pairs", [(5, 7, 2)], lambda x: x[ids((2, 1), 5), ids((3,), 7)])
    case("subscript_apart", [(5, 2, 7)], lambda x: x[ids((3,), 5), :, ids((2, 3), 7, 7)])
    case("subscript_in_range", [(5, 7, 2)], lambda x: x.flip(0)[::2, ids((4,), 7), 1])
    case("subscript_scalar", [(5, 7)], lambda x: x[1:4, ids((), 7)] * x[ids((), 5)][0])
    case("subscript_of_each_row", [(5, 7)], lambda x: x[torch.arange(5)[:, None], ids((5, 3), 7)])


def written(x, subscript, values):
    out = x.clone()
    out[subscript] = values
    return out


def reduced_rows(x, rows, values, reduction):
    """As x.at(rows) of Tessera. scatter_reduce has a subscript for each element."""
    return x.scatter_reduce(0, rows[:, None].expand_as(values), values, reduction)


def add_subscript_writes():
    case("at_set_apart", [(5, 2, 7), (2,)], lambda x, v: written(x, (ids((4,), 5), slice(None), ids((4,), 7)), v))
    case("at_set_range", [(5, 7), (3, 2)], lambda x, v: written(x, (slice(1, 4), slice(2, 4)), v))
    # PyTorch has no negative steps.
    case("at_set_steps", [(5, 7), (3, 3)], lambda x, v: written(x, (slice(None, None, 2), [6, 3, 0]), v))
    case("at_add", [(5, 3), (7, 1)], lambda x, v: x.index_put((ids((7,), 5, 5),), v, accumulate=True).square())
    case("at_add_range", [(5, 7), (7,)], lambda x, v: written(x, slice(1, 4), x[1:4] + v).square())
    case("at_multiply", [(5, 3), (7, 3)], lambda x, v: reduced_rows(x, ids((7,), 5), v, "prod"))
    case("at_multiply_zeros", [(5, 3), (9, 3)], lambda x, v: reduced_rows(x, ids((9,), 5), v, "prod"),
         lambda x: 0.0 if abs(x) < 0.4 else x)
    case("at_max", [(5, 3), (7, 3)], lambda x, v: reduced_rows(x, ids((7,), 5), v, "amax"))
    case("at_min", [(5, 7), (5, 4)], lambda x, v: reduced_rows(x.t(), ids((4,), 7), v.t(), "amin").t())
    case("index_put", [(5, 7), (4,)], lambda x, v: x.index_put((ids((4,), 5), ids((4,), 7)), v, accumulate=True).square())


def add_writes_along_a_dim():
    case("index_add", [(5, 7), (5, 4)], lambda x, v: x.index_add(1, ids((4,), 7), v).square())
    # PyTorch's gradient of index_fill does not accept the negative ids that its result accepts.
    case("index_fill", [(5, 7), ()], lambda x, v: x.index_fill(1, ids((3,), 7, 7) % 7, v))
    case("masked_scatter", [(5, 7), (5, 8)], lambda x, v: x.masked_scatter(x > 0.1, v))
    # PyTorch's gradient of scatter_reduce does not accept a source that is larger than the ids.
    for reduction in ("sum", "prod", "mean", "amax", "amin"):
        for suffix, include_self in (("", True), ("_without_self", False)):
            case(f"scatter_{reduction}{suffix}", [(5, 7), (4, 7)],
                 lambda x, v, r=reduction, s=include_self: x.scatter_reduce(0, ids((4, 6), 5), v[:, :6], r, include_self=s))


def cases():
    for add in (add_pointwise, add_mathematics, add_reductions, add_statistics, add_order, add_shaping, add_rearranging,
                add_products, add_indexing, add_subscripts, add_subscript_writes, add_writes_along_a_dim):
        add()
    return CASES
