# SPDX-License-Identifier: Apache-2.0
"""Tables without sok.Init, saved and restored."""

import numpy as np
import pytest
import tensorflow as tf

from sok_compat import checkpoint
from sok_compat.tables import Table, slot_for
from sok_compat.tables.rows.shown_rows import showing_all_rows
from sok_compat.tables.stored.storage import Storage
from tests.support.lookups import lookup
from tests.support.saves.undone import integrations_undone

KEYS = np.array([5, -1, 2**40])


def test_files(run, tmp_path):
    table = Table(8, 2, "random_normal", name="x")
    rows = run(lambda keys: lookup(table, keys, True), KEYS)
    run(lambda: checkpoint.dump_to_files(table, str(tmp_path)))
    np.testing.assert_array_equal(np.fromfile(tmp_path / "x_keys.file", np.int64), KEYS)
    run(lambda: checkpoint.set_rows(table, tf.ones([4, 2])))
    assert run(table.export)[0].tolist() == [0, 1, 2, 3]
    run(lambda: checkpoint.restore_from_files(table, str(tmp_path)))
    restored = dict(zip(run(table.export)[0].tolist(), run(table.export)[1]))
    np.testing.assert_array_equal([restored[key] for key in KEYS], rows)


def test_tf_saver(tmp_path):
    checkpoint.save_tables_in_checkpoints()
    path = str(tmp_path / "model")

    def build():
        table = Table(8, 2, "random_normal", name="x")
        slot = slot_for(table, "optimizer", "m", width=3, fill=0.25)
        rows = lookup(table, tf.constant(KEYS), True)
        return table, slot, rows, tf.compat.v1.train.Saver()

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        table, slot, rows, saver = build()
        session.run(tf.compat.v1.global_variables_initializer())
        saved = session.run(rows)
        session.run(slot.assign_add(tf.ones([8, 3])))
        with showing_all_rows(table):
            session.run(table.scatter_sub(tf.IndexedSlices(tf.ones([3, 2]), [0, 1, 2])))
        saver.save(session, path)
    assert {name for name, _ in tf.train.list_variables(path)} == {
        "x/keys",
        "x/rows",
        "x/m",
        "x/seed",
    }
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        table, slot, rows, saver = build()
        saver.restore(session, path)
        np.testing.assert_array_equal(session.run(rows), saved - 1)
        np.testing.assert_array_equal(session.run(slot)[:3], np.full([3, 3], 1.25))


def test_tf_saver_in_eager_mode_says_what_else(tmp_path):
    saver = tf.compat.v1.train.Saver([Table(8, 2, name="x")])
    with pytest.raises(NotImplementedError, match="'x'.*tf.train.Checkpoint"):
        saver.save(None, str(tmp_path / "model"))


@pytest.mark.parametrize("make_variables", [
    lambda table: None, lambda table: [table], lambda table: {"a name": table},
], ids=["all", "list", "dict"])  # fmt: skip
def test_tf_saver_that_does_not_know_tables_saves_none(graph, make_variables):
    table = Table(8, 2, name="x")
    with integrations_undone(), pytest.raises(TypeError):
        tf.compat.v1.train.Saver(make_variables(table))


def test_tf_checkpoint_that_does_not_know_tables_saves_none(graph, tmp_path, monkeypatch):
    monkeypatch.setattr(Storage, "make_saveable", None)
    with pytest.raises(RuntimeError, match="table x: call .*save_tables_in_checkpoints"):
        tf.train.Checkpoint(table=Table(8, 2, name="x")).save(str(tmp_path / "model"))
