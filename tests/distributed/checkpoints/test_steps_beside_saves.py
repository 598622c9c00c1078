# SPDX-License-Identifier: Apache-2.0
"""A checkpoint that is saved while threads train, or a dump, has each step wholly or not at all."""

import json
import os
import random
import signal
import threading

import numpy as np
import pytest

from tests.distributed.launch import reports, run_ranks
from tests.support.processes.killed_children import kill_rank_in

NUM_KILLS = int(os.environ.get("SOK_TEST_KILLS", 3))
NUM_FILES = {"dump": 4 * 4, "pairs": 4 * 3}  # of four tables: keys, rows, slots and a note
MOST_SECONDS = 0.5  # from the first checkpoint of a process to the end of a rank


def assert_whole(steps):
    """In the tensors of each model, or of each table, there is one step."""
    assert [len(each) for each in steps] == [1] * len(steps)


@pytest.mark.parametrize("num_ranks", [1, 2, pytest.param(4, marks=pytest.mark.thorough)])
def test_all_tables_of_all_ranks_are_of_the_same_step(num_ranks, tmp_path):
    ranks = reports(run_ranks("checkpoints.steps_beside_saves", num_ranks, tmp_path, "few"))
    assert [rank["errors"] for rank in ranks] == [[None, None]] * num_ranks
    *seen, before, after, again = ranks[0]["steps"]
    dumped = ranks[0]["dumped"]
    assert len(dumped) == len(seen)
    for steps in (*seen, before, after, again, *dumped):
        assert_whole(steps)
    for earlier, later in zip(seen, seen[1:]):
        assert np.all(np.concatenate(later) > np.concatenate(earlier))
    # A step of the first model did not end on the last rank: the save failed on all.
    whose = f"rank {num_ranks - 1}: " if num_ranks > 1 else ""
    for rank in ranks:
        assert f"SOK_STALL_TIMEOUT_SECONDS: {whose}the step that began with" in rank["failure"]
    assert np.concatenate(after).tolist() == (np.concatenate(before) + [1, 0]).tolist()
    assert np.concatenate(again).tolist() == np.concatenate(after).tolist()
    assert not [path for path in tmp_path.iterdir() if "torn" in path.name]


@pytest.mark.thorough
@pytest.mark.parametrize(
    "num_ranks, times",
    [(2, 1), *(pytest.param(ranks, NUM_KILLS, marks=pytest.mark.thorough) for ranks in (1, 2))],
)
def test_ranks_that_are_killed_while_they_save_beside_steps(num_ranks, times, tmp_path):
    """One of them, at any moment: each time the job goes on after a step that was saved."""
    numbers = random.Random(times)
    for attempt in range(times):
        for pid_file in tmp_path.glob("pid of *"):
            pid_file.unlink()
        victim = attempt % num_ranks
        when = numbers.random() * MOST_SECONDS
        killer = threading.Thread(target=kill_rank_in, args=(tmp_path, victim, num_ranks, when))
        killer.start()
        ranks = run_ranks(
            "checkpoints.steps_beside_saves", num_ranks, tmp_path, "kill", timeout=200
        )
        killer.join()
        assert ranks[victim].exit_code == -signal.SIGKILL, ranks[victim].output
    reports(run_ranks("checkpoints.steps_beside_saves", num_ranks, tmp_path, "few"))
    resumed = [json.loads(line) for line in (tmp_path / "resumed").read_text().splitlines()]
    assert len(resumed) == times
    for steps, dumped, files in resumed:
        assert len(steps) == 2 and len(dumped) == 6
        assert_whole(steps)
        assert_whole(dumped)
        assert files == NUM_FILES
    for (earlier, *_), (later, *_) in zip(resumed, resumed[1:]):
        assert np.all(np.concatenate(later) > np.concatenate(earlier))
