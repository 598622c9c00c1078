# SPDX-License-Identifier: Apache-2.0
"""How scripts use stock optimizers on tables: clipping, learning rates, minimize, wrappers.

The reference is an ordinary variable whose lookup, too, has a gradient with one slice for each
distinct row. That of a plain lookup has one for each occurrence, and TensorFlow's clipping takes
them as they are: it would see another norm.
"""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

import sok_compat as sok
from sok_compat.runtime.tf_versions import keras_of_layers as keras
from tests.support.assertions import assert_close

tf1 = tf.compat.v1
train, legacy = tf1.train, keras.optimizers.legacy
CAPACITY, DIM, NUM_STEPS = 16, 3, 12


class Side:
    """A model on one table and a dense variable, or on ordinary variables only."""

    def __init__(self, keys, labels, use_hashtable=None):
        self.has_table = use_hashtable is not None
        if self.has_table:
            self.layer = sok.All2AllDenseEmbedding(
                CAPACITY, DIM, 1, 1, dynamic_input=True, use_hashtable=use_hashtable
            )
            rows = self.layer.embedding_variable
        else:
            rows = tf1.Variable(tf.zeros([CAPACITY, DIM]), use_resource=True)
        self.variables = [rows, tf1.Variable(tf.ones([DIM, 1]), use_resource=True)]
        self._keys, self._labels = keys, labels
        self.loss = self.make_loss()

    def make_loss(self):
        if self.has_table:
            features = self.layer(self._keys)
        else:
            distinct, places = tf.unique(self._keys)
            features = tf.gather(tf.gather(self.variables[0], distinct), places)
        return tf.reduce_mean((features @ self.variables[1] - self._labels) ** 2)

    def scope(self):
        return sok.OptimizerScope(self.variables) if self.has_table else contextlib.nullcontext()


def assert_same_training(build):
    """`build(side)` makes the training op of a Side, inside its scope; both take the same steps."""
    for use_hashtable in (True, False):
        with tf.Graph().as_default():
            sok.Init(global_batch_size=4, seed=3)
            keys = tf1.placeholder(tf.int64, [None])
            labels = tf1.placeholder(tf.float32, [None, 1])
            sides = [Side(keys, labels, use_hashtable), Side(keys, labels)]
            steps = []
            for side in sides:
                with side.scope():
                    steps.append(build(side))
            every_row = sides[0].layer(tf.range(CAPACITY, dtype=tf.int64), training=False)
            copy_rows = sides[1].variables[0].assign(every_row)
            rng = np.random.default_rng(5)
            with tf1.Session() as session:
                session.run(tf1.global_variables_initializer())
                session.run(copy_rows)
                start = session.run(every_row)
                for _ in range(NUM_STEPS):
                    feed = {
                        keys: np.minimum(*rng.integers(0, CAPACITY, [2, 6])),
                        labels: 3 * rng.normal(size=[6, 1]),
                    }
                    # Before the steps, which may have losses of their own.
                    assert_close(*session.run([side.loss for side in sides], feed))
                    session.run(steps, feed)
                rows, plain = session.run([every_row, sides[1].variables[0]])
                assert_close(rows, plain)
                assert np.abs(rows - start).max() > 1e-3
                assert_close(*session.run([side.variables[1] for side in sides]))


def apply_clipped(clip):
    def build(side):
        gradients = clip(tf.gradients(side.loss, side.variables))
        return train.AdagradOptimizer(0.5).apply_gradients(zip(gradients, side.variables))

    return build


CLIPPING = {
    "by_global_norm": lambda gradients: tf.clip_by_global_norm(gradients, 0.5)[0],
    "by_norm": lambda gradients: [tf.clip_by_norm(g, 0.05) for g in gradients],
    "by_value": lambda gradients: [tf.clip_by_value(g, -0.02, 0.03) for g in gradients],
}


@pytest.mark.parametrize("clip", CLIPPING.values(), ids=CLIPPING)
def test_clipped_gradients(clip):
    assert_same_training(apply_clipped(clip))


@pytest.mark.parametrize("option", ["clipnorm", "clipvalue", "global_clipnorm"])
def test_clipping_options_of_keras(option):
    def build(side):
        gradients = tf.gradients(side.loss, side.variables)
        optimizer = legacy.Adagrad(0.5, **{option: 0.05})
        return optimizer.apply_gradients(zip(gradients, side.variables))

    assert_same_training(build)


def test_clipped_gradients_still_name_each_row_once(sok):
    """So that the fused update and the skipped merging hold for them, too."""
    layer = sok.All2AllDenseEmbedding(CAPACITY, DIM, 1, 1, dynamic_input=True)
    table = layer.embedding_variable
    loss = tf.reduce_sum(layer(tf.constant([3, 1, 3], tf.int64)) ** 2)
    for name, clip in CLIPPING.items():
        clipped = clip(tf.gradients(loss, [table]))
        before = len(tf1.get_default_graph().get_operations())
        with sok.OptimizerScope([table]):
            train.AdagradOptimizer(0.5, name=name).apply_gradients(zip(clipped, [table]))
        made = tf1.get_default_graph().get_operations()[before:]
        assert [op.type for op in made].count("SokApplyRule") == 1, name


