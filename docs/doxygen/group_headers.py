#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Copies the public headers for Doxygen, with the declarations of each header in the group of its folder.

  docs/doxygen/group_headers.py OUT INCLUDE...

groups.dox defines the groups. Lines keep their numbers.
"""
import pathlib
import re
import shutil
import sys

# Prefixes of paths under include/tessera/; the longest that fits counts.
GROUPS = {
    "frontend/tensor/": "tensors",
    "frontend/sharding/": "sharding",
    "sharding/": "sharding",
    "frontend/compile/": "steps",
    "frontend/execution/": "steps",
    "frontend/": "tensors",
    "nn/": "modules",
    "optim/": "optimizers",
    "data/": "data",
    "fsdp/": "fsdp",
    "checkpoint/": "checkpoints",
    "trainer/": "trainer",
    "tensor/": "programs",
    "ir/": "programs",
    "ops/": "programs",
    "autodiff/": "programs",
    "passes/": "partitioner",
    "partitioner/": "partitioner",
    "solver/": "partitioner",
    "lowering/": "partitioner",
    "schedule/": "partitioner",
    "runtime/": "runtime",
    "collectives/": "collectives",
    "base/": "base",
}


def group_of(name):
    """Returns the group of a header, by its path under include/tessera; None for those at the top."""
    fits = [prefix for prefix in GROUPS if name.startswith(prefix)]
    return GROUPS[max(fits, key=len)] if fits else None


def grouped(text, group):
    text = re.sub(r"^(namespace tessera(::\w+)? \{)$", rf"\1 /** @addtogroup {group} */ /** @{{ */", text, count=1, flags=re.M)
    return re.sub(r"^\}(  // namespace tessera(::\w+)?)$", r"/** @} */ }\1", text, count=1, flags=re.M)


def main(words):
    out, problems = pathlib.Path(words[0]), []
    shutil.rmtree(out, ignore_errors=True)
    for folder in words[1:]:
        for header in sorted(pathlib.Path(folder).rglob("*.h")):
            name = header.relative_to(folder).as_posix()
            group = group_of(name.removeprefix("tessera/"))
            text = header.read_text()
            if group is None and name.count("/") > 1:
                problems.append(f"{name}: no group for this folder; add it to GROUPS in docs/doxygen/group_headers.py")
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            (out / name).write_text(grouped(text, group) if group else text)
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
