# SPDX-License-Identifier: Apache-2.0
"""What travels as bfloat16 or float16: rounded once, also a rank's own; summed as float32. Rows of
two bytes travel as they are."""

import numpy as np
import pytest
import tensorflow as tf

from tests.distributed.launch import launched_once, reports, run_ranks

NUM_RANKS = 2
DTYPES = ("float32", "bfloat16", "float16")
KEY_BYTES = 8


@launched_once
def launched():
    """One launch tries all dtypes."""
    return reports(run_ranks("numbers.wire_dtypes", NUM_RANKS))


@pytest.fixture(params=DTYPES)
def dtype(request):
    return request.param


def of_all_ranks(dtype, what):
    """{key: value}, of the ranks that own the keys."""
    return {key: value for rank in launched() for key, value in what(rank[dtype]).items()}


def as_travelled(values, dtype):
    """`values`, rounded."""
    if dtype == "float16":  # what it has not travels as the largest
        beyond = np.isfinite(values) & (np.abs(values) > 65504)
        values = np.where(beyond, np.copysign(65504, values), values)
    return values.astype(tf.as_dtype(dtype).as_numpy_dtype).astype(np.float32)


def test_rows_are_rounded_alike_wherever_they_come_from(dtype):
    owned = of_all_ranks("float32", lambda seen: seen["own"][0])
    assert len(owned) == 40
    for rank in launched():
        for key, row in enumerate(rank[dtype]["rows"]):
            np.testing.assert_array_equal(row, as_travelled(owned[key], dtype))


def test_sums_at_owners_are_of_float32_and_rounded_once(dtype):
    owned = of_all_ranks("float32", lambda seen: seen["own"][1])
    for rank in launched():
        for bag, row in enumerate(rank[dtype]["sums"]):
            keys = np.arange(24 * bag, 24 * (bag + 1))
            by_owner = [
                np.sum([owned[key] for key in keys[keys % NUM_RANKS == owner]], 0, np.float64)
                for owner in range(NUM_RANKS)
            ]
            unit = {"float32": 2.0**-22, "bfloat16": 2.0**-8, "float16": 2.0**-11}[dtype]
            error = np.abs(row - sum(by_owner))
            assert np.all(error <= 1.01 * unit * sum(map(np.abs, by_owner)) + 1e-5)


def test_gradients_are_rounded_and_summed_as_float32(dtype):
    rng = np.random.default_rng(5)
    gradients = rng.normal(size=[NUM_RANKS, 40, 16]).astype(np.float32)
    merged = of_all_ranks(dtype, lambda seen: seen["gradients"])
    assert sorted(merged) == list(range(40))
    for key in range(3, 40):
        expected = sum(as_travelled(gradients[rank, key], dtype) for rank in range(NUM_RANKS))
        np.testing.assert_array_equal(merged[key], expected)
    largest = {"float32": 1e6, "bfloat16": 999424.0, "float16": 65504.0}[dtype]
    assert set(merged[0]) == {np.float32(largest)}
    assert set(merged[1]) == {-np.inf} and np.isnan(merged[2]).all()


def test_what_float16_has_not_is_counted(dtype):
    counts = [rank[dtype]["saturated"] for rank in launched()]
    assert counts == [16 if dtype == "float16" else 0, 0]


def test_bytes(dtype):
    num_floats = 2 * 20 * 16  # rows there, gradients back
    floats_bytes = num_floats * (4 if dtype == "float32" else 2)
    for rank in launched():
        header_bytes = rank[dtype]["bytes"] - 20 * KEY_BYTES - floats_bytes
        assert 0 <= header_bytes <= 16


@pytest.mark.parametrize("row_dtype", ["bfloat16", "float16"])
def test_rows_of_two_bytes_travel_as_such(row_dtype):
    """The same bits in half the bytes; sums of them, and gradients, are float32."""
    wide, narrow = "float32", f"rows of {row_dtype}"
    owned = of_all_ranks(narrow, lambda seen: seen["own"][0])
    for key, row in of_all_ranks(wide, lambda seen: seen["own"][0]).items():
        np.testing.assert_array_equal(owned[key], as_travelled(row, row_dtype))
    of_bags = of_all_ranks(narrow, lambda seen: seen["own"][1])
    for rank in launched():
        np.testing.assert_array_equal(rank[narrow]["rows"], [owned[key] for key in range(40)])
        assert rank[wide]["bytes"] - rank[narrow]["bytes"] == 20 * 16 * 2
        for bag, row in enumerate(rank[narrow]["sums"]):
            keys = range(24 * bag, 24 * (bag + 1))
            np.testing.assert_allclose(row, sum(of_bags[key] for key in keys), atol=1e-5)
        for key, gradient in rank[wide]["gradients"].items():
            np.testing.assert_array_equal(rank[narrow]["gradients"][key], gradient)


@pytest.mark.parametrize("row_dtype", DTYPES)
def test_sums_of_rows_of_two_bytes_are_not_rounded(row_dtype):
    """Where ranks ask for unlike things, and where owners have the batch."""
    name = "float32" if row_dtype == "float32" else f"rows of {row_dtype}"
    owned = of_all_ranks(name, lambda seen: seen["own"][1])
    bags = [range(24 * bag, 24 * (bag + 1)) for bag in range(8)]
    of_rank = [[bags, bags], [[[key] for key in range(40)], []]]
    for rank, seen in enumerate(launched()):
        for own, sums in zip(of_rank[rank], seen[name]["unlike"]):
            assert len(sums) == len(own)
            for keys, row in zip(own, sums):
                np.testing.assert_allclose(row, sum(owned[key] for key in keys), atol=1e-5)
        for sums, table in zip(*seen[name]["at_owner"]):
            np.testing.assert_allclose(sums, [table.sum(0)], atol=1e-5)


def test_counts_of_keys_are_exact(dtype):
    """A key gets a row when it has come 2 * 257 times, another one came 2 * 256 times."""
    assert sorted(sum((rank[dtype]["counted"] for rank in launched()), [])) == [7]
