# SPDX-License-Identifier: Apache-2.0
"""Turns ids in the forms that layers take into keys and row splits, and rows into outputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from sok_compat.distributed_embeddings.planning.plan import RowsOfInput
from sok_compat.distributed_embeddings.python.ops.embedding_lookup_ops import Ids
from sok_compat.lookup.bags_of_keys import BagsOfKeys, split_bags
from sok_compat.lookup.keys import in_shape_of
from sok_compat.lookup.table_lookup import Lookup
from sok_compat.runtime.op_library import ops
from sok_compat.tables.table import Table


@dataclasses.dataclass(frozen=True, eq=False)
class Samples:
    """The ids of one input, in the order that a lookup takes.

    keys: int32 or int64 [n].
    row_splits: int64 [samples + 1], or None if each row is an output.
    combiner: 'sum' or 'mean' of the rows of a sample; 'none' without row_splits.
    shaped: brings the lookup's rows [outputs, width] into the input's form.
    """

    keys: tf.Tensor
    row_splits: tf.Tensor | None
    combiner: str
    shaped: Callable[[tf.Tensor], Any]


@dataclasses.dataclass(frozen=True, eq=False)
class LookupRequest:
    """The request of an input's rows from a table.

    samples: ids of the input.
    table: the Table, possibly joined of several.
    rows: the RowsOfInput, or None if all ids are rows of the table.
    """

    samples: Samples
    table: Table
    rows: RowsOfInput | None = None

    @property
    def lookup(self) -> Lookup:
        """The `Lookup`, with the ids taken for keys of the table."""
        return Lookup(self.table, self.samples.keys, self.samples.row_splits, self.samples.combiner)


def lookups_of(
    requests: Sequence[LookupRequest],
    others: Sequence[tuple[tf.Tensor, RowsOfInput]] = (),
    begin: Callable[[], tf.Tensor] | None = None,
) -> tuple[list[Lookup], list[tf.Tensor]]:
    """Returns the `Lookup` of each request and the ids of others, once they are checked.

    Args:
      others: [(ids, RowsOfInput)] to check as well; the ids are tensors of any shape.
      begin: begins and returns the collective of the first exchange that follows; None if there is
        none.

    Returns:
      (list of `Lookup`, list of int64 tensors in the shapes of the ids).

    Raises:
      tf.errors.InvalidArgumentError: when run: an id is not a row of its table. The collective
        brings the error to all ranks.
    """
    checked = [one for one in requests if one.rows is not None]
    given = [*((one.samples.keys, one.rows) for one in checked), *others]
    if not given:
        return [one.lookup for one in requests], []
    try:
        found = _joined_keys(given, [])
    except tf.errors.InvalidArgumentError:  # in eager mode
        if begin is not None:  # other ranks are in the exchange, or will be
            _joined_keys(given, [begin()])
        raise
    keys = dict(zip(checked, found))
    lookups = [dataclasses.replace(one.lookup, keys=keys.get(one, one.samples.keys))
               for one in requests]  # fmt: skip
    return lookups, found[len(checked) :]


def _joined_keys(given: Sequence[tuple], collectives: list[tf.Tensor]) -> list[tf.Tensor]:
    ids, rows = zip(*given)
    return ops.sok_joined_keys(
        ids=ids,
        collectives=collectives,
        N=len(ids),
        called=[each.called for each in rows],
        nums_rows=[each.num_rows for each in rows],
        first_rows=[each.first_row for each in rows],
    )


def samples_of_inputs(
    inputs: Sequence[Ids], combiners: Sequence[str | None], name: str
) -> list[Samples]:
    """Returns the Samples of each input: integer tensors of any rank, tf.RaggedTensors or
    tf.SparseTensors.

    Raises:
      ValueError: one-dimensional ids with a combiner, or sparse ids without one.
    """
    pairs = list(zip(inputs, combiners))
    pooled = [i for i, pair in enumerate(pairs) if _are_bags(*pair, name)]
    splits = dict(zip(pooled, split_bags([BagsOfKeys(inputs[i], name) for i in pooled])))
    return [
        _samples_of_bags(*pair, splits[i]) if i in splits else _samples_of(*pair)
        for i, pair in enumerate(pairs)
    ]


def _are_bags(ids: Ids, combiner: str | None, name: str) -> bool:
    """Checks ids, and returns whether they are bags to pool."""
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


def _samples_of(ids: Any, combiner: str | None) -> Samples:
    if isinstance(ids, tf.RaggedTensor):
        return Samples(ids.flat_values, None, "none", ids.with_flat_values)
    keys = tf.reshape(ids, [-1])
    if combiner is None:
        return Samples(keys, None, "none", _in_form_of(ids))
    if ids.shape.rank in (0, 1):
        raise ValueError("1D input with combiner is ambiguous. Please create batch dimension.")
    hotness = tf.compat.dimension_value(ids.shape[-1])
    shaped = _in_form_of(ids[..., 0] if hotness != 0 else tf.reduce_sum(ids, -1))
    if hotness == 1:
        return Samples(keys, None, "none", shaped)
    if hotness:
        row_splits = tf.range(0, tf.size(keys, tf.int64) + 1, hotness)
    else:
        num_samples = tf.reduce_prod(tf.shape(ids, tf.int64)[:-1])
        row_splits = tf.range(num_samples + 1) * tf.shape(ids, tf.int64)[-1]
    return Samples(keys, row_splits, combiner, shaped)


def _in_form_of(ids: tf.Tensor) -> Callable[[tf.Tensor], tf.Tensor]:
    return lambda rows: in_shape_of(ids, rows, tf.compat.dimension_value(rows.shape[1]))


def without_strangers(samples: Samples, num_rows: int) -> Samples:
    """Returns the samples without ids outside [0, num_rows): these give zeros and no gradient."""
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
