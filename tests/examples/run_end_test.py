# SPDX-License-Identifier: Apache-2.0
"""What a run says about its output folder: what it has saved, what it has not, how it differs from the run that it continues; and
a pretrained model in the folder stays.

    run_end_test.py RUN_CLM TESSERA
"""
import json
import math
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

RUN_CLM, TESSERA = map(os.path.abspath, sys.argv[1:3])
CONFIG = {"model_type": "gpt2", "n_embd": 12, "n_head": 3, "n_layer": 2, "n_positions": 16, "vocab_size": 300}
WORDS = ["mesh", "shard", "axis", "rank", "device", "partial", "group", "unit"]


class RunEnd(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "m.json").write_text(json.dumps(CONFIG))
        (self.folder / "a.txt").write_text(" ".join(WORDS[(i * i + i // 3) % 8] for i in range(900)))

    def run_clm(self, *arguments, status=0, preexec_fn=None, config=True):
        command = [RUN_CLM, "--train_file", "a.txt", "--block_size", "16", "--global_batch_size", "4", "--sample_tokens", "0", "--disable_tqdm",
                   "--report_to", "none", *(["--config_name", "m.json"] if config and "--model_name_or_path" not in arguments else []), *map(str, arguments)]
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=500, preexec_fn=preexec_fn)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result

    def checkpoints(self, folder):
        return sorted(path.name for path in (self.folder / folder).glob("checkpoint-*"))

    def test_the_last_line_tells_what_is_in_the_folder(self):
        few = self.run_clm("--output_dir", "few", "--max_steps", 4, "--save_steps", 2)
        self.assertTrue(few.stdout.endswith("\nsaved      few: the model, checkpoint-2, checkpoint-4\n"), few.stdout[-300:])
        many = self.run_clm("--output_dir", "many", "--max_steps", 6, "--save_steps", 1, "--virtual_ranks", 2)
        self.assertTrue(many.stdout.endswith("\nsaved      many: the model, 6 checkpoints from checkpoint-1 to checkpoint-6\n"), many.stdout[-300:])
        for words in ([], ["--output_dir", "few", "--do_train", "false"]):
            self.assertNotIn("saved  ", self.run_clm("--max_steps", 1, *words).stdout)

    def test_the_results_are_in_files(self):
        def results(folder, split):
            return json.loads((self.folder / folder / f"{split}_results.json").read_text())

        self.run_clm("--output_dir", "out", "--max_steps", 4)
        train, evaluation = results("out", "train"), results("out", "eval")
        state = json.loads((self.folder / "out/trainer_state.json").read_text())
        self.assertEqual(evaluation["eval_loss"], state["log_history"][-1]["eval_loss"])
        self.assertAlmostEqual(math.exp(evaluation["eval_loss"]), evaluation["perplexity"], 6)
        self.assertAlmostEqual(train["train_samples_per_second"], 4 * train["train_steps_per_second"], 6)
        self.assertEqual((train["epoch"], train["total_flos"]), (state["epoch"], state["total_flos"]))
        self.assertEqual(results("out", "all"), {**train, **evaluation})
        self.run_clm("--output_dir", "evaluated", "--do_train", "false", "--model_name_or_path", "out", "--max_eval_samples", 3)
        alone = results("evaluated", "all")
        self.assertEqual(alone["eval_samples"], 3)
        self.assertNotIn("train_loss", alone)

    def test_the_log_has_the_rate_that_adafactor_computes(self):
        relative = ["--optim", "adafactor", "--optim_args", "relative_step=true,warmup_init=true", "--max_steps", 2, "--logging_steps", 1]
        self.run_clm(*relative, "--output_dir", "out")
        history = json.loads((self.folder / "out/trainer_state.json").read_text())["log_history"]
        self.assertEqual([entry["learning_rate"] for entry in history if "learning_rate" in entry], [1e-6, 2e-6])
        # The file of the flags has the default of --learning_rate, which nobody has chosen.
        command = [RUN_CLM, "out/training_args.json", "--output_dir", "again"]
        self.assertEqual(subprocess.run(command, cwd=self.folder, capture_output=True, timeout=500).returncode, 0)
        refused = self.run_clm(*relative, "--learning_rate", "5e-5", status=2)
        self.assertIn("--learning_rate 5e-05 and --optim_args relative_step=true exclude each other", refused.stderr)
        self.assertEqual(refused.stdout, "")

    def test_flags_without_effect_are_noted_once(self):
        result = self.run_clm("--max_steps", 1, "--save_total_limit", 2, "--eval_steps", 3, "--no_dataloader_pin_memory", "--virtual_ranks", 2)
        self.assertEqual(result.stdout.count("--save_total_limit 2 has no effect without --output_dir: nothing is saved\n"), 1)
        self.assertEqual(result.stdout.count("--eval_steps 3 has no effect without --eval_strategy: no update is evaluated\n"), 1)
        self.assertEqual(result.stdout.count("--dataloader_pin_memory false has no effect: batches already are where the ranks compute\n"), 1)

    def test_a_checkpoint_has_the_flags_and_the_configuration_of_its_run(self):
        self.run_clm("--output_dir", "out", "--max_steps", 4, "--save_steps", 2, "--learning_rate", "1e-3")
        again = ["--output_dir", "out", "--save_steps", 2, "--resume_from_checkpoint", "true"]
        self.run_clm(*again, "--max_steps", 6, "--learning_rate", "5e-4")
        other = self.run_clm("--output_dir", "other", "--max_steps", 6, "--learning_rate", "1e-3", "--resume_from_checkpoint", "out/checkpoint-4")
        self.assertIn("warning: the run had other flags: --max_steps was 4, now it is 6\n", other.stderr)
        expected = re.findall("held out: .*", other.stdout)
        for checkpoint, folder in (("other/checkpoint-6", "evaluated"), ("true", "other")):
            result = self.run_clm("--do_train", "false", "--output_dir", folder, "--resume_from_checkpoint", checkpoint, config=False)
            self.assertEqual(re.findall("held out: .*", result.stdout), expected)
            self.assertNotIn("random weights", result.stderr)
        self.assertIn("warning: the model has random weights: give --model_name_or_path", self.run_clm("--do_train", "false").stderr)

    def test_evaluations_have_the_width_of_the_log(self):
        result = self.run_clm("--max_steps", 12, "--logging_steps", 4, "--eval_strategy", "steps")
        self.assertEqual(re.findall(r"^(step .*?)held out", result.stdout, re.M), ["step  4  ", "step  8  ", "step 12  "])
        self.assertEqual(re.findall(r"^(step .*?)loss", result.stderr, re.M), ["step  4  ", "step  8  ", "step 12  "])

    def test_a_run_that_continues_with_other_flags_is_told_once(self):
        self.run_clm("--output_dir", "out", "--max_steps", 4, "--save_steps", 4, "--learning_rate", "1e-3")
        flags = ["--output_dir", "out", "--save_steps", 4, "--resume_from_checkpoint", "true"]
        same = self.run_clm(*flags, "--max_steps", 4, "--learning_rate", "1e-3", "--logging_steps", 1)
        self.assertNotIn("the run had other flags", same.stderr)
        self.assertIn("out/checkpoint-4: step 4 of 4: the run is complete already\n", same.stdout)
        other = self.run_clm(*flags, "--max_steps", 6, "--learning_rate", "5e-4", "--weight_decay", "0.1", "--virtual_ranks", 2)
        self.assertEqual(other.stderr.count("warning: the run had other flags: --learning_rate was 0.001, now it is 0.0005; --weight_decay was 0, "
                                            "now it is 0.1; --max_steps was 4, now it is 6\n"), 1, other.stderr)
        again = self.run_clm(*flags, "--max_steps", 6, "--learning_rate", "5e-4", "--weight_decay", "0.1")
        self.assertNotIn("the run had other flags", again.stderr)
        shorter = self.run_clm(*flags, "--max_steps", 5, "--learning_rate", "5e-4", "--weight_decay", "0.1")
        self.assertIn("out/checkpoint-6: step 6, but the run has only 5 updates: it is complete already\n", shorter.stdout)

    def test_a_log_that_cannot_be_written_is_an_error_before_the_training(self):
        for words in ([], ["--virtual_ranks", 2]):
            result = self.run_clm("--max_steps", 2, "--logging_dir", "/dev/full", "--report_to", "jsonl", *words, status=1)
            self.assertRegex(result.stderr, r"--logging_dir: (rank 0 on host \S+ )?cannot create the folder /dev/full: Not a directory\n")
            self.assertNotIn("GPT-2", result.stdout)

    def test_a_pretrained_model_is_not_written_over(self):
        self.run_clm("--output_dir", "out", "--max_steps", 2, "--save_steps", 2)
        subprocess.run([TESSERA, "checkpoint", "consolidate", "out/checkpoint-2", "-o", "base"], cwd=self.folder, check=True, capture_output=True)
        before = (self.folder / "base/model.safetensors").read_bytes()
        flags = ["--max_steps", 1, "--output_dir", "base", "--save_strategy", "no"]
        for words in ([], ["--model_name_or_path", "base"], ["--virtual_ranks", 2]):
            result = self.run_clm(*flags, *words, status=1)
            self.assertIn("base already contains a model (model.safetensors), which the run would overwrite; give another --output_dir, or "
                          "--overwrite_output_dir to overwrite it", result.stderr)
            self.assertEqual((self.folder / "base/model.safetensors").read_bytes(), before)
        self.run_clm(*flags, "--model_name_or_path", "base", "--do_train", "false")
        self.run_clm(*flags, "--overwrite_output_dir")
        self.assertNotEqual((self.folder / "base/model.safetensors").read_bytes(), before)

    def test_a_full_disk_leaves_the_newest_checkpoint_and_is_reported_at_the_end(self):
        self.run_clm("--output_dir", "out", "--max_steps", 3, "--save_steps", 1)
        full = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (60000, 60000))  # the model fits, the state of the optimizer does not
        result = self.run_clm("--output_dir", "out", "--max_steps", 5, "--save_steps", 1, "--save_total_limit", 1, "--resume_from_checkpoint", "true",
                              preexec_fn=full)
        self.assertEqual(self.checkpoints("out"), ["checkpoint-3"])
        self.assertRegex(result.stderr, r"warning: 2 checkpoints could not be saved; the last reason: cannot save out/checkpoint-5.*\n$")
        self.assertIn("saved      out: the model, checkpoint-3\n", result.stdout)
        better = self.run_clm("--output_dir", "out", "--max_steps", 5, "--save_steps", 1, "--save_total_limit", 1, "--resume_from_checkpoint", "true")
        self.assertEqual(self.checkpoints("out"), ["checkpoint-5"])
        self.assertNotIn("could not be saved", better.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
