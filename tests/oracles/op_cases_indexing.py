# SPDX-License-Identifier: Apache-2.0
"""Modules for compare_ops_with_xla.py: indices out of range, gather and scatter, sorting, random bits, control flow."""
import itertools

import numpy as np

from op_cases import FLOATS, INTEGERS, SIGNED, NUMPY, array, case, floats, integers, odd_values, reducer

INF, NAN = np.inf, np.nan


def dynamic_cases():
    for dtype in INTEGERS:
        info = np.iinfo(NUMPY[dtype])
        for k, start in enumerate((0, 2, 3, 100, int(info.max), -1 if info.min else int(info.max) - 1, int(info.min))):
            yield case(f"dynamic-slice.{dtype}.{k}", [integers(0, 99, 5, 4), array(dtype, start), array(dtype, 1), integers(0, 99, 2, 2, seed=1)],
                       ["s32[2,3] dynamic-slice(p0, p1, p2), dynamic_slice_sizes={2,3}", "s32[5,4] dynamic-update-slice(p0, p3, p1, p2)"])
    yield case("dynamic-slice.empty", [integers(0, 99, 5, 4), array("s32", 9)], ["s32[0,4] dynamic-slice(p0, p1, p1), dynamic_slice_sizes={0,4}"])


def gather_cases():
    x = integers(0, 99, 5, 4)
    for dtype in ("s32", "s64", "u32", "s8", "u8", "u64"):
        at = array(dtype, [0, 4, 3, 100, int(np.iinfo(NUMPY[dtype]).max), -1 if dtype[0] == "s" else 2, int(np.iinfo(NUMPY[dtype]).min)])
        yield case(f"gather.{dtype}", [x, at], [
            "s32[7,4] gather(p0, p1), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}",
            "s32[7,2,3] gather(p0, p1), offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={1}, index_vector_dim=1, slice_sizes={2,3}"])
        u = integers(0, 99, 7, 4, seed=1)
        w = integers(0, 99, 7, 2, 3, seed=1)
        yield case(f"scatter.{dtype}", [x, at, u, w], [
            "s32[5,4] scatter(p0, p1, p2), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
            "s32[5,4] scatter(p0, p1, p3), update_window_dims={1,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={1}, index_vector_dim=1, to_apply=add",
            "s32[5,4] scatter(p0, p1, p2), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=second"],
            more=reducer("add", "s32", "add") + "second { a = s32[] parameter(0) ROOT b = s32[] parameter(1) }\n")
    pairs = integers(-1, 6, 3, 2)
    yield case("gather.vectors", [x, pairs], [
        "s32[3] gather(p0, p1), offset_dims={}, collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, slice_sizes={1,1}",
        "s32[2,2] gather(p0, p1), offset_dims={0}, collapsed_slice_dims={1}, start_index_map={1,0,2}, index_vector_dim=0, slice_sizes={2,1}".replace("{1,0,2}", "{1,0}")][:1] + [
        "t: s32[2,3] transpose(p1), dimensions={1,0}",
        "s32[2,3] gather(p0, t), offset_dims={0}, collapsed_slice_dims={1}, start_index_map={1,0}, index_vector_dim=0, slice_sizes={2,1}"])
    batch = [integers(0, 99, 3, 5, 4), integers(-2, 7, 3, 2, 1, seed=1)]
    yield case("gather.batching", batch, [
        "s32[3,2,4] gather(p0, p1), offset_dims={2}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1,4}"])
    yield case("scatter.batching", batch + [integers(0, 9, 3, 2, 4)], [
        "s32[3,5,4] scatter(p0, p1, p2), update_window_dims={2}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, input_batching_dims={0}, "
        "scatter_indices_batching_dims={0}, index_vector_dim=2, to_apply=add"], more=reducer("add", "s32", "add"))
    for op in ("maximum", "minimum", "multiply"):
        yield case(f"scatter.{op}", [floats(5), array("s32", [[1], [1], [4], [5], [-1]]), array("f32", [NAN, 3, -2, 9, 9])], [
            "f32[5] scatter(p0, p1, p2), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
            "indices_are_sorted=false, unique_indices=false, to_apply=op"], more=reducer("op", "f32", op), share=1e-6)
    yield case("scatter.partly-out", [integers(0, 9, 5, 4), array("s32", [[3, 2], [0, 0], [4, 3], [-1, 0]]), integers(10, 99, 4, 2, 2, seed=3)], [
        "s32[5,4] scatter(p0, p1, p2), update_window_dims={1,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=add"],
        more=reducer("add", "s32", "add"))
    two = """two { a = f32[] parameter(0) b = s32[] parameter(1) c = f32[] parameter(2) d = s32[] parameter(3)
  x = f32[] add(a, c) y = s32[] maximum(b, d) ROOT t = (f32[], s32[]) tuple(x, y) }
"""
    yield case("scatter.variadic", [floats(5), integers(0, 9, 5), integers(-1, 6, 4, 1), floats(4), integers(0, 9, 4, seed=1)], [
        "t: (f32[5], s32[5]) scatter(p0, p1, p2, p3, p4), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=two",
        "f32[5] get-tuple-element(t), index=0", "s32[5] get-tuple-element(t), index=1"], more=two, share=1e-6)
    yield case("gather.empty", [x, array("s32", np.zeros((0, 1)))], [
        "s32[0,4] gather(p0, p1), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}"])


