# SPDX-License-Identifier: Apache-2.0
"""What OptimizerScope makes of stock updates; their numbers are compared in tests/layers."""

import numpy as np
import pytest
import tensorflow as tf

import sok_compat as sok
from sok_compat.runtime.tf_versions import keras

tf1 = tf.compat.v1

legacy = keras.optimizers.legacy
ADAGRADS = {
    "TF1": lambda: tf1.train.AdagradOptimizer(0.1),
    "Keras": lambda: legacy.Adagrad(0.1),
}
FUSED = {
    **{f"{name} Adagrad": make for name, make in ADAGRADS.items()},
    "TF1 GradientDescent": lambda: tf1.train.GradientDescentOptimizer(0.1),
    "TF1 GradientDescent, a tensor": lambda: tf1.train.GradientDescentOptimizer(tf.constant(0.1)),
    "Keras SGD": lambda: legacy.SGD(0.1),
    "TF1 Momentum": lambda: tf1.train.MomentumOptimizer(0.1, 0.9),
    "TF1 Nesterov": lambda: tf1.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "TF1 RMSProp": lambda: tf1.train.RMSPropOptimizer(0.1),
    "Keras RMSprop with momentum": lambda: legacy.RMSprop(0.1, momentum=0.5),
    "TF1 Ftrl": lambda: tf1.train.FtrlOptimizer(0.1),
    "TF1 Ftrl with shrinkage": lambda: tf1.train.FtrlOptimizer(
        0.1, l2_shrinkage_regularization_strength=0.1
    ),
}
NOT_FUSED = {
    "KerasMomentum": lambda: legacy.SGD(0.1, momentum=0.9),
    "CenteredRMSProp": lambda: tf1.train.RMSPropOptimizer(0.1, centered=True),
    "Ftrl": lambda: tf1.train.FtrlOptimizer(0.1, learning_rate_power=-0.4),
    "FtrlV2": lambda: legacy.Ftrl(  # its learning_rate_power is a variable
        0.1, l2_shrinkage_regularization_strength=0.1
    ),
}


def _update_types(make_optimizer, num_lookups):
    """One step of an optimizer: the types of the ops it ran, rows before, rows after."""
    with tf.Graph().as_default() as graph:
        sok.Init(global_batch_size=2, seed=1)
        layer = sok.All2AllDenseEmbedding(10, 4, 1, 1, dynamic_input=True)
        vectors = [layer(tf.constant([3, 5, 3], tf.int64)) for _ in range(num_lookups)]
        first_rows = layer(tf.constant([3, 5], tf.int64), training=False)
        loss = tf.add_n([tf.reduce_sum(tf.square(v)) for v in vectors])
        variables = [layer.embedding_variable]
        gradients = tf.gradients(loss, variables)
        with sok.OptimizerScope(variables):
            train = make_optimizer().apply_gradients(zip(gradients, variables))
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            before = session.run(first_rows)
            metadata = tf1.RunMetadata()
            options = tf1.RunOptions(trace_level=tf1.RunOptions.SOFTWARE_TRACE)
            session.run(train, options=options, run_metadata=metadata)
            after = session.run(first_rows)
        names = {
            node.node_name.split(":")[0]
            for device in metadata.step_stats.dev_stats
            for node in device.node_stats
        }
        known = {op.name: op.type for op in graph.get_operations()}
        return {known[name] for name in names if name in known}, before, after


@pytest.mark.parametrize("kind", FUSED)
def test_rows_named_once_are_not_merged_again(kind):
    types, _, _ = _update_types(FUSED[kind], num_lookups=1)
    assert "SokApplyRule" in types
    assert "Unique" not in types and "UnsortedSegmentSum" not in types


@pytest.mark.parametrize("kind", ADAGRADS)
def test_rows_named_by_two_lookups_are_merged_by_the_stock_optimizer(kind):
    types, before, after = _update_types(ADAGRADS[kind], num_lookups=2)
    assert "SokApplyRule" not in types and "Unique" in types
    occurrences = np.array([[2], [1]])  # of the keys 3 and 5, in each lookup
    gradient = 2 * 2 * occurrences * before
    expected = before - 0.1 * gradient / np.sqrt(0.1 + gradient**2)
    np.testing.assert_allclose(after, expected, rtol=1e-5)


@pytest.mark.parametrize("update", NOT_FUSED)
def test_an_optimizer_without_a_fused_update_skips_the_merge_too(update):
    types, _, _ = _update_types(NOT_FUSED[update], num_lookups=1)
    assert f"ResourceSparseApply{update}" in types
    assert "Unique" not in types and "SokApplyRule" not in types
