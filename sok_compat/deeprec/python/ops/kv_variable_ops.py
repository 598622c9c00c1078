# SPDX-License-Identifier: Apache-2.0
"""`tensorflow.python.ops.kv_variable_ops`, a module of DeepRec alone: its class of variables, and
in which tier their rows are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from sok_compat.deeprec.variables.embedding_variable import EmbeddingVariable
from sok_compat.runtime.op_library import ops

__all__ = ["EmbeddingVariable", "lookup_tier"]


def lookup_tier(var: EmbeddingVariable | Iterable[EmbeddingVariable], ids: Any) -> tf.Tensor:
    """The tier of each id's row: 0 if the row and its slots are in memory, 1 if a part of them is
    on the disk alone, -1 if the variable has no row of it on this rank.

    Args:
      var: an EmbeddingVariable, or a partitioned one.
      ids: of any integer dtype and any shape.

    Returns:
      int32, of the shape of ids.
    """
    if not isinstance(var, EmbeddingVariable):  # each id has its row in one part
        return tf.reduce_max(tf.stack([lookup_tier(part, ids) for part in var]), axis=0)
    with tf.device(var.device):
        return ops.sok_lookup_tier(var.table_handle, tf.cast(ids, tf.int64))
