#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same GPT-2 step in Tessera, PyTorch, JAX and MLX, in turn on the same cores. Prints tokens/s and ratios with
their spread.

usage: compare.py [--bin build/release/bin] [--python PATH] [--model gpt2,small] [--dtype float32] [--cores 0,1] [--rounds 3] [--only NAME,..]

PyTorch runs without torch.compile and with each of its modes. Each round runs every contender once, a few steps each,
so that other processes affect all of them equally; a ratio is taken within a round. Every contender has --batch
sequences per core. Settings that could put a peer at a disadvantage are fixed here: OPENBLAS_CORETYPE and similar
variables are unset, threads are pinned, OpenMP waits actively. A contender that cannot run is listed with its reason.
The output is one Markdown table for each model, as in bench/history.md. If the script is interrupted, it prints the
tables of the measurements so far. Below the tables are the ratios to quote: our best set-up compared with the best one
of each peer, and the worst of these ratios.
"""
import argparse
import datetime
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=str(ROOT / "build/release/bin"))
    parser.add_argument("--python", default=sys.executable, help="has torch, jax and mlx")
    parser.add_argument("--model", default="gpt2,small50k,small", help="gpt2, small50k or small, or several joined by commas")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--batch", type=int, default=4, help="sequences per core")
    parser.add_argument("--block_size", type=int, default=256)
    parser.add_argument("--cores", default="0,1")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--only", default="", help="names of contenders, joined by commas")
    parser.add_argument("--timeout", type=int, default=1800, help="seconds for one run, compilation included")
    return parser.parse_args()


def environment(**more):
    out = {key: value for key, value in os.environ.items() if not key.startswith(("OPENBLAS_", "OMP_", "GOMP_", "KMP_", "MKL_"))}
    out.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMP_WAIT_POLICY="ACTIVE")
    out.update({key: str(value) for key, value in more.items()})
    return out


def open_blas():
    """MLX's package for Linux uses the reference BLAS. Replaces it by Debian's OpenBLAS (libopenblas0-pthread) if
    installed.
    """
    libraries = sorted(pathlib.Path("/usr/lib").glob("*/openblas-pthread/libopenblas.so.0"))
    return {"LD_PRELOAD": libraries[0]} if libraries else {}


def end_session(process):
    """Kills a process that has not ended, together with its children (mpirun's ranks)."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Contender:
    """Commands that run concurrently, one per process: (command, cores, environment)."""

    def __init__(self, name, processes):
        self.name, self.processes, self.version = name, processes, ""

    def run(self, timeout):
        """Returns tokens per second, or a text with the reason why there are none."""
        started = [subprocess.Popen(["taskset", "-c", cores, *command], env=variables, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True, start_new_session=True)
                   for command, cores, variables in self.processes]
        outputs = []
        try:
            for process in started:
                outputs.append(process.communicate(timeout=timeout))
        except subprocess.TimeoutExpired:
            return f"more than {timeout} s"
        finally:
            for process in started:
                end_session(process)
        for process, (_, errors) in zip(started, outputs):
            if process.returncode != 0:
                lines = [line for line in errors.splitlines() if line.strip()]
                return lines[-1][:160] if lines else f"exit status {process.returncode}"
        return self.read_rate(*outputs[0])

    def read_rate(self, output, _):
        """Returns the tokens per second that the first process printed (to stdout or stderr), or a text with the reason
        why there are none.
        """
        lines = [line for line in output.splitlines() if line.startswith("{")]
        if not lines:
            return "printed no result"
        result = json.loads(lines[-1])
        self.version = result.get("version", "")
        return result["tokens_per_second"]


COMPILE_MODES = ["default", "reduce-overhead", "max-autotune"]  # of torch.compile
COMPILE_WARMUP = ["--warmup", "4"]  # the second and third calls may compile again


class Torch:
    """The set-ups of PyTorch: threads, DDP and FSDP on the given cores, with `batch` sequences per core."""

    def __init__(self, python, cores, batch, flags):
        self.command = [python, str(HERE / "gpt2_torch.py"), *flags]
        self.cores, self.batch = cores, batch

    def threads(self, count, *flags):
        cores = self.cores[:count]
        command = [*self.command, "--batch", str(self.batch * count), "--threads", str(count), *flags]
        return [(command, ",".join(cores), environment(OMP_NUM_THREADS=count, GOMP_CPU_AFFINITY=" ".join(cores)))]

    def ranks(self, mode, port, *flags):
        shared = {"WORLD_SIZE": len(self.cores), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": 1}
        command = [*self.command, "--batch", str(self.batch), "--mode", mode, *flags]
        return [(command, core, environment(RANK=rank, LOCAL_RANK=rank, **shared)) for rank, core in enumerate(self.cores)]

    def contenders(self):
        count = len(self.cores)
        return [
            Contender("torch 1 thread", self.threads(1)),
            Contender(f"torch {count} threads", self.threads(count)),
            *(Contender(f"torch {count} threads compile {mode}", self.threads(count, "--compile", mode, *COMPILE_WARMUP)) for mode in COMPILE_MODES),
            Contender(f"torch ddp {count} ranks", self.ranks("ddp", 29571)),
            *(Contender(f"torch ddp {count} ranks compile {mode}", self.ranks("ddp", 29573 + number, "--compile", mode, *COMPILE_WARMUP))
              for number, mode in enumerate(COMPILE_MODES)),
            Contender(f"torch fsdp {count} ranks", self.ranks("fsdp", 29572)),
        ]


def contenders(arguments, model):
    cores = arguments.cores.split(",")
    count, first = len(cores), cores[0]
    common = ["--model", model, "--dtype", arguments.dtype, "--block_size", str(arguments.block_size),
              "--steps", str(arguments.steps)]

    def batch(n):
        return ["--batch", str(arguments.batch * n)]

    ours = [f"{arguments.bin}/train_step", *common, *batch(1)]
    torch = Torch(arguments.python, cores, arguments.batch, common)
    jax = [arguments.python, str(HERE / "gpt2_jax.py"), *common]

    # Pins each rank to a core, because mpirun's binding does not consider the given cores.
    pin = ["bash", "-c", 'cores=(${CORES//,/ }); exec taskset -c "${cores[$OMPI_COMM_WORLD_RANK]}" "$@"', "pin"]
    several = environment(CORES=arguments.cores, OMP_NUM_THREADS=1)
    ranks = [*MPIRUN, "-np", str(count), *pin]
    single_thread = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    out = [
        Contender("tessera 1 rank", [(ours, first, environment(OMP_NUM_THREADS=1))]),
        Contender(f"tessera fsdp {count} ranks", [(ranks + ours + ["--fsdp"], arguments.cores, several)]),
        Contender(f"tessera data {count} ranks", [(ranks + ours, arguments.cores, several)]),
        *torch.contenders(),
        Contender("jax 1 core", [(jax + batch(1), first, environment(**single_thread))]),
        Contender(f"jax 1 device {count} threads", [(jax + batch(count), arguments.cores, environment())]),
        Contender(f"jax data {count} devices", [(jax + batch(count) + ["--devices", str(count)], arguments.cores, environment())]),
        Contender(f"jax fsdp {count} devices", [(jax + batch(count) + ["--devices", str(count), "--fsdp"], arguments.cores,
                                                environment())]),
        Contender(f"mlx {count} threads", [([arguments.python, str(HERE / "gpt2_mlx.py"), *common, *batch(count)], arguments.cores,
                                            environment(OPENBLAS_NUM_THREADS=count, **open_blas()))]),
    ]
    wanted = [name for name in arguments.only.split(",") if name]
    return [one for one in out if not wanted or any(word in one.name for word in wanted)]


def spread(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}..{max(values):.{digits}f})"


def processor():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown processor"


def measure(arguments, everyone, rates, reasons):
    for number in range(arguments.rounds):
        for one in everyone:
            if one.name in reasons:
                continue
            rate = one.run(arguments.timeout)
            if isinstance(rate, str):
                reasons[one.name] = rate
            else:
                rates.setdefault(one.name, []).append(rate)
            print(f"round {number + 1}: {one.name}: {rate}", file=sys.stderr, flush=True)


def print_table(arguments, model, everyone, rates, reasons):
    versions = sorted({f"{one.name.split()[0]} {one.version}" for one in everyone if one.version})
    print(f"{datetime.date.today()}, {processor()}, cores {arguments.cores}; {', '.join(versions) or 'no peers'}; {model} "
          f"{arguments.dtype}, {arguments.batch} x {arguments.block_size} tokens per core; {arguments.rounds} rounds of "
          f"{arguments.steps} steps: median (least..most)\n")
    ours = [one.name for one in everyone if one.name.startswith("tessera") and one.name in rates]
    print(" | ".join(["| contender", "tokens/s", *(f"{name} / it" for name in ours)]) + " |")
    print("|---|" + "---:|" * (1 + len(ours)))
    for one in everyone:
        if one.name in reasons:
            cells = [f"- ({reasons[one.name].replace('|', '/')})", *("" for _ in ours)]
        elif one.name in rates:
            mine = rates[one.name]
            ratios = [[] if name == one.name else [a / b for a, b in zip(rates[name], mine)] for name in ours]
            cells = [spread(mine, 0), *(spread(values, 2) if values else "" for values in ratios)]
        else:
            continue
        print(" | ".join([f"| {one.name}", *cells]) + " |")


def best_of(framework, rates):
    """Returns the set-up of a framework with the highest median, or None."""
    own = [name for name in rates if name.split()[0] == framework]
    return max(own, key=lambda name: statistics.median(rates[name]), default=None)


class Ratio:
    """Compares our best set-up with the best one of a peer, for a model."""

    def __init__(self, model, ours, theirs, rates):
        self.model, self.ours, self.theirs = model, ours, theirs
        self.values = [a / b for a, b in zip(rates[ours], rates[theirs])]
        self.median = statistics.median(self.values)

    def text(self, dtype):
        return f"{self.model} {dtype}: {self.ours} does {spread(self.values, 2)} times what {self.theirs} does"


def best_ratios(model, rates):
    ours = best_of("tessera", rates)
    peers = list(dict.fromkeys(name.split()[0] for name in rates if not name.startswith("tessera")))
    return [Ratio(model, ours, best_of(peer, rates), rates) for peer in peers] if ours else []


def print_ratios(arguments, ratios):
    if not ratios:
        return
    print("\nOur best set-up beside the best one of each peer:\n")
    for ratio in ratios:
        print(f"- {ratio.text(arguments.dtype)}")
    worst = min(ratios, key=lambda ratio: ratio.median)
    print(f"\nThe worst ratio is {worst.median:.2f}: {worst.model} {arguments.dtype}, {worst.ours} beside {worst.theirs}.")


def main():
    arguments = read_arguments()
    ratios = []
    for number, model in enumerate(arguments.model.split(",")):
        rates, reasons = {}, {}
        everyone = contenders(arguments, model)
        interrupted = False
        try:
            measure(arguments, everyone, rates, reasons)
        except KeyboardInterrupt:
            interrupted = True
            print("interrupted", file=sys.stderr)
        print("\n" * min(number, 1), end="")
        print_table(arguments, model, everyone, rates, reasons)
        ratios += best_ratios(model, rates)
        if interrupted:
            break
    print_ratios(arguments, ratios)


if __name__ == "__main__":
    main()
