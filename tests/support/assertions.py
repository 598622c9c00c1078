# SPDX-License-Identifier: Apache-2.0
"""What "equal" means for two runs of one model."""

import numpy as np
import tensorflow as tf

TOLERANCE = 1e-5


def assert_close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=TOLERANCE, atol=TOLERANCE)


def assert_outputs_equal(tables, plain, call):
    """Of one call, over all steps."""
    for table_outputs, plain_outputs in zip(tables.outputs, plain.outputs):
        assert table_outputs[call].shape == plain_outputs[call].shape
        assert_close(table_outputs[call], plain_outputs[call])


def assert_gradients_equal(tables, plain, layer):
    """Of one table, over all steps, by key."""
    for table_gradients, plain_gradients in zip(tables.gradients, plain.gradients):
        assert table_gradients[layer].keys() == plain_gradients[layer].keys()
        for key, gradient in table_gradients[layer].items():
            assert_close(gradient, plain_gradients[layer][key])


def assert_rows_equal(tables, plain, layer):
    """Of one table, after the last step; the table holds no key that was not looked up."""
    table_rows, plain_rows = tables.rows[layer], plain.rows[layer]
    assert set(table_rows) <= set(plain_rows)
    for key, row in table_rows.items():
        assert_close(row, plain_rows[key])


def assert_same_tensors(path, other, but_for=()):
    """Of two checkpoints."""
    assert tf.train.list_variables(path) == tf.train.list_variables(other)
    for name, _ in tf.train.list_variables(path):
        if name not in but_for:
            arrays = (tf.train.load_variable(each, name) for each in (path, other))
            np.testing.assert_array_equal(*arrays, name)
