# SPDX-License-Identifier: Apache-2.0
"""Increments that some number of ranks saves and another number restores."""

import numpy as np
import pytest
import tensorflow as tf

from tests.distributed.launch import reports, run_ranks
from tests.support.saves.incremental_model import BATCHES, IncrementalModel

pytestmark = pytest.mark.thorough

LAST = len(BATCHES) - 1
TOLERANCE = dict(rtol=1e-5, atol=1e-6)  # sums in other orders


def in_this_process(use):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        return use(IncrementalModel(1, 0), session)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """{ranks: [what each rank saw]}: one saves, two restore and save, four restore and save."""
    one, two, four = (str(tmp_path_factory.mktemp(name)) for name in ("one", "two", "four"))
    saved = in_this_process(lambda model, session: model.save_series(session, f"{one}/model"))
    return {
        1: [{"saved": (saved, None)}],
        2: reports(run_ranks("checkpoints.increments", 2, two, f"{one}/model-{LAST}")),
        4: reports(run_ranks("checkpoints.increments", 4, four, f"{two}/model-{LAST}")),
        "folders": {1: one, 2: two, 4: four},
    }


def joined(of_ranks):
    """({table: {key: row}} of all ranks, the steps)."""
    rows = {}
    for tables, _ in of_ranks:
        for table, of_rank in tables.items():
            known = rows.setdefault(table, {})
            assert not known.keys() & of_rank.keys()
            known.update(of_rank)
    (steps,) = {steps for _, steps in of_ranks}
    return rows, steps


def assert_equal(actual, expected, **tolerance):
    rows, steps = joined(actual)
    expected_rows, expected_steps = joined(expected)
    assert steps == expected_steps and rows.keys() == expected_rows.keys()
    for table, of_table in rows.items():
        assert of_table.keys() == expected_rows[table].keys()
        for key, row in of_table.items():
            np.testing.assert_allclose(row, expected_rows[table][key], **tolerance)


def saved(of_ranks, what):
    """What each rank saved last (1), or what came of one batch more (2)."""
    return [each["saved"][0][what] for each in of_ranks]


@pytest.mark.parametrize("saving, restoring", [(1, 2), (2, 4)])
def test_another_number_of_ranks_restores_a_chain(runs, saving, restoring):
    """As it was saved, and training goes on as it did there."""
    restored = [each["restored"] for each in runs[restoring]]
    assert_equal([first for first, _ in restored], saved(runs[saving], 1), rtol=0)
    assert_equal([then for _, then in restored], saved(runs[saving], 2), **TOLERANCE)


@pytest.mark.parametrize("saving", [1, 2, 4])
def test_one_process_restores_a_chain(runs, saving):
    path = f"{runs['folders'][saving]}/model-{LAST}"
    restored, then = in_this_process(lambda model, session: model.resume(session, path))
    assert_equal([restored], saved(runs[saving], 1), rtol=0)
    assert_equal([then], saved(runs[saving], 2), **TOLERANCE)


@pytest.mark.parametrize("num_ranks", [1, 2, 4])
def test_increments_hold_the_keys_of_all_ranks(runs, num_ranks):
    """All that have come: Adam moves rows without gradients, too."""
    folder = runs["folders"][num_ranks]
    reader = tf.train.load_checkpoint(f"{folder}/model-{LAST}")
    names = sorted(name for name in reader.get_variable_to_shape_map() if "/keys" in name)
    assert [name.partition("/")[2] for name in names] == ["keys.increment"] * 2
    for name in names:
        assert sorted(reader.get_tensor(name)) == sorted(set(np.concatenate(BATCHES).tolist()))


@pytest.mark.parametrize("num_ranks", [2, 4])
def test_one_rank_that_needs_a_whole_checkpoint_makes_all_save_one(runs, num_ranks):
    assert [each["saved"][1] for each in runs[num_ranks]] == [True] * num_ranks


def test_rank_0_has_all_files(runs):
    """And sends all that an increment needs."""
    seen = [each["gathered"] for each in runs[2]]
    assert [is_there for *_, is_there in seen] == [True, False]
    assert_equal([each[2] for each in seen], [each[0] for each in seen], rtol=0)
    assert_equal([each[3] for each in seen], [each[1] for each in seen], **TOLERANCE)


def test_sessions_of_ranks_save_increments_in_the_same_steps(runs):
    expected = {0: True, 2: False, 3: True, 4: False, 5: True}
    for each in runs[2]:
        assert each["session"][0] == {f"model.ckpt-{step}": w for step, w in expected.items()}


def test_rank_0_writes_changes(runs):
    """If it cannot, all ranks raise."""
    files, problems = zip(*(each["session"][1:] for each in runs[2]))
    assert files == ([f"model.ckpt-{step}.parquet" for step in (0, 2, 3, 4)], [])
    assert "changes/model.ckpt-5.parquet" in problems[0]
    assert "changes_of_checkpoint: rank 0 has failed: FileNotFoundError" in problems[1]
