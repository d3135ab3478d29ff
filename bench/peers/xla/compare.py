#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares Tessera's partitioned programs with XLA's, module by module.

  bench/peers/xla/compare.py FOLDER [--tessera BIN/tessera] [--only PREFIX] [--no-check] [--json FILE] [-o TABLE]

FOLDER contains NAME.hlo (and NAME.annotate with options, NAME.xla.hlo if XLA needs another text), as corpus.py writes
them. XLA's programs are kept in FOLDER/xla and written again only for texts that changed; Tessera's are in FOLDER/ours.
`tessera stats --as-written` counts both: the output of the partitioners, before the runtime lowers it. Rows are sorted
by the worst ratio. Limits: bytes 1.0, FLOPs and peak 1.05.
"""
import argparse
import atexit
import concurrent.futures
import hashlib
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
LIMITS = {"bytes": 1.0, "flops": 1.05, "peak": 1.05}
KEYS = {"bytes": "total_collective_bytes", "flops": "flops_per_device", "peak": "peak_bytes_per_device"}
SECONDS = 20


def devices_of(text):
    """Returns the number of devices in the header, or else that of the shardings (JAX's own dumps do not specify it)."""
    if found := re.search(r"num_partitions=(\d+)", text.split("\n", 1)[0]):
        return int(found[1])
    counts = [1]
    for dims in re.findall(r"devices=\[[\d,]+\]<=\[([\d,]+)\]", text):
        counts.append(math.prod(int(n) for n in dims.split(",")))
    for mesh in re.findall(r"#sdy\.mesh<\[([^\]]*)\]", text):
        counts.append(math.prod(int(n) for n in re.findall(r"=(\d+)", mesh)))
    return max(counts)


class Module:
    def __init__(self, path, ours="ours"):
        self.path, self.name = path, path.name.removesuffix(".hlo")
        own = path.with_name(self.name + ".xla.hlo")
        self.for_xla = own if own.exists() else path
        text = self.for_xla.read_text()
        self.devices = devices_of(text)
        options = path.with_name(self.name + ".annotate")
        self.options = options.read_text().split() if options.exists() else []
        # If the text has no shardings, the number of devices is in the mesh of the annotations.
        digest = hashlib.sha1(text.encode()).hexdigest()[:10]
        self.out = path.parent / "xla" / f"{self.name}.{digest}"
        self.ours = path.parent / ours / f"{self.name}.hlo"

    def xla(self, suffix):
        return pathlib.Path(f"{self.out}.{suffix}")


def partition_by_xla(modules):
    """Runs XLA for missing programs: one child per number of devices, started again if a module crashes it."""
    todo = [m for m in modules if not m.xla("spmd.hlo").exists() and not m.xla("error").exists()]
    for devices in sorted({m.devices for m in todo}):
        left = [m for m in todo if m.devices == devices]
        while left:
            scratch = left[0].path.parent / "xla" / "scratch"
            scratch.mkdir(parents=True, exist_ok=True)
            lines = "".join(f"{m.for_xla} {m.out} m{k}_\n" for k, m in enumerate(left))
            child = subprocess.run([sys.executable, str(HERE / "xla_partition.py"), str(devices), str(scratch)], input=lines,
                                   capture_output=True, text=True)
            after = [m for m in left if not m.xla("spmd.hlo").exists() and not m.xla("error").exists()]
            if len(after) == 0:
                break
            first = left[child.stdout.count(" done")] if child.stdout.count(" done") < len(left) else after[0]
            first.xla("error").write_text(f"XLA ended with {child.returncode}: {child.stderr.strip()[-600:]}\n")
            left = [m for m in after if m is not first]
        print(f"XLA: {devices} devices done", file=sys.stderr)


def run(command, seconds=SECONDS):
    start = time.time()
    try:
        child = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
        return child.returncode, child.stdout, child.stderr, time.time() - start
    except subprocess.TimeoutExpired:
        return "timeout", "", f"more than {seconds} s", seconds


def snapshot(tessera, folder):
    """Returns a copy of the command, so that a rebuild during the comparison has no effect."""
    copy = folder / f"tessera-{os.getpid()}"
    atexit.register(lambda: copy.unlink(missing_ok=True))
    for _ in range(60):
        try:
            shutil.copy(tessera, copy)
            if run([str(copy), "--help"])[0] == 0:
                return str(copy)
        except OSError:
            pass
        time.sleep(5)
    sys.exit(f"{tessera} cannot be run")


def counted(tessera, path):
    code, out, err, _ = run([tessera, "stats", str(path), "--as-written", "--json", "-"])
    return (json.loads(out), "") if code == 0 else (None, f"stats exits {code}: {first_line(err)}")


def counted_once(tessera, path, recount):
    """XLA's programs do not change; use `--recount` after a change of the figures in `stats`."""
    kept = path.with_suffix(".json")
    if recount or not kept.exists():
        stats, problem = counted(tessera, path)
        if stats is None:
            return stats, problem
        kept.write_text(json.dumps(stats))
    return json.loads(kept.read_text()), ""


def first_line(text):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return " | ".join(lines[:3])[:400] if lines else ""


def shapes_at_border(path):
    found = re.search(r"entry_computation_layout=\{(.*?)\}(?:, \w+=|\n)", path.read_text().split("\n", 1)[0] + "\n")
    return re.sub(r"\{[\d,:TS()]*\}|/\*index=\d+\*/|\s", "", found[1]) if found else ""


def side_of(stats):
    if stats is None:
        return None
    return {k: stats[v] for k, v in KEYS.items()} | {
        "collectives": {name: c["bytes"] for name, c in stats["collectives"].items()}}


def ratio(ours, theirs):
    return 1.0 if ours == theirs else float("inf") if theirs == 0 else ours / theirs


def compare(module, tessera, check, recount):
    row = {"name": module.name, "devices": module.devices, "notes": [], "failures": []}
    if not module.options and devices_of(module.path.read_text()) == 1:
        row["notes"].append("one device")
    counts = module.ours.with_suffix(".json")
    code, _, err, seconds = run([tessera, "partition", str(module.path), *module.options, "-o", str(module.ours), "--as-written", "--json", str(counts)])
    row["partition_seconds"] = round(seconds, 3)
    ours = theirs = None
    if code != 0:
        row["failures"].append(f"partition exits {code}: {first_line(err)}")
    else:
        ours = json.loads(counts.read_text())
    if module.xla("spmd.hlo").exists():
        theirs, problem = counted_once(tessera, module.xla("spmd.hlo"), recount)
        row["failures"] += ["XLA's program: " + problem] if problem else []
        late, _ = counted_once(tessera, module.xla("late.hlo"), recount) if module.xla("late.hlo").exists() else (None, "")
        row["late"] = side_of(late)
        if code == 0 and shapes_at_border(module.ours) != shapes_at_border(module.xla("spmd.hlo")):
            row["notes"].append("borders differ")
            row["border"] = {"ours": shapes_at_border(module.ours), "xla": shapes_at_border(module.xla("spmd.hlo"))}
    elif module.xla("error").exists():
        row["notes"].append("XLA: " + first_line(module.xla("error").read_text()))
    row["ours"], row["xla"] = side_of(ours), side_of(theirs)
    if ours and theirs:
        row["ratios"] = {k: ratio(row["ours"][k], row["xla"][k]) for k in KEYS}
        row["over"] = [k for k in KEYS if row["ratios"][k] > LIMITS[k]]
    if check and code == 0:
        code, out, err, seconds = run([tessera, "check", str(module.path), *module.options], 60)
        row["check_seconds"] = round(seconds, 3)
        if code != 0:
            row["failures"].append(f"check exits {code}: {first_line(out + err)}")
        elif seconds > SECONDS:
            row["failures"].append(f"check takes {seconds:.0f} s")
    return row


def kinds(side):
    return " ".join(f"{name}:{size}" for name, size in sorted(side["collectives"].items())) or "none"


def table(rows):
    compared = [r for r in rows if "ratios" in r]
    over = {k: [r for r in compared if k in r["over"]] for k in KEYS}
    lines = [f"{len(rows)} modules, {len(compared)} compared; at most XLA's in all three: "
             f"{sum(not r['over'] for r in compared)}; failures: {sum(bool(r['failures']) for r in rows)}; "
             f"XLA has no program: {sum(r['xla'] is None for r in rows)}"]
    unlike = [r for r in compared if "borders differ" in r["notes"]]
    lines.append(f"  parameters or results have other shardings than XLA's in {len(unlike)}, of which {sum(bool(r['over']) for r in unlike)} exceed a limit")
    for k in KEYS:
        better = sum(r["ratios"][k] < 1 for r in compared)
        total = (sum(r["ours"][k] for r in compared), sum(r["xla"][k] for r in compared))
        lines.append(f"  {k}: over {LIMITS[k]} in {len(over[k])}, below 1 in {better}; sums {total[0]:.0f} against {total[1]:.0f}")
    fewer = [r for r in compared if r["late"] and r["late"]["bytes"] < r["xla"]["bytes"]]
    lines.append(f"  after XLA's simplification, its bytes are fewer in {len(fewer)}; ours exceed those in "
                 f"{sum(r['ours']['bytes'] > r['late']['bytes'] for r in compared if r['late'])}")
    lines += ["", "parameters or results with other shardings: our shapes / XLA's"]
    for r in unlike:
        mine, others = r["border"]["ours"].split("->"), r["border"]["xla"].split("->")
        lines.append(f"  {r['name']:58} " + "; ".join(f"{what} {a} / {b}" for what, a, b in zip(("parameters", "results"), mine, others) if a != b))
    lines += ["", "failures"] + [f"  {r['name']}: {f}" for r in rows for f in r["failures"]]
    for k in KEYS:
        lines += ["", f"{k} over {LIMITS[k]}: ours, XLA's, ratio, collectives of ours / of XLA's; last those whose borders differ"]
        for r in sorted(over[k], key=lambda r: (bool(r["notes"]), -r["ratios"][k])):
            what = f"{kinds(r['ours'])} / {kinds(r['xla'])}" if k == "bytes" else ""
            lines.append(f"  {r['name']:58} {r['ours'][k]:>10.0f} {r['xla'][k]:>10.0f} {r['ratios'][k]:>7.3f}  {what}"
                         f"{'  [' + '; '.join(r['notes']) + ']' if r['notes'] else ''}")
    lines += ["", "XLA has no program"] + [f"  {r['name']}: {'; '.join(r['notes'])}" for r in rows if r["xla"] is None]
    lines += ["", "every module: ours / XLA's bytes, FLOPs, peak"]
    for r in sorted(compared, key=lambda r: -max(r["ratios"].values())):
        cells = "  ".join(f"{r['ours'][k]:.0f}/{r['xla'][k]:.0f}" for k in KEYS)
        lines.append(f"  {r['name']:58} {cells}")
    return "\n".join(lines) + "\n"


def main():
    options = argparse.ArgumentParser()
    options.add_argument("folder", type=pathlib.Path)
    options.add_argument("--tessera", default="build/release/bin/tessera")
    options.add_argument("--only", default="")
    options.add_argument("--no-check", action="store_true")
    options.add_argument("--ours", default="ours", help="folder in FOLDER for our programs: two runs at once need two")
    options.add_argument("--recount", action="store_true")
    options.add_argument("--json", type=pathlib.Path)
    options.add_argument("-o", "--out", type=pathlib.Path)
    options.add_argument("--jobs", type=int, default=1)
    given = options.parse_args()
    paths = [p for p in sorted(given.folder.glob("*.hlo")) if not p.name.endswith(".xla.hlo") and p.name.startswith(given.only)]
    modules = [Module(p, given.ours) for p in paths]
    for name in ("xla", given.ours):
        (given.folder / name).mkdir(exist_ok=True)
    os.nice(10)
    partition_by_xla(modules)
    given.tessera = snapshot(given.tessera, given.folder / given.ours)
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        rows = list(pool.map(lambda m: compare(m, given.tessera, not given.no_check, given.recount), modules))
    text = table(rows)
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))
    if given.out:
        given.out.write_text(text)
    else:
        print(text)
    print(text.split("\n\n", 1)[0])
    return 1 if any(r["failures"] for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
