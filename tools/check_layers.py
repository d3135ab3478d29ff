#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the include lines against the table of layers, that no code outside src/ops compares the names of ops, and that
every test is in a CMakeLists.txt. Prints each line that breaks a rule.
"""
import pathlib
import re
import sys

# module: the modules that it may use directly. It may also use what those may use.
USES = {
    "base": [],
    "solver": ["base"],
    "tensor": ["base"],
    "sharding": ["tensor"],
    "collectives": ["sharding"],
    "ir": ["sharding"],
    "ops": ["ir"],
    "autodiff": ["ops"],
    "passes": ["ops"],
    "schedule": ["ops"],
    "lowering": ["passes", "schedule", "solver"],
    "partitioner": ["passes", "schedule", "lowering", "solver"],
    "runtime": ["ops", "passes", "schedule", "lowering", "collectives"],
    "frontend": ["autodiff", "partitioner", "runtime"],
    "nn": ["frontend"],
    "optim": ["frontend"],
    "data": ["frontend"],
    "fsdp": ["nn"],
    "checkpoint": ["nn", "optim"],
    "trainer": ["nn", "optim", "data", "fsdp", "checkpoint"],
}

# Interfaces of a lower layer that a higher layer implements: header -> the layer to which it belongs.
INTERFACES = {
    "tessera/autodiff/gradient_context.h": "ir",  # the file of an op contains its gradient
}

# Libraries that only some folders may use: (pattern of the include, allowed folders).
CONFINED = [
    (re.compile(r"mpi(-ext)?\.h$"), ("collectives/mpi/", "bench/collectives/")),
    (re.compile(r"(Eigen/|unsupported/Eigen/)"), ("src/", "tests/", "bench/")),
    (re.compile(r"(oneapi/|dnnl)"), ("src/runtime/", "tests/runtime/", "bench/")),
]

# The properties of an op are in its row (src/ops, include/tessera/ir/op_def.h): other code uses the row, not the name.
# Only the text reader and writer use names.
OPS_AT_HOME = ("src/ops/", "src/ir/text/", "tests/", "bench/", "examples/")
# Modules that do not work with op names use the same words for other things: an activation named tanh, a schedule named
# constant.
WITHOUT_OPS = ("src/nn/", "src/optim/", "src/data/", "src/fsdp/", "src/trainer/", "include/tessera/nn/", "include/tessera/optim/",
               "include/tessera/data/", "include/tessera/fsdp/", "include/tessera/trainer/", "collectives/", "src/base/", "src/sharding/")
OP_NAME = re.compile(r"(\bop(\(\))?|\.op)(->|\.)name\s*[!=]=|[!=]=\s*[\w.>\-\[\]()]*\bop(->|\.)name\b|\bop(->|\.)name\.(starts|ends)_with"
                     r"|is_one_of\(.*\bname\b|op_table\(\)\.get\(\s*\"")
# A condition on several ops should be a property of these ops.
SET_OF_ROWS = re.compile(r"&\s*rows::k\w+\s*(\|\||&&)[^;]*[!=]=\s*&\s*rows::k")
ROW = re.compile(r"\bk([A-Z]\w*)")
LITERAL = re.compile(r'"([a-z][a-z0-9-]*)"')
COMPARED = re.compile(r'[!=]=\s*"([a-z][a-z0-9-]*)"|"([a-z][a-z0-9-]*)"\s*[!=]=')

SOURCE_ROOTS = ("include", "src", "partitioner", "collectives", "tools", "examples", "tests", "bench")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
COMMENT_LINE = re.compile(r"^\s*//")


def allowed(module):
    """Returns everything that `module` may include: itself and all lower modules."""
    seen, todo = set(), [module]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += USES[name]
    return seen


def module_of(path):
    """Returns the module of the file, or None for programs and tests, which may use everything."""
    parts = path.split("/")
    if parts[0] == "include":
        return parts[2] if len(parts) > 3 else None  # include/tessera/*.h include several modules
    if parts[0] == "src":
        return parts[1]
    return parts[0] if parts[0] in ("partitioner", "collectives") else None


def check_include(path, module, target):
    """Returns the complaint about `#include target` in the file `path`, or None."""
    for pattern, places in CONFINED:
        if pattern.match(target) and not path.startswith(places):
            return f"{target} may be included only under {', '.join(places)}"
    match = re.match(r"tessera/([a-z_0-9]+)/", target)
    if match is None:
        return f"module {module} may not include the header of all modules" if module and target == "tessera/tessera.h" else None
    used = INTERFACES.get(target, match.group(1))
    if used not in USES:
        return f"{target}: no module is called {used}"
    if module and used not in allowed(module):
        return f"{module} may not use {used}; it may use {', '.join(sorted(allowed(module)))}"
    return None


def op_names(root):
    """Returns the names of all ops, from the declarations of their rows: kAllGather is all-gather."""
    file = root / "include/tessera/ops/rows.h"
    rows = ROW.findall(file.read_text()) if file.exists() else []
    return {re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", row).lower() for row in rows}


def check_op_names(path, line, names):
    """Returns the complaint about a line that compares the name of an op, or None."""
    if path.startswith(OPS_AT_HOME) or COMMENT_LINE.match(line):
        return None
    if OP_NAME.search(line):
        return "compares or looks up an op by name: ask a field of its row (include/tessera/ir/op_def.h) or compare with &rows::kOp"
    if SET_OF_ROWS.search(line):
        return "tells several ops apart: make it a field of their rows (include/tessera/ir/op_def.h)"
    if path.startswith(WITHOUT_OPS):
        return None
    compared = [name for pair in COMPARED.findall(line) for name in pair if name in names]
    listed = re.search(r"\{.*\}|\[\]\s*=|^\s*(\"|\{\")", line) and [name for name in LITERAL.findall(line) if name in names]
    if compared or (listed and len(listed) > 1):
        return f'op name "{(compared or listed)[0]}" outside src/ops: use a field of the row or rows::kOp'
    return None


def tests_that_are_not_built(root):
    listed = "".join(file.read_text() for file in (root / "tests").rglob("CMakeLists.txt"))
    tests = [file for pattern in ("*_test.cpp", "*_test.py") for file in sorted((root / "tests").rglob(pattern))]
    return [f"{file.relative_to(root).as_posix()}: no CMakeLists.txt names this test" for file in tests if file.name not in listed]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    complaints, files, names = [], 0, op_names(root)
    for base in SOURCE_ROOTS:
        for file in sorted((root / base).rglob("*")):
            if file.suffix not in (".h", ".cpp", ".inc"):
                continue
            files += 1
            path = file.relative_to(root).as_posix()
            module = module_of(path)
            if module and module not in USES:
                complaints.append(f"{path}: module {module} is not in the table of tools/check_layers.py")
                continue
            for number, line in enumerate(file.read_text().splitlines(), 1):
                match = INCLUDE.match(line)
                complaint = match and check_include(path, module, match.group(2)) or check_op_names(path, line, names)
                if complaint:
                    complaints.append(f"{path}:{number}: {complaint}")
    complaints += tests_that_are_not_built(root)
    print("\n".join(complaints) if complaints else f"layers: {files} files keep to the table")
    return 1 if complaints or not files else 0


if __name__ == "__main__":
    sys.exit(main())
