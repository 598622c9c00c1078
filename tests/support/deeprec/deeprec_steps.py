# SPDX-License-Identifier: Apache-2.0
"""Steps of an embedding variable that filters or evicts keys."""

import tensorflow as tf

from sok_compat.deeprec.optimizer_rules import stock_optimizers
from sok_compat.deeprec.variables.options import EmbeddingVariableOption, InitializerOption
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from sok_compat.runtime.op_library import ops

tf1 = tf.compat.v1
NO_PERMISSION = -3.0


def get_variable(initializer=None, name="v", init=None, **settings):
    """Of ones, where a key without a row reads NO_PERMISSION; settings are those of the option."""
    init = init or InitializerOption(default_value_no_permission=NO_PERMISSION)
    option = EmbeddingVariableOption(init_option=init, **settings)
    return get_embedding_variable(
        name, 2, initializer=initializer or tf1.ones_initializer(), ev_option=option
    )


class Steps:
    """Gradient descent on the sum of the rows of a batch: a row goes down by 0.25 for each
    occurrence of its key."""

    def __init__(self, variable, optimizer=None, step=None):
        self.variable = variable
        self.step = tf1.train.get_or_create_global_step() if step is None else step
        self.ids = tf1.placeholder(tf.int64, [None])
        self.rows = tf.nn.embedding_lookup(variable, self.ids)
        optimizer = optimizer or stock_optimizers.GradientDescentOptimizer(0.25)
        self.train_op = optimizer.minimize(tf.reduce_sum(self.rows), self.step)
        self.contents = variable.export()

    def train(self, session, *ids):
        """What each of the ids read."""
        return session.run([self.rows, self.train_op], {self.ids: ids})[0][:, 0].tolist()

    def read(self, session, *ids):
        return session.run(self.rows, {self.ids: ids})[:, 0].tolist()

    def stored(self, session):
        """{key: (first number of its row, version, freq)}"""
        keys, rows, *known = session.run(self.contents)
        return {key: (row[0], *k) for key, row, *k in zip(keys, rows, *known)}


def found_rows(variable, ids):
    """The row ids of keys; -1: none."""
    (row_ids,) = ops.sok_find_rows(
        [variable.table_handle], [ids], [], insert=False, keys_are_distinct=False
    )
    return row_ids
