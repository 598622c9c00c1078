# SPDX-License-Identifier: Apache-2.0
"""Sessions and estimators without a Scaffold that stop and resume, on any number of ranks."""

import functools
import tempfile

import numpy as np
import pytest
import tensorflow as tf

from tests.distributed.launch import reports, run_ranks

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(
        not hasattr(tf, "estimator"), reason="this TensorFlow has no session hooks for Horovod"
    ),
]
TOLERANCE = dict(rtol=1e-5, atol=1e-6)
MONITORED = [f"monitored, {name}" for name in ("sgd", "adagrad", "plugin")]
ESTIMATORS = ["estimator, sgd", "estimator, adagrad"]
RANKS = [1, 2, 4]
SCRIPTS = [*MONITORED, *ESTIMATORS]
SCRIPTS_OF = {1: SCRIPTS, 2: SCRIPTS[1:3] + SCRIPTS[4:], 4: ["monitored, sgd", "estimator, sgd"]}


def with_ranks(scripts):
    return [(script, n) for n in RANKS for script in scripts if script in SCRIPTS_OF[n]]


@functools.cache
def launched(num_ranks):
    """One launch runs all scripts."""
    with tempfile.TemporaryDirectory() as folder:
        return run_ranks(
            "checkpoints.resuming", num_ranks, folder, *SCRIPTS_OF[num_ranks], timeout=500
        )


def seen(num_ranks, script):
    return [rank[script] for rank in reports(launched(num_ranks))]


def joined(ranks):
    """(losses, dense, rows) of one process from those of all ranks."""
    losses = np.sum([losses for losses, *_ in ranks], axis=0)
    for _, dense, _ in ranks:
        np.testing.assert_array_equal(dense, ranks[0][1])
    rows = {key: row for *_, table in ranks for key, row in table.items()}
    assert len(rows) == sum(len(table) for *_, table in ranks)
    return losses, ranks[0][1], rows


def assert_equal(actual, expected):
    for ours, theirs in zip(actual[:2], expected[:2]):
        np.testing.assert_allclose(ours, theirs, **TOLERANCE)
    assert actual[2].keys() == expected[2].keys()
    for key, row in actual[2].items():
        np.testing.assert_allclose(row, expected[2][key], **TOLERANCE)


@pytest.mark.parametrize("script, num_ranks", with_ranks(MONITORED))
def test_monitored_session_resumes(script, num_ranks):
    """With all rows and slots, whichever ranks were given the folder."""
    parts = [joined(ranks) for ranks in zip(*seen(num_ranks, script))]
    for ours, expected in zip(parts[:2], seen(1, script)[0]):
        assert_equal(ours, expected)
    (whole, *of_whole), _, (after, *of_resumed) = parts
    assert len(after) == len(whole) // 2
    assert_equal((after, *of_resumed), (whole[len(after) :], *of_whole))


@pytest.mark.parametrize("script, num_ranks", with_ranks(ESTIMATORS))
def test_estimator_trains_evaluates_predicts_and_trains_again(script, num_ranks):
    ranks, (alone,) = seen(num_ranks, script), seen(1, script)
    for what in ("whole", "halfway", "end"):
        logits = np.stack([rank[what] for rank in ranks], axis=1).reshape(-1)
        np.testing.assert_allclose(logits, alone[what], **TOLERANCE)
    np.testing.assert_array_equal(alone["end"], alone["whole"])
    for rank in ranks:
        assert rank["evaluated"]["global_step"] == 2 * rank["halfway evaluated"]["global_step"]
        assert rank["evaluated"]["loss"] < rank["halfway evaluated"]["loss"]


@pytest.mark.parametrize("num_ranks", RANKS)
def test_nothing_is_warned_of(num_ranks):
    assert not any(seen(num_ranks, "warnings"))
