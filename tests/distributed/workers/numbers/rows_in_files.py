# SPDX-License-Identifier: Apache-2.0
"""Random steps on a table in memory beside the same in files, of which 1, 10 and 100 % are in
memory: lookups, training and eviction give the same bits, and each row that a lookup uses counts
once. Argument: steps."""

import sys

import numpy as np
import tensorflow as tf

import sok_compat
from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.new_keys import WITH_GRADIENT
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.summaries import stats
from sok_compat.tables import Table
from sok_compat.tables.key_history import KeyHistory
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config

tf1 = tf.compat.v1
DIM, NUM_KEYS, GLOBAL_BATCH = 256, 400, 32
ALL_BYTES = 2 * NUM_KEYS * DIM * 4 // SIZE  # of a rank
SHARES = (1, 10, 100)


def main():
    num_steps = int(sys.argv[1])
    history = KeyHistory(evicts=True)
    with tf.Graph().as_default(), tf1.Session(config=session_config()) as session:
        keys = tf1.placeholder(tf.int64, [None])
        tables = [
            Table(None, DIM, "ones", name=f"of_{share}_percent", history=history, **files)
            for share, files in {
                None: {},
                **{
                    share: {"storage_path": ".", "memory_bytes": ALL_BYTES * share // 100}
                    for share in SHARES
                },
            }.items()
        ]
        rows = lookup_group([Lookup(table, keys) for table in tables], WITH_GRADIENT)
        gradients = tf.gradients([tf.nn.l2_loss(each) for each in rows], tables)
        step = tf1.train.get_or_create_global_step()
        with sok_compat.OptimizerScope(tables):
            optimizer = tf1.train.AdagradOptimizer(0.1)
            train = optimizer.apply_gradients(zip(gradients, tables), step)
        read = lookup_group([Lookup(table, keys) for table in tables], False)
        evict = [table.evict(step, steps_to_live=30) for table in tables]
        exported = [table.export() for table in tables]
        session.run(tf1.global_variables_initializer())
        drawn, of_rank = np.random.default_rng(1), np.random.default_rng(2 + RANK)
        for _ in range(num_steps):
            batch = of_rank.zipf(1.2, GLOBAL_BATCH // SIZE) % NUM_KEYS
            what = drawn.choice(["train", "read", "evict"], p=[0.6, 0.32, 0.08])
            fetches = {"train": [rows, train], "read": [read], "evict": [evict]}[what]
            expected, *found = session.run(fetches, {keys: batch})[0]
            for each in found:
                np.testing.assert_array_equal(each, expected)
        expected, *found = session.run(exported)
        for each in found:
            np.testing.assert_array_equal(each[0], expected[0])
            np.testing.assert_array_equal(each[1], expected[1])
        figures = [stats()["tables"][table.table_name] for table in tables]
        session.run(read, {keys: np.arange(NUM_KEYS)})
        for table, before in zip(tables[1:], figures[1:]):
            after = stats()["tables"][table.table_name]
            assert after["rows_requested"] - before["rows_requested"] == after["keys"] > 0
    report({"keys": len(expected[0]), "rows_missed": [each["rows_missed"] for each in figures]})


if __name__ == "__main__":
    main()
