# SPDX-License-Identifier: Apache-2.0
"""`sok.Saver` in eager mode: each call does its work at once."""

import numpy as np
import pytest
import tensorflow as tf

from tests.support.cases.layer_cases import LayerCase


@pytest.fixture(params=[False, True], ids=["eager", "function"])
def run(request):
    """Calls a function, in a tf.function or not."""
    return (lambda work: tf.function(work)()) if request.param else (lambda work: work())


@pytest.mark.parametrize("use_hashtable", [True, False], ids=["hash", "direct"])
def test_dump_and_restore(sok, tmp_path, run, use_hashtable):
    layer = LayerCase("dynamic", use_hashtable, "int64").make_layer()
    table, saver, folder = layer.embedding_variable, sok.Saver(), str(tmp_path / "tables")
    before = layer(tf.constant([5, 6], tf.int64))
    assert run(lambda: saver.dump_to_file(table, folder)) == b"saved."
    layer(tf.constant([7, 8], tf.int64))
    optimizer = sok.optimizers.Adam(0.5)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(tf.constant([5, 6], tf.int64)))
    optimizer.apply_gradients([(tape.gradient(loss, table), table)])
    assert run(lambda: saver.restore_from_file(table, folder)) == b"restored."
    assert table.num_keys() == (2 if use_hashtable else 48)
    np.testing.assert_array_equal(layer(tf.constant([5, 6], tf.int64)), before)


@pytest.mark.parametrize("names", [list, lambda tables: {"old": tables[0]}], ids=["list", "dict"])
def test_savers_of_tensorflow_refuse_tables(sok, tmp_path, names):
    table = LayerCase("dynamic", True, "int64").make_layer().embedding_variable
    saver = tf.compat.v1.train.Saver(names([table]))
    with pytest.raises(NotImplementedError, match=f"eager mode.*{table.m_var_name}.*sok.Saver"):
        saver.save(None, str(tmp_path / "model"))


def test_load_embedding_values(sok, run):
    layer = LayerCase("dynamic", True, "int64").make_layer()
    rows = np.arange(12, dtype=np.float32).reshape(3, 4)
    loaded = run(lambda: sok.Saver().load_embedding_values(layer.embedding_variable, rows))
    assert loaded == b"loaded."
    np.testing.assert_array_equal(layer(tf.constant([2, 0], tf.int64)), rows[[2, 0]])
    with pytest.raises(tf.errors.InvalidArgumentError):
        run(lambda: sok.Saver().load_embedding_values(layer.embedding_variable, rows[:, :3]))
