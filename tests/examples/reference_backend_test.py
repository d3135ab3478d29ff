# SPDX-License-Identifier: Apache-2.0
"""PJRT_DEVICE=REFERENCE: run_clm has the losses of the kernels on one rank, two processes and four threads, and so has eager mode.

    reference_backend_test.py RUN_CLM MPIEXEC
"""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

RUN_CLM, MPIEXEC = sys.argv[1:3]
FOLDER = pathlib.Path(tempfile.mkdtemp())
BOUND = 1e-4


def losses(name, *flags, launcher=(), accumulation=2, **variables):
    folder = FOLDER / name
    command = [*launcher, RUN_CLM, "--config_name", FOLDER / "config.json", "--train_file", FOLDER / "text.txt", "--block_size", 8,
               "--global_batch_size", 8, "--gradient_accumulation_steps", accumulation, "--learning_rate", "1e-2", "--logging_steps", 1, "--max_steps", 3, "--sample_tokens", 0,
               "--do_eval", "false", "--output_dir", folder, *flags]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=1500, env=os.environ | variables)
    if result.returncode != 0:
        sys.exit(f"reference_backend_test: {name}: {result.stdout[-2000:]}{result.stderr[-2000:]}")
    if "XLA_USE_EAGER_DEBUG_MODE" in variables and (result.stdout + result.stderr).count("Graph Name: eager") < 100:
        sys.exit(f"reference_backend_test: {name}: the ops of the updates did not run one by one: {result.stderr[-2000:]}")
    history = json.loads((folder / "trainer_state.json").read_text())["log_history"]
    return [entry["loss"] for entry in history if "loss" in entry]


(FOLDER / "config.json").write_text(json.dumps({"model_type": "gpt2", "n_embd": 12, "n_head": 2, "n_layer": 1, "n_positions": 8, "vocab_size": 259,
                                                "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1}))
random.seed(5)
(FOLDER / "text.txt").write_text("".join(random.choice("abcdefgh ijklmnop.") for _ in range(40 * 8)))
expected = losses("cpu")
if len(expected) != 3:
    sys.exit(f"reference_backend_test: {len(expected)} losses were logged instead of 3")
cases = {
    "one": losses("one", PJRT_DEVICE="REFERENCE"),
    "two": losses("two", "--mesh", "data=2", launcher=[MPIEXEC, "-n", 2], PJRT_DEVICE="REFERENCE"),
    "four": losses("four", "--virtual_ranks", 4, "--mesh", "data=2,fsdp=2", "--fsdp", "full_shard", PJRT_DEVICE="REFERENCE"),
    "eager": losses("eager", XLA_USE_EAGER_DEBUG_MODE="1", PT_XLA_DEBUG_LEVEL="2"),
}
of_one_batch = losses("one_batch", accumulation=1)
cases["eager_one_batch"] = losses("eager_one_batch", accumulation=1, XLA_USE_EAGER_DEBUG_MODE="1", PT_XLA_DEBUG_LEVEL="2")
for name, got in cases.items():
    wanted = of_one_batch if "one_batch" in name else expected
    if len(got) != len(expected) or any(abs(a - b) > BOUND * abs(b) for a, b in zip(got, wanted)):
        sys.exit(f"reference_backend_test: {name}: {got}, the kernels have {wanted}")
print(f"losses of the kernels and of {len(cases)} other ways to run: {expected}")
