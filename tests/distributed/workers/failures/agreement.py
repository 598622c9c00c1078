# SPDX-License-Identifier: Apache-2.0
"""Graphs that differ on the last rank: what running sok.Init's tensor says; then seeds."""

import numpy as np
import tensorflow as tf

import sok_compat as sok
from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.ranks.wire_dtype import set_wire_dtype
from sok_compat.runtime.tf_versions import eager_mode
from sok_compat.sparse_operation_kit.core.initialization import current_initialization
from sok_compat.tables.table import Table
from tests.distributed.workers.ranks import RANK, SIZE, report

tf1 = tf.compat.v1
LAYER = dict(max_vocabulary_size_per_gpu=20, embedding_vec_size=4, slot_num=1, nnz_per_slot=1)
LAYERS = [dict(LAYER), dict(LAYER, embedding_vec_size=8)]


def build(layers=LAYERS, batch=4, seed=5, **settings):
    """(what sok.Init returned, layers) in the default graph."""
    settings.update({} if seed is None else {"seed": seed})
    status = sok.Init(global_batch_size=batch * SIZE, **settings)
    return status, [sok.All2AllDenseEmbedding(dynamic_input=True, **layer) for layer in layers]


def second(**changes):
    """The layers, the second one changed."""
    return [LAYERS[0], dict(LAYERS[1], **changes)]


DIFFERENCES = {  # of the last rank
    "batch": dict(batch=8),
    "dim": dict(layers=second(embedding_vec_size=9)),
    "capacity": dict(layers=second(max_vocabulary_size_per_gpu=21)),
    "hash table": dict(layers=second(use_hashtable=False)),
    "key dtype": dict(layers=second(key_dtype="uint32")),
    "initializer": dict(layers=second(embedding_initializer="ones")),
    "fewer layers": dict(layers=LAYERS[:1]),
    "more layers": dict(layers=[*LAYERS, LAYER]),
    "order": dict(layers=LAYERS[::-1]),
    "seed": dict(seed=6),
    "no seed": dict(seed=None),
    "wire dtype": dict(wire_dtype="float16"),
}


COMBINERS = ("sum", "mean")  # of all ranks but the last, of the last
LOOKUP_DIFFERENCES = {  # of tables without sok.Init, on the last rank
    "dim": dict(dim=5),
    "key dtype": dict(key_dtype="uint32"),
    "kind": dict(use_hash_index=False),
    "combiner": dict(combiner="mean"),
    "initializer": dict(initializer="ones"),
    "seed": dict(seed=6),
    "wire dtype": dict(wire_dtype="bfloat16"),
}
EAGER_DIFFERENCES = ["batch", "dim", "capacity", "initializer", "seed", "wire dtype"]


def message(difference):
    """The error that running what sok.Init returned gives; None: no error."""
    with tf.Graph().as_default(), tf1.Session() as session:
        status, _ = build(**(difference if RANK == SIZE - 1 else {}))
        try:
            session.run(status)
        except tf.errors.InvalidArgumentError as error:
            return error.message
        except tf.errors.UnknownError as error:
            return error.message
    return None


def combiner_message():
    """As `message`, of layers that pool."""
    with tf.Graph().as_default(), tf1.Session() as session:
        status, _ = build()
        combiner = COMBINERS[RANK == SIZE - 1]
        sok.DistributedEmbedding(combiner, 20, 4, slot_num=1, max_nnz=2)
        return error_of(lambda: session.run(status))


def lookup_message(combiner="sum", dim=4, wire_dtype=None, **options):
    """The error of the first lookup in a table of one's own, and what a second one gives."""
    with tf.Graph().as_default(), tf1.Session() as session:
        set_wire_dtype(wire_dtype)
        table = Table(20, dim, name="own", **options)
        keys = tf.constant([1, 2], table.key_dtype)
        (output,) = lookup_group(
            [Lookup(table, keys, tf.constant([0, 2], tf.int64), combiner)], True
        )
        session.run(tf1.global_variables_initializer())
        return error_of(lambda: session.run(output))


def eager_lookup_message(combiner):
    """As `lookup_message`, of an eager lookup."""
    with eager_mode():
        table = Table(20, 4, name="own")
        bags = tf.constant([0, 2], tf.int64)
        lookup = Lookup(table, tf.constant([1, 2], tf.int64), bags, combiner)
        return error_of(lambda: lookup_group([lookup], True))


def error_of(call):
    """(the kind, the message) of what `call` raises; None: nothing."""
    try:
        call()
    except tf.errors.OpError as error:
        return type(error).__name__, error.message
    return None


def first_rows(seed):
    """(the seed in use, rows of some keys)."""
    with tf.Graph().as_default(), tf1.Session() as session:
        status, layers = build(seed=seed)
        rows = [layer(tf.range(10, dtype=tf.int64)) for layer in layers]
        session.run(status)
        session.run(tf1.global_variables_initializer())
        return current_initialization("the test").seed, session.run(rows)


def eager_message(difference):
    """As `message`, of what is settled in eager mode as it is made."""
    with eager_mode():
        try:
            build(**(difference if RANK == SIZE - 1 else {}))
        except tf.errors.InvalidArgumentError as error:
            return error.message
    return None


if __name__ == "__main__":
    messages = {name: message(difference) for name, difference in DIFFERENCES.items()}
    agreed_seed, rows_of_agreed = first_rows(None)
    _, rows_of_given = first_rows(agreed_seed)
    for agreed, given in zip(rows_of_agreed, rows_of_given):
        np.testing.assert_array_equal(agreed, given)
    report(
        {
            "messages": messages,
            "eager": {name: eager_message(DIFFERENCES[name]) for name in EAGER_DIFFERENCES},
            "combiner": combiner_message(),
            "lookups": {
                name: lookup_message(**(difference if RANK == SIZE - 1 else {}))
                for name, difference in LOOKUP_DIFFERENCES.items()
            },
            "same lookups": lookup_message(),
            "eager lookup": eager_lookup_message(COMBINERS[RANK == SIZE - 1]),
            "seed": agreed_seed,
            "rows": rows_of_agreed,
        }
    )
