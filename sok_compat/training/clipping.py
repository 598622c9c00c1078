# SPDX-License-Identifier: Apache-2.0
"""Clips gradients by their norm over all ranks."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from sok_compat.ranks.global_norm import norm_over_ranks
from sok_compat.ranks.shared_gradients import table_of
from sok_compat.tables.known_tables import is_shared_table


@tf.autograph.experimental.do_not_convert
def clip_by_global_norm(
    t_list: Sequence[tf.Tensor | tf.IndexedSlices | None],
    clip_norm: float | tf.Tensor,
    use_norm: float | tf.Tensor | None = None,
    name: str | None = None,
    *,
    variables: Sequence[tf.Variable] | None = None,
) -> tuple[list[tf.Tensor | tf.IndexedSlices | None], tf.Tensor]:
    """As tf.clip_by_global_norm, with the norm that one process would have of the global batch.

    Added by sok_compat. The norm of a table includes the rows of all ranks. Gradients of dense
    variables must be reduced before the call, so that they are the same on all ranks. All ranks
    must call it. On one process it is tf.clip_by_global_norm.

    Args:
      t_list: list or tuple of gradients: tensors, IndexedSlices or None.
      clip_norm: the norm to clip to, > 0.
      use_norm: the norm, if it is known.
      name: of the ops.
      variables: one for each gradient. None: tables are recognised by their gradients, except in
        a tf.function that gets gradients as arguments.

    Returns:
      (clipped, norm): as t_list, and a scalar.

    Raises:
      ValueError: the numbers of variables and gradients differ.
    """
    gradients = list(t_list)
    if variables is not None and len(variables) != len(gradients):
        raise ValueError(
            f"clip_by_global_norm needs a variable for each of the {len(gradients)} gradients, "
            f"got {len(variables)}"
        )
    if use_norm is None:
        use_norm = _norm_over_ranks(gradients, variables)
    return tf.clip_by_global_norm(gradients, clip_norm, use_norm, name)


def _norm_over_ranks(
    gradients: Sequence[tf.Tensor | tf.IndexedSlices | None],
    variables: Sequence[tf.Variable] | None,
) -> tf.Tensor | None:
    """Returns the norm; None if no table has rows on other ranks."""
    if variables is None:
        is_shared = [table_of(gradient) is not None for gradient in gradients]
    else:
        is_shared = [is_shared_table(variable) for variable in variables]
    if not any(is_shared):
        return None
    return norm_over_ranks(gradients, is_shared)
