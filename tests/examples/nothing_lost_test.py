# SPDX-License-Identifier: Apache-2.0
"""What a run has written is not deleted or replaced unasked, and what it needs later is kept.

    nothing_lost_test.py TESSERA RUN_CLM MPIEXEC
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TESSERA, RUN_CLM = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:3])
MPIEXEC = sys.argv[3]
MODEL = {"model_type": "gpt2", "n_embd": 12, "n_head": 3, "n_layer": 2, "n_positions": 16, "vocab_size": 300,
         "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0}
FLAGS = {"config_name": "m.json", "train_file": "a.txt", "block_size": "16", "global_batch_size": "4", "sample_tokens": "0",
         "report_to": "none", "disable_tqdm": "true"}


def words(flags):
    return [word for name, value in flags.items() for word in (f"--{name}", value)]


def tensors(file):
    """The bytes of each tensor of a safetensors file, without the prefix of a model with a head."""
    size = int.from_bytes(file[:8], "little")
    entries = {name: entry["data_offsets"] for name, entry in json.loads(file[8:8 + size]).items() if name != "__metadata__"}
    return {name.removeprefix("transformer."): file[8 + size + begin:8 + size + end] for name, (begin, end) in entries.items()}


class NothingLost(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "m.json").write_text(json.dumps(MODEL))
        names = ["mesh", "shard", "axis", "rank", "device", "partial", "group", "unit"]
        (self.folder / "a.txt").write_text(" ".join(names[(i * i + i // 3) % 8] for i in range(900)))

    def run_clm(self, *arguments, status=0, **flags):
        result = subprocess.run([RUN_CLM, *words({**FLAGS, **flags}), *arguments], cwd=self.folder, capture_output=True, text=True,
                                timeout=500)
        self.assertEqual(result.returncode, status, result.stderr)
        return result

    def tessera(self, *arguments, status=0):
        result = subprocess.run([TESSERA, *arguments], cwd=self.folder, capture_output=True, text=True, timeout=500)
        self.assertEqual(result.returncode, status, result.stderr)
        return result

    def content(self, path):
        return (self.folder / path).read_bytes()

    def test_a_run_that_cannot_start_deletes_nothing(self):
        self.run_clm(max_steps="2", save_steps="2", output_dir="out")
        for wrong in (["--mesh", "data=7"], ["--do_train", "false"], ["--config_overrides", "n_embd=7"]):
            subprocess.run([RUN_CLM, *words({**FLAGS, "output_dir": "out"}), "--overwrite_output_dir", *wrong], cwd=self.folder,
                           capture_output=True, timeout=500)
            self.tessera("checkpoint", "verify", "out/checkpoint-2")
        (self.folder / "out" / "checkpoint-1").mkdir()
        (self.folder / "out" / "checkpoint-1" / "notes.txt").write_text("mine")
        result = self.run_clm("--overwrite_output_dir", max_steps="1", save_strategy="no", output_dir="out")
        self.assertIn("deleted 1 checkpoint of the run in out", result.stderr)
        self.assertFalse((self.folder / "out" / "checkpoint-2").exists())
        self.assertEqual(self.content("out/checkpoint-1/notes.txt"), b"mine")

    def test_a_run_that_fails_before_its_first_checkpoint_deletes_nothing(self):
        self.run_clm(max_steps="4", save_steps="2", output_dir="out")
        result = self.run_clm("--overwrite_output_dir", max_steps="9", save_steps="9", learning_rate="1e30", output_dir="out", status=1)
        self.assertIn("the loss is ", result.stderr)
        self.assertNotIn("deleted", result.stderr)
        for step in (2, 4):
            self.tessera("checkpoint", "verify", f"out/checkpoint-{step}")
        # The checkpoints of the replaced run have higher numbers, but do not count for --save_total_limit.
        result = self.run_clm("--overwrite_output_dir", max_steps="3", save_steps="1", save_total_limit="1", output_dir="out")
        self.assertIn("deleted 2 checkpoints of the run in out", result.stderr)
        self.assertEqual(sorted(path.name for path in (self.folder / "out").glob("checkpoint-*")), ["checkpoint-3"])

    def launch(self, *arguments):
        return subprocess.Popen([TESSERA, "launch", "--launcher", MPIEXEC, "-np", "1", *arguments], cwd=self.folder, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def kill_rank(self, job, checkpoint):
        """Kills the rank when it has saved the checkpoint."""
        deadline = time.time() + 300
        while not (self.folder / checkpoint / "manifest.json").exists():
            self.assertTrue(time.time() < deadline and job.poll() is None, "no checkpoint")
            time.sleep(0.02)
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(path / "exe") == RUN_CLM and os.readlink(path / "cwd").startswith(str(self.folder)):
                    os.kill(int(path.name), signal.SIGKILL)
            except OSError:
                pass
        return job.communicate(timeout=500)

    def test_a_job_with_a_file_of_flags_continues_from_its_checkpoint(self):
        flags = {**FLAGS, "output_dir": "out", "overwrite_output_dir": True, "save_steps": 20, "max_steps": 400, "block_size": 16,
                 "global_batch_size": 4, "sample_tokens": 0, "disable_tqdm": True}
        (self.folder / "args.json").write_text(json.dumps(flags))
        job = self.launch("--", "env", "A=1", RUN_CLM, "args.json")
        _, error = self.kill_rank(job, "out/checkpoint-20")
        self.assertEqual(job.returncode, 0, error)
        self.assertRegex(error, r"restart 1 of at most 100 with 1 rank, from \S*out/checkpoint-\d+")
        self.assertNotIn("that this run replaces", error)

    def replace_and_kill(self, when):
        """A run that replaces another one is killed when a file exists. Returns the output of the job."""
        self.run_clm(max_steps="12", save_steps="4", output_dir="out")
        time.sleep(1.1)  # times of files have seconds
        job = self.launch("--", "env", "TESSERA_RENAME_DELAY=700", RUN_CLM,
                          *words({**FLAGS, "output_dir": "out", "save_steps": "3", "max_steps": "12", "seed": "7"}), "--overwrite_output_dir")
        output, error = self.kill_rank(job, when)
        self.assertEqual(job.returncode, 0, error)
        self.assertEqual(sorted(path.name for path in (self.folder / "out").glob("*checkpoint-*")),
                         ["checkpoint-12", "checkpoint-3", "checkpoint-6", "checkpoint-9"])
        self.assertEqual(list((self.folder / "out").glob("replaced_run*")), [])
        return output, error

    def test_a_job_killed_after_its_first_checkpoint_does_not_continue_the_run_that_it_replaces(self):
        output, error = self.replace_and_kill("out/checkpoint-3")
        self.assertRegex(error, r"restart 1 of at most 100 with 1 ranks?, from \S*out/checkpoint-3")
        self.assertRegex(output, r"resumed +\S*out/checkpoint-3")

    def test_a_job_killed_before_its_first_checkpoint_keeps_the_run_that_it_replaces(self):
        _, error = self.replace_and_kill("out/replaced_run/checkpoint-4")
        self.assertRegex(error, r"restart 1 of at most 100 with 1 ranks?, from the beginning")
        self.assertIn("restored 3 checkpoints in out", error)
        self.assertIn("deleted 3 checkpoints of the run in out", error)

    def test_a_job_that_saves_only_its_model_begins_again(self):
        job = self.launch("--", "env", "TESSERA_RENAME_DELAY=300", RUN_CLM,
                          *words({**FLAGS, "output_dir": "out", "save_steps": "3", "max_steps": "12"}), "--save_only_model")
        _, error = self.kill_rank(job, "out/checkpoint-3")
        self.assertEqual(job.returncode, 0, error)
        self.assertIn("warning: no restart can continue this job", error)
        self.assertRegex(error, r"restart 1 of at most 100 with 1 ranks?, from the beginning")
        self.tessera("checkpoint", "verify", "out/checkpoint-12")

    def test_a_restart_in_another_folder_does_not_delete_checkpoints(self):
        (self.folder / "sub").mkdir()
        for name in ("m.json", "a.txt"):
            shutil.copy(self.folder / name, self.folder / "sub" / name)
        job = self.launch("--launcher-args", "-wdir sub", "--", RUN_CLM,
                          *words({**FLAGS, "output_dir": "out", "save_steps": "20", "max_steps": "400"}), "--overwrite_output_dir")
        _, error = self.kill_rank(job, "sub/out/checkpoint-20")
        self.assertEqual(job.returncode, 0, error)
        self.assertRegex(error, r"restart 1 of at most 100 with 1 rank, from \S*sub/out/checkpoint-\d+")
        restart = subprocess.run([RUN_CLM, *words({**FLAGS, "output_dir": "sub/out"}), "--overwrite_output_dir"], cwd=self.folder,
                                 capture_output=True, text=True, timeout=500, env={**os.environ, "TESSERA_RESTART": "1"})
        self.assertEqual(restart.returncode, 1)
        self.assertIn("this restart of tessera launch would replace ", restart.stderr)

    def test_a_finished_run_is_not_written_over_by_resume_first(self):
        self.run_clm(max_steps="2", save_strategy="no", output_dir="out")
        before = self.content("out/model.safetensors")
        job = self.launch("--resume-first", "--", RUN_CLM, *words({**FLAGS, "max_steps": "3", "seed": "7", "output_dir": "out"}))
        _, error = job.communicate(timeout=500)
        self.assertNotEqual(job.returncode, 0, error)
        self.assertEqual(self.content("out/model.safetensors"), before)

    def test_a_run_set_aside_is_continued_by_resume_first(self):
        self.run_clm(max_steps="12", save_steps="4", output_dir="out")
        (self.folder / "out/replaced_run").mkdir()
        for path in (self.folder / "out").glob("checkpoint-*"):
            path.rename(self.folder / "out/replaced_run" / path.name)
        job = self.launch("--resume-first", "--", RUN_CLM, *words({**FLAGS, "max_steps": "14", "save_steps": "4", "output_dir": "out"}))
        output, error = job.communicate(timeout=500)
        self.assertEqual(job.returncode, 0, error)
        self.assertIn("restored 3 checkpoints in out", error)
        self.assertRegex(output, r"resumed +\S*out/checkpoint-12")

    def test_a_job_killed_after_its_model_was_saved_begins_again(self):
        dies_once = 'if [ ! -e started ]; then touch started; mkdir out; touch out/model.safetensors; kill -9 $$; fi; exec "$0" "$@"'
        job = self.launch("--", "sh", "-c", dies_once, RUN_CLM, *words({**FLAGS, "max_steps": "3", "save_strategy": "no", "output_dir": "out"}))
        _, error = job.communicate(timeout=500)
        self.assertEqual(job.returncode, 0, error)
        self.assertRegex(error, r"restart 1 of at most 100 with 1 ranks?, from the beginning")
        self.assertGreater((self.folder / "out/model.safetensors").stat().st_size, 1000)

    def held_out(self, result):
        return re.search(r"held out\D*loss ([\d.]+)", result.stdout).group(1)

    def test_a_saved_model_has_its_tokenizer(self):
        trained = self.run_clm(tokenizer_name="bpe:290", max_steps="20", learning_rate="0.01", save_steps="20", output_dir="out")
        self.tessera("checkpoint", "consolidate", "out/checkpoint-20", "-o", "model/")
        for model in ("out", "model"):
            again = subprocess.run([RUN_CLM, *words({k: v for k, v in FLAGS.items() if k != "config_name"}), "--model_name_or_path", model,
                                    "--do_train", "false"], cwd=self.folder, capture_output=True, text=True, timeout=500)
            self.assertEqual(again.returncode, 0, again.stderr)
            self.assertEqual(self.held_out(again), self.held_out(trained), model)

    def test_a_run_that_continues_with_other_data_is_warned(self):
        self.run_clm(max_steps="2", save_steps="2", output_dir="out")
        same = self.run_clm("--resume_from_checkpoint", "true", max_steps="4", output_dir="out")
        self.assertNotIn("other training data", same.stderr)
        text = self.content("a.txt").decode().translate(str.maketrans("aeiou", "eioua"))
        (self.folder / "a.txt").write_text(text)
        other = self.run_clm("--resume_from_checkpoint", "true", max_steps="6", output_dir="out")
        self.assertIn("the run had other training data or another --train_sampling_strategy", other.stderr)
        self.assertNotIn("micro-batches", other.stderr)
        (self.folder / "b.txt").write_text(2 * text)
        longer = self.run_clm("--resume_from_checkpoint", "true", train_file="b.txt", max_steps="8", output_dir="out")
        self.assertRegex(longer.stderr, r"warning: the data has another number of samples: \d+ in an epoch \(--train_file a.txt\) before, "
                         r"\d+ \(--train_file b.txt\) now; the run continues after 24 samples, which are 0\.\d+ epochs instead of 0\.\d+: ")

    def test_a_run_that_continues_with_another_accumulation_is_warned(self):
        self.run_clm(max_steps="2", save_steps="2", gradient_accumulation_steps="2", output_dir="out")
        other = self.run_clm("--resume_from_checkpoint", "true", max_steps="4", output_dir="out")
        self.assertIn("the run had 2 micro-batches in an update, now it has 1; to keep the old number, give --gradient_accumulation_steps 2", other.stderr)

    def test_the_best_model_moves_with_its_folder(self):
        flags = dict(eval_strategy="steps", eval_steps="1", save_strategy="steps", save_steps="1", learning_rate="0.3",
                     lr_scheduler_type="constant", greater_is_better="true")
        self.run_clm("--load_best_model_at_end", max_steps="4", output_dir="p1", **flags)
        shutil.move(self.folder / "p1", self.folder / "p2")
        self.run_clm("--load_best_model_at_end", max_steps="4", output_dir="p1", seed="9", **flags)
        result = self.run_clm("--load_best_model_at_end", "--resume_from_checkpoint", "true", max_steps="5", output_dir="p2", **flags)
        best = re.search(r"best model (\S+):", result.stdout).group(1)
        self.assertTrue(best.startswith("p2/checkpoint-"), best)
        self.tessera("checkpoint", "consolidate", best, "-o", "best")
        self.assertEqual(tensors(self.content("p2/model.safetensors")), tensors(self.content("best/model.safetensors")))

    def test_checkpoints_of_the_model_alone_and_files_are_passed_over(self):
        self.run_clm(max_steps="2", save_steps="2", output_dir="out")
        self.run_clm("--resume_from_checkpoint", "true", "--save_only_model", max_steps="3", save_steps="1", output_dir="out")
        (self.folder / "out" / "checkpoint-9").write_text("not a folder")
        result = self.run_clm("--resume_from_checkpoint", "true", max_steps="4", output_dir="out")
        self.assertIn("out/checkpoint-3 contains no state of the optimizer, because it was written with --save_only_model", result.stderr)
        self.assertIn("resumed    out/checkpoint-2", result.stdout)
        self.run_clm("--save_only_model", max_steps="2", save_steps="1", output_dir="alone")
        result = self.run_clm("--resume_from_checkpoint", "true", max_steps="4", output_dir="alone", status=1)
        self.assertIn("no checkpoint in alone can continue its run: alone/checkpoint-2 contains no state of the optimizer, because it "
                      "was written with --save_only_model", result.stderr)
        self.assertNotIn("the next older checkpoint is tried", result.stderr)

    def test_the_best_model_of_an_earlier_folder_is_found(self):
        flags = dict(eval_strategy="steps", eval_steps="1", save_strategy="steps", save_steps="1", learning_rate="0.3",
                     lr_scheduler_type="constant", greater_is_better="false")
        self.run_clm("--load_best_model_at_end", max_steps="3", output_dir="p1", **flags)
        best = json.loads(self.content("p1/trainer_state.json"))["best_model_checkpoint"]
        self.run_clm("--load_best_model_at_end", max_steps=best[-1], output_dir="p2", seed="5", **flags)  # another run
        for steps, place in (("4", "p1/checkpoint-3"), ("5", "true")):
            result = self.run_clm("--load_best_model_at_end", "--resume_from_checkpoint", place, max_steps=steps, output_dir="p2", **flags)
            shown = re.search(r"best model (\S+):", result.stdout).group(1)
            metric = json.loads(self.content("p2/trainer_state.json"))["best_metric"]
            self.assertEqual(json.loads(self.content(shown + "/trainer_state.json"))["best_metric"], metric)

    def test_folders_of_others_are_no_checkpoints(self):
        """Neither counts for --save_total_limit, nor is it deleted or written over."""
        for name in ("checkpoint-1000", "checkpoint-1", "checkpoint-2"):
            (self.folder / "out" / name).mkdir(parents=True)
            (self.folder / "out" / name / "pytorch_model.bin").write_text(name)
        self.run_clm("--overwrite_output_dir", max_steps="4", save_steps="2", save_total_limit="1", output_dir="out")
        self.tessera("checkpoint", "verify", "out/checkpoint-4")
        self.assertEqual(self.content("out/checkpoint-1000/pytorch_model.bin"), b"checkpoint-1000")
        self.assertEqual(self.content("out/checkpoint-1/pytorch_model.bin"), b"checkpoint-1")
        self.assertEqual(self.content("out/checkpoint-2.replaced/pytorch_model.bin"), b"checkpoint-2")

    def test_an_earlier_tokenizer_is_not_taken_for_that_of_the_model(self):
        def again(model):
            flags = {k: v for k, v in FLAGS.items() if k != "config_name"}
            result = subprocess.run([RUN_CLM, *words(flags), "--model_name_or_path", model, "--do_train", "false"], cwd=self.folder,
                                    capture_output=True, text=True, timeout=500)
            self.assertEqual(result.returncode, 0, result.stderr)
            return self.held_out(result)

        first = self.run_clm(tokenizer_name="bpe:290", max_steps="2", output_dir="out")
        self.assertEqual(again("out"), self.held_out(first))
        vocabulary = self.content("out/vocab.bpe")
        merges = [line.split() for line in vocabulary.decode().splitlines()[1:]]
        written = json.loads(self.content("out/tokenizer.json"))  # Hugging Face's libraries read this file
        self.assertEqual(written["model"]["merges"], [" ".join(pair) for pair in merges])
        self.assertEqual(len(written["model"]["vocab"]), 256 + len(merges) + 1)
        (self.folder / "odd-name").write_bytes(vocabulary)
        second = self.run_clm("--overwrite_output_dir", max_steps="2", output_dir="out")  # bytes
        self.assertEqual(again("out"), self.held_out(second))
        self.assertEqual(self.content("out/vocab.bpe.replaced"), vocabulary)
        self.assertFalse((self.folder / "out" / "tokenizer.json").exists())
        third = self.run_clm(tokenizer_name="odd-name", max_steps="2", output_dir="other")
        self.assertEqual(again("other"), self.held_out(third))

    def test_a_job_that_dies_before_its_first_update_may_still_replace_a_run(self):
        self.run_clm(max_steps="2", save_steps="2", output_dir="out")
        time.sleep(1.1)  # times of files have seconds
        (self.folder / "once.sh").write_text('#!/bin/sh\n[ "$TESSERA_RESTART" = 0 ] && exit 1\nexec "$@"\n')
        (self.folder / "once.sh").chmod(0o755)
        job = self.launch("--", "./once.sh", RUN_CLM, *words({**FLAGS, "max_steps": "4", "save_steps": "4", "output_dir": "out"}),
                          "--overwrite_output_dir")
        _, error = job.communicate(timeout=500)
        self.assertEqual(job.returncode, 0, error)
        self.tessera("checkpoint", "verify", "out/checkpoint-4")

    def test_a_token_file_refuses_another_tokenizer(self):
        self.tessera("tokenize", "a.txt", "--tokenizer", "bpe:290", "-o", "a.tokens")
        self.run_clm(train_file="a.tokens", max_steps="1")
        result = self.run_clm(train_file="a.tokens", tokenizer_name="bytes", status=2)
        self.assertIn("--tokenizer_name bytes: a.tokens was written with the tokenizer bpe:290", result.stderr)
        (self.folder / "b.txt").write_text(self.content("a.txt").decode().replace("mesh", "mush"))
        self.tessera("tokenize", "b.txt", "--tokenizer", "bpe:290", "-o", "b.tokens")
        self.run_clm(train_file="b.tokens", max_steps="1", save_strategy="no", output_dir="other")
        same = self.run_clm(train_file="b.tokens", tokenizer_name="other/vocab.bpe", max_steps="1")
        self.assertIn("held out", same.stdout)
        result = self.run_clm(train_file="a.tokens", tokenizer_name="other/vocab.bpe", status=1)
        self.assertIn("vocab.bpe: ", result.stderr)

    def test_a_pipe_is_no_manifest(self):
        self.run_clm(max_steps="2", save_steps="2", output_dir="out")
        (self.folder / "out" / "checkpoint-2" / "manifest.json").unlink()
        os.mkfifo(self.folder / "out" / "checkpoint-2" / "manifest.json")
        result = self.tessera("checkpoint", "verify", "out/checkpoint-2", status=1)
        self.assertIn("it is not a regular file", result.stderr)

    def test_every_epoch_is_trained(self):
        """3 micro-batches in an epoch, 2 in an update: an epoch has an update of 2 and an update of 1."""
        self.run_clm(max_train_samples="12", gradient_accumulation_steps="2", num_train_epochs="3", output_dir="out", save_strategy="no")
        state = json.loads(self.content("out/trainer_state.json"))
        self.assertEqual(state["global_step"], 6)
        self.assertEqual(state["epoch"], 3)

    def test_skipped_data_does_not_turn_the_epoch_back(self):
        flags = {"max_train_samples": "12", "output_dir": "out", "save_steps": "4"}
        self.run_clm(max_steps="4", **flags)
        self.run_clm("--resume_from_checkpoint", "true", "--ignore_data_skip", max_steps="6", **flags)
        self.assertAlmostEqual(json.loads(self.content("out/trainer_state.json"))["epoch"], 2)

    def test_an_evaluation_does_not_change_the_state_of_a_run(self):
        self.run_clm(max_steps="2", save_steps="2", output_dir="out")
        before = self.content("out/trainer_state.json")
        result = self.run_clm("--do_train", "false", "--overwrite_output_dir", output_dir="out", model_name_or_path="out", config_name="")
        self.assertIn("held out", result.stdout)
        self.assertEqual(self.content("out/trainer_state.json"), before)
        self.tessera("checkpoint", "verify", "out/checkpoint-2")

    def test_an_evaluation_of_an_older_checkpoint_keeps_the_newer_ones(self):
        self.run_clm(max_steps="4", save_steps="2", output_dir="out")
        for folder in ("out", "other"):
            self.run_clm("--do_train", "false", "--resume_from_checkpoint", "out/checkpoint-2", output_dir=folder)
        self.assertEqual(sorted(path.name for path in (self.folder / "out").glob("checkpoint-*")), ["checkpoint-2", "checkpoint-4"])

    def test_a_checkpoint_of_another_step_is_not_resumed_as_the_newest_one(self):
        self.run_clm(max_steps="4", save_steps="2", output_dir="out")
        (self.folder / "out/checkpoint-50").symlink_to("checkpoint-2")
        result = self.run_clm("--resume_from_checkpoint", "true", max_steps="6", save_steps="2", output_dir="out", status=1)
        self.assertIn("out/checkpoint-50 contains the state after step 2; rename it to checkpoint-2, or give", result.stderr)
        self.assertTrue((self.folder / "out/checkpoint-4").exists())

    # A program fails once. The next start of tessera launch continues from a checkpoint whose files are as they were written.
    def launch_after_damage(self, steps):
        damage = "for n in %s; do printf x | dd of=$PWD/out/checkpoint-$n/state-00001-of-00001.safetensors bs=1 seek=5000 conv=notrunc; done" % steps
        run = " ".join([RUN_CLM, *words({**FLAGS, "save_steps": "2"}), '"$@"'])
        (self.folder / "job.sh").write_text(f'#!/bin/bash\nif [ $TESSERA_RESTART = 1 ]; then exec {run} --max_steps 6; fi\n'
                                            f"{run} --max_steps 4; {damage} 2>/dev/null; exit 7\n")
        (self.folder / "job.sh").chmod(0o755)
        return self.tessera("launch", "-np", "1", "--", "./job.sh", "--output_dir", "out")

    def test_a_restart_continues_from_the_newest_undamaged_checkpoint(self):
        result = self.launch_after_damage("4")
        self.assertIn("out/checkpoint-4 is damaged", result.stderr)
        self.assertIn("restart 1 of at most 100 with 1 rank, from out/checkpoint-2\n", result.stderr)
        self.assertIn("out/checkpoint-2: step 2 of 6\n", result.stdout)
        self.tessera("checkpoint", "verify", "out/checkpoint-6")

    def test_a_restart_starts_over_if_all_checkpoints_are_damaged(self):
        result = self.launch_after_damage("2 4")
        self.assertIn("renamed out/checkpoint-4 to out/checkpoint-4.replaced, because the job has no undamaged checkpoint", result.stderr)
        self.assertIn("restart 1 of at most 100 with 1 rank, from the beginning", result.stderr)
        self.tessera("checkpoint", "verify", "out/checkpoint-6")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
