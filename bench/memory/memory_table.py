#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the memory that is promised before training starts with the memory that the processes of run_clm then use.

usage: bench/memory/memory_table.py [--count 200] [--seed 1] [--steps 3] [--bin build/release/bin]

Each configuration is a random model (GPT-2, Llama, Mixtral), mesh of 1 to 4 ranks, FSDP mode, number of rows, precision and
kind of recomputation. Before the first run of each program, a rank logs what its process holds and what the program adds
(TESSERA_LOG_LEVEL=debug): the largest sum is the promise. The measured peak is the largest sum of the proportional set
sizes (PSS) of all ranks, sampled every few milliseconds from the start to the end. Also compares the plan of the dry run with
that of the program that runs. Prints a line for each configuration that is outside of 3% + 16 MiB for a rank, and a summary.
"""
import argparse
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
ALLOWED_SHARE, ALLOWED_BYTES = 0.03, 16 << 20  # of a process
RIGHTS = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
          "OMPI_MCA_mpi_yield_when_idle": "1"}
MESHES = [(1, "data=1", []), (2, "data=2", []), (2, "fsdp=2", ["--fsdp", "full_shard"]), (2, "fsdp=2", ["--fsdp", "shard_grad_op"]),
          (2, "model=2", ["--tensor_parallel", "model"]), (3, "fsdp=3", ["--fsdp", "full_shard"]),
          (4, "data=2,fsdp=2", ["--fsdp", "hybrid_shard"]), (4, "fsdp=2,model=2", ["--fsdp", "full_shard", "--tensor_parallel", "model"])]


def random_model(draw):
    """Returns a name and the configuration of a model."""
    layers, heads, words = draw.choice((2, 3, 5, 8)), draw.choice((4, 8)), draw.choice((256, 997, 4096, 20480))
    width = heads * draw.choice((16, 24, 32, 48))
    kind = draw.choice(("gpt2", "gpt2", "llama", "mixtral"))
    name = f"{kind} {layers} x {width}, {words} words"
    if kind == "gpt2":
        return name, {"model_type": kind, "n_layer": layers, "n_embd": width, "n_head": heads, "vocab_size": words, "n_positions": 512,
                      "resid_pdrop": draw.choice((0.0, 0.1)), "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    config = {"model_type": kind, "num_hidden_layers": layers, "hidden_size": width, "intermediate_size": 3 * width, "vocab_size": words,
              "num_attention_heads": heads, "num_key_value_heads": heads // 2, "max_position_embeddings": 512, "rms_norm_eps": 1e-6}
    return name, config | ({"num_local_experts": 4, "num_experts_per_tok": 2} if kind == "mixtral" else {})


def random_case(draw):
    ranks, mesh, flags = draw.choice(MESHES)
    name, config = random_model(draw)
    flags = ["--mesh", mesh, *flags, "--block_size", str(draw.choice((64, 192, 512))), "--per_device_train_batch_size", str(draw.choice((1, 4, 6)))]
    if draw.random() < 0.25:
        flags += ["--gradient_accumulation_steps", "3"]
    if draw.random() < 0.3:
        flags += ["--bf16"]
    recompute = draw.choice(("no", "blocks", "budget"))
    if recompute == "blocks":
        flags += ["--gradient_checkpointing"]
    return name, config, ranks, flags, recompute


def pss_of(process):
    try:
        return int(re.search(r"^Pss: +([0-9]+) kB", pathlib.Path(f"/proc/{process}/smaps_rollup").read_text(), re.M).group(1)) << 10
    except (OSError, AttributeError):
        return 0


def ranks_of(launcher, program):
    """Returns the processes of the ranks: the launcher itself, or its children."""
    try:
        children = pathlib.Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
        return [int(child) for child in children if program in pathlib.Path(f"/proc/{child}/cmdline").read_text()] or [launcher]
    except OSError:
        return []


def run(command, ranks, environment):
    """Returns the output, the error text, and the largest sum of the PSS of the ranks."""
    words = ["mpirun", "-np", str(ranks), *command] if ranks > 1 else command
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen([str(word) for word in words], stdout=out, stderr=errors, env={**os.environ, **RIGHTS, **environment})
        peak = 0
        while process.poll() is None:
            peak = max(peak, sum(pss_of(rank) for rank in ranks_of(process.pid, "run_clm")))
            time.sleep(0.003)
        out.seek(0)
        errors.seek(0)
        texts = out.read(), errors.read()
    if process.returncode != 0:
        raise SystemExit(f"{' '.join(str(word) for word in words)}\n{texts[0]}{texts[1]}")
    return *texts, peak


def planned(text):
    """The bytes of a dry run without the workspace of the kernels."""
    return int(re.search(r"total at the peak .*\(([0-9]+) bytes\)", text).group(1))


def measure(case, given, folder):
    name, config, ranks, flags, recompute = case
    (folder / "config.json").write_text(json.dumps(config))
    common = [given.bin / "run_clm", "--config_name", folder / "config.json", *flags]
    plan = planned(run([*common, "--dry_run"], 1, {})[0])
    if recompute == "budget":
        common += ["--max_memory_per_rank", f"{int(0.85 * plan)}B"]
        fits = subprocess.run([str(word) for word in [*common, "--dry_run"]], capture_output=True, text=True, env={**os.environ, **RIGHTS})
        if fits.returncode != 0:
            return None  # the error says that the step does not fit
        plan = planned(fits.stdout)
    train = ["--train_file", folder / "text.txt", "--tokenizer_name", "bytes", "--output_dir", folder / "out", "--overwrite_output_dir", "--max_steps", given.steps,
             "--save_strategy", "no", "--do_eval", "false", "--sample_tokens", 0, "--logging_steps", 1]
    _, errors, peak = run([*common, *train], ranks, {"TESSERA_LOG_LEVEL": "debug"})
    promise = {}
    plans = set()
    for rank, held, program, more in re.findall(r"rank (\d+) before program .*: the process holds (\d+) bytes, the plan is (\d+) bytes, the run adds (\d+) bytes", errors):
        promise[rank] = max(promise.get(rank, 0), int(held) + int(more))
        plans.add(int(program))
    return {"name": name, "flags": f"{ranks} ranks {' '.join(flags)} recompute {recompute}", "promise": sum(promise.values()), "peak": peak,
            "ranks": ranks, "is_planned": plan in plans, "plan": plan, "plans": max(plans)}


def allowed_of(result):
    return ALLOWED_SHARE * result["promise"] + ALLOWED_BYTES * result["ranks"]


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--count", type=int, default=200)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--steps", type=int, default=3)
    options.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    given = options.parse_args()
    draw, results, refused = random.Random(given.seed), [], 0
    with tempfile.TemporaryDirectory(prefix="memory_table_") as place:
        folder = pathlib.Path(place)
        (folder / "text.txt").write_text("".join(draw.choice("abcdefgh \n") for _ in range(200_000)))
        while len(results) < given.count:
            result = measure(random_case(draw), given, folder)
            if result is None:
                refused += 1
                continue
            results.append(result)
            is_within = abs(result["peak"] - result["promise"]) <= allowed_of(result)
            if not is_within or not result["is_planned"]:
                print(f"{result['name']}, {result['flags']}: promised {result['promise'] / 1e6:.1f} MB, used {result['peak'] / 1e6:.1f} MB; "
                      f"dry run {result['plan']}, largest program {result['plans']}", flush=True)
    allowed = [allowed_of(one) for one in results]
    within = sum(abs(one["peak"] - one["promise"]) <= most for one, most in zip(results, allowed, strict=True))
    above = sum(one["peak"] > one["promise"] + most for one, most in zip(results, allowed, strict=True))
    ratios = sorted(one["peak"] / one["promise"] for one in results)
    print(f"{len(results)} configurations: {within} within 3% + 16 MiB, {above} above; used / promised: median {statistics.median(ratios):.3f}, "
          f"{ratios[0]:.3f} to {ratios[-1]:.3f}; the dry run plans the program that runs in {sum(one['is_planned'] for one in results)}; "
          f"{refused} budgets were refused")


if __name__ == "__main__":
    main()
