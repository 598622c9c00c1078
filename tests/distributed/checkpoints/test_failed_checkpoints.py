# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of two ranks where something goes wrong: all ranks say so, and nothing is lost."""

import random
import signal
import tempfile
import threading
from pathlib import Path

import pytest
import tensorflow as tf

from tests.distributed.launch import launched_once, reports, run_ranks
from tests.support.processes.killed_children import kill_rank_in
from tests.support.saves.killed_saves import saved_number
from tests.support.seen_errors import assert_error_is

STALL_SECONDS = 8
MOST_SECONDS = 0.15  # from the first checkpoint to the end of a rank


@launched_once
def launched():
    """(the folder, [what each rank has seen])"""
    holder = tempfile.TemporaryDirectory()
    launched.holder = holder  # for as long as this process
    environment = {"SOK_STALL_TIMEOUT_SECONDS": str(STALL_SECONDS)}
    return Path(holder.name), reports(
        run_ranks("checkpoints.failed_checkpoints", 2, holder.name, "fail", environment=environment)
    )


ALONE = f"waited {STALL_SECONDS} s for rank 1|rank 1 has left"
FAILURES = {  # {what: (error, words) of each rank}
    "other paths": [("InvalidArgumentError", "rank 0 .*/of 0/model, rank 1 .*/of 1/model")] * 2,
    "own disks": [
        ("FailedPreconditionError", "rank 1 has written .* rank 0 does not find"),
        ("UnknownError", "rank 0 failed in this step: rank 1 has written .* rank 0 does not find"),
    ],
    "below a file": [("", "model.index")] * 2,
    "a file is gone": [("NotFoundError", "gone/model.data-00001-of-00002")] * 2,
    "a bit is flipped": [("DataLossError", "flipped/model.data-00001-of-00002")] * 2,
    "a file is cut": [("DataLossError", "cut/model.data-00001-of-00002")] * 2,
    "an index is forged": [("DataLossError", "forged/model.index.*numbered/rows")] * 2,
    "one rank saves": [("UnknownError", ALONE), None],
    "one rank restores": [("UnknownError", ALONE), None],
}


@pytest.mark.parametrize("what", FAILURES)
def test_all_ranks_fail_and_their_tables_stay(what):
    _, seen = launched()
    for rank, expected in enumerate(FAILURES[what]):
        error, message, number = seen[rank][what]
        assert number == 2
        assert_error_is(expected, error, message)


def test_the_checkpoint_before_is_restored_then():
    folder, seen = launched()
    assert [each["restored"] for each in seen] == [1, 1]
    left = [path for path in folder.rglob("*_temp_*")]
    assert not left


@pytest.mark.parametrize("times", [1, pytest.param(3, marks=pytest.mark.thorough)])
def test_ranks_that_are_killed_while_they_save(tmp_path, times):
    """One of them, at any moment: the newest checkpoint is whole, and the other rank ends."""
    numbers = random.Random(times)
    for attempt in range(times):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        victim = attempt % 2
        when = numbers.random() * MOST_SECONDS
        killer = threading.Thread(target=kill_rank_in, args=(folder, victim, 2, when))
        killer.start()
        ranks = run_ranks("checkpoints.failed_checkpoints", 2, folder, "kill", timeout=200)
        killer.join()
        assert ranks[victim].exit_code == -signal.SIGKILL
        assert ranks[1 - victim].exit_code not in (0, None), ranks[1 - victim].output
        path = tf.train.latest_checkpoint(str(folder))
        assert saved_number(path) // 2 == int(path.rpartition("-")[2])
