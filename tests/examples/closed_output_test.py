# SPDX-License-Identifier: Apache-2.0
"""A run whose output cannot be written any more does not lose its training.

    closed_output_test.py RUN_CLM TESSERA MPIEXEC
"""
import fcntl
import json
import os
import pathlib
import pty
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
import unittest

RUN_CLM, TESSERA = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])
MPIEXEC = sys.argv[3]
MODEL = {"model_type": "gpt2", "n_embd": 12, "n_head": 3, "n_layer": 2, "n_positions": 16, "vocab_size": 300}


class ClosedOutput(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "m.json").write_text(json.dumps(MODEL))
        names = ["mesh", "shard", "axis", "rank", "device", "partial", "group", "unit"]
        (self.folder / "a.txt").write_text(" ".join(names[(i * i + i // 3) % 8] for i in range(900)))

    def command(self, ranks, *arguments):
        return [RUN_CLM, "--config_name", "m.json", "--train_file", "a.txt", "--block_size", "16", "--global_batch_size", "4",
                "--sample_tokens", "0", "--logging_steps", "1", "--output_dir", "out", *(["--virtual_ranks", "2"] if ranks == 2 else []),
                *arguments]

    def names(self):
        return sorted(path.name for path in (self.folder / "out").iterdir())

    def start(self, command, **streams):
        process = subprocess.Popen(command, cwd=self.folder, **streams)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        return process

    def wait_for_log(self, terminal=None):
        """Until the run has written its first entries. Reads what it prints on the terminal, which has no space for all of it."""
        state = self.folder / "out" / "trainer_state.json"
        deadline = time.time() + 300
        while time.time() < deadline and not (state.exists() and '"step"' in state.read_text()):
            if terminal is None:
                time.sleep(0.02)
            elif select.select([terminal], [], [], 0.02)[0]:
                os.read(terminal, 4096)
        self.assertTrue(state.exists())

    def test_a_closed_pipe_does_not_end_the_training(self):
        for ranks in (1, 2):
            for closed in ("stdout", "stderr"):
                with self.subTest(ranks=ranks, closed=closed):
                    shutil.rmtree(self.folder / "out", ignore_errors=True)
                    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, closed: subprocess.PIPE}
                    run = self.start(self.command(ranks, "--max_steps", "600", "--save_strategy", "no", "--eval_strategy", "steps",
                                                  "--eval_steps", "50"), **streams)
                    pipe = getattr(run, closed)
                    while (line := pipe.readline()) and b"held out" not in line and b"step " not in line:
                        pass
                    pipe.close()
                    self.assertEqual(run.wait(timeout=500), 1)  # the exit code reports that output was lost
                    self.assertIn("model.safetensors", self.names())

    def test_ctrl_c_also_ends_the_reader_of_the_output(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                shutil.rmtree(self.folder / "out", ignore_errors=True)
                run = self.start(self.command(ranks, "--max_steps", "1000000"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                reader = self.start(["cat"], stdin=run.stdout, stdout=subprocess.DEVNULL)
                run.stdout.close()
                self.wait_for_log()
                reader.kill()
                run.send_signal(signal.SIGINT)
                self.assertEqual(run.wait(timeout=300), 128 + signal.SIGINT)
                self.assertTrue(any(name.startswith("checkpoint-") for name in self.names()), self.names())

    def test_a_closed_terminal_stops_a_run_with_a_checkpoint(self):
        terminal, side_of_run = pty.openpty()
        run = self.start(self.command(1, "--max_steps", "1000000"), stdin=side_of_run, stdout=side_of_run, stderr=side_of_run,
                         start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(side_of_run)
        self.wait_for_log(terminal)
        os.close(terminal)  # the system sends SIGHUP
        self.assertEqual(run.wait(timeout=300), 128 + signal.SIGHUP)
        self.assertTrue(any(name.startswith("checkpoint-") for name in self.names()), self.names())

    def test_nohup_keeps_a_run_alive(self):
        run = self.start(["nohup", *self.command(1, "--max_steps", "200")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait_for_log()
        run.send_signal(signal.SIGHUP)
        self.assertEqual(run.wait(timeout=300), 0)


    def test_launch_passes_all_output_on_or_ends_with_1(self):
        launch = [TESSERA, "launch", "--launcher", MPIEXEC, "-np", "1", "--"]
        training = self.command(1, "--max_steps", "3", "--overwrite_output_dir")
        for program, expected in ((training, "saved      out: the model"), ([TESSERA, "env"], "\nranks     1 process on 1 node"), (["seq", "40000"], "\n40000\n")):
            complete = subprocess.run([*launch, *program], cwd=self.folder, capture_output=True, text=True, timeout=500)
            self.assertEqual(complete.returncode, 0, complete.stderr)
            self.assertIn(expected, complete.stdout)
            with open("/dev/full", "w") as full:
                lost = subprocess.run([*launch, *program], cwd=self.folder, stdout=full, stderr=subprocess.PIPE, text=True, timeout=500)
            self.assertEqual(lost.returncode, 1, lost.stderr)
            self.assertTrue(lost.stderr.endswith("tessera launch: cannot write to standard output: No space left on device\n"), lost.stderr)
        self.assertIn("model.safetensors", self.names())
        failing = [*launch, "sh", "-c", "echo text; exit 2"]  # the exit code of the job counts more
        with open("/dev/full", "w") as full:
            self.assertEqual(subprocess.run(failing, stdout=full, stderr=subprocess.DEVNULL, timeout=500).returncode, 2)


unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
