# SPDX-License-Identifier: Apache-2.0
"""Weights move between Tessera and Hugging Face's transformers without a change of the model: the logits and the mean
held-out loss of the same GPT-2 on the same text, in both directions, for one file and several, for folders in float32 and
bfloat16, on one rank and on several.

    hugging_face_weights.py RUN_CLM        needs torch, transformers and safetensors
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import safetensors
import safetensors.torch
import torch
import transformers

RUN_CLM = sys.argv[1]
TESSERA = pathlib.Path(RUN_CLM).parent / "tessera"
MODEL_VALUES = pathlib.Path(RUN_CLM).parent / "model_values"
FOLDER = pathlib.Path(tempfile.mkdtemp())
BLOCK = 24
BOUND = 1e-5
failures = 0


def config():
    return transformers.GPT2Config(vocab_size=257, n_positions=32, n_embd=60, n_layer=3, n_head=5, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)


def write_text():
    words = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "two", "dogs"]
    text = " ".join(words[(i * i + 3 * i) % len(words)] for i in range(1200))
    (FOLDER / "text.txt").write_text(text)
    return text.encode()


def loss_of(model, text):
    """The mean over all predicted tokens of blocks of BLOCK bytes."""
    blocks = torch.tensor([list(text[i:i + BLOCK]) for i in range(0, len(text) - BLOCK + 1, BLOCK)])
    with torch.no_grad():
        return model.eval()(input_ids=blocks, labels=blocks).loss.item()


def run_clm(name, *arguments):
    folder = FOLDER / name
    subprocess.run([RUN_CLM, "--train_file", FOLDER / "text.txt", "--validation_file", FOLDER / "text.txt", "--block_size", str(BLOCK),
                    "--sample_tokens", "0", "--output_dir", folder, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)
    return folder, json.loads((folder / "eval_results.json").read_text())["eval_loss"]


def compare(what, ours, theirs):
    global failures
    good = abs(ours - theirs) <= BOUND
    failures += not good
    print(f"{'ok  ' if good else 'FAIL'}  {what}: Tessera {ours:.8f}, transformers {theirs:.8f}, difference {abs(ours - theirs):.1e}")


def load(folder):
    for path in folder.glob("*.safetensors"):
        with safetensors.safe_open(path, "pt") as file:
            assert list(file.keys()), path
    model, info = transformers.GPT2LMHeadModel.from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"], info
    assert model.dtype == torch.float32, model.dtype
    return model


def compare_logits(what, folder, model, text):
    """Compares the logits of Tessera for the model in the folder with those of `model`, relative to the largest one."""
    global failures
    blocks = torch.tensor([list(text[i:i + BLOCK]) for i in range(0, 6 * BLOCK, BLOCK)])
    inputs, outputs = FOLDER / "inputs.safetensors", FOLDER / "outputs.safetensors"
    safetensors.torch.save_file({"input_ids": blocks, "labels": blocks.clone()}, inputs)
    subprocess.run([MODEL_VALUES, folder, inputs, outputs], check=True)
    ours = safetensors.torch.load_file(outputs)["logits"]
    with torch.no_grad():
        theirs = model.eval()(input_ids=blocks).logits
    error = ((ours - theirs).abs().max() / theirs.abs().max()).item()
    failures += not error <= BOUND
    print(f"{'ok  ' if error <= BOUND else 'FAIL'}  {what}: logits differ by {error:.1e} of the largest one")


def main():
    text = write_text()
    torch.manual_seed(1)
    model = transformers.GPT2LMHeadModel(config())
    theirs = loss_of(model, text)
    ranks = {"one rank": [], "three ranks, FSDP": ["--virtual_ranks", 3, "--fsdp", "full_shard"],
             "five ranks, tensor parallelism": ["--virtual_ranks", 5, "--mesh", "model=5", "--tensor_parallel", "model"]}
    for form, options in {"one file": {}, "several files": {"max_shard_size": "90KB"}}.items():
        folder = FOLDER / form.replace(" ", "_")
        model.save_pretrained(folder, **options)
        compare_logits(f"saved by transformers, {form}", folder, model, text)
        for name, flags in ranks.items():
            _, ours = run_clm(f"{folder.name}_{len(flags)}", "--model_name_or_path", folder, "--do_train", "false", *flags)
            compare(f"saved by transformers, {form}, loaded on {name}", ours, theirs)
    half = FOLDER / "bfloat16"
    model.to(torch.bfloat16).save_pretrained(half)
    model.to(torch.float32)  # with the rounded weights
    compare_logits("saved by transformers in bfloat16", half, model, text)
    theirs = loss_of(model, text)
    folder, _ = run_clm("from_bfloat16", "--model_name_or_path", half, "--max_steps", 1, "--learning_rate", "1e-9")
    compare_logits("saved by transformers in bfloat16, and again by Tessera in float32", folder, load(folder), text)
    model.transformer.save_pretrained(FOLDER / "body")
    _, ours = run_clm("from_body", "--model_name_or_path", FOLDER / "body", "--do_train", "false")
    compare("saved by transformers, GPT2Model without head", ours, theirs)
    (FOLDER / "config.json").write_text(json.dumps(config().to_dict()))
    for name, flags in ranks.items():
        folder, ours = run_clm(f"trained_{len(flags)}", "--config_name", FOLDER / "config.json", "--max_steps", 4,
                               "--learning_rate", "3e-3", *flags)
        compare(f"trained and saved by Tessera on {name}", ours, loss_of(load(folder), text))
        subprocess.run([TESSERA, "checkpoint", "consolidate", folder / "checkpoint-4", "-o", folder / "model"], check=True)
        compare_logits("the same", folder, load(folder), text)
        compare("the checkpoint of this run, consolidated", ours, loss_of(load(folder / "model"), text))
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, safetensors {safetensors.__version__}")
    sys.exit(failures > 0)


main()
