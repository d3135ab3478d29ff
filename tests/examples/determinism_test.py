# SPDX-License-Identifier: Apache-2.0
"""--full_determinism: losses, norms and weights have the same bits on every mesh of data and fsdp axes over the same ranks.

    determinism_test.py RUN_CLM MPIEXEC

It trains with dropout, accumulation, clipping and AdamW. No size of the model can be divided by 5; some by 2 or 3 only.
"""
import json
import pathlib
import random
import subprocess
import sys
import tempfile

RUN_CLM, MPIEXEC = sys.argv[1:3]
FOLDER = pathlib.Path(tempfile.mkdtemp())
FULL = ["--fsdp", "full_shard"]
# A batch of few tokens, of which the products with gathered weights are more expensive than with sharded ones.
MANY = ["--block_size", 16, "--global_batch_size", 48, "--gradient_accumulation_steps", 2]
FEW = ["--block_size", 3, "--global_batch_size", 12, "--gradient_accumulation_steps", 1]
CASES = [(6, MANY, [("data=6", []), ("fsdp=6", FULL), ("data=2,fsdp=3", FULL), ("data=3,fsdp=2", ["--fsdp", "shard_grad_op"]), ("fsdp=3,data=2", FULL)]),
         (4, MANY, [("data=4", []), ("data=2,fsdp=2", ["--fsdp", "hybrid_shard"]), ("fsdp=4", ["--fsdp", "shard_grad_op"])]),
         (4, FEW, [("data=4", []), ("data=2,fsdp=2", FULL), ("fsdp=4", FULL)])]


def train(ranks, mesh, flags):
    folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
    command = [MPIEXEC, "-n", ranks, RUN_CLM, "--config_name", FOLDER / "config.json", "--train_file", FOLDER / "text.txt", "--mesh", mesh, *flags,
               "--full_determinism", "true", "--learning_rate", "1e-2", "--max_grad_norm", "0.5", "--logging_steps", 1, "--max_steps", 5, "--sample_tokens", 0, "--do_eval", "false",
               "--output_dir", folder]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=1500)
    if result.returncode != 0:
        sys.exit(f"determinism_test: {result.stdout[-2000:]}{result.stderr[-2000:]}")
    history = json.loads((folder / "trainer_state.json").read_text())["log_history"]
    return [(entry["loss"], entry["grad_norm"]) for entry in history if "loss" in entry], (folder / "model.safetensors").read_bytes()


(FOLDER / "config.json").write_text(json.dumps({"model_type": "gpt2", "n_embd": 26, "n_head": 2, "n_layer": 2, "n_positions": 16, "vocab_size": 259,
                                                "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1}))
random.seed(5)
(FOLDER / "text.txt").write_text("".join(random.choice("abcdefgh ijklmnop.") for _ in range(200 * 16)))
for ranks, batch, cases in CASES:
    expected = train(ranks, cases[0][0], cases[0][1] + batch)
    if len(expected[0]) != 5:
        sys.exit(f"determinism_test: {len(expected[0])} losses were logged instead of 5")
    for mesh, flags in cases[1:]:
        got = train(ranks, mesh, flags + batch)
        if got[0] != expected[0]:
            sys.exit(f"determinism_test: {mesh} has {got[0]}\n{cases[0][0]} has {expected[0]}")
        if got[1] != expected[1]:
            sys.exit(f"determinism_test: the weights of {mesh} and {cases[0][0]} differ")
    print(f"{ranks} ranks: {len(cases)} meshes have equal losses, norms and weights: {expected[0][-1]}", flush=True)
