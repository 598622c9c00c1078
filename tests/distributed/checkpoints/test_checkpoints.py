# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that some number of ranks saves with tf.train.Saver and another number restores:
training goes on as if it had not stopped. Rows that sok.Saver dumps are restored as well."""

import functools
import glob
import tempfile
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.distributed.launch import folder_of_tests, launched_once, reports, run_ranks
from tests.support.assertions import assert_same_tensors

TOLERANCE = dict(rtol=1e-6, atol=1e-6)
TABLES = ("hash", "direct", "deeprec", "filtered", "parts", "given", "limited")
ADAGRAD = "tf1.Adagrad"
ADAM = "tf1.Adam"  # which has two slots, and scalars
KINDS = [  # of slots, scalars and rows that a step touches
    ADAM, ADAGRAD, "Adagrad outside", "tf1.GradientDescent", "tf1.RMSProp-centered",
    "tf1.AdagradDA", "legacy.Ftrl", "LazyAdam",
]  # fmt: skip
folder = functools.partial(folder_of_tests, "checkpoints")


@launched_once
def launched(num_ranks, optimizers, *tasks):
    """{task: {optimizer: [what each rank has seen]}}"""
    environment = {"TF_RECORD_FREQ": "1", "TF_RECORD_VERSION": "1"}
    ranks = run_ranks(
        "checkpoints.checkpoints",
        num_ranks,
        optimizers,
        *tasks,
        timeout=580,
        environment=environment,
    )
    seen = reports(ranks)
    return {
        task: {name: [rank[task][name] for rank in seen] for name in optimizers.split(",")}
        for task in tasks
    }


def save(num_ranks):
    return f"save {folder()}/{num_ranks}"


def resume(num_ranks):
    return f"resume {folder()}/{num_ranks}"


def imported(num_ranks):
    return f"import {folder()}/{num_ranks}"


def gather(num_ranks):
    return f"gather {folder()}/gathered {num_ranks}"


def scatter(num_ranks):
    return f"scatter {folder()}/gathered {num_ranks}"


def joined(of_ranks, table):
    """{key: row} of all ranks."""
    rows = {key: row for rows, _ in of_ranks for key, row in rows[table].items()}
    assert len(rows) == sum(len(rows[table]) for rows, _ in of_ranks)
    return rows


def assert_equal(actual, expected):
    """What all ranks have, of both."""
    for table in TABLES:
        ours, theirs = joined(actual, table), joined(expected, table)
        assert ours.keys() == theirs.keys(), table
        for key, row in ours.items():
            np.testing.assert_allclose(row, theirs[key], err_msg=f"{table} {key}", **TOLERANCE)
    for _, (steps, dense, *_) in actual:
        _, (expected_steps, expected_dense, *_) = expected[0]
        assert steps == expected_steps
        np.testing.assert_allclose(dense, expected_dense, **TOLERANCE)
    for place, start in ((2, 0), (3, -1)):
        ours, theirs = (
            np.max([np.maximum(start, numbers[place]) for _, numbers in ranks], axis=0)
            for ranks in (actual, expected)
        )
        np.testing.assert_array_equal(ours, theirs)


def states(of_ranks):
    """[saved or restored, at the end] of each rank's two; of ranks that resume, and the dump."""
    return [list(each) for each in zip(*of_ranks)]


def check(saved, resumed, alone):
    """`alone`: of one process that saved, and never stopped."""
    *resumed, dumps = states(resumed)
    for expected in (saved, alone):
        for ours, theirs in zip(resumed, states(expected)):
            assert_equal(ours, theirs)
    if all(dumps):
        check_dump(dumps, states(saved)[0])


def check_dump(restored, saved):
    """Bit for bit; without a hash table, rows of keys that have not come are there as well."""
    for table, may_hold_more in (("hash", False), ("direct", True)):
        ours, theirs = joined(restored, table), joined(saved, table)
        assert ours.keys() >= theirs.keys() if may_hold_more else ours.keys() == theirs.keys()
        assert all(np.array_equal(ours[key], row) for key, row in theirs.items())


