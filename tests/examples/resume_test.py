# SPDX-License-Identifier: Apache-2.0
"""The example `resume` is interrupted in the middle of an epoch, and continues with the losses and weights of an uninterrupted run.

    resume_test.py RESUME MPIEXEC
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM, MPIEXEC = sys.argv[1:3]
STEP = re.compile(r"^step +(\d+)  loss (\S+)$", re.M)
RESUMED = re.compile(r"^resumed (\S+): step (\d+), epoch (\d+\.\d+)$", re.M)


class Resume(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def train(self, out, *flags, launcher=()):
        result = subprocess.run([*launcher, PROGRAM, "--output_dir", out, "--steps", "14", "--save_steps", "3", *flags], cwd=self.folder,
                                capture_output=True, text=True, timeout=500)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def losses(self, output):
        return {int(step): loss for step, loss in STEP.findall(output)}

    def interrupted(self, out, *flags, launcher=()):
        """The folder, step and epoch from which a run continues that was interrupted, and its losses."""
        first = self.train(out, "--stop_after", "8", *flags, launcher=launcher)
        self.assertEqual(list(self.losses(first)), list(range(1, 9)))
        self.assertFalse((self.folder / out / "model.safetensors").exists())
        second = self.train(out, *flags, launcher=launcher)
        found = RESUMED.search(second)
        self.assertIsNotNone(found, second)
        return found.group(1), int(found.group(2)), float(found.group(3)), self.losses(second)

    def test_the_losses_and_the_weights_are_those_of_an_uninterrupted_run(self):
        for flags, launcher in (((), ()), (("--virtual_ranks", "3"), ()), ((), (MPIEXEC, "--oversubscribe", "-n", "2"))):
            with self.subTest(flags=flags, launcher=launcher):
                complete, parts = (f"{name}{len(flags)}{len(launcher)}" for name in ("complete", "parts"))
                output = self.train(complete, *flags, launcher=launcher)
                self.assertNotIn("resumed", output)
                expected = self.losses(output)
                self.assertEqual(list(expected), list(range(1, 15)))
                # 50 samples in batches of 12: an epoch has 5 steps. The save of step 6 need not have ended when the run does.
                checkpoint, step, epoch, losses = self.interrupted(parts, *flags, launcher=launcher)
                self.assertIn(step, (3, 6))
                self.assertEqual(checkpoint, f"{parts}/checkpoint-{step}")
                self.assertNotEqual(epoch, int(epoch))
                self.assertEqual(losses, {number: loss for number, loss in expected.items() if number > step})
                contents = [(self.folder / out / "model.safetensors").read_bytes() for out in (complete, parts)]
                self.assertEqual(*contents)

    def test_another_number_of_ranks_continues_the_run(self):
        expected = self.losses(self.train("complete"))
        self.train("parts", "--stop_after", "8", "--virtual_ranks", "4")
        losses = self.losses(self.train("parts", "--virtual_ranks", "2"))
        self.assertEqual(max(losses), 14)
        for step, loss in losses.items():
            self.assertAlmostEqual(float(loss), float(expected[step]), places=4)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
