# SPDX-License-Identifier: Apache-2.0
"""TESSERA_TRACE_FILE: the timeline of run_clm on two ranks has their steps, programs, collectives, saves and evaluations.

    timeline_test.py RUN_CLM MPIEXEC
"""
import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

RUN_CLM = str(pathlib.Path(sys.argv[1]).resolve())
MPIEXEC = sys.argv[2]
MODEL = {"model_type": "gpt2", "n_embd": 12, "n_head": 3, "n_layer": 2, "n_positions": 16, "vocab_size": 259,
         "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0}
FLAGS = {"config_name": "m.json", "train_file": "a.txt", "block_size": 16, "global_batch_size": 8, "gradient_accumulation_steps": 2,
         "max_steps": 4, "mesh": "fsdp=2", "fsdp": "full_shard", "sample_tokens": 0, "disable_tqdm": "true", "report_to": "none"}
Event = collections.namedtuple("Event", "process row category name begin end arguments")


class Trace:
    def __init__(self, path):
        file = json.loads(path.read_text())
        self.other = file["otherData"]
        self.processes, rows, self.events = {}, {}, []
        for event in file["traceEvents"]:
            if event["name"] == "process_name":
                self.processes[event["pid"]] = event["args"]["name"]
            if event["name"] == "thread_name":
                rows[event["pid"], event["tid"]] = event["args"]["name"]
            if event["ph"] == "X":
                begin = round(event["ts"] * 1000)  # nanoseconds, so that sums are exact
                self.events.append(Event(event["pid"], rows[event["pid"], event["tid"]], event["cat"], event["name"], begin,
                                         begin + round(event["dur"] * 1000), event.get("args", {})))
        self.rows = {process: {row for (owner, _), row in rows.items() if owner == process} for process in self.processes}

    def find(self, process, category, name=None):
        return [event for event in self.events if (event.process, event.category) == (process, category) and name in (None, event.name)]


def overlap(a, b):
    return max(a.begin, b.begin) < min(a.end, b.end)


def contains(outer, inner):
    return outer.row == inner.row and outer.begin <= inner.begin and inner.end <= outer.end


class Timeline(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "m.json").write_text(json.dumps(MODEL))
        names = ["mesh", "shard", "axis", "rank", "device", "partial", "group", "unit"]
        (self.folder / "a.txt").write_text(" ".join(names[(i * i + i // 3) % 8] for i in range(1500)))

    def run_clm(self, *launcher, status=0, environment=None, **flags):
        words = [str(word) for name, value in {**FLAGS, **flags}.items() for word in (f"--{name}", value)]
        result = subprocess.run([*launcher, RUN_CLM, *words], cwd=self.folder, capture_output=True, text=True, timeout=1500,
                                env={**os.environ, "TESSERA_TRACE_FILE": "trace.json", **(environment or {})})
        self.assertEqual(result.returncode == 0, status == 0, result.stdout[-1000:] + result.stderr[-3000:])
        return result.stderr

    def check_nesting(self, trace):
        """The events of a row are nested or apart."""
        open_events = collections.defaultdict(list)
        for event in sorted(trace.events, key=lambda one: (one.begin, -one.end)):
            stack = open_events[event.process, event.row]
            while stack and stack[-1].end <= event.begin:
                stack.pop()
            self.assertTrue(not stack or contains(stack[-1], event), (stack[-1:], event))
            stack.append(event)

    def test_two_ranks_save_and_evaluate(self):
        self.run_clm(MPIEXEC, "-n", "2", environment={"TESSERA_ASYNC": "1"}, dataloader_num_workers=2, save_steps=2, output_dir="out",
                     eval_strategy="steps", eval_steps=2)
        self.assertEqual(sorted(path.name for path in self.folder.glob("trace*")), ["trace.json"])
        trace = Trace(self.folder / "trace.json")
        host = os.uname().nodename
        self.assertEqual(trace.processes, {1: f"rank 0 on {host}", 2: f"rank 1 on {host}"})
        self.assertEqual(trace.other, {"ranks": 2, "dropped_events": 0, "clock_uncertainty_us": 0})
        self.check_nesting(trace)
        for process in trace.processes:
            self.check_rank(trace, process)
        self.check_both(trace)

    def check_rank(self, trace, process):
        self.assertLessEqual({"main", "tracing", "execution worker", "saver", "loader worker", "loader worker 2"}, trace.rows[process])
        steps = trace.find(process, "step", "train")
        self.assertEqual([step.arguments["step"] for step in steps], [1, 2, 3, 4])
        self.assertTrue(all(a.end <= b.begin for a, b in zip(steps, steps[1:])))
        for step in steps:
            self.assertTrue(any(contains(step, wait) for wait in trace.find(process, "wait", "LoaderWaitTime")))
        runs = trace.find(process, "execute")
        self.assertTrue(all(run.arguments["hash"] for run in runs))
        collectives = trace.find(process, "collective")
        self.assertTrue(all(any(contains(run, one) for run in runs) for one in collectives))
        kinds = {one.name for one in collectives}
        self.assertIn("start", kinds)
        self.assertTrue(any(kind.startswith("all-gather") for kind in kinds), kinds)
        self.assertTrue(any(kind.startswith(("reduce-scatter", "all-reduce")) for kind in kinds), kinds)
        self.assertGreaterEqual(len(trace.find(process, "scope", "evaluate")), 2)
        self.assertEqual(len(trace.find(process, "scope", "save")), 2)
        writes = trace.find(process, "save", "write the file of the rank")
        self.assertEqual([event.row for event in writes], ["saver"] * 2)
        for stage in ("compile", "PartitionTime", "CompileTime", "lower", "schedule", "kernels"):
            self.assertTrue(trace.find(process, "compile", stage), stage)
        self.assertTrue(any("training_log.cpp" in read.name for read in trace.find(process, "read")))

    def check_both(self, trace):
        programs = [trace.find(process, "execute") for process in (1, 2)]
        self.assertEqual([run.name for run in programs[0]], [run.name for run in programs[1]])
        # A program ends only after all ranks have begun it.
        self.assertTrue(all(overlap(a, b) for a, b in zip(*programs)))
        exchanges = [[one for one in trace.find(process, "collective") if "bytes" in one.arguments] for process in (1, 2)]
        orders = [[(one.name, one.arguments["instruction"]) for one in of_rank] for of_rank in exchanges]
        self.assertEqual(orders[0], orders[1])
        self.assertGreater(sum(one.arguments["bytes"] for one in exchanges[0]), 0)
        self.assertTrue(any(overlap(traced, run) for process in (1, 2) for traced in trace.find(process, "trace")
                            for run in trace.find(process, "execute") if run.row == "execution worker"),
                        "no micro-batch was traced while another one ran")

    def test_level_two_on_virtual_ranks(self):
        self.run_clm(virtual_ranks=2, environment={"TESSERA_TRACE_LEVEL": "2"}, max_steps=1)
        trace = Trace(self.folder / "trace.json")
        self.assertEqual(trace.processes, {1: "rank 0", 2: "rank 1"})
        self.check_nesting(trace)
        for process in trace.processes:
            self.assertLessEqual({"dot", "fused"}, {op.arguments["op"] for op in trace.find(process, "op")})

    def test_after_an_error_each_rank_writes_its_own_events(self):
        errors = self.run_clm(MPIEXEC, "-n", "2", status=1, learning_rate="1e30", max_grad_norm=0, max_steps=50, logging_steps=1)
        self.assertIn("the loss is", errors)
        self.assertFalse((self.folder / "trace.json").exists())
        for rank in (0, 1):
            trace = Trace(self.folder / f"trace.json.rank-{rank}")
            self.assertTrue(trace.find(rank + 1, "step", "train"))
            self.check_nesting(trace)

    def test_a_file_that_cannot_be_written_causes_one_warning(self):
        errors = self.run_clm(MPIEXEC, "-n", "2", environment={"TESSERA_TRACE_FILE": "no/such/folder/trace.json"}, max_steps=1)
        self.assertEqual(errors.count("warning: TESSERA_TRACE_FILE: "), 1, errors)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
