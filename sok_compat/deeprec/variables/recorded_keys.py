# SPDX-License-Identifier: Apache-2.0
"""What an embedding variable knows of its keys: how often they came, and when last."""

import tensorflow as tf

from sok_compat.deeprec.variables.key_histories import l2_threshold_of
from sok_compat.lookup.admission import counted_step
from sok_compat.ranks.collectives import named_reduction
from sok_compat.ranks.horovod.communicator import active_horovod


class RecordsKeys:
    """The part of an EmbeddingVariable that counts keys, filters and evicts; and that savers ask.

    steps_to_live: after how many steps without training a key goes; None: never.
    """

    steps_to_live = None

    def get_frequency(self, ids):
        """How often keys came in steps that trained, on all ranks, whether they have a row or not.
        As in a lookup, all ranks take part, each with ids of its own.

        Args:
          ids: of any integer dtype and any shape.

        Returns:
          int64, of that shape; 0 for keys that nothing is known of.

        Raises:
          ValueError: nothing counts: the option has no filter and no eviction, and neither
            TF_RECORD_FREQ nor TF_RECORD_VERSION was 1 when the variable was made.
        """
        return self._known_of(ids)[0]

    def get_version(self, ids):
        """The global step of the last step that trained keys, or counted them; else as
        get_frequency.

        Args:
          ids: of any integer dtype and any shape.

        Returns:
          int64, of that shape; -1 for keys that nothing is known of, or no step.

        Raises:
          ValueError: as of get_frequency.
        """
        return self._known_of(ids)[1]

    def _known_of(self, ids):
        ids = self.checked_ids(ids)
        keys = tf.reshape(ids, [-1])
        known = self._known_at_owners(keys) if self.ranks.size > 1 else self.key_history(keys)
        return [tf.reshape(x, tf.shape(ids)) for x in known]

    def _known_at_owners(self, keys):
        """As key_history, of all ranks: each tells of its own among the keys of all."""
        self._check_has_history("key_history")
        horovod, what = active_horovod(), f"history_of.{self.table_name}"
        sizes = horovod.allgather(tf.shape(keys), **named_reduction(f"{what}.sizes"))
        asked = horovod.allgather(keys, **named_reduction(what))
        counts, steps = self.key_history(asked)
        known = tf.stack([counts, steps + 1], 1)  # zeros, where nothing is known
        is_own = tf.equal(self.placement.owner_in_graph(asked), self.ranks.rank)
        known = tf.where(is_own[:, tf.newaxis], known, tf.zeros_like(known))
        known = horovod.allreduce(known, op=horovod.Sum, **named_reduction(f"{what}.known"))
        known = tf.split(known, tf.ensure_shape(sizes, [self.ranks.size]))[self.ranks.rank]
        return known[:, 0], known[:, 1] - 1

    def before_save(self):
        """The op that evicts what the option says, to run before a saver reads the variable; None:
        nothing is evicted."""
        threshold = l2_threshold_of(self.ev_option)
        if self.steps_to_live is None and threshold is None:
            return None
        step = counted_step(self.graph)
        if step is None:
            step = tf.constant(-1)  # the table knows which one it counted last
        return self.evict(step, self.steps_to_live, threshold).op

    def recorded(self, keys):
        """(versions, freqs) of keys that it holds, int64 [n], or [0] where nothing is recorded."""
        if self.history is None:
            return tf.zeros([0], tf.int64), tf.zeros([0], tf.int64)
        freqs, versions = self.key_history(tf.cast(keys, tf.int64))
        return versions, freqs

    def restore_recorded(self, keys, versions, freqs, filtered):
        """An op that takes back what a saver has written; None: nothing is recorded.

        Keys with a row keep it, whatever the filter. Others that have come as often as it asks for
        get theirs when they come next.

        Args:
          keys: [n], all that the variable holds now.
          versions, freqs: of these, int64 [n]; -1 where the checkpoint has none.
          filtered: (keys, versions, freqs) of those that a filter has not given a row, int64 [m],
            the last two as above.
        """
        if self.history is None:
            return None
        filtered_keys, filtered_versions, filtered_freqs = filtered
        as_admitted = tf.fill(
            tf.shape(freqs), tf.constant(max(1, self.history.filter_freq), tf.int64)
        )
        freqs = tf.where(freqs < 0, as_admitted, freqs)
        return self.import_history(
            tf.concat([tf.cast(keys, tf.int64), tf.cast(filtered_keys, tf.int64)], 0),
            tf.concat([freqs, tf.maximum(filtered_freqs, 0)], 0),
            tf.concat([versions, filtered_versions], 0),
        )
