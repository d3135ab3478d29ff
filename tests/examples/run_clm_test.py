# SPDX-License-Identifier: Apache-2.0
"""run_clm from the command line: the same losses for every mesh, a dry run, and errors with their exit status.

    run_clm_test.py RUN_CLM MPIEXEC
"""
import json
import pathlib
import subprocess
import sys
import tempfile

RUN_CLM, MPIEXEC = sys.argv[1:3]
FOLDER = pathlib.Path(tempfile.mkdtemp())
CONFIG = {"model_type": "gpt2", "n_embd": 12, "n_head": 3, "n_layer": 3, "n_positions": 16, "vocab_size": 259}


def run(*arguments, launcher=()):
    command = [*launcher, RUN_CLM, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=200)


def losses(name, *arguments, launcher=()):
    folder = FOLDER / name
    result = run(
        "--config_name", FOLDER / "config.json", "--train_file", FOLDER / "text.txt", "--block_size", 16,
        "--global_batch_size", 5, "--gradient_accumulation_steps", 2, "--max_steps", 4, "--logging_steps", 1,
        "--learning_rate", "1e-3", "--dtype", "float64", "--sample_tokens", 3, "--output_dir", folder, *arguments,
        launcher=launcher)
    assert result.returncode == 0, result.stdout + result.stderr
    history = json.loads((folder / "trainer_state.json").read_text())["log_history"]
    assert "held out: loss" in result.stdout, result.stdout
    exposed = [entry["exposed_communication_seconds"] for entry in history if "loss" in entry]
    with_peers = bool(launcher) or "--virtual_ranks" in arguments
    assert all(seconds > 0 if with_peers else seconds == 0 for seconds in exposed), exposed
    return [entry.get("loss", entry.get("eval_loss")) for entry in history]


def check(condition, message):
    if not condition:
        sys.exit(f"run_clm_test: {message}")


def main():
    (FOLDER / "config.json").write_text(json.dumps(CONFIG))
    words = ["mesh", "shard", "axis", "rank", "device", "partial", "group", "unit"]
    (FOLDER / "text.txt").write_text(" ".join(words[(i * i + i // 3) % 8] for i in range(900)))

    expected = losses("one")
    check(len(expected) == 5, f"4 updates and an evaluation, got {expected}")
    mpirun = [MPIEXEC, "--oversubscribe", "-n", "4"]
    others = {
        "mpi": losses("mpi", "--mesh", "data=2,model=2", "--fsdp", "full_shard", "--tensor_parallel", "model", launcher=mpirun),
        "whole batches": losses("whole", "--global_batch_size", 10, "--gradient_accumulation_steps", 1),
        "virtual": losses("virtual", "--mesh", "fsdp=3", "--fsdp", "full_shard", "--virtual_ranks", 3),
    }
    for name, got in others.items():
        for a, b in zip(expected, got, strict=True):
            check(abs(a - b) <= 1e-9 * abs(a), f"{name}: {got} instead of {expected}")

    dry = run("--config_name", FOLDER / "config.json", "--train_file", FOLDER / "text.txt", "--dry_run", "--mesh",
              "fsdp=4,model=3", "--fsdp", "full_shard", "--tensor_parallel", "model", "--global_batch_size", 8)
    check(dry.returncode == 0 and "memory of a device" in dry.stdout and "reduce-scatter" in dry.stdout, dry.stdout + dry.stderr)

    def notes(*arguments):
        result = run("--config_name", FOLDER / "config.json", "--train_file", FOLDER / "text.txt", "--dry_run",
                     "--global_batch_size", 8, *arguments)
        check(result.returncode == 0, result.stderr)
        return [line for line in result.stdout.splitlines() if line.startswith("note ")]

    hybrid = notes("--mesh", "fsdp=4", "--fsdp", "hybrid_shard")
    check(len(hybrid) == 1 and "this is full_shard" in hybrid[0], hybrid)
    check(notes("--mesh", "data=2,fsdp=2", "--fsdp", "hybrid_shard") == [], "hybrid over two axes needs no note")
    spare = notes("--mesh", "fsdp=2,spare=2", "--fsdp", "full_shard")
    check(len(spare) == 1 and "nothing lies over spare of mesh<fsdp=2, spare=2>" in spare[0], spare)

    unknown = run("--config_nam", "x")
    check(unknown.returncode == 2 and "config_name" in unknown.stderr, unknown.stderr)
    small = dict(CONFIG, vocab_size=200)
    (FOLDER / "small.json").write_text(json.dumps(small))
    refused = run("--config_name", FOLDER / "small.json", "--train_file", FOLDER / "text.txt", "--max_steps", 1)
    check(refused.returncode == 1 and "the tokenizer bytes has 256 tokens, but the model's vocab_size is 200" in refused.stderr,
          refused.stderr)
    mesh = run("--config_name", FOLDER / "config.json", "--train_file", FOLDER / "text.txt", "--mesh", "data=2", "--max_steps", 1)
    check(mesh.returncode == 1 and "data=2" in mesh.stderr, mesh.stderr)
    again = run("--config_name", FOLDER / "config.json", "--train_file", FOLDER / "text.txt", "--output_dir", FOLDER / "one")
    check(again.returncode == 1 and "--overwrite_output_dir" in again.stderr, again.stderr)


main()
