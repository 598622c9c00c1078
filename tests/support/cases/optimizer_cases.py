# SPDX-License-Identifier: Apache-2.0
"""Every optimizer that trains tables, with what it must equal on an ordinary variable."""

import dataclasses
from typing import Callable, Optional

import tensorflow as tf

import sok_compat as sok
from sok_compat.runtime.tf_versions import has_keras_2
from sok_compat.runtime.tf_versions import keras_of_layers as keras

train = tf.compat.v1.train
legacy = keras.optimizers.legacy


class DenseLazyAdam:
    """Lazy Adam on whole ordinary variables, in plain TensorFlow.

    For every row with a gradient: m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2, row -= lr *
    sqrt(1 - b2^t) / (1 - b1^t) * m / (sqrt(v) + epsilon). All other rows, their m and v stay.
    """

    def __init__(self, learning_rate, beta1=0.9, beta2=0.999, epsilon=1e-8):
        self._hyper = learning_rate, beta1, beta2, epsilon

    def apply_gradients(self, grads_and_vars):
        step = tf.compat.v1.Variable(0.0, trainable=False)
        with tf.control_dependencies([step.assign_add(1.0)]):
            count = step.read_value()
        return tf.group(*[self._apply(count, *pair) for pair in grads_and_vars])

    def _apply(self, count, gradient, variable):
        learning_rate, beta1, beta2, epsilon = self._hyper
        num_rows = variable.shape[0]
        merged = tf.math.unsorted_segment_sum(gradient.values, gradient.indices, num_rows)
        touched = tf.math.unsorted_segment_sum(
            tf.ones_like(gradient.indices), gradient.indices, num_rows
        )
        is_touched = (touched > 0)[:, tf.newaxis]
        m, v = (tf.compat.v1.Variable(tf.zeros(variable.shape), trainable=False) for _ in "mv")
        new_m = tf.where(is_touched, beta1 * m + (1 - beta1) * merged, m)
        new_v = tf.where(is_touched, beta2 * v + (1 - beta2) * merged**2, v)
        rate = learning_rate * tf.sqrt(1 - beta2**count) / (1 - beta1**count)
        move = tf.where(is_touched, rate * new_m / (tf.sqrt(new_v) + epsilon), 0.0)
        with tf.control_dependencies([new_m, new_v, move]):
            return tf.group(m.assign(new_m), v.assign(new_v), variable.assign_sub(move))


class DenseRowWiseAdagrad:
    """Row-wise Adagrad on whole ordinary variables, in plain TensorFlow."""

    def __init__(self, learning_rate, fill=0.1):
        self._learning_rate, self._fill = learning_rate, fill

    def apply_gradients(self, grads_and_vars):
        return tf.group(*[self._apply(*pair) for pair in grads_and_vars])

    def _apply(self, gradient, variable):
        num_rows, merged = variable.shape[0], tf.convert_to_tensor(gradient)
        sums = tf.compat.v1.Variable(tf.fill([num_rows, 1], self._fill), trainable=False)
        with tf.control_dependencies([merged]):
            mean = tf.reduce_mean(tf.square(merged), axis=1, keepdims=True)
            root = tf.sqrt(sums.assign_add(mean))
        return variable.assign_sub(self._learning_rate * merged / root)


@dataclasses.dataclass(frozen=True)
class OptimizerCase:
    """`make` trains tables; `make_reference` (the same by default) ordinary variables."""

    name: str
    make: Callable
    make_reference: Optional[Callable] = None
    needs_scope: bool = False
    num_slots: int = 1  # variables of a table's shape, or twice as wide
    step_rows: str = "batch"  # whose rows a step touches in the scope: 'batch' or 'in use'
    needs_all_keys: bool = False  # equal numbers only where all keys come before the first step

    def __str__(self):
        return self.name

    @property
    def is_other_way_in(self):
        """Whether another case has the same updates, by another API."""
        return self.name.endswith("-in-scope") or self.name in ("legacy.SGD", "legacy.Adagrad")

    def train_tables(self, gradients, tables):
        """The op that applies the gradients, built as the API asks for."""
        return self.apply(self.make(), gradients, tables)

    def apply(self, optimizer, gradients, tables):
        """As train_tables, by an optimizer that `make` made; in eager mode a step of it."""
        if not self.needs_scope:
            return optimizer.apply_gradients(zip(gradients, tables))
        with sok.OptimizerScope(tables):
            return optimizer.apply_gradients(zip(gradients, tables))

    def train_reference(self, gradients, variables):
        optimizer = (self.make_reference or self.make)()
        return optimizer.apply_gradients(zip(gradients, variables))


