# SPDX-License-Identifier: Apache-2.0
"""Figures of tables for TensorBoard."""

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.new_keys import WITH_GRADIENT
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.summaries import summarize_tables
from sok_compat.tables.key_history import KeyHistory
from sok_compat.tables.table import Table
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1


def written(summary):
    return {each.tag: each.simple_value for each in tf1.Summary.FromString(summary).value}


def test_in_a_graph(graph):
    table = Table(None, 2, "ones", name="counted", history=KeyHistory(2))
    keys = tf1.placeholder(tf.int64, [None])
    (rows,) = lookup_group([Lookup(table, keys)], WITH_GRADIENT)
    step = tf1.train.create_global_step()
    optimizer = tf1.train.AdagradOptimizer(0.1)
    (gradient,) = tf.gradients(rows, [table])
    with sok_compat.OptimizerScope([table]):
        train = optimizer.apply_gradients([(gradient, table)], global_step=step)
    merged = summarize_tables()
    assert len(tf1.get_collection(tf1.GraphKeys.SUMMARIES)) == 6
    with initialized_session(graph) as session:
        session.run(merged)
        for each in ([1, 2], [2, 3], [1, 4]):
            session.run(train, {keys: each})
        found = written(session.run(merged))
    assert found == {
        "counted/keys": 2,
        "counted/megabytes": pytest.approx(2 * 4 * 4 / 1e6),
        "counted/new_keys_per_step": pytest.approx(2 / 3),
        "counted/evicted_keys_per_step": 0,
        "counted/keys_without_row": 2,
        "counted/share_of_keys_with_row": 0.5,
    }


def test_in_eager_mode(tmp_path):
    table = Table(None, 2, "ones", name="limited", history=KeyHistory(max_keys=4))
    with tf.summary.create_file_writer(str(tmp_path)).as_default():
        for step in (0, 1, 3):
            lookup_group([Lookup(table, tf.range(3 * step, 3 * step + 3, dtype=tf.int64))], True)
            summarize_tables([table], step)
    (path,) = tmp_path.iterdir()
    found = {
        (event.step, value.tag): float(tf.make_ndarray(value.tensor))
        for event in tf1.train.summary_iterator(str(path))
        for value in event.summary.value
    }
    assert [found[step, "limited/keys"] for step in (0, 1, 3)] == [3, 4, 4]
    assert [found[step, "limited/new_keys_per_step"] for step in (0, 1, 3)] == [0, 3, 1.5]
    assert np.allclose([found[step, "limited/evicted_keys_per_step"] for step in (1, 3)], [2, 1.5])


def test_what_cannot_be_summarized(graph):
    with pytest.raises(ValueError, match="needs tables: the graph has none"):
        summarize_tables()


def test_without_a_step():
    with pytest.raises(ValueError, match="needs a step: pass step="):
        summarize_tables([Table(None, 2, "ones")])
