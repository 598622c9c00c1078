# SPDX-License-Identifier: Apache-2.0
"""tf.train.init_from_checkpoint: of tables refused, of other variables as ever."""

import logging

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from tests.support.cases.optimizer_cases import STOCK_OPTIMIZERS
from tests.support.saves.saved_table import SavedTable, assert_rows_equal
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1
ADAGRAD = STOCK_OPTIMIZERS[1]


@pytest.fixture
def checkpoint(make_table, tmp_path):
    """Path of a checkpoint with a used table, its slot and the variable 'dense', 3 and 4; and the
    table's rows."""
    saved = make_table(optimizer=ADAGRAD)
    tf1.get_variable("dense", initializer=[3.0, 4.0])
    with initialized_session() as session:
        session.run(saved.step, {saved.keys: [5, 3]})
        rows = saved.rows(session)
        return tf1.train.Saver().save(session, str(tmp_path / "model")), rows


@pytest.fixture
def again(tmp_path):
    """The same variables in a graph of their own, and 'dense' there, which starts as zeros."""
    with tf.Graph().as_default():
        sok_compat.Init(global_batch_size=8, seed=7)
        saved = SavedTable(tmp_path, optimizer=ADAGRAD)
        yield saved, tf1.get_variable("dense", [2], initializer=tf1.zeros_initializer())


REFUSED = {
    "variable": lambda table: {"EmbeddingVariable": table},
    "rows": lambda table: {"EmbeddingVariable/rows": table},
    "name": lambda table: [("EmbeddingVariable", "EmbeddingVariable")],
    "slot": lambda table: {"EmbeddingVariable/Adagrad": table.slots[0]},
}


@pytest.mark.parametrize("make_map", REFUSED.values(), ids=REFUSED)
def test_tables_are_refused(checkpoint, again, make_map):
    with pytest.raises(NotImplementedError, match="not load EmbeddingVariable.*Saver.*restore"):
        tf1.train.init_from_checkpoint(checkpoint[0], make_map(again[0].table))


@pytest.mark.parametrize("assignment_map, names", [
    ({"/": "/"}, "EmbeddingVariable"), ({"dense": "dense"}, None), ({"/": "tower/"}, None),
])  # fmt: skip
def test_others_are_loaded(checkpoint, again, caplog, assignment_map, names):
    (path, rows), (saved, dense) = checkpoint, again
    with caplog.at_level(logging.WARNING, "sok_compat"):
        tf1.train.init_from_checkpoint(path, assignment_map)
    warnings = [r.getMessage() for r in caplog.records if r.name.startswith("sok_compat")]
    assert len(warnings) == (names is not None)
    assert all(f"'{names}'" in warning and "restore" in warning for warning in warnings)
    saver = tf1.train.Saver([saved.table])
    with initialized_session() as session:
        expected = [0.0, 0.0] if "tower/" in assignment_map.values() else [3.0, 4.0]
        np.testing.assert_array_equal(session.run(dense), expected)
        assert session.run(saved.table.num_keys()) == 0
        saver.restore(session, path)  # what the warning says
        assert_rows_equal(saved.rows(session), rows)
