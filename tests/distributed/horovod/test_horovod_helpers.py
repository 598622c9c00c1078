# SPDX-License-Identifier: Apache-2.0
"""Horovod's broadcasts and optimizer wrapper: several ranks give what one process does."""

import functools

import numpy as np
import pytest

from tests.distributed.launch import reports, run_ranks

pytestmark = pytest.mark.thorough

TOLERANCE = dict(rtol=1e-5, atol=1e-6)
SCRIPTS = [
    "minimize with sgd",
    "minimize with adagrad",
    "minimize with adam",
    "minimize with lazy adam",
    "op=Sum with adagrad",
    "op=Sum with lazy adam",
    "hooks",
    "wrapped before there were tables",
    "wrapped in groups before there were tables",
    "by hand",
    "passes of a table and others",
    "passes of a table",
    "passes of a filtered table",
]


@functools.cache
def launched(num_ranks):
    """One launch runs all scripts."""
    return run_ranks("horovod.helpers", num_ranks, timeout=150)


@pytest.mark.parametrize("script", SCRIPTS)
def test_two_ranks_equal_one(script):
    (alone,) = reports(launched(1))
    ranks = [rank.get(script) for rank in reports(launched(2))]
    if ranks[0] is None:
        pytest.skip("this TensorFlow has no session hooks for Horovod")
    for dense, _ in ranks:
        for ours, expected in zip(dense, alone[script][0]):
            np.testing.assert_allclose(ours, expected, **TOLERANCE)
    for table, expected_rows in enumerate(alone[script][1]):
        rows = {key: row for _, tables in ranks for key, row in tables[table].items()}
        assert rows.keys() == expected_rows.keys()
        for key, row in rows.items():
            np.testing.assert_allclose(row, expected_rows[key], **TOLERANCE)


def test_passes_of_a_table_that_evicts_are_refused():
    for rank in reports(launched(2)):
        assert "backward_passes_per_step=2 keeps gradients of the table table" in rank["evicts"]


@pytest.mark.parametrize("how", ["global variables", "variables", "in place"])
def test_broadcast_changes_dense_variables_only(how):
    ranks = [rank[f"broadcast {how}"] for rank in reports(launched(2))]
    for dense, _ in ranks[1:]:
        for ours, root in zip(dense, ranks[0][0]):
            np.testing.assert_array_equal(ours, root)
    for tables in zip(*[rank[1] for rank in ranks]):  # the worker has compared them with before
        assert sum(map(len, tables)) == len(set().union(*tables))


def test_ranks_replace_at_most_31_functions_at_once():
    assert [rank["changes"] <= 31 for rank in reports(launched(2))] == [True, True]


def test_an_optimizer_from_before_tables_that_adds_up_is_refused():
    for rank in reports(launched(2)):
        assert "make hvd.DistributedOptimizer after the first table" in rank["adds up"]
