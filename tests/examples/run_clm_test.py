# SPDX-License-Identifier: Apache-2.0
"""run_clm on the command line: the same losses for every mesh, a dry run, and errors with their exit status.

    run_clm_test.py RUN_CLM MPIEXEC TESSERA
"""
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

RUN_CLM, MPIEXEC, TESSERA = sys.argv[1:4]
FOLDER = pathlib.Path(tempfile.mkdtemp())
CONFIG = {"model_type": "gpt2", "n_embd": 12, "n_head": 3, "n_layer": 3, "n_positions": 16, "vocab_size": 259}


def run(*arguments, launcher=()):
    command = [*launcher, RUN_CLM, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=1000)


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


def sampling():
    """A model that has learned a periodic text continues it for any length, far beyond the length of a block."""
    period = "abcabdabe"
    (FOLDER / "periodic.txt").write_text(period * 400)
    (FOLDER / "periodic.json").write_text(json.dumps(dict(
        CONFIG, n_embd=32, n_head=2, n_layer=2, vocab_size=257, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)))
    prompt, tokens = period[:6], 3 * 16
    result = run("--config_name", FOLDER / "periodic.json", "--train_file", FOLDER / "periodic.txt", "--block_size", 16,
                 "--global_batch_size", 8, "--max_steps", 500, "--learning_rate", "3e-3", "--warmup_steps", 30, "--logging_steps", 50,
                 "--do_eval", "false", "--sample_prompt", prompt, "--sample_tokens", tokens)
    check(result.returncode == 0, result.stderr)
    expected = (period * 7)[:len(prompt) + tokens]
    check(f"sample:\n{expected}\n" in result.stdout, f"instead of {expected}:\n{result.stdout[-300:]}{result.stderr[-600:]}")


def held_out_loss(result):
    return float(re.search(r"held out: loss ([0-9.]+) nats", result.stdout)[1])


def pretrained():
    """The saved model is the trained one, for other ranks and meshes: its held-out loss is equal, and a run starts from it."""
    common = ["--train_file", FOLDER / "text.txt", "--block_size", 16, "--sample_tokens", 0]
    first = run("--config_name", FOLDER / "config.json", *common, "--max_steps", 5, "--output_dir", FOLDER / "trained")
    check(first.returncode == 0, first.stderr)
    names = sorted(path.name for path in (FOLDER / "trained").iterdir())
    check(names == ["all_results.json", "checkpoint-5", "config.json", "eval_results.json", "model.safetensors", "train_results.json",
                     "trainer_state.json", "training_args.json"], names)
    held_out = held_out_loss(first)
    for more in ([], ["--virtual-ranks", 3, "--fsdp", "full_shard", "--mesh", "fsdp=3"]):
        again = run("--model_name_or_path", FOLDER / "trained", *common, "--do_train", "false", *more)
        check(again.returncode == 0, again.stderr)
        check(abs(held_out_loss(again) - held_out) < 2e-4, f"{again.stdout} instead of {held_out}")
    # A model with more ids than bytes was trained with another tokenizer, unless the flag says otherwise.
    wide = run("--config_name", FOLDER / "config.json", *common, "--config_overrides", "vocab_size=600", "--max_steps", 1, "--output_dir", FOLDER / "wide")
    check(wide.returncode == 0, wide.stderr)
    for more, warns in ([], True), (["--tokenizer_name", "bytes"], False):
        again = run("--model_name_or_path", FOLDER / "wide", *common, "--do_train", "false", *more)
        check(again.returncode == 0 and ("has no tokenizer, so the text is read as bytes" in again.stderr) == warns, again.stderr)


