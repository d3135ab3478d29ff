#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training step of a small BERT (4 layers, width 512, 8 heads, vocabulary 30522; masked tokens, dropout 0.1, AdamW; f32) in
Tessera and PyTorch, in turn on the same cores: sequences per second, on one rank and on two. PyTorch runs eagerly and compiled.

usage: compare.py [--bin build/release/bin] [--python PATH] [--cores 0,1] [--rounds 3] [--batch 8] [--length 128] [--ranks 1,2]
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import model_step_compare

model_step_compare.main(__doc__, "bert_small", "sequences", {"batch": 8, "length": 128}, {"": []})
