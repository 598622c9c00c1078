# SPDX-License-Identifier: Apache-2.0
"""Columns of sequences of embedding variables, and modules of TensorFlow with names of DeepRec."""

import pytest

from tests.packaging.environments import write_files
from tests.support.processes.subprocess_python import run_python

SCRIPT = """
import numpy as np
import tensorflow as tf
from tensorflow.python.feature_column import sequence_feature_column
from tensorflow.python.ops import variables, array_ops
from tensorflow.python.ops.variables import CounterFilter, Variable
import tensorflow.python.ops.variables as by_path
from tensorflow.core.framework import graph_pb2, step_stats_pb2

assert variables is by_path and variables.EmbeddingVariableOption is tf.EmbeddingVariableOption
assert CounterFilter is tf.CounterFilter and array_ops.concat is tf.concat
assert graph_pb2.GraphDef is tf.GraphDef and Variable is variables.Variable

ids = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([7, -3, 7], tf.int64), [3, 2])
make = sequence_feature_column.sequence_categorical_column_with_embedding
option = variables.EmbeddingVariableOption()
ours = make("ids", dtype=tf.int64, ev_option=option)
stock = sequence_feature_column.sequence_categorical_column_with_hash_bucket("ids", 9, tf.int64)
columns = [tf.feature_column.embedding_column(column, 2, initializer=tf.ones_initializer())
           for column in (ours, stock)]
sequence, lengths = tf.contrib.feature_column.sequence_input_layer({"ids": ids}, [columns[0]])
assert sequence.shape[-1] == 2 and sequence.shape.rank == 3
loss = tf.reduce_sum(sequence)
step = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
assert [v.op.name for v in tf.trainable_variables()] == [
    "sequence_input_layer/ids_embedding/embedding_weights"]
(table,) = tf.trainable_variables()
both, _ = tf.contrib.feature_column.sequence_input_layer(
    {"a": ids, "ids": ids}, [columns[1], tf.feature_column.embedding_column(
        sequence_feature_column.sequence_categorical_column_with_embedding("a", tf.int64), 3)])
assert both.shape[-1] == 5
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    rows, found = session.run([sequence, lengths])
    assert found.tolist() == [2, 1, 0], found
    np.testing.assert_array_equal(rows[:, :, 0], [[1, 0], [1, 0], [0, 0]])  # -3 is left out
    session.run(step)
    keys, values, _, _ = session.run(table.export())
    assert keys.tolist() == [7] and values.tolist() == [[0, 0]], (keys, values)
    assert session.run(both).shape == (3, 2, 5)
try:
    tf.contrib.feature_column.sequence_input_layer(
        {"ids": ids}, [tf.feature_column.numeric_column("ids")])
except ValueError as error:
    assert "needs sequence columns, got 'ids'" in str(error), error
print("done")
"""


def test_sequences_of_an_embedding_variable(tmp_path):
    pytest.importorskip("tensorflow.python.feature_column.sequence_feature_column")
    write_files(tmp_path, {"script.py": SCRIPT})
    printed = run_python(f"""
        from sok_compat.run.program import main
        main([{str(tmp_path / "script.py")!r}])
    """)
    assert printed.splitlines()[-1] == "done"