def resumed():
    """A run that continues from a checkpoint has the losses of the uninterrupted run: bit by bit on the same mesh, also in the
    middle of an epoch, with dropout and accumulation; and nearly so on other meshes."""
    common = ["--config_name", FOLDER / "config.json", "--train_file", FOLDER / "text.txt", "--block_size", 16, "--global_batch_size", 5,
              "--gradient_accumulation_steps", 2, "--max_steps", 6, "--logging_steps", 1, "--learning_rate", "1e-3", "--dtype", "float64",
              "--sample_tokens", 0, "--do_eval", "false"]

    def logged(folder):
        history = json.loads((FOLDER / folder / "trainer_state.json").read_text())["log_history"]
        return [entry["loss"] for entry in history]

    def train(folder, *flags):
        result = run(*common, "--output_dir", FOLDER / folder, *flags)
        check(result.returncode == 0, result.stderr)
        return result

    two = ["--virtual_ranks", 2, "--fsdp", "full_shard"]
    train("uninterrupted", *two, "--save_steps", 3, "--save_total_limit", 2)
    expected = logged("uninterrupted")
    folders = sorted(path.name for path in (FOLDER / "uninterrupted").glob("checkpoint-*"))
    check(folders == ["checkpoint-3", "checkpoint-6"], folders)
    for name, flags in {"same": [*two, "--dataloader_num_workers", 2], "three": ["--virtual_ranks", 3, "--mesh", "model=3", "--tensor_parallel", "model"], "single": []}.items():
        train(name, *flags, "--resume_from_checkpoint", FOLDER / "uninterrupted/checkpoint-3")
        losses_now = logged(name)
        check(len(losses_now) == 6, losses_now)
        check(name != "same" or losses_now == expected, f"{losses_now} instead of {expected}")
        check(all(abs(a - b) < 1e-9 for a, b in zip(losses_now, expected)), f"{name}: {losses_now} instead of {expected}")
    other = train("other", "--global_batch_size", 4, "--resume_from_checkpoint", FOLDER / "uninterrupted/checkpoint-3")
    check("another number of samples" not in other.stderr, other.stderr)
    seeded = train("seeded", "--data_seed", 7, "--resume_from_checkpoint", FOLDER / "uninterrupted/checkpoint-3")
    check("the data seed 42, now it has" in seeded.stderr, seeded.stderr)
    check("batches of 5 rows, now they have 4; to keep the old batches, give --global_batch_size 5" in other.stderr, other.stderr)
    replaced = train("same", *two, "--overwrite_output_dir", "--save_strategy", "no")
    check("deleted 1 checkpoint of the run" in replaced.stderr and not list((FOLDER / "same").glob("checkpoint-*")), replaced.stderr)
    damaged = FOLDER / "uninterrupted/checkpoint-6/state-00002-of-00002.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    again = train("uninterrupted", *two, "--resume_from_checkpoint")
    check("do not have the checksum with which they were saved" in again.stderr and "checkpoint-3: step 3 of 6" in again.stdout,
          again.stdout + again.stderr)
    check(logged("uninterrupted") == expected, logged("uninterrupted"))
    check((FOLDER / "uninterrupted/checkpoint-6.replaced").exists(), "the damaged checkpoint still counts")
    back = train("uninterrupted", *two, "--max_steps", 5, "--save_steps", 1, "--save_total_limit", 1, "--resume_from_checkpoint", FOLDER / "uninterrupted/checkpoint-3")
    folders = sorted(path.name for path in (FOLDER / "uninterrupted").glob("checkpoint-?"))
    check(folders == ["checkpoint-5"] and "checkpoint-6 to " in back.stderr, f"{folders} {back.stderr}")


def other_models():
    """Every causal model of the table trains by its config.json, equally on several ranks, and its files load again."""
    sizes = {"hidden_size": 12, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": 3,
             "max_position_embeddings": 16, "vocab_size": 259}
    mixture = {"model_type": "mixtral", "num_local_experts": 4, "output_router_logits": True, "expert_capacity_factor": 1.5}
    windows = {"use_sliding_window": True, "sliding_window": 5, "layer_types": ["full_attention", "sliding_attention"]}
    tensor_parallel = ["--mesh", "fsdp=2,model=2", "--fsdp", "full_shard", "--tensor_parallel", "model"]
    for config, layouts in (({"model_type": "llama"}, (tensor_parallel,)), ({"model_type": "mistral", "sliding_window": 5}, (tensor_parallel,)),
                            ({"model_type": "qwen2", **windows}, (["--mesh", "data=4"],)),
                            ({"model_type": "qwen3", "head_dim": 6, **windows}, (tensor_parallel,)),
                            (mixture, (["--mesh", "data=2,expert=2", "--expert_parallel", "expert"],))):
        path = FOLDER / "other.json"
        path.write_text(json.dumps({**sizes, **config}))
        name = config["model_type"]
        one = losses(f"{name}_1", "--config_name", path)
        for layout in layouts:
            several = losses(f"{name}_4", "--config_name", path, "--virtual_ranks", 4, *layout)
            check(all(abs(a - b) < 1e-9 for a, b in zip(one, several, strict=True)), f"{name}, {layout}: {one} and {several}")
        loaded = run("--model_name_or_path", FOLDER / f"{name}_4", "--train_file", FOLDER / "text.txt", "--block_size", 16, "--do_train", "false",
                     "--sample_tokens", 0, "--dtype", "float64")
        check(loaded.returncode == 0, loaded.stderr)
        check(abs(held_out_loss(loaded) - one[-1]) < 1e-3, f"{name}: {one[-1]} before, {loaded.stdout[-400:]}")
    wrong = run("--config_name", FOLDER / "config.json", "--train_file", FOLDER / "text.txt", "--virtual_ranks", 2, "--mesh", "expert=2",
                "--expert_parallel", "expert")
    check("GPT2LMHeadModel is no mixture of experts" in wrong.stderr, wrong.stderr)


