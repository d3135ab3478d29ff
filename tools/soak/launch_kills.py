# SPDX-License-Identifier: Apache-2.0
"""Kills jobs of `tessera launch` five times each, once while a checkpoint gets its name: a job continues by itself from a
checkpoint that is at most one save old, ends with the losses of the uninterrupted run, and leaves nothing.

200 jobs are 1,000 kills: tools/soak.sh --part "launch kills" --count 200
"""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import time

from kills import LAYOUTS, MODEL
from part import Failure
from processes import MPI_ENVIRONMENT, run, shown

STEPS = 60
EVERY = 2
KILLS = 5
SECONDS = 120


def children(process):
    out = []
    try:
        for path in pathlib.Path(f"/proc/{process}/task").glob("*/children"):
            out += [int(word) for word in path.read_text().split()]
    except OSError:
        pass  # it has ended
    return out


def kill(process):
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        pass


def is_used(folder):
    """True if a process holds the lock of the folder of a job. Does not take the lock itself: a job that ends would keep its folder."""
    try:
        inode = (folder / "lock").stat().st_ino
    except OSError:
        return folder.exists()
    return any(line.split(":")[-1].split()[0] == str(inode) for line in pathlib.Path("/proc/locks").read_text().splitlines())


class Job:
    """A job, which is started again if `tessera launch` itself was killed."""

    def __init__(self, command, folder, delay):
        self.command = list(map(str, command))
        self.folder = folder
        self.environment = {**os.environ, **MPI_ENVIRONMENT, "TESSERA_RENAME_DELAY": str(delay)}
        self.kills = []  # (who, the newest checkpoint before, the length of the output before)
        self.start([])

    def start(self, options):
        with open(self.folder / "out.txt", "ab") as out, open(self.folder / "err.txt", "ab") as err:
            self.process = subprocess.Popen([self.command[0], "launch", *options, *self.command[1:]], stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=err, env=self.environment, start_new_session=True)

    def launcher(self):
        return (children(self.process.pid) or [None])[0]

    def ranks(self):
        launcher = self.launcher()
        return [rank for wrapper in children(launcher) for rank in children(wrapper)] if launcher else []

    def processes(self):
        """All processes that work in the folder of the job."""
        out = []
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if str(self.folder).encode() in (path / "cmdline").read_bytes() and "\nState:\tZ" not in (path / "status").read_text():
                    out.append(int(path.name))
            except OSError:
                pass
        return out

    def newest(self):
        return max((int(path.parent.name.split("-")[1]) for path in self.folder.glob("out/checkpoint-*/manifest.json")
                    if not path.parent.name.endswith(".partial")), default=0)

    def kill(self, who, draw):
        """Returns False if the job has ended before."""
        if self.process.poll() is not None:
            return False
        ranks = self.ranks()
        self.kills.append((who, self.newest(), (self.folder / "out.txt").stat().st_size))
        victims = {"rank": draw.sample(ranks, min(1, len(ranks))), "all": ranks, "mpirun": [self.launcher()], "launch": [self.process.pid]}[who]
        for victim in filter(None, victims):
            kill(victim)
        if who == "launch":
            self.process.wait()
            wait_until(lambda: not self.processes(), 30)
            self.start(["--resume-first"])
        else:
            wait_until(lambda: self.process.poll() is not None or not set(ranks) & set(self.ranks()), 30)
        return True


def wait_until(condition, seconds):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.002)
    return False


