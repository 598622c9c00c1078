# SPDX-License-Identifier: Apache-2.0
"""A table made without sok.Init, read and trained by each rank on its part of global batches."""

import numpy as np
import tensorflow as tf

from sok_compat.tables import Table
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config
from tests.support.lookups import lookup

tf1 = tf.compat.v1
GLOBAL_BATCH, STEPS = 12, 4


def main():
    rng = np.random.default_rng(1)
    with tf.Graph().as_default(), tf1.Session(config=session_config()) as session:
        table = Table(64, 3, "random_normal", name="x")
        keys = tf1.placeholder(tf.int64, [None])
        rows = lookup(table, keys, True)
        loss = tf.reduce_sum((rows - 1.0) ** 2) / GLOBAL_BATCH
        (gradient,) = tf.gradients(loss, [table])
        with tf.control_dependencies([loss]):
            train = tf1.train.AdagradOptimizer(0.5).apply_gradients([(gradient, table)])
        session.run(tf1.global_variables_initializer())
        losses = []
        for _ in range(STEPS):
            mine = rng.integers(-30, 30, GLOBAL_BATCH)[RANK::SIZE]
            losses.append(session.run([loss, train], {keys: mine})[0])
        held, held_rows = session.run(table.export())
    report({"losses": losses, "rows": dict(zip(held.tolist(), held_rows))})


if __name__ == "__main__":
    main()