def logged_rates(folder):
    history = json.loads((folder / "trainer_state.json").read_text())["log_history"]
    return [entry["learning_rate"] for entry in history if "learning_rate" in entry]


def refused_flags():
    for flags, error in (("--optim adamm", '--optim: unknown optimizer adamm; did you mean "adam"?'),
                         ("--optim lion --optim_args eps=1", "--optim_args: the optimizer lion does not use eps; its arguments are beta1, beta2, state_dtype"),
                         ("--lr_scheduler_type reduce_lr_on_plateau", "--lr_scheduler_type reduce_lr_on_plateau needs evaluations: --eval_strategy steps or epoch"),
                         ("--auto_shard --mesh data=1", "--auto_shard chooses the mesh and the sharding, so it excludes --mesh data=1"),
                         ("--auto_shard --max_memory_per_rank 1GB", "--auto_shard chooses the mesh and the sharding, so it excludes --max_memory_per_rank 1GB"),
                         ("--max_memory_per_rank two", "--max_memory_per_rank=two: must be a size such as 2GB or 1.5GiB")):
        result = run("--config_name", "c", "--train_file", "t", *flags.split())
        check((result.returncode, result.stderr) == (2, f"run_clm: {error}\n"), result.stderr)


def optimizers():
    """Every update rule and its options reach the training, and give the losses of one rank on several."""
    standard = losses("standard")
    for name, *flags in (("adafactor",), ("lion",), ("muon", "--optim_args", "ns_steps=3"), ("sgd", "--optim_args", "momentum=0.9,nesterov=true"),
                         ("rmsprop", "--optim_args", "momentum=0.5,eps=1e-4"), ("nadam", "--optim_args", "momentum_decay=0.1"),
                         ("adamw_torch", "--optim_args", "amsgrad=true", "--lr_scheduler_type", "cosine_with_restarts",
                          "--lr_scheduler_kwargs", '{"num_cycles": 2}')):
        one = losses(f"{name}_one", "--optim", name, *flags)
        several = losses(f"{name}_three", "--optim", name, *flags, "--virtual_ranks", 3, "--mesh", "fsdp=3", "--fsdp", "full_shard")
        check(all(abs(a - b) < 1e-9 for a, b in zip(one, several, strict=True)), f"{name}: {one} and {several}")
        check(max(abs(a - b) for a, b in zip(one, standard)) > 1e-6, f"{name} {flags} has no effect: {one}")

    # No loss is better by 100, so every evaluation but the first halves the rate, also in a run that is continued.
    plateau = ["--lr_scheduler_type", "reduce_lr_on_plateau", "--lr_scheduler_kwargs", '{"factor": 0.5, "patience": 0, "threshold": 100, "threshold_mode": "abs"}',
               "--eval_strategy", "steps", "--eval_steps", 1, "--save_steps", 2, "--max_steps", 4]
    losses("plateau", *plateau)
    rates = logged_rates(FOLDER / "plateau")
    check(rates == [1e-3, 1e-3, 5e-4, 2.5e-4], f"rates {rates}")
    losses("continued", *plateau, "--resume_from_checkpoint", FOLDER / "plateau/checkpoint-2")
    check(logged_rates(FOLDER / "continued") == rates, f"{logged_rates(FOLDER / 'continued')} after the checkpoint instead of {rates}")


