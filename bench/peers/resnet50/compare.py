#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A ResNet-50 training step (forward, backward, SGD with momentum; f32) in Tessera and PyTorch, in turn on the same cores:
images per second, on one rank and on two. PyTorch runs with channels_last and without, each eagerly and compiled.

usage: compare.py [--bin build/release/bin] [--python PATH] [--cores 0,1] [--rounds 3] [--batch 8] [--image_size 224] [--ranks 1,2]
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import model_step_compare

model_step_compare.main(__doc__, "resnet50", "images", {"batch": 8, "image_size": 224}, {"channels_last": ["--channels_last"], "contiguous": []})
