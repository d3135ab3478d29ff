#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""XLA's partitioning of modules for one number of devices, as a child process of `compare.py`.

  xla_partition.py DEVICES FOLDER < "IN.hlo OUT NAME" lines

Writes OUT.spmd.hlo: the module after XLA's spmd-partitioning (including its clean-up) and before all passes for the
CPU; and OUT.late.hlo: also after the target-independent simplification, just before layout assignment; or OUT.error if
XLA failed.
"""
import os
import pathlib
import re
import shutil
import sys

DEVICES, FOLDER = int(sys.argv[1]), pathlib.Path(sys.argv[2])
FLAGS = (f"--xla_force_host_platform_device_count={DEVICES} --xla_dump_to={FOLDER} "
         "--xla_dump_hlo_pass_re=spmd-partitioning|layout-assignment --xla_backend_optimization_level=0 "
         "--xla_llvm_disable_expensive_passes=true")
os.environ |= {"XLA_FLAGS": FLAGS, "JAX_PLATFORMS": "cpu"}

import jax  # noqa: E402
import numpy as np  # noqa: E402
from jax._src.lib import _jax, xla_client  # noqa: E402


def allowed(text, what):
    """Returns the list in the header, or nothing."""
    found = re.search(rf"allow_spmd_sharding_propagation_to_{what}=\{{([^}}]*)\}}", text.split("\n", 1)[0])
    return [word == "true" for word in found[1].split(",")] if found else []


def compile_text(text):
    module = xla_client.hlo.hlo_module_from_text(text)
    stablehlo = _jax.mlir.hlo_to_stablehlo(module.as_serialized_hlo_module_proto())
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = 1, DEVICES
    build = options.executable_build_options
    build.num_partitions, build.use_spmd_partitioning, build.use_shardy_partitioner = DEVICES, True, "xla.sdy." in text
    build.allow_spmd_sharding_propagation_to_output = allowed(text, "output") or [False]
    build.allow_spmd_sharding_propagation_to_parameters = allowed(text, "parameters") or [False]
    devices = jax.devices()[:DEVICES]
    options.device_assignment = xla_client.DeviceAssignment.create(np.array([[d.id for d in devices]]))
    devices[0].client.compile_and_load(stablehlo, xla_client.DeviceList(tuple(devices)), options)


def main():
    for line in sys.stdin:
        source, out, name = line.split()
        text = re.sub(r"^HloModule \S+?,", f"HloModule {name},", pathlib.Path(source).read_text(), count=1)
        problem = ""
        try:
            compile_text(text)
        except Exception as error:  # a later CPU pass may refuse a module that is already partitioned
            problem = str(error)
        dumps = sorted(FOLDER.glob(f"*.{name}.*.txt"))
        for suffix, pattern in (("spmd", ".after_spmd-partitioning.before_"), ("late", ".before_layout-assignment")):
            found = [d for d in dumps if pattern in d.name]
            if found:
                shutil.copy(found[-1], f"{out}.{suffix}.hlo")
        if not pathlib.Path(f"{out}.spmd.hlo").exists():
            pathlib.Path(f"{out}.error").write_text(problem + "\n")
        for dump in FOLDER.glob(f"*.{name}*"):
            if dump.is_file():
                dump.unlink()
        print(name, "done", flush=True)


if __name__ == "__main__":
    main()
