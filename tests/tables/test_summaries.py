# SPDX-License-Identifier: Apache-2.0
"""Figures of tables: `stats`, TensorBoard and Prometheus."""

import collections
import threading

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from sok_compat.checkpoint import save_tables_in_checkpoints
from sok_compat.checkpoint.streams.progress import logged
from sok_compat.lookup.group import lookup_group
from sok_compat.lookup.new_keys import WITH_GRADIENT
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.summaries import stats, summarize_tables
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
    assert len(tf1.get_collection(tf1.GraphKeys.SUMMARIES)) == 6 + 4
    with initialized_session(graph) as session:
        session.run(merged)
        for each in ([1, 2], [2, 3], [1, 4]):
            session.run(train, {keys: each})
        found = written(session.run(merged))
        num_bytes = stats()["tables"]["counted"]["bytes"]
    assert {tag: value for tag, value in found.items() if "counted" in tag} == {
        "counted/keys": 2,
        "counted/megabytes": pytest.approx(num_bytes / 1e6),
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


@pytest.mark.parametrize("history", [KeyHistory(2), KeyHistory(max_keys=8), None])
def test_tensorboard_gets_what_stats_has(graph, tmp_path, history):
    """Each figure, or what it sums up to over the steps."""
    save_tables_in_checkpoints()
    options = {} if history else {"storage_path": str(tmp_path), "memory_bytes": 2**20}
    table = Table(None, 2, "ones", name="compared", history=history, **options)
    keys = tf1.placeholder(tf.int64, [None])
    (rows,) = lookup_group([Lookup(table, keys)], WITH_GRADIENT)
    step = tf1.train.create_global_step()
    (gradient,) = tf.gradients(rows, [table])
    optimizer = tf1.train.GradientDescentOptimizer(0.1)
    train = optimizer.apply_gradients([(gradient, table)], global_step=step)
    merged, saver = summarize_tables(), tf1.train.Saver()
    sums = collections.Counter()
    with initialized_session(graph) as session:
        session.run(merged)
        for number in range(5):
            session.run(train, {keys: range(2 * number, 2 * number + 6)})
            path = saver.save(session, str(tmp_path / "model"))
            if number == 0:
                saver.restore(session, path)
            found, figures = written(session.run(merged)), stats()
            for tag, value in found.items():
                sums[tag] += value
    of = figures["tables"]["compared"]
    expected = {
        "keys": of["keys"], "megabytes": of["bytes"] / 1e6, "keys_without_row": of["waiting"],
        "share_of_keys_with_row": of["keys"] / (of["keys"] + of["waiting"]),
    }  # fmt: skip
    rates = {"new_keys": of["keys"] + of["evicted"], "evicted_keys": of["evicted"]}
    if history is None:
        expected["resident_megabytes"] = of["resident_bytes"] / 1e6
        rates["megabytes_read"] = of["bytes_read"] / 1e6
        rates["megabytes_written"] = of["bytes_written"] / 1e6
        assert found["compared/share_of_rows_found_in_memory"] == 1 and of["rows_missed"] == 0
    assert {name: found[f"compared/{name}"] for name in expected} == pytest.approx(expected)
    summed = {name: sums[f"compared/{name}_per_step"] for name in rates}
    assert summed == pytest.approx(rates)
    for what in ("saves", "restores"):
        assert found[f"{what}/seconds"] == pytest.approx(figures[what]["seconds"])
        assert found[f"{what}/megabytes"] == pytest.approx(figures[what]["bytes"] / 1e6)


def test_what_cannot_be_summarized(graph):
    with pytest.raises(ValueError, match="needs tables: the graph has none"):
        summarize_tables()


def test_without_a_step():
    with pytest.raises(ValueError, match="needs a step: pass step="):
        summarize_tables([Table(None, 2, "ones")])


def test_stats_of_tables_of_two_sessions(graph):
    table = Table(None, 2, "ones", name="asked", history=KeyHistory(2))
    keys = tf1.placeholder(tf.int64, [None])
    (rows,) = lookup_group([Lookup(table, keys)], WITH_GRADIENT)
    (gradient,) = tf.gradients(rows, [table])
    train = tf1.train.GradientDescentOptimizer(0.1).apply_gradients([(gradient, table)])
    before = stats()["tables"]
    assert "asked" not in before
    with initialized_session(graph) as session, initialized_session(graph) as other:
        for each in ([1, 2], [2, 3], [1, 4]):
            session.run(train, {keys: each})
        found = stats()["tables"]
        assert [found[name]["keys"] for name in ("asked", "asked (2)")] == [2, 0]
        index = found["asked (2)"].pop("bytes")
        of_files = ["file_bytes", "rows_requested", "rows_missed", "bytes_read", "bytes_written"]
        assert found["asked"] == {
            "keys": 2, "rows": 2, "evicted": 0, "waiting": 2, "capacity": 2**32 - 1,
            "bytes": index + 2 * 2 * 4, "resident_bytes": index + 2 * 2 * 4,
            **dict.fromkeys(of_files, 0),
        }  # fmt: skip
    del session, other
    assert stats()["tables"].keys() == before.keys()


def test_stats_of_saves_and_restores(graph, tmp_path):
    save_tables_in_checkpoints()
    table = Table(None, 2, "ones", name="kept")
    keys = tf1.placeholder(tf.int64, [None])
    (rows,) = lookup_group([Lookup(table, keys)], True)
    saver = tf1.train.Saver()
    before = stats()
    num_bytes = 3 * (8 + 2 * 4)
    with initialized_session(graph) as session:
        session.run(rows, {keys: [1, 2, 3]})
        with logged("saving beside it"):  # each byte counts once, and as saved or as restored
            path = saver.save(session, str(tmp_path / "model"))
            with logged("restoring beside it"):
                saver.restore(session, path)
                saver.restore(session, path)
    for what, times, least in (("saves", 2, num_bytes), ("restores", 3, 4 * num_bytes)):
        grown = {name: stats()[what][name] - before[what][name] for name in before[what]}
        assert grown["count"] == times
        assert grown["seconds"] > 0
        assert least <= grown["bytes"] < least + num_bytes


def test_stats_beside_training():
    table = Table(None, 2, "ones", name="beside", history=KeyHistory(max_keys=50))
    has_ended, seen = threading.Event(), []

    def ask():
        while not has_ended.is_set():
            seen.append(stats()["tables"]["beside"])

    lookup_group([Lookup(table, tf.range(1, dtype=tf.int64))], True)
    thread = threading.Thread(target=ask)
    thread.start()
    for step in range(100):
        other = Table(None, 2, "ones", name="short lived")
        for each in (table, other):
            keys = tf.range(10 * step, 10 * step + 20, dtype=tf.int64)
            lookup_group([Lookup(each, keys)], True)
    has_ended.set()
    thread.join()
    assert all(0 < figures["keys"] <= 60 for figures in seen)  # 10 come before others go
    come = [figures["keys"] + figures["evicted"] for figures in seen]
    assert come == sorted(come)
    assert stats()["tables"]["beside"]["evicted"] == 100 * 10 + 10 - 50


def test_prometheus():
    client = pytest.importorskip("prometheus_client")
    from examples.prometheus import Tables

    table = Table(None, 2, "ones", name="measured")
    lookup_group([Lookup(table, tf.range(5, dtype=tf.int64))], True)
    registry = client.CollectorRegistry()
    registry.register(Tables())
    assert registry.get_sample_value("sok_table_keys", {"table": "measured"}) == 5
