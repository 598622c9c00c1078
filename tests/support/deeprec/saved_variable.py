# SPDX-License-Identifier: Apache-2.0
"""An embedding variable that is trained, saved and restored."""

import tensorflow as tf

from sok_compat.deeprec.optimizer_rules import train_optimizers as optimizers
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable

tf1 = tf.compat.v1
DIM = 3


class Model:
    """One embedding variable 'v' in the default graph, an optimizer that trains it, a saver."""

    def __init__(self, make_optimizer=None, num_parts=None, saver=tf1.train.Saver, **options):
        partitioner = num_parts and tf1.fixed_size_partitioner(num_parts)
        self.variable = get_embedding_variable("v", DIM, partitioner=partitioner, **options)
        self.parts = list(self.variable) if num_parts else [self.variable]
        self.ids = tf1.placeholder(tf.int64, [None])
        self.rows = self.variable.sparse_read(self.ids)
        global_step = tf1.train.get_or_create_global_step()
        optimizer = (make_optimizer or _adagrad)(global_step)
        loss = tf.reduce_sum(tf.sin(self.rows))
        self.step = optimizer.minimize(loss, global_step, var_list=self.parts)
        self.saver = saver()

    def train(self, session, batches):
        for keys in batches:
            session.run(self.step, {self.ids: keys})

    def read(self, session, keys):
        return session.run(self.rows, {self.ids: keys})

    def stored(self, session):
        """{key: row}"""
        exported = [session.run(part.export()[:2]) for part in self.parts]
        return {key: tuple(row) for keys, rows in exported for key, row in zip(keys, rows)}


def _adagrad(global_step):
    del global_step
    return optimizers.AdagradOptimizer(0.1)


def saved(path, batches, **options):
    """What the rows are after these steps; saved."""
    with tf.Graph().as_default(), tf1.Session() as session:
        model = Model(**options)
        session.run(tf1.global_variables_initializer())
        model.train(session, batches)
        model.saver.save(session, path)
        return model.stored(session)
