#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The step of bench/model_step in PyTorch, with the models of transformers. Prints one line of JSON.

usage: model_step_torch.py --model resnet50|resnet18|bert_small [--batch 8] [--image_size 224] [--length 128] [--steps 5] [--threads 1] [--compile]
       [--channels_last]
"""
import argparse
import json
import statistics
import time

import torch
import transformers


def make(arguments):
    if arguments.model.startswith("resnet"):
        config = transformers.ResNetConfig(num_labels=1000)
        if arguments.model == "resnet18":
            config = transformers.ResNetConfig(num_labels=1000, hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], layer_type="basic")
        layout = torch.channels_last if arguments.channels_last else torch.contiguous_format
        model = transformers.ResNetForImageClassification(config).to(memory_format=layout)
        images = torch.rand(arguments.batch, 3, arguments.image_size, arguments.image_size).to(memory_format=layout)
        inputs = {"pixel_values": images, "labels": torch.randint(0, 1000, (arguments.batch,))}
        return model, inputs, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    config = transformers.BertConfig(hidden_size=512, num_hidden_layers=4, num_attention_heads=8, intermediate_size=2048)
    model = transformers.BertForMaskedLM(config)
    shape = (arguments.batch, arguments.length)
    labels = torch.where(torch.arange(arguments.batch * arguments.length).reshape(shape) % 7 == 0, torch.randint(0, config.vocab_size, shape), -100)
    inputs = {"input_ids": torch.randint(0, config.vocab_size, shape), "attention_mask": torch.ones(shape, dtype=torch.int64), "labels": labels}
    return model, inputs, torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0, fused=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    for name, value in (("batch", 8), ("image_size", 224), ("length", 128), ("steps", 5), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--channels_last", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(1)
    model, inputs, optimizer = make(arguments)
    model.train()
    called = torch.compile(model) if arguments.compile else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = called(**inputs).loss
        loss.backward()
        optimizer.step()
        return loss.item()

    for _ in range(2):
        step()
    times = []
    for _ in range(arguments.steps):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    seconds = statistics.median(times)
    print(json.dumps({"seconds": seconds, "samples_per_second": arguments.batch / seconds, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
