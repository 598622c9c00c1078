# SPDX-License-Identifier: Apache-2.0
"""Tables, and the optimizers that take their gradients."""

import sparse_operation_kit as sok
import tensorflow as tf

from sok_compat.runtime.tf_versions import has_keras_2, keras_of_layers
from sok_compat.tables.slots.keras_3_tables import TableVariable
from sok_compat.tables.table import Table

tf1 = tf.compat.v1


def new_table(initializer="zeros", capacity=None):
    """A table without a declared capacity, or with it, as Keras 3 needs one."""
    if has_keras_2 and capacity is None:
        return sok.DynamicVariable(2, initializer)
    table = Table(capacity or 1000, 2, initializer)
    if not has_keras_2:
        table.holder = TableVariable(table)
    return table


def update(optimizer, slices, table):
    is_of_keras_3 = not has_keras_2 and isinstance(optimizer, keras_of_layers.optimizers.Optimizer)
    optimizer.apply_gradients(
        [(slices, getattr(table, "holder", table) if is_of_keras_3 else table)]
    )


def read(table, keys):
    bags = tf.RaggedTensor.from_row_lengths(tf.constant(keys, tf.int64), [1] * len(keys))
    return sok.lookup_sparse(table, bags, combiners="sum")


def like(slices, values, indices):
    return tf.IndexedSlices(values, indices, slices.dense_shape)


class ByHand:
    def apply_gradients(self, pairs):
        return [variable.scatter_sub(slices) for slices, variable in pairs]


OPTIMIZERS = {
    "train.SGD": lambda: tf1.train.GradientDescentOptimizer(1.0),
    "train.Momentum": lambda: tf1.train.MomentumOptimizer(1.0, 0.5),
    "train.RMSProp": lambda: tf1.train.RMSPropOptimizer(0.1),
    "train.Adam": lambda: tf1.train.AdamOptimizer(0.1),
    "keras.SGD": lambda: keras_of_layers.optimizers.SGD(1.0),
    "keras.Adagrad": lambda: keras_of_layers.optimizers.Adagrad(0.1),
    "keras.Adam": lambda: keras_of_layers.optimizers.Adam(0.1),
    "sok.SGD": lambda: sok.SGD(1.0),
    "by hand": ByHand,
}
if has_keras_2:
    legacy = keras_of_layers.optimizers.legacy
    OPTIMIZERS.update(
        {
            "legacy.SGD": lambda: legacy.SGD(1.0),
            "legacy.Adam": lambda: legacy.Adam(0.1),
            "legacy.Adagrad": lambda: legacy.Adagrad(0.1),
            "wrapped train.Adam": lambda: sok.OptimizerWrapper(tf1.train.AdamOptimizer(0.1)),
            "wrapped legacy.SGD": lambda: sok.OptimizerWrapper(legacy.SGD(1.0)),
            "wrapped keras.Adam": lambda: sok.OptimizerWrapper(
                keras_of_layers.optimizers.Adam(0.1)
            ),
        }
    )
