# SPDX-License-Identifier: Apache-2.0
"""Starts the ranks of a job on two hosts of `two_namespaces`, without ssh."""

import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.launching import MPIEXEC
from benchmarks.two_namespaces import INTERFACE

# Where ranks find one another: horovodrun's own, on the first host, until its input ends.
_RENDEZVOUS = """
import sys
from horovod.runner.common.util import hosts
from horovod.runner.http.http_server import RendezvousServer
server = RendezvousServer()
port = server.start()
server.init(hosts.get_host_assignments(hosts.parse_hosts(sys.argv[1]), int(sys.argv[2])))
print(port, flush=True)
sys.stdin.read()
"""


class Job:
    """Processes on two hosts, as a context: at its end none is left.

    Attributes:
      ranks: subprocess.Popen of each, whose standard output is piped.
    """

    def __init__(self, hosts, ranks_of_host, program, environment=None):
        """
        Args:
          hosts: the TwoHosts.
          ranks_of_host: how many on each.
          program: the command line of each rank.
          environment: variables beside this process's.
        """
        self._hosts, self._program = hosts, program
        self._ranks_of_host = ranks_of_host
        self._environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **(environment or {})}
        self.ranks = []

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            stack.callback(self._end)
            port = self._start_rendezvous(stack)
            for host, variables in self._variables(port):
                self.ranks.append(self._start(host, variables))
            self._keep = stack.pop_all()
        return self

    def __exit__(self, *error):
        self._keep.close()

    def wait(self, seconds):
        """[what each rank has printed] when all have ended.

        Raises:
          RuntimeError: one has failed, or they have not ended in time; with what it printed.
        """
        until = time.monotonic() + seconds
        printed = []
        for number, rank in enumerate(self.ranks):
            try:
                output, _ = rank.communicate(timeout=max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise RuntimeError(f"rank {number} runs after {seconds} s") from None
            if rank.returncode:
                raise RuntimeError(f"rank {number}: exit code {rank.returncode}:\n{output[-3000:]}")
            printed.append(output)
        return printed

    def _start_rendezvous(self, stack):
        count = self._ranks_of_host
        hosts = ",".join(f"{name}:{count}" for name in self._hosts.names)
        code = [sys.executable, "-c", _RENDEZVOUS, hosts, str(2 * count)]
        server = subprocess.Popen(
            self._hosts.command(0, code), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        stack.callback(_end, server)
        return int(server.stdout.readline())

    def _variables(self, port):
        """(host, environment) of each rank, as horovodrun has it."""
        from horovod.runner import gloo_run
        from horovod.runner.common.util import hosts

        count = self._ranks_of_host
        asked = ",".join(f"{name}:{count}" for name in self._hosts.names)
        slots = hosts.get_host_assignments(hosts.parse_hosts(asked), 2 * count)
        of_all = gloo_run.create_run_env_vars(self._hosts.addresses[0], [INTERFACE], port)
        for slot in slots:
            variables = {**of_all, **gloo_run.create_slot_env_vars(slot)}
            host = self._hosts.names.index(slot.hostname)
            yield host, {name: str(value) for name, value in variables.items()}

    def _start(self, host, variables):
        return subprocess.Popen(
            self._hosts.command(host, self._program),
            env={**self._environment, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # Ctrl-C is for this process, which ends them
        )

    def _end(self):
        for rank in self.ranks:
            _end(rank)


class JobOfMpi(Job):
    """As Job, by mpiexec.

    Attributes:
      ranks: [subprocess.Popen of mpiexec], which prints what all ranks do.
    """

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            stack.callback(self._end)
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            command = [MPIEXEC, "-launcher", "ssh", "-launcher-exec", self._make_ssh(folder)]
            command += ["-hosts", ",".join(self._hosts.names), "-ppn", str(self._ranks_of_host)]
            command += ["-n", str(2 * self._ranks_of_host), *self._program]
            self._program = command
            self._environment["UCX_TLS"] = "tcp,self"  # else MPICH finds that the hosts are one
            self.ranks.append(self._start(0, {}))
            self._keep = stack.pop_all()
        return self

    def _make_ssh(self, folder):
        """A program in the place of ssh: `program -x HOST COMMAND`."""
        path = Path(folder, "ssh")
        cases = [
            f'{name}) exec {shlex.join(self._hosts.command(host, ["sh", "-c"]))} "$*" ;;'
            for host, name in enumerate(self._hosts.names)
        ]
        path.write_text(
            "\n".join(["#!/bin/sh", "host=$2; shift 2", "case $host in", *cases, "esac"])
        )
        path.chmod(0o755)
        return str(path)


def _end(process):
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
