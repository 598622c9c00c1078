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
    its own keys, and checkpoints are written by one.
    """

    def __init__(self, saving):
        """`saving`: what saves tables, for the warning."""
        super().__init__(sharded=True, allow_empty=True, defer_build=True)
        self._saving = saving
        self._has_warned = False

    def build(self):
        """Adds the saving ops, for the variables that the graph has by now."""
        if self._var_list is None:
            keys = (
                tf.compat.v1.GraphKeys.GLOBAL_VARIABLES,
                tf.compat.v1.GraphKeys.SAVEABLE_OBJECTS,
            )
            saveable = [v for key in keys for v in tf.compat.v1.get_collection(key)]
            self._var_list = [v for v in saveable if not is_part_of_table(v)]
        super().build()

    def save(self, *args, **kwargs):
        """As tf.train.Saver.save; says once that tables are not in the checkpoint."""
        if not self._has_warned:
            _logger.warning(
                "tables of several ranks are not in tf.train checkpoints: save them with %s",
                self._saving,
            )
            self._has_warned = True
        return super().save(*args, **kwargs)


def set_default_saver(saving):
    """Gives the default graph its default saver, if it has none; `saving`: what saves tables."""
    savers = tf.compat.v1.get_collection_ref(tf.compat.v1.GraphKeys.SAVERS)
    if not savers:
        savers.append(DefaultSaver(saving))
