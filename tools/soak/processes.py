# SPDX-License-Identifier: Apache-2.0
"""Runs a command with limits for time and memory."""
import dataclasses
import os
import re
import resource
import shlex
import signal
import subprocess

MPI_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
}


@dataclasses.dataclass
class Outcome:
    code: int  # negative: the signal that ended it
    out: str
    err: str
    timed_out: bool = False

    def summary(self):
        """Returns the first line of the error, without the numbers and names that differ between cases."""
        lines = [line for line in self.err.splitlines() if line.strip()]
        first = lines[0] if lines else ""
        return re.sub(r"%[\w.-]+|\b[a-z]+\d*\[[^\]]*\]|\d+|/\S+", "_", first)[:100]


def shown(command):
    return shlex.join(map(str, command))


def run(command, seconds, gigabytes=4, stdin=None):
    """Runs the command in a separate process group, which is killed after the time limit."""
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (gigabytes << 30, gigabytes << 30))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    with subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limit, start_new_session=True,
            env={**os.environ, **MPI_ENVIRONMENT}) as process:
        timed_out = False
        try:
            out, err = process.communicate(stdin, timeout=seconds)
        except subprocess.TimeoutExpired:
            timed_out = True
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
    return Outcome(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"), timed_out)