def plans():
    """A found layout and a memory budget train as one rank does; what does not fit is refused before it runs."""
    one = losses("one_rank")
    found = losses("found", "--virtual_ranks", 4, "--auto_shard")
    check(all(abs(a - b) < 1e-9 for a, b in zip(one, found, strict=True)), f"--auto_shard: {one} and {found}")
    common = ["--config_name", FOLDER / "config.json", "--train_file", FOLDER / "text.txt", "--block_size", 16, "--global_batch_size", 64,
              "--max_steps", 1, "--sample_tokens", 0, "--do_eval", "false"]
    curve = run(*common, "--dry_run", "--mesh", "data=1", "--max_memory_per_rank", "1TB")
    peaks = [float(size) for size in re.findall(r"^ +([0-9.]+)MB +[0-9.]+$", curve.stdout, re.M)]
    check(len(peaks) >= 3 and peaks == sorted(peaks, reverse=True) and peaks[0] > peaks[-1], curve.stdout)
    fits = run(*common, "--max_memory_per_rank", f"{peaks[-2] + 0.01}MB")
    check(fits.returncode == 0 and "values are recomputed, planned with" in fits.stdout, fits.stdout + fits.stderr)
    budget = ["--virtual_ranks", 2, "--max_memory_per_rank", f"{0.8 * peaks[0]:.3f}MB"]
    check(losses("two_ranks", "--virtual_ranks", 2) == losses("within_budget", *budget), "a memory budget changes the losses")
    tight = run(*common, "--max_memory_per_rank", "100KB")
    check(tight.returncode == 1 and "the step does not fit even if all possible values are recomputed; the least memory is" in tight.stderr, tight.stderr)
    # xla_fsdp_grad_ckpt recomputes every unit: equal losses, less memory.
    fsdp = ["--mesh", "fsdp=3", "--fsdp", "full_shard"]
    recomputed = [*fsdp, "--fsdp_config", '{"xla": true, "xla_fsdp_grad_ckpt": true}']
    kept, again = losses("kept", "--virtual_ranks", 3, *fsdp), losses("recomputed", "--virtual_ranks", 3, *recomputed)
    check(kept == again, f"xla_fsdp_grad_ckpt: {again} instead of {kept}")
    plans = [run(*common, "--dry_run", *words).stdout for words in (fsdp, recomputed)]
    peaks = [int(re.search(r"total at the peak .*\(([0-9]+) bytes\)", plan).group(1)) for plan in plans]
    check(peaks[1] < peaks[0], f"bytes at the peak without and with xla_fsdp_grad_ckpt: {peaks}")
    for arguments, launcher in (([], ()), ([], (MPIEXEC, "--oversubscribe", "-n", "2")), (["--virtual_ranks", 2], ())):
        os.environ["TESSERA_MEMORY_LIMIT"] = "1MB"
        refused = run(*common, *arguments, launcher=launcher)
        del os.environ["TESSERA_MEMORY_LIMIT"]
        check(refused.returncode == 1 and refused.stderr.count("TESSERA_MEMORY_LIMIT allows 1.00MB") == 1, refused.stderr)
        check("step" not in refused.stdout.split("parameters of one block")[-1], refused.stdout)


def best_model():
    """The model of the checkpoint with the smallest loss on held-out text is kept, and loaded at the end. The learning rate
    becomes far too high, so the loss grows again."""
    folder = FOLDER / "best"
    flags = ["--config_name", FOLDER / "config.json", "--train_file", FOLDER / "text.txt", "--block_size", 16, "--global_batch_size", 4,
             "--max_steps", 12, "--learning_rate", 3, "--warmup_steps", 12, "--sample_tokens", 0, "--output_dir", folder,
             "--eval_strategy", "steps", "--eval_steps", 1, "--save_steps", 2, "--save_total_limit", 1, "--virtual_ranks", 2]
    result = run(*flags, "--load_best_model_at_end", "--metric_for_best_model", "loss")
    check(result.returncode == 0, result.stderr)
    state = json.loads((folder / "trainer_state.json").read_text())
    losses = [(entry["step"], entry["eval_loss"]) for entry in state["log_history"] if "eval_loss" in entry]
    during, after = losses[:-1], losses[-1]
    check([step for step, _ in during] == list(range(1, 13)), during)
    best_loss, best_step = min((loss, step) for step, loss in during if step % 2 == 0)
    check(best_step < 12, f"the last checkpoint is the best one: {during}")
    check(state["best_metric"] == best_loss and state["best_model_checkpoint"] == f"{folder}/checkpoint-{best_step}", state)
    check(after == (12, best_loss), f"{after} after the training instead of {best_loss}")
    kept = sorted(path.name for path in folder.glob("checkpoint-*"))
    check(kept == sorted({f"checkpoint-{best_step}", "checkpoint-12"}), kept)
    for wrong, message in ((["--eval_strategy", "epoch"], "needs equal --eval_strategy and --save_strategy"), (["--save_steps", 3, "--eval_steps", 2], "multiple of --eval_steps")):
        refused = run(*flags, "--load_best_model_at_end", *wrong)
        check(refused.returncode == 2 and message in refused.stderr, refused.stderr)


