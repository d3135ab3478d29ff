# SPDX-License-Identifier: Apache-2.0
"""run_mlm, run_classification and train_imagenet on the command line: the same losses on one rank and on four, continued runs,
the best model, and errors.

    training_programs_test.py RUN_MLM RUN_CLASSIFICATION TRAIN_IMAGENET MPIEXEC
"""
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import zlib

RUN_MLM, RUN_CLASSIFICATION, TRAIN_IMAGENET, MPIEXEC = sys.argv[1:5]
FOLDER = pathlib.Path(tempfile.mkdtemp())
os.environ["HF_HOME"] = str(FOLDER / "huggingface")  # not the models of this machine
FOUR = ["--virtual_ranks", 4]


def check(condition, message):
    if not condition:
        sys.exit(f"training_programs_test: {message}")


def run(*command, status=0):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=1500)
    check(result.returncode == status, f"{command}: status {result.returncode}\n{result.stdout[-2000:]}{result.stderr[-2000:]}")
    return result


def history(folder):
    return json.loads((folder / "trainer_state.json").read_text())["log_history"]


def values(folder, key):
    return [entry[key] for entry in history(folder) if key in entry]


def close(a, b, bound=1e-9):
    return len(a) == len(b) and all(abs(x - y) <= bound * (1 + abs(y)) for x, y in zip(a, b))


def write_inputs():
    words = ["in", "the", "beginning", "god", "created", "heaven", "and", "earth", "light", "water"]
    lines = [" ".join(words[(i * i + 3 * j) % len(words)] for j in range(4 + i % 5)) for i in range(160)]
    (FOLDER / "text.txt").write_text("\n".join(lines) + "\n")
    (FOLDER / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]) + "\n")
    (FOLDER / "bert.json").write_text(json.dumps({
        "model_type": "bert", "vocab_size": 261, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40,
        "max_position_embeddings": 32}))
    for name, count in {"train": 48, "dev": 20}.items():
        rows = [f"{i}\t{lines[i]}\t{'light ' * (i % 2)}{words[i % 7]}\t{'entailment' if i % 2 else 'not_entailment'}" for i in range(count)]
        (FOLDER / f"{name}.tsv").write_text("index\tquestion\tsentence\tlabel\n" + "\n".join(rows) + "\n")


def png(path, width, height, colour):
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    rows = b"".join(b"\0" + bytes(colour) * width for _ in range(height))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def mlm():
    common = [RUN_MLM, "--config_name", FOLDER / "bert.json", "--train_file", FOLDER / "text.txt", "--max_seq_length", 16, "--global_batch_size", 5,
              "--gradient_accumulation_steps", 2, "--max_steps", 4, "--logging_steps", 1, "--learning_rate", "1e-3", "--dtype", "float64",
              "--save_steps", 2, "--validation_split_percentage", 20]
    result = run(*common, "--output_dir", FOLDER / "mlm1", "--logging_dir", FOLDER / "logs", "--tpu_metrics_debug")
    check(re.search(r"held out: loss [0-9.]+ nats, perplexity [0-9.]+ over [0-9]+ masked tokens", result.stdout), result.stdout)
    check("CompileTime" in result.stderr + result.stdout, "--tpu_metrics_debug prints no metrics")
    lines = [json.loads(line) for line in (FOLDER / "logs/log.jsonl").read_text().splitlines()]
    check([line["step"] for line in lines if "loss" in line] == [1, 2, 3, 4], lines)
    expected = values(FOLDER / "mlm1", "loss") + values(FOLDER / "mlm1", "eval_loss")
    layouts = {"mpi": [], "fsdp": ["--mesh", "fsdp=2,model=2", "--fsdp", "full_shard", "--tensor_parallel", "model"]}
    for name, flags in layouts.items():
        launcher = [MPIEXEC, "-n", 4] if name == "mpi" else []
        run(*launcher, *common, *flags, *([] if launcher else FOUR), "--output_dir", FOLDER / name)
        got = values(FOLDER / name, "loss") + values(FOLDER / name, "eval_loss")
        check(close(got, expected), f"{name}: {got} instead of {expected}")
    # A run that continues has the losses of the uninterrupted run.
    run(*common, "--output_dir", FOLDER / "resumed", "--resume_from_checkpoint", FOLDER / "mlm1/checkpoint-2")
    check(values(FOLDER / "resumed", "loss") == values(FOLDER / "mlm1", "loss"), "a continued run has other losses")
    # Lines as samples, with WordPiece, from the saved model.
    lines = [RUN_MLM, "--model_name_or_path", "mlm1", "--cache_dir", FOLDER, "--tokenizer_name", FOLDER / "vocab.txt", "--train_file", FOLDER / "text.txt",
             "--line_by_line", "--pad_to_max_length", "--max_seq_length", 12, "--max_steps", 2, "--virtual_ranks", 3]
    by_line = run(*lines)
    check("vocabulary 261" in by_line.stdout and "held out: loss" in by_line.stdout, by_line.stdout)
    # The tokens of both texts are kept, and the next run reads them.
    kept = {path: path.stat().st_mtime_ns for path in (FOLDER / "tessera_tokens").iterdir()}
    check(len(kept) == 2, kept)
    held_out = re.search(r"held out: .*", by_line.stdout).group()
    check(held_out in run(*lines).stdout and all(path.stat().st_mtime_ns == time for path, time in kept.items()), "the tokens are written again")
    check(held_out in run(*lines, "--overwrite_cache").stdout and all(path.stat().st_mtime_ns > time for path, time in kept.items()),
          "--overwrite_cache does not replace the tokens")


