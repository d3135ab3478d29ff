# SPDX-License-Identifier: Apache-2.0
"""Random training layouts: a small GPT-2 on a random mesh with random FSDP options has the same losses as on one rank."""
import json
import random

from part import Failure
from processes import run, shown

RANKS = [1, 2, 3, 4, 6, 8]
SECONDS = 600
GIGABYTES = 64  # of addresses: each virtual rank has its own arena
BOUNDS = {"float64": 1e-9, "float32": 1e-3, "bf16": 5e-2}  # relative
WORDS = ["mesh", "shard", "axis", "rank", "device", "partial", "group", "unit"]


def mesh_of(draw, ranks):
    """Returns sizes of the axes data, fsdp and model, whose product is the number of ranks."""
    sizes, left = {}, ranks
    for axis in draw.sample(["data", "fsdp", "model"], 3):
        sizes[axis] = draw.choice([size for size in range(1, left + 1) if left % size == 0])
        left //= sizes[axis]
    sizes["fsdp"] *= left
    return {axis: size for axis, size in sizes.items() if size > 1 or draw.randrange(5) == 0} or {"fsdp": ranks}


def model_of(draw):
    heads = draw.choice([1, 2, 3, 4, 6])
    dropout = draw.choice([0.0, 0.1])
    return {"model_type": "gpt2", "n_head": heads, "n_embd": heads * draw.choice([2, 4, 5, 8]), "n_layer": draw.randint(1, 3),
            "n_positions": draw.choice([8, 15, 16, 32]), "vocab_size": draw.choice([256, 257, 259, 264]),
            "resid_pdrop": dropout, "embd_pdrop": dropout, "attn_pdrop": dropout,
            "tie_word_embeddings": True, "activation_function": draw.choice(["gelu_new", "relu", "gelu"])}


def fsdp_options(draw, mesh, folder):
    """Returns the arguments for sharding over the mesh."""
    out = ["--mesh", ",".join(f"{axis}={size}" for axis, size in mesh.items())]
    kind = draw.choice(["", "full_shard", "shard_grad_op", "hybrid_shard", "hybrid_shard_zero2"])
    if kind and "fsdp" in mesh:
        out += ["--fsdp", kind + draw.choice(["", " auto_wrap"])]
        if draw.randrange(3) == 0:
            config = {"xla": True, "xla_fsdp_settings": {"shard_param_on_dim_0": draw.choice([True, False])}}
            if draw.randrange(2):
                config["fsdp_min_num_params"] = draw.choice([1, 100, 2000, 100000])
            (folder / "fsdp.json").write_text(json.dumps(config))
            out += ["--fsdp_config", folder / "fsdp.json"]
    if "model" in mesh:
        out += ["--tensor_parallel", "model"]
    return out


class Layouts:
    name = "layouts"

    def __init__(self, soak):
        self.soak = soak

    def run(self, seed):
        draw = random.Random(seed)
        folder = self.soak.folder / self.name / f"seed_{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        model = model_of(draw)
        (folder / "config.json").write_text(json.dumps(model))
        (folder / "text.txt").write_text(" ".join(draw.choice(WORDS) for _ in range(600)))
        precision = draw.choice(["float64", "float64", "float64", "float32", "bf16"])
        common = self.common(draw, folder, model, precision)
        ranks = draw.choice(RANKS)
        options = fsdp_options(draw, mesh_of(draw, ranks), folder)
        launcher, virtual = [], ["--virtual_ranks", ranks]
        if draw.randrange(4) == 0:
            launcher, virtual = ["mpirun", "--oversubscribe", "-n", ranks], []
        self.soak.count("layouts: cases")
        commands = [[*common, "--output_dir", folder / "one"],
                    [*launcher, *common, "--output_dir", folder / "many", *options, *virtual]]
        problem = self.problem(commands, folder, BOUNDS[precision])
        if problem:
            self.fail(seed, folder, commands, problem)
        else:
            for path in sorted(folder.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
            folder.rmdir()

    def common(self, draw, folder, model, precision):
        batch = draw.choice([1, 3, 4, 5, 8, 12])
        out = [self.soak.bin / "run_clm", "--config_name", folder / "config.json", "--train_file", folder / "text.txt",
               "--block_size", draw.choice([model["n_positions"], max(4, model["n_positions"] // 2)]),
               "--global_batch_size", batch, "--max_steps", 3, "--logging_steps", 1, "--learning_rate", "1e-3",
               "--weight_decay", draw.choice([0, 0.1]), "--max_grad_norm", draw.choice([0, 1]), "--sample_tokens", 0,
               "--optim", draw.choice(["adamw_torch", "adamw_torch", "sgd"]), "--seed", draw.randrange(1000),
               "--overwrite_output_dir", "--disable_tqdm"]
        out += ["--bf16"] if precision == "bf16" else ["--dtype", precision]
        steps = draw.choice([1, 1, 2])
        return out + (["--gradient_accumulation_steps", steps] if steps > 1 else [])

    def problem(self, commands, folder, bound):
        """Returns (the failure, its kind), or None."""
        losses = []
        for command, name in zip(commands, ("one", "many")):
            outcome = run(command, SECONDS, GIGABYTES)
            if outcome.timed_out:
                return f"does not end within {SECONDS} s", "hangs"
            if outcome.code != 0:
                return f"ends with {outcome.code}: {outcome.err.strip()[:300]}", f"{outcome.code} {outcome.summary()}"
            state = json.loads((folder / name / "trainer_state.json").read_text())
            losses.append([entry.get("loss", entry.get("eval_loss")) for entry in state["log_history"]])
        one, many = losses
        same = len(one) == len(many) and all(abs(a - b) <= bound * abs(a) for a, b in zip(one, many))
        return None if same else (f"losses {many} instead of {one}", "losses differ")

    def fail(self, seed, folder, commands, problem):
        what, kind = problem
        if self.soak.is_known(self.name, kind):
            return
        script = "".join(shown(command) + "\n" for command in commands)
        (folder / "commands.sh").write_text(script)
        self.soak.report(Failure(self.name, seed, what, f"sh {folder / 'commands.sh'}", folder, kind))
