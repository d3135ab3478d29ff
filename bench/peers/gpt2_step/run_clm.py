#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program run_clm with the model and the text of tools/demo.sh on 1, 2 and 4 ranks, compared with PyTorch on the
same cores. Prints tokens/s and ratios with their spread.

usage: run_clm.py [--bin build/release/bin] [--python PATH] [--train_file build/kjv.txt] [--cores 0,1] [--rounds 3] [--only NAME,..]

run_clm does all that it does in the demo: it reads text, clips, logs, and computes the learning rates. PyTorch trains
the same model with fused AdamW and clipping on random tokens, without reading text. Each step trains 12 sequences of 64
tokens. One rank of Tessera uses the first core. The ratios of one rank are taken to PyTorch with one thread.
"""
import argparse
import pathlib
import re
import statistics
import sys
import tempfile

from compare import COMPILE_MODES, COMPILE_WARMUP, MPIRUN, ROOT, Contender, Torch, environment, measure, processor, spread

SEQUENCES, BLOCK = 12, 64  # of a step


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default=str(ROOT / "build/release/bin"))
    parser.add_argument("--python", default=sys.executable, help="has torch")
    parser.add_argument("--train_file", default=str(ROOT / "build/kjv.txt"), help="tools/demo.sh writes it")
    parser.add_argument("--cores", default="0,1")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--only", default="", help="parts of the names of contenders, joined by commas")
    parser.add_argument("--timeout", type=int, default=600, help="seconds for one run, compilation included")
    return parser.parse_args()


class RunClm(Contender):
    """run_clm prints the speed of every 20 steps. The first of them contain the compilation."""

    def read_rate(self, output, errors):
        rates = [float(rate) * {"": 1, "k": 1e3, "M": 1e6}[unit]
                 for rate, unit in re.findall(r"^step .*?([0-9.]+)([kM]?) tokens/s", output + errors, re.MULTILINE)]
        return statistics.median(rates[1:]) if len(rates) > 1 else "printed no result"


def run_clm(arguments, ranks, folder):
    cores = arguments.cores.split(",")[:ranks]
    command = [f"{arguments.bin}/run_clm", "--config_name", str(ROOT / "examples/configs/gpt2_char.json"), "--train_file",
               arguments.train_file, "--tokenizer_name", "bytes", "--block_size", str(BLOCK), "--global_batch_size", str(SEQUENCES),
               "--max_steps", str(arguments.steps + 20), "--logging_steps", "20", "--learning_rate", "1e-3", "--warmup_steps", "100",
               "--weight_decay", "0.01", "--mesh", f"data={ranks}", "--do_eval", "false", "--save_strategy", "no",
               "--sample_tokens", "0", "--disable_tqdm", "true", "--output_dir", folder, "--overwrite_output_dir"]
    launcher = [*MPIRUN, "-np", str(ranks)] if ranks > 1 else []
    return RunClm(f"tessera run_clm np {ranks}", [(launcher + command, ",".join(cores), environment(OMP_NUM_THREADS=1))])


def contenders(arguments, folder):
    cores = arguments.cores.split(",")
    flags = ["--model", "demo", "--block_size", str(BLOCK), "--steps", str(arguments.steps), "--max_grad_norm", "1"]
    single = Torch(arguments.python, cores[:1], SEQUENCES, flags)
    several = Torch(arguments.python, cores, SEQUENCES // len(cores), flags)
    everyone = [
        *(run_clm(arguments, ranks, folder) for ranks in (1, 2, 4)),
        Contender("torch 1 thread", single.threads(1)),
        *(Contender(f"torch 1 thread compile {mode}", single.threads(1, "--compile", mode, *COMPILE_WARMUP)) for mode in COMPILE_MODES),
        *several.contenders()[1:],
    ]
    wanted = [name for name in arguments.only.split(",") if name]
    return [one for one in everyone if not wanted or any(word in one.name for word in wanted)]


def print_ratios(rates):
    for ranks, one_thread in ((1, True), (2, False), (4, False)):
        ours = f"tessera run_clm np {ranks}"
        peers = [name for name in rates if name.startswith("torch") and (not one_thread or "1 thread" in name)]
        if ours in rates and peers:
            best = max(peers, key=lambda name: statistics.median(rates[name]))
            print(f"- {ours} does {spread([a / b for a, b in zip(rates[ours], rates[best])], 2)} times what {best} does")


def main():
    arguments = read_arguments()
    rates, reasons = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        everyone = contenders(arguments, folder)
        measure(arguments, everyone, rates, reasons)
    print(f"{processor()}, cores {arguments.cores}; the model of the demo, float32, {SEQUENCES} x {BLOCK} tokens a step; "
          f"{arguments.rounds} rounds: median (least..most)\n\n| contender | tokens/s |\n|---|---:|")
    for one in everyone:
        print(f"| {one.name} | {reasons[one.name] if one.name in reasons else spread(rates[one.name], 0)} |")
    print()
    print_ratios(rates)


if __name__ == "__main__":
    main()
