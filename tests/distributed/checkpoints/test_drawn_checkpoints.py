# SPDX-License-Identifier: Apache-2.0
"""Jobs of which a rank is killed at any moment go on, on any number of ranks, as if nothing was."""

import os
import signal
import threading

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.distributed.launch import reports, run_ranks
from tests.support.processes.killed_children import kill_rank_in

NUM_KILLS = int(os.environ.get("SOK_TEST_KILLS", 3))
MOST_SECONDS = 0.4  # from the first checkpoint to the end of a rank
STEPS_AFTER = 3


def killed_in_step(folder, seed, num_ranks, victim, seconds):
    """Runs a job of which a rank is killed; the step of the newest checkpoint."""
    killer = threading.Thread(target=kill_rank_in, args=(folder, victim, num_ranks, seconds))
    killer.start()
    ranks = run_ranks("checkpoints.drawn_checkpoints", num_ranks, folder, seed, "none", timeout=200)
    killer.join()
    assert ranks[victim].exit_code == -signal.SIGKILL, ranks[victim].output
    for rank, ended in enumerate(ranks):
        assert rank == victim or ended.exit_code not in (0, None), ended.output
    newest = tf.train.latest_checkpoint(str(folder))
    step = int(tf.train.load_variable(newest, "global_step"))
    assert step // 2 == int(newest.rpartition("-")[2])
    return step


def trained(folder, seed, num_ranks, last):
    """[what each table of all ranks holds] after the last step."""
    folder.mkdir(exist_ok=True)
    of_ranks = reports(
        run_ranks("checkpoints.drawn_checkpoints", num_ranks, folder, seed, last, timeout=200)
    )
    tables = []
    for parts in zip(*of_ranks):
        tables.append({key: row for part in parts for key, row in part.items()})
        assert len(tables[-1]) == sum(map(len, parts))
    return tables


def check(folder, seed, saving, resuming, victim, seconds):
    jobs = folder / "killed", folder / "alone"
    jobs[0].mkdir()
    last = STEPS_AFTER + killed_in_step(jobs[0], seed, saving, victim % saving, seconds)
    resumed = trained(jobs[0], seed, resuming, last)
    alone = trained(jobs[1], seed, 1, last)
    for ours, theirs in zip(resumed, alone):
        assert ours.keys() == theirs.keys()
        for key, row in theirs.items():
            np.testing.assert_allclose(ours[key], row, rtol=1e-5, atol=1e-6, err_msg=str(key))


@pytest.mark.thorough
def test_a_killed_job_goes_on(tmp_path):
    check(tmp_path, 1, 2, 1, victim=1, seconds=0.1)


@pytest.mark.thorough
def test_killed_jobs_go_on(tmp_path_factory):
    @settings(
        max_examples=NUM_KILLS, deadline=None, derandomize=True, database=None,
        phases=[Phase.generate], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(
        seed=st.integers(2, 1 << 30),
        ranks=st.tuples(st.integers(1, 4), st.integers(1, 4)),
        victim=st.integers(0, 11),
        seconds=st.floats(0, MOST_SECONDS),
    )
    def any_job(seed, ranks, victim, seconds):
        check(tmp_path_factory.mktemp("job"), seed, *ranks, victim, seconds)

    any_job()
