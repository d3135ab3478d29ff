# SPDX-License-Identifier: Apache-2.0
"""Modules for compare_ops_with_xla.py: data movement, reductions, windows, contractions, linear algebra."""
import itertools

import numpy as np

from op_cases import FLOATS, INTEGERS, ROUNDING, SIGNED, array, case, floats, integers, odd_values, reducer, shape

NAN, INF = np.nan, np.inf


def moved_cases():
    for dtype in INTEGERS + FLOATS:
        yield case(f"iota.{dtype}", [array(dtype, 0)], [f"{dtype}[9] iota(), iota_dimension=0", f"{dtype}[2,3] iota(), iota_dimension=1",
                                                        f"{dtype}[3,0] iota(), iota_dimension=0", f"{dtype}[] add(p0, p0)"])
    yield case("iota.long", [array("s8", 0)], ["s8[300] iota(), iota_dimension=0", "u8[300] iota(), iota_dimension=0",
                                               "bf16[300] iota(), iota_dimension=0", "f16[2100] iota(), iota_dimension=0"])
    yield case("iota.complex", [array("f32", 0)], ["i: c64[5] iota(), iota_dimension=0", "f32[5] real(i)", "f32[5] imag(i)"])
    x = floats(2, 3, 4)
    yield case("broadcast", [floats(3), array("f32", 2.5), x],
               ["f32[2,3,4] broadcast(p0), dimensions={1}", "f32[2,2] broadcast(p1), dimensions={}", "f32[2,2] broadcast(p1)",
                "f32[0,3] broadcast(p0), dimensions={1}", "f32[2,3,5,4] broadcast(p2), dimensions={0,1,3}",
                "f32[2,3,4] add(x, p2)".replace("x", "p2")])
    yield case("reshape", [x, floats(0, 3)], ["f32[4,6] reshape(p0)", "f32[1,24,1] reshape(p0)", "f32[3,0,2] reshape(p1)",
                                              "f32[2,3,4] copy(p0)"])
    yield case("transpose", [x], ["f32[4,2,3] transpose(p0), dimensions={2,0,1}", "f32[2,3,4] transpose(p0), dimensions={0,1,2}",
                                  "f32[3,4,2] transpose(p0), dimensions={1,2,0}"])
    yield case("slice", [x], ["f32[1,2,2] slice(p0), slice={[1:2], [0:3:2], [1:4:2]}", "f32[2,0,4] slice(p0), slice={[0:2], [2:2], [0:4]}",
                              "f32[2,1,4] slice(p0), slice={[0:2], [0:3:5], [0:4:1]}"])
    for pads, dims in (("1_2_0x0_0_0", (6, 3)), ("-1_2_0x1_-1_0", (4, 3)), ("0_0_2x0_0_1", (7, 5)), ("2_-1_1x-1_-1_3", (6, 7)),
                       ("-2_-1x0_0", (0, 3)), ("0_3_0x1_1", (6, 5)), ("-1_-1_1x-2_4_2", (3, 9))):
        yield case(f"pad.{pads}", [floats(3, 3), array("f32", -7)], [f"f32[{dims[0]},{dims[1]}] pad(p0, p1), padding={pads}"])
    yield case("pad.empty", [floats(0, 2), array("f32", 1)], ["f32[3,2] pad(p0, p1), padding=1_2x0_0", "f32[0,4] pad(p0, p1), padding=0_0_3x1_1"])
    yield case("concatenate", [floats(2, 3), floats(0, 3), floats(4, 3, seed=2)],
               ["f32[6,3] concatenate(p0, p1, p2), dimensions={0}", "f32[2,6] concatenate(p0, p0), dimensions={1}",
                "f32[2,3] concatenate(p0), dimensions={0}"])
    yield case("reverse", [x, floats(0, 3)], ["f32[2,3,4] reverse(p0), dimensions={0,2}", "f32[2,3,4] reverse(p0), dimensions={}",
                                              "f32[0,3] reverse(p1), dimensions={0,1}"])
    yield case("tuple", [x, array("s32", 3)], ["t: (f32[2,3,4], (s32[], f32[2,3,4])) tuple(p0, u)".replace("u", "v")][:0] +
               ["u: (s32[], f32[2,3,4]) tuple(p1, p0)", "t: (f32[2,3,4], (s32[], f32[2,3,4])) tuple(p0, u)",
                "g: (s32[], f32[2,3,4]) get-tuple-element(t), index=1", "b: (s32[], f32[2,3,4]) opt-barrier(g)",
                "s32[] get-tuple-element(b), index=0", "f32[2,3,4] get-tuple-element(b), index=1"])
    yield case("get-dimension-size", [x], ["s32[] get-dimension-size(p0), dimensions={1}"])


