# SPDX-License-Identifier: Apache-2.0
"""sequence_input_layer gives what TensorFlow's columns give by themselves."""

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.deeprec.columns import feature_columns as fc
from sok_compat.deeprec.contrib import feature_column as contrib
from sok_compat.deeprec.optimizer_rules.stock_optimizers import AdamOptimizer
from sok_compat.deeprec.python.feature_column import sequence_feature_column as sequences
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1
PLACES = [[0, 0], [0, 1], [1, 0], [3, 0], [3, 2]]  # of five sequences; the last is empty
COLUMNS = {  # a kind of ids, and settings of the embedding
    "strings": ("words", {"combiner": "mean"}),
    "ids with a limit": ("ids", {"combiner": "sum"}),
    "an embedding variable": ("keys", {"combiner": "mean"}),
    "sqrtn": ("words", {"combiner": "sqrtn"}),
    "max_norm": ("ids", {"max_norm": 0.5}),
    "a shared variable": ("ids", None),
}


def embedding_column(name):
    ids, settings = COLUMNS[name]
    if ids == "words":
        column = tf.feature_column.sequence_categorical_column_with_hash_bucket("words", 9)
    elif ids == "ids":
        column = tf.feature_column.sequence_categorical_column_with_identity("ids", 12, 3)
    else:
        column = sequences.sequence_categorical_column_with_embedding("ids", tf.int64)
    initializer = tf1.random_uniform_initializer(seed=4)
    if settings is None:
        return fc.shared_embedding_columns([column, column], 3, initializer=initializer)[0]
    return fc.embedding_column(column, 3, initializer=initializer, **settings)


def trained(name, num_parts):
    """Names of variables, and the results of the layer before two steps and after them."""
    partitioner = num_parts and tf1.fixed_size_partitioner(num_parts)
    with tf.Graph().as_default(), tf1.variable_scope("scope", partitioner=partitioner):
        tf1.set_random_seed(1)
        words = tf.SparseTensor(PLACES, ["a", "b", "a", "", "c"], [5, 4])
        ids = tf.SparseTensor(PLACES, tf.constant([7, -3, 7, 11, 2], tf.int64), [5, 4])
        layer = contrib.sequence_input_layer(
            {"words": words, "ids": ids}, [embedding_column(name)], weight_collections=["mine"]
        )
        of_layer = layer[0].shape.as_list()
        places = tf.reshape(tf.range(5.0 * 4 * 3), [5, 4, 3])
        train = AdamOptimizer(0.1).minimize(tf.reduce_sum(layer[0] * layer[0] * places))
        names = [variable.name for variable in tf1.get_collection("mine")]
        with initialized_session(rewrites=False) as session:
            before = session.run(layer)
            session.run(train)
            session.run(train)
            return {"names": [names, of_layer], "values": [*before, *session.run(layer)]}


@pytest.mark.parametrize("name, num_parts", [*((name, None) for name in COLUMNS), ("strings", 2)])
def test_sequences_are_those_of_tensorflow(monkeypatch, name, num_parts):
    ours = trained(name, num_parts)
    monkeypatch.setattr(contrib, "pooled_by_position", lambda column: column)
    stock = trained(name, num_parts)
    assert ours["names"] == stock["names"] and len(ours["names"][0]) == (num_parts or 1)
    for value, expected in zip(ours["values"], stock["values"]):
        np.testing.assert_array_equal(value, expected)
    rows, lengths, after, _ = ours["values"]
    assert lengths.tolist() == [2, 1, 0, 3, 0]
    empty = np.ones((5, 4), bool)
    empty[tuple(np.transpose(PLACES))] = False
    empty[0, 1] = COLUMNS[name][0] == "keys"  # -3 is none
    assert not rows[empty].any() and not after[empty].any()
    assert (rows != after)[~empty].any(axis=-1).sum() >= 4
