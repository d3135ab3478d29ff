# SPDX-License-Identifier: Apache-2.0
"""The data of run_clm: random tokens (--fake_data), and tokens of a text that several ranks keep in --cache_dir.

    run_clm_data_test.py RUN_CLM MPIEXEC
"""
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

RUN_CLM, MPIEXEC = os.path.abspath(sys.argv[1]), sys.argv[2]
CONFIG = {"model_type": "gpt2", "n_embd": 12, "n_head": 3, "n_layer": 2, "n_positions": 16, "vocab_size": 271}
SHORT = ["--block_size", 16, "--global_batch_size", 6, "--max_steps", 4, "--logging_steps", 1, "--learning_rate", "1e-3", "--dtype", "float64"]
FAKE = ["--fake_data", "--fake_data_samples", 20, *SHORT]


class Data(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "gpt2.json").write_text(json.dumps(CONFIG))

    def run_clm(self, *arguments, ranks=1, status=0):
        launcher = [MPIEXEC, "--oversubscribe", "-n", str(ranks)] if ranks > 1 else []
        command = [*launcher, RUN_CLM, "--config_name", "gpt2.json", *map(str, arguments)]
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=1000)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result

    def losses(self, output, *arguments, ranks=1):
        """The losses of the updates and of the evaluation, and the output."""
        result = self.run_clm(*arguments, "--output_dir", output, ranks=ranks)
        history = json.loads((self.folder / output / "trainer_state.json").read_text())["log_history"]
        return [entry.get("loss", entry.get("eval_loss")) for entry in history], result

    def assert_close(self, got, expected):
        self.assertEqual(len(got), len(expected))
        for a, b in zip(got, expected):
            self.assertLess(abs(a - b), 1e-9 * b, f"{got} instead of {expected}")

    def test_fake_data_is_the_same_on_every_mesh(self):
        one, result = self.losses("one", *FAKE)
        self.assertEqual(len(one), 5)  # four updates and the evaluation
        self.assertLess(abs(one[0] - math.log(CONFIG["vocab_size"])), 0.3)
        self.assertRegex(result.stdout, r"held out: loss \d\.\d+ nats, perplexity \d+\.\d+ over 300 tokens\n")  # 20 blocks of 15 labels
        self.assertNotIn("sample:", result.stdout)
        four, _ = self.losses("four", *FAKE, "--mesh", "data=2,fsdp=2", "--fsdp", "full_shard", ranks=4)
        self.assert_close(four, one)

    def test_a_run_with_fake_data_is_resumed(self):
        complete, _ = self.losses("complete", *FAKE, "--save_steps", 2)
        resumed, _ = self.losses("resumed", *FAKE, "--save_steps", 2, "--resume_from_checkpoint", "complete/checkpoint-2", "--mesh", "data=3",
                                 "--virtual_ranks", 3)
        self.assert_close(resumed, complete)

    def test_log_lines_of_mmf(self):
        result = self.run_clm(*FAKE, "--gradient_accumulation_steps", 2, "--logging_format", "mmf", "--do_eval", "false", ranks=4)
        lines = re.findall(r"^progress: .*$", result.stderr, re.M)
        self.assertEqual(len(lines), 4, result.stderr)
        for step, line in enumerate(lines, 1):
            fields = dict(field.split(": ") for field in line.split(", "))
            self.assertEqual(fields["progress"], f"{step}/4")
            self.assertEqual((fields["num_updates"], fields["iterations"], fields["max_updates"]), (str(step), str(2 * step), "4"))
            self.assertGreater(float(fields["ups"]), 0)
            self.assertEqual(list(fields), [
                "progress", "train/loss_0", "train/loss_0/avg", "train/total_loss", "train/total_loss/avg", "experiment", "epoch", "num_updates",
                "iterations", "max_updates", "lr", "ups", "time", "time_since_start", "eta"])

    def test_a_command_line_of_mmf_prints_its_configuration(self):
        mmf = ["training.max_updates=3", "training.batch_size=6", "training.log_interval=1", "training.device=xla"]
        by_flags, result = self.losses("flags", *FAKE, "--max_steps", 3, "--save_strategy", "no")
        self.assertNotIn("configuration", result.stdout)
        overridden, result = self.losses("overrides", *mmf, *FAKE, "--save_strategy", "no", ranks=2)
        self.assert_close(overridden, by_flags)
        self.assertEqual(result.stdout.count("configuration\n"), 1, result.stdout)  # of one rank
        for line in ("  --max_steps 3  (training.max_updates)", "  --global_batch_size 6  (training.batch_size)", "  --fake_data true"):
            self.assertIn(f"\n{line}\n", result.stdout)
        self.assertIn("configuration\n", self.run_clm(*mmf, *FAKE, "--dry_run").stdout)
        # The file in the output folder starts the same run.
        values = json.loads((self.folder / "overrides" / "training_args.json").read_text())
        self.assertEqual((values["max_steps"], values["dtype"], values["save_total_limit"]), (3, "float64", None))
        self.assert_close(self.losses_again("overrides", "again"), by_flags)

    # What the search found is in the file, and so are the virtual ranks. A run is neither continued nor replaced by its file.
    def test_the_file_of_a_run_starts_it_again(self):
        per_device = ["--fake_data", "--fake_data_samples", 20, "--per_device_train_batch_size", 3, *SHORT[:2], *SHORT[4:], "--save_steps", 2]
        expected, _ = self.losses("auto", *per_device, "--auto_shard", "cpu-node", "--virtual_ranks", 2, "--overwrite_output_dir")
        self.assert_close(self.losses_again("auto", "again"), expected)
        values = json.loads((self.folder / "again" / "training_args.json").read_text())
        self.assertEqual([values[key] for key in ("program", "auto_shard", "virtual_ranks", "global_batch_size", "overwrite_output_dir")],
                         ["run_clm", "", 2, 6, False])
        self.assertTrue(values["mesh"])
        self.assertIsNone(values["per_device_train_batch_size"])
        # Flags after the file replace it.
        self.assert_close(self.losses_again("auto", "searched", "--auto_shard", "--virtual_ranks", 1), expected)
        # The file of a continued run starts it from the beginning.
        self.losses("auto", *per_device, "--virtual_ranks", 2, "--resume_from_checkpoint", "auto/checkpoint-2")
        self.assert_close(self.losses_again("auto", "continued"), expected)
        self.assert_close(self.losses_again("auto", "overridden", "training.batch_size=6"), expected)

    def losses_again(self, before, output, *arguments):
        """The losses of a run that the file of another run starts."""
        command = [RUN_CLM, f"{before}/training_args.json", "--output_dir", output, *map(str, arguments)]
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=1000)
        self.assertEqual(result.returncode, 0, result.stderr)
        history = json.loads((self.folder / output / "trainer_state.json").read_text())["log_history"]
        return [entry.get("loss", entry.get("eval_loss")) for entry in history]

    def test_fake_data_excludes_a_text(self):
        result = self.run_clm("--fake_data", "--train_file", "text.txt", status=2)
        self.assertEqual(result.stderr, "run_clm: --fake_data and --train_file exclude each other: random tokens replace the text\n")

    def test_ranks_share_the_tokens_of_a_text(self):
        words = ["mesh", "shard", "axis", "rank", "device", "partial", "group", "unit"]
        (self.folder / "text.txt").write_text(" ".join(words[(i * i + i // 3) % 8] for i in range(900)))
        text = ["--train_file", "text.txt", "--tokenizer_name", "bpe:271", "--sample_tokens", 0, *SHORT]
        expected, _ = self.losses("without", *text)
        for number, more in enumerate(([], [], ["--overwrite_cache"])):
            got, result = self.losses(f"cached{number}", *text, "--cache_dir", "cache", "--mesh", "data=3", *more, ranks=3)
            self.assert_close(got, expected)
            self.assertNotIn("warning: cache", result.stderr)
            files = [path.name for path in (self.folder / "cache" / "tessera_tokens").iterdir()]
            self.assertTrue(len(files) == 2 and all(name.endswith(".tokens") for name in files), files)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
