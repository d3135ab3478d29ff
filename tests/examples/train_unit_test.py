# SPDX-License-Identifier: Apache-2.0
"""The small UniT learns its tasks with generated images, with equal losses on every mesh. No forward pass reads a value on the host.

    train_unit_test.py TRAIN_UNIT MPIEXEC
"""
import re
import subprocess
import sys
import unittest

PROGRAM, MPIEXEC = sys.argv[1:3]
STEP = re.compile(r"^step +(\d+)  image (\d+\.\d+)  text (\d+\.\d+)  match (\d+\.\d+)$", re.M)
END = re.compile(r"^mesh<.*>: (\d+) steps, (\d+) reads in forward passes, (\d+) programs compiled$", re.M)
FEW, MANY = 60, 240


def train(*flags, ranks=1, status=0):
    launcher = [MPIEXEC, "--oversubscribe", "-n", str(ranks)] if ranks > 1 else []
    result = subprocess.run([*launcher, PROGRAM, "--batch", "18", "--learning_rate", "2e-3", *flags], capture_output=True, text=True, timeout=2000)
    assert result.returncode == status, result.stdout + result.stderr
    return result.stdout + result.stderr


class TrainUnit(unittest.TestCase):
    def losses(self, steps, *flags, ranks=1):
        """The losses of the three tasks in steps 3, 60, 120, …"""
        output = train("--fake_data", "--steps", str(steps), *flags, ranks=ranks)
        ends = END.findall(output)
        self.assertEqual(len(ends), 1, output)
        self.assertEqual(ends[0][:2], (str(steps), "0"), output)
        found = STEP.findall(output)
        self.assertEqual([line[0] for line in found], ["3", *(str(step) for step in range(60, steps + 1, 60))], output)
        return [[float(loss) for loss in line[1:]] for line in found]

    def test_it_learns_and_all_meshes_have_the_same_losses(self):
        expected = self.losses(MANY)
        image, text, _ = expected[-1]
        self.assertLess(image, 0.9 * expected[0][0], expected)
        self.assertLess(text, 0.6 * expected[0][1], expected)
        for flags, ranks in ((["--mesh", "data=2,model=2"], 4), (["--virtual_ranks", "4", "--mesh", "data=4,model=1"], 1),
                             (["--virtual_ranks", "6", "--mesh", "data=2,model=3"], 1)):
            with self.subTest(flags=flags):
                for got, wanted in zip(self.losses(FEW, *flags, ranks=ranks), expected):
                    for loss, of_one_rank in zip(got, wanted):
                        self.assertAlmostEqual(loss, of_one_rank, delta=2e-3 * of_one_rank)

    def test_a_missing_folder_is_named(self):
        self.assertIn("no/such/folder", train("--data", "no/such/folder", status=1))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