def best_model_is_lost():
    """If the best checkpoint could not be saved, or is damaged, an earlier one or the last model is taken: no training is lost."""
    folder = FOLDER / "lost"
    flags = ["--config_name", FOLDER / "config.json", "--train_file", FOLDER / "text.txt", "--block_size", 16, "--global_batch_size", 4,
             "--max_steps", 4, "--learning_rate", "1e-2", "--sample_tokens", 0, "--output_dir", folder, "--overwrite_output_dir",
             "--eval_strategy", "steps", "--eval_steps", 2, "--save_steps", 2, "--load_best_model_at_end"]
    full = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (60000, 60000))  # the model fits, its optimizer state does not
    result = subprocess.run([RUN_CLM, *map(str, flags)], capture_output=True, text=True, preexec_fn=full)
    state = json.loads((folder / "trainer_state.json").read_text())
    check(result.returncode == 0 and "cannot save" in result.stderr and state["best_model_checkpoint"] is None, result.stderr)
    check((folder / "model.safetensors").exists(), "the model of the last update is lost")

    flags += ["--greater_is_better", "--metric_for_best_model", "loss"]
    check(run(*flags).returncode == 0, "the run without a limit failed")
    best = json.loads((folder / "trainer_state.json").read_text())["best_model_checkpoint"]
    check(best == f"{folder}/checkpoint-2", best)
    damaged = pathlib.Path(best) / "state-00001-of-00001.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    again = run(*flags, "--resume_from_checkpoint")
    check(again.returncode == 0 and "the model of the last update is kept" in again.stderr, again.stderr)


def advice():
    """run_clm does nothing that the profiler advises against: it reads values every few steps, not at every step."""
    result = subprocess.run(
        [RUN_CLM, *map(str, ["--config_name", FOLDER / "config.json", "--train_file", FOLDER / "text.txt", "--max_steps", 30,
                             "--global_batch_size", 4, "--logging_steps", 10, "--per_device_eval_batch_size", 1, "--sample_tokens", 40])],
        capture_output=True, text=True, timeout=1000, env={**os.environ, "PT_XLA_DEBUG": "1"})
    check(result.returncode == 0 and "Compilation Analysis" in result.stderr, result.stderr)
    said = [line for line in result.stderr.splitlines() if line.startswith("pt-xla-profiler")]
    check(said == [], said)


