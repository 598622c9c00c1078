# SPDX-License-Identifier: Apache-2.0
"""Every error of HashTable: its class, what it names, and that nothing is lost."""

from pathlib import Path

import numpy as np
import pytest

from sok_compat import HashTable
from sok_compat.engine import CapacityError, Normal, TruncatedNormal, Uniform
from tests.support.processes.subprocess_python import run_python


@pytest.fixture
def table(new_table):
    """A table of capacity 4 with the keys 1, 2, 3; fails the test if a call changed it."""
    table = new_table(2, capacity=4, name="users")
    table.insert([1, 2, 3])
    before = table.export()
    yield table
    after = table.export()
    np.testing.assert_array_equal(after[0], before[0])
    np.testing.assert_array_equal(after[1], before[1])


def test_a_full_table_names_what_it_is_about(table):
    with pytest.raises(CapacityError, match="'users'.* 4 keys.* holds 3.* 2 new keys.*capacity"):
        table.insert([1, 8, 9, 8])
    assert issubclass(CapacityError, RuntimeError)


@pytest.mark.parametrize("call", ["scatter_add", "assign"])
def test_changing_an_unknown_key(table, call):
    with pytest.raises(KeyError, match="'users' does not hold the key 7 at position 1"):
        getattr(table, call)([1, 7, 8], np.ones((3, 2)))


@pytest.mark.parametrize("call", ["insert", "find", "gather", "erase"])
@pytest.mark.parametrize(
    "keys, error, message",
    [
        ([1.0], TypeError, "integers.*float64"),
        (np.zeros(0), TypeError, "integers.*float64"),
        ([True], TypeError, "integers.*bool"),
        (["a"], TypeError, "integers"),
        ([None], TypeError, "integers.*object"),
        (7, ValueError, r"one dimension.*\(\)"),
        ([[1, 2]], ValueError, r"one dimension.*\(1, 2\)"),
        ([0, 2**63], ValueError, "int64 keys.*got 9223372036854775808 at position 1"),
        ([2**70], ValueError, f"got {2**70} at position 0"),
        (np.array([5, 2**63], np.uint64), ValueError, f"got {2**63} at position 1"),
        (np.array([2**64 - 1], np.uint64), ValueError, f"got {2**64 - 1} at position 0"),
    ],
)
def test_bad_keys(table, call, keys, error, message):
    with pytest.raises(error, match=message):
        getattr(table, call)(keys)


@pytest.mark.parametrize("key", [-1, 2**32])
def test_uint32_keys_have_limits(new_table, key):
    table = new_table(1, key_dtype=np.uint32)
    with pytest.raises(ValueError, match=f"uint32 keys go from 0 to 4294967295, got {key} at"):
        table.insert([5, key])
    assert len(table) == 0


@pytest.mark.parametrize("call", ["insert", "scatter_add", "assign"])
@pytest.mark.parametrize(
    "rows, error, message",
    [
        (np.ones((2, 2)), ValueError, r"\(3, 2\), got \(2, 2\)"),
        (np.ones((3, 3)), ValueError, r"\(3, 2\), got \(3, 3\)"),
        (np.ones(6), ValueError, r"got \(6,\)"),
        (1.0, ValueError, r"got \(\)"),
        (np.ones((3, 2), complex), TypeError, "real numbers.*complex128"),
        ([["a", "b"]] * 3, TypeError, "real numbers"),
    ],
)
def test_bad_rows(table, call, rows, error, message):
    with pytest.raises(error, match=message):
        getattr(table, call)([1, 2, 3], rows)


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"dim": 0}, ValueError, "dim must be between 1 and .*got 0"),
        ({"dim": 2**62}, ValueError, "dim must be at most 268435456 .*got 4611686018427387904"),
        ({"dim": 2**62 + 1}, ValueError, "dim must be at most 268435456 .*got 4611686018427387905"),
        ({"dim": 2.0}, TypeError, "dim must be a whole number, got 2.0"),
        ({"capacity": -5}, ValueError, "capacity.*got -5"),
        ({"capacity": 1 << 62}, MemoryError, "capacity"),
        ({"capacity": 1 << 55}, MemoryError, "smaller capacity"),
        ({"num_threads": 0}, ValueError, "num_threads.*got 0"),
        ({"seed": 2**63}, ValueError, "seed"),
        ({"key_dtype": "int32"}, ValueError, "'int64', 'uint32'.*got 'int32'"),
        ({"key_dtype": "no such"}, ValueError, "got 'no such'"),
        ({"initializer": "gaussian"}, ValueError, "'truncated_normal'.*got 'gaussian'"),
        ({"initializer": 3}, TypeError, "got 3"),
    ],
)
def test_bad_options(options, error, message):
    with pytest.raises(error, match=message):
        HashTable(**{"dim": 4, **options})


@pytest.mark.parametrize(
    "build", [lambda: Uniform(1, 0), lambda: Normal(0, -1), lambda: TruncatedNormal(0, -1)]
)
def test_bad_initializers(build):
    with pytest.raises(ValueError, match="needs"):
        build()


def test_too_many_mappings():
    """Not memory or a limit on it: the process has as many mappings as it may have."""
    most = int(Path("/proc/sys/vm/max_map_count").read_text())
    if most > 300_000:
        pytest.skip(f"vm.max_map_count is {most}: it takes long to get there")
    words = run_python(f"""
        import ctypes, mmap
        from sok_compat import HashTable
        libc = ctypes.CDLL(None)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
        libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        no_reserve = 0x4000
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve
        pages = libc.mmap(None, 2 * {most} * mmap.PAGESIZE, 0, flags, -1, 0)
        for page in range(0, 2 * {most}, 2):  # each becomes a mapping of its own
            if libc.mprotect(pages + page * mmap.PAGESIZE, 1, mmap.PROT_READ):
                break
        try:
            tables = [HashTable(dim=4, capacity=10**6) for _ in range(100)]
        except MemoryError as error:
            print(error)
    """)
    for word in ("refused", f"vm.max_map_count allows {most}", "sysctl -w"):
        assert word in words