def reduce_cases():
    x = np.array([[1, NAN, 3, -0.0], [INF, -INF, 2, 0.0], [-1, -2, -3, -4]])
    for dtype in FLOATS:
        more = "".join(reducer(op, dtype, op) for op in ("add", "multiply", "maximum", "minimum"))
        start = {"add": 0.0, "multiply": 1.0, "maximum": -INF, "minimum": INF}
        for op, init in start.items():
            yield case(f"reduce.{op}.{dtype}", [array(dtype, x), array(dtype, init)],
                       [f"{dtype}[3] reduce(p0, p1), dimensions={{1}}, to_apply={op}", f"{dtype}[4] reduce(p0, p1), dimensions={{0}}, to_apply={op}",
                        f"{dtype}[] reduce(p0, p1), dimensions={{0,1}}, to_apply={op}", f"{dtype}[3,4] reduce(p0, p1), dimensions={{}}, to_apply={op}"],
                       more=more, share=ROUNDING[dtype] if op == "add" else 0)
        yield case(f"reduce.many.{dtype}", [floats(7, 333, dtype=dtype), array(dtype, 0)],
                   [f"{dtype}[7] reduce(p0, p1), dimensions={{1}}, to_apply=add"], more=more, share=ROUNDING[dtype] * 8)
    for dtype in INTEGERS + ("pred",):
        v = odd_values(dtype)
        ops = ("and", "or", "xor") + (("add", "multiply", "maximum", "minimum") if dtype != "pred" else ())
        more = "".join(reducer(op, dtype, op) for op in ops)
        yield case(f"reduce.{dtype}", [(dtype, v), array(dtype, 1)],
                   [f"{dtype}[] reduce(p0, p1), dimensions={{0}}, to_apply={op}" for op in ops], more=more)
    yield case("reduce.empty", [floats(3, 0), array("f32", 2.5)], ["f32[3] reduce(p0, p1), dimensions={1}, to_apply=add", "f32[0] reduce(p0, p1), dimensions={0}, to_apply=add"],
               more=reducer("add", "f32", "add"))
    arg = """best { v = f32[] parameter(0) i = s32[] parameter(1) w = f32[] parameter(2) j = s32[] parameter(3)
  g = pred[] compare(v, w), direction=GT n = pred[] compare(v, v), direction=NE q = pred[] or(g, n) e = pred[] compare(v, w), direction=EQ
  l = pred[] compare(i, j), direction=LT b = pred[] and(e, l) k = pred[] or(q, b) x = f32[] select(q, v, w) y = s32[] select(k, i, j)
  ROOT t = (f32[], s32[]) tuple(x, y) }
"""
    yield case("reduce.argmax", [array("f32", [[1, 3, 3, 2], [NAN, 1, NAN, 0], [-1, -1, -INF, -1]]), array("f32", -INF), array("s32", 0)],
               ["i: s32[3,4] iota(), iota_dimension=1", "t: (f32[3], s32[3]) reduce(p0, i, p1, p2), dimensions={1}, to_apply=best",
                "f32[3] get-tuple-element(t), index=0", "s32[3] get-tuple-element(t), index=1"], more=arg)
    odd = "odd { a = f32[] parameter(0) b = f32[] parameter(1) m = f32[] multiply(a, b) ROOT c = f32[] maximum(m, b) }\n"
    yield case("map", [floats(3, 4), floats(3, 4, seed=1)], ["f32[3,4] map(p0, p1), dimensions={0,1}, to_apply=odd"], more=odd)