def peaks():
    """The peak is that of the processors, however many ranks share them, so MFUs for different rank counts are comparable."""
    def peak(*arguments, cpus=None):
        bind = (lambda: os.sched_setaffinity(0, cpus)) if cpus else None
        result = subprocess.run(
            [RUN_CLM, *map(str, ["--config_name", FOLDER / "config.json", "--train_file", FOLDER / "text.txt", "--max_steps", 1,
                                 "--do_eval", "false", "--sample_tokens", 0, "--global_batch_size", 4, *arguments])],
            capture_output=True, text=True, timeout=1000, preexec_fn=bind)
        found = re.search(r"peak +([\d.]+) GFLOP/s: .*all ranks together", result.stdout)
        check(result.returncode == 0 and found, result.stdout + result.stderr)
        return float(found.group(1)), work(result.stdout)

    def work(text):
        """The operations that a step executes. The lines name both formulas."""
        parameters = re.search(r": (\d+) parameters", text).group(1)
        nominal = re.search(r"^work +6 N T = (\S+) FLOP per step, which the MFU counts\n +N = (\d+) parameters, T = (\d+) tokens$", text, re.M)
        attention = re.search(r"^ +attention adds 12 L d S T = (\S+) FLOP", text, re.M)
        executed = re.search(r"^ +the ranks execute (\S+) FLOP per step$", text, re.M)
        check(nominal and attention and executed and nominal.group(2) == parameters, text)
        flops = 6 * int(parameters) * int(nominal.group(3))
        check(abs(float(nominal.group(1)) / flops - 1) < 1e-3, text)
        return float(executed.group(1)) / (flops + float(attention.group(1)))

    one_cpu = {min(os.sched_getaffinity(0))}
    (alone, of_one), (crowd, of_four) = peak(cpus=one_cpu), peak("--virtual_ranks", 4, cpus=one_cpu)
    check(0.3 < of_one < 3 and abs(of_four / of_one - 1) < 0.15, f"executed divided by nominal operations: {of_one} and {of_four}")
    check(0.5 < crowd / alone < 2, f"peak of one rank on a processor {alone}, of four {crowd}")


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

    token_file = FOLDER / "text.tokens"
    subprocess.run([TESSERA, "tokenize", FOLDER / "text.txt", "-o", token_file], check=True, stdout=subprocess.DEVNULL)
    tokens = losses("tokens", "--train_file", token_file)
    check(tokens == expected, f"a token file: {tokens} instead of {expected}")
    workers = losses("workers", "--train_file", token_file, "--dataloader_num_workers", 3, "--dataloader_prefetch_factor", 1)
    check(workers == expected, f"worker threads: {workers} instead of {expected}")
    token_file.write_bytes(token_file.read_bytes()[:-8])
    truncated = run("--config_name", FOLDER / "config.json", "--train_file", token_file, "--virtual_ranks", 2)
    check(truncated.returncode == 1 and "text.tokens: truncated: " in truncated.stderr, truncated.stderr)

    dry = run("--config_name", FOLDER / "config.json", "--train_file", FOLDER / "text.txt", "--dry_run", "--mesh",
              "fsdp=4,model=3", "--fsdp", "full_shard", "--tensor_parallel", "model", "--global_batch_size", 8)
    check(dry.returncode == 0 and "memory of a device" in dry.stdout and "reduce-scatter" in dry.stdout, dry.stdout + dry.stderr)

    def memory(*arguments):
        result = run("--config_name", FOLDER / "config.json", "--train_file", FOLDER / "text.txt", "--block_size", 16, *arguments)
        check(result.returncode == 0, result.stdout + result.stderr)
        lines = result.stdout.splitlines()
        first = lines.index("memory of a device:")
        counts = [line for line in lines if " collectives that carry " in line or line.startswith("1 collective ")]
        return lines[first:first + 6] + counts

    # A dry run prints the memory that the executed step holds, even with chunks and with several programs per step.
    os.environ.update(TESSERA_LARGEST_VALUE="3000", TESSERA_LARGEST_SCORES="1000")
    for mesh in (["--mesh", "data=2"], ["--mesh", "fsdp=2", "--fsdp", "full_shard"], ["--mesh", "model=3", "--tensor_parallel", "model"]):
        for accumulation in (1, 3):
            step = [*mesh, "--global_batch_size", 4, "--gradient_accumulation_steps", accumulation]
            ranks = ["--virtual_ranks", mesh[1][-1], "--max_steps", 1, "--sample_tokens", 0, "--do_eval", "false"]
            planned, executed = memory(*step, "--dry_run"), memory(*step, *ranks)
            check(planned == executed, f"{step}: planned {planned}, executed {executed}")
            check(len(planned) == 7, planned)
    del os.environ["TESSERA_LARGEST_VALUE"], os.environ["TESSERA_LARGEST_SCORES"]

    def notes(*arguments):
        result = run("--config_name", FOLDER / "config.json", "--train_file", FOLDER / "text.txt", "--dry_run",
                     "--global_batch_size", 8, *arguments)
        check(result.returncode == 0, result.stderr)
        return [line for line in result.stdout.splitlines() if line.startswith("note ")]

    hybrid = notes("--mesh", "fsdp=4", "--fsdp", "hybrid_shard")
    check(len(hybrid) == 1 and "this is full_shard" in hybrid[0], hybrid)
    check(notes("--mesh", "data=2,fsdp=2", "--fsdp", "hybrid_shard") == [], "hybrid over two axes needs no note")
    offload = notes("--mesh", "fsdp=2", "--fsdp", "full_shard offload")
    check(offload == ["note       --fsdp: offload has no effect: weights already are in host memory"], offload)
    spare = notes("--mesh", "fsdp=2,spare=2", "--fsdp", "full_shard")
    check(len(spare) == 1 and "nothing is sharded over spare of mesh<fsdp=2, spare=2>" in spare[0], spare)

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
    check(again.returncode == 2 and "--overwrite_output_dir" in again.stderr, again.stderr)
    for part in (sampling, pretrained, other_models, refused_flags, optimizers, plans, resumed, best_model, best_model_is_lost, advice, peaks):
        part()


main()
