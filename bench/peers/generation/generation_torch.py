#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generation with transformers and its cache: GPT-2 with random weights. Prints one line of JSON.

usage: generation_torch.py --config_name gpt2.json [--batch 1] [--prompt_tokens 32] [--max_new_tokens 64] [--threads 1]
"""
import argparse
import json
import time

import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config_name", required=True)
    for name, value in (("batch", 1), ("prompt_tokens", 32), ("max_new_tokens", 64), ("threads", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    a = parser.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config.from_json_file(a.config_name)).eval()
    ids = torch.randint(256, (a.batch, a.prompt_tokens))
    kept = {"do_sample": False, "use_cache": True, "pad_token_id": 0, "eos_token_id": None, "attention_mask": torch.ones_like(ids)}

    def seconds(count):
        start = time.perf_counter()
        with torch.inference_mode():
            model.generate(ids, min_new_tokens=count, max_new_tokens=count, **kept)
        return time.perf_counter() - start

    seconds(2)
    first, everything = seconds(1), seconds(a.max_new_tokens)
    print(json.dumps({"first_token_seconds": first, "seconds": everything, "torch": torch.__version__,
                      "transformers": transformers.__version__,
                      "tokens_per_second": a.batch * (a.max_new_tokens - 1) / (everything - first)}))


if __name__ == "__main__":
    main()
