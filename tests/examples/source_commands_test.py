# SPDX-License-Identifier: Apache-2.0
"""The two command lines of the documents that Tessera follows run as they are, with other launchers and names of scripts. Models, texts
and batches are smaller.

    source_commands_test.py TESSERA RUN_CLM RUN_MLM
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TESSERA, RUN_CLM, RUN_MLM = sys.argv[1:4]
FOLDER = pathlib.Path(tempfile.mkdtemp())
os.environ["HF_HOME"] = str(FOLDER / "huggingface")  # not the models of this machine
WORDS = ["mesh", "shard", "axis", "rank", "device", "partial", "group", "unit"]
FSDP_CONFIG = {
    "fsdp_transformer_layer_cls_to_wrap": ["GPT2Block"], "xla": True,
    "xla_fsdp_settings": {"compute_dtype": "bfloat16", "shard_param_on_dim_0": True, "pin_layout_in_collective_ops": True},
    "xla_fsdp_grad_ckpt": True}
GPT2_CONFIG = {
    "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1, "bos_token_id": 50256, "embd_pdrop": 0.1,
    "eos_token_id": 50256, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_embd": 24, "n_head": 3,
    "n_layer": 3, "n_positions": 64, "resid_pdrop": 0.1, "summary_activation": None, "summary_first_dropout": 0.1,
    "summary_proj_to_labels": True, "summary_type": "cls_index", "summary_use_proj": True,
    "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}}, "vocab_size": 50257}
BERT_CONFIG = {
    "model_type": "bert", "hidden_size": 24, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 48,
    "max_position_embeddings": 64, "vocab_size": 13, "type_vocab_size": 2}


def check(condition, message):
    if not condition:
        sys.exit(f"source_commands_test: {message}")


def run(ranks, program, command):
    words = [TESSERA, "launch", "--num_cores", str(ranks), program, *command.split()]
    result = subprocess.run(words, capture_output=True, text=True, timeout=1500, cwd=FOLDER)
    check(result.returncode == 0, f"{' '.join(words)}\n{result.stdout}{result.stderr}")
    return result.stdout


def gpt2_alphabet():
    """The characters that stand for the 256 bytes in GPT-2's vocabulary."""
    shown = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return [chr(byte) for byte in shown] + [chr(256 + n) for n in range(256 - len(shown))]


def write_inputs():
    text = " ".join(WORDS[(i * i + i // 3) % 8] for i in range(2600))
    for dataset in ("wikitext-2-raw-v1", "wikitext-103-raw-v1"):
        for cache in ("cache", "cache_dir"):
            folder = FOLDER / cache / dataset
            folder.mkdir(parents=True)
            for part, size in (("train", 9000), ("valid", 3000), ("test", 3000)):
                (folder / f"wiki.{part}.raw").write_text(f" = Words = \n\n {text[:size]} \n")
    (FOLDER / "fsdp_config.json").write_text(json.dumps(FSDP_CONFIG))
    (FOLDER / "gpt2_config.json").write_text(json.dumps(GPT2_CONFIG))
    # The models of the cache, as the package huggingface_hub stores them.
    gpt2 = FOLDER / "cache/models--gpt2/snapshots/607a30d783dfa663caf39e06633721c8d4cfcd7e"
    gpt2.mkdir(parents=True)
    vocabulary = gpt2_alphabet() + ["sh", "ra", "\u0120m"]
    (gpt2 / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(vocabulary)}))
    (gpt2 / "merges.txt").write_text("#version: 0.2\ns h\nr a\n\u0120 m\n")
    (gpt2.parents[1] / "refs").mkdir()
    (gpt2.parents[1] / "refs/main").write_text(gpt2.name)


def causal():
    out = run(4, RUN_CLM, """--num_train_epochs 1 --dataset_name wikitext
        --dataset_config_name wikitext-2-raw-v1 --per_device_train_batch_size 2 --per_device_eval_batch_size 2 --do_train --do_eval
        --output_dir test-clm --overwrite_output_dir --config_name gpt2_config.json --cache_dir cache --tokenizer_name gpt2
        --block_size 64 --optim adafactor --adafactor true --save_strategy no --logging_strategy no --fsdp full_shard
        --fsdp_config fsdp_config.json""")
    check("held out: loss" in out, out)
    block = re.search(r"transformer\.h\.0 \(GPT2Block\) +(\d+) +([\d.]+)KB", out)
    check(block and abs(float(block[2]) * 1024 / int(block[1]) - 2) < 0.01, f"gathers two bytes for each parameter, in bf16:\n{out}")


def masked():
    # The weights of the cache: those of a short run.
    model = FOLDER / "cache_dir/models--bert-large-uncased/snapshots/6da4b6a26a1877e173fca3225479512db81a5e5b"
    model.mkdir(parents=True)
    (FOLDER / "bert.json").write_text(json.dumps(BERT_CONFIG))
    (FOLDER / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]) + "\n")
    run(1, RUN_MLM, """--config_name bert.json --tokenizer_name vocab.txt --dataset_name wikitext --dataset_config_name wikitext-103-raw-v1
        --cache_dir cache_dir --max_seq_length 64 --max_steps 1 --output_dir short --do_eval false""")
    for name in ("config.json", "model.safetensors"):
        shutil.copy(next((FOLDER / "short").rglob(name)), model / name)
    shutil.copy(FOLDER / "vocab.txt", model / "vocab.txt")
    out = run(8, RUN_MLM, """--dataset_name wikitext --dataset_config_name wikitext-103-raw-v1
        --max_seq_length 64 --pad_to_max_length --logging_dir ./tensorboard-metrics --cache_dir ./cache_dir --do_train --do_eval
        --output_dir language-modeling --overwrite_output_dir --overwrite_cache --tpu_metrics_debug --model_name_or_path bert-large-uncased
        --num_train_epochs 3 --per_device_train_batch_size 1 --per_device_eval_batch_size 1 --save_steps 500000""")
    check(re.search(r"perplexity", out), out)
    check((FOLDER / "language-modeling/model.safetensors").exists(), "no model in the output folder")
    check(any((FOLDER / "tensorboard-metrics").iterdir()), "no log in --logging_dir")


if __name__ == "__main__":
    try:
        write_inputs()
        causal()
        masked()
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
