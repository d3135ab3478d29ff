# SPDX-License-Identifier: Apache-2.0
"""Models compute what Hugging Face's transformers compute: logits, every gradient, and the losses of 20 steps of AdamW, for
random weights of many configurations, in f32 on one rank. On several ranks, in f64, all values equal those of one rank.

    hf_models.py MODEL_VALUES [CASE…]        needs torch, transformers and safetensors; MODEL_VALUES is build/release/bin/model_values

A case is a function in CASES that returns a model and its inputs. `ranks` are the meshes of the layout comparison.
"""
import dataclasses
import pathlib
import subprocess
import sys
import tempfile

import safetensors.torch
import torch
import transformers

MODEL_VALUES = sys.argv[1]
FOLDER = pathlib.Path(tempfile.mkdtemp())
STEPS, LEARNING_RATE, WEIGHT_DECAY = 20, 1e-3, 0.01
LOGITS, GRADIENTS, LOSSES, LAYOUTS = 1e-4, 1e-3, 1e-4, 1e-9  # bounds
torch.set_num_threads(1)
failures = 0


@dataclasses.dataclass
class Case:
    model: torch.nn.Module
    inputs: dict
    ranks: list = dataclasses.field(default_factory=list)  # flags of model_values for each layout
    train: bool = False


def text_inputs(vocabulary, batch=6, time=17, padded=False):
    torch.manual_seed(7)
    ids = torch.randint(1, vocabulary, (batch, time))
    inputs = {"input_ids": ids, "labels": ids.clone()}
    if padded:
        mask = torch.ones_like(ids)
        for row in range(batch):
            mask[row, time - row:] = 0
        inputs["attention_mask"] = mask
        inputs["labels"][mask == 0] = -100
    return inputs


DATA = [["--virtual_ranks", "2", "--mesh", "data=2"], ["--virtual_ranks", "3", "--mesh", "fsdp=3", "--fsdp"],
        ["--virtual_ranks", "4", "--mesh", "data=2,fsdp=2", "--fsdp"]]
TENSOR = [["--virtual_ranks", "2", "--mesh", "model=2", "--tensor_parallel", "model"],
          ["--virtual_ranks", "6", "--mesh", "fsdp=3,model=2", "--fsdp", "--tensor_parallel", "model"],
          ["--virtual_ranks", "8", "--mesh", "data=2,fsdp=2,model=2", "--fsdp", "--tensor_parallel", "model"]]
EXPERT = [["--virtual_ranks", "2", "--mesh", "expert=2", "--expert_parallel", "expert"],
          ["--virtual_ranks", "4", "--mesh", "data=2,expert=2", "--expert_parallel", "expert"],
          ["--virtual_ranks", "8", "--mesh", "fsdp=2,expert=2,model=2", "--fsdp", "--expert_parallel", "expert", "--tensor_parallel", "model"]]


