# SPDX-License-Identifier: Apache-2.0
"""What run_clm, run_mlm and run_classification read as texts: JSON Lines, folders, token files to evaluate on; what they refuse;
and models whose vocabulary is too small.

    text_inputs_test.py RUN_CLM RUN_MLM RUN_CLASSIFICATION TESSERA
"""
import csv
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

RUN_CLM, RUN_MLM, RUN_CLASSIFICATION, TESSERA = map(os.path.abspath, sys.argv[1:5])
CONFIG = {"model_type": "gpt2", "n_embd": 12, "n_head": 3, "n_layer": 2, "n_positions": 16, "vocab_size": 300}
WORDS = ["mesh", "shard", "axis", "rank", "device", "partial", "group", "unit"]
SHORT = ["--max_steps", 2, "--logging_steps", 1, "--dtype", "float64", "--disable_tqdm", "--report_to", "none"]
CLM = ["--config_name", "gpt2.json", "--block_size", 16, "--global_batch_size", 4, "--sample_tokens", 0, "--learning_rate", "1e-3", *SHORT]
MLM = ["--max_seq_length", 16, "--global_batch_size", 4, *SHORT]


def text(start, count):
    return " ".join(WORDS[(i * i + i // 3) % 8] for i in range(start, start + count))


class TextInputs(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "gpt2.json").write_text(json.dumps(CONFIG))
        (self.folder / "a.txt").write_text(text(0, 400))
        (self.folder / "in").mkdir()
        (self.folder / "in/a.jsonl").write_text("".join(json.dumps({"text": text(7 * i, 12)}) + "\n" for i in range(40)))

    def run_program(self, program, *arguments, status=0):
        result = subprocess.run([program, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True, timeout=1000, errors="replace",
                                env={**os.environ, "HF_HOME": str(self.folder / "huggingface")})
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result

    def losses(self, output, *arguments):
        self.run_program(RUN_CLM, *CLM, "--output_dir", output, *arguments)
        history = json.loads((self.folder / output / "trainer_state.json").read_text())["log_history"]
        return [entry.get("loss", entry.get("eval_loss")) for entry in history]

    def test_documents_train_as_their_token_file(self):
        for number, given in enumerate(("in/a.jsonl", "in")):
            self.run_program(TESSERA, "tokenize", given, "--tokenizer", "bpe:280", "-o", "in.tokens")
            expected = self.losses(f"tokens{number}", "--train_file", "in.tokens")
            self.assertEqual(len(expected), 3)
            self.assertEqual(self.losses(f"documents{number}", "--train_file", given, "--tokenizer_name", "bpe:280"), expected)
            (self.folder / "in/b.txt").write_text(text(3, 90))

    def test_an_evaluation_needs_no_text_to_train_on(self):
        """The model that a run has saved, and its evaluation, without the text of the run."""
        (self.folder / "held_out.txt").write_text(text(5, 60))
        given = ["--train_file", "a.txt", "--validation_file", "held_out.txt"]
        held_out = re.compile(r"held out: loss .*")
        for program, words in ((RUN_CLM, CLM), (RUN_MLM, ["--config_name", "tiny", *MLM])):
            trained = self.run_program(program, *words, *given, "--output_dir", "trained", "--overwrite_output_dir")
            again = [program, "--model_name_or_path", "trained", *words, "--validation_file", "held_out.txt"]
            result = self.run_program(*again, "--do_train", "false", "--virtual_ranks", 2)
            self.assertEqual(held_out.findall(result.stdout), held_out.findall(trained.stdout))
            refused = self.run_program(*again, status=2)
            self.assertIn("no text to train on: give --train_file, ", refused.stderr)
            self.assertIn("; to evaluate without training, add --do_train false\n", refused.stderr)
            refused = self.run_program(*again[:-2], "--do_train", "false", status=2)
            self.assertIn("--do_train false needs a text to evaluate on: give --validation_file, ", refused.stderr)
        refused = self.run_program(RUN_CLM, *CLM, "--validation_file", "held_out.txt", "--do_train", "false", "--tokenizer_name", "bpe:280", status=2)
        self.assertIn("--tokenizer_name bpe:280 is trained on the training text, but there is none; give the tokenizer of the model", refused.stderr)

    def test_a_token_file_to_evaluate_on_is_read_as_one(self):
        self.run_program(TESSERA, "tokenize", "a.txt", "-o", "bytes.tokens")
        self.run_program(TESSERA, "tokenize", "a.txt", "--tokenizer", "bpe:280", "-o", "bpe.tokens")
        blocks = len(text(0, 400)) // 16
        result = self.run_program(RUN_CLM, *CLM, "--train_file", "a.txt", "--validation_file", "bytes.tokens")
        self.assertIn(f" over {15 * blocks} tokens\n", result.stdout)
        refused = self.run_program(RUN_CLM, *CLM, "--train_file", "a.txt", "--validation_file", "bpe.tokens", status=1)
        self.assertIn("--validation_file bpe.tokens was written with another tokenizer (bpe:280, 280 ids) than that of the training (bytes, 256 ids)",
                      refused.stderr)

    def test_texts_may_be_in_other_columns(self):
        rows = [json.loads(line)["text"] for line in (self.folder / "in/a.jsonl").read_text().splitlines()]
        (self.folder / "rows.jsonl").write_text("".join(json.dumps({"id": i, "content": row}) + "\n" for i, row in enumerate(rows)))
        with open(self.folder / "rows.csv", "w", newline="") as file:
            csv.writer(file).writerows([["content", "id"], *([row, i] for i, row in enumerate(rows))])
        expected = self.losses("text", "--train_file", "in/a.jsonl")
        self.assertEqual(self.losses("named", "--train_file", "rows.jsonl", "--text_column_name", "content"), expected)
        self.assertEqual(self.losses("csv", "--train_file", "rows.csv"), expected)
        common = ["--config_name", "tiny", "--line_by_line", *MLM]
        held_out = [re.search(r"held out: loss .*", self.run_program(RUN_MLM, *common, "--train_file", *given).stdout).group()
                    for given in (["in/a.jsonl"], ["rows.jsonl", "--text_column_name", "content"], ["rows.csv"])]
        self.assertEqual(held_out, 3 * held_out[:1])
        refused = self.run_program(RUN_CLM, *CLM, "--train_file", "rows.jsonl", status=1)
        self.assertIn("rows.jsonl, line 1: id must be a string, got 0", refused.stderr)
        self.assertIn("the columns are id, content; --text_column_name ", refused.stderr)
        self.run_program(TESSERA, "tokenize", "rows.csv", "--text-column", "content", "-o", "csv.tokens")
        self.run_program(TESSERA, "tokenize", "in/a.jsonl", "-o", "jsonl.tokens")
        self.assertEqual((self.folder / "csv.tokens").read_bytes(), (self.folder / "jsonl.tokens").read_bytes())

    def test_files_of_a_folder_that_are_not_read_are_named_once(self):
        (self.folder / "in/readme.md").write_text("no")
        for program, words in ((RUN_CLM, CLM), (RUN_MLM, ["--config_name", "tiny", *MLM])):
            result = self.run_program(program, *words, "--train_file", "in", "--virtual_ranks", 2)
            self.assertEqual(result.stderr.count("warning: --train_file: 1 of the 2 files in the folder in is not read: 1 .md; a folder stands for its files "
                                                 "*.txt and *.jsonl\n"), 1, result.stderr)
            (self.folder / "in/a.jsonl").rename(self.folder / "a.jsonl")
            result = self.run_program(program, *words, "--train_file", "in", "--virtual_ranks", 2, status=1)
            self.assertEqual(result.stderr.count("the folder in has no file *.txt or *.jsonl; its files are: 1 .md"), 1, result.stderr)
            (self.folder / "a.jsonl").rename(self.folder / "in/a.jsonl")

    def test_what_is_no_text_is_refused(self):
        (self.folder / "a.txt.gz").write_bytes(gzip.compress(b"a text"))
        self.run_program(TESSERA, "tokenize", "a.txt", "-o", "a.tokens")
        table = ["--config_name", "tiny", "--validation_file", "a.txt", *MLM]
        for program, words, name, what in ((RUN_CLM, CLM, "a.txt.gz", "compressed by gzip"),
                                           (RUN_MLM, ["--config_name", "tiny", *MLM], "a.txt.gz", "compressed by gzip"),
                                           (RUN_MLM, ["--config_name", "tiny", *MLM], "a.tokens", "a token file"),
                                           (RUN_CLASSIFICATION, table, "a.tokens", "a token file")):
            result = self.run_program(program, *words, "--train_file", name, status=1)
            self.assertIn(f"{name}: is {what}, not a text; ", result.stderr)
        (self.folder / "a.weights").write_bytes(b"text\0more")
        for program, words in ((RUN_CLM, CLM), (RUN_MLM, ["--config_name", "tiny", *MLM])):
            result = self.run_program(program, *words, "--train_file", "a.weights", status=1)
            self.assertIn("a.weights: is binary (byte 4 is 0), not a text; give a text in UTF-8, JSON Lines (.jsonl) or CSV (.csv)", result.stderr)

    def test_run_mlm_reads_documents_with_the_model_tiny(self):
        """Its default tokenizer has as many ids as this model."""
        lines = [json.loads(line)["text"] for line in (self.folder / "in/a.jsonl").read_text().splitlines()]
        (self.folder / "lines.txt").write_text("\n".join(lines) + "\n")
        (self.folder / "held_out.txt").write_text("\n".join(lines[:5]) + "\n")
        common = ["--config_name", "tiny", "--line_by_line", "--validation_file", "held_out.txt", *MLM]
        shown = [re.search(r"held out: loss .*", self.run_program(RUN_MLM, *common, "--train_file", name).stdout).group()
                 for name in ("lines.txt", "in/a.jsonl", "in")]
        self.assertEqual(shown, 3 * shown[:1])

    def test_a_vocabulary_that_is_too_small_names_the_flag_that_mends_it(self):
        small = ["--config_name", "tiny", "--train_file", "a.txt", *MLM, "--config_overrides"]
        result = self.run_program(RUN_MLM, *small, "vocab_size=200", status=1)
        self.assertIn("the tokenizer bytes has 260 tokens, but the model's vocab_size is 200; make it 260 or more with --config_overrides vocab_size=260\n",
                      result.stderr)
        result = self.run_program(RUN_MLM, *small, "vocab_size=261,hidden_size=24,num_attention_heads=3")
        self.assertIn("BERT, 2 layers, width 24, 3 heads, vocabulary 261", result.stdout)
        unknown = self.run_program(RUN_MLM, *small, "hiden_size=24", status=1)
        self.assertIn('tiny with --config_overrides hiden_size=24: unknown key "hiden_size"; did you mean "hidden_size"?', unknown.stderr)

    def test_an_evaluation_of_a_classifier_needs_no_training_file(self):
        rows = "".join(f"{text(i, 5)}\t{'yes' if i % 2 else 'no'}\n" for i in range(12))
        (self.folder / "train.csv").write_text("sentence,label\n" + rows.replace("\t", ","))
        (self.folder / "dev.tsv").write_text("sentence\tlabel\n" + rows)
        common = ["--max_seq_length", 48, "--report_to", "none", "--disable_tqdm", "--output_dir", "classifier"]
        trained = self.run_program(RUN_CLASSIFICATION, "--config_name", "tiny", "--train_file", "train.csv", "--validation_file", "dev.tsv", "--max_steps", 1,
                                   *common)
        (self.folder / "train.csv").unlink()
        again = ["--model_name_or_path", "classifier", "--do_train", "false", *common]
        (self.folder / "test.tsv").write_text("sentence\n" + "".join(row.split("\t")[0] + "\n" for row in rows.splitlines()))
        result = self.run_program(RUN_CLASSIFICATION, *again, "--validation_file", "dev.tsv", "--do_predict", "--test_file", "test.tsv")
        held_out = re.search(r"held out: loss .*", trained.stdout).group()
        self.assertIn(held_out, result.stdout)
        predicted = [line.split("\t")[1] for line in (self.folder / "classifier/predict_results.txt").read_text().splitlines()[1:]]
        self.assertEqual(len(predicted), 12)
        self.assertLessEqual(set(predicted), {"yes", "no"})
        (self.folder / "dev.tsv").write_text("sentence\tlabel\nmesh\tperhaps\n")
        result = self.run_program(RUN_CLASSIFICATION, *again, "--validation_file", "dev.tsv", status=1)
        self.assertIn('dev.tsv, line 2: the label "perhaps" is not one of the model: no, yes', result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
