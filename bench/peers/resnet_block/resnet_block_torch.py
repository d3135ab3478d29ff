#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The block of bench/resnet_block in PyTorch, forward and backward, as written and with channels_last. Prints one line of JSON.

usage: resnet_block_torch.py [--batch 4] [--size 56] [--channels 256] [--steps 10] [--channels_last]
"""
import argparse
import json
import statistics
import time

import torch
from torch import nn


class Bottleneck(nn.Module):
    def __init__(self, channels):
        super().__init__()
        inner = channels // 4
        self.conv1, self.bn1 = nn.Conv2d(channels, inner, 1, bias=False), nn.BatchNorm2d(inner)
        self.conv2, self.bn2 = nn.Conv2d(inner, inner, 3, padding=1, bias=False), nn.BatchNorm2d(inner)
        self.conv3, self.bn3 = nn.Conv2d(inner, channels, 1, bias=False), nn.BatchNorm2d(channels)

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = torch.relu(self.bn2(self.conv2(y)))
        return torch.relu(self.bn3(self.conv3(y)) + x)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("batch", 4), ("size", 56), ("channels", 256), ("steps", 10)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--channels_last", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    shape = (arguments.batch, arguments.channels, arguments.size, arguments.size)
    layout = torch.channels_last if arguments.channels_last else torch.contiguous_format
    block = Bottleneck(arguments.channels).to(memory_format=layout)
    x = torch.rand(shape).sub(0.5).to(memory_format=layout).requires_grad_()
    weights = torch.rand(shape).sub(0.5).to(memory_format=layout)

    def step():
        (block(x) * weights).sum().backward()
        block.zero_grad(set_to_none=True)
        x.grad = None

    for _ in range(2):
        step()
    times = []
    for _ in range(arguments.steps):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    print(json.dumps({"seconds": statistics.median(times), "torch": torch.__version__}))


if __name__ == "__main__":
    main()
