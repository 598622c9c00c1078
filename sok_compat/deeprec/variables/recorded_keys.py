# SPDX-License-Identifier: Apache-2.0
"""Frequencies and versions of an embedding variable's keys: lookup counts and last steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from sok_compat.deeprec.variables.key_histories import l2_threshold_of
from sok_compat.lookup.gradients.admission import counted_step
from sok_compat.ranks.collectives import named_reduction
from sok_compat.ranks.current_job import active_job
from sok_compat.tables.history_methods import check_has_history

if TYPE_CHECKING:
    from sok_compat.deeprec.variables.options import EmbeddingVariableOption
    from sok_compat.tables.table import Table as _Table
else:
    _Table = object


class RecordsKeys(_Table):
    """Mixin of EmbeddingVariable: key frequencies and versions, and eviction, also for savers.

    steps_to_live: number of steps without training after which a key is evicted; None: never.
    """

    steps_to_live: int | None = None
    ev_option: EmbeddingVariableOption

    def get_frequency(self, ids: Any) -> tf.Tensor:
        """How often keys came in training steps, on all ranks, with or without a row.

        As in a lookup, all ranks take part, each with its own ids.

        Args:
          ids: of any integer dtype and any shape.

        Returns:
          int64, of the same shape; 0 for unknown keys.

        Raises:
          ValueError: keys are not counted: the option has neither filter nor eviction, and neither
            TF_RECORD_FREQ nor TF_RECORD_VERSION was 1 when the variable was made.
        """
        return self._known_of(ids)[0]

    def get_version(self, ids: Any) -> tf.Tensor:
        """The last global step that trained or counted each key, on all ranks.

        As in a lookup, all ranks take part, each with its own ids.

        Args:
          ids: of any integer dtype and any shape.

        Returns:
          int64, of the same shape; as in DeepRec 0 for unknown keys; also for those without a step.

        Raises:
          ValueError: as get_frequency.
        """
        return tf.maximum(self._known_of(ids)[1], 0)

    def _known_of(self, ids):
        ids = self.checked_ids(ids)
        keys = tf.reshape(ids, [-1])
        known = self._known_at_owners(keys) if self.ranks.size > 1 else self.key_history(keys)
        return [tf.reshape(x, tf.shape(ids)) for x in known]

    def _known_at_owners(self, keys):
        """As key_history, over all ranks: each answers for those requested keys that it owns."""
        check_has_history(self, "key_history")
        job, what = active_job(), f"history_of.{self.table_name}"
        sizes = job.allgather(tf.shape(keys), **named_reduction(f"{what}.sizes"))
        requested = job.allgather(keys, **named_reduction(what))
        counts, steps = self.key_history(requested)
        known = tf.stack([counts, steps + 1], 1)  # zeros for unknown keys
        is_own = tf.equal(self.placement.owner_in_graph(requested), self.ranks.rank)
        known = tf.where(is_own[:, tf.newaxis], known, tf.zeros_like(known))
        known = job.allreduce(known, op=job.Sum, **named_reduction(f"{what}.known"))
        known = tf.split(known, tf.ensure_shape(sizes, [self.ranks.size]))[self.ranks.rank]
        return known[:, 0], known[:, 1] - 1

    def before_save(self) -> tf.Operation | None:
        """The op that evicts keys by the option, to run before a saver reads the variable.

        None if the option evicts no keys.
        """
        threshold = l2_threshold_of(self.ev_option)
        if self.steps_to_live is None and threshold is None:
            return None
        step = counted_step(self.graph)
        if step is None:
            step = tf.constant(-1)  # the table uses the step after the last that it counted
        return self.evict(step, self.steps_to_live, threshold).op

    def recorded(self, keys: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """(versions, freqs) of keys [n] in the table: int64 [n], or [0] without a history."""
        if self.history is None:
            return tf.zeros([0], tf.int64), tf.zeros([0], tf.int64)
        freqs, versions = self.key_history(tf.cast(keys, tf.int64))
        return versions, freqs