def classification():
    common = [RUN_CLASSIFICATION, "--train_file", FOLDER / "train.tsv", "--validation_file", FOLDER / "dev.tsv", "--max_seq_length", 24,
              "--tokenizer_name", FOLDER / "vocab.txt", "--global_batch_size", 6, "--num_train_epochs", 10, "--logging_steps", 10, "--learning_rate", "2e-3",
              "--lr_scheduler_type", "constant", "--model_name_or_path", FOLDER / "mlm1"]
    # The texts of dev.tsv, without the labels and in another order of columns.
    dev = [line.split("\t") for line in (FOLDER / "dev.tsv").read_text().splitlines()[1:]]
    (FOLDER / "test.tsv").write_text("sentence\tquestion\n" + "".join(f"{row[2]}\t{row[1]}\n" for row in dev))
    result = run(*common, "--output_dir", FOLDER / "glue", "--eval_strategy", "epoch", "--save_strategy", "epoch", "--load_best_model_at_end",
                 "--metric_for_best_model", "accuracy", "--do_predict", "--test_file", FOLDER / "test.tsv")
    check("initial values: bert.pooler.dense.weight" in result.stdout and "classifier.bias" in result.stdout, result.stdout)
    check("best model" in result.stdout, result.stdout)
    accuracies = values(FOLDER / "glue", "eval_accuracy")
    state = json.loads((FOLDER / "glue/trainer_state.json").read_text())
    check(state["best_metric"] == max(accuracies) and accuracies[-1] == max(accuracies) and accuracies[-1] > 0.8, accuracies)
    predicted = [line.split("\t")[1] for line in (FOLDER / "glue/predict_results.txt").read_text().splitlines()[1:]]
    check(f"predictions: 20 samples, in {FOLDER}/glue/predict_results.txt\n" in result.stdout, result.stdout)
    correct = sum(name == row[3] for name, row in zip(predicted, dev, strict=True))
    check(abs(correct / len(dev) - accuracies[-1]) < 1e-9, f"{correct} of {len(dev)} predictions, accuracy {accuracies[-1]}")
    config = json.loads((FOLDER / "glue/config.json").read_text())
    check(config["id2label"] == {"0": "entailment", "1": "not_entailment"} and config["architectures"] == ["BertForSequenceClassification"], config)
    losses = {}
    for name, flags in {"one": [], "four": FOUR}.items():
        run(*common, *flags, "--dtype", "float64", "--max_steps", 4, "--output_dir", FOLDER / name, "--logging_steps", 1)
        losses[name] = values(FOLDER / name, "loss") + values(FOLDER / name, "eval_loss") + values(FOLDER / name, "eval_accuracy")
    check(close(losses["four"], losses["one"]), losses)


