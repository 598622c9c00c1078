# SPDX-License-Identifier: Apache-2.0
"""The norm of gradients over all ranks, for clipping: also in TensorFlow's own functions."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Sequence

import tensorflow as tf

from sok_compat.ranks.collectives import is_in_branch
from sok_compat.ranks.current_job import sum_over_ranks
from sok_compat.ranks.shared_gradients import table_of
from sok_compat.runtime import integrations

_logger = logging.getLogger("sok_compat")

_Gradients = Sequence["tf.Tensor | tf.IndexedSlices | None"]


def clip_by_norm_over_ranks() -> None:
    """Makes tf.clip_by_global_norm, and Keras's global_clipnorm, clip by the norm over all ranks
    where they get gradients of tables."""
    integrations.apply("tf.clip_by_global_norm", _of_all_ranks)


def norm_over_ranks(gradients: _Gradients, is_shared: Sequence[bool]) -> tf.Tensor:
    """Returns the norm that one process would have. All ranks must call it.

    Gradients of dense variables are the same on all ranks; `is_shared` says which are of tables
    with rows on several ranks.
    """
    pairs = [(g, shared) for g, shared in zip(gradients, is_shared) if g is not None]
    half_square = sum_over_ranks(_half_square([g for g, shared in pairs if shared]))
    half_square += _half_square([g for g, shared in pairs if not shared])
    return tf.sqrt(2.0 * half_square)


def _of_all_ranks(global_norm: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
    @functools.wraps(global_norm)
    @tf.autograph.experimental.do_not_convert
    def norm_of_all_ranks(t_list: _Gradients, name: str | None = None) -> tf.Tensor:
        tables = [table_of(gradient) for gradient in t_list]
        known = [table for table in tables if table is not None]
        if not known:
            return global_norm(t_list, name)
        if is_in_branch():  # which another rank may not take: it would wait for ever
            _warn(known[0])
            return global_norm(t_list, name)
        return norm_over_ranks(t_list, [table is not None for table in tables])

    return norm_of_all_ranks


def _warn(table: tf.Variable) -> None:
    _logger.warning(
        "tf.clip_by_global_norm, or global_clipnorm of an optimizer, is in a branch of tf.cond, "
        "which other ranks may not take: it uses the norm of this rank's rows of %s alone, and "
        "dense variables may drift apart. Take the norm outside of the branch, with %s",
        table.table_name,
        table.words.clip,
    )


def _half_square(gradients: Iterable[tf.Tensor | tf.IndexedSlices]) -> tf.Tensor:
    values = [g.values if isinstance(g, tf.IndexedSlices) else g for g in gradients]
    return tf.add_n([tf.cast(tf.nn.l2_loss(v), tf.float32) for v in values] or [tf.zeros([])])
