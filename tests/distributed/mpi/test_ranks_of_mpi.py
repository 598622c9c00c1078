# SPDX-License-Identifier: Apache-2.0
"""Ranks that mpiexec starts, in scripts without Horovod, give the numbers of one process."""

import functools
import os

import numpy as np
import pytest

from tests.distributed.launch import (
    MPIEXEC_VARIABLE,
    reports,
    run_ranks,
    run_ranks_of_mpi,
    why_no_mpi,
)

pytestmark = pytest.mark.skipif(why_no_mpi() is not None, reason=why_no_mpi() or "")

TOLERANCE = dict(rtol=1e-5, atol=1e-6)
EAGER = {"SOK_TEST_EAGER": "1"}
CARRIERS = {
    2: {"SOK_SHARED_MEMORY": 0, "SOK_TEST_HOSTS": 1},
    4: {"SOK_TEST_HOSTS": 2},  # between hosts
}
CARRIED = {2: "go through MPI", 4: "go through shared memory and MPI"}


@functools.cache
def launched(worker, num_ranks):
    environment = EAGER if worker in ("mpi.tapes", "mpi.hvd_script") else {}
    if num_ranks == 1:
        return run_ranks(worker, 1, environment=environment)
    carriers = {**CARRIERS[num_ranks], **environment}
    return run_ranks_of_mpi(worker, num_ranks, environment=carriers, timeout=200)


def seen(worker, num_ranks):
    return reports(launched(worker, num_ranks))


def joined(rows):
    """Those of all ranks, none twice."""
    of_all = {key: row for of_rank in rows for key, row in of_rank.items()}
    assert len(of_all) == sum(map(len, rows))
    return of_all


def assert_same_rows(ranks, alone, what="rows"):
    ours = joined([rank[what] for rank in ranks])
    assert ours.keys() == alone.keys()
    for key, row in ours.items():
        np.testing.assert_allclose(row, alone[key], **TOLERANCE)


@pytest.mark.parametrize("num_ranks", [2, pytest.param(4, marks=pytest.mark.thorough)])
class TestLayers:
    def test_ranks(self, num_ranks):
        ranks = seen("mpi.layers", num_ranks)
        numbers, sizes, of_host = zip(*(rank["ranks"] for rank in ranks))
        assert sizes == (num_ranks,) * num_ranks
        assert list(numbers) == sorted(of_host) == list(range(num_ranks))
        assert all(rank["libraries"] == {"mpi4py"} for rank in ranks)
        assert "mpi4py" not in seen("mpi.layers", 1)[0]["libraries"]

    def test_messages_go_by_mpi(self, num_ranks):
        for rank in launched("mpi.layers", num_ranks):
            assert CARRIED[num_ranks] in rank.output, rank.output

    def test_training_equals_one_process(self, num_ranks):
        (alone,) = seen("mpi.layers", 1)
        for rank in seen("mpi.layers", num_ranks):
            for what in ("losses", "dense"):
                np.testing.assert_allclose(rank[what], alone[what], **TOLERANCE)
        assert_same_rows(seen("mpi.layers", num_ranks), alone["rows"])

    def test_a_checkpoint_has_the_rows_of_all_ranks(self, num_ranks):
        ranks = seen("mpi.layers", num_ranks)
        assert_same_rows(ranks, joined([rank["rows"] for rank in ranks]), "restored")


@pytest.mark.thorough
def test_tape_and_optimizer_of_distributed_embeddings_equal_one_process():
    (alone,), ranks = seen("mpi.tapes", 1), seen("mpi.tapes", 2)
    mean = np.mean([rank["losses"] for rank in ranks], axis=0)
    np.testing.assert_allclose(mean, alone["losses"], **TOLERANCE)
    for rank in ranks:
        np.testing.assert_allclose(rank["dense"], alone["dense"], **TOLERANCE)
        for ours, theirs in zip(rank["rows"], alone["rows"]):
            np.testing.assert_allclose(ours, theirs, **TOLERANCE)
        assert "DistributedOptimizer(gradient_predivide_factor=2.0) needs" in rank["refused"]
    assert [rank["fitted"] for rank in ranks] == [[[[1.0], [1.0]], [0.0]], [[[1.0], [1.0]], [1.0]]]