def gpt2():
    config = transformers.GPT2Config(vocab_size=97, n_positions=24, n_embd=36, n_layer=2, n_head=3, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    return Case(transformers.GPT2LMHeadModel(config), text_inputs(97), DATA + TENSOR)


def llama(padded=False, ranks=(), **changes):
    config = dict(vocab_size=97, hidden_size=48, intermediate_size=76, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
                  max_position_embeddings=64)
    config.update(changes)
    return Case(transformers.LlamaForCausalLM(transformers.LlamaConfig(**config)), text_inputs(97, padded=padded), list(ranks))


def rope(kind, **parameters):
    return {"rope_type": kind, "rope_theta": 10000.0, **parameters}


def mixtral(ranks=(), padded=False, **changes):
    config = dict(vocab_size=97, hidden_size=32, intermediate_size=44, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                  num_local_experts=4, max_position_embeddings=64, output_router_logits=True, router_aux_loss_coef=0.1)
    config.update(changes)
    return Case(transformers.MixtralForCausalLM(transformers.MixtralConfig(**config)), text_inputs(97, padded=padded), list(ranks))


def variant(kind, ranks=(), padded=False, **changes):
    """Mistral, Qwen2 or Qwen3."""
    config = dict(vocab_size=97, hidden_size=36, intermediate_size=53, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=3,
                  max_position_embeddings=64)
    config.update(changes)
    model = getattr(transformers, f"{kind}ForCausalLM")(getattr(transformers, f"{kind}Config")(**config))
    return Case(model, text_inputs(97, padded=padded), list(ranks))


def windows(*layer_types, size=5):
    """Keys of Qwen2 and Qwen3: a layer of each type."""
    return dict(use_sliding_window=True, sliding_window=size, num_hidden_layers=len(layer_types),
                layer_types=[f"{name}_attention" for name in layer_types])


CASES = {
    "gpt2": gpt2,
    "llama": lambda: llama(ranks=DATA + TENSOR),
    "llama_tied": lambda: llama(tie_word_embeddings=True, ranks=TENSOR[1:2]),
    "llama_one_group": lambda: llama(num_key_value_heads=1),
    "llama_all_groups": lambda: llama(num_key_value_heads=6),
    "llama_biases": lambda: llama(attention_bias=True, mlp_bias=True, ranks=TENSOR[:1]),
    "llama_head_dim": lambda: llama(head_dim=10),
    "llama_padded": lambda: llama(padded=True, pad_token_id=0, ranks=DATA[:1]),
    "llama_rope_linear": lambda: llama(rope_parameters=rope("linear", factor=4.0)),
    "llama_rope_llama3": lambda: llama(rope_parameters=rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                                            original_max_position_embeddings=16)),
    "llama_rope_yarn": lambda: llama(rope_parameters=rope("yarn", factor=4.0, original_max_position_embeddings=16)),
    "llama_rope_yarn_mscale": lambda: llama(rope_parameters=rope("yarn", factor=4.0, original_max_position_embeddings=16, mscale=0.7,
                                                                 mscale_all_dim=0.5, beta_fast=16.0, beta_slow=2.0, truncate=False)),
    "llama_rope_yarn_attention": lambda: llama(rope_parameters=rope("yarn", factor=8.0, original_max_position_embeddings=32,
                                                                    attention_factor=1.3)),
    "qwen2_rope_yarn": lambda: variant("Qwen2", rope_parameters=rope("yarn", factor=4.0, original_max_position_embeddings=16)),
    "llama_rope_dynamic": lambda: llama(max_position_embeddings=17, rope_parameters=rope("dynamic", factor=2.0)),
    "mixtral": lambda: mixtral(ranks=DATA + TENSOR + EXPERT),
    "mixtral_three_of_five": lambda: mixtral(num_local_experts=5, num_experts_per_tok=3, output_router_logits=False),
    "mixtral_window": lambda: mixtral(sliding_window=5, padded=True),
    "mistral": lambda: variant("Mistral", sliding_window=5, ranks=DATA + TENSOR),
    "mistral_full": lambda: variant("Mistral", sliding_window=None, head_dim=10, tie_word_embeddings=True),
    "mistral_padded": lambda: variant("Mistral", sliding_window=7, num_key_value_heads=1, padded=True),
    "qwen2": lambda: variant("Qwen2", ranks=DATA + TENSOR),
    "qwen2_last_layers": lambda: variant("Qwen2", use_sliding_window=True, sliding_window=5, max_window_layers=1, num_hidden_layers=3,
                                         tie_word_embeddings=True),
    "qwen2_layer_types": lambda: variant("Qwen2", **windows("sliding", "full", "sliding"), padded=True, ranks=TENSOR[1:2]),
    "qwen3": lambda: variant("Qwen3", head_dim=10, ranks=DATA + TENSOR),
    "qwen3_default_heads": lambda: variant("Qwen3", tie_word_embeddings=True),
    "qwen3_layer_types": lambda: variant("Qwen3", head_dim=6, attention_bias=True, **windows("full", "sliding", size=3), padded=True,
                                         ranks=TENSOR[1:2]),
}


def run_tessera(case, name, *flags):
    out = FOLDER / f"{name}_out.safetensors"
    arguments = [MODEL_VALUES, FOLDER / name, FOLDER / f"{name}_in.safetensors", out, *flags]
    if case.train:
        arguments.append("--train")
    subprocess.run([str(a) for a in arguments], check=True)
    return safetensors.torch.load_file(out)


