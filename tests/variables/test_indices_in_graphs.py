# SPDX-License-Identifier: Apache-2.0
"""Indices of gradients in graphs: row ids that lookups found, and what is made of these alone."""

import numpy as np
import pytest
import sparse_operation_kit as sok
import tensorflow as tf

from tests.support.gradients_of_tables import OPTIMIZERS, like, new_table
from tests.support.row_ids import rows_of_python

tf1 = tf.compat.v1


def keys_of_data():
    data = tf1.data.make_one_shot_iterator(tf1.data.Dataset.from_tensors(np.array([1])))
    return data.get_next()


def of_queue(keys):
    return tf1.FIFOQueue(1, [tf.int64]).dequeue()


def branches(found, others):
    return tf1.cond(tf.size(others) > 0, lambda: others, lambda: found)


NO_IDS = {
    "constant": lambda keys, found: tf.constant([1], tf.int64),
    "of a dataset": lambda keys, found: keys_of_data(),
    "looked up": lambda keys, found: keys,
    "chosen": lambda keys, found: tf.boolean_mask(keys, keys > 0),
    "with others": lambda keys, found: tf.concat([found, keys], axis=0),
    "instead of ids": lambda keys, found: tf1.placeholder_with_default(found, [None]),
    "of a function": lambda keys, found: tf.numpy_function(lambda x: x, [keys], tf.int64),
    "where": lambda keys, found: tf.where(keys > 0, keys, found),
    "absolute": lambda keys, found: tf.abs(keys),
    "reversed": lambda keys, found: tf.reverse(keys, [0]),
    "in a branch": lambda keys, found: branches(found, keys),
    "drawn": lambda keys, found: tf.random.uniform([1], maxval=2, dtype=tf.int64),
    "of a queue": lambda keys, found: of_queue(keys),
    "next": lambda keys, found: found + 1,
    "twice": lambda keys, found: found * 2,
    "squared": lambda keys, found: found * found,
    "summed": lambda keys, found: tf.cumsum(tf.add_n([found, found])),
    "sorted by arithmetic": lambda keys, found: tf.sort(found),
    "their number": lambda keys, found: tf.range(tf.size(found), dtype=tf.int64),
}
IDS = {
    "joined": lambda keys, found: tf.concat([found, found], axis=0),
    "sorted": lambda keys, found: tf.gather(found, tf.argsort(found)),
    "reversed": lambda keys, found: tf.reverse(found, [0]),
    "where": lambda keys, found: tf.where(keys < 0, found[::-1], found),
    "in a branch": lambda keys, found: branches(found, found[::-1]),
    "of Python": lambda keys, found: tf.numpy_function(lambda x: x[::-1], [found], tf.int64),
    "of a function": lambda keys, found: tf.function(lambda ids: ids[::-1])(found),
    "a variable": lambda keys, found: tf1.Variable(
        np.zeros(0, np.int64), shape=[None], use_resource=True
    ).assign(found),
}  # fmt: skip
IN_GRAPHS = {
    name: make for name, make in OPTIMIZERS.items() if not name.startswith(("keras", "wrapped k"))
}


def graph_of_lookup():
    sok.init()
    table, keys = new_table(), tf1.placeholder(tf.int64, [None])
    bags = tf.RaggedTensor.from_row_splits(keys, [0, 1])
    loss = tf.reduce_sum(sok.lookup_sparse(table, bags, combiners="sum"))
    return table, keys, tf1.gradients(loss, [table])[0]


def train_op(make, of_lookup, ids, table):
    ids.set_shape([None])
    values = tf.ones([tf.size(ids), 2])
    return make().apply_gradients([(like(of_lookup, values, ids), table)])


@pytest.mark.parametrize("name", NO_IDS)
@pytest.mark.parametrize("make", IN_GRAPHS.values(), ids=IN_GRAPHS)
def test_numbers_as_indices_in_a_graph(make, name):
    with tf.Graph().as_default():
        table, keys, of_lookup = graph_of_lookup()
        with pytest.raises(NotImplementedError, match="rows belong to keys"):
            train_op(make, of_lookup, NO_IDS[name](keys, of_lookup.indices), table)


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("make", IN_GRAPHS.values(), ids=IN_GRAPHS)
def test_ids_of_lookups_in_a_graph(make, name):
    with tf.Graph().as_default():
        table, keys, of_lookup = graph_of_lookup()
        train = train_op(make, of_lookup, IDS[name](keys, of_lookup.indices), table)
        found = table.export()
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            for key in (20, 1):
                session.run(of_lookup.indices, {keys: [key]})
            session.run(train, {keys: [1]})
            rows = dict(zip(*session.run(found)))
            assert rows[1][0] < 0 == rows[20][0]


@pytest.mark.parametrize("make", IN_GRAPHS.values(), ids=IN_GRAPHS)
def test_ids_of_no_row_in_a_graph(make):
    """What Python returns is checked when run: row 0 is of key 1, and there is no row 1."""
    with tf.Graph().as_default():
        table, keys, of_lookup = graph_of_lookup()
        row_ids = [0]
        train, found = train_op(make, of_lookup, rows_of_python(row_ids), table), table.export()
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            session.run(of_lookup.indices, {keys: [1]})
            session.run(train, {keys: [1]})
            row_ids[:] = [1]
            with pytest.raises(tf.errors.InvalidArgumentError, match="row 1, but .* has 1 rows"):
                session.run(train, {keys: [1]})
            assert session.run(found)[1][0, 0] < 0


@pytest.mark.parametrize("make", IN_GRAPHS.values(), ids=IN_GRAPHS)
def test_fed_ids_are_refused(make):
    with tf.Graph().as_default():
        table, keys, of_lookup = graph_of_lookup()
        reversed_ids = of_lookup.indices[::-1]
        train = train_op(make, of_lookup, reversed_ids, table)
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            for fed in (of_lookup.indices, reversed_ids):
                with pytest.raises(ValueError, match="may not be fed"):
                    session.run(train, {keys: [1], fed: [0]})
            session.run(train, {keys: [1]})
