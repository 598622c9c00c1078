# SPDX-License-Identifier: Apache-2.0
"""Warns of slots whose memory, or whose updates, cost the declared capacity of a table."""

from __future__ import annotations

import logging

import tensorflow as tf

_logger = logging.getLogger("sok_compat")
_FEWEST_BYTES = 1 << 24  # of a slot; fewer take no noticeable time or memory
_warned_of: set[str] = set()  # the first such slot


def warn_of_declared_capacity(slot: str, shape: tf.TensorShape, problem: str) -> None:
    """Logs a warning, the first time that a slot of a table with a declared capacity has more than
    a few bytes.

    Args:
      problem: what costs the capacity, and the way out.
    """
    num_bytes = 4 * (shape.num_elements() or 0)
    if num_bytes < _FEWEST_BYTES or _warned_of:
        return
    _warned_of.add(slot)
    _logger.warning(
        "the optimizer's slot %s %s (%s MB with shape %s)",
        slot, problem, f"{num_bytes / 1e6:,.0f}", shape.as_list(),
    )  # fmt: skip
