# SPDX-License-Identifier: Apache-2.0
"""Tables made without sok.Init, read and trained by each rank on its part of global batches: one
that grows, one that evicts keys when it is full, one that draws the keys that get rows, and one
with rows of two bytes, whose gradients' sums are exact, and one whose rows are in files if there
are several ranks."""

import numpy as np
import tensorflow as tf

from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.new_keys import EvictedKeys, KeyDraw, NewKeys
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.tables import Table
from sok_compat.tables.key_history import KeyHistory
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config

tf1 = tf.compat.v1
GLOBAL_BATCH, STEPS = 12, 6
MOST_KEYS = 24  # of all ranks


def lookups_of(keys, newest):
    """({table: its rows}, the EvictedKeys): keys are any, and the newest ones go on and on."""
    evicted = EvictedKeys()
    limit = KeyHistory(max_keys=MOST_KEYS // SIZE)
    tables = {name: Table(None, 3, "random_normal", name=name) for name in ("grows", "draws")}
    tables["evicts"] = Table(None, 3, "random_normal", name="evicts", history=limit)
    tables["halves"] = Table(None, 3, "random_normal", name="halves", row_dtype=tf.bfloat16)
    files = {"storage_path": ".", "memory_bytes": 1} if SIZE > 1 else {}  # a page
    tables["in_files"] = Table(None, 1024, "random_normal", name="in_files", **files)
    rows = lookup_group(
        [
            Lookup(tables["grows"], keys),
            Lookup(tables["draws"], keys, new_keys=NewKeys(draw=KeyDraw(0.5, seed=3))),
            Lookup(tables["evicts"], newest, new_keys=NewKeys(evicted=evicted)),
            Lookup(tables["halves"], keys),
            Lookup(tables["in_files"], keys),
        ],
        insert=True,
    )
    return dict(zip(tables.values(), rows)), evicted


def main():
    rng = np.random.default_rng(1)
    with tf.Graph().as_default(), tf1.Session(config=session_config()) as session:
        keys, newest = tf1.placeholder(tf.int64, [None]), tf1.placeholder(tf.int64, [None])
        found, evicted = lookups_of(keys, newest)
        losses = {
            table.table_name: tf.reduce_sum((rows - 1.0) ** 2) / GLOBAL_BATCH
            for table, rows in found.items()
        }
        tables = list(found)
        losses["halves"] = 2.0**-10 * tf.reduce_sum(found[tables[-1]])
        gradients = tf.gradients(list(losses.values()), tables)
        with tf.control_dependencies(list(losses.values())):
            train = tf1.train.GradientDescentOptimizer(0.5).apply_gradients(zip(gradients, tables))
        session.run(tf1.global_variables_initializer())
        seen = {name: [] for name in losses}
        gone = []
        for step in range(STEPS):
            mine = rng.integers(-30, 30, GLOBAL_BATCH)[RANK::SIZE]
            window = np.arange(GLOBAL_BATCH)[RANK::SIZE] + step * GLOBAL_BATCH // 2
            fed = {keys: mine, newest: window}
            of_step, keys_gone, rows_gone, _ = session.run(
                [losses, evicted.keys, evicted.rows, train], fed
            )
            for name, loss in of_step.items():
                seen[name].append(loss)
            gone.append(dict(zip(keys_gone.tolist(), rows_gone)))
        rows = {}
        for table in tables:
            exported, exported_rows = session.run(table.export())
            rows[table.table_name] = dict(zip(exported.tolist(), exported_rows))
    report({"losses": seen, "rows": rows, "gone": gone})


if __name__ == "__main__":
    main()
