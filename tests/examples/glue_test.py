# SPDX-License-Identifier: Apache-2.0
"""run_classification on the nine tasks of GLUE, started as users of Hugging Face's run_glue.py start it. There is no network: the
texts are generated, and the folders, the names of files, the headers and the spelling of labels are those of GLUE's archives.

    glue_test.py RUN_CLASSIFICATION MPIEXEC
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

RUN_CLASSIFICATION, MPIEXEC = os.path.abspath(sys.argv[1]), sys.argv[2]
TRAIN, DEV, TEST = 24, 13, 7  # samples
WORDS = ["rain", "fell", "on", "the", "old", "town", "while", "we", "walked", "home"]
ENTAILMENT = ["entailment", "not_entailment"]
# The folder, the header (None: the file has none), the labels in the file, and a row for the texts a and b with a label.
LAYOUTS = {
    "cola": ("CoLA", None, ["0", "1"], lambda i, a, b, label: ["gj04", label, "*" if label == "0" else "", a]),
    "sst2": ("SST-2", "sentence label", ["0", "1"], lambda i, a, b, label: [a + " ", label]),
    "mrpc": ("MRPC", "Quality|#1 ID|#2 ID|#1 String|#2 String", ["0", "1"], lambda i, a, b, label: [label, str(702 + i), str(902 + i), a, b]),
    "qqp": ("QQP", "id qid1 qid2 question1 question2 is_duplicate", ["0", "1"], lambda i, a, b, label: [str(i), str(2 * i), str(2 * i + 1), a, b, label]),
    "stsb": ("STS-B", "index genre filename year old_index source1 source2 sentence1 sentence2 score", ["0.000", "2.400", "3.750", "5.000"],
             lambda i, a, b, label: [str(i), "main-captions", "MSRvid", "2012test", f"{i:04}", "none", "none", a, b, label]),
    "mnli": ("MNLI",
             "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse sentence2_parse sentence1 sentence2 label1 gold_label",
             ["entailment", "neutral", "contradiction"],
             lambda i, a, b, label: [str(i), str(i), f"{i}e", "fiction", f"( {a} )", f"( {b} )", f"(ROOT {a})", f"(ROOT {b})", a, b, label, label]),
    "qnli": ("QNLI", "index question sentence label", ENTAILMENT, lambda i, a, b, label: [str(i), a + "?", b, label]),
    "rte": ("RTE", "index sentence1 sentence2 label", ENTAILMENT, lambda i, a, b, label: [str(i), a, b, label]),
    "wnli": ("WNLI", "index sentence1 sentence2 label", ["0", "1"], lambda i, a, b, label: [str(i), a, b, label]),
}
METRICS = {"cola": ["matthews_correlation"], "mrpc": ["accuracy", "f1", "combined_score"], "qqp": ["accuracy", "f1", "combined_score"],
           "stsb": ["pearson", "spearmanr", "combined_score"]}
LABELS = {"cola": ["unacceptable", "acceptable"], "sst2": ["negative", "positive"], "mrpc": ["not_equivalent", "equivalent"],
          "qqp": ["not_duplicate", "duplicate"], "stsb": ["LABEL_0"], "mnli": ["entailment", "neutral", "contradiction"], "qnli": ENTAILMENT,
          "rte": ENTAILMENT, "wnli": ENTAILMENT[::-1]}


def text(i, step):
    return " ".join(WORDS[(i * i + step * j) % len(WORDS)] for j in range(3 + i % 4))


def write_glue(root):
    for folder, header, labels, row in LAYOUTS.values():
        dev = ["dev_matched.tsv", "dev_mismatched.tsv"] if folder == "MNLI" else ["dev.tsv"]
        for file, count, shift in [("train.tsv", TRAIN, 0), *((name, DEV, 50 + 7 * n) for n, name in enumerate(dev))]:
            lines = [] if header is None else ["\t".join(header.split("|" if "|" in header else " "))]
            for i in range(shift, shift + count):
                lines.append("\t".join(row(i, text(i, 3), text(i + 1, 1), labels[(i * i + i // 3) % len(labels)])))
            (root / folder).mkdir(parents=True, exist_ok=True)
            (root / folder / file).write_text("\n".join(lines) + "\n")
        write_test(root / folder, header, labels, row)
    with open(root / "QQP" / "train.tsv", "a") as file:
        file.write("99\t1\t2\tthis row is broken\n")  # as some rows of QQP


def write_test(folder, header, labels, row):
    """The files without labels have a header, also that of CoLA."""
    columns = ["index", "sentence"] if header is None else header.split("|" if "|" in header else " ")
    label = next((i for i, name in enumerate(columns) if name in ("label", "Quality", "is_duplicate", "score", "gold_label")), None)
    lines = []
    for fields in [columns, *(row(i, text(i, 2), text(i + 1, 3), labels[0]) for i in range(90, 90 + TEST))]:
        if header is None and fields is not columns:
            fields = [str(len(lines) - 1), fields[-1]]
        lines.append("\t".join(field for i, field in enumerate(fields) if i != label))
    (folder / ("test_matched.tsv" if folder.name == "MNLI" else "test.tsv")).write_text("\n".join(lines) + "\n")


class Glue(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        write_glue(cls.folder / "glue_data")
        (cls.folder / "bert.json").write_text(json.dumps({
            "model_type": "bert", "vocab_size": 261, "hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 3, "intermediate_size": 40,
            "max_position_embeddings": 64, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def run_glue(self, *arguments, ranks=1, status=0):
        launcher = [MPIEXEC, "--oversubscribe", "-n", str(ranks)] if ranks > 1 else []
        environment = {**os.environ, "HF_HOME": str(self.folder / "huggingface"), "TESSERA_DATA": ""}  # nothing of this machine
        result = subprocess.run([*launcher, RUN_CLASSIFICATION, *map(str, arguments)], cwd=self.folder, env=environment, capture_output=True, text=True,
                                timeout=1000)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result

    def train(self, task, output, *more, ranks=1):
        """The log of a run, and its output."""
        result = self.run_glue("--config_name", "bert.json", "--task_name", task, "--do_train", "--do_eval", "--max_seq_length", 48, "--global_batch_size", 6,
                               "--per_device_eval_batch_size", 2, "--dtype", "float64", "--learning_rate", "5e-3", "--max_steps", 4, "--logging_steps", 1,
                               "--save_strategy", "no", "--output_dir", output, *more, ranks=ranks)
        return json.loads((self.folder / output / "trainer_state.json").read_text())["log_history"], result

    def predictions(self, folder, task):
        """The predictions of a run, in the order of the samples."""
        header, *rows = (self.folder / folder / f"predict_results_{task}.txt").read_text().splitlines()
        self.assertEqual(header, "index\tprediction")
        self.assertEqual([row.split("\t")[0] for row in rows], [str(i) for i in range(len(rows))])
        return [row.split("\t")[1] for row in rows]

    def assert_same(self, got, expected):
        self.assertEqual(len(got), len(expected))
        for a, b in zip(got, expected):
            for key in set(a) | set(b):
                if key in ("loss", "epoch", "step") or key.startswith("eval_"):
                    self.assertLess(abs(a[key] - b[key]), 1e-9 * (1 + abs(b[key])), f"{key}: {got} instead of {expected}")

    def test_every_task_has_its_labels_and_metrics(self):
        for task in LAYOUTS:
            with self.subTest(task):
                log, result = self.train(task, f"out/{task}", "--cache_dir", self.folder)
                metrics = METRICS.get(task, ["accuracy"])
                values = [log[-1][f"eval_{name}"] for name in metrics]
                self.assertTrue(all(-1 <= value <= 1 for value in values), log[-1])
                if "combined_score" in metrics:
                    self.assertAlmostEqual(values[2], (values[0] + values[1]) / 2)
                shown = ", ".join(f"{name} {value:.4f}" for name, value in zip(metrics, values))
                self.assertIn(f"held out: loss {log[-1]['eval_loss']:.4f}, {shown} over {DEV} samples\n", result.stdout)
                config = json.loads((self.folder / f"out/{task}/config.json").read_text())
                self.assertEqual(list(config["id2label"].values()), LABELS[task])
                self.assertEqual(config["finetuning_task"], task)
                self.assertEqual(config.get("problem_type") == "regression", task == "stsb")
                self.assertEqual("rows that lack fields are skipped: 1 of 25" in result.stdout, task == "qqp", result.stdout)
                # A classifier that is not trained guesses.
                first = log[0]["loss"]
                if task != "stsb":
                    self.assertLess(abs(first - math.log(len(LABELS[task]))), 0.2, log)

    # Neither 24 nor 13 samples, nor the batches, are divisible by the ranks.
    def test_metrics_are_equal_on_every_mesh(self):
        for task in ("mrpc", "stsb"):
            with self.subTest(task):
                expected, _ = self.train(task, f"one/{task}", "--data_dir", "glue_data")
                four, _ = self.train(task, f"four/{task}", "--data_dir", "glue_data", ranks=4)
                self.assert_same(four, expected)
                sharded, _ = self.train(task, f"sharded/{task}", "--data_dir", f"glue_data/{LAYOUTS[task][0]}", "--mesh", "fsdp=2,model=2",
                                        "--virtual_ranks", 4, "--fsdp", "full_shard", "--tensor_parallel", "model")
                self.assert_same(sharded, expected)

    def test_a_regression_learns_its_scores(self):
        log, _ = self.train("stsb", "regression", "--data_dir", "glue_data", "--max_steps", 60, "--lr_scheduler_type", "constant")
        losses = [entry["loss"] for entry in log if "loss" in entry]
        self.assertLess(sum(losses[-4:]), 0.7 * sum(losses[:4]), losses)  # two epochs of four updates

    def test_the_best_model_is_that_of_the_metric(self):
        log, result = self.train("mrpc", "best", "--data_dir", "glue_data", "--max_steps", 12, "--eval_strategy", "epoch", "--save_strategy", "epoch",
                                 "--load_best_model_at_end", "--metric_for_best_model", "f1")
        scores = [entry["eval_f1"] for entry in log if "eval_f1" in entry]
        self.assertEqual(len(scores), 3 + 1, log)  # one for each epoch, and that of the best model
        state = json.loads((self.folder / "best/trainer_state.json").read_text())
        self.assertEqual(state["best_metric"], max(scores[:3]))
        self.assertEqual(scores[3], max(scores[:3]))
        self.assertIn("best model", result.stdout)

    def test_a_metric_that_is_no_number_selects_no_model(self):
        header, row = LAYOUTS["stsb"][1], LAYOUTS["stsb"][3]
        folder = self.folder / "constant/STS-B"
        folder.mkdir(parents=True)
        shutil.copy(self.folder / "glue_data/STS-B/train.tsv", folder)
        dev = [row(i, text(i, 3), text(i, 1), "2.000") for i in range(DEV)]  # the correlation with a constant is NaN
        (folder / "dev.tsv").write_text("\n".join("\t".join(fields) for fields in [header.split(" "), *dev]) + "\n")
        _, result = self.train("stsb", "nan", "--data_dir", "constant", "--eval_strategy", "epoch", "--save_strategy", "epoch", "--load_best_model_at_end",
                               "--metric_for_best_model", "pearson")
        self.assertIn("--load_best_model_at_end: there is no complete checkpoint whose pearson is a number; the model of the last update", result.stderr)
        self.assertNotIn("best model ", result.stdout)

    def test_an_evaluation_without_samples_is_reported(self):
        folder = self.folder / "train_only/RTE"
        folder.mkdir(parents=True)
        shutil.copy(self.folder / "glue_data/RTE/train.tsv", folder)
        _, result = self.train("rte", "train_only_run", "--data_dir", "train_only")
        self.assertIn("no dev.tsv in train_only/RTE: no evaluation\n", result.stdout)
        self.assertNotIn("held out", result.stdout)
        (folder / "short.tsv").write_text("index\tsentence1\tsentence2\tlabel\n0\tno label\n\n1\tno label\n")
        short = "train_only/RTE/short.tsv: contains no sample; 2 rows lack some of the 4 fields that the header has: index, sentence1, sentence2, label"
        common = ["--config_name", "bert.json", "--task_name", "rte", "--max_seq_length", 48, "--max_steps", 1]
        given = self.run_glue(*common, "--data_dir", "train_only", "--validation_file", "train_only/RTE/short.tsv", status=1)
        self.assertIn(short, given.stderr)
        (folder / "dev.tsv").write_text("index\tsentence1\tsentence2\tlabel\n")
        _, found = self.train("rte", "no_row_run", "--data_dir", "train_only")
        self.assertIn("train_only/RTE/dev.tsv: contains no sample: no evaluation\n", found.stdout)
        train = self.run_glue(*common, "--train_file", "train_only/RTE/short.tsv", status=1)
        self.assertIn(short, train.stderr)

    def test_the_file_of_a_run_names_the_task_and_not_its_files(self):
        self.train("mrpc", "given", "--data_dir", "glue_data")
        values = json.loads((self.folder / "given/training_args.json").read_text())
        self.assertEqual([values[key] for key in ("task_name", "data_dir", "train_file", "validation_file")], ["mrpc", "glue_data", None, None])
        rte, _ = self.train("rte", "rte", "--data_dir", "glue_data")
        for name, more in {"again": [], "folder": ["--data_dir", "glue_data/RTE"]}.items():
            self.run_glue("given/training_args.json", "--task_name", "rte", "--output_dir", name, *more)
            self.assert_same(json.loads((self.folder / name / "trainer_state.json").read_text())["log_history"], rte)

    def test_every_task_predicts_the_samples_of_its_test_file(self):
        for task, (folder, *_) in LAYOUTS.items():
            with self.subTest(task):
                result = self.run_glue("--config_name", "bert.json", "--task_name", task, "--data_dir", "glue_data", "--do_train", "false", "--do_eval", "false",
                                       "--do_predict", "--max_seq_length", 48, "--output_dir", f"tests/{task}")
                self.assertIn(f"predictions: {TEST} samples, in tests/{task}/predict_results_{task}.txt\n", result.stdout)
                found = self.predictions(f"tests/{task}", task)
                self.assertEqual(len(found), TEST)
                for one in found:
                    self.assertRegex(one, r"^-?\d+\.\d{3}$" if task == "stsb" else "|".join(f"^{name}$" for name in LABELS[task]))

    # The labels of a test file are not read, so the file of the evaluation gives its metrics again.
    def test_predictions_are_those_of_the_evaluation_on_every_mesh(self):
        for task in ("rte", "stsb"):
            with self.subTest(task):
                dev = f"glue_data/{LAYOUTS[task][0]}/dev.tsv"
                flags = ["--data_dir", "glue_data", "--do_predict", "--test_file", dev, "--max_steps", 8]
                log, _ = self.train(task, f"predicted/{task}", *flags)
                found = self.predictions(f"predicted/{task}", task)
                labels = [line.split("\t")[-1] for line in (self.folder / dev).read_text().splitlines()[1:]]
                self.assertEqual(len(found), DEV)
                if task == "rte":
                    self.assertAlmostEqual(log[-1]["eval_accuracy"], sum(a == b for a, b in zip(found, labels, strict=True)) / DEV)
                else:
                    self.assertLess(abs(log[-1]["eval_loss"] - sum((float(a) - float(b)) ** 2 for a, b in zip(found, labels, strict=True)) / DEV), 0.01)
                for name, mesh in {"mpi": [], "sharded": ["--mesh", "fsdp=2,model=2", "--virtual_ranks", 4, "--fsdp", "full_shard", "--tensor_parallel",
                                                          "model"]}.items():
                    self.train(task, f"predicted/{name}_{task}", *flags, *mesh, ranks=1 if mesh else 4)
                    self.assertEqual(self.predictions(f"predicted/{name}_{task}", task), found)

    def test_a_trained_model_predicts_into_its_folder(self):
        self.train("rte", "again_rte", "--data_dir", "glue_data", "--save_strategy", "steps")
        before = sorted(path.name for path in (self.folder / "again_rte").iterdir())
        state = (self.folder / "again_rte/trainer_state.json").read_bytes()
        common = ["--model_name_or_path", "again_rte", "--task_name", "rte", "--data_dir", "glue_data", "--do_train", "false", "--do_eval", "false",
                  "--max_seq_length", 48, "--output_dir", "again_rte"]
        result = self.run_glue(*common, "--do_predict", "--max_predict_samples", 5)
        self.assertIn("predictions: 5 samples, in again_rte/predict_results_rte.txt\n", result.stdout)
        self.assertEqual(len(self.predictions("again_rte", "rte")), 5)
        self.assertEqual(sorted(path.name for path in (self.folder / "again_rte").iterdir()), sorted([*before, "predict_results_rte.txt"]))
        self.assertEqual((self.folder / "again_rte/trainer_state.json").read_bytes(), state)
        unused = self.run_glue(*common, "--max_predict_samples", 5)
        self.assertIn("--max_predict_samples has no effect without --do_predict\n", unused.stdout)

    # The command line of Hugging Face's page of run_glue.py, with a folder of the data and a model that the test has trained.
    def test_the_command_line_of_run_glue(self):
        self.train("qnli", "model", "--data_dir", "glue_data")
        result = self.run_glue("--model_name_or_path", "model", "--task_name", "rte", "--do_train", "--do_eval", "--max_seq_length", 48,
                               "--per_device_train_batch_size", 32, "--learning_rate", "2e-5", "--num_train_epochs", 3, "--output_dir", "tmp/rte/",
                               "--cache_dir", ".")
        self.assertRegex(result.stdout, r"held out: loss \d\.\d+, accuracy \d\.\d+ over 13 samples\n")
        plan = self.run_glue("--config_name", "bert.json", "--task_name", "mnli", "--dry_run", "--max_seq_length", 48)
        self.assertIn("3 labels", plan.stdout)  # a plan needs no files

    def test_errors(self):
        common = ["--config_name", "bert.json", "--max_seq_length", 48]
        unknown = self.run_glue(*common, "--task_name", "qnlli", status=2)
        self.assertEqual(unknown.stderr, "run_classification: --task_name: there is no GLUE task \"qnlli\"; did you mean \"qnli\"?\n")
        absent = self.run_glue(*common, "--task_name", "qnli", "--cache_dir", "empty", status=1)
        self.assertIn("no folder QNLI with the TSV files of the GLUE task qnli; searched empty/glue_data/QNLI, empty/glue/QNLI, empty/QNLI; give the folder: "
                      "--data_dir", absent.stderr)
        missing = self.run_glue(*common, "--task_name", "qnli", "--data_dir", "nowhere", status=1, ranks=2)
        self.assertIn("--data_dir: none of 2 ranks can read nowhere/train.tsv", missing.stderr)
        metric = self.run_glue(*common, "--task_name", "stsb", "--data_dir", "glue_data", "--metric_for_best_model", "accuracy", "--eval_strategy", "epoch",
                               "--save_strategy", "epoch", "--output_dir", "refused", status=2)
        self.assertEqual(metric.stderr, "run_classification: --metric_for_best_model accuracy: the metrics of the GLUE task stsb are loss, pearson, spearmanr, "
                         "combined_score\n")
        shutil.copytree(self.folder / "glue_data/RTE", self.folder / "untested/RTE", ignore=shutil.ignore_patterns("test.tsv"))
        predict = ["--do_predict", "--output_dir", "untested_run"]
        untested = self.run_glue(*common, "--task_name", "rte", "--data_dir", "untested", *predict, status=1)
        self.assertIn("--data_dir: ", untested.stderr)
        self.assertIn("untested/RTE/test.tsv: No such file or directory; --do_predict needs the texts whose labels are predicted", untested.stderr)
        given = self.run_glue(*common, "--train_file", "glue_data/RTE/train.tsv", *predict, status=2)
        self.assertIn("--do_predict needs --test_file, a TSV or CSV file with the texts", given.stderr)
        other = self.run_glue(*common, "--task_name", "rte", "--data_dir", "glue_data/CoLA", status=1)
        self.assertIn("there is no column sentence1, which files of the GLUE task rte have; the columns are ", other.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
