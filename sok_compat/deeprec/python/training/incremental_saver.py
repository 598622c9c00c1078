# SPDX-License-Identifier: Apache-2.0
"""`tensorflow.python.training.incremental_saver`: increments that a script saves by hand."""

from __future__ import annotations

import os
from typing import Any

import tensorflow.compat.v1 as tf

from sok_compat.checkpoint.saver.incremental_saver import IncrementalSaver as _Saver
from sok_compat.checkpoint.saver.series import is_increment
from sok_compat.checkpoint.sessions.savers_of_ranks import saves_with_other_ranks
from sok_compat.checkpoint.streams.stored_tensors import chain_of
from sok_compat.deeprec.collective.savers import saver_of
from sok_compat.ranks.allgather_strings import value_of_rank_0

SUB_INCR_CKPT_DIR = ".incremental_checkpoint"  # below that of the whole checkpoints, in DeepRec


class IncrementalSaver:
    """Saves increments for a tf.train.Saver, which saves the whole checkpoints. API of DeepRec.

    An increment is a checkpoint of that saver: it stands in the folder of the whole one, `restore`
    of any saver reads it with all that it needs, tf.train.latest_checkpoint finds it, and it is
    deleted with its whole checkpoint. (In DeepRec it stands in a folder of its own.)
    """

    def __init__(
        self,
        full_saver: tf.train.Saver | None = None,
        *,
        saver_def: tf.train.SaverDef | None = None,
        sharded: bool = True,
        defer_build: bool = True,
        **of_saver: Any,
    ) -> None:
        """Adds no op to the graph.

        Args:
          full_saver: a tf.train.Saver with incremental_save_restore; None: that of `saver_def`.
          saver_def: that of the saver, in the default graph.
          sharded: ignored, as defer_build and other arguments of a tf.train.Saver: those of the
            saver count.

        Raises:
          ValueError: the saver is another one.
        """
        del sharded, defer_build, of_saver
        if full_saver is None and saver_def is not None:
            full_saver = saver_of(saver_def.filename_tensor_name)
        if not isinstance(full_saver, _Saver):
            raise ValueError(
                "increments need a tf.train.Saver(incremental_save_restore=True), got "
                f"{type(full_saver).__name__} without it"
            )
        self._saver = full_saver

    def build(self, filename_tensor: tf.Tensor) -> None:
        """Does nothing, as the saver has all ops. API of DeepRec.

        Raises:
          ValueError: the tensor, `_builder.filename_tensor` of a saver, is that of another saver.
        """
        expected = self._saver.saver_def.filename_tensor_name
        if filename_tensor.name != expected:
            raise ValueError(
                f"the increments are those of the saver with the tensor {expected}, got "
                f"{filename_tensor.name}"
            )

    def incremental_save(
        self,
        sess: tf.Session,
        save_path: str,
        global_step: int | tf.Tensor | tf.Variable | None = None,
        meta_graph_suffix: str = "meta",
        write_state: bool = True,
    ) -> str | None:
        """Saves the changes since the last save, on all ranks. API of DeepRec.

        Saves a whole checkpoint instead if there is none yet, if a table was restored or
        initialized since, or if the saver has no embedding variable.

        Args:
          sess: the session.
          save_path: its last part names the files, in the folder of the last whole checkpoint.
          global_step: appended to the path, as by tf.train.Saver.save.
          meta_graph_suffix: ignored: no meta graph is written.
          write_state: whether tf.train.latest_checkpoint finds the increment, and it is deleted
            with its whole checkpoint.

        Returns:
          The path of the checkpoint; None if the saver has no variable.

        Raises:
          ValueError: the path is that of a checkpoint that the increment needs.
          tf.errors.OpError: as tf.train.Saver.save.
        """
        del meta_graph_suffix
        path = self._beside_whole(save_path)
        if self._saver.has_tables:
            return self._saver.save_increment(
                sess, path, global_step=global_step, write_state=write_state
            )
        return self._saver.save(
            sess, path, global_step=global_step, write_meta_graph=False, write_state=write_state
        )

    def incremental_restore(self, sess: tf.Session, save_path: str, incr_save_path: str) -> None:
        """Restores a whole checkpoint and its increments up to one. API of DeepRec.

        Args:
          sess: the session.
          save_path: the path of the whole checkpoint.
          incr_save_path: the path of the increment, as incremental_save returned it.

        Raises:
          ValueError: the increment is one of another whole checkpoint, or a path is wrong.
          tf.errors.OpError: as tf.train.Saver.restore.
        """
        path = incr_save_path
        whole = self._of_all_ranks("whole_of_increment", lambda: chain_of(path)[0], sess)
        if os.path.abspath(whole) not in map(os.path.abspath, (save_path, path)):
            raise ValueError(
                f"{path} is an increment of {whole}, not of {save_path}: restore the one or the "
                "other by tf.train.Saver.restore"
            )
        self._saver.restore(sess, path)

    def recover_incr_checkpoints(self, sess: tf.Session, checkpoint_dir: str) -> None:
        """Restores the last increment of a folder, if its last checkpoint is one. API of DeepRec.

        The saver then also deletes the checkpoints of the folder in their turn.

        Args:
          sess: the session.
          checkpoint_dir: the folder of the whole checkpoints.

        Raises:
          tf.errors.OpError: as tf.train.Saver.restore.
        """

        def found():
            state = tf.train.get_checkpoint_state(checkpoint_dir)
            if state is None:
                return [None, []]
            last = state.model_checkpoint_path
            return [last if is_increment(last) else None, [*state.all_model_checkpoint_paths]]

        last, paths = self._of_all_ranks("last_increment", found, sess)
        if last is not None:
            self._saver.restore(sess, last)
        self._saver.recover_last_checkpoints(paths)

    @property
    def last_incr_checkpoints(self) -> list[str]:
        """The paths of the increments that are not deleted yet, oldest first."""
        return [each for each in self._saver.last_checkpoints if is_increment(each)]

    def _beside_whole(self, path):
        """The path that an increment gets instead."""
        folder, name = os.path.split(path)
        if self._saver.last_saved is not None:
            return os.path.join(os.path.dirname(self._saver.last_saved), name)
        above, last = os.path.split(folder)
        return os.path.join(above, name) if last == SUB_INCR_CKPT_DIR else path

    def _of_all_ranks(self, where, make, session):
        """What make() returns, on rank 0 if the ranks save together."""
        if not saves_with_other_ranks(self._saver, session.graph):
            return make()
        return value_of_rank_0(where, make, session.graph)


def _get_incremental_saver(
    incremental_save_restore: bool, full_saver: tf.train.Saver
) -> IncrementalSaver | None:
    """The IncrementalSaver of a tf.train.Saver, or None if none is asked for. API of DeepRec.

    Args:
      incremental_save_restore: whether to make one.
      full_saver: the saver of the whole checkpoints.

    Raises:
      ValueError: the saver was made without incremental_save_restore.
    """
    return IncrementalSaver(full_saver) if incremental_save_restore else None
