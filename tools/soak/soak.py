# SPDX-License-Identifier: Apache-2.0
"""Runs the parts in turn until the time is over, with at most two processes, and reports the failures that it keeps.

    soak.py [MINUTES] [--seed N] [--part NAME] [--count N] [--jobs N] [--bin FOLDER] [--keep FOLDER]
"""
import argparse
import collections
import concurrent.futures
import itertools
import os
import pathlib
import sys
import threading
import time

from kills import Kills
from launch_kills import LaunchKills
from layouts import Layouts
from long_rows import LongRows
from mutations import Mutations
from part import Soak
from programs import CASES, Programs

PARTS = [Programs, LongRows, Mutations, Layouts, Kills, LaunchKills]
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def parse_arguments():
    parser = argparse.ArgumentParser(prog="tools/soak.sh", description="Looks for faults with new seeds.")
    parser.add_argument("minutes", nargs="?", type=float, default=60)
    parser.add_argument("--seed", type=int, help="of the first case of each part; drawn from the clock unless given")
    parser.add_argument("--part", choices=[part.name for part in PARTS], help="this part alone")
    parser.add_argument("--count", type=int, help="so many cases of each part, however long they take")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="processes at a time; at most two unless given")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin", help="where the programs are")
    parser.add_argument("--keep", type=pathlib.Path, default=ROOT / "build/soak", help="where inputs that fail go")
    return parser.parse_args()


class Turns:
    """Returns (part, seed) pairs: the part that has run for the shortest time, and its next seed."""

    def __init__(self, parts, seed, minutes, count):
        self.parts = parts
        self.spent = collections.Counter()
        steps = {part.name: CASES if isinstance(part, Programs) else 1 for part in parts}
        self.seeds = {part.name: itertools.count(seed, steps[part.name]) for part in parts}
        self.left = {part.name: count for part in parts}
        self.deadline = None if count else time.monotonic() + 60 * minutes
        self.lock = threading.Lock()

    def next(self):
        with self.lock:
            if self.deadline and time.monotonic() > self.deadline:
                return None
            open_parts = [part for part in self.parts if self.left[part.name] is None or self.left[part.name] > 0]
            if not open_parts:
                return None
            part = min(open_parts, key=lambda one: self.spent[one.name])
            self.spent[part.name] += 1  # so that several workers do not all choose the same part
            if self.left[part.name] is not None:
                self.left[part.name] -= 1
            return part, next(self.seeds[part.name])

    def took(self, part, seconds):
        with self.lock:
            self.spent[part.name] += seconds - 1


def work(turns):
    while (turn := turns.next()) is not None:
        part, seed = turn
        start = time.monotonic()
        part.run(seed)
        turns.took(part, time.monotonic() - start)


def print_summary(soak, seed, minutes):
    print(f"\nsoak: {minutes:.0f} minutes, seeds from {seed}")
    for name, count in sorted(soak.counts.items()):
        print(f"  {count:>8}  {name}")
    if not soak.failures:
        print("nothing failed")
        return
    print("\nwhat to keep:")
    for failure in soak.failures:
        print(f"  {failure.part} seed {failure.seed}: {failure.kept or failure.command}\n    {failure.what[:200]}")


def main():
    arguments = parse_arguments()
    seed = arguments.seed if arguments.seed is not None else int(time.time()) * 1000 % 10**12
    soak = Soak(ROOT, arguments.bin.resolve(), arguments.keep.resolve())
    soak.folder.mkdir(parents=True, exist_ok=True)
    parts = [part(soak) for part in PARTS if arguments.part in (None, part.name)]
    print(f"soak: seeds from {seed}; inputs that fail go to {soak.folder}", flush=True)
    start = time.monotonic()
    turns = Turns(parts, seed, arguments.minutes, arguments.count)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for worker in [pool.submit(work, turns) for _ in range(arguments.jobs)]:
            worker.result()
    print_summary(soak, seed, (time.monotonic() - start) / 60)
    return 1 if soak.failures else 0


if __name__ == "__main__":
    sys.exit(main())
