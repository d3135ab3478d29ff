# SPDX-License-Identifier: Apache-2.0
"""Compares bench/model_step with PyTorch, in turn on the same cores; used by resnet50/compare.py and bert/compare.py."""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]


def samples_per_second(command, cores, threads):
    variables = {key: value for key, value in os.environ.items() if not key.startswith(("OPENBLAS_", "OMP_", "MKL_", "KMP_"))}
    variables.update(OMP_NUM_THREADS=str(threads), OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    done = subprocess.run(["taskset", "-c", ",".join(cores), *command], env=variables, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError((done.stderr or done.stdout)[-600:])
    return json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])["samples_per_second"]


def main(about, model, unit, sizes, layouts):
    """`layouts`: flags of PyTorch's memory formats by name."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=str(HERE.parents[1] / "build/release/bin"))
    parser.add_argument("--python", default=sys.executable, help="has torch and transformers")
    parser.add_argument("--cores", default="0,1")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--ranks", default="1,2", help="numbers of ranks of Tessera, and of threads of PyTorch")
    for name, value in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=value, help="per rank" if name == "batch" else None)
    arguments = parser.parse_args()
    cores = arguments.cores.split(",")
    for ranks in map(int, arguments.ranks.split(",")):
        given = ["--model", model, "--steps", str(arguments.steps)]
        for name in sizes:
            given += [f"--{name}", str(getattr(arguments, name) * (ranks if name == "batch" else 1))]
        launcher = [*MPIRUN, "-np", str(ranks)] if ranks > 1 else []
        torch = [arguments.python, str(HERE / "model_step_torch.py"), *given, "--threads", str(ranks)]
        contenders = {"tessera": [*launcher, f"{arguments.bin}/model_step", *given]}
        for name, flags in layouts.items():
            contenders[" ".join(f"torch {name} eager".split())] = [*torch, *flags]
            contenders[" ".join(f"torch {name} compile".split())] = [*torch, *flags, "--compile"]
        measure(contenders, cores[:ranks], ranks, unit, arguments.rounds)


def measure(contenders, cores, ranks, unit, rounds):
    speeds = {name: [] for name in contenders}
    failed = {}
    for _ in range(rounds):
        for name, command in contenders.items():
            if name in failed:
                continue
            try:
                speeds[name].append(samples_per_second(command, cores, 1 if name == "tessera" else ranks))
            except RuntimeError as error:
                failed[name] = str(error)
    print(f"{ranks} rank{'s' * (ranks > 1)} on cores {','.join(cores)}, {rounds} rounds")
    best = [max(values) for values in zip(*(speeds[name] for name in contenders if name != "tessera" and name not in failed))]
    for name, values in speeds.items():
        if name in failed:
            print(f"  {name:28} cannot run: {failed[name].strip().splitlines()[-1]}")
            continue
        ratios = [ours / theirs for ours, theirs in zip(speeds["tessera"], values)]
        print(f"  {name:28} {statistics.median(values):8.2f} {unit}/s   tessera is {statistics.median(ratios):5.2f} times as fast "
              f"({min(ratios):.2f}..{max(ratios):.2f})")
    ratios = [ours / theirs for ours, theirs in zip(speeds["tessera"], best)]
    print(f"  tessera compared with the best of PyTorch in each round: {statistics.median(ratios):.2f} ({min(ratios):.2f}..{max(ratios):.2f})", flush=True)
