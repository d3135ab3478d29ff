# SPDX-License-Identifier: Apache-2.0
"""Random elementwise ops and reductions over rows of thousands of elements: the runtime must compute what the reference
evaluation computes. The generator of programs makes only small arrays, which fused groups process in one piece.
"""
import random
import re

from part import Failure
from processes import run, shown

SECONDS = 120
COLUMNS = (4096, 4097, 5000, 9001)


def module(seed):
    """HLO text. Vectors have one element for each row; products of them are computed outside of the fused group."""
    draw = random.Random(seed)
    rows, columns, dtype = draw.choice((1, 3, 4)), draw.choice(COLUMNS), draw.choice(("f32", "f32", "f64"))
    matrix, vector = f"{dtype}[{rows},{columns}]", f"{dtype}[{rows}]"
    lines = ["HloModule long_rows"]
    for name, op in (("sum", "add"), ("most", "maximum")):
        lines.append(f"{name} {{ a = {dtype}[] parameter(0) b = {dtype}[] parameter(1) ROOT r = {dtype}[] {op}(a, b) }}")
    lines += ["ENTRY e {", f"  x = {matrix} parameter(0)", f"  y = {matrix} parameter(1)", f"  k = {dtype}[{rows},{rows}] parameter(2)",
              f"  n = {vector} parameter(3)", f"  zero = {dtype}[] constant(0)", f"  least = {dtype}[] constant(-1e30)"]
    matrices, vectors = ["x", "y"], ["n"]
    for i in range(draw.randint(1, 3)):
        lines.append(f"  d{i} = {vector} dot(k, {draw.choice(vectors)}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}")
        vectors.append(f"d{i}")
    results = []
    for i in range(draw.randint(4, 14)):
        name, kind = f"v{i}", draw.choice(("reduce", "broadcast", "vector", "vector", "matrix"))
        binary = draw.choice(("add", "subtract", "multiply", "maximum"))
        if kind == "reduce":
            how = draw.choice(("zero), dimensions={1}, to_apply=sum", "least), dimensions={1}, to_apply=most"))
            lines.append(f"  {name} = {vector} reduce({draw.choice(matrices)}, {how}")
        elif kind == "broadcast":
            lines.append(f"  {name} = {matrix} broadcast({draw.choice(vectors)}), dimensions={{0}}")
        elif kind == "vector":
            lines.append(f"  {name} = {vector} {binary}({draw.choice(vectors)}, {draw.choice(vectors)})")
        else:
            lines.append(f"  {name} = {matrix} {binary}({draw.choice(matrices)}, {draw.choice(matrices)})")
        (matrices if kind in ("broadcast", "matrix") else vectors).append(name)
        if draw.random() < 0.3:
            results.append(name)
    results = list(dict.fromkeys([*results, name]))
    types = ", ".join(matrix if result in matrices else vector for result in results)
    return "\n".join([*lines, f"  ROOT t = ({types}) tuple({', '.join(results)})", "}", ""])


class LongRows:
    name = "long rows"

    def __init__(self, soak):
        self.soak = soak
        self.folder = soak.folder / "long_rows"
        self.folder.mkdir(parents=True, exist_ok=True)

    def run(self, seed):
        path = self.folder / f"seed_{seed}.hlo"
        path.write_text(module(seed))
        command = [self.soak.bin / "tessera", "check", path, "--engine", "runtime", "--num-partitions", 1, "--seed", seed % 2**31]
        outcome = run(command, SECONDS)
        self.soak.count("long rows: programs")
        if outcome.code == 0:
            path.unlink()
            return
        reason = "does not end" if outcome.timed_out else (outcome.out.strip() or outcome.err.strip()).splitlines()[0][:120]
        kind = re.sub(r"[\d.]+|%\S+", "_", reason)[:60]
        if not self.soak.is_known(self.name, kind):
            self.soak.report(Failure(self.name, seed, reason, shown(command), path, kind))
