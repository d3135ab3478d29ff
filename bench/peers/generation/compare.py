#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokens per second of GPT-2 (124M, random weights, float32) in Tessera and in transformers with its cache, in turn on the same cores.

usage: compare.py [--bin build/release/bin] [--python PATH] [--cores 0,1] [--rounds 3] [--max_new_tokens 64]

Batches of 1 and 8 texts with prompts of 32 tokens, on one core and on two (Tessera: 2 ranks with tensor parallelism;
transformers: 2 threads). Likeliest tokens. The time of the first token, which reads the prompt, is shown separately.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CONFIG = {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024, "vocab_size": 50257}


def run(command, cores):
    variables = {key: value for key, value in os.environ.items() if not key.startswith(("OPENBLAS_", "OMP_", "MKL_", "KMP_"))}
    variables.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMP_NUM_THREADS=str(len(cores.split(","))))
    done = subprocess.run(["taskset", "-c", cores, *command], env=variables, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=str(HERE.parents[2] / "build/release/bin"))
    parser.add_argument("--python", default=sys.executable, help="has torch and transformers")
    parser.add_argument("--cores", default="0,1")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--max_new_tokens", type=int, default=64)
    a = parser.parse_args()
    cores = a.cores.split(",")
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "config.json"
        config.write_text(json.dumps(CONFIG))
        for ranks in (1, 2):
            here = ",".join(cores[:ranks])
            launch = [] if ranks == 1 else ["mpirun", "-np", str(ranks), "--oversubscribe", "--bind-to", "none",
                                            "--mca", "mpi_yield_when_idle", "1"]
            for batch in (1, 8):
                common = ["--config_name", str(config), "--batch", str(batch), "--max_new_tokens", str(a.max_new_tokens)]
                ours = [*launch, f"{a.bin}/generate", *common, "--prompt", "x" * 32, "--window", str(64 + a.max_new_tokens), "--report"]
                theirs = [a.python, str(HERE / "generation_torch.py"), *common, "--threads", str(ranks)]
                results = [(run(ours, here), run(theirs, here)) for _ in range(a.rounds)]
                ratios = [own["tokens_per_second"] / peer["tokens_per_second"] for own, peer in results]
                middle = [statistics.median(pair[i][key] for pair in results) for key in ("tokens_per_second", "first_token_seconds")
                          for i in (0, 1)]
                print(f"np {ranks} batch {batch}: {middle[0]:7.1f} tokens/s, transformers {middle[1]:7.1f}; ratio "
                      f"{statistics.median(ratios):.2f} ({min(ratios):.2f}..{max(ratios):.2f}); first token {1e3 * middle[2]:.0f} ms, "
                      f"transformers {1e3 * middle[3]:.0f} ms", flush=True)


if __name__ == "__main__":
    main()
