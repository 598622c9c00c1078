# SPDX-License-Identifier: Apache-2.0
"""Runs a worker script as several ranks, as horovodrun does, and brings back what each reported.

Ranks are forks of a process with TensorFlow imported, and horovodrun is not started: together that
takes more time than most workers. tests/examples starts it.
"""

import dataclasses
import functools
import importlib.metadata
import importlib.util
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Optional

from tests.support.processes.forks import QUIET, Program, fork_server

FOLDER_VARIABLE = "SOK_TEST_FOLDER"

# How often Horovod's thread wakes up: by default each millisecond, a third of a processor a rank.
CYCLE_MILLISECONDS = 10

# Keeps what the worker's names stand for until the process ends, as a script does.
_CODE = """
import runpy
names = runpy.run_module("tests.distributed.workers.{}", run_name="__main__", alter_sys=True)
"""


# That of the package mpich; or another MPI's command, which takes -n: "srun --mpi=pmi2".
MPIEXEC_VARIABLE = "SOK_TEST_MPIEXEC"
MPIEXEC = os.environ.get(MPIEXEC_VARIABLE, str(Path(sys.executable).parent / "mpiexec")).split()
_OF_MPI = """
rank=${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-$PMIX_RANK}}
exec > "$SOK_TEST_FOLDER/$rank.output" 2>&1
"$0" -c "$@"
status=$?
/bin/date +%s.%N > "$SOK_TEST_FOLDER/$rank.ended"
echo $status > "$SOK_TEST_FOLDER/$rank.status"
exit $status
"""


@dataclasses.dataclass(frozen=True)
class Rank:
    """What became of one rank."""

    exit_code: Optional[int]  # None: it had not ended when the time was over
    output: str
    report: Any  # what the worker gave to `report`; None: nothing
    ended: Optional[float]  # when, as time.time()


@functools.cache
def _holder(name):
    return tempfile.TemporaryDirectory(suffix=name)


def folder_of_tests(name):
    """A folder for what the tests of a file share, for as long as this process."""
    return _holder(name).name


def has_horovod():
    """Whether several ranks can be run."""
    return importlib.util.find_spec("horovod") is not None


def why_no_mpi():
    """Why mpiexec cannot start ranks; None if it can."""
    if MPIEXEC_VARIABLE in os.environ:
        return None
    missing = [name for name in ("mpi4py", "mpich") if not _is_installed(name)]
    return f"{' and '.join(missing)} not installed: pip install mpich mpi4py" if missing else None


def run_ranks_of_mpi(worker, num_ranks, *arguments, timeout=100, environment=None, options=()):
    """As run_ranks, by mpiexec, with Horovod not imported.

    Args:
      options: of mpiexec.
    """
    with tempfile.TemporaryDirectory() as folder:
        of_all = {**os.environ, **QUIET, FOLDER_VARIABLE: folder, **(environment or {})}
        command = [*MPIEXEC, *options, "-n", str(num_ranks)]
        command += ["/bin/sh", "-c", _OF_MPI, sys.executable]
        command += [_CODE.format(worker), *map(str, arguments)]
        variables = {name: str(value) for name, value in of_all.items()}
        process = subprocess.Popen(
            command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.terminate()  # and with it all ranks
            process.communicate()
        return [_read_rank_of_mpi(Path(folder), rank) for rank in range(num_ranks)]


def run_ranks(worker, num_ranks, *arguments, timeout=100, environment=None):
    """Runs a script of tests/distributed/workers on each rank; a single one without Horovod.

    Args:
      worker: the script as a module below that folder: "failures.connecting".
      num_ranks: how many processes.
      *arguments: of the script.
      timeout: seconds, after which all ranks are killed.
      environment: variables for the ranks.

    Returns:
      [Rank], one for each.
    """
    with tempfile.TemporaryDirectory() as folder:
        of_all = {**os.environ, **QUIET, FOLDER_VARIABLE: folder, **(environment or {})}
        programs = []
        for rank, of_rank in enumerate(_horovod_variables(num_ranks)):
            variables = {name: str(value) for name, value in {**of_all, **of_rank}.items()}
            output = f"{folder}/{rank}.output"
            code = _CODE.format(worker)
            programs.append(Program(code, variables, output, output, tuple(map(str, arguments))))
        ended = fork_server().run(programs, timeout)
        return [_read_rank(Path(folder), *rank) for rank in enumerate(ended)]


def launched_once(launch):
    """As functools.cache, and keeps the error of a failing launch for all its tests: each takes
    minutes."""

    @functools.cache
    def outcome(*arguments):
        try:
            return launch(*arguments), None
        except Exception as error:
            return None, error

    @functools.wraps(launch)
    def result(*arguments):
        value, error = outcome(*arguments)
        if error is not None:
            raise error
        return value

    return result


def reports(ranks):
    """What all ranks reported; fails with their output if one has failed."""
    failed = [
        f"rank {number} of {len(ranks)}, exit code {rank.exit_code}:\n{rank.output}"
        for number, rank in enumerate(ranks)
        if rank.exit_code != 0 or rank.report is None
    ]
    assert not failed, "\n".join(failed)
    return [rank.report for rank in ranks]


def _horovod_variables(num_ranks):
    """[rank] of the environment variables that horovodrun sets; none for a single one."""
    if num_ranks == 1:
        return [{}]
    from horovod.runner import gloo_run
    from horovod.runner.common.util import hosts
    from horovod.runner.util import network

    slots = hosts.get_host_assignments(hosts.parse_hosts(f"localhost:{num_ranks}"), num_ranks)
    server, port = _rendezvous()
    server.init(slots)
    interfaces = network.get_local_intfs()
    address = network.get_driver_ip(interfaces)
    of_all = gloo_run.create_run_env_vars(address, interfaces, port)
    of_all["HOROVOD_CYCLE_TIME"] = CYCLE_MILLISECONDS
    return [{**of_all, **gloo_run.create_slot_env_vars(slot)} for slot in slots]


@functools.cache
def _rendezvous():
    """(where ranks find one another, its port): a server in a thread of this process."""
    from horovod.runner.http.http_server import RendezvousServer

    server = RendezvousServer()
    return server, server.start()


def _is_installed(package):
    """Whether pip has installed it: mpich has no module."""
    try:
        importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _read_rank_of_mpi(folder, rank):
    status, when = folder / f"{rank}.status", folder / f"{rank}.ended"
    has_ended = status.exists() and status.read_text().strip()
    report = folder / f"{rank}.report"
    output = folder / f"{rank}.output"
    return Rank(
        exit_code=int(status.read_text()) if has_ended else None,
        output=output.read_text(errors="replace") if output.exists() else "",
        report=pickle.loads(report.read_bytes()) if report.exists() else None,
        ended=float(when.read_text()) if has_ended else None,
    )


def _read_rank(folder, rank, ended):
    report = folder / f"{rank}.report"
    return Rank(
        exit_code=ended and ended.exit_code,
        output=(folder / f"{rank}.output").read_text(errors="replace"),
        report=pickle.loads(report.read_bytes()) if report.exists() else None,
        ended=ended and ended.time,
    )