def exponential_decay(side):
    step = tf1.Variable(0, trainable=False, use_resource=True)
    rate = train.exponential_decay(0.5, step, decay_steps=2, decay_rate=0.5)
    gradients = tf.gradients(side.loss, side.variables)
    optimizer = train.AdagradOptimizer(rate)
    return optimizer.apply_gradients(zip(gradients, side.variables), global_step=step)


def with_rate(make_optimizer):
    def build(side):
        gradients = tf.gradients(side.loss, side.variables)
        return make_optimizer().apply_gradients(zip(gradients, side.variables))

    return build


schedules = keras.optimizers.schedules
RATES = {
    "tf1-exponential_decay": exponential_decay,
    "tf1-tensor": with_rate(lambda: train.AdamOptimizer(tf.constant(0.1))),
    "tf1-callable": with_rate(lambda: train.AdamOptimizer(lambda: 0.1)),
    "tf1-unknown-shape": with_rate(
        lambda: train.AdamOptimizer(tf1.placeholder_with_default(0.1, None))
    ),
    "tf1-adagrad-tensor": with_rate(lambda: train.AdagradOptimizer(tf.constant(0.1))),
    "legacy-tensor": with_rate(lambda: legacy.Adam(tf.constant(0.1))),
    "legacy-callable": with_rate(lambda: legacy.Adagrad(lambda: 0.1)),
    "legacy-schedule": with_rate(
        lambda: legacy.Adagrad(schedules.PiecewiseConstantDecay([3, 6], [0.5, 0.2, 0.1]))
    ),
    "legacy-schedule-adam": with_rate(lambda: legacy.Adam(schedules.ExponentialDecay(0.3, 2, 0.5))),
    "legacy-decay": with_rate(lambda: legacy.SGD(0.5, momentum=0.5, decay=0.1)),
}


@pytest.mark.parametrize("build", RATES.values(), ids=RATES)
def test_learning_rates(build):
    assert_same_training(build)


MINIMIZE = {
    "tf1": lambda side: train.AdamOptimizer(0.1).minimize(side.loss, var_list=side.variables),
    "tf1-all-trainable": lambda side: train.AdagradOptimizer(0.1).minimize(side.loss),
    "tf1-compute-apply": lambda side: (
        lambda optimizer: optimizer.apply_gradients(
            optimizer.compute_gradients(side.loss, side.variables)
        )
    )(train.MomentumOptimizer(0.1, 0.9)),
    "legacy-callable": lambda side: legacy.Adam(0.1).minimize(side.make_loss, side.variables),
    "legacy-get_updates": lambda side: tf.group(
        *legacy.Adagrad(0.1).get_updates(side.loss, side.variables)
    ),
}


@pytest.mark.parametrize("build", MINIMIZE.values(), ids=MINIMIZE)
def test_minimize(build):
    assert_same_training(build)


def two_optimizers(side):
    """Each applies the gradient of its half of the loss, one after the other."""
    first, second = train.AdagradOptimizer(0.1), train.AdamOptimizer(0.1)
    gradients = tf.gradients(0.5 * side.loss, side.variables)
    step = first.apply_gradients(zip(gradients, side.variables))
    with tf.control_dependencies([step]):
        later = [
            tf.IndexedSlices(tf.identity(g.values), g.indices, g.dense_shape)
            if isinstance(g, tf.IndexedSlices)
            else tf.identity(g)
            for g in gradients
        ]
        return second.apply_gradients(zip(later, side.variables))


def average_of_dense(side):
    """A moving average of the dense variable, which the table takes no part in."""
    gradients = tf.gradients(side.loss, side.variables)
    step = train.AdamOptimizer(0.1).apply_gradients(zip(gradients, side.variables))
    with tf.control_dependencies([step]):
        return train.ExponentialMovingAverage(0.9).apply(side.variables[1:])


def with_loss_scale(side):
    optimizer = train.experimental.MixedPrecisionLossScaleOptimizer(
        train.AdamOptimizer(0.1), tf1.mixed_precision.DynamicLossScale(1024.0)
    )
    return optimizer.minimize(side.loss, var_list=side.variables)


WRAPPED = {
    "two-optimizers": two_optimizers,
    "moving-average": average_of_dense,
    "loss-scale": with_loss_scale,
}


@pytest.mark.parametrize("build", WRAPPED.values(), ids=WRAPPED)
def test_several_at_once(build):
    assert_same_training(build)
