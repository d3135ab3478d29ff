# SPDX-License-Identifier: Apache-2.0
"""--dry_run, --max_memory_per_rank and --auto_find_batch_size of the training programs, and the line about hidden communication.

    plans_test.py RUN_CLM RUN_MLM RUN_CLASSIFICATION TRAIN_IMAGENET MPIEXEC
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

RUN_CLM, RUN_MLM, RUN_CLASSIFICATION, TRAIN_IMAGENET, MPIEXEC = sys.argv[1:6]
FOLDER = pathlib.Path(tempfile.mkdtemp())
os.environ["HF_HOME"] = str(FOLDER / "huggingface")  # not the models of this machine
TWO = ["--virtual_ranks", 2]
CHOSEN = re.compile(r"^note +--auto_find_batch_size chose (\d+) rows for each data shard: a rank needs \S+, with (\d+) rows \S+, and may have \S+ \((.*)\)$", re.M)


def check(condition, message):
    if not condition:
        sys.exit(f"plans_test: {message}")


def run(*command, status=0, **environment):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=1500, env={**os.environ, **environment})
    check(result.returncode == status, f"{command}: status {result.returncode}\n{result.stdout[-2000:]}{result.stderr[-2000:]}")
    return result


def write_inputs():
    words = ["mesh", "shard", "axis", "rank", "device", "partial", "group", "unit"]
    (FOLDER / "text.txt").write_text("\n".join(" ".join(words[(i * i + j) % 8] for j in range(6)) for i in range(150)))
    (FOLDER / "gpt2.json").write_text(json.dumps({
        "model_type": "gpt2", "n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 16, "vocab_size": 256, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
        "attn_pdrop": 0.0}))
    (FOLDER / "bert.json").write_text(json.dumps({
        "model_type": "bert", "vocab_size": 261, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40,
        "max_position_embeddings": 32}))
    (FOLDER / "train.tsv").write_text("sentence\tlabel\n" + "".join(f"{words[i % 8]} {words[i // 8]}\t{i % 3}\n" for i in range(60)))


def clm(*arguments, **options):
    return run(*options.pop("launcher", ()), RUN_CLM, "--config_name", FOLDER / "gpt2.json", "--train_file", FOLDER / "text.txt", "--max_steps", 1,
               "--sample_tokens", 0, "--do_eval", "false", *arguments, **options)


def memory(result):
    """The lines about the memory of a device and the number of collectives."""
    lines = result.stdout.splitlines()
    first = lines.index("memory of a device:")
    return lines[first:first + 6] + [line for line in lines if " collectives" in line and " received by each device" in line]


def check_process(result, when):
    """Below the plan, a line has what the process holds in addition."""
    line = re.search(r"^  process \(libraries, MPI, allocator\) +([0-9.]+)(MB|GB)  \(measured (.*), not planned\)$", result.stdout, re.M)
    check(line and float(line[1]) > 1 and line[3] == when, result.stdout)


def peak(result):
    return int(re.search(r"total at the peak .*\(([0-9]+) bytes\)", result.stdout).group(1))


def dry_runs():
    """A plan needs no data, and is that of the run."""
    bert = ["--config_name", FOLDER / "bert.json", "--max_seq_length", 16]
    step = ["--max_steps", 1, "--do_eval", "false"]
    text, table = ["--train_file", FOLDER / "text.txt"], ["--train_file", FOLDER / "train.tsv", "--pad_to_max_length"]
    fake = ["--fake_data", "--fake_data_samples", 16]
    programs = {  # the program, the flags of its model, those of its data, and what its banner says
        "mlm": ([RUN_MLM, *bert], text, "sequences of 16 tokens"),
        "classification": ([RUN_CLASSIFICATION, *bert], table, "3 labels"),
        "images": ([TRAIN_IMAGENET, "--model", "tiny", "--image_size", 17, "--fake_data_classes", 5], fake, "5 classes")}
    for name, (model, data, said) in programs.items():
        layout = ["--mesh", "fsdp=2", "--fsdp", "full_shard", "--gradient_accumulation_steps", 3 if name == "mlm" else 1]
        dry, trained = run(*model, *data, *layout, "--dry_run"), run(*model, *data, *layout, *step, *TWO)
        check(memory(dry) == memory(trained) and len(memory(dry)) == 7, f"{name}: planned {memory(dry)}, executed {memory(trained)}")
        check_process(dry, "at the start of this dry run")
        check_process(trained, "before the first update")
        check(said in dry.stdout and "a plan for 2 devices" in dry.stdout and "FLOP per step" in dry.stdout, dry.stdout)
        without = run(*model, "--dry_run", "--mesh", "data=3,fsdp=4", "--fsdp", "full_shard")
        check("a plan for 12 devices" in without.stdout and "reduce-scatter" in without.stdout, without.stdout)
        curve = run(*model, "--dry_run", "--mesh", "data=2", "--max_memory_per_rank", "1TB")
        check("memory of a rank, modelled time of a step" in curve.stdout and "nothing is recomputed" in curve.stdout, curve.stdout)
    rows = run(*programs["images"][0], "--dry_run", "--mesh", "data=2,rows=2", "--spatial_sharding", "rows", "--batch_size", 4)
    check("image rows over rows" in rows.stdout and "FLOP per step" in rows.stdout, rows.stdout)


def batches():
    """The batch is halved until the plan fits, equally in a dry run and on all ranks."""
    many = ["--per_device_train_batch_size", 96]
    dry = clm(*many, "--dry_run", "--mesh", "data=2")
    limit = ["--max_memory_per_rank", f"{peak(dry) // 6}B"]
    find = [*many, "--auto_find_batch_size", *limit]
    plan = clm(*find, "--dry_run", "--mesh", "data=2")
    chosen, larger, what = CHOSEN.search(plan.stdout).groups()
    check(int(chosen) == int(larger) // 2 < 96 and what == " ".join(limit), plan.stdout)
    check(f"batch      {2 * int(chosen)} x 1 accumulation" in plan.stdout, plan.stdout)
    folder = FOLDER / "out"
    for options in ({}, {"launcher": (MPIEXEC, "--oversubscribe", "-n", "2")}):
        ranks = [] if options else [*TWO, "--output_dir", folder]
        result = clm(*find, *ranks, "--gradient_accumulation_steps", 1, **options)
        check(CHOSEN.search(result.stdout).groups() == (chosen, larger, what), result.stdout)
    kept = clm(*many, "--auto_find_batch_size", "--max_memory_per_rank", "1TB", "--dry_run")
    check("keeps 96 rows for each data shard" in kept.stdout, kept.stdout)
    # A run that continues has the batches of its checkpoint, although there are more ranks now.
    again = clm("--auto_find_batch_size", "--max_steps", 2, "--virtual_ranks", 3, "--output_dir", folder, "--resume_from_checkpoint")
    check(f"the run continues with its batches of {2 * int(chosen)} rows" in again.stdout and "the run had batches" not in again.stderr, again.stdout + again.stderr)
    image = run(TRAIN_IMAGENET, "--dry_run", "--model", "tiny", "--image_size", 33, "--batch_size", 64, "--auto_find_batch_size", TESSERA_MEMORY_LIMIT="0")
    check("keeps 64 rows for each data shard" in image.stdout and "any amount (TESSERA_MEMORY_LIMIT=0)" in image.stdout, image.stdout)


def memory_limits():
    """A batch that was chosen for the limit of a process starts; the given one does not."""
    many = ["--per_device_train_batch_size", 2048]
    mega = {"KB": 1 / 1024, "MB": 1, "GB": 1024}
    refused = clm(*many, status=1, TESSERA_MEMORY_LIMIT="1MB").stderr
    size = re.search(r"rank 0: (\S+) in use and \S+ for the program", refused).group(1)
    used, needed = float(size[:-2]) * mega[size[-2:]], peak(clm(*many, "--dry_run")) / (1 << 20)
    limit = f"{used + 0.75 * needed + 16:.0f}MB"
    clm(*many, status=1, TESSERA_MEMORY_LIMIT=limit)
    found = clm(*many, "--auto_find_batch_size", TESSERA_MEMORY_LIMIT=limit)
    chosen, larger, what = CHOSEN.search(found.stdout).groups()
    check(int(chosen) < 2048 and what == f"TESSERA_MEMORY_LIMIT={limit}", found.stdout)
    # An evaluation that does not fit is refused before the first update.
    little = {"TESSERA_MEMORY_LIMIT": f"{used + 160:.0f}MB"}
    clm("--do_eval", "true", "--per_device_eval_batch_size", 16, **little)
    evaluation = clm("--do_eval", "true", "--per_device_eval_batch_size", 500000, status=1, **little)
    refusal = "--per_device_eval_batch_size 500000: an evaluation does not fit into memory: the process of rank 0: "
    check(evaluation.stderr.count(refusal) == 1 and "step 1" not in evaluation.stdout, evaluation.stdout + evaluation.stderr)
    too_little = "--auto_find_batch_size: a step with 1 row for each data shard does not fit: the plan of a rank needs"
    budget = ["--max_memory_per_rank", "10KB"]
    for words, least, reason in (([], "1MB", too_little), (budget, "1MB", too_little),
                                 (budget, "0", "--max_memory_per_rank 10KB: the step does not fit even if all possible values are recomputed")):
        text = clm("--auto_find_batch_size", *words, *TWO, status=1, TESSERA_MEMORY_LIMIT=least).stderr
        check(text.count(reason) == 1 and "possible remedies: more ranks" in text, text)


def flags():
    def message(*words, program=RUN_CLM):
        return run(program, "--config_name", FOLDER / "gpt2.json", "--train_file", FOLDER / "text.txt", *words, status=2).stderr
    check("so it excludes --global_batch_size 8" in message("--auto_find_batch_size", "--global_batch_size", 8), "--global_batch_size")
    check("exclude each other: a layout is chosen for a given batch" in message("--auto_find_batch_size", "--auto_shard"), "--auto_shard")
    check("--deferred_init false is not supported: each rank always creates only its shards" in message("--deferred_init", "false"), "--deferred_init false")


def hidden_communication():
    two = clm("--deferred_init", "--fsdp", "full_shard", "--max_steps", 3, *TWO)
    host = re.search(r"^host +the execution of rank 0 waited for the host in (\d+)% of the time: \S+ s of \S+ s\n +batches took \S+ s, compilations \S+ s$",
                     two.stdout, re.M)
    check(host and int(host[1]) <= 100, two.stdout)
    check("computation hid" not in two.stdout, "ranks of one node read operands in place, so computation cannot hide it")
    nodes = clm("--fsdp", "full_shard", "--max_steps", 3, *TWO, TESSERA_NODE="a,b").stdout
    line = re.search(r"^overlap +computation hid (\d+)% of the communication of rank 0: \S+ s of \S+ s$", nodes, re.M)
    check(line and 0 <= int(line.group(1)) <= 100, nodes)
    one = clm().stdout
    check("computation hid" not in one, "one rank communicates")
    check("waited for the host" not in one, "there is only one update")


write_inputs()
for part in (dry_runs, batches, memory_limits, flags, hidden_communication):
    part()
