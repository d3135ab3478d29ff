# SPDX-License-Identifier: Apache-2.0
"""--label_smoothing_factor and --neftune_noise_alpha of the training programs: the values of the losses, the same losses on every
mesh, and no noise in evaluations.

    regularization_test.py RUN_CLM RUN_MLM RUN_CLASSIFICATION MPIEXEC
"""
import json
import math
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

RUN_CLM, RUN_MLM, RUN_CLASSIFICATION = (os.path.abspath(path) for path in sys.argv[1:4])
MPIEXEC = sys.argv[4]
WORDS = ["mesh", "shard", "axis", "rank", "device", "partial", "group", "unit"]


class Regularization(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        text = [WORDS[(i * i + i // 3) % 8] for i in range(600)]
        (cls.folder / "text.txt").write_text("\n".join(" ".join(text[i:i + 5]) for i in range(0, 600, 5)))
        rows = [f"{i}\t{' '.join(text[i:i + 3 + i % 4])}\t{'yes' if i % 3 else 'no'}" for i in range(29)]
        (cls.folder / "rows.tsv").write_text("index\tsentence\tlabel\n" + "\n".join(rows) + "\n")
        (cls.folder / "gpt2.json").write_text(json.dumps({
            "model_type": "gpt2", "n_embd": 12, "n_head": 3, "n_layer": 2, "n_positions": 16, "vocab_size": 259, "resid_pdrop": 0, "embd_pdrop": 0,
            "attn_pdrop": 0, "initializer_range": 0.3}))
        (cls.folder / "bert.json").write_text(json.dumps({
            "model_type": "bert", "vocab_size": 261, "hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 3, "intermediate_size": 40,
            "max_position_embeddings": 32, "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0, "initializer_range": 0.3}))
        cls.runs = 0

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def log(self, program, *flags, ranks=1, steps=1, rate=0):
        """The losses of the updates, and then of the evaluation."""
        Regularization.runs += 1
        output = f"out{Regularization.runs}"
        of_program = {RUN_CLM: ["--config_name", "gpt2.json", "--train_file", "text.txt", "--block_size", 16, "--sample_tokens", 0],
                      RUN_MLM: ["--config_name", "bert.json", "--train_file", "text.txt", "--max_seq_length", 16],
                      RUN_CLASSIFICATION: ["--config_name", "bert.json", "--train_file", "rows.tsv", "--validation_file", "rows.tsv",
                                           "--max_seq_length", 32]}[program]
        launcher = [MPIEXEC, "--oversubscribe", "-n", str(ranks)] if ranks > 1 else []
        command = [*launcher, program, *of_program, "--max_steps", steps, "--learning_rate", rate, "--lr_scheduler_type", "constant", "--dtype", "float64",
                   "--global_batch_size", 5, "--per_device_eval_batch_size", 3, "--logging_steps", 1, "--save_strategy", "no", "--output_dir", output, *flags]
        result = subprocess.run([str(word) for word in command], cwd=self.folder, capture_output=True, text=True, timeout=1000)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        history = json.loads((self.folder / output / "trainer_state.json").read_text())["log_history"]
        losses = [entry["loss"] for entry in history if "loss" in entry] + [entry["eval_loss"] for entry in history if "eval_loss" in entry]
        self.assertEqual(len(losses), steps + 1, history)
        return losses

    def assert_close(self, got, expected, bound=1e-9):
        self.assertEqual(len(got), len(expected))
        for a, b in zip(got, expected):
            self.assertLess(abs(a - b), bound * (1 + abs(b)), f"{got} instead of {expected}")

    # (1 - F) nll + F smoothed: the weights do not change at the rate 0, so losses are linear in F.
    def test_losses_of_training_and_evaluation_are_mixtures(self):
        for program in (RUN_CLM, RUN_MLM, RUN_CLASSIFICATION):
            with self.subTest(program):
                plain, some, half = (self.log(program, "--label_smoothing_factor", factor) for factor in (0, 0.1, 0.5))
                self.assert_close(self.log(program), plain)
                self.assert_close([a + 0.1 / 0.5 * (c - a) for a, c in zip(plain, half)], some)
                self.assertGreater(min(abs(c - a) for a, c in zip(plain, half)), 1e-5, (plain, half))
                # The smoothed part, the mean of -log p over the classes, is at least the logarithm of their number.
                classes = {RUN_CLM: 259, RUN_MLM: 261, RUN_CLASSIFICATION: 2}[program]
                self.assertGreaterEqual(min(2 * c - a for a, c in zip(plain, half)), math.log(classes) - 1e-9, (plain, half))

    def test_noise_is_in_the_training_and_not_in_the_evaluation(self):
        plain = self.log(RUN_CLM)
        noisy, less = (self.log(RUN_CLM, "--neftune_noise_alpha", alpha) for alpha in (5, "1e-6"))
        self.assertGreater(abs(noisy[0] - plain[0]), 1e-4)
        self.assert_close(noisy[1:], plain[1:], 1e-12)
        # The noise is proportional to alpha.
        self.assertTrue(0 < abs(less[0] - plain[0]) < 1e-4, (less, plain))
        self.assert_close(self.log(RUN_CLM, "--neftune_noise_alpha", 0), plain, 1e-12)

    # Neither the rows of batches nor the vocabularies are divisible by the sizes of the meshes.
    def test_losses_are_equal_on_every_mesh(self):
        trained = {"steps": 3, "rate": "1e-3"}
        meshes = ["--virtual_ranks", 3, "--mesh", "fsdp=3", "--fsdp", "full_shard"], \
                 ["--virtual_ranks", 4, "--mesh", "data=2,model=2", "--tensor_parallel", "model"]
        for program, flags in ((RUN_CLM, ["--neftune_noise_alpha", 5]), (RUN_MLM, []), (RUN_CLASSIFICATION, [])):
            with self.subTest(program):
                flags = [*flags, "--label_smoothing_factor", 0.2]
                expected = self.log(program, *flags, **trained)
                self.assert_close(self.log(program, *flags, **trained, ranks=2), expected)
                for mesh in meshes:
                    self.assert_close(self.log(program, *flags, *mesh, **trained), expected)

    # The noise of a row does not depend on the division of a batch into micro-batches.
    def test_accumulated_batches_equal_undivided_ones(self):
        flags = ["--neftune_noise_alpha", 5, "--label_smoothing_factor", 0.2]
        undivided = self.log(RUN_CLM, *flags, "--global_batch_size", 10, steps=3, rate="1e-3")
        self.assert_close(self.log(RUN_CLM, *flags, "--gradient_accumulation_steps", 2, steps=3, rate="1e-3"), undivided)

    def test_factors_out_of_range_are_refused(self):
        result = subprocess.run([RUN_CLM, "--config_name", "c", "--train_file", "t", "--label_smoothing_factor", "1.0"], capture_output=True, text=True)
        self.assertEqual((result.returncode, result.stderr), (2, "run_clm: --label_smoothing_factor must be in [0, 1), got 1\n"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
