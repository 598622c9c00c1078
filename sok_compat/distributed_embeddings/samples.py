# SPDX-License-Identifier: Apache-2.0
"""Ids in the forms that layers take, as keys and row splits; and rows in the form of outputs."""

import dataclasses
from collections.abc import Callable
from typing import Optional

import tensorflow as tf

from sok_compat.lookup.bags_of_keys import BagsOfKeys, split_bags
from sok_compat.lookup.group import Lookup


@dataclasses.dataclass(frozen=True, eq=False)
class Samples:
    """The ids of one input, in the order in which a lookup takes them.

    keys: int32 or int64 [n].
    row_splits: int64 [samples + 1]; None: each row is an output.
    combiner: 'sum' or 'mean' of the rows of a sample; 'none' without row_splits.
    shaped: a function of the lookup's rows [outputs, width] that gives them the input's form.
    """

    keys: tf.Tensor
    row_splits: Optional[tf.Tensor]
    combiner: str
    shaped: Callable

    def lookup(self, table, offset=0):
        """The `Lookup` of the ids in a table, whose rows for them begin at `offset`."""
        keys = tf.cast(self.keys, tf.int64) + offset if offset else self.keys
        return Lookup(table, keys, self.row_splits, self.combiner)


def samples_of(ids, combiner, name):
    """The Samples of an input.

    Args:
      ids: a tensor of any rank, a tf.RaggedTensor or a tf.SparseTensor; integers.
      combiner: 'sum', 'mean' or None.
      name: of the layer, for messages.

    Raises:
      ValueError: one-dimensional ids and a combiner, sparse ids without one.
    """
    if isinstance(ids, (tf.RaggedTensor, tf.SparseTensor)):
        return _samples_of_bags(ids, combiner, name)
    if combiner is None:
        return Samples(tf.reshape(ids, [-1]), None, "none", _in_form_of(ids, ids.shape))
    if ids.shape.rank == 1:
        raise ValueError("1D input with combiner is ambiguous. Please create batch dimension.")
    shaped = _in_form_of(ids[..., 0], ids.shape[:-1])
    keys = tf.reshape(ids, [-1])
    if ids.shape[-1] == 1:
        return Samples(keys, None, "none", shaped)
    num_samples = tf.reduce_prod(tf.shape(ids, tf.int64)[:-1])
    row_splits = tf.range(num_samples + 1) * tf.shape(ids, tf.int64)[-1]
    return Samples(keys, row_splits, combiner, shaped)


def _in_form_of(ids, static_shape):
    def shaped(rows):
        width = rows.shape[1]
        rows = tf.reshape(rows, tf.concat([tf.shape(ids), [width]], 0))
        rows.set_shape(static_shape.concatenate([width]))
        return rows

    return shaped


def _samples_of_bags(ids, combiner, name):
    if combiner is None and isinstance(ids, tf.SparseTensor):
        raise ValueError(f"{name}: sparse ids need a combiner, 'sum' or 'mean', got None")
    if isinstance(ids, tf.RaggedTensor) and ids.shape.rank != 2:
        raise ValueError(
            f"Ragged input should be 2D. Nested ragged is not supported. The shape is {ids.shape}"
        )
    if combiner is None:
        return Samples(ids.flat_values, None, "none", ids.with_flat_values)
    (bags,) = split_bags([BagsOfKeys(ids, name)])

    def shaped(rows):
        rows.set_shape([ids.shape[0], rows.shape[1]])
        return rows

    return Samples(bags.keys, bags.row_splits, combiner, shaped)


def known_to_table(samples, num_rows, name):
    """The same, with a check when run that each id is a row of its table.

    For tables that are one with others: without it, the row would be a neighbour's.
    """
    keys = samples.keys
    is_row = tf.reduce_all((keys >= 0) & (keys < tf.cast(num_rows, keys.dtype)))
    message = f"{name}: ids of a table of {num_rows} rows must be at least 0 and below that, got"
    check = tf.debugging.Assert(is_row, [message, keys])
    with tf.control_dependencies([] if check is None else [check]):
        return dataclasses.replace(samples, keys=tf.identity(keys))


def without_strangers(samples, num_rows):
    """The same, but ids that are no rows give zeros, and no gradient."""
    is_row = (samples.keys >= 0) & (samples.keys < tf.cast(num_rows, samples.keys.dtype))
    kept_before = tf.concat([[0], tf.cumsum(tf.cast(is_row, tf.int64))], 0)
    keys = tf.boolean_mask(samples.keys, is_row)
    if samples.row_splits is None:  # each id becomes a bag, which may be empty
        return Samples(keys, kept_before, "sum", samples.shaped)
    row_splits = tf.gather(kept_before, samples.row_splits)
    if samples.combiner == "sum":
        return Samples(keys, row_splits, "sum", samples.shaped)
    lengths = tf.cast(samples.row_splits[1:] - samples.row_splits[:-1], tf.float32)

    def shaped(rows):  # a mean counts all ids
        return samples.shaped(tf.math.divide_no_nan(rows, lengths[:, tf.newaxis]))

    return Samples(keys, row_splits, "sum", shaped)
