# SPDX-License-Identifier: Apache-2.0
"""`Lookup`: what to look up in one table."""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from sok_compat.lookup.new_keys import Insert, NewKeys
from sok_compat.tables.table import Table


@dataclasses.dataclass(frozen=True, eq=False)
class Lookup:
    """A lookup in one table.

    table: the table.
    keys: [num_keys], in the table's key_dtype, or int32 for int64.
    row_splits: int64 [num_bags + 1], ascending from 0 to num_keys; None: no pooling.
    combiner: of bags, 'sum' or 'mean' (over all keys of the bag, with repeats; with weights, over
      the sum of weights).
    weights: float32 [num_keys], factors of the rows in a bag; None: 1. They get no gradient.
    new_keys: the NewKeys, what happens to keys without a row.
    """

    table: Table
    keys: tf.Tensor
    row_splits: tf.Tensor | None = None
    combiner: str = "none"
    weights: tf.Tensor | None = None
    new_keys: NewKeys = NewKeys()

    def __post_init__(self) -> None:
        if (self.row_splits is None) != (self.combiner == "none"):
            raise ValueError(
                f"a lookup in {self.table.table_name} needs both row_splits and a combiner, or "
                f"neither; got the combiner {self.combiner!r}"
            )
        if self.weights is not None and self.row_splits is None:
            raise ValueError(
                f"weights need row_splits: the lookup in {self.table.table_name} has none"
            )

    def inserting(self, insert: Insert) -> Lookup:
        """The lookup whose new keys get rows as in `lookup_group`."""
        new_keys = dataclasses.replace(self.new_keys, insert=insert)
        return dataclasses.replace(self, new_keys=new_keys)

    def without_bags(self) -> Lookup:
        """The lookup of the row of each key."""
        return dataclasses.replace(self, row_splits=None, combiner="none", weights=None)
