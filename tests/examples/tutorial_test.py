#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks docs/tutorial.md: its listings occur in examples/tutorial, and its commands print what the page shows.

  tutorial_test.py BIN [--update]

Commands begin with `$ ` in blocks marked `shell`. They run in the top folder of the repository, with BIN first in PATH and
$TMP an empty folder. Numbers with a decimal point may differ by 2%, because instruction sets round differently. --update
writes the output into the page.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/tutorial.md"
LISTING = re.compile(r"```(cpp|cmake)\n(.*?)```", re.S)
COMMANDS = re.compile(r"(```shell\n)(.*?)(```)", re.S)
NUMBER = re.compile(r"\d+\.\d+")


def output_of(command, environment):
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=1200)
    return done.stdout


def is_like(shown, printed):
    """True if the texts are equal except for small differences of numbers."""
    if NUMBER.sub("#", shown) != NUMBER.sub("#", printed):
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(printed))
    return all(abs(float(a) - float(b)) <= 0.02 * abs(float(a)) + 0.01 for a, b in pairs)


def missing_listings(page):
    sources = {"cpp": (ROOT / "examples/tutorial/main.cpp").read_text(encoding="utf-8"),
               "cmake": (ROOT / "examples/tutorial/CMakeLists.txt").read_text(encoding="utf-8")}
    flat = {kind: textwrap.dedent(re.sub(r"^ +", "", text, flags=re.M)) for kind, text in sources.items()}
    wrong = []
    for kind, listing in LISTING.findall(page):
        if re.sub(r"^ +", "", listing.strip(), flags=re.M) not in flat[kind]:
            wrong.append(listing)
    return wrong


def main(words):
    update = "--update" in words
    programs = pathlib.Path([word for word in words if word != "--update"][0]).resolve()
    page = PAGE.read_text(encoding="utf-8")
    failures = [f"examples/tutorial does not have this listing of the page:\n{text}" for text in missing_listings(page)]
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, TMP=folder, PATH=f"{programs}:{os.environ['PATH']}")

        def run(match):
            shown = match[2]
            printed = "".join(f"$ {command}\n" + output_of(command.replace("\\\n", ""), environment)
                              for command in re.findall(r"^\$ (.*(?:\\\n.*)*)$", shown, re.M))
            if not is_like(shown, printed):
                failures.append(f"the page shows\n{shown}\nthe commands print\n{printed}")
            return match[1] + printed + match[3]

        fresh = COMMANDS.sub(run, page)
    if update:
        PAGE.write_text(fresh, encoding="utf-8")
        return 0
    print("\n".join(failures) if failures else "tutorial: listings and commands are as on the page")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
