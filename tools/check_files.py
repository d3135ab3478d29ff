#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists files over 400 lines and functions over 60 (--strict: exit 1): each a place where a concept may lack a name."""
import argparse
import pathlib
import re
import sys

ROOTS = ("include", "src", "partitioner", "collectives", "tools", "examples", "tests", "bench")
# A definition starts in column 0 (or at a class member's two blanks), ends its line with `{` and is closed by `}` in the same column.
OPENING = re.compile(r"^( {0,2})[A-Za-z_~].*\)[^;]*\{$")
NOT_A_FUNCTION = re.compile(r"^\s*(namespace|class|struct|enum|union|extern|if|for|while|switch|else|do|return)\b")


def long_functions(lines, limit):
    """(line number, length, first line) of each function longer than `limit`."""
    start = None
    for number, line in enumerate(lines, 1):
        if start is None:
            match = OPENING.match(line)
            if match and not NOT_A_FUNCTION.match(line):
                start = (number, match.group(1), line.strip())
        elif line == start[1] + "}" or line == start[1] + "};":
            if number - start[0] + 1 > limit:
                yield start[0], number - start[0] + 1, start[2]
            start = None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--max-file", type=int, default=400)
    parser.add_argument("--max-function", type=int, default=60)
    parser.add_argument("--strict", action="store_true")
    arguments = parser.parse_args()
    root = pathlib.Path(__file__).parent.parent
    found = 0
    for base in ROOTS:
        for file in sorted((root / base).rglob("*")):
            if file.suffix not in (".h", ".cpp"):
                continue
            lines = file.read_text().splitlines()
            path = file.relative_to(root)
            if len(lines) > arguments.max_file:
                found += 1
                print(f"{path}: {len(lines)} lines")
            for number, length, text in long_functions(lines, arguments.max_function):
                found += 1
                print(f"{path}:{number}: {length} lines: {text[:90]}")
    print(f"{found} places are long (files over {arguments.max_file}, functions over {arguments.max_function} lines)")
    return 1 if arguments.strict and found else 0


if __name__ == "__main__":
    sys.exit(main())
