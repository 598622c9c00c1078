# SPDX-License-Identifier: Apache-2.0
"""Checkpoints by objects, in eager mode, that some number of ranks saves and another number
restores: training goes on as if it had not stopped."""

import functools
import glob
import os

import numpy as np
import pytest
import tensorflow as tf

from tests.distributed.launch import folder_of_tests, launched_once, reports, run_ranks
from tests.support.seen_errors import assert_error_is

TOLERANCE = dict(rtol=1e-5, atol=1e-6)
STALL_SECONDS = 8
OPTIMIZERS = ["legacy Adagrad", "Adam", "sok Adam"]
folder = functools.partial(folder_of_tests, "object_checkpoints")


@launched_once
def launched(num_ranks, *tasks):
    """{task: [what each rank has seen]}"""
    ranks = run_ranks(
        "checkpoints.object_checkpoints",
        num_ranks,
        *tasks,
        timeout=300,
        environment={"SOK_TEST_EAGER": 1},
    )
    seen = reports(ranks)
    return {task: [rank[task] for rank in seen] for task in tasks}


def save(num_ranks):
    return f"save {folder()}/{num_ranks}"


def resume(num_ranks):
    return f"resume {folder()}/{num_ranks}"


def of_two_ranks():
    """All that two ranks do; one process has saved before."""
    launched(1, save(1))
    others = f"disks {folder()}/disks", f"backup {folder()}/backup"
    return launched(2, save(2), resume(1), resume(2), *others)


def joined(of_ranks):
    """{key: row} of all ranks."""
    rows = {key: row for part in of_ranks for key, row in part.items()}
    assert len(rows) == sum(map(len, of_ranks))
    return rows


def assert_rows_equal(actual, expected):
    ours, theirs = joined(actual), joined(expected)
    assert ours.keys() == theirs.keys()
    for key, row in ours.items():
        np.testing.assert_allclose(row, theirs[key], err_msg=str(key), **TOLERANCE)


def assert_equal(actual, expected):
    """What the ranks have of a model, of both."""
    for table in (0, 1):
        assert_rows_equal(*([rows[table] for rows, _ in each] for each in (actual, expected)))
    for _, dense in actual:
        np.testing.assert_allclose(dense, expected[0][1], **TOLERANCE)


def check(saved, resumed, alone):
    """Saved, resumed, and of one process that saved and never stopped: by rank."""
    for name in OPTIMIZERS:
        for when in (0, 1):
            theirs = [rank[name][when] for rank in saved]
            assert_equal(theirs, [rank[name][when] for rank in alone])
            for how in (name, f"{name} again"):
                assert_equal([rank[how][when] for rank in resumed], theirs)
    for when in (0, 1):
        theirs = [rank["keras"][when] for rank in saved]
        assert_rows_equal(theirs, [rank["keras"][when] for rank in alone])
        assert_rows_equal([rank["keras"][when] for rank in resumed], theirs)


@pytest.mark.thorough
def test_training_goes_on_on_another_number_of_ranks():
    """One process, then two ranks, then one again."""
    alone = launched(1, save(1))[save(1)]
    two = of_two_ranks()
    again = launched(1, resume(2))
    check(alone, two[resume(1)], alone)
    check(two[save(2)], two[resume(2)], alone)
    check(two[save(2)], again[resume(2)], alone)
    files = sorted(os.path.basename(path) for path in glob.glob(f"{folder()}/2/Adam/*"))
    of_one = ["data-00000-of-00002", "data-00001-of-00002", "index"]
    assert files == ["checkpoint", *(f"ckpt-{n}.{end}" for n in (2, 3) for end in of_one)]
    names = {name for name, _ in tf.train.list_variables(f"{folder()}/2/Adam")}
    table = "model/hash/var/.ATTRIBUTES/table"
    assert {f"{table}/{x}" for x in ("keys", "rows", "seed", "slots/m")} < names


def test_rank_0_has_all_files():
    """Each rank has a folder of its own; tf.train.Checkpoint and CheckpointManager."""
    seen = of_two_ranks()[f"disks {folder()}/disks"]
    for what in ("saved", "trained"):
        expected, *actual = zip(*(rank[what] for rank in seen))
        for each in actual:
            assert_equal(each, expected)
    assert [rank["names"] for rank in seen] == [["ckpt-2", "ckpt-3", "ckpt-3"]] * 2
    assert len(seen[0]["files"]) > 2 and seen[1]["files"] == ["checkpoint"]
    assert_error_is(("NotFoundError", "ckpt-9"), *seen[0]["missing"])
    assert_error_is(("UnknownError", "rank 0 has failed: .*ckpt-9"), *seen[1]["missing"])
    assert [rank["copies"] for rank in seen] == [[], []]


def test_backups_of_fit():
    """tf.keras.callbacks.BackupAndRestore: a model that was stopped goes on, and its backup is
    deleted at the end."""
    seen = of_two_ranks()[f"backup {folder()}/backup"]
    expected, actual = zip(*(rank["rows"] for rank in seen))
    assert_rows_equal(actual, expected)
    assert [(rank["epochs"], rank["left"]) for rank in seen] == [([2], [])] * 2


@pytest.mark.thorough
@pytest.mark.parametrize("saving, resuming", [(2, 4), (4, 2)])
def test_four_ranks(saving, resuming):
    saved = {n: launched(n, save(n))[save(n)] for n in (1, 2, 4)}
    resumed = launched(resuming, resume(saving))[resume(saving)]
    check(saved[saving], resumed, saved[1])


ALONE = f"waited {STALL_SECONDS} s for rank 1|rank 1 has left"
FAILURES = {  # {what: (error, words) of each rank}
    "full": [("UnknownError", "rank 1 failed"), ("", "good/model-2_temp_.*|File too large")],
    "other paths": [("InvalidArgumentError", "rank 0 .*/of 0/model-3, rank 1 .*/of 1/model-3")] * 2,
    "alone": [("UnknownError", ALONE), None],
}


@pytest.mark.thorough
def test_all_ranks_fail_and_the_checkpoint_before_is_there(tmp_path):
    environment = {"SOK_TEST_EAGER": 1, "SOK_STALL_TIMEOUT_SECONDS": str(STALL_SECONDS)}
    seen = reports(
        run_ranks("checkpoints.object_checkpoints", 2, f"fail {tmp_path}", environment=environment)
    )
    for what, of_ranks in FAILURES.items():
        for rank, expected in enumerate(of_ranks):
            error, message = seen[rank]["fail"][what]
            assert_error_is(expected, error, message)
    assert [rank["fail"]["latest"] for rank in seen] == [f"{tmp_path}/good/model-1"] * 2
    saved, restored = zip(*(rank["fail"]["contents"] for rank in seen))
    assert_equal(restored, saved)
    assert not list(tmp_path.rglob("*_temp_*"))
