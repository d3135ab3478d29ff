#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The character GPT of the demo in PyTorch: the same model, the same optimizer settings, the same split.

Needs Debian's python3-torch; not part of the tests.
  bench/peers/char_gpt_torch.py --train_file build/kjv.txt --seeds 0,1,2
prints the held-out loss in nats per byte at each of --eval_steps. bench/peers/char_gpt.sh prints Tessera's results.
"""
import argparse
import json
import math

import torch
import torch.nn.functional as F


class Block(torch.nn.Module):
    def __init__(self, width, heads, layers):
        super().__init__()
        self.heads = heads
        self.ln_1 = torch.nn.LayerNorm(width)
        self.ln_2 = torch.nn.LayerNorm(width)
        self.c_attn = torch.nn.Linear(width, 3 * width)
        self.attn_proj = torch.nn.Linear(width, width)
        self.c_fc = torch.nn.Linear(width, 4 * width)
        self.mlp_proj = torch.nn.Linear(4 * width, width)
        for linear in (self.c_attn, self.attn_proj, self.c_fc, self.mlp_proj):
            torch.nn.init.normal_(linear.weight, std=0.02)
            torch.nn.init.zeros_(linear.bias)
        for linear in (self.attn_proj, self.mlp_proj):
            torch.nn.init.normal_(linear.weight, std=0.02 / math.sqrt(2 * layers))

    def forward(self, x):
        batch, time, width = x.shape
        q, k, v = self.c_attn(self.ln_1(x)).split(width, dim=2)
        q, k, v = (t.view(batch, time, self.heads, width // self.heads).transpose(1, 2) for t in (q, k, v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        mask = torch.tril(torch.ones(time, time, dtype=torch.bool))
        scores = scores.masked_fill(~mask, float("-inf"))
        y = (F.softmax(scores, dim=-1) @ v).transpose(1, 2).reshape(batch, time, width)
        x = x + self.attn_proj(y)
        h = self.c_fc(self.ln_2(x))
        h = 0.5 * h * (1 + torch.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
        return x + self.mlp_proj(h)


class Gpt(torch.nn.Module):
    def __init__(self, c):
        super().__init__()
        self.wte = torch.nn.Embedding(c["vocab_size"], c["n_embd"])
        self.wpe = torch.nn.Embedding(c["n_positions"], c["n_embd"])
        torch.nn.init.normal_(self.wte.weight, std=0.02)
        torch.nn.init.normal_(self.wpe.weight, std=0.02)
        self.blocks = torch.nn.ModuleList(Block(c["n_embd"], c["n_head"], c["n_layer"]) for _ in range(c["n_layer"]))
        self.ln_f = torch.nn.LayerNorm(c["n_embd"])

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.ln_f(x) @ self.wte.weight.T
        return F.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))


def evaluate(model, blocks, batch):
    with torch.no_grad():
        losses = [model(blocks[i : i + batch]).item() * len(blocks[i : i + batch]) for i in range(0, len(blocks), batch)]
    return sum(losses) / len(blocks)


def train(args, config, train_blocks, held_out, seed):
    torch.manual_seed(seed)
    model = Gpt(config)
    decay = [p for n, p in model.named_parameters() if "ln_" not in n and "bias" not in n]
    rest = [p for n, p in model.named_parameters() if "ln_" in n or "bias" in n]
    groups = [{"params": decay, "weight_decay": args.weight_decay}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=args.learning_rate, betas=(0.9, 0.999), eps=1e-8)
    losses = {}
    order = torch.randperm(len(train_blocks))
    at = 0
    for step in range(args.max_steps):
        if at + args.batch > len(order):
            order = torch.randperm(len(train_blocks))
            at = 0
        ids = train_blocks[order[at : at + args.batch]]
        at += args.batch
        warm = min(1.0, step / args.warmup_steps)
        cool = (args.max_steps - step) / max(1, args.max_steps - args.warmup_steps)
        for group in optimizer.param_groups:
            group["lr"] = args.learning_rate * (warm if step < args.warmup_steps else cool)
        loss = model(ids)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if (step + 1) % args.eval_steps == 0 or step + 1 == args.max_steps:
            losses[step + 1] = evaluate(model, held_out, 64)
            print(f"seed {seed} step {step + 1} held-out {losses[step + 1]:.4f} nats", flush=True)
    return losses


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train_file", default="build/kjv.txt")
    parser.add_argument("--config_name", default="examples/configs/gpt2_char.json")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--max_steps", type=int, default=1000)
    parser.add_argument("--eval_steps", type=int, default=500)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--block_size", type=int, default=64)
    parser.add_argument("--learning_rate", type=float, default=1e-3)
    parser.add_argument("--warmup_steps", type=int, default=100)
    parser.add_argument("--weight_decay", type=float, default=0.01)
    parser.add_argument("--validation_split_percentage", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    with open(args.config_name) as file:
        config = json.load(file)
    with open(args.train_file, "rb") as file:
        text = file.read()
    split_point = len(text) * (100 - args.validation_split_percentage) // 100

    def blocks(part):
        count = len(part) // args.block_size
        return torch.tensor(list(part[: count * args.block_size]), dtype=torch.long).view(count, args.block_size)

    results = [train(args, config, blocks(text[:split_point]), blocks(text[split_point:]), int(s)) for s in args.seeds.split(",")]
    for step in results[0]:
        mean = sum(r[step] for r in results) / len(results)
        print(f"step {step}: mean held-out {mean:.4f} nats over {len(results)} seeds")


if __name__ == "__main__":
    main()
