# SPDX-License-Identifier: Apache-2.0
"""--fsdp_config and a file of Accelerate in run_clm: the mesh, the units, the notes and the losses.

    fsdp_config_test.py RUN_CLM
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

RUN_CLM = os.path.abspath(sys.argv[1])
FOLDER = pathlib.Path(tempfile.mkdtemp())
CONFIG = {"model_type": "gpt2", "n_embd": 12, "n_head": 3, "n_layer": 3, "n_positions": 16, "vocab_size": 259}
MODEL = ["--config_name", FOLDER / "config.json", "--train_file", FOLDER / "text.txt", "--global_batch_size", 8]


def check(condition, message):
    if not condition:
        sys.exit(f"fsdp_config_test: {message}")


def run(*arguments):
    return subprocess.run([RUN_CLM, *map(str, [*MODEL, *arguments])], capture_output=True, text=True, timeout=1000)


def plan(*arguments):
    result = run("--dry_run", *arguments)
    check(result.returncode == 0, f"{arguments}: {result.stderr}")
    return result.stdout


def fsdp(values, *arguments):
    return ["--fsdp", "full_shard", "--fsdp_config", json.dumps(values), *arguments]


def lines(text, begin):
    return [line[len(begin):].strip() for line in text.splitlines() if line.startswith(begin)]


def losses(*arguments):
    folder = pathlib.Path(tempfile.mkdtemp(dir=FOLDER))
    result = run("--virtual_ranks", 4, "--max_steps", 3, "--logging_steps", 1, "--learning_rate", "1e-3", "--sample_tokens", 0,
                 "--do_eval", "false", "--output_dir", folder, *arguments)
    check(result.returncode == 0, f"{arguments}: {result.stdout[-2000:]}{result.stderr}")
    history = json.loads((folder / "trainer_state.json").read_text())["log_history"]
    return [entry["loss"] for entry in history if "loss" in entry]


def meshes():
    """The sizes of a file of Accelerate give the mesh, also if the file has no fsdp_config. Their order has no effect."""
    for kind, sizes, mesh in (("FSDP", {"dp_shard_size": 2, "dp_replicate_size": 2}, "mesh<data=2, fsdp=2>"),
                              ("MULTI_CPU", {"tp_size": 2, "dp_replicate_size": 2}, "mesh<data=2, model=2>")):
        text = f"distributed_type: {kind}\nparallelism_config:\n" + "".join(
            f"  parallelism_config_{name}: {size}\n" for name, size in sizes.items())
        (FOLDER / "accelerate.yaml").write_text(text)
        said = plan("--config_file", FOLDER / "accelerate.yaml")
        check(lines(said, "mesh ")[:1] == [mesh], f"{kind}: {said}")
        check(bool(re.search(r"^\d+ units ", said, re.M)) == (kind == "FSDP"), f"{kind}: {said}")
    check(lines(plan(*fsdp({"tp_size": 2, "fsdp_size": 2})), "mesh ")[:1] == ["mesh<fsdp=2, model=2>"], "order of sizes")


def notes():
    hybrid = lines(plan(*fsdp({"sharding_strategy": "HYBRID_SHARD"}, "--mesh", "fsdp=4")), "note ")
    check(hybrid == ["sharding_strategy HYBRID_SHARD in --fsdp_config shards over fsdp and replicates over data, and mesh<fsdp=4> does not "
                     "have both axes, so this is full_shard; --mesh data=2,fsdp=-1 gives two replicas"], hybrid)
    two = plan(*fsdp({"sharding_strategy": "HYBRID_SHARD"}, "--mesh", "data=2,fsdp=2"))
    check(lines(two, "note ") == [], two)
    without_xla = lines(plan(*fsdp({"xla_fsdp_settings": {"shard_param_on_dim_0": True}}, "--mesh", "fsdp=2")), "note ")
    check(without_xla == ["--fsdp_config: xla_fsdp_settings applies although there is no xla: true"], without_xla)
    ends = lines(plan(*fsdp({"xla": True, "xla_fsdp_settings": {"sync_on_finalization": True}}, "--mesh", "fsdp=2")), "note ")
    check(len(ends) == 1 and "xla_fsdp_settings: sync_on_finalization has no effect: " in ends[0], ends)


def units():
    two = plan(*fsdp({"fsdp_transformer_layer_cls_to_wrap": "GPT2Block,GPT2MLP"}, "--mesh", "fsdp=2"))
    check("transformer.h.0 (GPT2Block)" in two and "transformer.h.0.mlp (GPT2MLP)" in two, two)
    wrong = run("--dry_run", *fsdp({"transformer_layer_cls_to_wrap": "Zzzzzzzz"}, "--mesh", "fsdp=2"))
    check(wrong.returncode == 1 and wrong.stderr.count("GPT2Block") == 1, wrong.stderr)
    unmatched = run("--dry_run", *fsdp({"ignored_modules": "mlp"}, "--mesh", "fsdp=2"))
    check('ignored_modules in --fsdp_config: no module has a name that matches "mlp"' in unmatched.stderr, unmatched.stderr)
    uneven = run("--dry_run", *fsdp({"reshard_after_forward": 3}, "--mesh", "fsdp=4"))
    check("reshard_after_forward is 3: a number of devices must divide the 4 devices of fsdp" in uneven.stderr, uneven.stderr)
    wrong_mesh = run(*fsdp({"dp_shard_size": 3}))
    check('dp_shard_size 3 in --fsdp_config: mesh "fsdp=3" has 3 devices' in wrong_mesh.stderr, wrong_mesh.stderr)


def training():
    """Options change where values are stored, but not the losses."""
    mesh = ["--dtype", "float64", "--mesh", "data=2,fsdp=2"]
    plain = losses(*fsdp({}, *mesh))
    plain_plan = plan(*fsdp({}, *mesh))
    for values in ({"ignored_modules": r".*\.mlp"}, {"xla": True, "xla_fsdp_settings": {"sharding_groups": [[0, 1, 2, 3]]}}):
        check(plan(*fsdp(values, *mesh)) != plain_plan, f"{values} has no effect on the plan")
        found = losses(*fsdp(values, *mesh))
        check(len(found) == 3 and all(abs(a - b) < 1e-9 for a, b in zip(plain, found, strict=True)), f"{values}: {found} instead of {plain}")
    four = ["--dtype", "float64", "--mesh", "fsdp=4"]
    again = {"reshard_after_forward": 2}
    check(plan(*fsdp(again, *four)) != plan(*fsdp({}, *four)), "reshard_after_forward 2 has no effect on the plan")
    found = losses(*fsdp(again, *four))
    check(all(abs(a - b) < 1e-9 for a, b in zip(plain, found, strict=True)), f"{again}: {found} instead of {plain}")
    for settings in ({"buffer_dtype": "bfloat16"}, {"fp32_reduce_scatter": True}):
        check(len(losses(*fsdp({"xla": True, "xla_fsdp_settings": settings}, "--mesh", "fsdp=4"))) == 3, settings)


def main():
    words = ["mesh", "shard", "axis", "rank", "device", "partial", "group", "unit"]
    (FOLDER / "text.txt").write_text(" ".join(words[(i * i + i // 3) % 8] for i in range(900)))
    (FOLDER / "config.json").write_text(json.dumps({**CONFIG, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}))
    for part in (meshes, notes, units, training):
        part()


main()