SOK_ADAM = OptimizerCase(
    "sok.optimizers.Adam",
    lambda: sok.optimizers.Adam(0.01),
    lambda: legacy.Adam(0.01),
    step_rows="in use",
)
SOK_KERAS_ADAM = OptimizerCase(
    "sok.tf.keras.Adam",
    lambda: sok.tf.keras.optimizers.Adam(0.01),
    lambda: legacy.Adam(0.01),
    step_rows="in use",
)
LAZY_ADAM = OptimizerCase(
    "LazyAdam",
    lambda: sok.tf.keras.optimizers.LazyAdamOptimizer(0.01),
    lambda: DenseLazyAdam(0.01),
)
ROW_WISE_ADAGRAD = OptimizerCase(
    "sok.optimizers.RowWiseAdagrad",
    lambda: sok.optimizers.RowWiseAdagrad(0.05),
    lambda: DenseRowWiseAdagrad(0.05),
)
SOK_OPTIMIZERS = [
    SOK_ADAM,
    SOK_KERAS_ADAM,
    dataclasses.replace(SOK_KERAS_ADAM, name="sok.tf.keras.Adam-in-scope", needs_scope=True),
    LAZY_ADAM,
    dataclasses.replace(LAZY_ADAM, name="LazyAdam-in-scope", needs_scope=True),
    ROW_WISE_ADAGRAD,
    dataclasses.replace(ROW_WISE_ADAGRAD, name="RowWiseAdagrad-in-scope", needs_scope=True),
]


def _step_of_its_own():
    """Not the global one: which of several optimizers first reads it or counts is chance."""
    with tf.compat.v1.variable_scope("", reuse=tf.compat.v1.AUTO_REUSE):
        return tf.compat.v1.get_variable("adagrad_da_step", [], tf.int64, trainable=False)


def _stock(name, num_slots, make, step_rows="batch"):
    return OptimizerCase(name, make, needs_scope=True, num_slots=num_slots, step_rows=step_rows)


# What models mostly use: with every kind of layer, and in the tests of sessions, saving, ranks.
COMMON_STOCK_OPTIMIZERS = [
    _stock("tf1.GradientDescent", 0, lambda: train.GradientDescentOptimizer(0.1)),
    _stock("tf1.Adagrad", 1, lambda: train.AdagradOptimizer(0.05)),
    _stock("tf1.Adam", 2, lambda: train.AdamOptimizer(0.01), "in use"),
    _stock("tf1.Momentum", 1, lambda: train.MomentumOptimizer(0.05, 0.9)),
    _stock("tf1.RMSProp", 2, lambda: train.RMSPropOptimizer(0.01)),
    _stock("legacy.SGD", 0, lambda: legacy.SGD(0.1)),
    _stock("legacy.Adagrad", 1, lambda: legacy.Adagrad(0.05)),
    _stock("legacy.Adam", 2, lambda: legacy.Adam(0.01), "in use"),
]
COMMON_OPTIMIZERS = SOK_OPTIMIZERS + COMMON_STOCK_OPTIMIZERS
_L1_L2 = dict(l1_regularization_strength=0.01, l2_regularization_strength=0.01)
STOCK_OPTIMIZERS = [
    *COMMON_STOCK_OPTIMIZERS,
    _stock("tf1.Nesterov", 1, lambda: train.MomentumOptimizer(0.05, 0.9, use_nesterov=True)),
    _stock(
        "tf1.AdagradDA",
        2,
        lambda: train.AdagradDAOptimizer(0.05, _step_of_its_own(), **_L1_L2),
    ),
    _stock(
        "tf1.RMSProp-centered",
        3,
        lambda: train.RMSPropOptimizer(0.01, momentum=0.5, centered=True),
    ),
    _stock("tf1.Ftrl", 2, lambda: train.FtrlOptimizer(0.05, **_L1_L2)),
    _stock(
        "tf1.Ftrl-shrinkage",
        2,
        lambda: train.FtrlOptimizer(0.05, l2_shrinkage_regularization_strength=0.01),
    ),
    _stock("tf1.Adadelta", 2, lambda: train.AdadeltaOptimizer(0.5)),
    _stock("tf1.ProximalAdagrad", 1, lambda: train.ProximalAdagradOptimizer(0.05, **_L1_L2)),
    _stock(
        "tf1.ProximalGradientDescent",
        0,
        lambda: train.ProximalGradientDescentOptimizer(0.05, **_L1_L2),
    ),
    _stock("legacy.SGD-momentum", 1, lambda: legacy.SGD(0.05, momentum=0.9)),
    _stock("legacy.SGD-nesterov", 1, lambda: legacy.SGD(0.05, momentum=0.9, nesterov=True)),
    _stock("legacy.Adam-amsgrad", 3, lambda: legacy.Adam(0.01, amsgrad=True), "in use"),
    _stock("legacy.Adamax", 2, lambda: legacy.Adamax(0.01)),
    _stock("legacy.Nadam", 2, lambda: legacy.Nadam(0.01), "in use"),
    _stock("legacy.RMSprop", 1, lambda: legacy.RMSprop(0.01), "in use"),
    _stock("legacy.RMSprop-momentum", 2, lambda: legacy.RMSprop(0.01, momentum=0.5)),
    _stock(
        "legacy.RMSprop-centered",
        2,
        lambda: legacy.RMSprop(0.01, centered=True),
        "in use",
    ),
    _stock(
        "legacy.RMSprop-centered-momentum",
        3,
        lambda: legacy.RMSprop(0.01, momentum=0.5, centered=True),
    ),
    _stock("legacy.Adadelta", 2, lambda: legacy.Adadelta(0.5)),
    _stock("legacy.Ftrl", 2, lambda: legacy.Ftrl(0.05, **_L1_L2)),
    _stock(
        "legacy.Ftrl-shrinkage",
        2,
        lambda: legacy.Ftrl(0.05, l2_shrinkage_regularization_strength=0.01, beta=0.1),
    ),
]
ALL_OPTIMIZERS = SOK_OPTIMIZERS + STOCK_OPTIMIZERS
# (optimizer, use_hashtable): slots of a table without a hash index do not depend on the optimizer.
EACH_ON_SOME_KIND = [
    *((optimizer, True) for optimizer in ALL_OPTIMIZERS),
    *((optimizer, False) for optimizer in (*SOK_OPTIMIZERS[:2], *STOCK_OPTIMIZERS[:2])),
]


