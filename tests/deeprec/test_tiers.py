# SPDX-License-Identifier: Apache-2.0
"""Storage types with a disk: results of one tier, and `lookup_tier`, as in DeepRec's tests."""

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.deeprec.lookups.stock_lookups import embedding_lookup
from sok_compat.deeprec.python.ops.kv_variable_ops import lookup_tier
from sok_compat.deeprec.variables import storage_option
from sok_compat.deeprec.variables.options import EmbeddingVariableOption
from sok_compat.deeprec.variables.storage_option import StorageOption, StorageType
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1
ON_DISK = [one for one in StorageType if any(word in one.name for word in ("SSD", "LEVELDB"))]


def variable_on(folder, num_bytes, dim, storage_type=StorageType.DRAM_SSDHASH, **kwargs):
    option = EmbeddingVariableOption(
        storage_option=StorageOption(storage_type, str(folder), [num_bytes])
    )
    return get_embedding_variable(
        "on_disk", dim, initializer=tf1.ones_initializer(), ev_option=option, **kwargs
    )


@pytest.mark.parametrize("storage_type", ON_DISK)
def test_adagrad_on_few_bytes_is_that_of_a_plain_variable(graph, disk, storage_type):
    on_disk = variable_on(disk, 4096, 30, storage_type)
    plain = tf1.get_variable("plain", [9, 30], initializer=tf1.ones_initializer())
    ids = tf.constant([0, 1, 2, 5, 6, 7, 8, 5, 0], tf.int64)
    steps, losses = [], []
    for variable in (on_disk, plain):
        loss = tf.reduce_sum(tf.nn.embedding_lookup(variable, ids) * 2.0)
        losses.append(loss)
        steps.append(tf1.train.AdagradOptimizer(0.1).minimize(loss, var_list=[variable]))
    with initialized_session(graph) as session:
        for _ in range(60):
            found = session.run([*losses, *steps])[:2]
            np.testing.assert_array_equal(*found)


def test_what_was_used_once_leaves_first(graph, disk):
    page_floats = 1024
    variable = variable_on(disk, 4 * 4 * page_floats, page_floats)  # four rows
    ids = tf1.placeholder(tf.int64, [None])
    loss = tf.reduce_sum(tf.nn.embedding_lookup(variable, ids))
    train = tf1.train.GradientDescentOptimizer(0.5).minimize(loss, var_list=[variable])
    tiers = lookup_tier(variable, tf.range(1, 7))
    read = variable.sparse_read(tf.constant([3, 1, 6]))
    with initialized_session(graph) as session:
        for batch in ([1, 2, 3], [1, 2, 4], [1, 2, 2], [1, 2, 5]):
            session.run(train, {ids: batch})
        assert session.run(tiers).tolist() == [0, 0, 1, 0, 0, -1]
        rows = session.run(read)
        assert rows[:, 0].tolist() == [0.5, 1 - 0.5 * 4, 1.0]
        assert session.run(tiers)[2] == 0  # reads bring rows back


def test_a_checkpoint_has_the_rows_of_all_tiers(graph, disk):
    page_floats = 1024
    variable = variable_on(disk, 4 * 4 * page_floats, page_floats, steps_to_live=50)
    ids = tf1.placeholder(tf.int64, [None])
    loss = tf.reduce_sum(tf.nn.embedding_lookup(variable, ids))
    step = tf1.train.get_or_create_global_step()
    optimizer = tf1.train.GradientDescentOptimizer(0.5)
    train = optimizer.minimize(loss, step, var_list=[variable])
    tiers = lookup_tier(variable, tf.range(1, 8))
    with initialized_session(graph) as session:
        for last in (3, 4, 2, 5, 6, 7):
            session.run(train, {ids: [1, 2, last]})
        assert session.run(tiers).tolist() == [0, 0, 1, 1, 1, 0, 0]
        path = tf1.train.Saver().save(session, f"{disk}/model")
    keys, values = (tf.train.load_variable(path, f"on_disk-{what}") for what in ("keys", "values"))
    expected = {1: -2.0, 2: -2.5, **dict.fromkeys((3, 4, 5, 6, 7), 0.5)}
    assert dict(zip(keys.tolist(), values[:, 0].tolist())) == expected


def test_a_checkpoint_has_the_frequencies(graph, disk, monkeypatch):
    monkeypatch.setenv("TF_RECORD_FREQ", "1")
    variable = variable_on(disk, 1 << 20, 3, StorageType.DRAM_LEVELDB, steps_to_live=5)
    ids = tf.constant([1, 1, 1, 2, 2, 3], tf.int64)
    loss = tf.reduce_sum(tf.nn.embedding_lookup(variable, ids))
    step = tf1.train.get_or_create_global_step()
    train = tf1.train.AdagradOptimizer(0.1).minimize(loss, step)
    with initialized_session(graph) as session:
        for _ in range(2):
            session.run(train)
        path = tf1.train.Saver().save(session, f"{disk}/model")
    keys, freqs = (tf.train.load_variable(path, f"on_disk-{what}") for what in ("keys", "freqs"))
    assert dict(zip(keys.tolist(), freqs.tolist())) == {1: 6, 2: 4, 3: 2}


def test_parts_have_tiers(graph, disk):
    variable = variable_on(disk, 1 << 20, 4, partitioner=tf1.fixed_size_partitioner(2))
    loss = tf.reduce_sum(embedding_lookup(variable, tf.range(5, dtype=tf.int64)))
    train = tf1.train.AdagradOptimizer(0.1).minimize(loss)
    tiers = lookup_tier(variable, tf.constant([[0, 1, 2], [3, 4, 5]]))
    with initialized_session(graph) as session:
        session.run(train)
        assert session.run(tiers).tolist() == [[0, 0, 0], [0, 0, -1]]


@pytest.mark.parametrize("storage_type", [None, StorageType.DRAM])
def test_rows_in_memory_are_in_tier_0(graph, storage_type):
    option = EmbeddingVariableOption(storage_option=StorageOption(storage_type))
    variable = get_embedding_variable("v", 4, ev_option=option)
    train = tf1.train.AdagradOptimizer(0.1).minimize(
        tf.reduce_sum(tf.nn.embedding_lookup(variable, tf.constant([7], tf.int64)))
    )
    tiers = lookup_tier(variable, [7, 8])
    with initialized_session(graph) as session:
        session.run(train)
        assert session.run(tiers).tolist() == [0, -1]


@pytest.mark.parametrize("storage_type, stores", [
    (StorageType.PMEM_LIBPMEM, "all rows"),
    (StorageType.DRAM_PMEM, "all rows"),
    (StorageType.HBM_DRAM, "all rows"),
    (StorageType.DRAM_PMEM_SSDHASH, "rows in front of the files"),
    (StorageType.HBM_DRAM_SSDHASH, "rows in front of the files"),
])  # fmt: skip
def test_tiers_whose_place_dram_takes_are_said_once(
    graph, caplog, monkeypatch, tmp_path, storage_type, stores
):
    monkeypatch.setattr(storage_option, "_warned_of", set())
    option = EmbeddingVariableOption(storage_option=StorageOption(storage_type, str(tmp_path)))
    for name in "vw":
        variable = get_embedding_variable(name, 2, ev_option=option)
    assert variable.storage_type is storage_type and "GPU" not in variable.device
    assert [record.getMessage() for record in caplog.records] == [
        f"v: storage type {storage_type.name}: DRAM takes the place of its first tiers, and stores "
        f"{stores}"
    ]
