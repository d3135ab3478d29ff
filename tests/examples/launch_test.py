# SPDX-License-Identifier: Apache-2.0
"""tessera launch with real jobs: ranks, the launcher and `tessera launch` itself are killed, signals are passed on, and
nothing is left.

    launch_test.py TESSERA RUN_CLM MPIEXEC
"""
import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TESSERA, RUN_CLM, MPIEXEC = sys.argv[1:4]
FOLDER = pathlib.Path(tempfile.mkdtemp(prefix="tessera_launch_test"))
STEPS = 40
# The manifest of a checkpoint without content
EMPTY = '{"format":"tessera-checkpoint","version":2,"files":{},"tensors":{},"xxh3":"aeb5301419c723a9"}'
MODEL = {"model_type": "gpt2", "n_head": 3, "n_embd": 12, "n_layer": 2, "n_positions": 15, "vocab_size": 257}


def children(process):
    """The children of a process, by the files of the system."""
    out = []
    try:
        for path in pathlib.Path(f"/proc/{process}/task").glob("*/children"):
            out += [int(word) for word in path.read_text().split()]
    except OSError:
        pass  # it has ended
    return out


def is_used(folder):
    """True if a process holds the lock of the folder of a job."""
    try:
        with open(folder / "lock", "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return folder.exists()
    return False


def left_folders():
    """The folders that no job uses."""
    return {path for path in pathlib.Path("/dev/shm").glob("tessera-launch.*") if not is_used(path) and path.exists()}


class Job:
    """A running `tessera launch`."""

    def __init__(self, *arguments, environment=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
        with open(self.folder / "out", "w") as out, open(self.folder / "err", "w") as err:  # the job has its own descriptors
            self.process = subprocess.Popen([TESSERA, "launch", "--launcher", MPIEXEC, *map(str, arguments)], stdout=out, stderr=err,
                                            start_new_session=True, env={**os.environ, **(environment or {})})

    def launcher(self):
        return wait_for(lambda: children(self.process.pid), "mpirun")[0]

    def wrappers(self, count):
        return wait_for(lambda: (found := children(self.launcher())) and len(found) == count and found, "wrappers")

    def ranks(self, count):
        """The processes of the program, in the order of their start."""
        return wait_for(lambda: (found := [rank for one in self.wrappers(count) for rank in children(one)]) and len(found) == count and found,
                        "ranks")

    def said(self):
        """Standard error so far."""
        return (self.folder / "err").read_text()

    def end(self, seconds=300):
        """Returns the exit code, standard output and standard error."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.terminate()
            raise AssertionError(f"the job ended with {self.process.wait(60)} only after SIGTERM, sent after {seconds} s: {self.said()}") from None
        return code, (self.folder / "out").read_text(), self.said()


def wait_for(condition, what, seconds=150):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.005)
    raise AssertionError(f"no {what} after {seconds} s")


def is_alive(process):
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False

class LaunchTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
        (self.folder / "config.json").write_text(json.dumps(MODEL))
        (self.folder / "text.txt").write_text(" ".join(str(i * i % 97) for i in range(1500)))
        self.before = left_folders()

    def tearDown(self):
        wait_for(lambda: left_folders() <= self.before, f"end of the folders {left_folders() - self.before}")

    def training(self, *flags, name="out"):
        return ["--", RUN_CLM, "--config_name", self.folder / "config.json", "--train_file", self.folder / "text.txt", "--block_size", 15,
                "--global_batch_size", 4, "--max_steps", STEPS, "--logging_steps", 1, "--save_steps", 5, "--dtype", "float64", "--learning_rate",
                "1e-3", "--disable_tqdm", "--sample_tokens", 0, "--do_eval", "false", "--output_dir", self.folder / name, *flags]

    def losses(self, name="out"):
        return [entry["loss"] for entry in json.loads((self.folder / name / "trainer_state.json").read_text())["log_history"]]

    def program(self, text):
        path = self.folder / "program.sh"
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)
        return ["--", path]

    def wait_for_checkpoint(self, step):
        wait_for(lambda: (self.folder / f"out/checkpoint-{step}/manifest.json").exists(), f"checkpoint-{step}")

    # ---- restarts -----------------------------------------------------------------------------------------------------

    def test_a_job_goes_on_by_itself_after_every_kind_of_kill(self):
        code, _, err = Job("-np", 2, *self.training(name="whole")).end()
        self.assertEqual(code, 0, err)
        job = Job("-np", 2, *self.training("--fsdp", "full_shard"),
                  environment={"TESSERA_RENAME_DELAY": "60"})  # so that there is time to kill
        self.wait_for_checkpoint(5)
        os.kill(job.ranks(2)[1], signal.SIGKILL)
        self.wait_for_checkpoint(10)
        for rank in job.ranks(2):
            os.kill(rank, signal.SIGKILL)
        self.wait_for_checkpoint(15)
        os.kill(job.wrappers(2)[0], signal.SIGKILL)
        self.wait_for_checkpoint(20)
        os.kill(job.launcher(), signal.SIGKILL)
        code, out, err = job.end()
        self.assertEqual(code, 0, err)
        for text in ["start 1 ended", "rank 1 (host ", "was killed by SIGKILL", "  rank 0 ", "; its last output:", "    rank 0 of 2: rank 1 of 2 died",
                     "the process that runs a rank was killed by SIGKILL, as ", "start 4 ended", f"{MPIEXEC} was killed by SIGKILL", "restart 4 of at most 100 with 2 ranks, from "]:
            self.assertIn(text, err)
        self.assertEqual(out.count("resumed "), 4)
        self.assertEqual(len(self.losses()), STEPS)
        self.assertLess(max(abs(a - b) for a, b in zip(self.losses(), self.losses("whole"))), 1e-9)
        self.assertEqual(list((self.folder / "out").glob("*.partial")), [])

    def test_a_rank_that_dies_before_the_first_checkpoint_starts_from_the_beginning(self):
        job = Job("-np", 2, "--np-on-restart", 1, *self.training("--save_steps", 5000, "--max_steps", 300))
        wait_for((self.folder / "out/trainer_state.json").exists, "log")
        os.kill(job.ranks(2)[0], signal.SIGKILL)
        code, _, err = job.end()
        self.assertEqual(code, 0, err)
        self.assertIn("restart 1 of at most 100 with 1 rank, from the beginning: there is no checkpoint", err)

    def test_the_run_of_an_earlier_job_is_not_written_over(self):
        (self.folder / "out").mkdir()
        (self.folder / "out/trainer_state.json").write_text("{}")
        code, _, err = Job("-np", 1, *self.training()).end()
        self.assertEqual(code, 2, err)
        self.assertRegex(err, "out already contains a run(.*\n)*.*does not start again: exit code 2")
        self.assertEqual((self.folder / "out/trainer_state.json").read_text(), "{}")

    def test_crash_loops_end_with_the_cause(self):
        code, out, err = Job("-np", 2, "--min-ranks", 1, *self.program(
            'echo "restart $TESSERA_RESTART of rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE"; sleep 0.$OMPI_COMM_WORLD_RANK\n'
            'echo "rank $OMPI_COMM_WORLD_RANK is out of paper" >&2; exit 9')).end()
        self.assertEqual(code, 9, err)
        self.assertIn("restart 0 of rank 1 of 2", out)
        self.assertIn("restart 2 of rank 0 of 1", out)
        self.assertNotIn("restart 3", out)
        self.assertIn("start 1 ended after ", err)
        self.assertIn("rank 0 (host ", err)
        self.assertIn(" ended with exit code 9\n  rank 0 ended with exit code 9; its last output:\n    rank 0 is out of paper\n", err)
        self.assertIn("does not start again: 3 starts in a row made no newer checkpoint (--crash-loop)", err)

    def test_restarts_are_bounded(self):
        program = self.program("n=$(ls $1 | wc -l); mkdir -p $1/checkpoint-$n; echo '%s' > $1/checkpoint-$n/manifest.json; kill -SEGV $$" % EMPTY)
        code, _, err = Job("-np", 1, "--max-restarts", 4, "--checkpoints", self.folder / "made", *program, self.folder / "made").end()
        self.assertEqual(code, 128 + signal.SIGSEGV, err)
        self.assertIn("was killed by SIGSEGV", err)
        self.assertIn("does not start again: --max-restarts 4 is reached", err)

    def test_a_wrong_command_line_is_not_tried_again(self):
        for command, code, text, reason in (
                (["--", RUN_CLM, "--no_such_flag"], 2, "unknown option --no_such_flag", "the command line is wrong"),
                (["--", self.folder / "absent"], 127, "absent: No such file or directory", "the program cannot be run")):
            got, _, err = Job("-np", 2, *command).end()
            self.assertEqual(got, code, err)
            self.assertIn(text, err)
            self.assertIn(f"does not start again: exit code {code} means that {reason}", err)

    def test_resume_words_are_added(self):
        program = self.program(f"echo \"words $*\"; n=$((TESSERA_RESTART + 1)); mkdir -p $1/checkpoint-$n; echo '{EMPTY}' > $1/checkpoint-$n/manifest.json\n"
                               'if [ $n -lt 3 ]; then exit 7; fi')
        code, out, err = Job("--num_cores=1", "--checkpoints", self.folder / "made", "--resume-args", "--from {checkpoint}", *program,
                             self.folder / "made").end()
        self.assertEqual(code, 0, err)
        made = self.folder / "made"
        self.assertEqual(out.splitlines(), [f"words {made}", f"words {made} --from {made}/checkpoint-1", f"words {made} --from {made}/checkpoint-2"])

    def test_a_job_that_begins_with_a_certain_checkpoint_begins_with_it_again(self):
        made = self.folder / "made"
        for step in (2, 9):
            (made / f"checkpoint-{step}").mkdir(parents=True)
            (made / f"checkpoint-{step}/manifest.json").write_text(EMPTY + "\n")
        program = self.program('echo "$4"; if [ $TESSERA_RESTART = 0 ]; then exit 7; fi')
        code, out, err = Job("-np", 1, *program, "--output_dir", made, "--resume_from_checkpoint", made / "checkpoint-2").end()
        self.assertEqual((code, out.splitlines()), (0, 2 * [str(made / "checkpoint-2")]), err)

    def test_checkpoints_from_before_the_job_are_named(self):
        made = self.folder / "made/checkpoint-3"
        made.mkdir(parents=True)
        (made / "manifest.json").write_text(EMPTY + "\n")
        _, _, err = Job("-np", 1, "--checkpoints", made.parent, *self.program("[ $TESSERA_RESTART = 1 ]")).end()
        self.assertIn(f"from the beginning: {made.parent} has only checkpoints from before this job, from which --resume-first continues\n", err)

    def test_a_launcher_that_does_not_exist_is_named(self):
        code, _, err = Job("-np", 2, "--launcher", self.folder / "absent", "true").end()
        self.assertEqual(code, 127, err)
        self.assertIn(f"cannot run {self.folder}/absent: No such file or directory", err)

    def test_a_host_that_does_not_answer_is_tried_again(self):
        """mpirun ends with 255 then, and when it has lost a host."""
        launcher = self.folder / "mpirun"
        launcher.write_text('#!/bin/bash\necho "no such host" >&2; exit 255\n')
        launcher.chmod(0o755)
        code, _, err = Job("-np", 1, "--launcher", launcher, "--retry-after", 0, "--", "true").end()
        self.assertEqual(code, 255, err)
        self.assertEqual(err.count("tries again after 0 s"), 2)
        self.assertIn("does not start again: 3 starts in a row made no newer checkpoint", err)

    def test_a_host_whose_name_is_wrong_is_an_error_before_the_first_start(self):
        hosts = self.folder / "hosts"
        hosts.write_text("localhost slots=1\nwrong-name.invalid slots=1\n")
        for option, value in (("--host", "localhost:1,wrong-name.invalid:1"), ("--hostfile", hosts)):
            code, out, err = Job("-np", 2, option, value, "--", "echo", "started").end()
            self.assertEqual((code, out), (2, ""), err)
            self.assertRegex(err, "^tessera launch: the name of host wrong-name.invalid cannot be resolved, and it cannot be reached: .*; "
                                  "correct --host or the hostfile\ntry `tessera launch --help`\n$")

    def test_a_restart_waits_for_a_host_that_was_lost(self):
        """Here the launcher fails as mpirun does while a host is down: before it has started a rank."""
        launcher = self.folder / "mpirun"
        launcher.write_text(f'#!/bin/bash\nif [ "$TESSERA_RESTART" = 1 ]; then echo "a host is down" >&2; exit 1; fi\nexec {MPIEXEC} "$@"\n')
        launcher.chmod(0o755)
        program = self.program('if [ "$TESSERA_RESTART" = 0 ]; then exit 7; fi; echo "restart $TESSERA_RESTART"')
        code, out, err = Job("-np", 1, "--launcher", launcher, "--retry-after", 1, *program).end()
        self.assertEqual((code, out), (0, "restart 2\n"), err)
        self.assertIn("has not started the program; tries again after 1 s", err)
        job = Job("-np", 1, "--launcher", launcher, "--retry-after", 1000, *program)
        wait_for(lambda: "tries again" in job.said(), "the message")
        job.process.send_signal(signal.SIGTERM)
        self.assertEqual(job.end()[0], 143)

    # ---- signals ------------------------------------------------------------------------------------------------------

    def test_signals_reach_all_ranks(self):
        text = ("".join(f'trap "echo rank $OMPI_COMM_WORLD_RANK got {name}; exit {code}" {name}\n' for name, code in
                        (("TERM", 11), ("INT", 12), ("USR1", 0))) + f"touch {self.folder}/ready-$OMPI_COMM_WORLD_RANK; while true; do sleep 0.02; done")
        for number, name, expected in ((signal.SIGTERM, "TERM", 11), (signal.SIGINT, "INT", 12), (signal.SIGUSR1, "USR1", 0)):
            job = Job("-np", 3, *self.program(text))
            for rank in range(3):
                ready = self.folder / f"ready-{rank}"
                wait_for(ready.exists, "rank")
                ready.unlink()
            job.process.send_signal(number)
            code, out, err = job.end()
            self.assertEqual(code, expected, err)
            self.assertEqual(sorted(out.splitlines()), [f"rank {rank} got {name}" for rank in range(3)])
            self.assertIn(f"passes SIG{name} to all ranks, which have 30 s to end", err)

    def test_sigterm_saves_and_the_next_start_continues(self):
        job = Job("-np", 2, *self.training(), environment={"TESSERA_RENAME_DELAY": "60"})
        self.wait_for_checkpoint(5)
        job.process.send_signal(signal.SIGTERM)
        code, _, err = job.end()
        self.assertEqual(code, 128 + signal.SIGTERM, err)
        newest = max(int(path.name.split("-")[1]) for path in (self.folder / "out").glob("checkpoint-*"))
        code, out, err = Job("-np", 1, "--resume-first", *self.training()).end()
        self.assertEqual(code, 0, err)
        self.assertIn(f"checkpoint-{newest}: step {newest} of {STEPS}", out)

    def test_ranks_that_do_not_end_are_killed(self):
        job = Job("-np", 2, "--grace", 1, *self.program(f"trap '' TERM USR1; touch {self.folder}/ready; while true; do sleep 0.1; done"))
        wait_for((self.folder / "ready").exists, "rank")
        ranks = job.ranks(2)
        job.process.send_signal(signal.SIGUSR1)
        code, _, err = job.end()
        self.assertEqual(code, 128 + signal.SIGUSR1, err)
        self.assertIn("the ranks that are left have not ended in time and are killed", err)
        wait_for(lambda: not any(map(is_alive, ranks)), "end of the ranks")

    # ---- lost hosts ---------------------------------------------------------------------------------------------------

    def job_on_two_hosts(self, lost, *options):
        """A job whose first start fails. The launch agent runs the commands of the host "other" on this machine, and `lost` from the first start on."""
        agent = self.folder / "agent.sh"
        agent.write_text(f'#!/bin/bash\nif [ -e {self.folder}/started ]; then {lost}; fi\nshift\nexec sh -c "$*"\n')
        agent.chmod(0o755)
        program = self.program(f'touch {self.folder}/started; echo "restart $TESSERA_RESTART on $OMPI_COMM_WORLD_SIZE"\n'
                               "if [ $TESSERA_RESTART = 0 ]; then sleep 0.3; exit 7; fi")
        return Job("-np", 2, "--host", "localhost:1,other:1", "--launcher-args", f"--mca plm_rsh_agent {agent}", *options, *program)

    def test_a_restart_leaves_out_a_host_that_fails(self):
        code, out, err = self.job_on_two_hosts("echo no route >&2; exit 255", "--min-ranks", 1).end()
        self.assertEqual(code, 0, err)
        self.assertIn("tessera launch: leaves out host other: no route\ntessera launch: restart 1 of at most 100 with 1 rank, ", err)
        self.assertEqual(sorted(out.splitlines()), ["restart 0 on 2", "restart 0 on 2", "restart 1 on 1"])

    def test_a_host_that_the_job_needs_is_not_left_out(self):
        code, out, err = self.job_on_two_hosts("echo no route >&2; exit 255", "--crash-loop", 2).end()
        self.assertEqual(code, 255, err)
        self.assertIn("tessera launch: cannot leave out host other (no route): the other hosts have 1 slots for 2 ranks; --min-ranks 1 allows fewer ranks\n"
                      "tessera launch: restart 1 of at most 100 with 2 ranks, ", err)
        self.assertNotIn("restart 1 on", out)

    def test_the_check_of_a_host_has_a_time_limit(self):
        check = self.folder / "check"
        code, _, err = self.job_on_two_hosts(f"echo $$ > {check}; sleep 600", "--min-ranks", 1, "--host-timeout", 1).end()
        self.assertEqual(code, 0, err)
        self.assertIn("tessera launch: leaves out host other: no answer within 1 s\n", err)
        self.assertFalse(is_alive(int(check.read_text())))

    def test_a_signal_ends_the_check_of_a_host(self):
        check = self.folder / "check"
        job = self.job_on_two_hosts(f"echo $$ > {check}; sleep 600", "--host-timeout", 600)
        process = int(wait_for(lambda: check.exists() and check.read_text(), "check"))
        job.process.terminate()
        self.assertEqual(job.end()[0], 128 + signal.SIGTERM)
        self.assertFalse(is_alive(process))

    # ---- what is left -------------------------------------------------------------------------------------------------

    def test_nothing_runs_after_a_kill_of_tessera_launch(self):
        job = Job("-np", 2, *self.training(), environment={"TESSERA_RENAME_DELAY": "60"})
        self.wait_for_checkpoint(5)
        processes = [job.launcher(), *job.wrappers(2), *job.ranks(2)]
        job.process.kill()
        job.process.wait()
        wait_for(lambda: not any(map(is_alive, processes)), "end of all processes", 20)
        code, _, err = Job("-np", 2, "--resume-first", *self.training()).end()
        self.assertEqual(code, 0, err)

    def test_the_next_start_deletes_what_a_killed_job_has_left(self):
        left = pathlib.Path("/dev/shm/tessera-launch.leftXX")
        left.mkdir()
        (left / "lock").touch()
        (left / "ompi.vm.0").mkdir()
        code, _, err = Job("-np", 1, "--", "true").end()
        self.assertEqual(code, 0, err)
        self.assertIn(f"tessera launch: deleted {left}, which a job that was killed has left\n", err)
        self.assertFalse(left.exists())

    def test_the_folder_of_a_running_job_is_not_deleted(self):
        job = Job("-np", 1, *self.program(f"touch {self.folder}/ready; sleep 2"))
        wait_for((self.folder / "ready").exists, "rank")
        words = pathlib.Path(f"/proc/{job.wrappers(1)[0]}/cmdline").read_text().split("\0")
        folder = pathlib.Path(words[words.index("--rank-wrapper") + 1])
        code, _, err = Job("-np", 1, "--", "true").end()
        self.assertEqual(code, 0, err)
        self.assertNotIn(str(folder), err)
        self.assertTrue((folder / "lock").exists())
        self.assertEqual(job.end()[0], 0)
        self.assertFalse(folder.exists())

    # ---- the command line ---------------------------------------------------------------------------------------------

    def test_errors_of_the_command_line(self):
        for words, text in ((["-np", "2"], "an input is missing: the program to start: tessera launch -np N -- PROGRAM ARGUMENTS..."),
                            (["--", "true"], "-np N is missing"),
                            (["-np", "0", "--", "true"], "--np takes a number"),
                            (["-np", "2", "--min-ranks", "3", "true"], "--min-ranks 3 is more than -np 2"),
                            (["-np", "2", "--max-restart", "3", "true"], 'did you mean "--max-restarts"'),
                            (["-np", "1", "--resume-first", "true"], "--resume-first needs --checkpoints DIR"),
                            (["-np", "1", "--launcher", "srun", "--host", "a", "true"], "--host is an option of mpirun, but the launcher is srun")):
            result = subprocess.run([TESSERA, "launch", *words], capture_output=True, text=True, timeout=100)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(text, result.stderr)

    def test_the_program_keeps_its_own_words(self):
        code, out, _ = Job("-np", 1, "echo", "--help", "--", "-np").end()
        self.assertEqual((code, out), (0, "--help -- -np\n"))


if __name__ == "__main__":
    try:
        outcome = unittest.main(argv=[sys.argv[0], *sys.argv[4:]], exit=False).result
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
    sys.exit(not outcome.wasSuccessful())
