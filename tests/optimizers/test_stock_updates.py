# SPDX-License-Identifier: Apache-2.0
"""What OptimizerScope makes of stock updates; their numbers are compared in tests/layers."""

import threading

import numpy as np
import pytest
import tensorflow as tf

import sok_compat as sok
from sok_compat.runtime.tf_versions import keras_of_layers as keras

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


LOCKING = {
    "Adagrad": lambda lock: tf1.train.AdagradOptimizer(0.1, use_locking=lock),
    "Momentum": lambda lock: tf1.train.MomentumOptimizer(0.1, 0.9, use_locking=lock),
    "RMSProp": lambda lock: tf1.train.RMSPropOptimizer(0.1, use_locking=lock),
    "Ftrl": lambda lock: tf1.train.FtrlOptimizer(0.1, use_locking=lock),
    "LazyAdam": lambda lock: sok.tf.keras.optimizers.LazyAdamOptimizer(0.1, use_locking=lock),
}
ROWS = 64


def _training(optimizer, is_dense):
    """(a step with gradients of 1 for ROWS rows, the table)."""
    sok.Init(global_batch_size=1, seed=1)
    layer = sok.All2AllDenseEmbedding(ROWS, 128, 1, 1, dynamic_input=True)
    table = layer.embedding_variable
    (gradient,) = tf.gradients(tf.reduce_sum(layer(tf.range(ROWS, dtype=tf.int64))), [table])
    gradient = tf.convert_to_tensor(gradient) if is_dense else gradient
    with sok.OptimizerScope([table]):
        return optimizer.apply_gradients([(gradient, table)]), table


@pytest.mark.parametrize("is_dense", [False, True], ids=["sparse", "dense"])
@pytest.mark.parametrize("use_locking", [False, True])
@pytest.mark.parametrize("kind", LOCKING)
def test_use_locking_is_kept(kind, use_locking, is_dense):
    with tf.Graph().as_default() as graph:
        _training(LOCKING[kind](use_locking), is_dense)
    (fused,) = (op for op in graph.get_operations() if op.type == "SokApplyRule")
    before = {op.type for op in fused.control_inputs}
    after = {op.type for op in fused._control_outputs}
    assert ("MutexLock" in before) == use_locking == ("ConsumeMutexLock" in after)


@pytest.mark.parametrize("is_dense", [False, True], ids=["sparse", "dense"])
def test_steps_at_once_lose_no_update_with_locking(is_dense):
    """Adagrad's accumulator counts the steps, since each gradient is 1."""
    with tf.Graph().as_default():
        optimizer = tf1.train.AdagradOptimizer(0.1, initial_accumulator_value=1, use_locking=True)
        step, table = _training(optimizer, is_dense)
        config = tf1.ConfigProto(inter_op_parallelism_threads=4)
        with tf1.Session(config=config) as session:
            session.run(tf1.global_variables_initializer())
            run = session.make_callable(step)
            threads = [threading.Thread(target=lambda: [run() for _ in range(100)]) for _ in "1234"]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            counts = session.run(table.slots[0])
    np.testing.assert_array_equal(counts, np.full([ROWS, 128], 401, np.float32))
