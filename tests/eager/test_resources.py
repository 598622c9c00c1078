# SPDX-License-Identifier: Apache-2.0
"""What tables are in eager mode: their names, and that what they hold goes with them."""

import gc
import re
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import keras_of_layers as keras
from sok_compat.runtime.tf_versions import variable_of
from sok_compat.sparse_operation_kit.core import EmbeddingVariable
from sok_compat.tables.slots.slot_variable import SlotVariable
from tests.support.cases.layer_cases import LayerCase
from tests.support.processes.subprocess_python import run_python

CASE = LayerCase("dynamic", True, "int64", dim=3)


def test_names_are_those_of_graph_mode(sok):
    first, second = EmbeddingVariable([4, 2], 0), CASE.make_layer().embedding_variable
    with tf.name_scope("outer"):
        third, fourth = EmbeddingVariable([4, 2], 0), EmbeddingVariable([4, 2], 0)

    @tf.function
    def make():
        made.append(EmbeddingVariable([4, 2], 0))

    made = []
    make()
    tables = [first, second, third, fourth, *made]
    assert [table.m_var_name for table in tables] == [
        "EmbeddingVariable",
        "EmbeddingVariable_1",
        "outer/EmbeddingVariable",
        "outer/EmbeddingVariable_1",
        "EmbeddingVariable_2",
    ]
    assert len({table._unique_id for table in tables}) == 5
    keras.backend.clear_session()
    again = EmbeddingVariable([4, 2], 0)
    assert again.m_var_name == "EmbeddingVariable" and again._unique_id != first._unique_id


def test_a_table_as_a_variable(sok):
    layer = CASE.make_layer(capacity=10**9)
    table = layer.embedding_variable
    assert table.is_initialized()
    assert table.initializer is None and table.num_keys() == 0
    assert isinstance(table, tf.Variable) and "10000" in repr(table) and "numpy" not in repr(table)
    assert [variable_of(v) is table for v in layer.trainable_variables] == [True]
    assert not tf.compat.v1.global_variables() and not tf.compat.v1.trainable_variables()
    with pytest.raises(NotImplementedError):
        table.__deepcopy__({})


def test_value_is_differentiable(sok):
    layer = CASE.make_layer(capacity=5)
    output = layer(tf.constant([8, 9], tf.int64))
    table = layer.embedding_variable
    np.testing.assert_array_equal(np.array(table)[:2], output)
    assert not table.value().numpy()[2:].any()
    with tf.GradientTape() as tape:
        loss = tf.nn.l2_loss(table.value())
    np.testing.assert_array_equal(tape.gradient(loss, table), table.initialized_value())
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(table * 2.0)
    assert tape.gradient(loss, table).shape == [5, 3]


def test_a_table_goes_with_its_layer(sok):
    def make():
        layer = CASE.make_layer()
        layer(tf.constant([1, 2], tf.int64))
        return layer.embedding_variable.emb_handle, layer

    handle, layer = make()
    assert ops.sok_table_size(handle).numpy() == 2
    del layer
    gc.collect()
    with pytest.raises(tf.errors.FailedPreconditionError):
        ops.sok_table_size(handle)


def test_tables_of_one_name_need_scopes_of_their_own(sok):
    tables = [EmbeddingVariable([4, 2], 0)]
    keras.backend.clear_session()
    tables.append(EmbeddingVariable([4, 2], 0))
    with pytest.raises(ValueError, match="2 tables named EmbeddingVariable"):
        sok.OptimizerScope(tables)
    sok.OptimizerScope([tables[0], tables[0]])


def resident_mib():
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


@pytest.mark.thorough
@pytest.mark.parametrize("what", ["tables", "slots"])
def test_memory_is_given_back(sok, what):
    """Six times 64 MiB, one after the other."""
    rows, dim = 2**16, 256
    keys = tf.range(rows, dtype=tf.int64)

    def use_a_table():
        layer = sok.All2AllDenseEmbedding(rows, dim, 1, 1, dynamic_input=True)
        layer(keys)
        return layer

    kept = use_a_table()
    before = resident_mib()
    for _ in range(6):
        if what == "tables":
            use_a_table()
        else:
            slot = SlotVariable(kept.embedding_variable, "slot", dim, fill=1.0)
            assert np.all(slot.sparse_read([0, rows - 1]) == 1.0)
            del slot
        gc.collect()
    assert resident_mib() < before + 150


def test_slots_of_one_name_live_side_by_side(sok):
    """Two optimizers of one kind on one table: new rows start afresh in both; one is freed."""
    layer = CASE.make_layer()
    table = layer.embedding_variable
    slots = [SlotVariable(table, "slot", 3, fill) for fill in (1.0, 2.0)]
    layer(tf.constant([5], tf.int64))
    assert [slot.sparse_read([0])[0, 0].numpy() for slot in slots] == [1.0, 2.0]
    assert slots[0].name != slots[1].name
    assert [id(slot) for slot in table.slots] == [id(slot) for slot in slots]
    del slots[0]
    gc.collect()
    assert [id(slot) for slot in table.slots] == [id(slot) for slot in slots]


@pytest.mark.thorough
def test_declared_capacity_takes_no_memory():
    """2e9 rows of 16 floats and their slots: a model is fitted, and a few rows trained by hand."""
    printed = run_python(
        """
        from tests.support.processes.subprocess_python import peak_mib
        import tensorflow as tf
        import sok_compat as sok
        from sok_compat.runtime.tf_versions import keras_of_layers as keras

        sok.Init(global_batch_size=4)
        keys = tf.constant([[[0]], [[5]], [[2_000_000_000 - 1]], [[5]]], tf.int64)

        def fit(optimizer):
            layer = sok.All2AllDenseEmbedding(2_000_000_000, 16, 1, 1, use_hashtable=hashes)
            inputs = keras.Input([1, 1], dtype=tf.int64)
            model = keras.Model(inputs, layer(inputs))
            model.summary(print_fn=str)
            sok.OptimizerScope(model.trainable_variables).build(optimizer)
            model.compile(optimizer, "mse")
            before = model.predict(keys, verbose=0)
            model.fit(keys, tf.zeros([4, 1, 1, 16]), epochs=2, verbose=0)
            assert (model.predict(keys, verbose=0) != before).all()
            assert "2000000000" in repr(model.trainable_variables)

        for hashes in (True, False):
            fit(sok.tf.keras.optimizers.Adam(0.1))
            fit(keras.optimizers.legacy.SGD(0.1, momentum=0.9))
            fit(keras.optimizers.legacy.Adagrad(0.1))
            layer = sok.All2AllDenseEmbedding(2_000_000_000, 16, 1, 1, use_hashtable=hashes)
            optimizer = sok.tf.keras.optimizers.LazyAdamOptimizer(0.1)
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(layer(keys))
            table = layer.embedding_variable
            optimizer.apply_gradients([(tape.gradient(loss, table), table)])
        # All slots are made; that they are cheap is what is tested.
        optimizer = keras.optimizers.Adam(0.1)
        sok.OptimizerScope([table]).build(optimizer)
        assert [type(v).__name__ for v in optimizer.variables[1:]] == ["SlotVariable"] * 2
        print(peak_mib())
        """
    )
    assert 100 < int(printed) < 1500  # MiB, of which TensorFlow itself takes several hundred
