# SPDX-License-Identifier: Apache-2.0
"""Mutated HLO files: the command must refuse them with a message, or its output must read back and compute the same
values.
"""
import random
import re
import time

from mutate import mutated
from part import Failure
from processes import run, shown

SOURCES = ["tests/data", "tests/tools/data", "tests/fuzz/corpus/hlo", "examples/hlo"]
SECONDS = {"print": 30, "partition": 120, "stats": 60, "check": 300}
GIGABYTES = 4
MOST_ELEMENTS = 20_000  # of one array that `check` evaluates; larger ones take long
SHRINK_SECONDS = 60


def texts(root):
    found = []
    for source in SOURCES:
        for path in sorted((root / source).rglob("*")):
            if path.is_file() and (path.suffix == ".hlo" or "corpus" in source):
                found.append(path.read_text(errors="replace"))
    return [text for text in found if text.strip()]


def most_elements(text):
    most = 1
    for dims in re.findall(r"\[(\d+(?:,\d+)*)\]", text):
        size = 1
        for dim in dims.split(","):
            size *= int(dim)
        most = max(most, size)
    return most


def without_output(command):
    if "-o" not in command:
        return command
    at = command.index("-o")
    return command[:at] + command[at + 2:]


class Mutations:
    name = "mutations"

    def __init__(self, soak):
        self.soak = soak
        self.texts = texts(soak.root)
        self.folder = soak.folder / self.name
        self.folder.mkdir(parents=True, exist_ok=True)

    def run(self, seed):
        draw = random.Random(seed)
        text = mutated(draw, self.texts)
        options = draw.choice([[], [], [], ["--open-results"], ["--open-parameters"], ["--async"]])
        self.soak.count("mutations: cases")
        problem = self.problem(text, options, seed, counted=True)
        if problem:
            self.fail(seed, text, options, problem)

    def tessera(self, verb, path, *options):
        return [self.soak.bin / "tessera", verb, path, *options]

    def problem(self, text, options, seed, counted=False):
        """Returns (the failure, its kind, the command), or None."""
        path = self.folder / f".trial_{seed}.hlo"
        out = self.folder / f".trial_{seed}.out.hlo"
        path.write_text(text)
        try:
            return self.problem_of(path, out, options, counted)
        finally:
            path.unlink(missing_ok=True)
            out.unlink(missing_ok=True)

    def problem_of(self, path, out, options, counted):
        problem, outcome = self.step("print", path, "-o", out)
        if problem or outcome.code != 0:
            return problem
        if counted:
            self.soak.count("mutations: read")
        problem, outcome = self.step("partition", path, "-o", out, *options)
        if problem or outcome.code != 0:
            return problem
        if counted:
            self.soak.count("mutations: partitioned")
        for verb in ("print", "stats"):
            problem, outcome = self.step(verb, out)
            if problem or outcome.code != 0:
                return problem or (f"{verb} refuses what partition wrote", f"{verb} refuses", self.tessera(verb, out))
        if most_elements(path.read_text()) > MOST_ELEMENTS:
            return None
        problem, outcome = self.step("check", path, "--trip-limit", 20, *options)
        if problem is None and outcome.code == 0 and counted:
            self.soak.count("mutations: checked")
        # A mutated manual region may leave different values on devices that must have equal ones.
        if problem is None and outcome.code == 3 and "the module itself is wrong" not in outcome.out:
            return ("check finds a difference", "check differs", self.tessera("check", path, "--trip-limit", 20, *options))
        return problem

    def step(self, verb, path, *options):
        """Returns a failure or None, and the outcome."""
        command = self.tessera(verb, path, *options)
        outcome = run(command, SECONDS[verb], GIGABYTES)
        if outcome.timed_out:
            return (f"{verb} does not end within {SECONDS[verb]} s", f"{verb} hangs", command), outcome
        if outcome.code not in (0, 1, 2, 3):
            what = f"{verb} ends with {outcome.code}: {outcome.summary()}"
            return (what, f"{verb} {outcome.code} {outcome.summary()}", command), outcome
        if "internal error" in outcome.err:
            line = next(line for line in outcome.err.splitlines() if "internal error" in line)
            return (f"{verb}: {line}", f"{verb} internal {outcome.summary()}", command), outcome
        if outcome.code != 0 and not outcome.err.strip() and outcome.code != 3:
            return (f"{verb} ends with {outcome.code} and says nothing", f"{verb} silent", command), outcome
        return None, outcome

    def fail(self, seed, text, options, problem):
        what, kind, command = problem
        if self.soak.is_known(self.name, kind):
            return
        kept = self.folder / f"seed_{seed}.hlo"
        kept.write_text(self.shrunk(seed, text, options, kind))
        again = shown([kept if str(part).endswith(f".trial_{seed}.hlo") else part for part in without_output(command)])
        if str(command[2]).endswith(".out.hlo"):
            again = f"{shown(self.tessera('partition', kept, *options))} | {shown([*command[:2], '-', *command[3:]])}"
        self.soak.report(Failure(self.name, seed, what, again, kept, kind))

    def shrunk(self, seed, text, options, kind):
        """Returns as few lines as possible that still fail in the same way."""
        deadline = time.monotonic() + SHRINK_SECONDS
        lines = text.splitlines(keepends=True)
        size = max(1, len(lines) // 2)
        while size >= 1 and "hangs" not in kind:
            at = 0
            while at < len(lines) and time.monotonic() < deadline:
                fewer = lines[:at] + lines[at + size:]
                problem = self.problem("".join(fewer), options, seed)
                if problem and problem[1] == kind:
                    lines = fewer
                else:
                    at += size
            size //= 2
        return "".join(lines)
