# SPDX-License-Identifier: Apache-2.0
"""Ranks that find different files under the same names, as on local disks, end with an error that names them.

    different_files_test.py FOLDER_OF_PROGRAMS MPIEXEC
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAMS, MPIEXEC = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
GPT2 = {"model_type": "gpt2", "n_embd": 12, "n_head": 3, "n_layer": 2, "n_positions": 16, "vocab_size": 259}
CLM = ["--max_steps", "1", "--block_size", "16", "--sample_tokens", "0", "--report_to", "none", "--per_device_train_batch_size", "2"]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "of", "ranks", "mesh", "shard"]


def write_image(path, gray):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"P5 8 8 255\n" + bytes([gray]) * 64)


class DifferentFiles(unittest.TestCase):
    def setUp(self):
        self.top = pathlib.Path(tempfile.mkdtemp())
        self.folders = [self.top / "a", self.top / "b"]
        for folder in self.folders:
            folder.mkdir()
            (folder / "gpt2.json").write_text(json.dumps(GPT2))
            (folder / "text.txt").write_text("a mesh of ranks, a shard of a mesh\n" * 60)
        self.addCleanup(shutil.rmtree, self.top)

    def one(self, folder, program, *arguments):
        subprocess.run([PROGRAMS / program, *arguments], cwd=folder, check=True, capture_output=True)

    def both(self, program, *arguments):
        """Runs one rank in each folder."""
        part = [str(PROGRAMS / program), *arguments]
        command = [MPIEXEC, "--oversubscribe", "-n", "1", "-wdir", str(self.folders[0]), *part, ":", "-n", "1", "-wdir",
                   str(self.folders[1]), *part]
        return subprocess.run(command, capture_output=True, text=True, timeout=600, errors="replace", env=dict(os.environ))

    def refuse(self, change, text, program, *arguments):
        """Equal files are accepted; after `change` in the second folder, the error has the text."""
        result = self.both(program, *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        change(self.folders[1])
        result = self.both(program, *arguments)
        self.assertNotEqual(result.returncode, 0, result.stdout)
        self.assertIn(text, result.stderr)

    def test_token_files(self):
        def make(folder):
            self.one(folder, "tessera", "tokenize", "text.txt", "-o", "text.tokens")

        def change(folder):
            (folder / "text.txt").write_text((folder / "text.txt").read_text().replace("mesh", "mush"))
            make(folder)

        for folder in self.folders:
            make(folder)
        self.refuse(change, "ranks read different files; give every rank the same content:\n  --train_file is text.tokens (", "run_clm",
                    "--config_name", "gpt2.json", "--train_file", "text.tokens", "--mesh", "fsdp=2", "--fsdp", "full_shard", *CLM)

    def test_folders_of_texts(self):
        for folder in self.folders:
            (folder / "texts").mkdir()
            shutil.copy(folder / "text.txt", folder / "texts" / "a.txt")
        change = lambda folder: (folder / "texts" / "b.jsonl").write_text('{"text": "a ring"}\n')
        self.refuse(change, "  --train_file is texts (1 file, hash ", "run_clm", "--config_name", "gpt2.json", "--train_file", "texts", "--mesh",
                    "data=2", *CLM)

    def test_texts_of_a_dataset(self):
        for folder in self.folders:
            (folder / "names").mkdir()
            shutil.copy(folder / "text.txt", folder / "names" / "wiki.train.raw")
        change = lambda folder: (folder / "names" / "wiki.train.raw").write_text("a mush of ranks, a shard of a mush\n" * 60)
        self.refuse(change, "  --dataset_name is names (wiki.train.raw ", "run_clm", "--config_name", "gpt2.json", "--dataset_name", "names",
                    "--cache_dir", ".", "--mesh", "data=2", *CLM)

    def test_vocabularies(self):
        for folder in self.folders:
            (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
        change = lambda folder: (folder / "vocab.txt").write_text("\n".join(WORDS[:5] + WORDS[:4:-1]) + "\n")
        self.refuse(change, "  --tokenizer_name is vocab.txt (", "run_mlm", "--config_name", "tiny", "--tokenizer_name", "vocab.txt",
                    "--train_file", "text.txt", "--max_steps", "1", "--max_seq_length", "16", "--mesh", "data=2", "--report_to", "none")

    def test_classes_of_images(self):
        for folder in self.folders:
            for name, gray in (("cat", 10), ("dog", 200)):
                for i in range(2):
                    write_image(folder / "images" / "train" / name / f"{i}.pgm", gray + i)
        change = lambda folder: (folder / "images" / "train" / "cat").rename(folder / "images" / "train" / "elk")
        self.refuse(change, "  --datadir is images (4 files, hash ", "train_imagenet", "--model", "tiny", "--datadir", "images", "--image_size",
                    "8", "--per_device_train_batch_size", "1", "--max_steps", "1", "--mesh", "data=2", "--report_to", "none")

    def test_weights_and_checkpoints(self):
        train = ["--config_name", "gpt2.json", "--train_file", "text.txt", *CLM, "--output_dir", "out", "--save_strategy", "steps",
                 "--save_steps", "1"]
        for folder in self.folders:
            self.one(folder, "run_clm", *train, "--seed", "5")
            self.one(folder, "tessera", "checkpoint", "consolidate", "out/checkpoint-1", "-o", "model")

        def change(folder):
            shutil.rmtree(folder / "out")
            shutil.rmtree(folder / "model")
            self.one(folder, "run_clm", *train, "--seed", "6")
            self.one(folder, "tessera", "checkpoint", "consolidate", "out/checkpoint-1", "-o", "model")

        (self.folders[0] / "model" / "generation_config.json").write_text("{}")  # no rank reads it
        self.refuse(change, " was not read from the same file on all ranks: ", "run_clm", "--model_name_or_path", "model", "--train_file",
                    "text.txt", "--mesh", "fsdp=2", "--fsdp", "full_shard", *CLM, "--tokenizer_name", "bytes")
        result = self.both("run_clm", "--config_name", "gpt2.json", "--train_file", "text.txt", *CLM[2:], "--max_steps", "2",
                           "--resume_from_checkpoint", "out/checkpoint-1", "--mesh", "fsdp=2", "--fsdp", "full_shard")
        self.assertNotEqual(result.returncode, 0, result.stdout)
        self.assertIn("out/checkpoint-1 is not the same checkpoint on all ranks: its checksums have the hash ", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
