# SPDX-License-Identifier: Apache-2.0
"""A tensor that grows makes every step a new program; the same evaluation with a host_region has the same programs in all steps.

    growing_accumulator_test.py GROWING_ACCUMULATOR MPIEXEC
"""
import os
import re
import subprocess
import sys
import unittest

PROGRAM, MPIEXEC = sys.argv[1:3]
FEW, MANY = 7, 13
LINE = re.compile(r"^median on the (device|host): (\d+) steps, (\d+) compilations, (\d+) reads, (\d\.\d+) of a batch are above it$", re.M)


def evaluate(median, steps, ranks, status=0):
    launcher = [MPIEXEC, "--oversubscribe", "-n", str(ranks)] if ranks > 1 else []
    result = subprocess.run([*launcher, PROGRAM, "--median", median, "--steps", str(steps)], capture_output=True, text=True, timeout=1000,
                            env=dict(os.environ, PT_XLA_DEBUG="1"))
    assert result.returncode == status, result.stdout + result.stderr
    return result.stdout + result.stderr


class GrowingAccumulator(unittest.TestCase):
    def counts(self, median, steps, ranks):
        """Compilations, reads, the part above the median, and whether the advice says that compilations are too frequent."""
        output = evaluate(median, steps, ranks)
        found = LINE.findall(output)
        self.assertEqual(len(found), 1, output)
        self.assertEqual(found[0][:2], (median, str(steps)))
        return int(found[0][2]), int(found[0][3]), float(found[0][4]), "pt-xla-profiler: CompileTime too frequent: " in output

    def test_compilations_grow_with_the_steps_only_on_the_device(self):
        parts = set()
        for ranks in (1, 4):
            with self.subTest(ranks=ranks):
                few, few_reads, _, _ = self.counts("device", FEW, ranks)
                many, many_reads, part, is_too_frequent = self.counts("device", MANY, ranks)
                self.assertEqual(many - few, MANY - FEW)
                self.assertGreaterEqual(few, FEW)
                self.assertEqual(many_reads, few_reads)
                self.assertTrue(is_too_frequent)
                parts.add(part)
                few, few_reads, _, _ = self.counts("host", FEW, ranks)
                many, many_reads, part, is_too_frequent = self.counts("host", MANY, ranks)
                self.assertEqual(many, few)
                self.assertLess(few, FEW)
                self.assertEqual(many_reads - few_reads, MANY - FEW)
                self.assertFalse(is_too_frequent)
                parts.add(part)
        self.assertEqual(len(parts), 1, parts)
        self.assertTrue(0.2 < min(parts) < 0.8, parts)

    def test_without_steps_the_flag_is_named(self):
        self.assertIn("--steps must be at least 1, got 0", evaluate("host", 0, 1, status=1))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