def window_cases():
    add, mx = reducer("add", "f32", "add"), reducer("max", "f32", "maximum")
    x = floats(5, 7)
    for window in ("size=2x3", "size=2x3 stride=2x1", "size=3x3 pad=1_1x0_2", "size=2x2 lhs_dilate=2x3", "size=2x3 rhs_dilate=3x2",
                   "size=3x2 stride=2x3 pad=2_1x-1_3 lhs_dilate=2x1 rhs_dilate=1x2", "size=1x1 stride=3x3", "size=2x2 pad=-1_-2x-3_0",
                   "size=6x1", "size=7x1"):
        dims = window_dims(window, (5, 7))
        yield case(f"reduce-window.{window}", [x, array("f32", 0), array("f32", -INF)],
                   [f"f32[{dims}] reduce-window(p0, p1), window={{{window}}}, to_apply=add", f"f32[{dims}] reduce-window(p0, p2), window={{{window}}}, to_apply=max"],
                   more=add + mx, share=2e-6)
    yield case("reduce-window.init", [x, array("f32", 0.5)], ["f32[5,7] reduce-window(p0, p1), window={size=2x2 pad=0_1x1_0}, to_apply=add"],
               more=add, share=2e-6)
    yield case("reduce-window.integers", [integers(-100, 100, 5, 7, dtype="s8"), array("s8", 0)],
               ["s8[5,6] reduce-window(p0, p1), window={size=1x2}, to_apply=add"], more=reducer("add", "s8", "add"))
    yield case("reduce-window.cumsum", [floats(9), array("f32", 0)], ["f32[9] reduce-window(p0, p1), window={size=9 pad=8_0}, to_apply=add"],
               more=add, share=2e-6)
    both = """both { a = f32[] parameter(0) b = s32[] parameter(1) c = f32[] parameter(2) d = s32[] parameter(3)
  g = pred[] compare(a, c), direction=GE x = f32[] select(g, a, c) y = s32[] select(g, b, d) ROOT t = (f32[], s32[]) tuple(x, y) }
"""
    yield case("reduce-window.variadic", [floats(6), array("f32", -INF), array("s32", -1)],
               ["i: s32[6] iota(), iota_dimension=0", "t: (f32[5], s32[5]) reduce-window(p0, i, p1, p2), window={size=3 stride=1 pad=1_0}, to_apply=both",
                "f32[5] get-tuple-element(t), index=0", "s32[5] get-tuple-element(t), index=1"], more=both)
    for compare, values in (("GE", [[1, 1, 2, 2], [1, 1, 0, 2], [3, NAN, 3, 3]]), ("GT", [[1, 1, 2, 2], [1, 1, 0, 2], [3, 1, 3, 3]]),
                            ("LE", [[1, 1, 2, 2], [1, 1, 0, 2], [-INF, 1, 3, INF]])):
        select = f"pick {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction={compare} }}\n"
        for window in ("size=2x2 stride=1x2", "size=2x2 stride=2x2 pad=0_1x0_0", "size=3x1 stride=1x1 pad=1_1x0_0", "size=1x3 stride=1x1"):
            dims = window_dims(window, (3, 4))
            source = floats(*map(int, dims.split(",")))
            yield case(f"select-and-scatter.{compare}.{window}", [array("f32", values), source, array("f32", 0)],
                       [f"f32[3,4] select-and-scatter(p0, p1, p2), window={{{window}}}, select=pick, scatter=add"], more=select + add, share=2e-6)


