# SPDX-License-Identifier: Apache-2.0
"""Slots that the optimizers of tf.keras.optimizers.legacy make for tables are ordinary variables:
each rank's have its own rows, and Horovod's broadcasts leave them alone."""

import tensorflow as tf

from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.runtime.tf_versions import keras
from sok_compat.tables.known_tables import connected_ranks
from sok_compat.tables.placement import Placement
from sok_compat.tables.table import Table
from tests.distributed.workers.ranks import RANK, hvd, report, session_config

KEYS = [3 * RANK, 3 * RANK + 1, 3 * RANK + 2]  # of both ranks' tables


class Model:
    """A table, and a dense variable that differs by rank; slots of Adagrad."""

    def __init__(self):
        self.table = Table(16, 2, "ones", name="table", placement=placement())
        self.dense = tf.Variable([1.0 + RANK], name="dense")
        self.optimizer = keras.optimizers.legacy.Adagrad(0.5)

    def train(self):
        """Both slots are other ones on each rank."""

        def loss():
            (rows,) = lookup_group([Lookup(self.table, tf.constant(KEYS, tf.int64))], True)
            return tf.reduce_sum(rows * (1.0 + RANK)) + tf.reduce_sum(self.dense * (1.0 + RANK))

        return self.optimizer.minimize(loss, [self.table, self.dense])

    def slots(self):
        return [self.optimizer.get_slot(v, "accumulator") for v in (self.table, self.dense)]


def placement():
    return Placement.by_modulo(connected_ranks())


def in_eager_mode():
    """[what broadcasts: (slots before, slots after)]."""
    seen = []
    for inplace in (False, True):
        model = Model()
        model.train()
        before = [slot.numpy() for slot in model.slots()]
        hvd.broadcast_variables(model.optimizer.variables(), 0, inplace=inplace)
        seen.append((before, [slot.numpy() for slot in model.slots()]))
    return seen


def in_graphs():
    """The same, with all global variables."""
    with tf.Graph().as_default():
        model = Model()
        train = model.train()
        slots = model.slots()
        broadcast = hvd.broadcast_global_variables(0)
        with tf.compat.v1.Session(config=session_config(rewrites=False)) as session:
            session.run(tf.compat.v1.global_variables_initializer())
            session.run(train)
            before = session.run(slots)
            session.run(broadcast)
            return [(before, session.run(slots))]


report({"eager": in_eager_mode(), "graph": in_graphs()})
