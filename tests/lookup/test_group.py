# SPDX-License-Identifier: Apache-2.0
"""A group of lookups gives what its lookups give one by one, and what plain TensorFlow gives."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.new_keys import WITH_GRADIENT
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.tables import Table
from tests.support.cases.group_cases import CASES, PRESETS, FedLookups, random_batch, squared_loss
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1
ALL_CASES = [*CASES, *PRESETS]
NUM_BAGS = 12


def batches(rng, cases=ALL_CASES):
    return [random_batch(rng, NUM_BAGS) for _ in cases]


@pytest.fixture
def fed(graph):
    tables = [case.make_table(f"table_{i}") for i, case in enumerate(ALL_CASES)]
    return FedLookups(ALL_CASES, tables)


def tables_of(fed):
    return [lookup.table for lookup in fed.lookups]


@pytest.mark.parametrize("insert", [True, False, "a tensor"])
def test_equals_single_lookups(fed, insert):
    insert = tf1.placeholder_with_default(True, []) if insert == "a tensor" else insert
    grouped = lookup_group(fed.lookups, insert)
    singly = [lookup_group([lookup], insert)[0] for lookup in fed.lookups]
    gradients = [
        tf.gradients(squared_loss(outputs), tables_of(fed)) for outputs in (grouped, singly)
    ]
    with initialized_session() as session:
        rng = np.random.default_rng(1)
        if insert is False:
            known = [lookup_group([lookup], True)[0] for lookup in fed.lookups]
            session.run(known, fed.feeds(batches(rng)))  # some keys, not all of the next ones
        feeds = fed.feeds(batches(rng))
        # First with either: they may insert keys in another order.
        for ours, theirs in zip(*session.run([grouped, singly], feeds)):
            np.testing.assert_array_equal(ours, theirs)
        for ours, theirs in zip(*session.run(gradients, feeds)):
            np.testing.assert_array_equal(ours.indices, theirs.indices)
            np.testing.assert_array_equal(ours.values, theirs.values)


def test_equals_tensorflow(fed):
    """Forward, and ten steps of training."""
    tables = tables_of(fed)
    outputs = lookup_group(fed.lookups, True)
    first_rows = lookup_group([c.all_keys(t) for c, t in zip(ALL_CASES, tables)], True)
    plain = [tf1.get_variable(f"plain_{i}", [40, c.dim]) for i, c in enumerate(ALL_CASES)]
    expected = fed.reference(plain)
    optimizer = tf1.train.AdagradOptimizer(0.1)
    steps = [
        [values, squared_loss(values), optimizer.minimize(squared_loss(values), var_list=variables)]
        for values, variables in ((outputs, tables), (expected, plain))
    ]
    copies = [variable.assign(rows) for variable, rows in zip(plain, first_rows)]
    with initialized_session() as session:
        session.run(copies)
        rng = np.random.default_rng(2)
        for _ in range(10):
            feeds = fed.feeds(batches(rng))
            ours, theirs = session.run([step[:2] for step in steps], feeds)
            np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-5)
            for case, a, b in zip(ALL_CASES, ours[0], theirs[0]):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5, err_msg=str(case))
            session.run([step[2] for step in steps], feeds)


def test_eager_mode():
    tables = [Table(20, dim, "ones") for dim in (2, 3)]
    keys = [tf.constant([1, 2, 1], tf.int64), tf.constant([7], tf.int32)]
    splits = tf.constant([0, 2, 3], tf.int64)
    weights = tf.constant([2.0, 3.0, 5.0])
    with tf.GradientTape() as tape:
        first, second = lookup_group(
            [Lookup(tables[0], keys[0], splits, "sum", weights), Lookup(tables[1], keys[1])], True
        )
        loss = tf.reduce_sum(first) + tf.reduce_sum(second)
    np.testing.assert_array_equal(first, [[5, 5], [5, 5]])
    gradients = tape.gradient(loss, tables)
    np.testing.assert_array_equal(gradients[0].values, [[7, 7], [3, 3]])
    np.testing.assert_array_equal(gradients[1].values, [[1, 1, 1]])
    assert tables[0].num_keys() == 2 and tables[1].num_keys() == 1


def test_one_table_twice(graph):
    table = Table(20, 2, "ones")
    keys = [tf.constant([1, 2], tf.int64), tf.constant([2, 2, 3], tf.int64)]
    outputs = lookup_group([Lookup(table, k) for k in keys], True)
    (gradient,) = tf.gradients(outputs, [table])
    with initialized_session() as session:
        slices = session.run(gradient)
        keys, _ = session.run(table.export())
        totals = np.zeros(3)
        np.add.at(totals, slices.indices, slices.values[:, 0])
    assert dict(zip(keys, totals)) == {1: 1, 2: 3, 3: 1}


def test_gradients_of_second_order_with_weights(graph):
    table = Table(20, 1, "ones")
    weights = tf.constant([2.0, 3.0])
    splits = tf.constant([0, 2], tf.int64)
    lookup = Lookup(table, tf.constant([4, 5], tf.int64), splits, "mean", weights)
    (output,) = lookup_group([lookup], True)
    seed = tf.constant([[1.0]])
    (gradient,) = tf.gradients(output, [table], grad_ys=[seed])
    (second,) = tf.gradients(tf.square(gradient.values), [seed])
    with initialized_session() as session:
        np.testing.assert_allclose(session.run(gradient.values), [[0.4], [0.6]], rtol=1e-6)
        np.testing.assert_allclose(session.run(second), [[2 * (0.16 + 0.36)]], rtol=1e-6)


def test_what_no_lookup_has(graph):
    table = Table(20, 2)
    keys = tf.constant([1], tf.int64)
    splits = tf.constant([0, 1], tf.int64)
    with pytest.raises(ValueError, match="row_splits and a combiner, or neither"):
        Lookup(table, keys, splits)
    with pytest.raises(ValueError, match="row_splits and a combiner, or neither"):
        Lookup(table, keys, combiner="sum")
    with pytest.raises(ValueError, match="weights need row_splits"):
        Lookup(table, keys, weights=tf.constant([1.0]))
    with pytest.raises(ValueError, match="keys must be int64 or int32"):
        lookup_group([Lookup(table, tf.constant([1.0]))], True)


def test_wrong_number_of_weights(graph):
    table = Table(20, 2)
    weights = tf1.placeholder(tf.float32, [None])
    splits = tf.constant([0, 2], tf.int64)
    lookup = Lookup(table, tf.constant([1, 2], tf.int64), splits, "sum", weights)
    output = lookup_group([lookup], True)
    with (
        initialized_session() as session,
        pytest.raises(tf.errors.InvalidArgumentError, match="weights must have 2 values, got 3"),
    ):
        session.run(output, {weights: [1, 2, 3]})


def test_the_gradient_searches_for_no_key_that_was_found(graph):
    table = Table(20, 2, "ones")
    keys = tf1.placeholder(tf.int64, [None])
    outputs = lookup_group([Lookup(table, keys)], WITH_GRADIENT)
    (gradient,) = tf.gradients(outputs, [table])
    found = [op for op in graph.get_operations() if op.type == "SokFindRows"]
    assert len(found) == 1
    with initialized_session() as session:
        np.testing.assert_array_equal(session.run(gradient, {keys: [5, 9]}).indices, [0, 1])
        slices = session.run(gradient, {keys: [7, 9, 8, 7, 5]})
        np.testing.assert_array_equal(slices.indices, [2, 1, 3, 0])  # new ones in their order
        np.testing.assert_array_equal(slices.values[:, 0], [2, 1, 1, 1])
        assert session.run(table.export())[0].tolist() == [5, 9, 7, 8]


@pytest.mark.parametrize("num_tables", [7, 8])
def test_tables_of_outputs_that_are_not_used(graph, num_tables):
    """They have gradients of zeros, and rows, whatever number of ops a group is."""
    tables = [Table(20, 2, "ones") for _ in range(num_tables)]
    keys = tf.constant([5, 9], tf.int64)
    outputs = lookup_group([Lookup(table, keys) for table in tables], WITH_GRADIENT)
    gradients = tf.gradients(outputs[0], tables)
    exported = [table.export()[0] for table in tables]
    with initialized_session() as session:
        values = [slices.values for slices in session.run(gradients)]
        assert [keys.tolist() for keys in session.run(exported)] == [[5, 9]] * num_tables
    np.testing.assert_array_equal(values[0], np.ones([2, 2]))
    np.testing.assert_array_equal(values[1:], np.zeros([num_tables - 1, 2, 2]))


def test_steps_at_once_of_groups_in_other_orders(graph):
    """Groups that lock the same tables, in which other steps insert, and that move as they grow."""
    tables = [Table(None, 4, "ones", name=f"table_{i}") for i in range(5)]
    keys = tf1.placeholder(tf.int64, [None])
    steps = []
    for order in (tables, tables[::-1]):
        outputs = lookup_group([Lookup(table, keys + i) for i, table in enumerate(order)] * 2, True)
        steps.append([tf.gradients(outputs, order), lookup_group([Lookup(order[0], keys)], False)])
    batches_of_steps = np.arange(24_000).reshape(4, 10, 600)
    with initialized_session(rewrites=False) as session:

        def work(number):
            for batch in batches_of_steps[number]:
                session.run(steps[number % 2], {keys: batch})

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(work, range(4)))
        for i, table in enumerate(tables):
            exported, rows = session.run(table.export())
            forward, reverse = batches_of_steps[::2] + i, batches_of_steps[1::2] + 4 - i
            assert {*exported} == {*forward.ravel(), *reverse.ravel()}
            assert (rows == 1).all()
