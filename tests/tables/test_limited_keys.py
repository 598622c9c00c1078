# SPDX-License-Identifier: Apache-2.0
"""Tables that evict the least recently used keys, and lookups that insert some keys only."""

import threading

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.lookup.find_rows import find_rows
from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.initial_rows import InitialRows
from sok_compat.lookup.new_keys import WITH_GRADIENT, EvictedKeys, KeyDraw, NewKeys
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.tables import Table
from sok_compat.tables.key_history import KeyHistory
from tests.support.lookups import lookup
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1


def limited(max_keys, initializer="ones", **options):
    return Table(None, 2, initializer, history=KeyHistory(max_keys=max_keys), **options)


def given_rows(shape, dtype=None):
    return tf.ones(shape, dtype)


@pytest.mark.parametrize("initializer", ["ones", given_rows])
def test_what_was_used_last_stays(run, initializer):
    table = limited(4, initializer)

    def step(keys):
        optimizer = tf1.train.GradientDescentOptimizer(1.0)
        return run.apply(optimizer, lambda: tf.reduce_sum(lookup(table, keys, True)), table)

    train = run.repeated(step)
    entries = run.repeated(lambda: list(table.export()))
    used = {}  # {key: its row}, the last used last

    def model(keys):
        if initializer is given_rows:  # another op inserts new keys
            keys.sort(key=lambda key: key not in used)
        for key in keys:
            used[key] = used.pop(key, 1.0) - 1.0
        for key in list(used)[: max(0, len(used) - 4)]:
            del used[key]

    rng = np.random.default_rng(0)
    for _ in range(12):
        keys = np.sort(rng.choice(9, 3, replace=False))
        train(keys)
        model(keys.tolist())
        kept, rows = entries()
        assert dict(zip(kept.tolist(), rows[:, 0].tolist())) == used


def test_more_keys_than_the_table_may_hold(run):
    table = limited(2)
    look_up = run.repeated(lambda keys: lookup(table, keys, True))
    look_up(np.array([5, 6]))
    with pytest.raises(tf.errors.ResourceExhaustedError, match="use fewer keys in a step"):
        look_up(np.array([5, 7, 8]))
    assert look_up(np.array([7]))[0].tolist() == [1.0, 1.0]
    assert run(lambda: table.export()[0]).tolist() in ([6, 7], [7, 6])


def test_evicted_keys_and_rows_are_output(run):
    table = limited(3, "random_normal")
    other = limited(3, given_rows, name="Other")

    def step(keys):
        evicted, evicted_of_other = EvictedKeys(), EvictedKeys()
        lookups = [Lookup(table, keys, new_keys=NewKeys(evicted=evicted))]
        lookups.append(Lookup(other, keys, new_keys=NewKeys(evicted=evicted_of_other)))
        rows = lookup_group(lookups, insert=True)
        return [*rows, evicted.keys, evicted.rows, evicted_of_other.keys, evicted_of_other.rows]

    look_up = run.repeated(step)
    first = look_up(np.array([7, 5, 6]))
    assert first[2].tolist() == first[4].tolist() == [] and first[3].shape == (0, 2)
    rows, of_other, *gone = look_up(np.array([7, 8, 9]))
    assert gone[0].tolist() == gone[2].tolist() == [5, 6]
    np.testing.assert_array_equal(gone[1], first[0][1:])
    np.testing.assert_array_equal(rows[0], first[0][0])
    assert gone[3].tolist() == [[1.0, 1.0]] * 2 and of_other.tolist() == [[1.0, 1.0]] * 3


@pytest.mark.parametrize("initializer", ["ones", given_rows])
def test_keys_that_are_not_drawn_are_zeros_that_a_mean_counts(run, initializer):
    table = Table(None, 2, initializer)
    bags = np.arange(0, 401, 2)

    def step(keys):
        splits = tf.constant(bags, tf.int64)
        loss_of = lambda: lookup_group(  # noqa: E731
            [Lookup(table, keys, splits, "mean", new_keys=NewKeys(draw=KeyDraw(0.25, seed=5)))],
            insert=True,
        )[0]
        means, gradient = run.gradient(loss_of, table)
        with tf.control_dependencies([means]):
            return [means, gradient.values, table.num_keys(), table.export()[0]]

    keys = np.repeat(np.arange(200), 2)
    means, gradients, num_keys, exported = run.repeated(step)(keys)
    is_drawn = means[:, 0] > 0
    assert 20 < num_keys < 80 and num_keys == is_drawn.sum() == len(gradients)
    assert set(means[is_drawn, 0]) == {1.0}
    assert set(exported) == set(np.flatnonzero(is_drawn))


def test_a_mean_counts_keys_that_are_not_drawn(run):
    table = Table(None, 2, "ones")

    def step(keys):
        (mean,) = lookup_group(
            [
                Lookup(
                    table,
                    keys,
                    tf.constant([0, 400], tf.int64),
                    "mean",
                    new_keys=NewKeys(draw=KeyDraw(0.5)),
                )
            ],
            True,
        )
        with tf.control_dependencies([mean]):
            return [mean, table.num_keys()]

    mean, num_keys = run.repeated(step)(np.arange(400))
    np.testing.assert_allclose(mean, [[num_keys / 400] * 2], rtol=1e-6)
    assert 150 < num_keys < 250


