# SPDX-License-Identifier: Apache-2.0
"""The graph's default tf.train.Saver with several ranks: of everything but tables."""

import logging

import tensorflow as tf

from sok_compat.tables.table import is_part_of_table

_logger = logging.getLogger(__name__)


class DefaultSaver(tf.compat.v1.train.Saver):
    """A tf.train.Saver of all variables but tables and their slots.

    MonitoredTrainingSession and estimators take the saver in the graph's SAVERS collection. Where
    there is none they make one of all variables, which raises with several ranks: each rank holds
    its own keys, and checkpoints are written by one. Restoring makes the tables that are not there
    yet, empty: these sessions run no initializers where they have restored.
    """

    def __init__(self, words):
        """`words`: of the tables, for warnings."""
        super().__init__(sharded=True, allow_empty=True, defer_build=True)
        self._words = words
        self._make_missing_parts = None
        self._warned = set()

    def build(self):
        """Adds the ops, for the variables that the graph has by now."""
        if self._var_list is None:
            keys = (
                tf.compat.v1.GraphKeys.GLOBAL_VARIABLES,
                tf.compat.v1.GraphKeys.SAVEABLE_OBJECTS,
            )
            saveable = [v for key in keys for v in tf.compat.v1.get_collection(key)]
            self._var_list = [v for v in saveable if not is_part_of_table(v)]
            parts = [v for v in saveable if is_part_of_table(v)]
            if parts:
                makers = [part.initialize_if_missing() for part in parts]
                self._make_missing_parts = tf.group(*makers, name="make_missing_tables")
        super().build()

    def save(self, *args, **kwargs):
        """As tf.train.Saver.save; says once that tables are not in the checkpoint."""
        self._warn_once(f"save them with {self._words.save}")
        return super().save(*args, **kwargs)

    def restore(self, sess, save_path):
        """As tf.train.Saver.restore; says once that tables do not come from the checkpoint."""
        super().restore(sess, save_path)
        if self._make_missing_parts is None:
            return
        sess.run(self._make_missing_parts)
        fill = f"are empty until all ranks run what {self._words.restore} gives"
        if self._words.fill_on_ranks:
            fill = f"are empty, and {self._words.fill_on_ranks}"
        self._warn_once(f"those that this session did not have yet {fill}")

    def _warn_once(self, what_to_do):
        if self._make_missing_parts is not None and what_to_do not in self._warned:
            _logger.warning(
                "tables of several ranks are not in tf.train checkpoints: %s", what_to_do
            )
            self._warned.add(what_to_do)


def set_default_saver(words):
    """Gives the default graph its default saver, if it has none; `words`: of the tables."""
    savers = tf.compat.v1.get_collection_ref(tf.compat.v1.GraphKeys.SAVERS)
    if not savers:
        savers.append(DefaultSaver(words))
