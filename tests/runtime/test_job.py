# SPDX-License-Identifier: Apache-2.0
"""Whose ranks a process is one of: Horovod's, MPI's, or none."""

import sys
import textwrap
import types

import pytest

from sok_compat.ranks import current_job, launched
from sok_compat.ranks.current_job import active_job, start_job
from sok_compat.ranks.job import Job
from sok_compat.ranks.mpi import library
from tests.support.processes.subprocess_python import run_python

VARIABLES = ("HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_SIZE", *sum(launched.LAUNCHERS, ()))
RANK_OF_2 = {"PMI_SIZE": "2", "PMI_RANK": "0"}


@pytest.fixture
def process(monkeypatch):
    """Sets what this process looks like."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name in [name for name in sys.modules if name.split(".")[0] == "horovod"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(current_job, "_mpi_job", lambda: "ranks of MPI")
    library.is_usable.cache_clear()

    def look_like(environment, horovod_size=None, has_mpi4py=True):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(library.importlib.util, "find_spec", lambda name: has_mpi4py or None)
        if horovod_size is not None:
            horovod = types.SimpleNamespace(is_initialized=lambda: True, size=lambda: horovod_size)
            vars(horovod).update(Average=0, Sum=1, Min=3, Max=4)
            monkeypatch.setitem(sys.modules, "horovod", horovod)
            monkeypatch.setitem(sys.modules, "horovod.tensorflow", horovod)

    yield look_like
    library.is_usable.cache_clear()


@pytest.mark.parametrize("names", launched.LAUNCHERS)
def test_ranks_that_mpi_started(process, names):
    process(dict(zip(names, "21")))
    assert active_job() == start_job("this") == "ranks of MPI"
    assert (launched.mpi_size(), launched.mpi_rank()) == (2, 1)


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"PMI_SIZE": "1", "PMI_RANK": "0"},
        {**RANK_OF_2, "HOROVOD_GLOO_RENDEZVOUS_ADDR": "host"},
        {"SLURM_STEP_NUM_TASKS": "2"},  # sh, started by srun without MPI
    ],
)
def test_ranks_that_it_did_not_start(process, environment):
    process(environment)
    assert type(active_job()) is Job


def test_without_mpi4py_a_rank_of_mpi_is_alone_and_says_so(process, caplog):
    process({**RANK_OF_2, "PMI_SIZE": "3"}, has_mpi4py=False)
    assert type(active_job()) is Job
    assert "one of 3 ranks, but mpi4py is not installed" in caplog.text


def test_horovod_comes_first(process):
    process(RANK_OF_2, horovod_size=2)
    for job in (active_job(), start_job("this")):
        assert job.module is sys.modules["horovod.tensorflow"]


def test_a_horovod_that_does_not_know_of_mpi(process):
    process(RANK_OF_2, horovod_size=1)
    with pytest.raises(RuntimeError, match="MPI started 2 ranks, but Horovod knows only this one"):
        active_job()


@pytest.mark.parametrize(
    "initialize",
    [
        "hvd.init()",
        "import tensorflow as tf; tf.config.experimental.enable_distributed_strategy('collective')",
        "from tensorflow.python.distribute import group_embedding_collective_strategy as strategies"
        "; strategies.CollectiveStrategy()",
        "import sok_compat.sparse_operation_kit as sok; sok.init()",
    ],
)
def test_the_launcher_stands_in_for_horovod(tmp_path, initialize):
    """Nothing of TensorFlow is imported before the script asks; a Horovod that is there stays."""
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "assert 'tensorflow' not in sys.modules\n"
        "import horovod.tensorflow as hvd\n"
        "assert not hvd.is_initialized()\n"
        f"{initialize}\n"
        "print(hvd.rank(), hvd.size(), hvd.local_rank(), type(hvd).__name__)\n"
    )
    run = f"from sok_compat.run.program import main; main([{str(script)!r}])"
    hide = """
    from importlib.machinery import PathFinder
    found = PathFinder.find_spec
    PathFinder.find_spec = staticmethod(
        lambda name, *args: None if name.startswith("horovod") else found(name, *args)
    )
    """
    assert run_python(textwrap.dedent(hide) + run, is_fresh=True) == "0 1 0 StandIn"
