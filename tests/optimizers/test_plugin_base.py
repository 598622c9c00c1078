# SPDX-License-Identifier: Apache-2.0
"""`sok.optimizers.optimizer.Optimizer`: a plugin optimizer of one's own."""

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.sparse_operation_kit.optimizers.optimizer import Optimizer
from tests.support.cases.layer_cases import LayerCase
from tests.support.sessions import initialized_session


class Descent(Optimizer):
    """Gradient descent with a rate of 0.5, on tables."""

    def _resource_apply_sparse_duplicate_indices(self, grad, handle, indices, **kwargs):
        return handle.scatter_sub(tf.IndexedSlices(0.5 * grad, indices))


def test_a_subclass_trains_tables(sok):
    layer = LayerCase("dynamic", True, "int64").make_layer()
    table, output = layer.embedding_variable, layer(tf.constant([4, 2, 4], tf.int64))
    optimizer = Descent("mine")
    (gradient,) = tf.gradients(tf.reduce_sum(output), [table])
    step = optimizer.apply_gradients([(gradient, table)])
    assert tf.compat.v1.get_collection(sok.GraphKeys.SparseOperationKitOptimizer) == [optimizer]
    assert isinstance(optimizer.initializer, tf.Operation)
    with initialized_session() as session:
        before = session.run(output)
        session.run(step)
        after = session.run(output)
    moved = np.array([1.0, 0.5, 1.0], np.float32)[:, np.newaxis]
    np.testing.assert_allclose(before - after, np.broadcast_to(moved, before.shape), rtol=1e-5)


def test_states_need_no_initializer_in_eager_mode():
    assert Descent("mine").initializer is None


def test_a_subclass_trains_nothing_else(sok):
    variable = tf.compat.v1.Variable([1.0], use_resource=True)
    with pytest.raises(ValueError, match="sok.optimizers.Descent trains EmbeddingVariables only"):
        Descent("mine").apply_gradients([(tf.ones([1]), variable)])
    with pytest.raises(NotImplementedError, match="no config"):
        Descent("mine").get_config()
