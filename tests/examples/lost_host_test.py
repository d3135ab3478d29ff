#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tessera launch on three nodes, of which one loses its network: the job continues on the two others, and later on all.

    TESSERA_TEST_RANKS_OF_NODE=1 TESSERA_TEST_LINK_DOWN=FILE namespaces.sh lost_host_test.py 3 TESSERA RUN_CLM MPIEXEC
"""
import json
import os
import pathlib
import re
import shutil
import signal
import sys
import tempfile

sys.dont_write_bytecode = True
import launch_nodes_test as nodes  # noqa: E402

LINK_DOWN = pathlib.Path(os.environ["TESSERA_TEST_LINK_DOWN"])
PLACE = nodes.WORDS.index("--host")
HOSTS = [entry.split(":")[0] for entry in nodes.WORDS[PLACE + 1].split(",")]


def lose_and_regain_node_1(folder):
    """Runs the job. Returns its exit code and output."""
    log = folder / "log.txt"

    def wait_for_checkpoint(step):
        nodes.wait_for((folder / f"out/checkpoint-{step}/manifest.json").exists, f"checkpoint-{step}")

    job = nodes.start(folder, "--min-ranks", 2, "--host-timeout", 6, TESSERA_COLLECTIVE_TIMEOUT="20", TESSERA_RENAME_DELAY="1000")
    try:
        wait_for_checkpoint(4)
        LINK_DOWN.touch()
        nodes.wait_for(lambda: "restart 1 of" in log.read_text(), "restart", 120)
        LINK_DOWN.unlink()
        wait_for_checkpoint(12)
        os.kill(nodes.wait_for(lambda: nodes.on_node(2, "run_clm", str(folder)), "ranks")[0], signal.SIGKILL)
        code = job.wait(120)
    finally:
        job.kill()
        print(log.read_text())
    return code, log.read_text()


def main():
    LINK_DOWN.unlink(missing_ok=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tessera_lost_host"))
    (folder / "hosts").write_text("".join(f"{host} slots=1\n" for host in HOSTS))
    nodes.WORDS[PLACE:PLACE + 2] = ["--hostfile", str(folder / "hosts")]
    code, text = lose_and_regain_node_1(folder)
    nodes.check(code == 0, f"exit code {code}")
    for pattern in ("waited 20 s in .*, as long as TESSERA_COLLECTIVE_TIMEOUT allows",
                    rf"tessera launch: leaves out host {re.escape(HOSTS[1])}: (no answer within 6 s|cannot connect to .*)\n"
                    r"tessera launch: restart 1 of at most 100 with 2 ranks, from \S*/checkpoint-\d+\n",
                    r"ranks +2 on node0 \(1\), node2 \(1\)\n(.*\n)*tessera launch: restart 2 of at most 100 with 3 ranks, from \S*/checkpoint-\d+\n"
                    r"(.*\n)*ranks +3 on node0 \(1\), node1 \(1\), node2 \(1\)\n"):
        nodes.check(re.search(pattern, text), f"no {pattern}")
    nodes.check(text.count("leaves out host") == 1, "another host is left out")
    nodes.check("has not started the program" not in text, "the end of the ranks is not known")
    nodes.check(len(json.loads((folder / "out/trainer_state.json").read_text())["log_history"]) == nodes.STEPS, "steps are missing")
    nodes.wait_for(lambda: not nodes.processes(str(folder)), "end of all processes")
    shutil.rmtree(folder)
    print("tessera launch continues without a lost host")


main()