def test_training_goes_on_on_another_number_of_ranks():
    """One process, then two ranks, then one again."""
    one = launched(1, ADAGRAD, save(1))
    two = launched_on_two()
    again = launched(1, ADAGRAD, resume(2))
    alone = one[save(1)][ADAGRAD]
    check(alone, two[resume(1)][ADAGRAD], alone)
    check(two[save(2)][ADAGRAD], two[resume(2)][ADAGRAD], alone)
    check(two[save(2)][ADAGRAD], again[resume(2)][ADAGRAD], alone)
    check(alone, two[imported(1)][ADAGRAD], alone)
    check(two[save(2)][ADAGRAD], two[imported(2)][ADAGRAD], alone)
    prefix = f"{folder()}/2/{ADAGRAD}/model"
    assert len(glob.glob(f"{prefix}*")) == 3 == len(glob.glob(f"{prefix}.data-*-of-00002")) + 1
    reader = tf.train.load_checkpoint(prefix)
    names = reader.get_variable_to_shape_map()
    for table in ("EmbeddingVariable", "EmbeddingVariable_1"):
        rows = {
            key: row
            for key, row in zip(
                reader.get_tensor(f"{table}/keys").tolist(), reader.get_tensor(f"{table}/rows")
            )
        }
        saved, _ = states(two[save(2)][ADAGRAD])
        expected = joined(saved, "hash" if table == "EmbeddingVariable" else "direct")
        assert all(np.array_equal(row, expected[key]) for key, row in rows.items())
        assert names[f"{table}/Adagrad"] == names[f"{table}/rows"]
    assert {"deeprec/part_0-keys", "filtered/part_1/Adagrad-values", "dense"} <= set(names)


def launched_on_two():
    tasks = save(2), resume(1), resume(2), imported(1), imported(2), gather(2), scatter(2)
    return launched(2, ADAGRAD, *tasks)


def check_rank_0_has_it(num_ranks, seen, optimizer):
    """A checkpoint that each rank has saved to a disk of its own, and restored from there."""
    check(seen[gather(num_ranks)][optimizer], seen[scatter(num_ranks)][optimizer],
          seen[gather(num_ranks)][optimizer])  # fmt: skip
    place = Path(folder(), f"gathered {num_ranks}")
    for rank in range(1, num_ranks):
        assert not any((place / f"disk of {rank}").iterdir())
    ours, theirs = place / "disk of 0" / optimizer, Path(folder(), str(num_ranks), optimizer)
    assert {each.name for each in ours.glob("model.*")} == {
        each.name for each in theirs.glob("model.*")
    }
    assert_same_tensors(f"{ours}/model", f"{theirs}/model", ["limited/versions"])  # times of day
    assert not list(Path(tempfile.gettempdir()).glob("sok_checkpoint_*"))


def test_rank_0_has_the_files_where_ranks_have_disks_of_their_own():
    check_rank_0_has_it(2, launched_on_two(), ADAGRAD)


@pytest.mark.thorough
def test_rank_0_has_the_files_of_four_ranks():
    seen = launched(4, ADAM, save(4), gather(4), scatter(4))
    check_rank_0_has_it(4, seen, ADAM)


@pytest.mark.thorough
@pytest.mark.parametrize("optimizer", KINDS)
@pytest.mark.parametrize("saving, resuming", [(1, 4), (4, 1)])
def test_all_optimizers(optimizer, saving, resuming):
    kinds = ",".join(KINDS)
    saved = {n: launched(n, kinds, save(n))[save(n)] for n in (1, 4)}
    resumed = launched(resuming, kinds, resume(saving))[resume(saving)]
    check(saved[saving][optimizer], resumed[optimizer], saved[1][optimizer])
