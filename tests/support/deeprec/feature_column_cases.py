# SPDX-License-Identifier: Apache-2.0
"""Feature columns of every kind, and a batch for them, whose parts ranks can take."""

import contextlib

import numpy as np
import tensorflow as tf

from sok_compat.deeprec.columns import feature_columns as fc
from sok_compat.deeprec.columns.input_layers import input_layer
from sok_compat.deeprec.optimizer_rules.train_optimizers import AdagradOptimizer
from sok_compat.deeprec.variables.embedding_variable import EMBEDDING_VARIABLES

tf1 = tf.compat.v1
of_tensorflow = tf1.feature_column
BATCH = 6  # 1, 2 and 3 ranks divide it

SEEDED = tf1.random_uniform_initializer(-1.0, 1.0, seed=3)  # whatever else is in the graph
_WORDS = [["a", "b", "a"], [], ["c"], ["", "no word", "b"], ["b", "b"], []]
_IDS = [[3, 3, 1], [], [9, -1], [2, 4], [-5], []]
_DENSE_WORDS = [["a", ""], ["b", "b"], ["", ""], ["longer than 22 bytes in place", "a"], ["c", ""]]
_DENSE_WORDS.append(["b", "a"])
_DENSE_IDS = [[1, -1], [-5, 7], [-1, -1], [7, 7], [0, 1], [3, -1]]
_WORDS_WEIGHT = [[1, 2, 0.5], [], [4], [1, 0, -2], [3, 1], []]
_IDS_WEIGHT = [[0.5, 2, -1], [], [3, 1], [0, 0.25], [4], []]


def features(rank=0, size=1):
    """Of every size-th sample: a feature of its own for each kind of column."""

    def sparse(rows, dtype):
        return tf.ragged.constant(rows[rank::size], dtype, ragged_rank=1).to_sparse()

    words, ids = sparse(_WORDS, tf.string), sparse(_IDS, tf.int64)
    price = np.linspace(0.0, 5.0, 2 * BATCH, dtype=np.float32).reshape(BATCH, 2)
    found = {
        "ids_weight": sparse(_IDS_WEIGHT, tf.float32),
        "words_weight": sparse(_WORDS_WEIGHT, tf.float32),
        "price": tf.constant(price[rank::size]),
        **dict.fromkeys(["dense", "filled"], tf.constant([1, 7, -1, 3, 0, 7][rank::size])),
    }
    found.update((f"dense_words_{i}", tf.constant(_DENSE_WORDS[rank::size])) for i in range(2))
    dense_ids = np.array(_DENSE_IDS[rank::size], np.int64)
    found.update((f"dense_ids_{i}", tf.constant(dense_ids)) for i in range(2))
    found["short_ids"] = tf.constant(dense_ids[:, 0].astype(np.int32))
    found.update((f"words_{i}", words) for i in range(5))
    found.update((f"ids_{i}", ids) for i in range(6))
    return found


def columns():
    """Of every kind; those of embeddings are of the group whose scope is open."""
    ev = fc.categorical_column_with_embedding
    hashed = of_tensorflow.categorical_column_with_hash_bucket
    listed = of_tensorflow.categorical_column_with_vocabulary_list
    weighted = of_tensorflow.weighted_categorical_column
    identity = of_tensorflow.categorical_column_with_identity("dense", 8, default_value=2)
    price = of_tensorflow.numeric_column("price", 2)
    buckets = of_tensorflow.bucketized_column(of_tensorflow.numeric_column("price", 2), [1.0, 3.0])
    of_ids = [hashed("ids_1", 5, tf.int64), hashed("ids_2", 5, tf.int64)]
    of_ids[1] = weighted(of_ids[1], "ids_weight")
    of_words = [ev("words_2"), weighted(ev("words_3"), "words_weight")]
    grouped = [
        _embed(hashed("words_0", 7), 4),
        _embed(hashed("dense_words_0", 7), 4, "sum"),
        _embed(hashed("dense_ids_0", 5, tf.int64), 3),
        _embed(hashed("short_ids", 5, tf.int32), 3, use_safe_embedding_lookup=False),
        _embed(ev("dense_words_1"), 4),
        _embed(ev("dense_ids_1", tf.int64), 3, "sum"),
        _embed(listed("words_1", ["a", "b"]), 4, "sum"),
        _embed(identity, 3),
        _embed(buckets, 4, "sum", trainable=False),
        _embed(of_tensorflow.crossed_column(["words_0", buckets, ev("words_2")], 9), 4),
        _embed(weighted(hashed("ids_0", 11, tf.int64), "ids_weight"), 4),
        *fc.shared_embedding_columns(of_ids, 3, "sum", SEEDED),
        *fc.shared_embedding_columns(of_words, 3),
        _embed(ev("filled", tf.int64), 4, "sum", use_safe_embedding_lookup=False),
        _embed(ev("ids_3", tf.int32), 4),
        fc.embedding_column(weighted(ev("ids_4", tf.int64), "ids_weight"), 3),
    ]
    one_by_one = [  # also in a group
        _embed(ev("ids_5", tf.int64), 4, "sqrtn", max_norm=0.5),
        _embed(ev("words_4", partition_num=2), 2),
    ]
    return [*grouped, *one_by_one, price, of_tensorflow.indicator_column(identity), buckets]


def _embed(categorical_column, dimension, combiner="mean", **settings):
    return fc.embedding_column(categorical_column, dimension, combiner, SEEDED, **settings)


def trained(way, checkpoint=None, rank=0, size=1, config=None, kinds=tuple):
    """What is seen of an input layer of `columns()`, before and after a step.

    Args:
      way: "stock": by TensorFlow's input_layer; "layer": by ours; "scope": by ours, in a group.
      checkpoint: where to save; None: nowhere.
      rank, size: which samples.
      config: of the session.
      kinds: classes of columns; others are left out.

    Returns:
      {"names of" what: names, "layer": [batch, dims], "before" and "after": {column: [batch, dim]}}
    """
    with tf.Graph().as_default(), tf1.Session(config=config) as session:
        tf1.set_random_seed(1)
        in_scope = fc.group_embedding_column_scope() if way == "scope" else contextlib.nullcontext()
        look_up = of_tensorflow.input_layer if way == "stock" else input_layer
        with in_scope:
            made = [column for column in columns() if isinstance(column, kinds)]
        cols_to_vars, outputs = {}, {}
        layer = look_up(features(rank, size), made, ["mine"], True, cols_to_vars, outputs)
        by_name = {column.name: output for column, output in outputs.items()}
        of_tables = tf1.get_collection(EMBEDDING_VARIABLES)
        loss = tf.reduce_sum(layer**2) + tf.reduce_sum(layer)
        step = AdagradOptimizer(0.1).minimize(loss)
        session.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
        before, of_layer, _ = session.run([by_name, layer, loss])
        session.run(step)
        after = session.run(by_name)
        if checkpoint is not None:
            tf1.train.Saver().save(session, checkpoint)
        return {
            "names of all": [v.name for v in tf1.global_variables()],
            "names of trained": [v.name for v in tf1.trainable_variables()],
            "names of mine": [v.name for v in tf1.get_collection("mine")],
            "names of tables": [v.name for v in of_tables],
            "names of columns": {c.name: [v.name for v in cols_to_vars[c]] for c in made},
            "shapes": {name: output.shape.as_list() for name, output in by_name.items()},
            "keys": [keys.tolist() for keys in session.run([t.export()[0] for t in of_tables])],
            "layer": of_layer,
            "before": before,
            "after": after,
        }
