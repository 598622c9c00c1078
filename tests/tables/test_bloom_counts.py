# SPDX-License-Identifier: Apache-2.0
"""A table whose filter counts keys without a row in a counting Bloom filter."""

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.new_keys import WITH_GRADIENT
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.tables.key_history import BloomCounts, KeyHistory
from sok_compat.tables.table import Table
from tests.support.sessions import initialized_session


def make_table(filter_freq, *sizes, evicts=False):
    history = KeyHistory(filter_freq, BloomCounts.of(*sizes), evicts=evicts)
    return Table(None, 2, "ones", history=history)


class Steps:
    """Steps that train the keys they are given."""

    def __init__(self, table):
        self.keys = tf.compat.v1.placeholder(tf.int64, [None])
        (rows,) = lookup_group([Lookup(table, self.keys)], WITH_GRADIENT)
        (gradient,) = tf.gradients(rows, [table])
        self._run = gradient.indices

    def train(self, session, *keys):
        """The ids of the rows that the step trains."""
        return session.run(self._run, {self.keys: keys}).tolist()


@pytest.mark.parametrize("probability", [0.1, 0.01])
@pytest.mark.parametrize("counter_bytes", [1, 8])
def test_as_many_keys_as_asked_for_are_taken_for_others(graph, probability, counter_bytes):
    table = make_table(3, 3000, probability, counter_bytes)
    known, others = np.arange(3000) * 7919, -1 - np.arange(30000)
    imported = table.import_history(known, np.full(3000, 2), np.zeros(3000, np.int64))
    counts = table.key_history(np.concatenate([known, others]))[0]
    with initialized_session() as session:
        assert not session.run(counts).any()
        session.run(imported)
        found = session.run(counts)
    assert set(found[:3000]) == {2}
    wrong = np.mean(found[3000:] > 0)
    if (counter_bytes, probability) == (8, 0.01):  # the one for which exact counts take less
        assert wrong == 0
    else:
        assert 0.7 * probability < wrong < 1.3 * probability


def test_counts_that_are_imported_go_on(graph):
    table = make_table(4, 100, 0.001, 4)
    steps = Steps(table)
    known = table.key_history([5, 6, 7])[0]
    imported = table.import_history([5, 6], [3, 1], [8, 9])
    with initialized_session() as session:
        session.run(imported)
        assert session.run(known).tolist() == [3, 1, 0]
        steps.train(session, 5, 6, 7)
        assert session.run(known).tolist() == [4, 2, 1]
        assert steps.train(session, 5, 6) == [0]
        assert session.run(known).tolist() == [5, 3, 1]
        session.run(imported)  # less than it knows: of a row it is what counts, in the filter not
        assert session.run(known).tolist() == [3, 3, 1]


def test_a_key_that_was_evicted_gets_a_row_when_it_comes_again(graph):
    table = make_table(3, 100, 0.001, 2, evicts=True)
    steps = Steps(table)
    evict = table.evict(tf.constant(50, tf.int64), steps_to_live=2)
    num_keys = table.num_keys()
    with initialized_session() as session:
        steps.train(session, 5, 5, 5, 6)
        assert session.run(evict) == 1
        assert session.run(num_keys) == 0
        steps.train(session, 5, 6)  # its count stands in the filter
        assert session.run(num_keys) == 1 and steps.train(session, 5, 6) == [0, 1]


def test_a_restored_row_counts_in_the_filter(graph):
    """A checkpoint has the keys with rows, whose counts the filter is given again."""
    table = make_table(3, 100, 0.001, 2, evicts=True)
    steps = Steps(table)
    with initialized_session() as session:
        steps.train(session, 5, 5, 5)
        session.run(table.import_history([5], [9], [4]))
        assert session.run(table.key_history([5]))[0].tolist() == [9]
        assert session.run(table.evict(tf.constant(50, tf.int64), steps_to_live=2)) == 1
        # The filter knows that the key had a row, not how often it came since.
        assert session.run(table.key_history([5]))[0].tolist() == [3]
        steps.train(session, 5)
        assert session.run(table.num_keys()) == 1