def run_torch(case):
    model = case.model.train(case.train)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    output = model(**case.inputs)
    output.loss.backward()
    values = {"logits": output.logits.detach(), "loss": output.loss.detach()}
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.load_state_dict(state)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(**case.inputs).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    values["losses"] = torch.tensor(losses, dtype=torch.float64)
    model.load_state_dict(state)
    return values, in_file_names(gradients)


def in_file_names(gradients):
    """Parameters of experts are merged in memory; files have one tensor for each expert, which Tessera stacks."""
    out = {}
    for name, gradient in gradients.items():
        if name.endswith("mlp.experts.gate_up_proj"):
            stem, half = name.replace("mlp.experts.gate_up_proj", "block_sparse_moe.experts.*."), gradient.shape[1] // 2
            out[stem + "w1.weight"], out[stem + "w3.weight"] = gradient[:, :half], gradient[:, half:]
        elif name.endswith("mlp.experts.down_proj"):
            out[name.replace("mlp.experts.down_proj", "block_sparse_moe.experts.*.w2.weight")] = gradient
        else:
            out[name.replace("mlp.gate.weight", "block_sparse_moe.gate.weight") if "mixtral" in CURRENT else name] = gradient
    return out


def distance(ours, theirs):
    """The norm of the difference, relative to the norm of the expected value."""
    norm = theirs.double().norm().item()
    return (ours.double() - theirs.double()).norm().item() / max(norm, 1e-30)


def compare(what, value, bound):
    global failures
    good = value <= bound
    failures += not good
    print(f"{'ok  ' if good else 'FAIL'}  {what}: {value:.1e} (bound {bound:.0e})", flush=True)


def compare_with_torch(case, name):
    theirs, gradients = run_torch(case)
    ours = run_tessera(case, name, "--steps", STEPS, "--learning_rate", LEARNING_RATE, "--weight_decay", WEIGHT_DECAY)
    seen = case.inputs.get("attention_mask")
    rows = (lambda x: x) if seen is None or theirs["logits"].dim() != 3 else (lambda x: x[seen == 1])
    compare(f"{name}: logits", distance(rows(ours["logits"]), rows(theirs["logits"])), LOGITS)
    largest, worst = 0.0, ""
    for parameter, gradient in gradients.items():
        own = distance(ours["gradient." + parameter], gradient)
        if gradient.norm() < 1e-6:  # such as biases of keys, whose gradient is zero but for rounding
            own = (ours["gradient." + parameter] - gradient).norm().item()
        largest, worst = max((largest, worst), (own, parameter))
    compare(f"{name}: {len(gradients)} gradients, the worst of {worst}", largest, GRADIENTS)
    compare(f"{name}: losses of {STEPS} steps", (ours["losses"] - theirs["losses"]).abs().max().item(), LOSSES)


def compare_layouts(case, name):
    if not case.ranks:
        return
    flags = ["--dtype", "float64", "--steps", 3, "--learning_rate", LEARNING_RATE]
    one = run_tessera(case, name, *flags)
    for layout in case.ranks:
        several = run_tessera(case, name, *flags, *layout)
        assert one.keys() == several.keys()
        largest = max(distance(several[key], one[key]) for key in one if one[key].norm() > 1e-12)
        compare(f"{name}: all values on {layout[3]}, {layout[1]} ranks, as on one", largest, LAYOUTS)


CURRENT = ""


def main():
    global CURRENT
    for name in sys.argv[2:] or CASES:
        CURRENT = name
        torch.manual_seed(1)
        transformers.set_seed(1)
        case = CASES[name]()
        for parameter in case.model.parameters():  # other than the usual initial values, so that errors show
            torch.nn.init.normal_(parameter, std=0.2) if parameter.dim() > 1 else parameter.data.add_(0.1 * torch.randn_like(parameter))
        if hasattr(case.model, "tie_weights"):
            case.model.tie_weights()
        case.model.save_pretrained(FOLDER / name)
        safetensors.torch.save_file({key: value.contiguous() for key, value in case.inputs.items()}, FOLDER / f"{name}_in.safetensors")
        compare_with_torch(case, name)
        compare_layouts(case, name)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}, safetensors {safetensors.__version__}")
    sys.exit(failures > 0)


main()
