#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every source file under version control names its licence in its first three lines."""
import pathlib
import subprocess
import sys

LINE = "SPDX-License-Identifier: Apache-2.0"
SUFFIXES = {".h", ".cpp", ".inc", ".py", ".sh", ".cmake"}
NAMES = {"CMakeLists.txt", "Doxyfile", "Doxyfile.in", ".clang-format", ".clang-tidy", ".editorconfig"}


def source_files(root):
    """Returns the files to check: those under version control, or all outside build/ if there is no repository."""
    git = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, check=False)
    if git.returncode == 0:
        names = git.stdout.decode().split("\0")
    else:
        builds = {p.parent for p in root.glob("**/CMakeCache.txt")}
        names = [p.relative_to(root).as_posix() for p in root.rglob("*") if not builds.intersection(p.parents)]
    for name in names:
        path = root / name
        is_script = name.startswith((".ci/", "tools/")) and path.suffix == ""
        if path.is_file() and (path.suffix in SUFFIXES or path.name in NAMES or is_script):
            yield path


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    checked, missing = 0, []
    for path in source_files(root):
        checked += 1
        head = path.read_text(errors="replace").splitlines()[:3]
        if not any(LINE in line for line in head):
            missing.append(path.relative_to(root))
    for path in missing:
        print(f"{path}: no line `{LINE}` at the top")
    if not missing:
        print(f"spdx: {checked} files name their licence")
    return 1 if missing or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
