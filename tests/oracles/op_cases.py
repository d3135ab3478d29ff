# SPDX-License-Identifier: Apache-2.0
"""The modules that compare_ops_with_xla.py runs: every op that computes on arrays, on unusual inputs."""
import dataclasses
import itertools

import ml_dtypes
import numpy as np

FLOATS = ("f16", "bf16", "f32", "f64")
SIGNED, UNSIGNED = ("s8", "s16", "s32", "s64"), ("u8", "u16", "u32", "u64")
INTEGERS = SIGNED + UNSIGNED
NUMPY = {"pred": np.bool_, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
         **{f"s{n}": np.dtype(f"int{n}").type for n in (8, 16, 32, 64)},
         **{f"u{n}": np.dtype(f"uint{n}").type for n in (8, 16, 32, 64)}}
# The share of the larger magnitude by which approximations may differ.
ROUNDING = {"f16": 3e-3, "bf16": 2e-2, "f32": 3e-6, "f64": 1e-11}


@dataclasses.dataclass
class Case:
    name: str
    text: str
    arguments: list  # (dtype, array)
    share: float = 0.0
    labels: tuple = ()
    elementwise: bool = False
    explained: str = ""  # why the two legitimately differ


def odd_values(dtype):
    """Returns a value of every kind that a type has."""
    if dtype == "pred":
        return np.array([False, True])
    if dtype in FLOATS:
        info = ml_dtypes.finfo(NUMPY[dtype])
        values = [0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3, 3.5, -3.7, 0.1, 1e-3, -1e-3, 7, -7, 20, -20, 90, -90, 0.9999,
                  1.0001, 2**-9, 127.5, 255, 256, -129, float(info.max), -float(info.max), float(info.smallest_normal),
                  np.inf, -np.inf, np.nan]
        if dtype in ("f32", "f64"):
            values += [1e10, -1e10, 2**31, 2**63, -(2.0**63), 2.0**64, 8388609.0, 1e-20]
        with np.errstate(over="ignore"):
            return np.array(values, np.float64).astype(NUMPY[dtype])
    info = np.iinfo(NUMPY[dtype])
    values = [0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 33, 63, 64, 65, 100, int(info.max), int(info.max) - 1, int(info.max) // 2 + 1]
    values += [int(info.min), int(info.min) + 1, -1, -2, -3, -7, -8, -64] if info.min else [200]
    return np.array(values, NUMPY[dtype])


def shape(dtype, array):
    return f"{dtype}[{','.join(map(str, array.shape))}]"


def module(parameters, body, root, head="", more="", tuple_of=None):
    """parameters: (dtype, array); body: lines; root: names of the results."""
    lines = [f"HloModule m{head}", "", more, "ENTRY main {"] if more else [f"HloModule m{head}", "", "ENTRY main {"]
    lines += [f"  p{k} = {shape(*p)} parameter({k})" for k, p in enumerate(parameters)]
    lines += ["  " + line for line in body]
    if tuple_of or len(root) > 1:
        lines.append(f"  ROOT out = tuple({', '.join(root)})")
        return "\n".join(lines) + "\n}\n"
    lines[-1] = lines[-1].replace("  ", "  ROOT ", 1)
    return "\n".join(lines) + "\n}\n"


def case(name, parameters, lines, share=0.0, more="", **rest):
    """lines: `type op(..)`; each is a result. A line `name: type op(..)` is not a result."""
    body, roots = [], []
    for k, line in enumerate(lines):
        inner, _, text = line.partition(": ")
        if text and inner.isidentifier():
            body.append(f"{inner} = {text}")
        else:
            body.append(f"r{k} = {line}")
            roots.append(f"r{k}")
    return Case(name, module(parameters, body, roots, more=more), list(parameters), share, **rest)


def floats(*dims, dtype="f32", seed=0):
    return dtype, np.random.default_rng(seed).normal(size=dims).astype(NUMPY[dtype])


def integers(low, high, *dims, dtype="s32", seed=0):
    return dtype, np.random.default_rng(seed).integers(low, high, dims).astype(NUMPY[dtype])


def array(dtype, values):
    return dtype, np.array(values, NUMPY[dtype])


def reducer(name, dtype, op):
    return f"{name} {{ a = {dtype}[] parameter(0) b = {dtype}[] parameter(1) ROOT c = {dtype}[] {op}(a, b) }}\n"


# ---- elementwise ------------------------------------------------------------------------------------------------------------

EXACT_UNARY = ("abs", "negate", "sign", "floor", "ceil", "round-nearest-even", "round-nearest-afz")
MATH = ("exponential", "exponential-minus-one", "log", "log-plus-one", "sqrt", "rsqrt", "cbrt", "tanh", "tan", "sine", "cosine",
        "logistic", "erf", "acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh")


def unary_cases():
    for dtype in FLOATS:
        x = odd_values(dtype)
        s = shape(dtype, x)
        yield case(f"unary.exact.{dtype}", [(dtype, x)], [f"{s} {op}(p0)" for op in EXACT_UNARY] +
                   [f"pred[{len(x)}] is-finite(p0)"], labels=EXACT_UNARY + ("is-finite",), elementwise=True)
        for op in MATH:
            values = x
            if op in ("tan", "sine", "cosine"):  # arguments in the domain of fast range reduction
                values = x[(np.abs(x.astype(np.float64)) < 1e4) | ~np.isfinite(x.astype(np.float64))]
            yield case(f"unary.{op}.{dtype}", [(dtype, values)], [f"{shape(dtype, values)} {op}(p0)"], share=ROUNDING[dtype],
                       elementwise=True)
    for dtype in INTEGERS:
        x = odd_values(dtype)
        ops = ["not", "popcnt", "count-leading-zeros"] + (["negate", "abs", "sign"] if dtype in SIGNED else ["negate"])
        yield case(f"unary.{dtype}", [(dtype, x)], [f"{shape(dtype, x)} {op}(p0)" for op in ops], labels=tuple(ops),
                   elementwise=True)
    yield case("unary.pred", [("pred", odd_values("pred"))], ["pred[2] not(p0)"])


def pairs(dtype):
    x = odd_values(dtype)
    a, b = np.meshgrid(x, x, indexing="ij")
    return (dtype, a.reshape(-1).copy()), (dtype, b.reshape(-1).copy())


def binary_cases():
    for dtype in FLOATS + INTEGERS + ("pred",):
        p = pairs(dtype)
        s = shape(*p[0])
        exact = ["add", "multiply", "maximum", "minimum"] if dtype == "pred" else [
            "add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum"]
        if dtype not in FLOATS:
            exact += ["and", "or", "xor"]
        if dtype in INTEGERS:
            exact += ["shift-left", "shift-right-arithmetic", "shift-right-logical"]
            # XLA's CPU backend reads only 6 bits of the exponent: it gives 0^64 = 1.
            keep = p[1][1] < 64
            q = [(dtype, p[0][1][keep]), (dtype, p[1][1][keep])]
            yield case(f"binary.power.{dtype}", q, [f"{dtype}[{len(q[0][1])}] power(p0, p1)"], elementwise=True)
        yield case(f"binary.{dtype}", p, [f"{s} {op}(p0, p1)" for op in exact], labels=tuple(exact), elementwise=True)
        directions = [f"direction={d}" for d in ("EQ", "NE", "LT", "LE", "GT", "GE")]
        if dtype in FLOATS:
            directions += [d + ", type=TOTALORDER" for d in directions]
            for op in ("power", "atan2"):
                yield case(f"binary.{op}.{dtype}", p, [f"{s} {op}(p0, p1)"], share=ROUNDING[dtype], elementwise=True)
        n = len(p[0][1])
        yield case(f"compare.{dtype}", p, [f"pred[{n}] compare(p0, p1), {d}" for d in directions], labels=tuple(directions),
                   elementwise=True)


def narrow_cases():
    """Arithmetic of types narrower than a byte, and of 8-bit floats."""
    a = np.arange(-8, 8)
    x, y = (part.reshape(-1).copy() for part in np.meshgrid(a, a, indexing="ij"))
    for dtype in ("s4", "u4", "f8e5m2", "f8e4m3fn", "f8e4m3b11fnuz"):
        wide = "f32" if dtype[0] == "f" else "s32"
        ops = ["add", "subtract", "multiply", "maximum", "minimum", "divide", "remainder"] + (
            [] if wide == "f32" else ["and", "shift-left", "shift-right-logical", "shift-right-arithmetic"])
        p = [array(wide, x), array(wide, y)]
        head = [f"a: {dtype}[256] convert(p0)", f"b: {dtype}[256] convert(p1)"]
        for op in ops:
            yield case(f"narrow.{op}.{dtype}", p, head + [f"c: {dtype}[256] {op}(a, b)", f"{wide}[256] convert(c)"], elementwise=True)
        yield case(f"narrow.moves.{dtype}", p, head + [
            f"c: {dtype}[256] reverse(a), dimensions={{0}}", "m: pred[256] compare(a, b), direction=LT",
            f"d: {dtype}[256] select(m, c, b)", f"{wide}[256] convert(d)", f"e: {dtype}[256] clamp(a, b, c)", f"{wide}[256] convert(e)",
            f"f: {dtype}[7] iota(), iota_dimension=0", f"{wide}[7] convert(f)"])
        yield case(f"narrow.dot.{dtype}", [array(wide, x[:60].reshape(6, 10)), array(wide, y[:40].reshape(10, 4))], [
            f"a: {dtype}[6,10] convert(p0)", f"b: {dtype}[10,4] convert(p1)",
            f"{wide}[6,4] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"], share=1e-6)


def ternary_cases():
    for dtype in ("f32", "bf16", "s8", "u32"):
        some = odd_values(dtype)[[0, 1, 2, 3, 5, 9, -4, -3, -2, -1]]
        low, x, high = (("" + dtype, part.reshape(-1).copy()) for part in np.meshgrid(some, some, some, indexing="ij"))
        mask = ("pred", np.arange(1000) % 3 == 0)
        yield case(f"clamp.{dtype}", [low, x, high], [f"{dtype}[1000] clamp(p0, p1, p2)"], elementwise=True)
        yield case(f"select.{dtype}", [mask, x, high], [f"{dtype}[1000] select(p0, p1, p2)"], elementwise=True)
    yield case("clamp.scalars", [array("f32", 1.0), ("f32", odd_values("f32")), array("f32", 0.5)],
               [f"f32[{len(odd_values('f32'))}] clamp(p0, p1, p2)"])
    yield case("select.scalar", [array("pred", True), floats(3, 2), floats(3, 2, seed=1)], ["f32[3,2] select(p0, p1, p2)"])


def convert_cases():
    everything = ("pred",) + INTEGERS + FLOATS
    for source in everything:
        x = odd_values(source)
        yield case(f"convert.{source}", [(source, x)], [f"{t}[{len(x)}] convert(p0)" for t in everything], labels=everything,
                   elementwise=True)
        narrow = ("s4", "u4", "s2", "u2", "f8e5m2", "f8e4m3fn", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz", "f8e4m3", "f8e3m4",
                  "f4e2m1fn", "f8e8m0fnu")
        for t in narrow:
            back = "f32" if t.startswith("f") else "s32"
            yield case(f"convert.{source}.{t}", [(source, x)], [f"n: {t}[{len(x)}] convert(p0)", f"{back}[{len(x)}] convert(n)"],
                       elementwise=True,
                       explained="XLA goes by way of f32" if (source, t) == ("f64", "f8e8m0fnu") else "")
    for dtype in FLOATS:
        x = odd_values(dtype)
        formats = [(5, 10), (8, 7), (4, 3), (2, 1), (8, 23), (11, 52), (3, 0), (1, 2), (5, 2)]
        yield case(f"reduce-precision.{dtype}", [(dtype, x)],
                   [f"{shape(dtype, x)} reduce-precision(p0), exponent_bits={e}, mantissa_bits={m}" for e, m in formats],
                   labels=tuple(map(str, formats)), elementwise=True)
    x = odd_values("f32")
    bits = integers(0, 2**32, len(x), dtype="u32")
    yield case("stochastic-convert", [("f32", x), bits], [f"s32[{len(x)}] stochastic-convert(p0, p1)"], elementwise=True)


def bitcast_cases():
    same = (("f32", "s32"), ("f32", "u32"), ("f16", "u16"), ("bf16", "s16"), ("f64", "u64"), ("u8", "s8"), ("s64", "f64"))
    for a, b in same:
        x = odd_values(a)
        yield case(f"bitcast-convert.{a}.{b}", [(a, x)], [f"{b}[{len(x)}] bitcast-convert(p0)"],
                   explained="NaN" if b in FLOATS else "")
    yield case("bitcast-convert.wider", [integers(0, 256, 3, 4, dtype="u8"), integers(0, 256, 3, 8, dtype="u8")],
               ["u32[3] bitcast-convert(p0)", "u64[3] bitcast-convert(p1)", "u16[3,2] bitcast-convert(x)".replace("x", "q")][:2])
    yield case("bitcast-convert.narrower", [integers(0, 2**32, 3, 2, dtype="u32")],
               ["u8[3,2,4] bitcast-convert(p0)", "u16[3,2,2] bitcast-convert(p0)"])
    yield case("bitcast-convert.s4", [integers(-128, 127, 6, dtype="s8")],
               ["n: s4[6,2] bitcast-convert(p0)", "s32[6,2] convert(n)", "s8[6] bitcast-convert(n)"])


def complex_cases():
    x = np.array([0.0, -0.0, 1, -1, 0.5, -2.5, 3, 1e-3, -20, np.inf, -np.inf, np.nan], np.float32)
    a, b = (part.reshape(-1).copy() for part in np.meshgrid(x, x, indexing="ij"))
    n = len(a)
    p = [("f32", a), ("f32", b)]
    finite = np.isfinite(a) & np.isfinite(b)
    q = [("f32", a[finite]), ("f32", b[finite])]
    k = int(finite.sum())
    odd = "infinities and NaN of complex numbers are C's (Annex G) here"
    near = {"sqrt": "sqrt(-1-0i) is -i here, as in C and NumPy", "rsqrt": "XLA's rsqrt(-1) is rounded in its real part",
            "exponential-minus-one": "XLA's imaginary part at -20+i is 0"}
    for op in ("exponential", "log", "sqrt", "rsqrt", "tanh", "sine", "cosine", "tan", "log-plus-one", "exponential-minus-one",
               "logistic", "negate", "sign"):
        for label, arguments, m, why in (("", p, n, odd), (".finite", q, k, near.get(op, ""))):
            yield case(f"complex.{op}{label}", arguments,
                       [f"z: c64[{m}] complex(p0, p1)", f"w: c64[{m}] {op}(z)", f"f32[{m}] real(w)", f"f32[{m}] imag(w)"],
                       share=2e-5, elementwise=True, explained=why)
    yield case("complex.parts", p, [f"z: c64[{n}] complex(p0, p1)", f"f32[{n}] real(z)", f"f32[{n}] imag(z)", f"f32[{n}] abs(z)"],
               share=2e-6, elementwise=True, explained=odd)
    other = [("f32", np.roll(values, 5)) for _, values in q]
    for op in ("add", "subtract", "multiply", "divide", "power", "atan2"):
        yield case(f"complex.{op}", q + other,
                   [f"z: c64[{k}] complex(p0, p1)", f"y: c64[{k}] complex(p2, p3)", f"w: c64[{k}] {op}(z, y)",
                    f"f32[{k}] real(w)", f"f32[{k}] imag(w)"], share=2e-5, elementwise=True,
                   explained="0 to a negative power; parts that cancel" if op in ("power", "atan2") else "")
    yield case("complex.compare", p, [f"z: c64[{n}] complex(p0, p1)", f"y: c64[{n}] complex(p1, p0)",
                                      f"pred[{n}] compare(z, y), direction=EQ", f"pred[{n}] compare(z, y), direction=NE"])
    yield case("complex.c128", [("f64", a.astype(np.float64)), ("f64", b.astype(np.float64))],
               [f"z: c128[{n}] complex(p0, p1)", f"w: c128[{n}] multiply(z, z)", f"f64[{n}] real(w)", f"f64[{n}] imag(w)",
                f"v: c64[{n}] convert(z)", f"f32[{n}] imag(v)"], elementwise=True, explained=odd)


def all_cases():
    import op_cases_arrays
    import op_cases_indexing
    return itertools.chain(unary_cases(), binary_cases(), ternary_cases(), narrow_cases(), convert_cases(), bitcast_cases(), complex_cases(),
                           op_cases_arrays.all_cases(), op_cases_indexing.all_cases())
