# SPDX-License-Identifier: Apache-2.0
"""Increments of a model with embedding variables, in parts and with a filter of keys: served by a
Follower, and as Parquet files."""

import os

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from sok_compat.checkpoint.tool.command_line import main
from sok_compat.deeprec.collective.savers import Saver
from sok_compat.deeprec.lookups.stock_lookups import embedding_lookup
from sok_compat.deeprec.optimizer_rules.train_optimizers import AdagradOptimizer
from sok_compat.deeprec.variables.options import CounterFilter, EmbeddingVariableOption
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from sok_compat.serving import Follower

KEYS = np.arange(-3, 15)
BATCHES = [1, 2, 3, 1, 2], [2, 7, -2], [9, 3, -2, 1, 9], [12]


def model(num_parts, filter_freq, value_dtype=tf.float32):
    """(ids, output, loss)"""
    option = EmbeddingVariableOption(
        filter_option=CounterFilter(filter_freq) if filter_freq else None
    )
    variable = get_embedding_variable(
        "v",
        3,
        value_dtype=value_dtype,
        initializer=tf.ones_initializer(),
        partitioner=num_parts and tf.fixed_size_partitioner(num_parts),
        ev_option=option,
    )
    bias = tf.get_variable("bias", [3])
    ids = tf.placeholder(tf.int64, [None])
    output = embedding_lookup(variable, ids) + bias
    return ids, output, tf.reduce_sum(output**2)


@pytest.mark.parametrize("num_parts, filter_freq", [(None, 0), (3, 0), (3, 2)])
def test_serves_what_is_trained(graph, tmp_path, num_parts, filter_freq):
    def build():
        ids, output, _ = model(num_parts, filter_freq)
        return {"ids": ids}, {"output": output}

    ids, output, loss = model(num_parts, filter_freq)
    step = AdagradOptimizer(0.1).minimize(loss)
    saver = Saver(incremental_save_restore=True)
    with tf.Session() as session, Follower(build, tmp_path, poll_seconds=0.02) as follower:
        session.run(tf.global_variables_initializer())
        for number, batch in enumerate(BATCHES):
            session.run(step, {ids: batch})
            path = saver.save_increment(session, str(tmp_path / "model"), number)
            follower.wait(os.path.basename(path), 60)
            expected = session.run(output, {ids: KEYS})
            served = follower.run({"ids": KEYS})["output"]
            np.testing.assert_allclose(served, expected, rtol=1e-6)


@pytest.mark.parametrize("num_parts", [None, 3])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_changes_in_parquet(graph, tmp_path, num_parts, dtype, capsys, caplog):
    """Of one table, and applied one after the other the same as a whole checkpoint."""
    pq = pytest.importorskip("pyarrow.parquet")
    ids, _, loss = model(num_parts, 0, tf.as_dtype(dtype))
    step = AdagradOptimizer(0.1).minimize(loss)
    saver, files = Saver(incremental_save_restore=True), []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for number, batch in enumerate(BATCHES):
            session.run(step, {ids: batch})
            path = saver.save_increment(session, str(tmp_path / "model"), number)
            files.append(f"{path}.parquet")
            assert main(["changes", path, "--to", files[-1]]) == 0
            changes = pq.read_table(files[-1]).to_pylist()
            assert {(each["table"], each["op"]) for each in changes} == {("v", "upsert")}
            assert sorted(each["key"] for each in changes) == sorted({*batch})
        assert main(["show", path]) == 0
        of_rows = "" if dtype == "float32" else f" {dtype}"
        assert f"table v: 1 key new or changed, dim 3{of_rows}, " in capsys.readouterr().out
        saver.restore(session, path)
        assert "are not restored" not in caplog.text
        whole = saver.save(session, str(tmp_path / "whole"))
    dump = str(tmp_path / "dump")
    assert main(["import", dump, "--table", "v", "--from", *files]) == 0
    capsys.readouterr()
    main(["diff", whole, dump, "--table", "v"])
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["table v: 7 keys in both", "  only in one: v/Adagrad"]
