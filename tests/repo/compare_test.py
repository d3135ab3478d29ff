#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests compare.py of bench/peers/gpt2_step with stand-ins for all contenders: the set-ups it runs, the ratios
it quotes, and the report of a contender that fails.

usage: tests/repo/compare_test.py
"""
import os
import pathlib
import subprocess
import sys
import tempfile

COMPARE = pathlib.Path("bench/peers/gpt2_step/compare.py").resolve()

# The tokens per second for each command line: the first matching row applies.
STAND_IN = """#!/usr/bin/env python3
import json, sys
line = " ".join(sys.argv)
rows = [("jax", None), ("mlx", 50), ("small --mode ddp --compile max-autotune", 200), ("--mode ddp --compile max-autotune", 80),
        ("--mode ddp", 70), ("--compile", 60), ("torch", 40), ("--fsdp", 100), ("small", 160), ("", 90)]
words = lambda text: all(word in line.split() or "gpt2_" + word in line for word in text.split())
rate = next(rate for text, rate in rows if words(text))
if rate is None:
    sys.exit("no module named jax")
print(json.dumps({"tokens_per_second": rate, "version": "1.0"}))
"""


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for program in ("train_step", "python", "mpirun"):
            (folder / program).write_text(STAND_IN)
            (folder / program).chmod(0o755)
        command = [sys.executable, str(COMPARE), "--bin", name, "--python", str(folder / "python"), "--model", "gpt2,small",
                   "--cores", "0,0", "--rounds", "1"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600,
                              env={**os.environ, "PATH": f"{name}:{os.environ['PATH']}"})
    assert done.returncode == 0, done.stderr
    modes = ["default", "reduce-overhead", "max-autotune"]
    for row in [*(f"| torch 2 threads compile {mode} | 60" for mode in modes), *(f"| torch ddp 2 ranks compile {mode} |" for mode in modes),
                "| jax 1 core | - (no module named jax)"]:
        assert done.stdout.count(row) == 2, f"{row}\n{done.stdout}{done.stderr}"
    for line in ["- gpt2 float32: tessera fsdp 2 ranks does 1.25 (1.25..1.25) times what torch ddp 2 ranks compile max-autotune does",
                 "- gpt2 float32: tessera fsdp 2 ranks does 2.00 (2.00..2.00) times what mlx 2 threads does",
                 "- small float32: tessera 1 rank does 0.80 (0.80..0.80) times what torch ddp 2 ranks compile max-autotune does",
                 "The worst ratio is 0.80: small float32, tessera 1 rank beside torch ddp 2 ranks compile max-autotune."]:
        assert line in done.stdout.splitlines(), f"{line}\n{done.stdout}"


if __name__ == "__main__":
    main()
