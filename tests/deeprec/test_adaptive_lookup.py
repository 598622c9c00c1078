# SPDX-License-Identifier: Apache-2.0
"""Lookups read rows where a mask says, for ids as DeepRec gives them and in served graphs."""

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.deeprec.lookups.adaptive_lookup import adaptive_embedding_lookup_sparse
from sok_compat.deeprec.optimizer_rules.train_optimizers import GradientDescentOptimizer
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from sok_compat.lookup.dense_tables import DenseTable, dense_tables
from sok_compat.lookup.initial_rows import InitialRows
from sok_compat.lookup.perfect_hash import find_perfect_hash
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1


@pytest.mark.parametrize("as_list", [False, True])
def test_the_lookup_takes_ids_as_in_deeprec(graph, as_list):
    ordinary = tf1.get_variable("o", initializer=tf.range(4.0)[:, tf.newaxis])
    variable = get_embedding_variable("v", 1)
    values = tf.constant([99, 3, 98, 1], tf.int64)
    ids = tf.SparseTensor([[0, 0], [0, 1], [1, 0], [2, 0]], values, [3, 2])
    output = adaptive_embedding_lookup_sparse(
        ordinary, [variable] if as_list else variable, ids, tf.constant([2, 1]), None,
        combiner="sum", adaptive_mask_tensor=tf.constant([1, 0, 1, 0]),
    )  # fmt: skip
    train = GradientDescentOptimizer(0.5).minimize(tf.reduce_sum(output))
    with initialized_session() as session:
        np.testing.assert_array_equal(session.run(output)[:, 0], [5, 1, 1])
        session.run(train)
        np.testing.assert_array_equal(session.run(output)[:, 0], [4, 0.5, 0.5])
        np.testing.assert_array_equal(session.run(ordinary)[:, 0], [0, 0.5, 2, 2.5])
        assert dict(zip(*map(np.ndarray.tolist, session.run(variable.export()[:2])))) == {
            99: [1.5],
            98: [0.5],
        }


def test_a_served_graph_reads_the_ordinary_row_of_other_keys(graph):
    found, slots = find_perfect_hash(np.array([2, 7]))
    by_slot = np.array([2, 7, 0])[[*np.argsort(slots), 2]]
    dense = DenseTable(found, tf.constant(by_slot), tf.constant(by_slot[:, np.newaxis], tf.float32))
    variable = get_embedding_variable("v", 1)
    keys = tf.constant([7, 3, 2, 9], tf.int64)
    with dense_tables(lambda table: dense):
        rows = variable.sparse_read(
            keys,
            initial_rows=InitialRows(
                tf.range(4), lambda numbers: tf.cast(-numbers, tf.float32)[:, tf.newaxis]
            ),
        )
    with tf1.Session() as session:
        np.testing.assert_array_equal(session.run(rows)[:, 0], [7, -1, 2, -3])


def look_up(params=None, ids=None, weights=None, mask=None):
    ids = tf.SparseTensor([[0, 0]], tf.constant([1], tf.int64), [1, 1]) if ids is None else ids
    params = get_embedding_variable("v", 1) if params is None else params
    adaptive_embedding_lookup_sparse(
        tf.zeros([2, 1]), params, ids, [1], weights, adaptive_mask_tensor=mask
    )


@pytest.mark.parametrize("call, error, message", [
    (lambda: look_up(mask=[1], params=tf.zeros([2, 1])), TypeError,
     "ev_params must be an embedding variable, or a list of one, got"),
    (lambda: look_up(mask=[1], ids=[1]), TypeError, "sp_ids must be SparseTensor, got list"),
    (lambda: look_up(mask=[1], weights=[1.0]), ValueError, r"takes no weights, got .*\[1.0\]"),
    (look_up, ValueError, "needs an adaptive_mask_tensor, got None: give int32"),
])  # fmt: skip
def test_what_is_refused(graph, call, error, message):
    with pytest.raises(error, match=message):
        call()
