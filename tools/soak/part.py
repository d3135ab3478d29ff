# SPDX-License-Identifier: Apache-2.0
"""The common code of the parts of a soak test: where programs are, and how failures are reported and kept."""
import collections
import dataclasses
import pathlib
import threading


@dataclasses.dataclass
class Failure:
    part: str
    seed: int
    what: str  # one line
    command: str  # reproduces it
    kept: pathlib.Path | None = None  # the input that fails, reduced if possible
    kind: str = ""  # failures of the same kind probably have the same cause


@dataclasses.dataclass
class Soak:
    """A run, shared by its worker threads."""
    root: pathlib.Path  # of the repository
    bin: pathlib.Path
    folder: pathlib.Path  # for inputs that fail
    failures: list = dataclasses.field(default_factory=list)
    counts: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    most_of_a_kind: int = 3

    def count(self, name, by=1):
        with self.lock:
            self.counts[name] += by

    def is_known(self, part, kind):
        """Returns True if enough failures of this kind are kept; further ones are only counted."""
        with self.lock:
            same = sum(failure.part == part and failure.kind == kind for failure in self.failures)
            if same >= self.most_of_a_kind:
                self.counts[f"{part}: more failures of a kind that is reported"] += 1
            return same >= self.most_of_a_kind

    def report(self, failure):
        with self.lock:
            self.failures.append(failure)
            self.counts[f"{failure.part}: failures"] += 1
            print(f"FAILED {failure.part}, seed {failure.seed}: {failure.what}\n  reproduce: {failure.command}", flush=True)
            if failure.kept:
                print(f"  kept:      {failure.kept}", flush=True)
