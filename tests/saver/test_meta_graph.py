# SPDX-License-Identifier: Apache-2.0
"""Graphs with tables, written by tf.train.Saver or export_meta_graph and imported again."""

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from sok_compat.deeprec.lookups.stock_lookups import embedding_lookup
from sok_compat.deeprec.optimizer_rules.adagrad_decay_optimizers import AdagradDecayOptimizer
from sok_compat.deeprec.optimizer_rules.stock_optimizers import AdagradOptimizer
from sok_compat.deeprec.variables.options import (
    EmbeddingVariableOption,
    GlobalStepEvict,
    InitializerOption,
)
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from tests.support.assertions import assert_same_tensors
from tests.support.cases.optimizer_cases import SOK_OPTIMIZERS, STOCK_OPTIMIZERS
from tests.support.deeprec.deeprec_files import write_tensors
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


def without_saver(folder):
    meta_graph = tf1.MetaGraphDef.FromString((folder / "model.meta").read_bytes())
    meta_graph.ClearField("saver_def")
    return meta_graph


@pytest.mark.parametrize("import_scope", [None, "outer"])
@pytest.mark.parametrize(
    "optimizer", [STOCK_OPTIMIZERS[0], STOCK_OPTIMIZERS[1], SOK_OPTIMIZERS[1]], ids=str
)
def test_new_savers_of_an_imported_graph(tmp_path, optimizer, import_scope):
    """They save and restore tables as those of the exported graph do, under the same names."""
    expected = export(tmp_path, optimizer)
    path = f"{tmp_path}/model"
    with tf.Graph().as_default(), tf1.Session() as session:
        saver = tf1.train.import_meta_graph(without_saver(tmp_path), import_scope=import_scope)
        if import_scope:
            variables = tf1.global_variables()
            saver = tf1.train.Saver({v.op.name.removeprefix("outer/"): v for v in variables})
        saver.restore(session, path)
        again = saver.save(session, f"{tmp_path}/again")
        (step,), (keys,) = tf1.get_collection("step"), tf1.get_collection("keys")
        session.run(step, {keys: [3, 7]})
        actual = session.run(tf1.get_collection("exported"))
        saver.restore(session, again)
        session.run(step, {keys: [3, 7]})
        for arrays in (actual, session.run(tf1.get_collection("exported"))):
            for array, after_one_step in zip(arrays, expected):
                np.testing.assert_array_equal(array, after_one_step)
    assert_same_tensors(path, again)


def test_a_new_saver_raises_for_tables_that_it_does_not_know(tmp_path):
    """As those that are saved as parts; it would save the rows without their keys."""
    export(tmp_path, STOCK_OPTIMIZERS[1])
    path = f"{tmp_path}/model"
    meta_graph = tf1.MetaGraphDef.FromString((tmp_path / "model.meta").read_bytes())
    for node in meta_graph.graph_def.node:
        node.attr.pop("_sok_compat_description", None)
    with tf.Graph().as_default(), tf1.Session() as session:
        imported = tf1.train.import_meta_graph(meta_graph)
        for run in (tf1.train.Saver().restore, tf1.train.Saver().save):
            with pytest.raises(tf.errors.InvalidArgumentError, match="EmbeddingVariable:0 belongs"):
                run(session, path)
        others = tf1.train.Saver([v for v in tf1.global_variables() if "dense" in v.name])
        for saver in (others, imported):
            saver.restore(session, path)


def test_saver_of_slots_of_an_imported_graph(tmp_path):
    """It brings in their table."""
    export(tmp_path, STOCK_OPTIMIZERS[1])
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.train.import_meta_graph(without_saver(tmp_path))
        slots = tf1.train.Saver([v for v in tf1.global_variables() if "Adagrad" in v.name])
        slots.restore(session, f"{tmp_path}/model")
        path = slots.save(session, f"{tmp_path}/again")
    assert "EmbeddingVariable/keys" in dict(tf.train.list_variables(path))


@pytest.mark.parametrize("evicts", [False, True])
def test_embedding_variables_of_an_imported_graph(tmp_path, evicts):
    """In DeepRec's tensors, of both parts, with default rows and what a save evicts."""
    path = f"{tmp_path}/model"
    with tf.Graph().as_default():
        step = tf1.train.get_or_create_global_step()
        option = EmbeddingVariableOption(
            init_option=InitializerOption(tf1.random_normal_initializer(seed=3), 5),
            evict_option=GlobalStepEvict(steps_to_live=1) if evicts else None,
        )
        variable = get_embedding_variable(
            "v", 3, key_dtype=tf.int32, ev_option=option,
            partitioner=tf1.fixed_size_partitioner(2),
        )  # fmt: skip
        ids = tf1.placeholder(tf.int32, [None], "ids")
        rows = embedding_lookup(variable, ids)
        train = AdagradOptimizer(0.5).minimize(tf.reduce_sum(tf.sin(rows)), step)
        for name, value in (("ids", ids), ("rows", rows), ("train", train)):
            tf1.add_to_collection(name, value)
        saver = tf1.train.Saver()
        with initialized_session() as session:
            for _ in range(2):
                session.run(train, {ids: [4, 1, 1003]})
            saver.save(session, path)
            for _ in range(3):
                session.run(train, {ids: [4, 9]})
            expected = session.run(rows, {ids: [4, 1, 1003, 9, 13]})
            saver.save(session, f"{tmp_path}/later", write_meta_graph=False)
    with tf.Graph().as_default(), tf1.Session() as session:
        saver = tf1.train.import_meta_graph(without_saver(tmp_path))
        (ids,), (rows,), (train,) = map(tf1.get_collection, ("ids", "rows", "train"))
        saver.restore(session, path)
        for _ in range(3):
            session.run(train, {ids: [4, 9]})
        np.testing.assert_array_equal(session.run(rows, {ids: [4, 1, 1003, 9, 13]}), expected)
        saver.save(session, f"{tmp_path}/again")
    assert_same_tensors(f"{tmp_path}/later", f"{tmp_path}/again")
    keys = tf.train.load_variable(f"{tmp_path}/again", "v/part_1-keys").tolist()
    assert keys == ([9] if evicts else [1, 1003, 9])


def test_a_value_that_deeprec_does_not_save(tmp_path):
    """Without the number of decays, those that are due at the next step count as done."""
    path, without = f"{tmp_path}/model", f"{tmp_path}/without"
    with tf.Graph().as_default():
        count = tf1.train.get_or_create_global_step()
        variable = get_embedding_variable("v", 2)
        optimizer = AdagradDecayOptimizer(0.1, count, 4.0, 2, 0.5)
        step = optimizer.minimize(tf.reduce_sum(variable.sparse_read([0])), count)
        saver = tf1.train.Saver()
        with initialized_session() as session:
            for _ in range(3):
                session.run(step)
            saver.save(session, path)
    names = [name for name, _ in tf.train.list_variables(path)]
    assert "v/AdagradDecay/decays" in names
    names.remove("v/AdagradDecay/decays")
    write_tensors(without, {name: tf.train.load_variable(path, name) for name in names})
    with tf.Graph().as_default(), tf1.Session() as session:
        saver = tf1.train.import_meta_graph(without_saver(tmp_path))
        saver.restore(session, without)
        (decays,) = [v for v in tf1.global_variables() if v.op.name.endswith("decays")]
        assert session.run(decays) == -1


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
