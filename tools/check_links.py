#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the links of all Markdown pages, with their anchors, and the paths in backticks."""
import pathlib
import re
import sys

FENCE = re.compile(r"^```.*?^```", re.S | re.M)
LINK = re.compile(r"\]\(([^)\s]+)\)")
PATH = re.compile(r"`((?:src|include|partitioner|collectives|tests|tools|bench|examples|docs)/[\w./*-]+)`")
PLACEHOLDER = re.compile(r"[A-Z]{4,}")  # `src/ops/NAME.cpp`
SKIPPED = {"build", ".git"}
HISTORY = {"CHANGELOG.md"}  # names files that existed at the time


def anchors(page):
    """Returns the anchors of a page's headings, as GitHub generates them."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.M):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
        found.add(re.sub(r"[^\w\- ]", "", text).replace(" ", "-"))
    return found


def check_link(page, target):
    """Returns the complaint about a link, or None."""
    if re.match(r"[a-z]+:", target):
        return None
    path, _, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    if not file.exists():
        return f"the link {target} leads nowhere"
    if anchor and file.suffix == ".md" and anchor not in anchors(file):
        return f"the link {target} names no heading of {file.name}"
    return None


def check_path(root, path):
    """Returns the complaint about a path in backticks, or None."""
    if PLACEHOLDER.search(path) or any(root.glob(path.rstrip("/"))):
        return None
    return f"there is no {path}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    complaints, pages = [], 0
    for page in sorted(root.rglob("*.md")):
        name = page.relative_to(root)
        if SKIPPED & set(name.parts):
            continue
        pages += 1
        text = page.read_text(encoding="utf-8")
        found = [check_link(page, target) for target in LINK.findall(FENCE.sub("", text))]
        if name.name not in HISTORY:
            found += [check_path(root, path) for path in PATH.findall(text)]
        complaints += [f"{name}: {complaint}" for complaint in found if complaint]
    print("\n".join(complaints) if complaints else f"links: those of {pages} pages lead somewhere")
    return 1 if complaints or not pages else 0


if __name__ == "__main__":
    sys.exit(main())
