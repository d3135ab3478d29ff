# SPDX-License-Identifier: Apache-2.0
"""A run that continues on 8, 3, 5, 1 and 4 ranks, each time with another mesh and FSDP mode, has the losses of the uninterrupted one.

    chain_test.py RUN_CLM MPIEXEC

It is saved in the middle of an epoch, and trains with dropout, accumulation and AdamW. Rows of 20 samples in epochs of 33 need every
sample in the same order. The number of batches of its evaluations depends on the number of ranks.
"""
import json
import pathlib
import random
import subprocess
import sys
import tempfile

RUN_CLM, MPIEXEC = sys.argv[1:3]
FOLDER = pathlib.Path(tempfile.mkdtemp())
STEPS = 3  # of each part of the chain
CHAIN = [(8, ["--mesh", "data=2,fsdp=4", "--fsdp", "full_shard"]),
         (3, ["--mesh", "model=3", "--tensor_parallel", "model"]),
         (5, ["--mesh", "fsdp=5", "--fsdp", "shard_grad_op"]),
         (1, []),
         (4, ["--mesh", "fsdp=2,model=2", "--fsdp", "full_shard", "--tensor_parallel", "model"])]


def train(folder, ranks, steps, *flags):
    command = [MPIEXEC, "-n", ranks, RUN_CLM, "--config_name", FOLDER / "config.json", "--train_file", FOLDER / "text.txt",
               "--block_size", 16, "--global_batch_size", 10, "--gradient_accumulation_steps", 2, "--learning_rate", "1e-3",
               "--lr_scheduler_type", "constant", "--logging_steps", 1, "--sample_tokens", 0, "--do_eval", "false",
               "--validation_file", FOLDER / "held_out.txt", "--eval_on_start", "true", "--eval_strategy", "steps", "--eval_steps", 1,
               "--per_device_eval_batch_size", 1, "--output_dir", FOLDER / folder, "--max_steps", steps, *flags]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=1500)
    if result.returncode != 0:
        sys.exit(f"chain_test: {result.stdout[-2000:]}{result.stderr[-2000:]}")
    history = json.loads((FOLDER / folder / "trainer_state.json").read_text())["log_history"]
    return [(entry["step"], name, entry[name]) for entry in history for name in ("loss", "eval_loss") if name in entry]


def check_chain(dtype, tolerance):
    expected = train(f"uninterrupted_{dtype}", 1, STEPS * len(CHAIN), "--dtype", dtype, "--save_strategy", "no")
    for number, (ranks, flags) in enumerate(CHAIN):
        folder, steps = f"chain_{dtype}", STEPS * (number + 1)
        resume = ["--resume_from_checkpoint", "true"] if number > 0 else []
        got = train(folder, ranks, steps, "--dtype", dtype, "--save_steps", STEPS, *flags, *resume)
        entries = [entry[:2] for entry in expected[:2 * steps + 1]]  # the evaluation at the start, and two for each update
        if [entry[:2] for entry in got] != entries:
            sys.exit(f"chain_test: {ranks} ranks logged {[entry[:2] for entry in got]} instead of {entries}")
        apart = max(abs(a[2] - b[2]) for a, b in zip(got, expected))
        print(f"{dtype}, {ranks} ranks, {' '.join(flags)}: after {steps} updates the losses differ by at most {apart:.3g}", flush=True)
        if not apart < tolerance:
            sys.exit(f"chain_test: {got}\ninstead of {expected}")


(FOLDER / "config.json").write_text(json.dumps({"model_type": "gpt2", "n_embd": 24, "n_head": 6, "n_layer": 3, "n_positions": 16, "vocab_size": 259,
                                                "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1}))
random.seed(3)
(FOLDER / "text.txt").write_text("".join(random.choice("abcdefgh ijklmnop.") for _ in range(33 * 16 + 1)))
(FOLDER / "held_out.txt").write_text("".join(random.choice("abcdefgh ijklmnop.") for _ in range(9 * 16 + 1)))
check_chain("float64", 1e-9)
check_chain("float32", 1e-4)
