#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Soak tests with programs that fail on purpose: each kind of failure is found and kept, and gives exit status 1."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Soak(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "bin").mkdir()

    def program(self, name, body):
        path = self.folder / "bin" / name
        path.write_text(f"#!/usr/bin/env python3\nimport json, os, pathlib, sys, time\n{body}\n")
        path.chmod(0o755)

    def soak(self, part, count):
        command = [sys.executable, ROOT / "tools/soak/soak.py", "--part", part, "--seed", "5", "--count", str(count), "--jobs", "1",
                   "--bin", self.folder / "bin", "--keep", self.folder / "kept"]
        result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1500)
        self.assertNotIn("Traceback", result.stderr)
        return result.returncode, result.stdout

    def test_programs_that_fail_are_named_by_their_seed(self):
        self.program("random_programs", "print('seed 7: result 0 f32[2]: expected 1, got 2 (found/seed_7.hlo)'); sys.exit(1)")
        code, text = self.soak("programs", 1)
        self.assertEqual(code, 1, text)
        self.assertIn("FAILED programs, seed 7: result 0 f32[2]: expected 1, got 2", text)
        self.assertIn("found/seed_7.hlo", text)

    def test_a_generator_that_dies_is_run_case_by_case(self):
        self.program("random_programs", "seed = int(sys.argv[4]); count = int(sys.argv[2])\n"
                                        "if seed <= 9 < seed + count: os.abort()")
        code, text = self.soak("programs", 1)
        self.assertEqual(code, 1, text)
        self.assertIn("FAILED programs, seed 9: ends with -6", text)

    def test_crashes_of_the_command_are_kept_and_made_small(self):
        self.program("tessera", "text = pathlib.Path(sys.argv[2]).read_text(errors='replace')\nif 'ROOT' in text: os.abort()")
        code, text = self.soak("mutations", 1)
        self.assertEqual(code, 1, text)
        self.assertIn("print ends with -6", text)
        kept = list((self.folder / "kept/mutations").glob("*.hlo"))
        self.assertTrue(kept)
        self.assertTrue(all(len(path.read_text().splitlines()) == 1 for path in kept), [path.read_text() for path in kept])

    def test_differences_and_internal_errors_are_failures(self):
        for verb, body, expected in [("check", "sys.exit(3)", "check finds a difference"),
                                     ("partition", "sys.exit('internal error, please report it: x')", "internal error"),
                                     ("partition", "sys.exit(1)", "says nothing"),
                                     ("stats", "sys.exit('what is this?')", "stats refuses what partition wrote")]:
            self.program("tessera", f"if sys.argv[1] == '{verb}': {body}")
            code, text = self.soak("mutations", 1)
            self.assertEqual(code, 1, text)
            self.assertIn(expected, text)

    def test_refusals_are_none(self):
        self.program("tessera", "sys.exit('line 3: this is no HLO')")
        code, text = self.soak("mutations", 5)
        self.assertEqual(code, 0, text)
        self.assertIn("nothing failed", text)

    def test_losses_of_another_layout_must_be_those_of_one_rank(self):
        body = ("folder = pathlib.Path(sys.argv[sys.argv.index('--output_dir') + 1]); folder.mkdir(exist_ok=True)\n"
                "loss = 5.5 if folder.name == 'one' else 5.5 + {}\n"
                "(folder / 'trainer_state.json').write_text(json.dumps({{'log_history': [{{'loss': loss}}]}}))")
        self.program("mpirun", "")
        for difference, expected in [(0, 0), (1, 1)]:
            self.program("run_clm", body.format(difference))
            code, text = self.soak("layouts", 2)
            self.assertEqual(code, expected, text)
        self.assertIn("losses [6.5] instead of [5.5]", text)


if __name__ == "__main__":
    unittest.main()
