# SPDX-License-Identifier: Apache-2.0
"""What ranks are told while they read rows of their own, then the same, in a plain session."""

import logging
import time

import numpy as np
import tensorflow as tf

from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.ranks.exchange import WATCH_SECONDS
from sok_compat.tables import Table
from tests.distributed.workers.heard import Heard
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config

STEPS, BATCH = 6, 200
EACH = {
    "own rows": lambda step: np.arange(BATCH) * SIZE + RANK + step,
    "all rows": lambda step: np.arange(BATCH),
    "some rows": lambda step: np.arange(BATCH) + (step if step != 2 else 7 * RANK),
    "few rows": lambda step: np.arange(4) + step,
    "evaluation": lambda step: np.arange(BATCH) + step,
    "same rows": lambda step: np.arange(BATCH) + step,
}


def main():
    heard, told = Heard(), {}
    logging.getLogger("sok_compat").addHandler(heard)
    for case, keys_of in EACH.items():
        with tf.Graph().as_default():
            table = Table(4 * BATCH * SIZE, 4)
            keys = tf.compat.v1.placeholder(tf.int64, [None])
            (rows,) = lookup_group([Lookup(table, keys)], insert=True)
            run = rows if case == "evaluation" else tf.gradients(rows, table)
            with tf.compat.v1.Session(config=session_config(rewrites=False)) as session:
                session.run(tf.compat.v1.global_variables_initializer())
                for step in range(STEPS):
                    session.run(run, {keys: keys_of(step)})
        time.sleep(3 * WATCH_SECONDS)
        told[case] = heard.messages[:]
        heard.messages.clear()
    report(told)


if __name__ == "__main__":
    main()
