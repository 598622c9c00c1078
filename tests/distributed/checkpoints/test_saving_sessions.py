# SPDX-License-Identifier: Apache-2.0
"""On several ranks, what stands beside checkpoints is rank 0's, and all save in the same steps."""

import functools
import tempfile

import pytest

from tests.distributed.launch import reports, run_ranks

pytestmark = pytest.mark.thorough
STALL_SECONDS = 8
RANKS = [1, 2, 4]


@functools.cache
def launched(num_ranks):
    """One launch runs all scripts."""
    with tempfile.TemporaryDirectory() as folder:
        return run_ranks(
            "checkpoints.saving_sessions",
            num_ranks,
            folder,
            timeout=300,
            environment={"SOK_STALL_TIMEOUT_SECONDS": STALL_SECONDS},
        )


def seen(num_ranks, script):
    return [rank[script] for rank in reports(launched(num_ranks))]


def files(steps, name="model.ckpt"):
    return [f"{name}-{step}.{kind}" for step in steps for kind in ("index", "meta")]


@pytest.mark.parametrize("num_ranks", RANKS)
def test_each_rank_sees_what_rank_0_has_written_when_it_has_saved(num_ranks):
    for checkpoints, _ in seen(num_ranks, "kept_checkpoints"):
        for step, found in enumerate(checkpoints, 1):
            kept = range(max(1, step - 1), step + 1)  # max_to_keep=2
            assert found["returned"] == found["latest"] == f"model-{step}"
            assert found["last"] == [f"model-{each}" for each in kept]
            assert found["files"] == ["checkpoint", *files(kept, "model")]


@pytest.mark.parametrize("num_ranks", RANKS)
def test_what_rank_0_fails_to_write_beside_a_checkpoint_fails_on_all(num_ranks):
    (_, first), *others = seen(num_ranks, "kept_checkpoints")
    assert first[0] == "FailedPreconditionError" and "Is a directory" in first[1]
    for _, (kind, text, _) in others:
        assert kind == "UnknownError" and "is saved, but not the files that rank 0 writes" in text
        assert "Is a directory" in text


@pytest.mark.parametrize("num_ranks", RANKS)
def test_all_save_when_the_seconds_of_rank_0_are_over_and_stop_where_it_is_asked(num_ranks):
    ranks = seen(num_ranks, "by_seconds")
    for saved, last, found in ranks:
        assert saved == ranks[0][0] and len(saved) == 3 and saved[0] == 0
        assert last == saved[-1]  # no step after the one in which a listener asked to stop
        assert found == sorted(["checkpoint", "graph.pbtxt", *files(saved)])


@pytest.mark.parametrize("num_ranks", RANKS)
def test_a_folder_on_rank_0_alone_is_enough(num_ranks):
    for first, resumed, found in seen(num_ranks, "on_rank_0_alone"):
        assert (first, resumed) == (5, 7)
        assert found == sorted(["checkpoint", "graph.pbtxt", *files([0, 2, 4, 5, 7])])


@pytest.mark.parametrize("num_ranks", RANKS)
def test_a_saver_without_tables_is_this_rank_s_alone(num_ranks):
    assert set(seen(num_ranks, "dense_on_rank_0_alone")) == {3}


@pytest.mark.parametrize("num_ranks", [2, 4])
def test_ranks_that_differ_are_told(num_ranks):
    for rank in seen(num_ranks, "failures"):
        kind, text, _ = rank["other hooks"]
        assert kind == "ValueError"  # of a stall it is another
        assert "rank 0 saves tables by 1 CheckpointSaverHooks, rank 1 by 2" in text
        kind, text, seconds = rank["fewer steps"]
        assert kind == "UnknownError" and seconds < STALL_SECONDS + 60
        assert "has ended its session" in text, text
        assert "all ranks must run the same number of steps" in text, text
