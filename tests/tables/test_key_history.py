# SPDX-License-Identifier: Apache-2.0
"""Tables that keep a history of their keys, without a face."""

import pytest
import tensorflow as tf

from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.new_keys import WITH_GRADIENT
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.tables.key_history import BloomCounts, KeyHistory
from sok_compat.tables.table import Table
from tests.support.sessions import initialized_session


def looked_up(table, keys, insert=WITH_GRADIENT):
    return lookup_group([Lookup(table, tf.constant(keys, tf.int64))], insert)[0]


def test_a_table_of_a_capacity_filters_and_evicts(graph):
    history = KeyHistory(2, BloomCounts(100, 3, 1), value_without_row=-1.0, evicts=True)
    table = Table(4, 2, "ones", history=history)
    rows = looked_up(table, [7, 8, 7])
    (gradient,) = tf.gradients(rows, [table])
    evicted = table.evict(10, steps_to_live=3)
    with initialized_session() as session:
        assert session.run([rows, gradient.indices])[0][:, 0].tolist() == [-1.0, -1.0, -1.0]
        assert session.run(looked_up(table, [7, 8], insert=False))[:, 0].tolist() == [1.0, -1.0]
        assert session.run(table.key_history([7, 8]))[0].tolist() == [2, 1]
        assert session.run(evicted) == 1 and session.run(table.num_keys()) == 0
        assert session.run(table.waiting_keys())[0].tolist() == []


def test_keys_are_counted_with_gradients_only(graph):
    table = Table(4, 2, "ones", history=KeyHistory())
    for insert in (True, tf.constant(True)):
        with pytest.raises(ValueError, match="Table counts keys when gradients are computed"):
            looked_up(table, [7], insert)


def test_what_a_table_was_not_made_for(graph):
    with pytest.raises(ValueError, match="without a hash index cannot keep a history"):
        Table(4, 2, "ones", use_hash_index=False, history=KeyHistory())
    with pytest.raises(ValueError, match="makes all rows at once cannot evict keys"):
        Table(4, 2, tf.keras.initializers.Orthogonal(), history=KeyHistory(evicts=True))
    plain, counting = Table(4, 2, "ones"), Table(4, 2, "ones", history=KeyHistory())
    for table in (plain, counting):
        with pytest.raises(ValueError, match="was not made to evict keys"):
            table.evict(3, steps_to_live=1)
    for ask in (
        lambda: plain.key_history([1]),
        plain.waiting_keys,
        lambda: plain.import_history([1], [1], [1]),
    ):
        with pytest.raises(ValueError, match="the table Table keeps no history of its keys"):
            ask()
    assert plain.before_save() is None and counting.before_save() is None
    assert "KeyHistory" in counting.kind() and "KeyHistory" not in plain.kind()
