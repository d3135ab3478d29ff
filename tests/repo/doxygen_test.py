#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the reference of the headers, and checks that every group has a page with declarations.

  tests/repo/doxygen_test.py CMAKE BUILD
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# One declaration that each of these pages must list.
EXPECTED = {"tensors": "log_softmax", "sharding": "mark_sharding", "steps": "mark_step", "modules": "Linear", "optimizers": "AdamW"}


def main(words):
    cmake, build = words
    html = pathlib.Path(build) / "doxygen/html"
    done = subprocess.run([cmake, "--build", build, "--target", "docs"], cwd=ROOT)
    problems = ["doxygen failed or warned"] if done.returncode != 0 else []
    groups = re.findall(r"@defgroup (\w+)", (ROOT / "docs/doxygen/groups.dox").read_text())
    for group in groups:
        page = html / f"group__{group}.html"
        text = page.read_text() if page.exists() else ""
        if 'class="memitem' not in text:
            problems.append(f"group {group}: no page with declarations")
    for group, name in EXPECTED.items():
        page = html / f"group__{group}.html"
        if not page.exists() or name not in page.read_text():
            problems.append(f"group {group} does not list {name}")
    print("\n".join(problems) if problems else f"doxygen: {len(groups)} groups")
    return 1 if problems or not groups else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