def images():
    common = [TRAIN_IMAGENET, "--fake_data", "--model", "tiny", "--image_size", 33, "--fake_data_samples", 40, "--fake_data_classes", 4, "--num_epochs", 2,
              "--dtype", "float64", "--log_steps", 2, "--global_batch_size", 8, "--lr", "0.05"]
    result = run(*common, "--output_dir", FOLDER / "images1")
    check(re.search(r"step +10  loss .* images/s", result.stderr), result.stderr)
    check(re.search(r"held out: loss [0-9.]+, accuracy [0-9.]+ over 40 samples", result.stdout), result.stdout)
    expected = values(FOLDER / "images1", "loss") + values(FOLDER / "images1", "eval_loss")
    for name, flags in {"data": [], "spatial": ["--mesh", "data=2,rows=2", "--spatial_sharding", "rows"]}.items():
        run(*common, *flags, *FOUR, "--output_dir", FOLDER / name)
        got = values(FOLDER / name, "loss") + values(FOLDER / name, "eval_loss")
        check(close(got, expected, 1e-8), f"{name}: {got} instead of {expected}")
    for part in ("train", "val"):
        for i in range(6):
            png(FOLDER / "folder" / part / "dark" / f"{i}.png", 20 + i, 30, (i, 2 * i, 9))
            png(FOLDER / "folder" / part / "light" / f"{i}.png", 31, 22 + i, (200 + i, 220, 250 - i))
    result = run(TRAIN_IMAGENET, "--datadir", FOLDER / "folder", "--model", "tiny", "--image_size", 16, "--batch_size", 4, "--num_epochs", 8, "--lr", "0.05",
                 "--virtual_ranks", 2)
    check(re.search(r"2 classes", result.stdout) and re.search(r"accuracy 1.0000 over 12 samples", result.stdout), result.stdout)
    check("every image has the same label" not in result.stderr, result.stderr)
    (FOLDER / "misplaced/train").mkdir(parents=True)
    (FOLDER / "folder/train").rename(FOLDER / "misplaced/train/all")
    result = run(TRAIN_IMAGENET, "--datadir", FOLDER / "misplaced", "--model", "tiny", "--image_size", 16, "--batch_size", 4, "--max_steps", 1,
                 "--virtual_ranks", 2)
    warning = f"warning: {FOLDER}/misplaced/train has one sub-folder, all, so every image has the same label and there is nothing to learn; "
    check(result.stderr.count(warning) == 1, result.stderr)


def errors():
    def message(*command):
        return run(*command, status=2).stderr
    check("give --config_name, the config.json of a BERT (or tiny" in message(RUN_MLM, "--train_file", "t"), "run_mlm without a model")
    check("unknown option --max_seq_len; did you mean \"--max_seq_length\"" in message(RUN_MLM, "--max_seq_len", 3), "a misspelled flag")
    check("no images to train on: give --datadir, or --fake_data" in message(TRAIN_IMAGENET), "train_imagenet without images")
    missing = run(RUN_MLM, "--model_name_or_path", "bert-large-uncased", "--cache_dir", "nowhere", "--train_file", FOLDER / "text.txt", status=1).stderr
    check("there is no folder bert-large-uncased or nowhere/bert-large-uncased" in missing, missing)
    (FOLDER / "bad.tsv").write_text("sentence\tlabel\na\t1\nb\n")
    bad = run(RUN_CLASSIFICATION, "--config_name", "tiny", "--train_file", FOLDER / "bad.tsv", status=1).stderr
    check("bad.tsv, line 3: has 1 fields, but the header has 2" in bad, bad)


write_inputs()
mlm()
classification()
images()
errors()
