# SPDX-License-Identifier: Apache-2.0
"""A signal prevents an evaluation, or ends it. The continued run evaluates first, and goes on like the run without signals.

    stopped_evaluation_test.py RUN_CLM

The learning rate and the best checkpoint depend on every evaluation.
"""
import json
import pathlib
import signal
import subprocess
import sys
import tempfile

RUN_CLM = sys.argv[1]
FOLDER = pathlib.Path(tempfile.mkdtemp())
STEPS = 300  # many more than the few that a run takes until it gets the signal
STOPS = 3
FLAGS = {"config_name": FOLDER / "config.json", "train_file": FOLDER / "text.txt", "validation_file": FOLDER / "held_out.txt", "block_size": 16,
         "global_batch_size": 4, "per_device_eval_batch_size": 1, "max_steps": STEPS, "logging_steps": 1, "eval_strategy": "steps",
         "eval_steps": 1, "save_steps": 5, "save_total_limit": 2, "load_best_model_at_end": "true", "learning_rate": 0.01,
         "lr_scheduler_type": "reduce_lr_on_plateau", "lr_scheduler_kwargs": '{"patience": 0, "factor": 0.98}', "sample_tokens": 0,
         "disable_tqdm": "true"}


def command(folder, *further):
    flags = {**FLAGS, "output_dir": FOLDER / folder}
    return [str(word) for name, value in flags.items() for word in (f"--{name}", value)] + list(further)


def state_of(folder):
    return json.loads((folder / "trainer_state.json").read_text())


def train(folder, *further):
    result = subprocess.run([RUN_CLM, *command(folder, *further)], capture_output=True, text=True, timeout=1000)
    if result.returncode != 0:
        sys.exit(f"stopped_evaluation_test: {result.stdout[-1000:]}{result.stderr[-2000:]}")
    return state_of(FOLDER / folder)


def stop(folder, *further):
    """Sends a signal after the third evaluation. Returns the step of the checkpoint that the run leaves."""
    with subprocess.Popen([RUN_CLM, *command(folder, *further)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as run:
        evaluations = 0
        for line in run.stdout:
            evaluations += "held out: " in line
            if evaluations == 3:
                run.send_signal(signal.SIGTERM)
                break
        run.communicate(timeout=500)
    if run.returncode != 128 + signal.SIGTERM:
        sys.exit(f"stopped_evaluation_test: the run that got a signal ended with {run.returncode}")
    newest = max((FOLDER / folder).glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))
    if not json.loads((newest / "run_state.json").read_text()).get("evaluation_due"):
        sys.exit(f"stopped_evaluation_test: {newest} does not say that its evaluation is missing")
    return int(newest.name.split("-")[1])


def entries(state):
    return [(entry["step"], name, entry[name]) for entry in state["log_history"] for name in ("loss", "learning_rate", "eval_loss")
            if name in entry]


(FOLDER / "config.json").write_text(json.dumps({"model_type": "gpt2", "n_embd": 12, "n_head": 3, "n_layer": 2, "n_positions": 16,
                                                "vocab_size": 259, "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1}))
(FOLDER / "text.txt").write_text("".join("abcdefgh ijklmnop."[(i * i + i // 3) % 18] for i in range(900)))
(FOLDER / "held_out.txt").write_text("".join("abcdefgh ijklmnop."[(i * i + i // 5) % 18] for i in range(20 * 16 + 1)))
expected = train("uninterrupted")
resume = []
for _ in range(STOPS):
    step = stop("stopped", *resume)
    print(f"stopped after step {step}", flush=True)
    resume = ["--resume_from_checkpoint", "true"]
got = train("stopped", *resume)
for a, b in zip(entries(got), entries(expected)):
    if a != b:
        sys.exit(f"stopped_evaluation_test: {a} instead of {b}")
if len(entries(got)) != len(entries(expected)):
    sys.exit(f"stopped_evaluation_test: {len(entries(got))} entries instead of {len(entries(expected))}")
for name in "best_metric", "best_model_checkpoint":
    a, b = (str(state[name]).rsplit("/", maxsplit=1)[-1] for state in (got, expected))
    if a != b:
        sys.exit(f"stopped_evaluation_test: {name} is {a} instead of {b}")
