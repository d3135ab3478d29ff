#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""generate continues a text that its model has learned, on one rank and on four, also far beyond the positions that the model reads.

usage: generate_test.py RUN_CLM GENERATE MPIRUN
"""
import json
import pathlib
import subprocess
import sys
import tempfile

RUN_CLM, GENERATE, MPIRUN = sys.argv[1:]
PERIOD = "abcabdabe"


def run(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, errors="replace", timeout=1500)


def check(condition, message):
    if not condition:
        sys.exit(f"generate_test: {message}")


def texts(model, *arguments, launcher=()):
    result = run(*launcher, GENERATE, "--model_name_or_path", model, "--tokenizer_name", "bytes", *arguments)
    check(result.returncode == 0, result.stdout + result.stderr)
    return result.stdout.splitlines()


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "text.txt").write_text(PERIOD * 400)
        (folder / "config.json").write_text(json.dumps({
            "model_type": "gpt2", "vocab_size": 257, "n_positions": 16, "n_embd": 32, "n_layer": 2, "n_head": 2,
            "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0}))
        model = folder / "model"
        trained = run(RUN_CLM, "--config_name", folder / "config.json", "--train_file", folder / "text.txt", "--block_size", 16,
                      "--global_batch_size", 8, "--max_steps", 500, "--learning_rate", "3e-3", "--warmup_steps", 30,
                      "--do_eval", "false", "--sample_tokens", 0, "--output_dir", model)
        check(trained.returncode == 0, trained.stderr)
        unnamed = run(GENERATE, "--model_name_or_path", model, "--prompt", "a")
        check(unnamed.returncode == 1 and "name its tokenizer, as in --tokenizer_name bytes" in unnamed.stderr, unnamed.stderr)
        prompt, count = PERIOD[:6], 40
        expected = (PERIOD * 6)[:len(prompt) + count]
        common = ["--prompt", prompt, "--max_new_tokens", count, "--window", 15]
        check(texts(model, *common) == [expected], f"one rank: {texts(model, *common)}")
        four = [MPIRUN, "-n", "4"]
        check(texts(model, *common, "--batch", 3, "--mesh", "data=2,model=2", launcher=four) == [expected] * 3, "four ranks")
        drawn = ["--prompt", prompt, "--max_new_tokens", 8, "--do_sample", "--temperature", 3, "--top_k", 50, "--top_p", 0.9, "--batch", 2]
        one = texts(model, *drawn)
        check(one == texts(model, *drawn, "--virtual_ranks", 4, "--mesh", "model=4"), "draws differ between meshes")
        check(texts(model, *drawn, "--seed", 1) != one, "draws do not depend on the seed")
    wrong = run(GENERATE, "--prompt", "a")
    check(wrong.returncode == 2 and "give either --model_name_or_path or --config_name" in wrong.stderr, wrong.stderr)


if __name__ == "__main__":
    main()