class LaunchKills:
    name = "launch kills"

    def __init__(self, soak):
        self.soak = soak
        self.expected = None

    def training(self, folder, layout):
        return [self.soak.bin / "run_clm", "--config_name", folder / "config.json", "--train_file", folder / "text.txt", "--block_size", 15,
                "--global_batch_size", 4, "--gradient_accumulation_steps", 2, "--max_steps", STEPS, "--logging_steps", 1, "--save_steps", EVERY,
                "--dtype", "float64", "--learning_rate", "1e-3", "--disable_tqdm", "--sample_tokens", 0, "--do_eval", "false", "--output_dir",
                folder / "out", *layout]

    def prepare(self, folder):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(MODEL))
        (folder / "text.txt").write_text(" ".join(str(i * i % 97) for i in range(1500)))

    def losses(self, folder):
        try:
            history = json.loads((folder / "out/trainer_state.json").read_text())["log_history"]
            return [entry["loss"] for entry in history if "loss" in entry]
        except FileNotFoundError:
            return []

    def uninterrupted(self):
        with self.soak.lock:
            if self.expected is None:
                folder = self.soak.folder / "launch_kills_uninterrupted"
                self.prepare(folder)
                run(self.training(folder, []), SECONDS)
                self.expected = self.losses(folder)
        return self.expected

    def run(self, seed):
        draw = random.Random(seed)
        expected = self.uninterrupted()
        folder = self.soak.folder / f"launch_kills_{seed}"
        self.prepare(folder)
        delay = draw.randint(30, 120)
        command = [self.soak.bin / "tessera", "-np", draw.randint(1, 3), "--crash-loop", 1000, "--", *self.training(folder, draw.choice(LAYOUTS))]
        job = Job(command, folder, delay)
        in_window = draw.randrange(KILLS)
        for number in range(KILLS):
            wait_until(lambda: job.process.poll() is not None or job.ranks(), 30)
            if number == in_window:
                self.wait_for_window(job, draw, delay)
            else:
                time.sleep(draw.uniform(0, 1.5))
            who = draw.choice(["rank", "rank", "all", "mpirun", "launch"])
            if job.kill(who, draw):
                self.soak.count(f"launch kills: of {who}")
                self.soak.count("launch kills: while a checkpoint gets its name", number == in_window)
        self.end(job, seed, expected)

    def wait_for_window(self, job, draw, delay):
        """Waits until a complete checkpoint waits for its name, and then at most until it has waited with it."""
        wait_until(lambda: job.process.poll() is not None or list(job.folder.glob("out/checkpoint-*.partial/manifest.json")), 30)
        time.sleep(draw.uniform(0, 2 * delay / 1000))

    def end(self, job, seed, expected):
        try:
            code = job.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            code = "a timeout"
        problem = f"the job ends with {code}" if code != 0 else self.problem(job, expected)
        left = self.left(job)
        if problem or left:
            self.soak.report(Failure(self.name, seed, f"{job.kills}: {problem or left}", shown(job.command), job.folder, (problem or left)[:20]))
        else:
            shutil.rmtree(job.folder)

    def problem(self, job, expected):
        out = (job.folder / "out.txt").read_bytes()
        restarts = (job.folder / "err.txt").read_text(errors="replace").count("tessera launch: restart ")
        restarts += sum(who == "launch" for who, _, _ in job.kills)
        self.soak.count("launch kills: restarts", restarts)
        for who, saved, length in job.kills:
            resumed = re.search(rb"resumed .*: step (\d+) of", out[length:])
            if resumed and int(resumed[1]) < saved:
                return f"after the kill of {who} it continues from step {int(resumed[1])}, although checkpoint-{saved} was complete"
            if not resumed and saved and saved < STEPS:
                return f"after the kill of {who} it does not continue from checkpoint-{saved}"
        losses = self.losses(job.folder)
        worst = max((abs(a - b) for a, b in zip(losses, expected)), default=1)
        if len(losses) != STEPS or worst > 1e-9:
            return f"{len(losses)} losses, which differ by up to {worst:.1e}"
        return ""

    def unused_folders(self):
        return [path for path in pathlib.Path("/dev/shm").glob("tessera*") if not is_used(path) and path.exists()]

    def left(self, job):
        wait_until(lambda: not job.processes(), 5)
        processes = job.processes()
        wait_until(lambda: not self.unused_folders(), 5)  # a job that starts makes its folder before it locks it
        folders = self.unused_folders()
        files = [path for path in job.folder.rglob("*") if ".partial" in path.name or ".tmp" in path.name]
        for process in processes:
            kill(process)
        for what, found in (("processes", processes), ("folders in /dev/shm", folders), ("temporary files", files)):
            self.soak.count(f"launch kills: {what} that are left", len(found))
        return f"left: {processes} {folders} {files}" if processes or folders or files else ""
