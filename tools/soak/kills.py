# SPDX-License-Identifier: Apache-2.0
"""Kills a training that saves every other step, at a random instant: the next start finds a checkpoint that is at most one save
old, continues with other ranks, and ends with the losses of the uninterrupted run.
"""
import json
import os
import random
import shutil
import signal
import subprocess
import time

from part import Failure
from processes import MPI_ENVIRONMENT, run, shown

SECONDS = 240
STEPS = 24
EVERY = 2
MODEL = {"model_type": "gpt2", "n_head": 3, "n_embd": 12, "n_layer": 2, "n_positions": 15, "vocab_size": 257,
         "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1}
LAYOUTS = [["--fsdp", "full_shard"], ["--mesh", "model=-1", "--tensor_parallel", "model"], [], ["--fsdp", "shard_grad_op"]]


class Kills:
    name = "kills"

    def __init__(self, soak):
        self.soak = soak
        self.expected = None

    def command(self, folder, ranks, layout):
        return ["mpirun", "-np", ranks, self.soak.bin / "run_clm", "--config_name", folder / "config.json", "--train_file",
                folder / "text.txt", "--block_size", 15, "--global_batch_size", 4, "--gradient_accumulation_steps", 2, "--max_steps",
                STEPS, "--logging_steps", 1, "--save_steps", EVERY, "--dtype", "float64", "--learning_rate", "1e-3", "--disable_tqdm",
                "--sample_tokens", 0, "--do_eval", "false", "--output_dir", folder / "out", *layout]

    def prepare(self, folder):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(MODEL))
        (folder / "text.txt").write_text(" ".join(str(i * i % 97) for i in range(1500)))

    def losses(self, folder):
        history = json.loads((folder / "out/trainer_state.json").read_text())["log_history"]
        return [entry["loss"] for entry in history]

    def uninterrupted(self):
        if self.expected is None:
            folder = self.soak.folder / "kills_uninterrupted"
            self.prepare(folder)
            run(self.command(folder, 1, []), SECONDS)
            self.expected = self.losses(folder)
        return self.expected

    def run(self, seed):
        draw = random.Random(seed)
        expected = self.uninterrupted()
        folder = self.soak.folder / f"kills_{seed}"
        self.prepare(folder)
        command = self.command(folder, draw.randint(1, 3), draw.choice(LAYOUTS))
        who = draw.choice(["rank", "all", "mpirun"])
        saved = self.start_and_kill(command, draw, who, folder)
        again = [*self.command(folder, draw.randint(1, 3), draw.choice(LAYOUTS)), "--overwrite_output_dir"]
        if saved:
            again += ["--resume_from_checkpoint"]
        outcome = run(again, SECONDS)
        self.soak.count(f"kills: of {who}")
        problem = self.problem(folder, outcome, saved, expected)
        if problem:
            self.soak.report(Failure(self.name, seed, f"{who} after step {saved}: {problem}", shown(again), folder, problem[:30]))
        else:
            shutil.rmtree(folder)

    def start_and_kill(self, command, draw, who, folder):
        """Returns the newest complete checkpoint just before the kill."""
        process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env={**os.environ, **MPI_ENVIRONMENT}, start_new_session=True)
        deadline = time.monotonic() + draw.uniform(0.2, 4)
        while time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.002)
        saved = self.newest(folder)
        ranks = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
        victims = {"mpirun": [process.pid], "all": ranks, "rank": draw.sample(ranks, min(1, len(ranks)))}[who]
        for victim in victims:
            try:
                os.kill(int(victim), signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            process.wait(30)
        finally:
            for rank in ranks:
                try:
                    os.kill(int(rank), signal.SIGKILL)  # orphans of mpirun
                except ProcessLookupError:
                    pass
        return saved

    def newest(self, folder):
        steps = [int(path.name.split("-")[1]) for path in (folder / "out").glob("checkpoint-*") if not path.name.endswith(".partial")]
        return max(steps, default=0)

    def problem(self, folder, outcome, saved, expected):
        if outcome.timed_out or outcome.code != 0:
            return f"the next start ends with {outcome.code}: {outcome.err.strip()[-300:]}"
        resumed = [line for line in outcome.out.splitlines() if line.startswith("resumed ")]
        if saved and (not resumed or int(resumed[0].split("step ")[1].split()[0]) < saved):
            return f"continues from {resumed}, although checkpoint-{saved} was complete"
        if list((folder / "out").glob("*.partial")):
            return "a partial checkpoint is left"
        worst = max((abs(a - b) for a, b in zip(self.losses(folder), expected)), default=1)
        if len(self.losses(folder)) != STEPS or worst > 1e-9:
            return f"{len(self.losses(folder))} losses, which differ by up to {worst:.1e}"
        return ""
