#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tessera launch on several nodes: a rank of another node, Open MPI's daemon there, and `tessera launch` itself are killed.

    namespaces.sh launch_nodes_test.py NODES TESSERA RUN_CLM MPIEXEC
namespaces.sh calls this script in place of mpirun, with the options that mpirun needs for these nodes.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TESSERA, RUN_CLM, MPIEXEC = sys.argv[-3:]
WORDS = sys.argv[1:-3]
STEPS = 20
MODEL = {"model_type": "gpt2", "n_head": 3, "n_embd": 12, "n_layer": 2, "n_positions": 15, "vocab_size": 257}


def check(condition, message):
    if not condition:
        sys.exit(f"launch_nodes_test: {message}")


def wait_for(condition, what, seconds=60):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.01)
    sys.exit(f"launch_nodes_test: no {what} after {seconds} s")


def processes(*words):
    """The processes whose command line contains all words, by id."""
    out = []
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if all(word in command for word in words) and int(path.name) != os.getpid():
                out.append(int(path.name))
        except OSError:
            pass
    return out


def host_of(process):
    return subprocess.run(["nsenter", "-t", str(process), "-u", "hostname"], capture_output=True, text=True).stdout.strip()


def start(folder, *options, **variables):
    (folder / "config.json").write_text(json.dumps(MODEL))
    (folder / "text.txt").write_text(" ".join(str(i * i % 97) for i in range(1500)))
    count = WORDS.index("-np")
    words = WORDS[:count] + WORDS[count + 2:]
    command = [TESSERA, "launch", "--launcher", MPIEXEC, *options, "--launcher-args", " ".join(words), "-np", WORDS[count + 1], "--",
               RUN_CLM, "--config_name", folder / "config.json", "--train_file", folder / "text.txt", "--block_size", 15, "--global_batch_size",
               6, "--max_steps", STEPS, "--logging_steps", 1, "--save_steps", 4, "--fsdp", "full_shard", "--disable_tqdm", "--sample_tokens", 0,
               "--do_eval", "false", "--output_dir", folder / "out"]
    with open(folder / "log.txt", "w") as log:
        return subprocess.Popen(list(map(str, command)), stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                                env={**os.environ, "TESSERA_RENAME_DELAY": "200", **variables})


def name_of(process):
    try:
        return pathlib.Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return ""


def on_node(node, name, *words):
    """The processes of this name on a node."""
    return [one for one in processes(name, *words) if name_of(one) == name and host_of(one) == f"node{node}"]


def interrupted_job(folder):
    """Kills a rank of node 1, the daemon of Open MPI there, and tessera launch. Returns the output."""
    def wait_for_checkpoint(step):
        wait_for((folder / f"out/checkpoint-{step}/manifest.json").exists, f"checkpoint-{step}")

    job = start(folder)
    try:
        wait_for_checkpoint(4)
        os.kill(wait_for(lambda: on_node(1, "run_clm", str(folder)), "ranks")[0], signal.SIGKILL)
        wait_for_checkpoint(8)
        os.kill(wait_for(lambda: on_node(1, "orted"), "daemon")[0], signal.SIGKILL)
        wait_for_checkpoint(12)
    finally:
        job.kill()
        print((folder / "log.txt").read_text())
    wait_for(lambda: not processes(str(folder)), "end of all processes")
    return (folder / "log.txt").read_text()


def main():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tessera_launch_nodes"))
    text = interrupted_job(folder)
    check(re.search(r"start 1 ended after .*: rank \d+ \(host node1, process \d+\) was killed by SIGKILL", text), "no cause of the first restart")
    check("restart 2 of at most 100" in text, "no second restart")
    again = start(folder, "--resume-first")
    check(again.wait(120) == 0, "the second job fails:\n" + (folder / "log.txt").read_text())
    check(len(json.loads((folder / "out/trainer_state.json").read_text())["log_history"]) == STEPS, "steps are missing")
    shutil.rmtree(folder)
    print("tessera launch restarts on", os.environ["TESSERA_TEST_NODES"], "nodes")


if __name__ == "__main__":
    main()