@pytest.mark.thorough
def test_deeprecs_collective_strategy_equals_one_process():
    (alone,), ranks = seen("mpi.strategies", 1), seen("mpi.strategies", 2)
    mean = np.mean([rank["losses"] for rank in ranks], axis=0)
    np.testing.assert_allclose(mean, alone["losses"], **TOLERANCE)
    assert alone["ranks"] == (0, 1, True)
    for number, rank in enumerate(ranks):
        np.testing.assert_allclose(rank["dense"], alone["dense"], **TOLERANCE)
        assert rank["ranks"] == (number, 2, True)
    assert_same_rows(ranks, alone["rows"])


@pytest.mark.thorough
@pytest.mark.skipif(MPIEXEC_VARIABLE in os.environ, reason="an option of MPICH's mpiexec")
def test_a_killed_rank_is_named_where_mpiexec_leaves_the_others_alive():
    environment = {"SOK_STALL_TIMEOUT_SECONDS": 4, "SOK_SHARED_MEMORY": 0}
    ranks = run_ranks_of_mpi(
        "failures.failures",
        2,
        "kill",
        environment=environment,
        options=["-disable-auto-cleanup"],
        timeout=200,
    )
    error = ranks[0].report["kill"]["error"]  # mpiexec ends the job when this rank has ended
    assert "lost rank 1: ended or stopped; the process of rank 1 has ended" in error
    assert "exchanges between ranks have ended: lost rank 1" in ranks[0].output


@pytest.mark.thorough
def test_a_rank_that_does_not_connect():
    environment = {"SOK_STALL_TIMEOUT_SECONDS": 2}
    ranks = run_ranks_of_mpi("mpi.late", 2, environment=environment, timeout=200)
    (seen, _) = [rank.report for rank in ranks]
    assert "waited 2 s (SOK_STALL_TIMEOUT_SECONDS) for rank 1 to connect" in seen["error"]
    assert seen["seconds"] < 60


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["graph", "eager"])
def test_a_script_with_horovods_names_equals_one_process(how):
    (alone,) = [rank[how] for rank in seen("mpi.hvd_script", 1)]
    ranks = [rank[how] for rank in seen("mpi.hvd_script", 2)]
    mean = np.mean([rank["losses"] for rank in ranks], axis=0)
    np.testing.assert_allclose(mean, alone["losses"], **TOLERANCE)
    for rank in ranks:
        np.testing.assert_allclose(rank["dense"], alone["dense"], **TOLERANCE)
    assert_same_rows(ranks, alone["rows"])


@pytest.mark.thorough
@pytest.mark.parametrize("num_ranks", [1, 2])
def test_what_stands_in_for_horovod(num_ranks):
    numbers = [float(rank + 1) for rank in range(num_ranks)]
    for number, rank in enumerate(seen("mpi.hvd_script", num_ranks)):
        to_this_rank = [float(other * num_ranks + number) for other in range(num_ranks)]
        assert rank["file"] is None
        assert rank["ranks"] == (number, num_ranks, True)
        assert rank["collectives"] == {
            "sum": [sum(numbers)],
            "mean": [sum(numbers) / num_ranks],
            "largest": [numbers[-1]],
            "all": numbers,
            "first": [1.0],
            "to each": to_this_rank,
            "to each, split": to_this_rank,
        }
        size, other, option, optimizer = rank["errors"]
        assert "ValueError: call hvd.init() before hvd.size" in size
        assert "AttributeError: horovod.tensorflow.ProcessSet needs Horovod" in other
        assert "hvd.allreduce(prescale_factor=2.0) needs Horovod" in option
        assert num_ranks == 1 or "DistributedOptimizer of object needs Horovod" in optimizer
