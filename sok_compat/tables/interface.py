# SPDX-License-Identifier: Apache-2.0
"""`TableInterface`: what the other files of this room use of a `Table`, which uses them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from sok_compat.ranks.identity import Ranks
from sok_compat.tables.key_history import KeyHistory
from sok_compat.tables.placement import Placement
from sok_compat.tables.plane_variable import PlaneVariable
from sok_compat.tables.stored.storage import Storage
from sok_compat.tables.table_arguments import UNDECLARED_CAPACITY
from sok_compat.tables.words import Words


class TableInterface(PlaneVariable):
    """The attributes of a table.

    Attributes:
      table_name: unique; the name for first values and checkpoints. `name` is 'x:0' for 'x'.
      table_handle: the table itself, which maps keys to row ids.
      capacity: most rows on this rank; None: limited by memory only.
      dim: floats in a row.
      key_dtype: tf.int64 or tf.uint32, of keys in files.
      use_hash_index: False: the row of a key is key // number of ranks.
      placement: which rank owns which keys.
      history: the KeyHistory, or None.
      storage: the Storage, for checkpoints.
      slots_by_owner: the Slots, from which `slots` and `slot_for` take them.
      num_scopes: number of open scopes that limit updates of its planes to the rows in use.
      file_attributes: of ops that make planes in files; {}: planes are in memory.
      words: the names of a face's functions, for messages.
    """

    table_name: str
    capacity: int | None
    dim: int
    key_dtype: tf.DType
    use_hash_index: bool
    placement: Placement
    history: KeyHistory | None
    storage: Storage
    slots_by_owner: Any
    num_scopes: int
    file_attributes: dict[str, Any]
    words: Words
    load_ops: tuple[tf.Tensor, tf.Operation] | None = None  # what `load` feeds and runs

    @property
    def op_capacity(self) -> int:
        """The capacity as the op library knows it."""
        return UNDECLARED_CAPACITY if self.capacity is None else self.capacity

    @property
    def ranks(self) -> Ranks:
        """The Ranks that share the table."""
        return self.placement.ranks

    @property
    def counts_keys(self) -> bool:
        """Whether gradients of lookups count their keys."""
        return self.history is not None and self.history.counts_keys
