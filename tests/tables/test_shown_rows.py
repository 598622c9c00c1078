# SPDX-License-Identifier: Apache-2.0
"""Tables and slots that show their rows in use."""

import threading

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.tables import Table, slot_for
from sok_compat.tables.rows.shown_rows import showing_rows_in_use, showing_some_rows
from tests.support.assertions import assert_close
from tests.support.lookups import lookup

KEYS = [7, 2, 5]


@pytest.fixture(params=[True, False], ids=["hash", "direct"])
def table(request):
    """With three keys of nine; its second slot is a vector."""
    table = Table(9, 2, use_hash_index=request.param)
    lookup(table, tf.constant(KEYS, tf.int64), True)
    return table


def everything(*variables):
    """As it stands there: a table without a hash index brings all rows into use by value()."""
    handles = [variable.handle for variable in variables]
    return [tf.raw_ops.ReadVariableOp(resource=h, dtype=tf.float32).numpy() for h in handles]


def in_use(values, table):
    """Those of [capacity, width] that are shown, in their order."""
    return values[:3] if table.use_hash_index else values[sorted(KEYS)]


@pytest.mark.parametrize("as_function", [False, True], ids=["eager", "function"])
def test_what_is_done_to_rows_in_use(table, as_function):
    slot = slot_for(table, "test", "s", fill=0.5)
    before = everything(table, slot)

    def change():
        with showing_rows_in_use(table) as rows:
            assert table.shape.as_list() == slot.shape.as_list() == [None, 2]
            slot.assign(tf.cast(slot, tf.float32) * 2.0 + table)
            slot.scatter_add(tf.IndexedSlices(tf.ones([2, 2]), tf.constant([0, 2], tf.int64)))
            table.assign_sub(0.1 * slot)
            table.assign_add(tf.ones([3, 2]))
            return tf.gather(slot, [2, 0]), rows.row_ids

    gathered, row_ids = (tf.function(change) if as_function else change)()
    assert table.shape == slot.shape == [9, 2]
    shown, slot_shown = (in_use(values, table) for values in before)
    slot_shown = slot_shown * 2 + shown + np.array([[1], [0], [1]], np.float32)
    after = everything(table, slot)
    assert_close(in_use(after[1], table), slot_shown)
    assert_close(in_use(after[0], table), shown - 0.1 * slot_shown + 1)
    assert_close(gathered, slot_shown[[2, 0]])
    others = np.setdiff1d(np.arange(9), row_ids)
    for now, then in zip(after, before):
        np.testing.assert_array_equal(now[others], then[others])


def test_gradients(table):
    with showing_rows_in_use(table) as rows:
        given = tf.IndexedSlices(tf.constant([[1.0, 2.0], [3.0, 4.0]]), rows.row_ids[::-2], [9, 2])
        localized = rows.localized(given)
        assert_close(tf.convert_to_tensor(localized), [[3.0, 4.0], [0.0, 0.0], [1.0, 2.0]])
        dense = tf.reshape(tf.range(18.0), [9, 2])
        assert_close(rows.localized(dense), in_use(dense.numpy(), table))


def test_only_inside_and_in_one_thread(table):
    shapes = []
    with pytest.raises(KeyError), showing_rows_in_use(table):
        thread = threading.Thread(target=lambda: shapes.append(table.shape.as_list()))
        thread.start()
        thread.join()
        raise KeyError
    assert shapes == [[9, 2]] and table.shape == [9, 2] == table.value().shape
    with showing_some_rows(table):
        assert table.shape.as_list() == [3, 2] and table.value().shape == [9, 2]
