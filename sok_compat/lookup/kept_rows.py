# SPDX-License-Identifier: Apache-2.0
"""Row ids that stock ops have computed keep their rows, as those of a lookup do."""

from __future__ import annotations

import tensorflow as tf

from sok_compat.runtime.op_library import ops


def kept_as(row_ids: tf.Tensor, *found: tf.Tensor) -> tf.Tensor:
    """Returns row ids; as long as they live, tables reuse no row that one of `found` keeps.

    In a session a step keeps its rows until it ends, so they are returned as they are.

    Args:
      row_ids: int64 [n].
      *found: row ids of ops that find rows.
    """
    if tf.compat.v1.executing_eagerly_outside_functions():
        for each in found:
            row_ids = ops.sok_keep_rows(row_ids, each)
    return row_ids
