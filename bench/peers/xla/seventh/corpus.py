# SPDX-License-Identifier: Apache-2.0
"""python corpus.py FOLDER [NAME..]: writes FOLDER/NAME.hlo, the modules of a seventh corpus.

Each is a program that a practitioner of jax would dump, as HLO text before partitioning: `num_partitions` in the
header, shardings on parameters, results and values inside. The cases are in models*.py (60), numerics*.py (40), ops*.py
(40) and annotations.py (20); kit.py says how they are written. It prints a line for each module (its form, instructions
and whether a size does not divide evenly) and the sums; it ends with status 1 if a module failed or is wrong.
"""
import collections
import pathlib
import re
import sys

import kit

import models  # noqa: F401
import models_layers  # noqa: F401
import models_mixing  # noqa: F401
import models_steps  # noqa: F401
import numerics  # noqa: F401
import numerics_data  # noqa: F401
import ops  # noqa: F401
import ops_control  # noqa: F401
import annotations  # noqa: F401


def main(folder, names):
    folder.mkdir(parents=True, exist_ok=True)
    places, seen, failed = collections.Counter(), {}, []
    kinds, uneven, forms = collections.Counter(), collections.Counter(), collections.Counter()
    for case in kit.CASES:
        form = places[case.kind] % 4
        places[case.kind] += 1
        if names and case.name not in names:
            continue
        path = folder / f"{case.name}.hlo"
        try:
            count, odd = kit.write(case, form, path)
        except Exception as error:
            failed.append(f"{case.name}: {type(error).__name__} {str(error).splitlines()[0]}")
            continue
        text = path.read_text()
        body = re.sub(r"[\w.\-]*", lambda m: re.sub(r"\.\d+$", "", m[0]), text.split("\n", 1)[1])
        wrong = [w for w, bad in (("elided", "constant({...})" in text), ("size", not 5 <= count <= 400),
                                  ("name", case.name in seen.values()), ("same", body in seen)) if bad]
        failed += [f"{case.name}: {' '.join(wrong)} ({count} instructions)"] if wrong else []
        seen[body] = case.name
        kinds[case.kind] += 1
        uneven[case.kind] += odd
        forms[form] += 1
        print(f"{case.kind:12} {case.name:34} form {form} {count:4} {'uneven' if odd else ''}")
    print(dict(kinds), "uneven", dict(uneven), "forms", dict(forms))
    print(*(f"FAILED {line}" for line in failed), sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), set(sys.argv[2:])))
