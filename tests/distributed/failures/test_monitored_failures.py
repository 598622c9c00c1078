# SPDX-License-Identifier: Apache-2.0
"""MonitoredTrainingSession and estimators pass a rank's failure on, once, as tf.Session does."""

import functools

import pytest
import tensorflow as tf

from tests.distributed.launch import reports, run_ranks

STALL_SECONDS = 8
ENVIRONMENT = {"SOK_STALL_TIMEOUT_SECONDS": STALL_SECONDS}
STALLED = ["waited 8 s for rank", "SOK_STALL_TIMEOUT_SECONDS", "same number of steps"]
DATA_ENDED = ["is past it", "the end of its data, or"]
SCRIPTS = {  # what ranks but the last say, and what the last says
    "uneven": (DATA_ENDED, STALLED),
    "evaluation on rank 0 alone": (STALLED, STALLED),
    "check": (["exchange ", ": rank "], None),
    "data": (DATA_ENDED, None),
    "estimator": (DATA_ENDED, []),
    "fewer, saved": (
        ["has ended its session", "same number of steps"],
        ["this rank has ended its session, and rank", "waits for"],
    ),
    "fewer": (["has left", "same number of steps"], []),
}
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(
        not hasattr(tf, "estimator"), reason="this TensorFlow has no session hooks for Horovod"
    ),
]


@functools.cache
def launched(num_ranks):
    """One launch runs all scripts, and goes on after each failure."""
    return run_ranks(
        "failures.monitored_failures", num_ranks, *SCRIPTS, timeout=400, environment=ENVIRONMENT
    )


@pytest.mark.parametrize("num_ranks", [1, 2, 4])
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_failure_reaches_the_script(name, num_ranks):
    for number, rank in enumerate(reports(launched(num_ranks))):
        seen = rank[name]
        assert seen["sessions"] == 1
        assert seen["seconds"] < STALL_SECONDS + 60  # not for ever, on a slow machine
        is_last = number == num_ranks - 1
        words = SCRIPTS[name][is_last] if num_ranks > 1 else []
        if words is None:
            assert seen["kind"] == "InvalidArgumentError" and "own check" in seen["error"]
        elif words:
            assert seen["kind"] == "UnknownError", seen["error"]
            assert all(word in seen["error"] for word in words), seen["error"]
        else:
            assert seen["error"] is None
