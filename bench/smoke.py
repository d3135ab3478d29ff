#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a benchmark for a moment and checks the JSON that it writes.

usage: smoke.py ROW[,ROW..] COMMAND.. -- where {json} in COMMAND is replaced by the name of the file to write. Every ROW must
occur (its name up to a slash), and every row of the file must have a time above zero.
"""
import json
import pathlib
import subprocess
import sys
import tempfile


def main():
    wanted, command = sys.argv[1].split(","), sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "rows.json"
        subprocess.run([word.replace("{json}", str(path)) for word in command], check=True)
        rows = json.loads(path.read_text())["benchmarks"]
    names = [row["name"] for row in rows]
    print("\n".join(names))
    missing = [one for one in wanted if not any(name == one or name.startswith(one + "/") for name in names)]
    idle = [row["name"] for row in rows if not row["real_time"] > 0]
    failed = [row["name"] for row in rows if row.get("error_occurred")]
    for what, which in (("no row", missing), ("no time for", idle), ("an error in", failed)):
        if which:
            print(f"{what} {', '.join(which)}", file=sys.stderr)
    return 1 if missing or idle or failed else 0


if __name__ == "__main__":
    sys.exit(main())
