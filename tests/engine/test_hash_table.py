# SPDX-License-Identifier: Apache-2.0
"""HashTable, call by call. Nothing here needs TensorFlow."""

import subprocess
import sys

import numpy as np
import pytest

from sok_compat.engine import Constant, Normal, TruncatedNormal, Uniform


def test_row_ids_count_up_in_the_order_of_arrival(new_table):
    table = new_table(2)
    assert table.insert([7, -1, 7, 2**63 - 1]).tolist() == [0, 1, 0, 2]
    assert table.insert([5, -1]).tolist() == [3, 1]
    assert table.find([5, 6, -(2**63)]).tolist() == [3, -1, -1]
    assert len(table) == table.size == 4
    assert 5 in table and 6 not in table
    assert table.find([]).tolist() == table.insert(np.zeros(0, np.int32)).tolist() == []


def test_rows_given_at_insertion_go_to_new_keys_only(new_table):
    table = new_table(1, initializer="ones")
    table.insert([1])
    table.insert([1, 2, 3, 2], rows=[[10], [20], [30], [40]])
    assert table.gather([1, 2, 3]).ravel().tolist() == [1, 20, 30]


def test_gather_gives_first_values_without_inserting(new_table):
    table = new_table(3, name="t", seed=5)
    before = table.gather([1, 2, 1])
    assert len(table) == 0
    table.insert([2, 1])
    np.testing.assert_array_equal(table.gather([1, 2, 1]), before)
    np.testing.assert_array_equal(new_table(3, name="t", seed=5).gather([1, 2, 1]), before)
    assert not np.array_equal(new_table(3, name="t", seed=6).gather([1, 2, 1]), before)
    assert not np.array_equal(new_table(3, name="u", seed=5).gather([1, 2, 1]), before)


def test_scatter_add_and_assign(new_table):
    table = new_table(2, initializer="zeros")
    table.insert([4, 5, 6])
    table.scatter_add([5, 4, 5], np.array([[1, 2], [3, 4], [10, 20]]))
    assert table.gather([4, 5, 6]).tolist() == [[3, 4], [11, 22], [0, 0]]
    table.assign([4, 6, 4], [[1, 1], [2, 2], [3, 3]])
    assert table.gather([4, 5, 6]).tolist() == [[3, 3], [11, 22], [2, 2]]


def test_erase_and_reuse(new_table):
    table = new_table(1, initializer="zeros")
    table.insert([10, 11, 12], rows=[[1], [2], [3]])
    assert table.erase([11, 99, 11]) == 1
    assert table.find([10, 11, 12]).tolist() == [0, -1, 2]
    assert table.insert([13]).tolist() == [1]
    assert table.gather([10, 11, 12, 13]).ravel().tolist() == [1, 0, 3, 0]


def test_export_and_clear(new_table):
    table = new_table(2, key_dtype="uint32")
    table.insert([2**32 - 1, 0, 7], rows=np.arange(6).reshape(3, 2))
    table.erase([0])
    keys, rows = table.export()
    assert keys.dtype == np.uint32 and rows.dtype == np.float32
    assert keys.tolist() == [2**32 - 1, 7]
    assert rows.tolist() == [[0, 1], [4, 5]]
    table.clear()
    assert len(table) == 0 and table.export()[1].shape == (0, 2)
    assert table.insert([1]).tolist() == [0]
    assert rows.tolist() == [[0, 1], [4, 5]]


def test_memory_follows_the_keys(new_table):
    table = new_table(8, capacity=1 << 30)
    empty = table.index_bytes
    assert empty < 10_000 and table.row_bytes == 0
    table.insert(np.arange(100_000))
    # A GPU maps memory in large pieces, and makes some for the batches to come.
    batches = 1 if new_table.engine == "cpu" else 4
    slack = 0 if new_table.engine == "cpu" else 4 << 20
    assert 100_000 * 8 * 4 <= table.row_bytes <= batches * 100_000 * 8 * 4 + slack
    assert table.index_bytes <= batches * 24 * 100_000
    table.clear()
    assert (table.index_bytes, table.row_bytes) == (empty, 0)


@pytest.mark.parametrize("view", ["strided", "reversed", "column", "big_endian", "read_only"])
def test_keys_and_rows_of_any_layout(new_table, view):
    plain = np.array([3, -5, 8, 3])
    xp = new_table.xp
    array = xp.asarray(plain)
    keys = {
        "strided": xp.repeat(array, 2)[::2],
        "reversed": array[::-1].copy()[::-1],
        "column": xp.stack([array, array], axis=1)[:, 1],
        "big_endian": plain.astype(">i8"),
        "read_only": np.frombuffer(plain.tobytes(), np.int64),
    }[view]
    values = xp.asfortranarray(xp.arange(8, dtype=np.float32).reshape(4, 2))
    table = new_table(2, initializer="zeros")
    assert table.insert(keys).tolist() == [0, 1, 2, 0]
    table.scatter_add(keys, values)
    assert table.gather(plain).tolist() == [[6, 8], [2, 3], [4, 5], [6, 8]]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_any_integer_type_is_a_key(new_table, dtype):
    table = new_table(1)
    assert table.insert(np.array([1, 100], dtype)).tolist() == [0, 1]
    assert table.find(np.array([100, 2], dtype)).tolist() == [1, -1]


@pytest.mark.parametrize(
    "initializer, low, high, mean, deviation",
    [
        ("uniform", -0.05, 0.05, 0, 0.1 / 12**0.5),
        ("normal", -np.inf, np.inf, 0, 0.05),
        ("truncated_normal", -0.1, 0.1, 0, 0.05 * 0.8796),
        ("zeros", 0, 0, 0, 0),
        ("ones", 1, 1, 1, 0),
        (Uniform(1, 3), 1, 3, 2, 2 / 12**0.5),
        (Normal(2, 0.5), -np.inf, np.inf, 2, 0.5),
        (TruncatedNormal(2, 0.5), 1, 3, 2, 0.5 * 0.8796),
        (Constant(0.25), 0.25, 0.25, 0.25, 0),
    ],
    ids=str,
)
def test_initializers(new_table, initializer, low, high, mean, deviation):
    rows = new_table(16, initializer=initializer).gather(np.arange(-5000, 5000))
    assert rows.min() >= low and rows.max() <= high
    assert rows.mean() == pytest.approx(mean, abs=0.01)
    assert rows.std() == pytest.approx(deviation, rel=0.02)


def test_works_without_tensorflow():
    program = (
        "import sys; sys.modules['tensorflow'] = None; import sok_compat;"
        "sok_compat.HashTable(2).insert([1])"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
