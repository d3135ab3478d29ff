# SPDX-License-Identifier: Apache-2.0
"""Random programs with random shardings: the partitioned program must equal the unpartitioned one. The generator
shrinks failing programs itself.
"""
import re

from part import Failure
from processes import run, shown

CASES = 100
SECONDS = 1200  # some failures take minutes to shrink


class Programs:
    name = "programs"

    def __init__(self, soak):
        self.soak = soak
        self.folder = soak.folder / self.name
        self.folder.mkdir(parents=True, exist_ok=True)

    def run(self, seed):
        outcome = run(self.command(seed, CASES), SECONDS)
        self.soak.count("programs: cases", CASES)
        if outcome.code == 0:
            return
        found = re.findall(r"^seed (\d+): (.*?)(?: \((\S+\.hlo)\))?$", outcome.out, re.MULTILINE)
        for one, reason, path in found:
            self.fail(int(one), reason, path)
        if not found:
            self.find_crash(seed)

    def command(self, seed, cases):
        return [self.soak.bin / "random_programs", "--cases", cases, "--seed", seed, "--folder", self.folder]

    def find_crash(self, seed):
        """Tries each case separately, because a process that crashed does not report its case."""
        for one in range(seed, seed + CASES):
            outcome = run(self.command(one, 1), 120)
            if outcome.timed_out:
                self.fail(one, "does not end", "")
            elif outcome.code not in (0, 1):
                self.fail(one, f"ends with {outcome.code}: {outcome.summary()}", "")

    def fail(self, seed, reason, path):
        kind = re.sub(r"\d+|%\S+", "_", reason)[:60]
        if not self.soak.is_known(self.name, kind):
            self.soak.report(Failure(self.name, seed, reason, shown(self.command(seed, 1)), path or None, kind))
