# SPDX-License-Identifier: Apache-2.0
"""`unique` and `unsorted_segment_sum` beside NumPy."""

import numpy as np
import pytest
import tensorflow as tf

import sok_compat as sok


def first_appearance(x):
    y = list(dict.fromkeys(x))
    return y, [y.index(element) for element in x]


@pytest.mark.parametrize("out_idx", [tf.int32, tf.int64], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("dtype", [tf.int32, tf.int64], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("x", [[], [3], [5, 2, 5, -1, 2, 2, 9], [7] * 4], ids=str)
def test_unique(graph, x, dtype, out_idx):
    y, idx = sok.operations.unique(tf.constant(x, dtype), out_idx)
    assert (y.dtype, idx.dtype) == (dtype, out_idx)
    with tf.compat.v1.Session() as session:
        actual = [part.tolist() for part in session.run([y, idx])]
    assert actual == list(first_appearance(x))


@pytest.mark.parametrize("x, out_idx, error, message", [
    (tf.int32, tf.float32, TypeError, "out_idx must be int32 or int64"),
    (tf.uint32, tf.int32, TypeError, "x must be int32 or int64, got uint32"),
    (tf.float32, tf.int32, TypeError, "x must be int32 or int64, got float32"),
])  # fmt: skip
def test_unique_refuses_dtypes(graph, x, out_idx, error, message):
    with pytest.raises(error, match=message):
        sok.operations.unique(tf.zeros([2], x), out_idx)


def test_unique_refuses_matrices(graph):
    with pytest.raises(ValueError, match="takes a vector"):
        sok.operations.unique([[1, 2]])


CASES = {  # (shape of data after the ids' shape, ids, num_segments)
    "vectors": ([3], [0, 2, 0, 1], 3),
    "scalars": ([], [1, 1, 1], 2),
    "empty": ([2], [], 3),
    "out of range": ([2], [-1, 3, 0, 4, -(2**31), 2**31 - 1], 3),
    "no segments": ([2], [0, 1], 0),
    "matrix of ids": ([2], [[0, 1], [1, 9]], 2),
}


def add_up(data, ids, num_segments):
    total = np.zeros([num_segments, *data.shape[np.ndim(ids) :]], np.float64)
    for place in np.ndindex(*np.shape(ids)):
        if 0 <= np.asarray(ids)[place] < num_segments:
            total[np.asarray(ids)[place]] += data[place]
    return total


@pytest.mark.parametrize("id_dtype", [tf.int32, tf.int64], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("dtype", [tf.float16, tf.float32], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("inner, ids, num_segments", CASES.values(), ids=CASES)
def test_unsorted_segment_sum(graph, inner, ids, num_segments, dtype, id_dtype):
    """The sums, and their gradient: 0 for data that was dropped."""
    data = np.random.default_rng(0).normal(size=[*np.shape(ids), *inner])
    data = data.astype(dtype.as_numpy_dtype)
    weights = np.arange(1.0, 1.0 + num_segments).reshape(-1, *[1] * len(inner))
    x = tf.constant(data)
    sums = sok.operations.unsorted_segment_sum(x, tf.constant(ids, id_dtype), num_segments)
    assert sums.dtype == dtype
    (gradient,) = tf.gradients(tf.reduce_sum(sums * tf.cast(weights, dtype)), [x])
    with tf.compat.v1.Session() as session:
        actual, slope = session.run([sums, gradient])
    tolerance = 1e-2 if dtype == tf.float16 else 1e-6
    np.testing.assert_allclose(actual, add_up(data, ids, num_segments), tolerance, tolerance)
    ids = np.reshape(ids, [*np.shape(ids), *[1] * len(inner)])
    expected = np.where((ids >= 0) & (ids < num_segments), ids + 1.0, 0.0)
    np.testing.assert_array_equal(slope, np.broadcast_to(expected, data.shape))


def test_number_of_segments_may_be_a_tensor(graph):
    num_segments = tf.compat.v1.placeholder(tf.int32, [])
    sums = sok.operations.unsorted_segment_sum(tf.ones([3]), tf.constant([0, 1, 5]), num_segments)
    with tf.compat.v1.Session() as session:
        assert session.run(sums, {num_segments: 2}).tolist() == [1.0, 1.0]
        assert session.run(sums, {num_segments: 6}).tolist() == [1.0, 1.0, 0, 0, 0, 1.0]


@pytest.mark.parametrize("data, ids, message", [
    (tf.float64, tf.int32, "data must be float16 or float32, got float64"),
    (tf.float32, tf.uint32, "segment_ids must be int32 or int64, got uint32"),
])  # fmt: skip
def test_unsorted_segment_sum_refuses_dtypes(graph, data, ids, message):
    with pytest.raises(TypeError, match=message):
        sok.operations.unsorted_segment_sum(tf.ones([2], data), tf.zeros([2], ids), 2)


def test_names_are_the_same_functions():
    assert sok.tf.unique is sok.operations.unique
    assert sok.tf.unsorted_segment_sum is sok.operations.unsorted_segment_sum