def comparator(name, dtype, direction, more="", other=""):
    second = f" c = {other}[] parameter(2) d = {other}[] parameter(3)" if other else ""
    return f"{name} {{ a = {dtype}[] parameter(0) b = {dtype}[] parameter(1){second} ROOT r = pred[] compare(a, b), direction={direction}{more} }}\n"


def sort_cases():
    for dtype in FLOATS + INTEGERS:
        x = odd_values(dtype)
        values = (dtype, np.concatenate([x[::-1], x]))
        n = len(values[1])
        kinds = [("up", "LT", ""), ("down", "GT", "")]
        if dtype in FLOATS:
            values = (dtype, values[1][~np.isnan(values[1].astype(np.float64))])
            n = len(values[1])
            with_nan = (dtype, np.concatenate([x[::-1], x]))
            for name, direction in (("up", "LT"), ("down", "GT")):
                yield case(f"sort.total.{name}.{dtype}", [with_nan], [
                    f"i: s32[{2 * len(x)}] iota(), iota_dimension=0",
                    f"t: ({dtype}[{2 * len(x)}], s32[{2 * len(x)}]) sort(p0, i), dimensions={{0}}, is_stable=true, to_apply=less",
                    f"{dtype}[{2 * len(x)}] get-tuple-element(t), index=0", f"s32[{2 * len(x)}] get-tuple-element(t), index=1"],
                    more=comparator("less", dtype, direction, ", type=TOTALORDER", other="s32"))
        for name, direction, more in kinds:
            yield case(f"sort.{name}.{dtype}", [values], [
                f"i: s32[{n}] iota(), iota_dimension=0", f"t: ({dtype}[{n}], s32[{n}]) sort(p0, i), dimensions={{0}}, is_stable=true, to_apply=less",
                f"{dtype}[{n}] get-tuple-element(t), index=0", f"s32[{n}] get-tuple-element(t), index=1"],
                more=comparator("less", dtype, direction, more, other="s32"))
    yield case("sort.dims", [integers(0, 5, 4, 3, 2)], ["s32[4,3,2] sort(p0), dimensions={1}, is_stable=true, to_apply=less",
                                                      "s32[4,3,2] sort(p0), dimensions={0}, to_apply=less"], more=comparator("less", "s32", "LT"))
    yield case("sort.empty", [integers(0, 5, 0, 3)], ["s32[0,3] sort(p0), dimensions={0}, to_apply=less"], more=comparator("less", "s32", "LT"))
    for dtype, values in (("f32", [1, 3, 3, -0.0, 0.0, NAN, INF, -INF, 2]), ("s32", [5, 1, 5, 9, -9, 9]), ("bf16", [1, 2, 2, -1, NAN]), ("u32", [3, 2**32 - 1, 3])):
        for largest in ("true", "false"):
            yield case(f"topk.{dtype}.{largest}", [array(dtype, [values, values[::-1]])], [
                f"t: ({dtype}[2,3], s32[2,3]) topk(p0), k=3, largest={largest}", f"{dtype}[2,3] get-tuple-element(t), index=0", "s32[2,3] get-tuple-element(t), index=1"])
        if dtype == "f32":
            yield case(f"topk.custom-call.{dtype}", [array(dtype, [values, values[::-1]])], [
                f't: ({dtype}[2,3], s32[2,3]) custom-call(p0), custom_call_target="TopK", called_computations={{more}}, backend_config="{{\\"largest\\" = true}}"'.replace(', called_computations={more}', ''),
                f"{dtype}[2,3] get-tuple-element(t), index=0", "s32[2,3] get-tuple-element(t), index=1"])


