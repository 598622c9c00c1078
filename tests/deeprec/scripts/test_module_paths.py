# SPDX-License-Identifier: Apache-2.0
"""Names that TensorFlow 2 has moved are where TensorFlow 1's scripts import them."""

from tests.support.processes.subprocess_python import run_python

# Each line is true where the script's tensorflow is TensorFlow 1.
SCRIPT = """
import numpy as np
import tensorflow as tf
from tensorflow.contrib.layers import fully_connected
from tensorflow.contrib.layers.python import layers as contrib_layers
from tensorflow.contrib.layers.python.layers import batch_norm
from tensorflow.contrib.layers.python.layers import feature_column, feature_column_ops, layers
from tensorflow.contrib.rnn import BasicLSTMCell as Cell
from tensorflow.contrib.rnn.python.ops import core_rnn_cell
from tensorflow.contrib.rnn.python.ops.core_rnn_cell import _Linear
from tensorflow.python.feature_column import feature_column as fc, feature_column_v2
from tensorflow.python.feature_column.feature_column_v2 import categorical_column_with_multihash
from tensorflow.python.ops import array_ops, control_flow_ops, embedding_ops
from tensorflow.python.ops.control_flow_ops import while_loop
from tensorflow.python.ops.embedding_ops import fused_safe_embedding_lookup_sparse
from tensorflow.python.training import adagrad_decay, adagrad_decay_v2, adam_async
from tensorflow.python.training import weight_decay_optimizers as decay, optimizer
from tensorflow.python.ops.rnn_cell import *
from tensorflow.python.ops.rnn_cell import LSTMCell
from tensorflow.python.util import nest

assert core_rnn_cell._Linear is _Linear and Cell is tf.contrib.rnn.BasicLSTMCell
assert tf.contrib.layers.fully_connected is fully_connected is layers.fully_connected
assert tf.contrib.layers.batch_norm is batch_norm is layers.batch_norm
assert contrib_layers.l2_regularizer is tf.contrib.layers.l2_regularizer
assert tf.contrib.layers.embedding_column is feature_column.embedding_column
assert "input_from_feature_columns" in feature_column_ops.__all__
assert tf.contrib.rnn.GRUCell is tf.nn.rnn_cell.GRUCell
assert LSTMCell.__name__ == "LSTMCell" and issubclass(LSTMCell, RNNCell)
assert array_ops.stack is tf.stack and array_ops.reverse_sequence and array_ops.concat
assert control_flow_ops.cond is tf.cond and while_loop is tf.while_loop
assert control_flow_ops.Assert is tf.Assert and control_flow_ops.group is tf.group
assert nest.is_sequence([1]) and not nest.is_sequence(1) and nest.flatten([[1], 2]) == [1, 2]
assert ops.convert_to_tensor and math_ops.sigmoid and vs.get_variable is tf.get_variable
assert embedding_ops.embedding_lookup is tf.nn.embedding_lookup
assert adam_async.AdamAsyncOptimizer is tf.train.AdamAsyncOptimizer
assert adagrad_decay.AdagradDecayOptimizer is tf.train.AdagradDecayOptimizer
assert adagrad_decay_v2.AdagradDecayOptimizerV2 is tf.train.AdagradDecayOptimizerV2
extended = decay.extend_with_decoupled_weight_decay(tf.train.AdamOptimizer)
assert issubclass(extended, decay.DecoupledWeightDecayExtension)
assert decay.AdamWOptimizer is tf.train.AdamWOptimizer and issubclass(extended, optimizer.Optimizer)
assert fc.input_layer is tf.feature_column.input_layer and fc._LazyBuilder
assert fc.linear_model is tf.feature_column.linear_model and feature_column_v2.numeric_column
assert categorical_column_with_multihash is tf.feature_column.categorical_column_with_multihash
for name in feature_column_v2.__all__:
    assert getattr(feature_column_v2, name) is getattr(tf.feature_column, name)
try:
    core_rnn_cell._no_such_cell
except AttributeError as error:
    print(error)

for statement in (
    "import tensorflow.contrib.slim as slim",
    "from tensorflow.contrib import slim",
    "from tensorflow.contrib.slim import nets",
    "from tensorflow.contrib.losses import log_loss",
    "from tensorflow.contrib.layers.python.layers import utils",
    "from tensorflow.contrib.framework.python.ops import variables",
):
    try:
        exec(statement)
    except ModuleNotFoundError as error:
        print(error)

x, y = np.float32([[1, 2], [3, 4]]), np.float32([[5], [6]])
ones = tf.ones_initializer()
with tf.variable_scope("cell", initializer=tf.constant_initializer(0.5)):
    with tf.variable_scope("a"):
        joined = _Linear([tf.constant(x), y], 3, True, kernel_initializer=ones)
    with tf.variable_scope("b"):
        single = _Linear(tf.constant(x), 1, True, bias_initializer=ones)
    with tf.variable_scope("c"):
        plain = _Linear([x], 1, False)
    for args in ([], [np.float32([1])], [tf.placeholder(tf.float32, [2, None])]):
        try:
            _Linear(args, 1, False)
        except ValueError as error:
            print(error)
shapes = {v.op.name: v.shape.as_list() for v in tf.trainable_variables()}
assert shapes == {"cell/a/kernel": [3, 3], "cell/a/bias": [3], "cell/b/kernel": [2, 1],
                  "cell/b/bias": [1], "cell/c/kernel": [2, 1]}, shapes

ids = tf.SparseTensor([[0, 0], [0, 1], [2, 0]], tf.constant([1, 0, 1], tf.int64), [3, 2])
plain_rows = tf.nn.safe_embedding_lookup_sparse(tf.constant(x), ids)
fused_rows = fused_safe_embedding_lookup_sparse(embedding_weights=tf.constant(x), sparse_ids=ids,
                                                sparse_weights=None)
table = tf.get_embedding_variable("table", 2, initializer=tf.ones_initializer())
of_table = fused_safe_embedding_lookup_sparse(table, ids, combiner="sum", default_id=3)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    results = session.run([joined([x, y]), single(x), plain([x])])
    np.testing.assert_array_equal(results[0], np.repeat([[8], [13]], 3, 1))
    np.testing.assert_array_equal(results[1:], [[[2.5], [4.5]], [[1.5], [3.5]]])
    actual, expected, summed = session.run([fused_rows, plain_rows, of_table])
    np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(actual, [[2, 3], [0, 0], [3, 4]])
    np.testing.assert_array_equal(summed, [[2, 2], [1, 1], [1, 1]])
"""


def test_moved_names_and_what_they_do():
    printed = run_python(f"""
        from sok_compat.run.script_modules import own_code, read_imports_as_tensorflow_1
        read_imports_as_tensorflow_1()
        exec(own_code({SCRIPT!r}, "script.py"), {{"__name__": "__main__"}})
    """)
    lines = printed.splitlines()[-10:]
    assert "no tf.contrib.rnn.python.ops.core_rnn_cell._no_such_cell" in lines.pop(0)
    assert lines[5].endswith("use its package's own names, as tf.contrib.framework.arg_scope")
    uses = [line.partition(": use ")[2].partition(",")[0] for line in lines[:5]]
    assert uses == [*["tf.contrib.layers"] * 3, "tf.losses", "tf.layers or tf.feature_column"]
    lines = lines[5:]
    assert lines[1] == "_Linear needs at least one tensor of the shape [batch, size]"
    assert [line.startswith("_Linear takes tensors of the shape") for line in lines[2:]] == [1, 1]
