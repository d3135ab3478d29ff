#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks how large files, folders and functions are: no source file over 400 lines, no folder over 25 source files
(src/ops is the table of ops, one file each), nine of ten functions at most 35 lines. Functions of one line are not
counted.
"""
import argparse
import collections
import pathlib
import re
import sys

ROOTS = ("include", "src", "partitioner", "collectives", "tools", "examples", "tests", "bench")
SUFFIXES = (".h", ".cpp", ".inc", ".py", ".sh")
MAX_FILE, MAX_FOLDER, MAX_P90 = 400, 25, 35
FREE_FOLDERS = ("src/ops",)
NOT_A_FUNCTION = re.compile(r"^\s*(namespace|class|struct|enum|union|extern \"C\"|if|for|while|switch|else|do|return|case)\b")
# The possible text between the parameters and the body.
OPENS_BODY = re.compile(r"(\)|\bconst|\boverride|\bfinal|\bnoexcept|->[^;=]*|\)\s*:.*|^\s*:.*|[)}])\s*\{$")


def statement_before(lines, number):
    """Returns the first line of the statement that ends in line `number`."""
    while number > 0:
        before = lines[number - 1].strip()
        if not before or before[-1] in ";{}:" or before.startswith(("//", "#")):
            return number
        number -= 1
    return number


def functions(lines):
    """Yields (index of the first line, length, text of the first line) for every function whose body is longer than its
    line.
    """
    number = 0
    while number < len(lines):
        line = lines[number].rstrip()
        if line.endswith("{") and not line.lstrip().startswith("//"):
            first = statement_before(lines, number)
            text = " ".join(lines[first : number + 1])
            indent = len(lines[first]) - len(lines[first].lstrip())
            is_function = "(" in text and not NOT_A_FUNCTION.match(lines[first]) and OPENS_BODY.search(line) \
                and not re.search(r"=\s*(\{|R\"\w*\(.*)$", text)
            closing = (" " * indent + "}", " " * indent + "};", " " * indent + "}();")
            end = number + 1
            while is_function and end < len(lines) and lines[end].rstrip() not in closing:
                end += 1
            if is_function and end < len(lines):
                yield first, end - first + 1, lines[first].strip()
                number = end
        number += 1


def source_files(root):
    for base in ROOTS:
        for file in sorted((root / base).rglob("*")):
            if file.suffix in SUFFIXES and file.is_file():
                yield file


def percentile(lengths, share):
    return sorted(lengths)[min(len(lengths) - 1, int(share * len(lengths)))] if lengths else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", default=pathlib.Path(__file__).parent.parent, type=pathlib.Path)
    parser.add_argument("--longest", type=int, default=0, metavar="N", help="list the N longest functions")
    arguments = parser.parse_args()
    root = arguments.root.resolve()
    complaints, found, folders = [], [], collections.Counter()
    files = 0
    for file in source_files(root):
        files += 1
        path = file.relative_to(root)
        folders[path.parent.as_posix()] += file.suffix in (".cpp", ".h", ".inc", ".py")
        lines = file.read_text().splitlines()
        if len(lines) > MAX_FILE:
            complaints.append(f"{path}: {len(lines)} lines; at most {MAX_FILE}: split it by what it does")
        if file.suffix in (".h", ".cpp", ".inc"):
            found += [(length, f"{path}:{first + 1}", text) for first, length, text in functions(lines)]
    for folder, count in sorted(folders.items()):
        if count > MAX_FOLDER and folder not in FREE_FOLDERS:
            complaints.append(f"{folder}: {count} source files; at most {MAX_FOLDER}: sort them into folders")
    p90 = percentile([length for length, _, _ in found], 0.9)
    if p90 > MAX_P90:
        complaints.append(f"functions: one in ten is longer than {p90} lines; at most {MAX_P90}: split the longest (--longest 50)")
    for length, place, text in sorted(found, reverse=True)[: arguments.longest]:
        print(f"{length:5} {place}: {text[:90]}")
    print("\n".join(complaints + [f"sizes: {files} files, {len(found)} functions, of which nine in ten have at most {p90} lines"]))
    return 1 if complaints or not files else 0


if __name__ == "__main__":
    sys.exit(main())
