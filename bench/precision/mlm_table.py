#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a BERT in f32, and in bf16 with twice the batch, and prints the table of a benchmark of Hugging Face.

    bench/precision/mlm_table.py RUN_MLM TEXT [EPOCHS [CONFIG]]      TEXT: build/kjv.txt of tools/demo.sh

The benchmark trained bert-large-uncased on WikiText-103: 178.4 minutes in f32 with 64 rows, 106.4 minutes in bf16 with 128
rows (1.68 times as fast), to a perplexity of about 3.25. CONFIG is `tiny` if it is not given. The vocabulary of `tiny` is
that of bytes, so its perplexity is that of a byte.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROWS = 16  # of a batch in f32


def hardware():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{len(os.sched_getaffinity(0))} cores of {names[0] if names else 'an unknown processor'}"


def trained(program, text, epochs, config, precision):
    """Returns (rows of a batch, minutes, perplexity)."""
    rows = ROWS if precision == "f32" else 2 * ROWS
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "--config_name", config, "--train_file", text, "--max_seq_length", "64", "--global_batch_size", str(rows),
                   "--per_device_eval_batch_size", str(rows), "--num_train_epochs", epochs, "--learning_rate", "1e-3", "--warmup_ratio", "0.1",
                   "--do_eval", "true", "--output_dir", folder, "--save_strategy", "no", "--disable_tqdm"]
        run = subprocess.run(command + (["--bf16"] if precision == "bf16" else []), capture_output=True, text=True)
        if run.returncode:
            sys.exit(" ".join(command) + "\n" + run.stdout + run.stderr)
        results = json.loads((pathlib.Path(folder) / "all_results.json").read_text(encoding="utf-8"))
    return rows, results["train_runtime"] / 60, results["perplexity"]


def main():
    program, text = sys.argv[1:3]
    epochs, config = (sys.argv[3:5] + ["1", "tiny"][len(sys.argv[3:5]):])
    print("| name | dataset | hardware | global batch | precision | time | perplexity |")
    print("|---|---|---|---:|---|---:|---:|")
    minutes = {}
    for precision in ("f32", "bf16"):
        rows, minutes[precision], perplexity = trained(program, text, epochs, config, precision)
        print(f"| BERT {config} | {pathlib.Path(text).name}, {epochs} epochs | {hardware()} | {rows} | {precision} | {minutes[precision]:.2f} min | {perplexity:.3f} |",
              flush=True)
    print(f"\nbf16 is {minutes['f32'] / minutes['bf16']:.2f} times as fast as f32")


if __name__ == "__main__":
    main()
