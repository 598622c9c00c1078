# SPDX-License-Identifier: Apache-2.0
"""Batches that are the same whatever the number of ranks, and each rank's part of them."""

import numpy as np
import tensorflow as tf

from tests.support.cases.layer_cases import DYNAMIC_KEYS, SLOT_NUM

GLOBAL_BATCH = 12  # 1, 2, 3 and 4 ranks divide it
DIVISIONS = ("equal", "uneven", "none for the first", "all for the last")


def division(kind, num_ranks):
    """Where each rank's samples begin, and the end: [num_ranks + 1]."""
    share = {
        "equal": np.ones(num_ranks),
        "uneven": np.arange(1.0, num_ranks + 1),
        "none for the first": np.arange(num_ranks) > 0,
        "all for the last": np.arange(num_ranks) == num_ranks - 1,
    }[kind]
    if num_ranks == 1:
        share = np.ones(1)
    ends = np.round(GLOBAL_BATCH * np.cumsum(share) / np.sum(share)).astype(int)
    return [0, *ends.tolist()]


def part(case, batch, begin, end):
    """The samples [begin, end) of a layer case's batch."""
    if not case.is_sparse:
        factor = DYNAMIC_KEYS if case.input == "dynamic" else 1
        return batch[begin * factor : end * factor]
    rows = batch.indices[:, 0]
    is_inside = (begin * SLOT_NUM <= rows) & (rows < end * SLOT_NUM)
    indices = batch.indices[is_inside] - np.array([begin * SLOT_NUM, 0])
    shape = np.array([(end - begin) * SLOT_NUM, batch.dense_shape[1]])
    return tf.compat.v1.SparseTensorValue(indices, batch.values[is_inside], shape)


def without_keys(batch):
    """A sparse batch of as many samples, all bags empty."""
    empty = np.zeros([0, 2], np.int64), batch.values[:0]
    return tf.compat.v1.SparseTensorValue(*empty, batch.dense_shape)
