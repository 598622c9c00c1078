# SPDX-License-Identifier: Apache-2.0
"""The same lookups and gradients on two ranks, as each dtype that may travel, and from tables of
each."""

import numpy as np
import tensorflow as tf

import sok_compat as sok
from sok_compat.distributed_embeddings.python.layers.dist_model_parallel import DistributedEmbedding
from sok_compat.distributed_embeddings.python.layers.embedding import Embedding
from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.new_keys import WITH_GRADIENT
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.tables import Table
from sok_compat.tables.key_history import KeyHistory
from tests.distributed.workers.ranks import RANK, SIZE, report, session_config

tf1 = tf.compat.v1
DIM, KEYS = 16, np.arange(40)
BAGS = np.arange(8 * 24).reshape(8, 24)  # fewer bytes as sums
OFTEN = 257  # which bfloat16 has not
GRADIENTS = np.random.default_rng(5).normal(size=[SIZE, len(KEYS), DIM]).astype(np.float32)
GRADIENTS[0, :3] = [[1e6], [-np.inf], [np.nan]]
GRADIENTS[1:, :3] = 0.0


def by_key(slices, exported):
    """{key: gradient} of those that this rank owns."""
    return dict(zip(exported[0][slices.indices].tolist(), slices.values))


def of_unlike_batches(session, table):
    """Sums of the bags where rank 0 has them, and the other rank keys that repeat not, or none."""
    keys = tf1.placeholder(tf.int64, [None])
    splits = tf1.placeholder(tf.int64, [None])
    (sums,) = lookup_group([Lookup(table, keys, splits, "sum")], True)
    seen = []
    for others in (KEYS, KEYS[:0]):
        own = BAGS if RANK == 0 else others[:, np.newaxis]
        ends = own.shape[1] * np.arange(len(own) + 1)
        seen.append(session.run(sums, {keys: own.reshape(-1), splits: ends}))
    return seen


def at_owners(session, row_dtype):
    """Sums of all keys of two tables, by owners that have the batch."""
    tables = [Embedding(len(KEYS), DIM, combiner="sum", dtype=row_dtype) for _ in range(SIZE)]
    layer = DistributedEmbedding(tables, dp_input=False)
    sums = layer(
        [tf.constant(np.tile(KEYS, (SIZE, 1))) for _ in layer.strategy.input_ids_list[RANK]]
    )
    session.run(tf1.global_variables_initializer())
    with session.as_default():
        return session.run(sums), layer.get_weights()


def run(wire_dtype, row_dtype="float32"):
    """What this rank saw and sent."""
    with tf.Graph().as_default(), tf1.Session(config=session_config()) as session:
        sok.Init(global_batch_size=SIZE, seed=3, wire_dtype=wire_dtype, row_dtype=row_dtype)
        tables = [Table(400, DIM, "random_normal", name=name) for name in ("rows", "sums")]
        counted = Table(400, DIM, name="counted", history=KeyHistory(filter_freq=SIZE * OFTEN))
        bags = tf.constant(BAGS.reshape(-1)), tf.range(0, BAGS.size + 1, BAGS.shape[1], tf.int64)
        (rows,) = lookup_group([Lookup(tables[0], tf.constant(KEYS))], True)
        (sums,) = lookup_group([Lookup(tables[1], *bags, "sum")], True)
        often = Lookup(counted, np.repeat([7, 8], [OFTEN, OFTEN - 1]))
        (read,) = lookup_group([often], WITH_GRADIENT)
        (of_rows,) = tf.gradients(rows, tables[:1], grad_ys=GRADIENTS[RANK])
        (of_counted,) = tf.gradients(read, [counted])
        session.run(tf1.global_variables_initializer())
        before = sok.communication_stats()
        slices, seen_rows = session.run([of_rows, rows])
        after = sok.communication_stats()
        seen_sums = session.run(sums)
        session.run(of_counted)
        unlike = of_unlike_batches(session, tables[1])
        own = [session.run(table.export()) for table in tables]
        counted_keys = session.run(counted.export())[0].tolist()
        at_owner = at_owners(session, row_dtype)  # initializes all variables
        return {
            "rows": seen_rows,
            "sums": seen_sums,
            "unlike": unlike,
            "at_owner": at_owner,
            "gradients": by_key(slices, own[0]),
            "own": [dict(zip(keys.tolist(), values)) for keys, values in own],
            "counted": counted_keys,
            "bytes": after.payload_bytes - before.payload_bytes,
            "saturated": after.saturated_values - before.saturated_values,
        }


if __name__ == "__main__":
    as_sent = {name: run(name) for name in ("float32", "bfloat16", "float16")}
    in_memory = {f"rows of {name}": run("float32", name) for name in ("bfloat16", "float16")}
    report({**as_sent, **in_memory})
