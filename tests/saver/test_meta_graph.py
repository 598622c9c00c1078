# SPDX-License-Identifier: Apache-2.0
"""Graphs with tables, written by tf.train.Saver or export_meta_graph and imported again."""

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from tests.support.cases.optimizer_cases import SOK_OPTIMIZERS, STOCK_OPTIMIZERS
from tests.support.saves.saved_table import SavedTable
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1


def export(folder, optimizer):
    """Saves a graph and its checkpoint; returns the rows one step later."""
    with tf.Graph().as_default():
        sok_compat.Init(global_batch_size=8, seed=7)
        saved = SavedTable(folder, optimizer=optimizer)
        for name in ("step", "keys", "exported"):
            tf1.get_collection_ref(name).append(getattr(saved, name))
        tf1.get_collection_ref("exported")[:] = saved.exported
        tf1.get_variable("dense", [2])
        saver = tf1.train.Saver()
        with initialized_session() as session:
            session.run(saved.step, {saved.keys: [3, 1]})
            saver.save(session, f"{folder}/model")
            session.run(saved.step, {saved.keys: [3, 7]})
            return session.run(saved.exported)


@pytest.mark.parametrize("import_scope", [None, "outer"])
@pytest.mark.parametrize(
    "optimizer", [STOCK_OPTIMIZERS[0], STOCK_OPTIMIZERS[1], SOK_OPTIMIZERS[1]], ids=str
)
def test_imported_graph_trains_on(tmp_path, optimizer, import_scope):
    expected = export(tmp_path, optimizer)
    with tf.Graph().as_default():
        saver = tf1.train.import_meta_graph(f"{tmp_path}/model.meta", import_scope=import_scope)
        names = [v.op.name.replace("outer/", "") for v in tf1.global_variables()]
        assert {"EmbeddingVariable", "dense"} <= set(names)
        with tf1.Session() as session:
            saver.restore(session, f"{tmp_path}/model")
            (step,), (keys,) = tf1.get_collection("step"), tf1.get_collection("keys")
            session.run(step, {keys: [3, 7]})
            for actual, after_one_step in zip(
                session.run(tf1.get_collection("exported")), expected
            ):
                np.testing.assert_array_equal(actual, after_one_step)
            path = saver.save(session, f"{tmp_path}/again")
    assert ("EmbeddingVariable/keys", [3]) in tf.train.list_variables(path)


@pytest.mark.parametrize("has_saver", [True, False])
def test_another_saver_of_an_imported_graph_raises(tmp_path, has_saver):
    """It would save the rows without their keys."""
    export(tmp_path, STOCK_OPTIMIZERS[1])
    path = f"{tmp_path}/model"
    with tf.Graph().as_default(), tf1.Session() as session:
        meta_graph = tf1.MetaGraphDef.FromString((tmp_path / "model.meta").read_bytes())
        if not has_saver:
            meta_graph.ClearField("saver_def")
        imported = tf1.train.import_meta_graph(meta_graph)
        slots = tf1.train.Saver([v for v in tf1.global_variables() if "Adagrad" in v.name])
        for saver, name in ((tf1.train.Saver(), "EmbeddingVariable:0"), (slots, "/Adagrad:0")):
            for run in (saver.restore, saver.save):
                with pytest.raises(tf.errors.InvalidArgumentError, match=f"{name} belongs to a"):
                    run(session, path)
        others = tf1.train.Saver([v for v in tf1.global_variables() if "dense" in v.name])
        others.restore(session, path)
        if has_saver:
            imported.restore(session, path)
        else:
            with pytest.raises(tf.errors.InvalidArgumentError, match="of a graph with a saver"):
                imported.restore(session, path)


def test_layers_in_an_imported_graph_need_init(tmp_path):
    export(tmp_path, STOCK_OPTIMIZERS[0])
    with tf.Graph().as_default():
        tf1.train.import_meta_graph(f"{tmp_path}/model.meta")
        with pytest.raises(RuntimeError, match="needs sok.Init"):
            sok_compat.All2AllDenseEmbedding(4, 2, 1, 1)
        sok_compat.Init(global_batch_size=8)
        table = SavedTable(tmp_path).table
        assert table.m_var_name == "EmbeddingVariable_1"
        with initialized_session() as session:
            assert session.run(table.num_keys()) == 0


def test_export_says_nothing_of_tables(sok, tmp_path, caplog):
    """No warnings, which would come with every checkpoint."""
    SavedTable(tmp_path, optimizer=STOCK_OPTIMIZERS[1])
    tf1.train.export_meta_graph(f"{tmp_path}/graph.meta")
    assert "serializing" not in caplog.text
