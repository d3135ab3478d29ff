# SPDX-License-Identifier: Apache-2.0
"""run_clm's errors for wrong input: one message with the flag, file, key or rank and the correct form; every rank ends.

    run_clm_errors_test.py RUN_CLM MPIEXEC
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

RUN_CLM, MPIEXEC = os.path.abspath(sys.argv[1]), sys.argv[2]
FOLDER = pathlib.Path(tempfile.mkdtemp())
os.environ["HF_HOME"] = str(FOLDER / "huggingface")  # not the models of this machine
CONFIG = {"model_type": "gpt2", "n_embd": 12, "n_head": 3, "n_layer": 3, "n_positions": 16, "vocab_size": 259}
FAILURES = []


def check(condition, message):
    if not condition:
        FAILURES.append(message)
        print("FAIL", message, flush=True)


def write(name, content):
    path = FOLDER / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def run(*arguments, launcher=()):
    command = [*launcher, RUN_CLM, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, errors="replace")


def expect(arguments, error, status=1):
    """Compares the complete standard error (without paths) and the exit status."""
    result = run(*arguments)
    said = result.stderr.replace(str(FOLDER) + "/", "").rstrip("\n")
    check(said == error, f"{' '.join(map(str, arguments))}: said\n{said}\ninstead of\n{error}")
    check(result.returncode == status, f"{arguments}: status {result.returncode} instead of {status}")
    check("{" not in result.stdout, f"{arguments}: began to work:\n{result.stdout}")


def config(**changes):
    values = {**CONFIG, **changes}
    return write("changed.json", json.dumps(values))


def base(**changes):
    return ["--config_name", config(**changes), "--train_file", FOLDER / "text.txt", "--max_steps", 1]


def flags():
    usage = lambda *arguments: arguments
    expect(usage("--max_step", 5), 'run_clm: unknown option --max_step; did you mean "--max_steps"?', 2)
    expect(usage("--zzzzzzzzzz"), "run_clm: unknown option --zzzzzzzzzz; --help lists the options", 2)
    expect(usage("--max_steps"), "run_clm: --max_steps needs a value", 2)
    expect(usage("--max_steps", "many"), 'run_clm: --max_steps takes an integer, got "many"', 2)
    expect(usage("train.txt"), 'run_clm: unexpected argument "train.txt": an option starts with --, and a value follows its option', 2)
    expect(usage("--train_file", "t"), "run_clm: give --config_name, the config.json of a causal language model, or --model_name_or_path, a folder with config.json and model.safetensors", 2)
    expect(usage("--config_name", "c", "--train_file", "t", "--global_batch_size", 4, "--per_device_train_batch_size", 2),
           "run_clm: --per_device_train_batch_size and --global_batch_size exclude each other: the first is the number of samples for "
           "each data shard, the second that for all data shards", 2)
    expect(usage("--config_name", "c", "--train_file", "t", "--fsdp", "full_shart"),
           'run_clm: --fsdp: unknown option "full_shart"; did you mean "full_shard"?', 2)
    known = ["--config_name", "c", "--train_file", "t"]
    expect([*known, "--mesh", "data"], 'run_clm: --mesh: mesh "data": expected axis=size, as in data=2, got "data"', 2)
    expect([*known, "--mesh", "data=-1,model=-1"], 'run_clm: --mesh: mesh "data=-1,model=-1": only one axis may be -1', 2)
    expect([*known, "--mesh", "data=1", "--tensor_parallel", "dat"],
           'run_clm: --tensor_parallel: --mesh data=1 has no axis "dat"; did you mean "data"?', 2)
    expect([*known, "--mesh", "model=1", "--fsdp", "full_shard"],
           "run_clm: --fsdp shards over an axis called fsdp or data, and --mesh model=1 has neither", 2)
    expect([*known, "--tokenizer_name", "bpe:many"],
           "run_clm: tokenizer bpe:many: bpe: must be followed by the number of ids, as in bpe:1024", 2)
    expect([*known, "--tokenizer_name", "bpe:100"],
           "run_clm: bpe:100: a byte-level vocabulary has at least 257 ids (256 bytes and the end of text)", 2)
    expect([*known, "--virtual_ranks", "0"], "error: --virtual_ranks needs a number from 1 to 4096, got 0", 2)
    write("flags.json", '{"max_stepz": 3}')
    expect(usage(FOLDER / "flags.json"), 'run_clm: flags.json: unknown key "max_stepz"; did you mean "max_steps"?', 2)


def configurations():
    expect([*base(), "--model_type", "foo"], 'run_clm: --model_type: there is no model of model_type "foo"; known: gpt2, llama, mistral, qwen2, qwen3, mixtral, bert, resnet, vit', 2)
    expect(base(n_emdb=3), 'changed.json: unknown key "n_emdb"; did you mean "n_embd"?')
    expect(base(n_head=5), "changed.json: n_embd 12 is not a multiple of n_head 5")
    expect(base(n_layer="two"), 'changed.json: n_layer must be an integer, got "two"')
    expect(base(n_layer=-1), "changed.json: n_layer must be from 1 to 10000, got -1")
    expect(base(activation_function="gelu_new_"), 'changed.json: unknown activation_function "gelu_new_"; did you mean "gelu_new"?')
    expect(base(vocab_size=200), "the tokenizer bytes has 256 tokens, but the model's vocab_size is 200; make it 256 or more in changed.json, or with --config_overrides vocab_size=256")
    expect([*base(), "--block_size", 32], "--block_size 32 is more than the 16 positions of changed.json")
    bad = write("bad.json", '{"n_embd": 12,\n "n_head" 3}')
    expect(["--config_name", bad, *base()[2:]],
           "bad.json: not JSON at line 2, column 11: syntax error")
    expect(["--config_name", write("list.json", "[1, 2]"), *base()[2:]], "list.json: must hold a JSON object, got [1,2]")
    expect(["--config_name", write("deep.json", "[" * 100000), *base()[2:]],
           "deep.json: not JSON at line 1, column 201: too deep")
    fsdp = ["--fsdp", "full_shard", "--fsdp_config"]
    expect([*base(), *fsdp, write("fsdp.json", '{"fsdp_min_num_parms": 1}')],
           'run_clm: fsdp.json: unknown key "fsdp_min_num_parms"; did you mean "fsdp_min_num_params"?')
    expect([*base(), *fsdp, write("fsdp.json", '{"transformer_layer_cls_to_wrap": "GPT2Blok"}')],
           'no module of class GPT2Blok to wrap; did you mean "GPT2Block"?; classes of this model: Conv1D, Dropout, Embedding, '
           "GPT2Attention, GPT2Block, GPT2LMHeadModel, GPT2MLP, GPT2Model, LayerNorm, Linear, ModuleList")


def files():
    absent = FOLDER / "absent.txt"
    expect(["--config_name", absent, *base()[2:]], "--config_name: cannot read absent.txt: No such file or directory; it must be a "
           "config.json, or a folder that contains one")
    expect(["--config_name", FOLDER, *base()[2:]], "--config_name: cannot read config.json: No such file or directory; it must be a "
           "config.json, or a folder that contains one")
    expect(["--model_name_or_path", "gpt2", *base()[2:]], "--model_name_or_path: cannot read gpt2/config.json: No such file or "
           "directory; it must be a folder, or the name of a model in --cache_dir or $HF_HOME/hub, because run_clm downloads nothing")
    expect([*base()[:2], "--train_file", absent], "--train_file: cannot read absent.txt: No such file or directory")
    (FOLDER / "none").mkdir()
    expect([*base()[:2], "--train_file", FOLDER / "none"], "the folder none has no file *.txt or *.jsonl")
    expect([*base(), "--tokenizer_name", absent], "--tokenizer_name: cannot read absent.txt: No such file or directory; it must be "
           "bytes, bpe:N or the file of a vocabulary")
    out = ["--output_dir", FOLDER / "resumed", "--resume_from_checkpoint"]
    expect([*base(), *out, "true"], "--resume_from_checkpoint true: resumed contains no checkpoint")
    check(not (FOLDER / "resumed").exists(), "a run that could not resume left an output folder")
    (FOLDER / "resumed/checkpoint-7").mkdir(parents=True)
    expect([*base(), *out, FOLDER / "resumed/checkpoint-5"],
           "cannot load a checkpoint: there is no folder resumed/checkpoint-5")
    expect([*base(), *out, FOLDER / "resumed"], "cannot load a checkpoint: resumed is not a complete checkpoint: it contains no "
           "manifest.json")
    expect([*base(), "--tokenizer_name", write("garbage.bpe", bytes(range(256)))],
           'garbage.bpe:1: a merge is two tokens with a blank between them, got "\\000\\001\\002\\003\\004\\005\\006\\007\\010\\t"')
    expect([*base(), "--tokenizer_name", write("garbage.json", "{")],
           "garbage.json: not JSON at line 1, column 2: incomplete JSON")
    expect([*base()[:2], "--train_file", write("empty.txt", "")],
           "empty.txt gives 0 tokens to train on, fewer than the 16 of a block; give a longer text or a smaller --block_size")
    expect([*base()[:2], "--train_file", write("short.txt", "In the begin")],
           "short.txt gives 12 tokens to train on, fewer than the 16 of a block; give a longer text or a smaller --block_size")
    expect([*base(), "--output_dir", FOLDER / "text.txt"], "cannot create the folder text.txt: Not a directory")


def environment():
    for name, value, error in [
            ("TESSERA_NUM_THREADS", "x", "TESSERA_NUM_THREADS=x: must be an integer (compute threads of a rank)"),
            ("PJRT_DEVICE", "TPU", "PJRT_DEVICE=TPU: unknown backend; known: CPU, REFERENCE")]:
        os.environ[name] = value
        expect(base(), error)
        del os.environ[name]


def meshes():
    hint = "\n  mpirun -np N and --virtual_ranks N create N ranks; --dry_run plans for any mesh without them"
    expect([*base(), "--mesh", "data=2,model=2"],
           '--mesh: mesh "data=2,model=2" has 4 devices; its axes must multiply to 1, the number of devices (ranks)' + hint)
    expect([*base(), "--expert_parallel", "e"], 'run_clm: --expert_parallel: the default mesh data=-1 has no axis "e"; give a mesh with this '
           "axis, such as --mesh data=-1,e=2", 2)


def mpi(ranks, *arguments, environment=None, parts=None):
    command = [MPIEXEC, "--oversubscribe"]
    for place, (count, folder, *own) in enumerate(parts or [(ranks, FOLDER)]):
        command += [":"] * (place > 0) + ["-n", str(count), "-wdir", str(folder), RUN_CLM, *map(str, [*arguments, *own])]
    begin = time.time()
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, errors="replace",
                            env={**os.environ, **(environment or {})})
    return result, time.time() - begin


def once(result, text, name):
    check(result.returncode != 0, f"{name}: status 0")
    # `all 4 ranks: …`, or `ranks 0, 2, 3 of 4: …` if one rank has not yet reached the check on a busy machine.
    said = re.sub(r"ranks [\d, ]+ of \d+: |all \d+ ranks: ", "ranks: ", result.stderr)
    check(said.count(text) == 1, f"{name}: not once: {text}\n{result.stderr}")


def ranks():
    result, _ = mpi(4, "--max_step", 5)
    once(result, 'run_clm: unknown option --max_step; did you mean "--max_steps"?', "unknown option under mpirun")
    check(result.returncode == 2, f"unknown option under mpirun: status {result.returncode}")
    result, _ = mpi(4, *base(vocab_size=200))
    once(result, "ranks: the tokenizer bytes has 256 tokens, but the model's vocab_size is 200", "small vocabulary under mpirun")
    result, _ = mpi(3, *base(), "--mesh", "data=2")
    once(result, 'ranks: --mesh: mesh "data=2" has 2 devices; its axes must multiply to 3', "wrong mesh under mpirun")
    result, _ = mpi(2, *base()[:2], "--train_file", "absent.txt")
    once(result, "rank 0 of 2: --train_file: none of 2 ranks can read absent.txt: No such file or directory", "file missing everywhere")

    result, _ = mpi(3, *base(), parts=[(2, FOLDER, "--mesh", "data=-1"), (1, FOLDER, "--mesh", "fsdp=-1", "--seed", 7)])
    once(result, "ranks: ranks were started with different arguments; give every rank the same:\n"
         "  --seed is 42 on ranks 0, 1; 7 on rank 2\n  --mesh is data=-1 on ranks 0, 1; fsdp=-1 on rank 2", "different arguments")

    result, _ = mpi(3, *base(), environment={"TESSERA_NODE": "a,b"})
    once(result, "TESSERA_NODE lists 2 nodes for 3 ranks; give one for each rank", "too few nodes")
    check("terminate called" not in result.stderr, "too few nodes: " + result.stderr)

    # The same relative path, but the folder in which rank 2 runs lacks the file.
    other = FOLDER / "elsewhere"
    other.mkdir()
    parts = [(2, FOLDER), (1, other), (1, FOLDER)]
    result, seconds = mpi(4, *base()[:2], "--train_file", "text.txt", parts=parts)
    host = os.uname().nodename
    once(result, f"rank 2 of 4: --train_file: rank 2 on host {host} cannot read text.txt: No such file or directory; ranks 0, 1, 3 can: "
         "the file must exist on every rank", "file missing on one rank")
    check(seconds < 10, f"file missing on one rank: took {seconds:.1f} s")

    # The file now exists with the same length as on the other ranks, but one word differs.
    (other / "text.txt").write_text((FOLDER / "text.txt").read_text().replace("mesh", "mush", 1))
    result, seconds = mpi(4, *base()[:2], "--train_file", "text.txt", parts=parts)
    check(re.search(rf"rank 2 of 4: --train_file: text.txt is not the same file on every rank: rank 0 on host {host} reads (\d+) bytes "
                    rf"\(hash [0-9a-f]{{16}}\), rank 2 on host {host} reads \1 bytes", result.stderr),
          "file differs on one rank: " + result.stderr)
    check(result.returncode != 0 and seconds < 10, f"file differs on one rank: status {result.returncode}, {seconds:.1f} s")


def streams():
    """If output cannot be written, the exit status reports an error."""
    def full(*arguments, stream="stdout"):
        with open("/dev/full", "w") as device:
            outputs = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: device}
            result = subprocess.run([RUN_CLM, *map(str, arguments)], text=True, timeout=300, **outputs)
        check(result.returncode == 1, f"{stream} is /dev/full, {arguments}: status {result.returncode}")
        return result

    error = "cannot write to standard output: No space left on device"
    short = [*base(), "--sample_tokens", 2]
    for arguments in (["--help"], [*base(), "--dry_run"], short, [*short, "--virtual_ranks", "2"]):
        said = full(*arguments).stderr
        check(said.count("cannot write to standard output") == 1, f"{arguments}: {said}")
        check(error in said or "--help" in arguments, f"{arguments}: {said}")
    full(*short, "--logging_steps", 1, stream="stderr")
    (folder := FOLDER / "full").mkdir()
    (folder / "trainer_state.json").symlink_to("/dev/full")
    result = run(*short, "--output_dir", folder, "--overwrite_output_dir")
    check(result.returncode == 1 and "trainer_state.json: No space left on device" in result.stderr, f"full state: {result}")


class Job:
    """A training run without an end. Its output goes to a file."""

    def __init__(self, name, *arguments, launcher=(), until="  loss "):
        self.folder, self.log = FOLDER / name, FOLDER / f"{name}.log"
        command = [*launcher, RUN_CLM, *map(str, base()[:4]), "--max_steps", "1000000", "--logging_steps", "1000000",
                   "--logging_first_step", "--global_batch_size", "4", "--output_dir", self.folder, *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=open(self.log, "w"), stderr=subprocess.STDOUT)
        deadline = time.time() + 300
        while until not in self.text() and time.time() < deadline and self.process.poll() is None:
            time.sleep(0.05)

    def text(self):
        return self.log.read_text(errors="replace")

    def status(self, seconds):
        try:
            return self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            for process in [*children(self.process.pid), self.process.pid]:
                os.kill(process, signal.SIGKILL)
            return "no end"

    def state(self, name):
        """The log of the stopped run: its last entry is that of the last step, with a loss."""
        check((path := self.folder / "trainer_state.json").exists(), f"{name}: no trainer_state.json\n{self.text()}")
        if not path.exists():
            return
        state = json.loads(path.read_text())
        last = state["log_history"][-1]
        check(last["step"] == state["global_step"] > 1 and last["loss"] > 0, f"{name}: {state}")
        check(f"after step {state['global_step']} of 1000000; continue with --resume_from_checkpoint true" in self.text(), f"{name}: {self.text()}")


def folders():
    """An output folder that another run uses, remains of interrupted saves, and folders that are not checkpoints."""
    job = Job("used")
    expect([*base(), *(output := ["--output_dir", FOLDER / "used", "--overwrite_output_dir"])], "another run uses used; give another --output_dir, or wait for its end")
    job.process.send_signal(signal.SIGKILL)
    job.process.wait()
    left = ["model.safetensors.partial", "trainer_state.json.tmp7.0"]
    for name in left:
        (FOLDER / "used" / name).write_text("x")
    again = run(*base(), *output, "--sample_tokens", 0)
    check(again.returncode == 0, again.stderr)
    for name in left:
        check(f"{name}, which an interrupted save left" in again.stderr and not (FOLDER / "used" / name).exists(), again.stderr)
    expect([*base(), "--resume_from_checkpoint", FOLDER / "no"],
           "cannot load a checkpoint: there is no folder no")
    checkpoint = FOLDER / "used/checkpoint-1"
    expect([*base(), "--model_name_or_path", checkpoint],
           "used/checkpoint-1 is a checkpoint, not a model folder; write one with: tessera checkpoint consolidate used/checkpoint-1 -o FOLDER")
    resumed = run(*base(), "--sample_tokens", 0, "--resume_from_checkpoint", "True", "--output_dir", FOLDER / "used")
    check(resumed.returncode == 0 and "checkpoint-1: step 1 of 1" in resumed.stdout, resumed.stdout + resumed.stderr)


def evaluations():
    short = write("short_validation.txt", "In the begin")
    expect([*base(), "--validation_file", short],
           "--validation_file short_validation.txt has less than a block of 16 tokens; give a longer text or a smaller --block_size")
    expect([*base(), "--eval_strategy", "steps", "--validation_split_percentage", 0], "--eval_strategy steps needs held-out samples, and there "
           "are none; give a longer --validation_file or a larger --validation_split_percentage")
    expect([*base(), "--metric_for_best_model", "accuracy"],
           'run_clm: --metric_for_best_model takes one of loss, eval_loss, perplexity, eval_perplexity, bits_per_byte, eval_bits_per_byte, '
           'got "accuracy"', 2)


def stopped():
    """The first signal ends the run after the current step and writes its state. A second one ends it immediately."""
    for number, status in ((signal.SIGINT, 130), (signal.SIGUSR1, 138), (signal.SIGTERM, 143)):
        for name, arguments in (("one", []), ("virtual", ["--virtual_ranks", "3"])):
            job = Job(f"stopped_{name}_{status}", *arguments)
            time.sleep(0.3)
            job.process.send_signal(number)
            found = job.status(20)
            check(found == status, f"stopped {name} by {number}: status {found}\n{job.text()}")
            check(f"stopped by {number.name} after step" in job.text(), job.text())
            job.state(f"stopped {name}")

    # One of four ranks gets the signal: all end after the same step.
    four = [MPIEXEC, "--oversubscribe", "-n", "4"]
    job = Job("stopped_rank", "--mesh", "data=2,model=2", "--fsdp", "full_shard", "--tensor_parallel", "model", launcher=four)
    ranks = children(job.process.pid)
    check(len(ranks) == 4, f"stopped rank: 4 ranks expected, found {ranks}\n{job.text()}")
    time.sleep(0.3)
    os.kill((ranks or [job.process.pid])[-1], signal.SIGTERM)
    found = job.status(20)
    check(found == 143, f"stopped rank: status {found}\n{job.text()}")
    job.state("stopped rank")

    # Ctrl-C for mpirun, which sends its ranks a signal of its choice.
    job = Job("stopped_mpirun", launcher=four)
    time.sleep(0.3)
    job.process.send_signal(signal.SIGINT)
    found = job.status(20)
    check(found not in (0, "no end"), f"stopped mpirun: status {found}\n{job.text()}")
    check((job.folder / "trainer_state.json").exists(), f"stopped mpirun: no state\n{job.text()}")
    # A step that takes many seconds: the text has more than 4000 micro-batches.
    job = Job("stopped_twice", "--train_file", write("long.txt", (FOLDER / "text.txt").read_text() * 60), "--gradient_accumulation_steps", 4000, until="peak ")
    job.process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    check(job.process.poll() is None, "stopped twice: a step of many seconds was over at once\n" + job.text())
    job.process.send_signal(signal.SIGINT)
    found = job.status(2)
    check(found == -signal.SIGINT, f"stopped twice: status {found}\n{job.text()}")


def children(process):
    """The processes that mpirun started, in rank order."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            command = (entry / "cmdline").read_text(errors="replace")
        except OSError:
            continue
        if parent == process and command.startswith(RUN_CLM):
            found.append(int(entry.name))
    return sorted(found)


