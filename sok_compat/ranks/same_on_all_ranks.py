# SPDX-License-Identifier: Apache-2.0
"""Checks, in eager mode, that all ranks create the same tables."""

from __future__ import annotations

import tensorflow as tf

from sok_compat.ranks.collectives import begin_collective
from sok_compat.ranks.identity import Ranks
from sok_compat.runtime.op_library import ops


def check_same_table(ranks: Ranks, description: str) -> None:
    """Fails on all ranks, naming the difference, unless all create the same table now.

    Raises:
      tf.errors.InvalidArgumentError: the ranks' descriptions differ.
    """
    if ranks.size > 1:
        check_same_on_all_ranks(tf.constant(description.encode()))


def check_same_on_all_ranks(signature: tf.Tensor) -> tf.Tensor:
    """Fails on all ranks, naming the difference, unless all have the same lines, a scalar string
    tensor.

    Returns:
      A scalar string tensor, b"OK".
    """
    collective = begin_collective("start of the ranks", op_name="check_same")
    return ops.sok_check_same(signature, collective, name="SokInit")
