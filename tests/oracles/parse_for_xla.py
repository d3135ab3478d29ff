#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that XLA's reader accepts HLO text: tests/oracles/parse_for_xla.py FILE.hlo…

Needs `pip install jax jaxlib`. Prints one line for each file: what was read, or XLA's error. The exit status is 1 if
a file was refused.
"""
import sys

import jaxlib
from jax._src.lib import xla_client


def read(path):
    """The module as XLA holds it; its text in XLA's spelling must be readable again."""
    with open(path, encoding="utf-8") as file:
        module = xla_client.hlo.hlo_module_from_text(file.read())
    return xla_client.hlo.hlo_module_from_text(module.to_string())


def main(paths):
    if not paths:
        sys.exit(__doc__)
    refused = 0
    for path in paths:
        try:
            module = read(path)
        except Exception as error:  # XlaRuntimeError has moved between versions of jaxlib
            refused += 1
            print(f"REFUSED {path}: {error}")
            continue
        computations = module.computations()
        count = sum(len(c.instructions()) for c in computations) if hasattr(computations[0], "instructions") else 0
        print(f"read    {path}: {len(computations)} computations, {count} instructions")
    print(f"jaxlib {jaxlib.__version__}: {len(paths) - refused} of {len(paths)} files read")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