def test_a_draw_repeats_with_its_seed_and_differs_from_call_to_call(run):
    tables = [Table(None, 1, "ones", name=name) for name in ("a", "b", "c")]
    draws = [KeyDraw(0.5, seed=1), KeyDraw(0.5, seed=1), KeyDraw(0.5, seed=2)]

    def step(keys):
        return lookup_group(
            [Lookup(t, keys, new_keys=NewKeys(draw=d)) for t, d in zip(tables, draws)], True
        )

    look_up = run.repeated(step)
    first, second = look_up(np.arange(100)), look_up(np.arange(100, 200))
    for a, b, c in (first, second):
        assert a.tolist() == b.tolist() and a.tolist() != c.tolist()
    assert first[0].tolist() != second[0].tolist()
    (third, *_) = look_up(np.arange(100))
    assert (third >= first[0]).all() and third.sum() > first[0].sum()  # known keys stay


def test_gradients_that_insert_evict_as_well(graph):
    table = limited(2)
    keys = tf1.placeholder(tf.int64, [None])
    (gradient,) = tf.gradients(lookup(table, keys, WITH_GRADIENT), table)
    with initialized_session() as session:
        for batch in ([5, 6], [5], [7]):
            session.run(gradient, {keys: batch})
        assert sorted(session.run(table.export()[0])) == [5, 7]


def test_a_lookup_that_does_not_insert_uses_no_key(graph):
    table = limited(2)
    keys = tf1.placeholder(tf.int64, [None])
    inserted, read = lookup(table, keys, True), lookup(table, keys, False)
    counts, moments = table.key_history(keys)
    with initialized_session() as session:
        for fetched, batch in ((inserted, [5, 6]), (inserted, [6]), (read, [5]), (inserted, [7])):
            session.run(fetched, {keys: batch})
        assert session.run(counts, {keys: [5, 6, 7]}).tolist() == [0, 0, 0]
        evicted, first, second = session.run(moments, {keys: [5, 6, 7]})
        assert evicted == -1
        assert 1.6e18 < first < second


def test_running_steps_go_on_reading_rows_of_evicted_keys(graph):
    table = limited(2, "random_normal")
    keys = tf1.placeholder(tf.int64, [None])
    found, goes_on = threading.Event(), threading.Event()

    def wait(row_ids):
        found.set()
        assert goes_on.wait(60)
        return row_ids

    (row_ids,), _ = find_rows([table], [keys], [NewKeys(True)])
    waited = tf.numpy_function(wait, [row_ids], tf.int64)
    rows = tf.raw_ops.ResourceGather(resource=table.handle, indices=waited, dtype=tf.float32)
    inserted, read = lookup(table, keys, True), []
    with initialized_session() as session:
        expected = session.run(inserted, {keys: [5, 6]})
        reader = threading.Thread(target=lambda: read.append(session.run(rows, {keys: [5, 6]})))
        reader.start()
        assert found.wait(60)
        for batch in ([7, 8], [9, 10], [11, 12]):
            session.run(inserted, {keys: batch})
        goes_on.set()
        reader.join()
        np.testing.assert_array_equal(read[0], expected)
        for batch in ([5, 6], [7, 8]):
            session.run(inserted, {keys: batch})
        assert session.run(row_ids, {keys: [7, 8]}).max() < 12  # rows come again


def test_initial_rows_of_keys_that_are_drawn(graph):
    table = Table(None, 2, "ones")
    keys = tf.constant([5, 6, 7, 8, 9, 10], tf.int64)
    initial = InitialRows(
        tf.cast(keys, tf.int32), lambda n: tf.cast(tf.stack([n, -n], 1), tf.float32)
    )
    (rows,) = lookup_group(
        [Lookup(table, keys, new_keys=NewKeys(initial_rows=initial, draw=KeyDraw(0.5)))], True
    )
    with initialized_session() as session:
        found = session.run(rows)
        exported, exported_rows = session.run(table.export())
    assert 0 < len(exported) < 6
    for key, row in zip(range(5, 11), found.tolist()):
        assert row == ([key, -key] if key in exported else [0, 0])
    assert exported_rows[:, 0].tolist() == exported.tolist()


def test_what_cannot_be(graph):
    for history in (KeyHistory(2, max_keys=3), KeyHistory(evicts=True, max_keys=3)):
        with pytest.raises(ValueError, match="without a filter and evicts=True"):
            Table(None, 2, "ones", history=history)
    with pytest.raises(ValueError, match="max_keys must be positive"):
        limited(-1)
    with pytest.raises(ValueError, match="max_keys=3 must have capacity=None, got 4"):
        Table(4, 2, "ones", history=KeyHistory(max_keys=3))
    plain, keys = Table(None, 2, "ones"), tf.constant([1], tf.int64)
    with pytest.raises(ValueError, match="evicts no keys when it is full"):
        plain.make_room(keys)
    with pytest.raises(ValueError, match=r"ratio must be in \[0, 1\], got 1.5"):
        KeyDraw(1.5)
    for insert in (False, WITH_GRADIENT, tf.constant(True)):
        with pytest.raises(ValueError, match="draw of new keys.*needs insert=True"):
            lookup_group([Lookup(plain, keys, new_keys=NewKeys(draw=KeyDraw(0.5)))], insert)
