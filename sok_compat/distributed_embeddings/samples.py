# SPDX-License-Identifier: Apache-2.0
"""Ids in the forms that layers take, as keys and row splits; and rows in the form of outputs."""

import dataclasses
from collections.abc import Callable
from typing import Optional

import tensorflow as tf

from sok_compat.lookup.bags_of_keys import BagsOfKeys, split_bags
from sok_compat.lookup.group import Lookup
from sok_compat.lookup.keys import in_shape_of
from sok_compat.runtime.op_library import ops
from sok_compat.tables.table import Table


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


@dataclasses.dataclass(frozen=True, eq=False)
class Asked:
    """What is looked up in a table for an input.

    samples: its ids.
    table: the Table, which may be joined of several.
    num_rows: of the input's own table.
    first_row: of that table, in the joined one.
    """

    samples: Samples
    table: Table
    num_rows: int
    first_row: int = 0

    @property
    def is_joined(self):
        """Whether an id that is no row of the input's own table would be a neighbour's."""
        return self.first_row != 0 or self.table.capacity != self.num_rows


def lookups_of(asked, name):
    """The `Lookup` of each.

    Args:
      asked: list of Asked.
      name: of the layer, for messages.

    Raises:
      tf.errors.InvalidArgumentError: when run: an id that is no row of its table, where that is
        joined with others; a table that is not says so itself.
    """
    keys = {one: one.samples.keys for one in asked}
    joined = [one for one in asked if one.is_joined]
    if joined:
        found = ops.sok_joined_keys(
            ids=[one.samples.keys for one in joined],
            N=len(joined),
            layer_name=name,
            nums_rows=[one.num_rows for one in joined],
            first_rows=[one.first_row for one in joined],
        )
        keys.update(zip(joined, found))
    return [
        Lookup(one.table, keys[one], one.samples.row_splits, one.samples.combiner) for one in asked
    ]


def samples_of_inputs(inputs, combiners, name):
    """The Samples of each input.

    Args:
      inputs: list of tensors of any rank, tf.RaggedTensors or tf.SparseTensors; integers.
      combiners: 'sum', 'mean' or None, of each.
      name: of the layer, for messages.

    Raises:
      ValueError: one-dimensional ids and a combiner, sparse ids without one.
    """
    pairs = list(zip(inputs, combiners))
    pooled = [i for i, pair in enumerate(pairs) if _are_bags(*pair, name)]
    splits = dict(zip(pooled, split_bags([BagsOfKeys(inputs[i], name) for i in pooled])))
    return [
        _samples_of_bags(*pair, splits[i]) if i in splits else _samples_of(*pair)
        for i, pair in enumerate(pairs)
    ]


def _are_bags(ids, combiner, name):
    """Whether ids, which are checked, are bags to pool."""
    if combiner is None and isinstance(ids, tf.SparseTensor):
        raise ValueError(f"{name}: sparse ids need a combiner, 'sum' or 'mean', got None")
    if isinstance(ids, tf.RaggedTensor) and ids.shape.rank != 2:
        raise ValueError(
            f"Ragged input should be 2D. Nested ragged is not supported. The shape is {ids.shape}"
        )
    return combiner is not None and isinstance(ids, (tf.RaggedTensor, tf.SparseTensor))


def _samples_of_bags(ids, combiner, bags):
    def shaped(rows):
        rows.set_shape([ids.shape[0], rows.shape[1]])
        return rows

    return Samples(bags.keys, bags.row_splits, combiner, shaped)


def _samples_of(ids, combiner):
    if isinstance(ids, tf.RaggedTensor):
        return Samples(ids.flat_values, None, "none", ids.with_flat_values)
    keys = tf.reshape(ids, [-1])
    if combiner is None:
        return Samples(keys, None, "none", _in_form_of(ids))
    if ids.shape.rank == 1:
        raise ValueError("1D input with combiner is ambiguous. Please create batch dimension.")
    hotness = ids.shape[-1]
    shaped = _in_form_of(ids[..., 0] if hotness != 0 else tf.reduce_sum(ids, -1))
    if hotness == 1:
        return Samples(keys, None, "none", shaped)
    if hotness:
        row_splits = tf.range(0, tf.size(keys, tf.int64) + 1, hotness)
    else:
        num_samples = tf.reduce_prod(tf.shape(ids, tf.int64)[:-1])
        row_splits = tf.range(num_samples + 1) * tf.shape(ids, tf.int64)[-1]
    return Samples(keys, row_splits, combiner, shaped)


def _in_form_of(ids):
    return lambda rows: in_shape_of(ids, rows, rows.shape[1])


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