def killed():
    """kill -9 for one of four ranks during training."""
    command = [MPIEXEC, "--oversubscribe", "-n", "4", RUN_CLM, *map(str, base()[:4]), "--max_steps", "1000000",
               "--logging_steps", "20", "--mesh", "data=2,model=2", "--fsdp", "full_shard", "--tensor_parallel", "model",
               "--global_batch_size", "4", "--do_eval", "false"]
    out = open(FOLDER / "killed.out", "w+")
    job = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
    text = lambda: (FOLDER / "killed.out").read_text(errors="replace")
    deadline = time.time() + 300
    while "step     40" not in text() and time.time() < deadline and job.poll() is None:
        time.sleep(0.1)
    found = children(job.pid)
    if len(found) != 4:
        job.kill()
        return check(False, f"killed: 4 ranks expected, found {found}\n{text()}")
    begin = time.time()
    os.kill(found[2], signal.SIGKILL)
    try:
        status = job.wait(timeout=20)
    except subprocess.TimeoutExpired:
        job.kill()
        return check(False, "killed: the job goes on after 20 s\n" + text())
    seconds = time.time() - begin
    check(seconds < 10, f"killed: the job ended after {seconds:.1f} s")
    check(status != 0, "killed: status 0")
    names_rank = re.search(r"rank 2 of 4 died \(process \d+\) while rank \d waited in|process rank 2 with PID \d+", text())
    check(names_rank, "killed: nobody names the rank\n" + text())
    deadline = time.time() + 5
    alive = lambda: [pid for pid in found if pathlib.Path(f"/proc/{pid}/exe").exists()]
    while alive() and time.time() < deadline:
        time.sleep(0.1)
    left = alive()
    check(not left, f"killed: processes {left} are left")


def main():
    words = ["mesh", "shard", "axis", "rank", "device", "partial", "group", "unit"]
    write("text.txt", " ".join(words[(i * i + i // 3) % 8] for i in range(900)))
    for part in (flags, configurations, files, folders, evaluations, environment, meshes, streams, ranks, killed, stopped):
        part()
    sys.exit(f"run_clm_errors_test: {len(FAILURES)} failed" if FAILURES else 0)


main()