def _keras(name, make, needs_all_keys=False):
    return OptimizerCase(name, make, needs_all_keys=needs_all_keys)


_OF_KERAS_2 = [_keras("keras.Adafactor", lambda: keras.optimizers.Adafactor(0.01), True)]
_OF_KERAS_3 = [
    _keras("keras.Lamb", lambda: keras.optimizers.Lamb(0.01), True),
    _keras(
        "keras.LossScaleOptimizer",
        lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01), 8.0),
    ),
]
# Of tf.keras.optimizers, for eager mode and functions.
KERAS_OPTIMIZERS = [
    _keras("keras.SGD", lambda: keras.optimizers.SGD(0.1)),
    _keras("keras.SGD-momentum", lambda: keras.optimizers.SGD(0.05, momentum=0.9)),
    _keras("keras.SGD-nesterov", lambda: keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True)),
    _keras("keras.Adagrad", lambda: keras.optimizers.Adagrad(0.05)),
    _keras("keras.Adam", lambda: keras.optimizers.Adam(0.01)),
    _keras("keras.Adam-amsgrad", lambda: keras.optimizers.Adam(0.01, amsgrad=True)),
    _keras("keras.Adam-clipnorm", lambda: keras.optimizers.Adam(0.01, clipnorm=0.1)),
    _keras("keras.AdamW", lambda: keras.optimizers.AdamW(0.01, weight_decay=0.1), True),
    _keras("keras.Adamax", lambda: keras.optimizers.Adamax(0.01)),
    _keras("keras.Nadam", lambda: keras.optimizers.Nadam(0.01)),
    _keras("keras.RMSprop", lambda: keras.optimizers.RMSprop(0.01)),
    _keras("keras.RMSprop-momentum", lambda: keras.optimizers.RMSprop(0.01, momentum=0.5)),
    _keras("keras.RMSprop-centered", lambda: keras.optimizers.RMSprop(0.01, centered=True)),
    _keras("keras.Adadelta", lambda: keras.optimizers.Adadelta(0.5)),
    _keras("keras.Ftrl", lambda: keras.optimizers.Ftrl(0.05), True),
    _keras("keras.Lion", lambda: keras.optimizers.Lion(0.01)),
    *(_OF_KERAS_2 if has_keras_2 else _OF_KERAS_3),
]
