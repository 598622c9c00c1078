# SPDX-License-Identifier: Apache-2.0
"""A key's first value does not depend on when it comes, in what company, or who asks first."""

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from tests.support.cases.layer_cases import LayerCase
from tests.support.sessions import initialized_session

CAPACITY = 32
DIM = 4


class RowOfNumbers:
    """An initializer that sok_compat does not know: evaluated for the rows that are new."""

    def __call__(self, shape, dtype=None, **kwargs):
        return tf.ones(shape, dtype) * tf.cast(tf.range(1, DIM + 1), dtype)


class WholeTable:
    """As above, but it wants to know the number of rows: evaluated once, for the whole table."""

    def __call__(self, shape, dtype=None, **kwargs):
        count, dim = (int(size) for size in shape)
        return tf.reshape(tf.range(count * dim, dtype=dtype), shape) + 0.5


FIRST_VALUES = {
    "default": None,
    "normal": "normal",
    "truncated": tf.compat.v1.truncated_normal_initializer(seed=3),
    "constant": "ones",
    "evaluated": RowOfNumbers(),
    "preset": WholeTable(),
}
KEYS = {True: [-5, 0, 7, 2**40, -(2**63), 11], False: [0, 31, 7, 5, 12, 11]}

use_hashtable = pytest.mark.parametrize("use_hashtable", [True, False], ids=["hash", "direct"])
initializers = pytest.mark.parametrize("initializer", FIRST_VALUES.values(), ids=FIRST_VALUES)


def make_lookups(sok, use_hashtable, initializer, **kwargs):
    """(keys placeholder, training lookup, reading lookup, variable)."""
    case = LayerCase("dynamic", use_hashtable, "int64", DIM)
    layer = case.make_layer(CAPACITY, embedding_initializer=initializer, **kwargs)
    keys = case.placeholder()
    return keys, layer(keys), layer(keys, training=False), layer.embedding_variable


@use_hashtable
@initializers
def test_unknown_key_reads_what_it_will_start_with(sok, use_hashtable, initializer):
    keys, train, read, variable = make_lookups(sok, use_hashtable, initializer)
    size = variable.num_keys()
    known, unknown = KEYS[use_hashtable][:3], KEYS[use_hashtable][3:]
    # Without keys, an array of first values is a write to all rows.
    is_written = not use_hashtable and isinstance(initializer, (RowOfNumbers, WholeTable))
    with initialized_session() as session:
        session.run(train, {keys: known})
        first_read = session.run(read, {keys: unknown})
        assert session.run(size) == (CAPACITY if is_written else 3)
        np.testing.assert_array_equal(session.run(read, {keys: unknown}), first_read)
        np.testing.assert_array_equal(session.run(train, {keys: unknown}), first_read)
        assert session.run(size) == (CAPACITY if is_written else 6)
        np.testing.assert_array_equal(session.run(read, {keys: unknown}), first_read)
        assert np.all(np.abs(first_read).sum(axis=1) > 0)


@use_hashtable
@pytest.mark.parametrize("initializer", ["default", "normal", "truncated", "evaluated"])
def test_any_order_and_company(sok, use_hashtable, initializer):
    keys, train, _, _ = make_lookups(sok, use_hashtable, FIRST_VALUES[initializer])
    some = KEYS[use_hashtable]
    with initialized_session() as session:
        together = dict(zip(some, session.run(train, {keys: some})))
    with initialized_session() as session:
        session.run(train, {keys: [3, 1, 2]})
        for key in reversed(some):
            batch = [key, 3, key]
            np.testing.assert_array_equal(session.run(train, {keys: batch})[0], together[key])


def test_without_hashtable_a_preset_row_belongs_to_its_key(sok):
    keys, train, read, variable = make_lookups(sok, False, WholeTable())
    expected = np.arange(CAPACITY * DIM).reshape(CAPACITY, DIM) + 0.5
    with initialized_session() as session:
        np.testing.assert_array_equal(session.run(train, {keys: [9]}), expected[[9]])
        np.testing.assert_array_equal(session.run(read, {keys: [4, 30]}), expected[[4, 30]])
        np.testing.assert_array_equal(session.run(train, {keys: [4, 3]}), expected[[4, 3]])
        np.testing.assert_array_equal(session.run(variable.export())[1], expected)


@initializers
@pytest.mark.parametrize("look", ["export", "value"])
def test_looking_at_a_whole_direct_table_changes_no_first_value(sok, initializer, look):
    """All rows of a table without a hash table are there, touched or not, and what they were."""
    keys, train, _, variable = make_lookups(sok, False, initializer)
    all_rows = variable.export()[1] if look == "export" else variable.value()
    everything = list(range(CAPACITY))
    with initialized_session() as session:
        rows = session.run(all_rows)
        np.testing.assert_array_equal(session.run(train, {keys: everything}), rows)
    with initialized_session() as session:
        np.testing.assert_array_equal(session.run(train, {keys: everything}), rows)
        assert np.all(np.abs(rows).sum(axis=1) > 0)


def test_narrow_and_wide_keys_start_alike():
    rows = {}
    for key_dtype in ("int64", "uint32"):
        with tf.Graph().as_default():
            sok_compat.Init(global_batch_size=1, seed=5)
            case = LayerCase("dynamic", True, key_dtype)
            output = case.make_layer()(tf.constant([0, 17, 2**32 - 1], key_dtype))
            with initialized_session() as session:
                rows[key_dtype] = session.run(output)
    np.testing.assert_array_equal(rows["int64"], rows["uint32"])