def window_dims(window, sizes, kernel=None):
    fields = dict(part.split("=") for part in window.split())
    extent = [int(v) for v in fields["size"].split("x")] if "size" in fields else kernel
    one = ["1"] * len(sizes)
    stride, base, window_ = ([int(v) for v in (fields[k].split("x") if k in fields else one)] for k in ("stride", "lhs_dilate", "rhs_dilate"))
    pads = [tuple(map(int, p.split("_"))) for p in fields["pad"].split("x")] if "pad" in fields else [(0, 0)] * len(sizes)
    out = []
    for n, e, s, b, w, (low, high) in zip(sizes, extent, stride, base, window_, pads):
        full, reach = (n - 1) * b + 1 + low + high, (e - 1) * w + 1
        out.append(max(0, (full - reach) // s + 1))
    return ",".join(map(str, out))


def convolution_cases():
    x, w = floats(2, 6, 7, 4), floats(3, 2, 4, 6, seed=1)
    for window in ("size=3x2", "size=3x2 stride=2x3", "size=3x2 pad=1_1x0_1", "size=3x2 pad=-1_2x3_-2", "size=3x2 lhs_dilate=2x3",
                   "size=3x2 rhs_dilate=2x3", "size=3x2 rhs_reversal=1x0", "size=3x2 stride=2x1 pad=2_3x1_0 lhs_dilate=3x2 rhs_dilate=1x2 rhs_reversal=1x1"):
        dims = window_dims(window, (6, 7))
        yield case(f"convolution.{window}", [x, w], [f"f32[2,{dims},6] convolution(p0, p1), window={{{window}}}, dim_labels=b01f_01io->b01f"], share=3e-5)
    yield case("convolution.labels", [floats(4, 2, 6, 7), floats(6, 4, 3, 2, seed=1)],
               ["f32[5,2,4,6]".replace("5,2,4,6", "4,2,6,6") + " convolution(p0, p1), window={size=3x2}, dim_labels=fb01_oi01->0b1f".replace("0b1f", "0bf1")], share=3e-5)
    yield case("convolution.groups", [x, floats(3, 2, 2, 6, seed=1), floats(3, 2, 1, 8, seed=2)],
               ["f32[2,4,6,6] convolution(p0, p1), window={size=3x2}, dim_labels=b01f_01io->b01f, feature_group_count=2",
                "f32[2,4,6,8] convolution(p0, p2), window={size=3x2}, dim_labels=b01f_01io->b01f, feature_group_count=4"], share=3e-5)
    yield case("convolution.batch-groups", [floats(4, 6, 7, 3), floats(3, 2, 3, 6, seed=1)],
               ["f32[2,4,6,6] convolution(p0, p1), window={size=3x2}, dim_labels=b01f_01io->b01f, batch_group_count=2"], share=3e-5)
    yield case("convolution.no-space", [floats(5, 4), floats(4, 3, seed=1)], ["f32[5,3] convolution(p0, p1), dim_labels=bf_io->bf"], share=3e-5)
    yield case("convolution.one-dim", [floats(2, 9, 3), floats(4, 3, 5, seed=1)],
               ["f32[2,6,5] convolution(p0, p1), window={size=4}, dim_labels=b0f_0io->b0f, operand_precision={highest,highest}"], share=3e-5)
    yield case("convolution.three-dims", [floats(1, 3, 4, 5, 2), floats(2, 2, 2, 2, 3, seed=1)],
               ["f32[1,2,3,4,3] convolution(p0, p1), window={size=2x2x2}, dim_labels=b012f_012io->b012f"], share=3e-5)
    yield case("convolution.s32", [integers(-9, 9, 1, 5, 5, 2), integers(-9, 9, 2, 2, 2, 3, seed=1)],
               ["s32[1,4,4,3] convolution(p0, p1), window={size=2x2}, dim_labels=b01f_01io->b01f"])
    yield case("convolution.bf16", [floats(1, 5, 5, 2, dtype="bf16"), floats(2, 2, 2, 3, dtype="bf16", seed=1)],
               ["f32[1,4,4,3] convolution(p0, p1), window={size=2x2}, dim_labels=b01f_01io->b01f",
                "bf16[1,4,4,3] convolution(p0, p1), window={size=2x2}, dim_labels=b01f_01io->b01f"], share=1e-2)
    for name, dims in (("batch", (0, 5, 5, 2)), ("features", (1, 5, 5, 0))):
        yield case(f"convolution.empty.{name}", [floats(*dims), floats(2, 2, dims[3], 3)],
                   [f"f32[{dims[0]},4,4,3] convolution(p0, p1), window={{size=2x2}}, dim_labels=b01f_01io->b01f"])


def dot_cases():
    attributes = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    for dtype in FLOATS + INTEGERS:
        p = [floats(3, 5, dtype=dtype), floats(5, 4, dtype=dtype, seed=1)] if dtype in FLOATS else [
            integers(0, 100, 3, 5, dtype=dtype), integers(0, 100, 5, 4, dtype=dtype, seed=1)]
        lines = [f"{dtype}[3,4] dot(p0, p1), {attributes}"]
        if dtype in ("bf16", "f16"):
            lines.append(f"f32[3,4] dot(p0, p1), {attributes}")
        if dtype in ("s8", "u8", "s16"):
            lines.append(f"s32[3,4] dot(p0, p1), {attributes}")
        yield case(f"dot.{dtype}", p, lines, share=ROUNDING.get(dtype, 0) * 10)
    yield case("dot.pred", [array("pred", np.eye(3) > 0), array("pred", np.ones((3, 2)) > 0)], [f"pred[3,2] dot(p0, p1), {attributes}"])
    x, y = floats(2, 3, 4, 5), floats(4, 3, 6, 2, seed=1)
    yield case("dot.batch", [x, y], ["f32[2,3,5,6] dot(p0, p1), lhs_batch_dims={0,1}, rhs_batch_dims={3,1}, lhs_contracting_dims={2}, rhs_contracting_dims={0}",
                                     "f32[5,6,2] dot(q, p1), lhs_contracting_dims={1,2}, rhs_contracting_dims={1,0}".replace("q", "p0")][:1], share=3e-5)
    yield case("dot.vectors", [floats(5), floats(5, seed=1), floats(3, 5)],
               ["f32[] dot(p0, p1), lhs_contracting_dims={0}, rhs_contracting_dims={0}", "f32[3] dot(p2, p0), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
                "f32[5,5] dot(p0, p1), lhs_contracting_dims={}, rhs_contracting_dims={}"], share=3e-5)
    yield case("dot.two-contractions", [floats(2, 3, 4), floats(4, 3, 6, seed=1)],
               ["f32[2,6] dot(p0, p1), lhs_contracting_dims={1,2}, rhs_contracting_dims={1,0}"], share=3e-5)
    yield case("dot.empty", [floats(3, 0), floats(0, 4)], [f"f32[3,4] dot(p0, p1), {attributes}"])
    yield case("dot.infinite", [array("f32", [[INF, 1], [NAN, 0], [0, 0]]), array("f32", [[0, 1], [1, -INF]])], [f"f32[3,2] dot(p0, p1), {attributes}"])
    for more in ("operand_precision={high,highest}", "algorithm=dot_f32_f32_f32", "algorithm=dot_bf16_bf16_f32", "algorithm=dot_bf16_bf16_f32_x3",
                 "algorithm=dot_tf32_tf32_f32", "algorithm=dot_bf16_bf16_f32_x6"):
        yield case(f"dot.{more}", [floats(3, 5), floats(5, 4, seed=1)], [f"f32[3,4] dot(p0, p1), {attributes}, {more}"],
                   share=5e-2 if "x" not in more and "algorithm" in more else 3e-4)
    yield case("dot.mixed", [floats(3, 5, dtype="bf16"), floats(5, 4, seed=1)], [f"f32[3,4] dot(p0, p1), {attributes}"], share=3e-5)
    groups = array("s32", [2, 0, 4])
    yield case("ragged-dot.rows", [floats(7, 4), floats(3, 4, 5, seed=1), groups],
               ["f32[7,5] ragged-dot(p0, p1, p2), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}"], share=3e-5)
    yield case("ragged-dot.contracting", [floats(6, 4), floats(6, 5, seed=1), groups],
               ["f32[3,4,5] ragged-dot(p0, p1, p2), lhs_contracting_dims={0}, rhs_contracting_dims={0}, lhs_ragged_dims={0}, rhs_group_dims={}"], share=3e-5)
    yield case("ragged-dot.batch", [floats(6, 4, 3), floats(6, 4, 5, seed=1), groups],
               ["f32[6,3,5] ragged-dot(p0, p1, p2), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
                "lhs_ragged_dims={0}, rhs_group_dims={}"], share=3e-5)
    for dtype in ("f32", "bf16"):
        yield case(f"scaled-dot.{dtype}", [floats(3, 8, dtype=dtype), floats(4, 8, dtype=dtype, seed=1), floats(3, 2, dtype=dtype, seed=2), floats(4, 4, dtype=dtype, seed=3)],
                   [f"{dtype}[3,4] scaled-dot(p0, p1, p2, p3), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}}"], share=ROUNDING[dtype] * 20)


def algebra_cases():
    rng = np.random.default_rng(0)
    m = rng.normal(size=(2, 4, 4))
    spd = m @ m.transpose(0, 2, 1) + 4 * np.eye(4)
    for dtype in ("f32", "f64"):
        yield case(f"cholesky.{dtype}", [array(dtype, spd)], [f"l: {dtype}[2,4,4] cholesky(p0), lower=true", f"u: {dtype}[2,4,4] cholesky(p0), lower=false",
                                                               f"i: s32[4,4] iota(), iota_dimension=0", "j: s32[4,4] iota(), iota_dimension=1",
                                                               "k: pred[4,4] compare(i, j), direction=GE", "kk: pred[2,4,4] broadcast(k), dimensions={1,2}",
                                                               "g: pred[4,4] compare(i, j), direction=LE", "gg: pred[2,4,4] broadcast(g), dimensions={1,2}",
                                                               f"z: {dtype}[2,4,4] subtract(p0, p0)", f"{dtype}[2,4,4] select(kk, l, z)", f"{dtype}[2,4,4] select(gg, u, z)"], share=1e-4)
        for left, lower, unit, how in itertools.product(("true", "false"), ("true", "false"), ("true", "false"), ("NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")):
            a = array(dtype, m + 4 * np.eye(4))
            b = array(dtype, rng.normal(size=(2, 4, 3) if left == "true" else (2, 3, 4)))
            yield case(f"triangular-solve.{dtype}.{left}.{lower}.{unit}.{how}", [a, b],
                       [f"{shape(*b)} triangular-solve(p0, p1), left_side={left}, lower={lower}, unit_diagonal={unit}, transpose_a={how}"], share=2e-3)
    yield case("cholesky.indefinite", [array("f32", [[1, 2], [2, 1]])], ["f32[2,2] cholesky(p0), lower=true"])
    re, im = floats(3, 8), floats(3, 8, seed=1)
    for kind in ("FFT", "IFFT"):
        yield case(f"fft.{kind}", [re, im], ["z: c64[3,8] complex(p0, p1)", f"w: c64[3,8] fft(z), fft_type={kind}, fft_length={{8}}",
                                             f"v: c64[3,8] fft(z), fft_type={kind}, fft_length={{3,8}}", "f32[3,8] real(w)", "f32[3,8] imag(w)", "f32[3,8] real(v)", "f32[3,8] imag(v)"], share=1e-3)
    for n in (8, 7):
        half = n // 2 + 1
        yield case(f"fft.RFFT.{n}", [floats(3, n)], [f"w: c64[3,{half}] fft(p0), fft_type=RFFT, fft_length={{{n}}}", f"f32[3,{half}] real(w)", f"f32[3,{half}] imag(w)"], share=1e-3)
        yield case(f"fft.IRFFT.{n}", [floats(3, half), floats(3, half, seed=1)], [f"z: c64[3,{half}] complex(p0, p1)", f"f32[3,{n}] fft(z), fft_type=IRFFT, fft_length={{{n}}}"], share=1e-3)
    x, scale, offset, mean, variance = floats(3, 5, 4), floats(4, seed=1), floats(4, seed=2), floats(4, seed=3), array("f32", [0.5, 1, 2, 0.1])
    yield case("batch-norm-training", [x, scale, offset], ["t: (f32[3,5,4], f32[4], f32[4]) batch-norm-training(p0, p1, p2), epsilon=0.001, feature_index=2"] +
               [f"f32[{d}] get-tuple-element(t), index={k}" for k, d in enumerate(("3,5,4", "4", "4"))], share=1e-4)
    yield case("batch-norm-inference", [x, scale, offset, mean, variance], ["f32[3,5,4] batch-norm-inference(p0, p1, p2, p3, p4), epsilon=0.001, feature_index=2"], share=1e-4)
    yield case("batch-norm-grad", [x, scale, mean, variance, floats(3, 5, 4, seed=9)],
               ["t: (f32[3,5,4], f32[4], f32[4]) batch-norm-grad(p0, p1, p2, p3, p4), epsilon=0.001, feature_index=2"] +
               [f"f32[{d}] get-tuple-element(t), index={k}" for k, d in enumerate(("3,5,4", "4", "4"))], share=1e-3)


def all_cases():
    return itertools.chain(moved_cases(), reduce_cases(), window_cases(), convolution_cases(), dot_cases(), algebra_cases())
