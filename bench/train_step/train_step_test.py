#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs train_step on a tiny model and checks its line of JSON, but no times.

usage: train_step_test.py TRAIN_STEP
"""
import json
import os
import subprocess
import sys

FIELDS = """model dtype ranks mesh tokens_per_second model_flops_per_step mfu peak_flops_per_second exposed_communication_fraction
exposed_communication_spread exposed_communication_seconds planned_peak_bytes measured_peak_bytes compile_seconds host_overhead_seconds""".split()
# The products of one layer of width 16 with 2 heads, 256 words, b x t = 2 x 8: forward, and twice as much backward.
ROWS, TIME, WIDTH, WORDS = 2, 8, 16, 256
FLOPS = 3 * 2 * ROWS * TIME * (12 * WIDTH * WIDTH + 2 * TIME * WIDTH + WORDS * WIDTH)


def run(*flags, cpus=None):
    bind = (lambda: os.sched_setaffinity(0, cpus)) if cpus else None
    command = [sys.argv[1], "--model", "tiny", "--block_size", str(TIME), "--steps", "1", *flags]
    done = subprocess.run(command, check=True, capture_output=True, text=True, preexec_fn=bind)
    lines = done.stdout.splitlines()
    assert len(lines) == 1, f"one line was due: {done.stdout}"
    out = json.loads(lines[0])
    for field in FIELDS:
        assert field in out, f"no {field} in {out}"
    assert 0 < out["mfu"] < 1 and out["tokens_per_second"] > 0, out
    assert 0 < out["planned_peak_bytes"] < out["measured_peak_bytes"] <= out["high_water_bytes"], out
    assert 0 < out["step_peak_bytes"] <= out["measured_peak_bytes"], out
    return out


def main():
    one = run("--batch", str(ROWS))
    assert one["ranks"] == 1 and one["exposed_communication_fraction"] == 0, one
    assert one["model_flops_per_step"] == FLOPS, (one["model_flops_per_step"], FLOPS)
    two = run("--batch", str(ROWS // 2), "--fsdp", "--virtual_ranks", "2")
    assert two["ranks"] == 2 and two["mesh"] == "mesh<fsdp=2>", two
    least, most = two["exposed_communication_spread"]
    assert least <= most < 1, two
    exposed = dict(two["exposed_communication_seconds"])
    total = exposed.pop("total")
    assert {"start", "all-gather", "reduce-scatter"} <= exposed.keys() and "other" not in exposed, exposed
    assert abs(sum(exposed.values()) - total) <= 1e-4 * total and total <= two["step_seconds"], two
    assert two["model_flops_per_step"] == FLOPS, "partitioning changes the model's FLOPs"
    assert abs(one["first_loss"] - two["first_loss"]) < 1e-4, (one["first_loss"], two["first_loss"])
    stage0 = run("--batch", str(ROWS // 2), "--fsdp", "--zero_stage", "0", "--recompute", "--virtual_ranks", "2")
    assert stage0["zero_stage"] == 0 and stage0["recompute"] and two["zero_stage"] == 3, (stage0, two)
    assert abs(stage0["first_loss"] - two["first_loss"]) < 1e-4, (stage0["first_loss"], two["first_loss"])
    kinds = dict(stage0["exposed_communication_seconds"])
    assert "all-gather" not in kinds and "all-reduce" in kinds, kinds
    # Ranks that share one processor have the peak of one, except for noise from other processes.
    cpu = {min(os.sched_getaffinity(0))}
    alone = run(cpus=cpu)
    crowd = run("--virtual_ranks", "6", "--batch", "1", cpus=cpu)
    assert crowd["measured_peak_bytes"] < alone["measured_peak_bytes"], "virtual ranks are parts of one process"
    assert crowd["peak_flops_per_second"] < 2 * alone["peak_flops_per_second"], (crowd, alone)
    wrong = subprocess.run([sys.argv[1], "--model", "gpt3"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "gpt3" in wrong.stderr, wrong
    late = subprocess.run([sys.argv[1], "--model", "tiny", "--mesh", "data=3"], capture_output=True, text=True)
    assert late.returncode == 1 and "data=3" in late.stderr and "terminate" not in late.stderr, late
    folder = subprocess.run([sys.argv[1], "--model", "tiny", "--profile", "/nowhere/p.txt"], capture_output=True, text=True)
    assert folder.returncode == 1 and "/nowhere/p.txt" in folder.stderr and not folder.stdout, folder


if __name__ == "__main__":
    main()
