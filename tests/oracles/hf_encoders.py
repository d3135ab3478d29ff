# SPDX-License-Identifier: Apache-2.0
"""BERT, ViT and ResNet in Tessera and in Hugging Face's transformers, with random weights in f32: logits, every gradient, and the
losses of 20 AdamW steps; ResNet in evaluation and in training mode.

    hf_encoders.py MODEL_VALUES        needs torch, transformers and safetensors
"""
import pathlib
import subprocess
import sys
import tempfile

import safetensors.torch
import torch
import transformers

TOOL = sys.argv[1]
FOLDER = pathlib.Path(tempfile.mkdtemp())
STEPS = 20
LEARNING_RATE = 1e-3
WEIGHT_DECAY = 0.01
failures = 0


def relative(ours, theirs):
    """The norm of the difference relative to the norm."""
    return ((ours.double() - theirs.double()).norm() / theirs.double().norm().clamp_min(1e-30)).item()


def report(what, value, bound, detail=""):
    global failures
    good = value <= bound
    failures += not good
    print(f"{'ok  ' if good else 'FAIL'}  {what}: {value:.1e} (bound {bound:.0e}){detail}")


def file_names(model, folder):
    """The tensor in memory of each name in the file: transformers may use other names for the module than for the file."""
    stored = safetensors.torch.load_file(folder / "model.safetensors")
    named = dict(model.named_parameters())
    out = {}
    for name, value in stored.items():
        if name in named:
            out[name] = named.pop(name)
            continue
    for name, value in stored.items():
        if name in out:
            continue
        same = [key for key, parameter in named.items() if parameter.shape == value.shape and torch.equal(parameter, value)]
        if same:
            out[name] = named.pop(same[0])
    assert not named, f"no name in the file for {list(named)}"
    return out


def disturb(model):
    """Gives every parameter another value, so that biases and norms count, and no two are equal."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
        for name, buffer in model.named_buffers():
            if name.endswith("running_var"):
                buffer.mul_(1 + 0.3 * torch.rand_like(buffer))
            if name.endswith("running_mean"):
                buffer.add_(0.1 * torch.randn_like(buffer))


def compare(name, model, inputs, train=False):
    disturb(model)
    folder = FOLDER / name.replace(" ", "_")
    model.save_pretrained(folder)
    parameters = file_names(model, folder)
    safetensors.torch.save_file({key: value.contiguous() for key, value in inputs.items()}, folder / "inputs.safetensors")
    command = [TOOL, folder, folder / "inputs.safetensors", folder / "out.safetensors", "--steps", str(STEPS),
               "--learning_rate", str(LEARNING_RATE), "--weight_decay", str(WEIGHT_DECAY)] + (["--train"] if train else [])
    subprocess.run(command, check=True)
    ours = safetensors.torch.load_file(folder / "out.safetensors")

    model.train(train)
    output = model(**inputs)
    output.loss.backward()
    report(f"{name}, logits", relative(ours["logits"], output.logits.detach()), 1e-4)
    report(f"{name}, loss", abs(ours["loss"].item() - output.loss.item()), 1e-5)
    errors = {key: relative(ours["gradient." + key], parameter.grad) for key, parameter in parameters.items()}
    scale = max(parameter.grad.norm().item() for parameter in parameters.values())
    # A gradient that is zero but for rounding, such as that of a bias before a norm, is compared with the largest one.
    for key, parameter in parameters.items():
        if parameter.grad.norm().item() < 1e-6 * scale:
            errors[key] = ((ours["gradient." + key] - parameter.grad).norm() / scale).item()
    worst = max(errors, key=errors.get)
    report(f"{name}, {len(errors)} gradients", errors[worst], 1e-3, f", the largest in {worst}")
    if train:
        buffers = {key: buffer for key, buffer in model.named_buffers() if "running" in key}
        report(f"{name}, {len(buffers)} running statistics", max(relative(ours["buffer." + key], b) for key, b in buffers.items()), 1e-4)
    losses = []
    model.zero_grad()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.999), eps=1e-8, weight_decay=WEIGHT_DECAY)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(**inputs).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    difference = max(abs(a - b) for a, b in zip(ours["losses"].tolist(), losses))
    report(f"{name}, losses of {STEPS} AdamW steps, {losses[0]:.4f} to {losses[-1]:.4f}", difference, 1e-4)


def bert_config(**changes):
    return transformers.BertConfig(vocab_size=211, hidden_size=48, num_hidden_layers=3, num_attention_heads=4, intermediate_size=96,
                                   max_position_embeddings=40, hidden_dropout_prob=0, attention_probs_dropout_prob=0, **changes)


def bert_inputs():
    rows, length = 5, 23
    ids = torch.randint(3, 211, (rows, length))
    mask = torch.ones(rows, length, dtype=torch.int64)
    for row in range(rows):
        mask[row, length - 3 * row:] = 0
    types = (torch.arange(length) > 9).long().repeat(rows, 1)
    return {"input_ids": torch.where(mask == 1, ids, 0), "attention_mask": mask, "token_type_ids": types}


def main():
    torch.set_num_threads(1)
    torch.manual_seed(2)
    inputs = bert_inputs()
    labels = torch.where((torch.rand(5, 23) < 0.3) & (inputs["attention_mask"] == 1), torch.randint(0, 211, (5, 23)), -100)
    compare("BertForMaskedLM", transformers.BertForMaskedLM(bert_config()), {**inputs, "labels": labels})
    compare("BertForSequenceClassification", transformers.BertForSequenceClassification(bert_config(num_labels=3)),
            {**inputs, "labels": torch.randint(0, 3, (5,))})
    vit = transformers.ViTConfig(hidden_size=48, num_hidden_layers=3, num_attention_heads=3, intermediate_size=80, image_size=[30, 24], patch_size=6,
                                 num_labels=7)
    compare("ViTForImageClassification", transformers.ViTForImageClassification(vit),
            {"pixel_values": torch.randn(4, 3, 30, 24), "labels": torch.randint(0, 7, (4,))})
    images = {"pixel_values": torch.randn(6, 3, 61, 53), "labels": torch.randint(0, 7, (6,))}
    basic = transformers.ResNetConfig(embedding_size=16, hidden_sizes=[16, 24, 40], depths=[2, 1, 2], layer_type="basic", num_labels=7)
    bottleneck = transformers.ResNetConfig(embedding_size=16, hidden_sizes=[32, 64], depths=[2, 2], layer_type="bottleneck", num_labels=7,
                                           downsample_in_first_stage=True)
    for name, config in {"basic": basic, "bottleneck": bottleneck}.items():
        for train in (False, True):
            compare(f"ResNet {name}, {'training' if train else 'evaluation'} mode", transformers.ResNetForImageClassification(config), images, train)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, safetensors {safetensors.__version__}")
    sys.exit(failures > 0)


main()