def random_cases():
    for algorithm, words in (("rng_three_fry", 2), ("rng_philox", 3), ("rng_philox", 2), ("rng_default", 2)):
        for dtype in ("u32", "u64", "u8", "u16"):
            for dims in ("7", "4,5", "2,3,5", "0", "1"):
                yield case(f"rng-bit-generator.{algorithm}.{words}.{dtype}.{dims}", [integers(0, 2**63 - 1, words, dtype="u64")], [
                    f"t: (u64[{words}], {dtype}[{dims}]) rng-bit-generator(p0), algorithm={algorithm}", f"u64[{words}] get-tuple-element(t), index=0",
                    f"b: {dtype}[{dims}] get-tuple-element(t), index=1"] + [f"{dtype}[{dims}] or(b, b)"])
    yield case("rng-bit-generator.wraps", [array("u64", [7, 2**64 - 1])], [
        "t: (u64[2], u32[11]) rng-bit-generator(p0), algorithm=rng_three_fry", "u64[2] get-tuple-element(t), index=0", "u32[11] get-tuple-element(t), index=1"])
    yield case("rng-bit-generator.wraps-philox", [array("u64", [7, 2**64 - 1, 2**64 - 2])], [
        "t: (u64[3], u32[23]) rng-bit-generator(p0), algorithm=rng_philox", "u64[3] get-tuple-element(t), index=0", "u32[23] get-tuple-element(t), index=1"])


def control_cases():
    loop = """go { s = (s32[], f32[3]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(5) ROOT c = pred[] compare(i, n), direction=LT }
step { s = (s32[], f32[3]) parameter(0) i = s32[] get-tuple-element(s), index=0 x = f32[3] get-tuple-element(s), index=1
  one = s32[] constant(1) j = s32[] add(i, one) y = f32[3] add(x, x) ROOT t = (s32[], f32[3]) tuple(j, y) }
"""
    for start in (0, 4, 5, 9):
        yield case(f"while.{start}", [array("s32", start), floats(3)], [
            "t: (s32[], f32[3]) tuple(p0, p1)", "w: (s32[], f32[3]) while(t), condition=go, body=step", "s32[] get-tuple-element(w), index=0", "f32[3] get-tuple-element(w), index=1"], more=loop)
    branches = "".join(f"branch_{k} {{ x = f32[3] parameter(0) ROOT y = f32[3] {op}(x) }}\n" for k, op in enumerate(("negate", "abs", "floor")))
    for index in (0, 1, 2, 3, -1, 100, -2**31):
        yield case(f"conditional.{index}", [array("s32", index), floats(3)], [
            "f32[3] conditional(p0, p1, p1, p1), branch_computations={branch_0, branch_1, branch_2}"], more=branches)
    for flag in (True, False):
        yield case(f"conditional.{flag}", [array("pred", flag), floats(3)], ["f32[3] conditional(p0, p1, p1), true_computation=branch_0, false_computation=branch_1"], more=branches)
    yield case("call", [floats(3)], ["f32[3] call(p0), to_apply=branch_0", "f32[3] fusion(p0), kind=kLoop, calls=branch_2"], more=branches)


def all_cases():
    return itertools.chain(dynamic_cases(), gather_cases(), sort_cases(), random_cases(), control_cases())
