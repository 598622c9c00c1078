# SPDX-License-Identifier: Apache-2.0
"""Bags of keys: random ones, as sparse tensors, and pooled by NumPy."""

import numpy as np
import tensorflow as tf


def random_bags(rng, num_bags, max_nnz, keys):
    """`num_bags` lists of at most `max_nnz` of `keys`; some empty, with repeats in a bag."""
    pool = keys[: max(2, len(keys) // 8)] + keys  # the first keys come more often
    sizes = rng.integers(0, max_nnz + 1, num_bags)
    return [[pool[i] for i in rng.integers(0, len(pool), size)] for size in sizes]


def sparse_value(bags, max_nnz, key_dtype=np.int64):
    """The bags as a SparseTensorValue [num_bags, max_nnz]."""
    places = [(row, column) for row, bag in enumerate(bags) for column in range(len(bag))]
    return tf.compat.v1.SparseTensorValue(
        np.array(places, np.int64).reshape(-1, 2),
        np.array([key for bag in bags for key in bag], key_dtype),
        np.array([len(bags), max_nnz], np.int64),
    )


def sparse_tensor(bags, max_nnz, key_dtype=tf.int64):
    """The bags as a constant tf.SparseTensor [num_bags, max_nnz]."""
    value = sparse_value(bags, max_nnz, tf.as_dtype(key_dtype).as_numpy_dtype)
    return tf.SparseTensor(value.indices, value.values, value.dense_shape)


def pool(bags, rows, combiner):
    """[num_bags, dim]: the pooled `rows` (key -> array) of each bag."""
    dim = len(next(iter(rows.values())))
    out = np.zeros([len(bags), dim], np.float32)
    for bag, pooled in zip(bags, out):
        for key in bag:
            pooled += rows[key]
        if combiner == "mean" and bag:
            pooled /= len(bag)
    return out
