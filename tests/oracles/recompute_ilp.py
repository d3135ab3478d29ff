#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what the lowering computes again under a memory budget with the optimum of an integer linear program (CBC).

    recompute_ilp.py RUN_CLM RECOMPUTE_GRAPHS [FOLDER]      needs cbc (Debian's coinor-cbc)

The graphs are those of the training steps of 20 small models, at 90 to 40% of the memory. Prints one line for each model:
the number of graphs, in how many the solver finds an assignment if there is one, and the ratios of its cost to the optimum.
"""
import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile

FORBIDDEN = 10**17
SECONDS = 120  # of CBC for one graph

GPT2 = {"model_type": "gpt2", "n_positions": 64, "vocab_size": 97, "resid_pdrop": 0.1, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
LLAMA = {"model_type": "llama", "max_position_embeddings": 64, "vocab_size": 97, "num_key_value_heads": 2, "rms_norm_eps": 1e-6}
MIXTRAL = {**LLAMA, "model_type": "mixtral", "num_local_experts": 3, "num_experts_per_tok": 2}


def models():
    """Yields 20 names, configurations and flags: three families, 1 to 6 layers, several widths and numbers of rows."""
    for (layers, width), rows in itertools.product(((1, 24), (2, 36), (3, 48), (6, 24)), (2, 7)):
        yield f"gpt2 {layers} x {width}, {rows} rows", {**GPT2, "n_layer": layers, "n_embd": width, "n_head": 3}, rows
        if rows == 7 or layers in (2, 3):
            sizes = {"num_hidden_layers": layers, "hidden_size": width, "intermediate_size": 3 * width - 5, "num_attention_heads": 6 if width == 36 else 4}
            yield f"llama {layers} x {width}, {rows} rows", {**LLAMA, **sizes}, rows
            yield f"mixtral {layers} x {width}, {rows} rows", {**MIXTRAL, **sizes}, rows


def linear_program(problem, path):
    """Writes the graph as a text for CBC. Edges of recomputation only forbid pairs of choices."""
    nodes, count = problem["nodes"], len(problem["nodes"]["costs"])
    rows, objective = [], []
    for i in range(count):
        costs = nodes["costs"][i]
        rows.append(" + ".join(f"x{i}_{k}" for k in range(len(costs))) + " = 1")
        objective += [f"{cost / 1e6} x{i}_{k}" for k, cost in enumerate(costs) if cost]
    for (a, b), costs in zip(problem["edges"]["nodes"], problem["edges"]["costs"], strict=True):
        columns = len(nodes["costs"][b])
        for index, cost in enumerate(costs):
            assert cost in (0, FORBIDDEN)
            if cost:
                rows.append(f"x{a}_{index // columns} + x{b}_{index % columns} <= 1")
    for time in sorted({begin for begin, _ in nodes["intervals"]}):
        terms = [f"{bytes_ / 1e3} x{i}_{k}" for i in range(count) if nodes["intervals"][i][0] <= time < nodes["intervals"][i][1]
                 for k, bytes_ in enumerate(nodes["usages"][i]) if bytes_]
        if terms:
            rows.append(" + ".join(terms) + f" <= {problem['usage_limit'] / 1e3}")
    names = [f"x{i}_{k}" for i in range(count) for k in range(len(nodes["costs"][i]))]
    text = "Minimize\n cost: " + (" + ".join(objective) or "0 x0_0") + "\nSubject To\n"
    text += "".join(f" r{i}: {row}\n" for i, row in enumerate(rows)) + "Binary\n" + "\n".join(names) + "\nEnd\n"
    path.write_text(text)


def optimum(graph):
    """Returns the least cost, None if there is no assignment, or "time" if CBC has not proven it in time."""
    path = pathlib.Path(graph).with_suffix(".lp")
    linear_program(json.loads(pathlib.Path(graph).read_text())["problem"], path)
    done = subprocess.run(["cbc", str(path), "sec", str(SECONDS), "ratio", "0", "solve"], capture_output=True, text=True, check=True).stdout
    if "infeasible" in done and "Optimal solution found" not in done:
        return None
    if "Optimal solution found" not in done:
        return "time"
    return float(re.search(r"Objective value: +([-0-9.e+]+)", done).group(1)) * 1e6


def main():
    run_clm, tool = sys.argv[1:3]
    folder = pathlib.Path(sys.argv[3] if len(sys.argv) > 3 else tempfile.mkdtemp(prefix="recompute_ilp_"))
    all_ratios, missed, unproven = [], 0, 0
    for number, (name, config, rows) in enumerate(models()):
        place = folder / str(number)
        place.mkdir(parents=True, exist_ok=True)
        (place / "config.json").write_text(json.dumps(config))
        subprocess.run([run_clm, "--dry_run", "--config_name", place / "config.json", "--mesh", "data=1", "--block_size", "33",
                        "--per_device_train_batch_size", str(rows)], env={"TESSERA_DUMP_DIR": str(place / "dump")}, capture_output=True, check=True)
        program = next((place / "dump").rglob("program.hlo"))
        ratios, lines = [], subprocess.run([tool, program, place], capture_output=True, text=True, check=True).stdout.splitlines()
        for file, _, cost in (line.split() for line in lines):
            best = optimum(file)
            if best == "time":
                unproven += 1
            elif best is not None:
                missed += cost == "none"
                if cost != "none":
                    ratios.append(float(cost) / best if best > 0 else 1.0)
        all_ratios += ratios
        print(f"{name:28} {len(ratios):3} graphs, cost / optimum: mean {sum(ratios) / max(1, len(ratios)):.4f}, worst {max(ratios, default=1):.4f}", flush=True)
    within = sum(ratio <= 1.03 for ratio in all_ratios)
    print(f"{len(all_ratios)} graphs: {within} within 3%, worst {max(all_ratios):.4f}; no assignment found in {missed} more; CBC had not ended in {unproven}")


if __name__ == "__main__":
    main()
