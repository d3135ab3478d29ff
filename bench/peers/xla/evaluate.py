#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs modules of a corpus with XLA before and after Tessera partitioned them, and compares the results.

  bench/peers/xla/evaluate.py FOLDER [--tessera BIN/tessera] [--most-devices 8] [--every 1] [--only PREFIX]

Works like tests/oracles/evaluate_with_xla.py: partitions run as replicas, padding holds NaN.
"""
import argparse
import os
import pathlib
import sys

from compare import Module, first_line, run, snapshot

ORACLE = pathlib.Path(__file__).resolve().parents[3] / "tests" / "oracles" / "evaluate_with_xla.py"


def evaluate(module, tessera, folder):
    texts = [folder / f"{module.name}.{kind}.hlo" for kind in ("global", "local")]
    for verb, text in zip(("print", "partition"), texts):
        code, _, err, _ = run([tessera, verb, str(module.path), *module.options, "--for-xla", "-o", str(text)])
        if code != 0:
            return f"FAILED  {module.name}: {verb}: {first_line(err)}"
    code, out, err, _ = run([sys.executable, str(ORACLE), *map(str, texts)], 120)
    if code in (0, 1) and out.startswith(("agrees", "DIFFERS")):
        return f"{out.split()[0]:8}{module.name}: {out.split(':', 1)[1].strip()}"
    return f"FAILED  {module.name}: {first_line(' '.join(err.strip().splitlines()[-1:]))}"


def main():
    options = argparse.ArgumentParser()
    options.add_argument("folder", type=pathlib.Path)
    options.add_argument("--tessera", default="build/release/bin/tessera")
    options.add_argument("--most-devices", type=int, default=8)
    options.add_argument("--every", type=int, default=1)
    options.add_argument("--only", default="")
    given = options.parse_args()
    os.nice(10)
    folder = given.folder / "evaluated"
    folder.mkdir(exist_ok=True)
    given.tessera = snapshot(given.tessera, folder)
    paths = [p for p in sorted(given.folder.glob("*.hlo")) if not p.name.endswith(".xla.hlo") and p.name.startswith(given.only)]
    modules = [m for m in map(Module, paths) if m.devices <= given.most_devices][:: given.every]
    lines = []
    for module in modules:
        lines.append(evaluate(module, given.tessera, folder))
        print(lines[-1], flush=True)
    counts = {kind: sum(line.startswith(kind) for line in lines) for kind in ("agrees", "DIFFERS", "FAILED")}
    print(f"{len(lines)} modules: " + ", ".join(f"{n} {kind}" for kind, n in counts.items()))
    return 0 if counts["agrees"] == len(lines) else 1


if __name__ == "__main__":
    sys.exit(main())
