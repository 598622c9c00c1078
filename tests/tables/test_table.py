# SPDX-License-Identifier: Apache-2.0
"""A table without sok.Init: made, read and refused, in graphs, functions and eager mode."""

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from sok_compat.tables import Table
from sok_compat.tables.first_value import FirstValue
from sok_compat.tables.table import DEFAULT_SEED
from tests.support.lookups import lookup, lookup_bags
from tests.support.processes.subprocess_python import run_python

KEYS = np.array([5, -1, 2**40, 5, 0])


def rows_of(run, table, keys=KEYS, insert=True):
    return run(lambda keys: lookup(table, keys, insert), keys)


@pytest.mark.parametrize("initializer", [None, "random_normal", "ones"])
def test_first_values_are_those_of_sok(run, initializer):
    table = Table(16, 3, initializer, name="table", seed=7)
    rows = rows_of(run, table)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        sok_compat.Init(global_batch_size=8, seed=7)
        variable = sok_compat.core.EmbeddingVariable([16, 3], 0, initializer, name="table")
        session.run(variable.initializer)
        expected = session.run(lookup(variable, tf.constant(KEYS), True))
    np.testing.assert_array_equal(rows, expected)
    assert np.std(expected) > 0 or initializer == "ones"


def test_first_values_depend_on_seed_and_name(run):
    tables = [
        Table(16, 3, name="one"),
        Table(16, 3, name="other"),
        Table(16, 3, name="one", seed=DEFAULT_SEED + 1),
    ]
    rows = [rows_of(run, table) for table in tables]
    assert len({row.tobytes() for row in rows}) == 3
    with tf.Graph().as_default():
        again = Table(16, 3, name="one", seed=DEFAULT_SEED)
        with tf.compat.v1.Session() as session:
            session.run(again.initializer)
            np.testing.assert_array_equal(
                session.run(lookup(again, tf.constant(KEYS), True)), rows[0]
            )


def test_names_are_unique(run):
    assert [Table(4, 2, name="x").table_name for _ in range(2)] == ["x", "x_1"]


@pytest.mark.parametrize("use_hash_index", [True, False], ids=["hash", "direct"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_lookup_and_export(run, dtype, use_hash_index):
    table = Table(16, 3, use_hash_index=use_hash_index)
    keys = np.array([5, 1, 5, 0], dtype)
    absent = rows_of(run, table, keys, insert=False)
    assert run(table.num_keys) == 0
    rows = rows_of(run, table, keys)
    np.testing.assert_array_equal(rows, absent)
    exported, exported_rows = run(table.export)
    by_key = dict(zip(exported.tolist(), exported_rows))
    np.testing.assert_array_equal(rows, [by_key[key] for key in keys.tolist()])
    assert set(exported) >= {0, 1, 5} and run(table.num_keys) == 3


@pytest.mark.parametrize("use_hash_index", [True, False], ids=["hash", "direct"])
def test_keys_of_a_period_start_alike(run, use_hash_index):
    """Wherever their rows are made: in a lookup, by an insert, in what is exported."""
    first_value = FirstValue("normal", 0.0, 1.0, period=4)
    table = Table(16, 3, first_value, use_hash_index=use_hash_index)
    absent = rows_of(run, table, np.arange(8), insert=False)
    np.testing.assert_array_equal(absent[:4], absent[4:])
    assert len(np.unique(absent)) == 12
    np.testing.assert_array_equal(rows_of(run, table, np.array([5, 2])), absent[[1, 2]])
    exported, exported_rows = run(table.export)
    np.testing.assert_array_equal(exported_rows, absent[exported % 4])


@pytest.mark.parametrize("combiner", ["sum", "mean"])
@pytest.mark.parametrize("dtype", ["int32", "uint32"])
def test_bags(run, dtype, combiner):
    table = Table(16, 3, key_dtype="uint32" if dtype == "uint32" else None)
    keys, row_splits = np.array([5, 1, 5, 0], dtype), np.array([0, 2, 2, 4])
    pooled = run(
        lambda keys, splits: lookup_bags(table, keys, splits, combiner, True), keys, row_splits
    )
    rows = rows_of(run, table, keys)
    sums = np.stack([rows[:2].sum(0), np.zeros(3), rows[2:].sum(0)])
    np.testing.assert_allclose(pooled, sums / (2 if combiner == "mean" else 1), rtol=1e-6)


@pytest.mark.parametrize("key_dtype, given", [
    ("int64", "uint32"), ("int64", "float32"), ("uint32", "int32"), ("uint32", "int64"),
])  # fmt: skip
def test_keys_of_another_dtype_are_refused(run, key_dtype, given):
    table = Table(16, 3, key_dtype=key_dtype, name="mine")
    with pytest.raises(ValueError, match=f"mine: keys must be {key_dtype}.* got {given}"):
        run(lambda keys: lookup(table, keys, True), np.zeros([2], given))


@pytest.mark.parametrize("arguments, message", [
    (dict(capacity=0), "capacity must be an int >= 1, got 0"),
    (dict(dim=2.0), "dim must be an int >= 1, got 2.0"),
    (dict(capacity=1 << 46), "bytes that a process can address; lower its capacity"),
    (dict(key_dtype="int16"), "key_dtype must be int64 or uint32, got int16"),
    (dict(initializer=3), "the initializer of a table must be None, a name"),
])  # fmt: skip
def test_wrong_arguments(run, arguments, message):
    with pytest.raises(ValueError, match=message) as error:
        Table(**{"capacity": 16, "dim": 3, **arguments})
    assert "vocabulary" not in str(error.value)


def test_messages_know_no_face(run):
    table = Table(16, 3, name="mine")
    with pytest.raises(NotImplementedError, match="table mine: .*with sok_compat.lookup"):
        table.sparse_read([0])
    with pytest.raises(NotImplementedError, match="mine.*sok_compat.checkpoint.set_rows"):
        table.scatter_mul(None)


def test_no_face_is_imported():
    printed = run_python(
        """
        import sys
        import tensorflow as tf
        from sok_compat import checkpoint, training
        from sok_compat.lookup.group import lookup_group
        from sok_compat.lookup.table_lookup import Lookup
        from sok_compat.tables import Table

        table = Table(8, 2)
        with tf.GradientTape() as tape:
            rows = lookup_group([Lookup(table, tf.constant([3, 3]))], True)
            loss = tf.reduce_sum(rows[0])
        print(tape.gradient(loss, table).values.numpy().tolist())
        faces = [name for name in sys.modules if name.startswith("sok_compat.sparse_operation_kit")]
        print(faces)
        """,
        is_fresh=True,
    )
    assert printed.splitlines()[-2:] == ["[[2.0, 2.0]]", "['sok_compat.sparse_operation_kit']"]
