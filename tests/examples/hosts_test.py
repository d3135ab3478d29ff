#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tessera hosts on two hosts of which a launch agent plays one, tessera launch on the hosts of a job of Slurm or PBS, and with
more ranks than slots.

    hosts_test.py TESSERA MPIEXEC
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TESSERA, MPIEXEC = sys.argv[1:3]
SCHEDULERS = ("SLURM_", "PBS_", "LSB_", "PE_HOSTFILE")


class HostsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tessera_hosts_test")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        # Runs the commands of the host "other" on this machine, and fails for the host "lost", as ssh does.
        agent = self.script("agent", 'if [ $1 = lost ]; then echo "no route" >&2; exit 255; fi; export PLAYED=$1; shift; exec sh -c "$*"')
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(SCHEDULERS)}
        self.environment["OMPI_MCA_plm_rsh_agent"] = agent

    def script(self, name, text):
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path)

    def run_tessera(self, *words, **variables):
        return subprocess.run([TESSERA, *map(str, words)], capture_output=True, text=True, timeout=300, cwd=self.folder,
                              env={**self.environment, **{name: str(value) for name, value in variables.items()}})

    def test_a_command_runs_once_on_every_host(self):
        (self.folder / "list").write_text("localhost slots=4\nother slots=4\n")
        command = ["sh", "-c", 'echo "in $(pwd) on ${PLAYED-this}"; echo "an error" >&2; printf "no end of line"']
        for options in (["--host", "localhost:2,other:2"], ["--hostfile", "list"]):
            result = self.run_tessera("hosts", *options, "--", *command)
            self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
            lines = result.stdout.splitlines()
            for host, played in (("localhost", "this"), ("other", "other")):
                self.assertEqual([line for line in lines if line.startswith(host)],
                                 [f"{host}: in {self.folder} on {played}", f"{host}: an error", f"{host}: no end of line"])
            self.assertEqual(len(lines), 6)

    def test_words_reach_the_command_as_they_are(self):
        words = ["a b", "it's", "$HOME", "*", "", "--host", '"']
        result = self.run_tessera("hosts", "--host", "localhost,other", "--", "printf", "<%s>", *words)
        expected = "".join(f"<{word}>" for word in words)
        self.assertEqual(sorted(result.stdout.splitlines()), [f"localhost: {expected}", f"other: {expected}"])

    def test_the_exit_code_is_that_of_the_first_host_that_failed(self):
        result = self.run_tessera("hosts", "--host", "localhost,other,lost", "--", "sh", "-c", 'if [ "$PLAYED" ]; then exit 7; fi')
        self.assertEqual(result.returncode, 7, result.stderr)
        self.assertEqual(result.stdout, "lost: no route\n")
        self.assertEqual(result.stderr, "tessera hosts: the command on host other ended with exit code 7\n"
                                        "tessera hosts: the command on host lost ended with exit code 255\n")
        result = self.run_tessera("hosts", "--host", "localhost", "--", "sh", "-c", "kill -KILL $$")
        self.assertEqual(result.returncode, 128 + 9, result.stderr)
        self.assertEqual(result.stderr, "tessera hosts: the command on host localhost was killed by SIGKILL\n")

    def test_errors_of_the_command_line(self):
        for words, text in ((["--", "true"], "no host is given: --host LIST or --hostfile FILE, if there is no job of Slurm or PBS"),
                            (["--host", "localhost"], "an input is missing: the command to run"),
                            (["--hosts", "a", "true"], 'did you mean "--host"')):
            result = self.run_tessera("hosts", *words)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(text, result.stderr)
        result = self.run_tessera("hosts", "--hostfile", "absent", "--", "true")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("--hostfile: ", result.stderr)

    def test_the_hosts_and_ranks_are_those_of_the_job_of_pbs(self):
        nodes = self.folder / "nodes"
        nodes.write_text("localhost\nlocalhost\nother\n")
        rank = self.script("rank", 'echo "rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE"')
        result = self.run_tessera("launch", "--launcher", MPIEXEC, "--", rank, PBS_NODEFILE=nodes)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("tessera launch: 3 ranks on 2 hosts of the PBS job: localhost (2), other (1)\n", result.stderr)
        self.assertEqual(sorted(result.stdout.splitlines()), [f"rank {i} of 3" for i in range(3)])
        result = self.run_tessera("hosts", "--", "echo", "once", PBS_NODEFILE=nodes)
        self.assertEqual(sorted(result.stdout.splitlines()), ["localhost: once", "other: once"])

    def test_mpirun_gets_the_hosts_of_the_job_of_slurm(self):
        """The launcher prints its options: a real mpirun would start its daemons with srun."""
        launcher = self.script("mpirun", 'while [ $# -gt 0 ]; do if [ "$1" = -np ] || [ "$1" = --host ]; then echo "$1 $2"; fi; shift; done')
        slurm = {"SLURM_JOB_ID": 7, "SLURM_JOB_NODELIST": "node[01-02]", "SLURM_TASKS_PER_NODE": "4(x2)"}
        result = self.run_tessera("launch", "--launcher", launcher, "--", "true", **slurm)
        self.assertEqual(result.stdout, "-np 8\n--host node01:4,node02:4\n", result.stderr)
        self.assertIn("tessera launch: 8 ranks on 2 hosts of the Slurm job: node01 (4), node02 (4)\n", result.stderr)
        result = self.run_tessera("launch", "-np", 2, "--launcher", launcher, "--host", "a:2", "--", "true", **slurm)
        self.assertEqual(result.stdout, "-np 2\n--host a:2\n", result.stderr)
        self.assertNotIn("Slurm job", result.stderr)

    def launch(self, *words):
        return self.run_tessera("launch", "--launcher", MPIEXEC, *words)

    def test_more_ranks_than_cores_start_on_this_host(self):
        self.environment.pop("OMPI_MCA_rmaps_base_oversubscribe", None)
        ranks = os.cpu_count() + 1
        result = self.launch("-np", ranks, "--", "echo", "started")
        self.assertEqual((result.returncode, result.stdout), (0, ranks * "started\n"), result.stderr)
        self.assertRegex(result.stderr, rf"tessera launch: {ranks} ranks on \d+ cores? of this host: passes --oversubscribe to \S+\n")

    def test_mpirun_tells_why_it_starts_nothing(self):
        self.environment.pop("OMPI_MCA_rmaps_base_oversubscribe", None)
        result = self.launch("-np", 3, "--host", "localhost:2", "--", "touch", "started")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertFalse((self.folder / "started").exists())
        places = [result.stderr.find(text) for text in ("There are not enough slots available",
                                                        "tessera launch: --launcher-args --oversubscribe allows more ranks than there are slots\n",
                                                        "has not started the program; see its message above\n")]
        self.assertTrue(0 <= places[0] < places[1] < places[2], result.stderr)
        allowed = self.launch("-np", 3, "--host", "localhost:2", "--launcher-args", "--oversubscribe", "--", "true")
        self.assertEqual(allowed.returncode, 0, allowed.stderr)

    def test_a_launcher_without_a_message_is_not_said_to_have_one(self):
        result = self.run_tessera("launch", "-np", 1, "--launcher", self.script("mpirun", "exit 1"), "--", "true")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, r"does not start again: \S+ has not started the program and has printed no message\n$")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
