# SPDX-License-Identifier: Apache-2.0
"""A group of lookups of many kinds: tables, batches, and what plain TensorFlow makes of them."""

import dataclasses
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from sok_compat.lookup.table_lookup import Lookup
from sok_compat.tables import Table

tf1 = tf.compat.v1
NUM_KEYS = 40  # 0 to 39, which a table without a hash index takes, too
MAX_KEYS = 5  # in a bag


@dataclasses.dataclass(frozen=True)
class GroupCase:
    """One lookup of a group. `fed_dtype`: of the keys, where it is not the table's."""

    dim: int
    combiner: str = "none"
    has_weights: bool = False
    key_dtype: str = "int64"
    fed_dtype: Optional[str] = None
    use_hash_index: bool = True
    initializer: Any = "uniform"

    @property
    def keys_dtype(self):
        return tf.as_dtype(self.fed_dtype or self.key_dtype)

    def make_table(self, name):
        return Table(
            NUM_KEYS,
            self.dim,
            self.initializer,
            key_dtype=self.key_dtype,
            use_hash_index=self.use_hash_index,
            name=name,
            seed=5,
        )

    def all_keys(self, table):
        """A lookup of every key there is, in order."""
        return Lookup(
            table,
            tf.range(NUM_KEYS, dtype=tf.int64)
            if self.key_dtype == "int64"
            else tf.constant(np.arange(NUM_KEYS, dtype=np.uint32)),
        )


@dataclasses.dataclass(frozen=True)
class Batch:
    """Bags of keys with weights; rows of its own for each key where a case has no combiner."""

    keys: np.ndarray  # [num_keys]
    row_splits: np.ndarray  # [num_bags + 1]
    weights: np.ndarray  # [num_keys]

    def part(self, begin, end):
        """The bags [begin, end)."""
        first, last = self.row_splits[begin], self.row_splits[end]
        splits = self.row_splits[begin : end + 1] - first
        return Batch(self.keys[first:last], splits, self.weights[first:last])


def an_evaluated_initializer(shape, dtype=None):
    """A callable that no table knows to be a pure function of the key."""
    return tf.fill(shape, tf.constant(0.25, dtype or tf.float32))


CASES = [
    GroupCase(4, "sum"),
    GroupCase(3, "mean", has_weights=True),
    GroupCase(8, "sum", has_weights=True, key_dtype="uint32"),
    GroupCase(4, use_hash_index=False),
    GroupCase(1, "mean", fed_dtype="int32"),
    GroupCase(5, "mean", has_weights=True, use_hash_index=False, fed_dtype="int32"),
    GroupCase(2, "sum", initializer=an_evaluated_initializer),
    GroupCase(6, key_dtype="uint32"),
]
PRESETS = [
    GroupCase(3, "mean", initializer=tf1.constant_initializer(np.arange(3.0 * NUM_KEYS))),
    GroupCase(3, initializer=tf1.constant_initializer(np.arange(3.0 * NUM_KEYS))),
]


def random_batch(rng, num_bags):
    """Bags of some of the keys, with repeats; some are empty, and some have weights of sum zero."""
    sizes = rng.integers(0, MAX_KEYS + 1, num_bags)
    row_splits = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    weights = rng.uniform(-0.5, 2.0, row_splits[-1]).astype(np.float32)
    for begin, end in zip(row_splits[:-1], row_splits[1:]):
        if end - begin == 2:
            weights[begin:end] = [1.5, -1.5]
    return Batch(rng.integers(0, NUM_KEYS, row_splits[-1]), row_splits, weights)


class FedLookups:
    """A group of cases whose batches are fed."""

    def __init__(self, cases, tables):
        self.cases = cases
        self._keys = [tf1.placeholder(case.keys_dtype, [None]) for case in cases]
        self._row_splits = [tf1.placeholder(tf.int64, [None]) for _ in cases]
        self._weights = [tf1.placeholder(tf.float32, [None]) for _ in cases]
        self.lookups = [
            _lookup(case, table, *fed)
            for case, table, *fed in zip(cases, tables, self._keys, self._row_splits, self._weights)
        ]

    def feeds(self, batches):
        """For a session."""
        fed = {}
        for i, batch in enumerate(batches):
            fed[self._keys[i]] = batch.keys
            fed[self._row_splits[i]] = batch.row_splits
            fed[self._weights[i]] = batch.weights
        return fed

    def reference(self, rows):
        """What plain TensorFlow looks up in `rows`, variables [NUM_KEYS, dim] by key."""
        return [
            _reference(case, variable, *fed)
            for case, variable, *fed in zip(
                self.cases, rows, self._keys, self._row_splits, self._weights
            )
        ]


def _lookup(case, table, keys, row_splits, weights):
    if case.combiner == "none":
        return Lookup(table, keys)
    return Lookup(table, keys, row_splits, case.combiner, weights if case.has_weights else None)


def _reference(case, variable, keys, row_splits, weights):
    keys = tf.cast(keys, tf.int64)
    if case.combiner == "none":
        return tf.nn.embedding_lookup(variable, keys)
    bags = tf.RaggedTensor.from_row_splits(keys, row_splits).to_sparse()
    of_keys = tf.RaggedTensor.from_row_splits(weights, row_splits).to_sparse()
    pooled = tf.nn.embedding_lookup_sparse(
        variable, bags, of_keys if case.has_weights else None, combiner=case.combiner
    )
    missing = tf.shape(row_splits)[0] - 1 - tf.shape(pooled)[0]  # trailing empty bags
    return tf.pad(pooled, [[0, missing], [0, 0]])


def squared_loss(outputs):
    """A scalar whose gradients differ from row to row."""
    return tf.add_n([tf.reduce_sum(tf.square(output - 0.5)) for output in outputs])
