# SPDX-License-Identifier: Apache-2.0
"""`tensorflow.python.training.incremental_saver`: increments by hand, on IncrementalSaver."""

from __future__ import annotations

import logging
import os
from typing import Any

import tensorflow as tf

from sok_compat.checkpoint.saver.incremental_saver import IncrementalSaver as _Saver

_logger = logging.getLogger("sok_compat")
SUB_INCR_CKPT_DIR = ".incremental_checkpoint"  # in DeepRec, the folder of increments


class IncrementalSaver:
    """Saves and restores increments of a tf.train.Saver(incremental_save_restore=True).

    API of DeepRec. An increment is a checkpoint beside the whole one that it continues, not in a
    folder of its own: every saver restores it by its path, with all that it needs.
    """

    def __init__(self, full_saver: _Saver) -> None:
        self._full_saver = full_saver

    def incremental_save(
        self,
        sess: tf.compat.v1.Session,
        save_path: str,
        global_step: int | tf.Tensor | tf.Variable | None = None,
        meta_graph_suffix: str = "meta",
        write_state: bool = True,
    ) -> str:
        """Saves the changes since the last save, on all ranks.

        Args:
          sess: the session.
          save_path: its last part names the files, in the folder of the last whole checkpoint.
          global_step: as for tf.train.Saver.save.
          meta_graph_suffix, write_state: ignored: there is no meta graph, and the state is written.

        Returns:
          The path of the checkpoint; see save_increment of sok_compat.checkpoint.IncrementalSaver
          for when it is a whole one, and for errors.
        """
        del meta_graph_suffix, write_state
        folder, name = os.path.split(save_path)
        if self._full_saver.last_saved is not None:
            folder = os.path.dirname(self._full_saver.last_saved)
        elif os.path.basename(folder) == SUB_INCR_CKPT_DIR:
            folder = os.path.dirname(folder)
        return self._full_saver.save_increment(sess, os.path.join(folder, name), global_step)

    def incremental_restore(
        self, sess: tf.compat.v1.Session, save_path: str, incr_save_path: str
    ) -> None:
        """Restores an increment, and what it continues.

        Args:
          sess: the session.
          save_path: ignored: the increment names the checkpoints that it continues.
          incr_save_path: what incremental_save returned.
        """
        del save_path
        self._full_saver.restore(sess, incr_save_path)

    def recover_incr_checkpoints(self, sess: tf.compat.v1.Session, checkpoint_dir: str) -> None:
        """Restores the latest increment in a folder of checkpoints, if there is one."""
        latest = tf.train.latest_checkpoint(checkpoint_dir)
        if latest is not None:
            self._full_saver.restore(sess, latest)


def _get_incremental_saver(
    incremental_save_restore: bool, full_saver: Any
) -> IncrementalSaver | None:
    """The IncrementalSaver of a saver; None if the first argument is false. API of DeepRec.

    Raises:
      ValueError: the saver was made without incremental_save_restore=True.
    """
    if not incremental_save_restore:
        return None
    if not isinstance(full_saver, _Saver):
        raise ValueError(
            "increments need a tf.train.Saver(incremental_save_restore=True), got "
            f"{type(full_saver).__name__} without it"
        )
    return IncrementalSaver(full_saver)
