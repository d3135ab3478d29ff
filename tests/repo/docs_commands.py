#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the commands in the pages under docs/ and compares their output with that in the pages.

  tests/repo/docs_commands.py BIN [--update] [PAGE…]

Bash runs the lines that begin with `$ ` in blocks marked `console`, in the top folder of the repository, with BIN first
in PATH and $TMP an empty folder. The lines up to the next command are standard output and error together. --update
writes the output into the pages.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"(```console\n)(.*?)(```)", re.S)


def output_of(command, environment):
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, env=environment, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=600)
    text = done.stdout.replace(environment["TMP"], "$TMP")
    if text and not text.endswith("\n"):
        text += "\n"
    return text


def run_block(body, environment):
    out = ""
    for command in re.findall(r"^\$ (.*(?:\\\n.*)*)$", body, re.M):
        out += f"$ {command}\n" + output_of(command, environment)
    return out


def main(words):
    update = "--update" in words
    words = [word for word in words if word != "--update"]
    if not words:
        sys.exit(__doc__)
    pages = [pathlib.Path(page) for page in words[1:]] or sorted((ROOT / "docs").rglob("*.md"))
    wrong = commands = 0
    for page in pages:
        text = page.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            environment = dict(os.environ, TMP=folder, PATH=f"{pathlib.Path(words[0]).resolve()}:{os.environ['PATH']}")
            fresh = BLOCK.sub(lambda m: m[1] + run_block(m[2], environment) + m[3], text)
        commands += sum(body.count("\n$ ") + body.startswith("$ ") for _, body, _ in BLOCK.findall(text))
        if fresh == text:
            continue
        if update:
            page.write_text(fresh, encoding="utf-8")
            continue
        wrong += 1
        for (_, said, _), (_, due, _) in zip(BLOCK.findall(text), BLOCK.findall(fresh)):
            if said != due:
                print(f"{page}: the page says\n{said}\nit prints\n{due}")
    print(f"docs: {commands} commands on {len(pages)} pages, {wrong} page{'' if wrong == 1 else 's'} out of date")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
