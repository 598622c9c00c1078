# SPDX-License-Identifier: Apache-2.0
"""How variables of each API get rows of bfloat16 and float16: by an argument, or by default."""

import numpy as np
import pytest
import tensorflow as tf

import sok_compat as sok
from sok_compat.deeprec.lookups.group_lookup import group_embedding_lookup_sparse
from sok_compat.deeprec.optimizer_rules import stock_optimizers
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from sok_compat.runtime.settings import ROW_DTYPE
from sok_compat.sparse_operation_kit import communication
from sok_compat.sparse_operation_kit.core import EmbeddingVariable
from sok_compat.tables import Table
from tests.support.lookups import lookup

tf1 = tf.compat.v1
ROWS = np.linspace(-1, 1, 40).astype(np.float32).reshape(10, 4)
KEYS = [1, 2, 3, 3, 9]
FACES = {
    "SOK 1": lambda dtype: EmbeddingVariable([10, 4], 0, "ones", dtype=dtype),
    "sok.Variable": lambda dtype: sok.Variable(ROWS, dtype=dtype),
    "sok.DynamicVariable": lambda dtype: sok.DynamicVariable(4, "ones", dtype=dtype),
    "DeepRec": lambda dtype: get_embedding_variable(
        "v", 4, value_dtype=dtype, initializer=tf1.ones_initializer()
    ),
}


@pytest.fixture
def graph():
    communication.init()
    with tf.Graph().as_default() as graph:
        sok.Init(global_batch_size=4)
        yield graph


@pytest.mark.parametrize("dtype", ["bfloat16", tf.float16], ids=str)
@pytest.mark.parametrize("face", FACES)
def test_argument(graph, face, dtype):
    """A lookup is float32; training goes as that of float32, and rows stay in the dtype."""
    losses = {}
    for row_dtype in ("float32", dtype):
        with tf.Graph().as_default(), tf1.Session() as session:
            sok.Init(global_batch_size=4)
            table = FACES[face](row_dtype)
            assert table.dtype == tf.float32 and table.row_dtype == row_dtype
            rows = lookup(table, tf.constant(KEYS, tf.int64), True)
            loss = tf.reduce_sum((rows - 2.0) ** 2)
            make = stock_optimizers if face == "DeepRec" else tf1.train
            with sok.OptimizerScope([table]):
                step = make.AdagradOptimizer(0.3).minimize(loss, var_list=[table])
            session.run(tf1.global_variables_initializer())
            losses[row_dtype] = [session.run([loss, step])[0] for _ in range(5)]
            found = session.run(rows)
            numpy_dtype = tf.as_dtype(row_dtype).as_numpy_dtype
            assert found.dtype == np.float32
            np.testing.assert_array_equal(found, found.astype(numpy_dtype).astype(np.float32))
    np.testing.assert_allclose(losses[dtype], losses["float32"], rtol=0.02)


@pytest.mark.parametrize("face", FACES)
def test_default(graph, monkeypatch, face):
    assert FACES[face](None).row_dtype == tf.float32
    with tf.Graph().as_default():
        monkeypatch.setenv(ROW_DTYPE.name, "float16")
        sok.Init(global_batch_size=4)
        assert FACES[face](None).row_dtype == tf.float16
    with tf.Graph().as_default():
        sok.Init(global_batch_size=4, row_dtype=tf.bfloat16)
        assert FACES[face](None).row_dtype == tf.bfloat16
    with tf.Graph().as_default():
        sok.Init(global_batch_size=4, row_dtype="bfloat16")
        assert FACES[face]("float32").row_dtype == tf.float32


def test_init_takes_three_dtypes(graph):
    with pytest.raises(ValueError, match="row_dtype must be one of float32, bfloat16, float16, go"):
        sok.Init(global_batch_size=4, row_dtype="float64")


def test_a_variable_is_reused_with_its_own_dtype(graph):
    get_embedding_variable("v", 4, value_dtype=tf.bfloat16)
    with tf1.variable_scope("", reuse=True):
        with pytest.raises(ValueError, match="v already exists with value_dtype bfloat16"):
            get_embedding_variable("v", 4)
        assert get_embedding_variable("v", 4, value_dtype="bfloat16").row_dtype == tf.bfloat16


def test_a_group_of_all_dtypes(graph):
    """One request reads rows of each."""
    dtypes = ["float32", "bfloat16", "float16"]
    variables = [
        get_embedding_variable(
            name, 4, value_dtype=name, initializer=tf1.constant_initializer(1.001)
        )
        for name in dtypes
    ]
    bags = [tf.RaggedTensor.from_row_lengths([1, 1, 7], [2, 1])] * 3
    outputs = group_embedding_lookup_sparse(variables, bags, ["sum"] * 3)
    step = stock_optimizers.AdagradOptimizer(0.5).minimize(
        tf.add_n([tf.reduce_sum(output) for output in outputs]), var_list=variables
    )
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        for output, name in zip(session.run(outputs), dtypes):
            row = np.float32(np.asarray(1.001, tf.as_dtype(name).as_numpy_dtype))
            np.testing.assert_array_equal(output, [[2 * row] * 4, [row] * 4])
        session.run(step)
        expected, *others = session.run(outputs)
        for output in others:
            np.testing.assert_allclose(output, expected, rtol=0.02)


def test_a_table_that_needs_float32_says_so(graph):
    with pytest.raises(ValueError, match="dummy_var_handle needs .* dtype float32"):
        sok.raw_ops.dummy_var_handle(shape=[None, 3], dtype=tf.bfloat16)
    assert Table(8, 2).row_dtype == tf.float32
