# SPDX-License-Identifier: Apache-2.0
"""`IncrementalSaverHook`: saves increments between a training session's whole checkpoints."""

from __future__ import annotations

import os
from typing import Any

import tensorflow as tf

from sok_compat.checkpoint.saver.incremental_saver import IncrementalSaver
from sok_compat.checkpoint.sessions.savers_of_ranks import has_shared_tables
from sok_compat.checkpoint.sessions.saving_steps import saving_steps
from sok_compat.checkpoint.tool.changes import check_has_pyarrow, write_changes
from sok_compat.ranks.allgather_strings import value_of_rank_0

tf1 = tf.compat.v1


class IncrementalSaverHook(tf.compat.v1.train.SessionRunHook):
    """Saves increments, next to a tf.train.CheckpointSaverHook that saves whole checkpoints.

    Added by sok_compat. `MonitoredTrainingSession(checkpoint_dir=...)` and estimators bring that
    hook. With several ranks, each has an IncrementalSaverHook; rank 0's folders and times count.

        saver = sok.IncrementalSaver()
        hook = sok.IncrementalSaverHook(saver, folder, save_secs=60)
        with tf.train.MonitoredTrainingSession(
            checkpoint_dir=folder, scaffold=tf.train.Scaffold(saver=saver), hooks=[hook]
        ) as session: ...
    """

    def __init__(
        self,
        saver: IncrementalSaver,
        checkpoint_dir: str,
        save_secs: float | None = None,
        save_steps: int | None = None,
        checkpoint_basename: str = "model.ckpt",
        changes_dir: str | None = None,
    ) -> None:
        """Give either save_secs or save_steps.

        Args:
          saver: the IncrementalSaver that also saves the whole checkpoints.
          checkpoint_dir: the folder of the whole checkpoints.
          save_secs: seconds between two increments.
          save_steps: steps between two increments.
          checkpoint_basename: name of the files, before the step.
          changes_dir: a folder for feature stores, where rank 0 writes what each checkpoint of the
            saver changes, whole or an increment, as `<name of the checkpoint>.parquet`. Steps wait
            meanwhile. If that fails, all ranks raise, and the next call writes it. Ranks without
            shared tables write those of their own checkpoints: give each a folder.

        Raises:
          FileError: changes_dir is given, and pyarrow is missing.
          TypeError: the saver is not an IncrementalSaver.
          ValueError: both or none of save_secs and save_steps are given, or it is not above 0.
        """
        if not isinstance(saver, IncrementalSaver):
            raise TypeError(
                f"IncrementalSaverHook needs an IncrementalSaver, got {type(saver).__name__}"
            )
        given = [each for each in (save_secs, save_steps) if each is not None]
        if len(given) != 1 or given[0] <= 0:
            raise ValueError(
                "IncrementalSaverHook takes one of save_secs and save_steps, above 0, got "
                f"save_secs={save_secs}, save_steps={save_steps}"
            )
        self._saver = saver
        self._path = os.path.join(checkpoint_dir, checkpoint_basename)
        self._seconds, self._num_steps = save_secs, save_steps
        self._changes_dir, self._last_changes = changes_dir, saver.last_saved
        if changes_dir is not None:
            check_has_pyarrow()
            os.makedirs(changes_dir, exist_ok=True)

    def begin(self) -> None:
        """Finds the global step; creates no op.

        Raises:
          RuntimeError: the graph has no global step.
        """
        self._graph = tf1.get_default_graph()
        self._global_step = tf1.train.get_global_step()
        if self._global_step is None:
            raise RuntimeError("IncrementalSaverHook needs a global step in the graph")

    def after_create_session(self, session: tf.compat.v1.Session, coord: Any) -> None:
        """Starts counting; the other hook saves the session's initial state."""
        del coord
        changes_dir = None if self._changes_dir is None else os.fspath(self._changes_dir)
        mine: list[Any] = [self._path, self._seconds, self._num_steps, changes_dir]
        if has_shared_tables(self._graph):
            mine = value_of_rank_0("increments_of_session", lambda: mine, self._graph)
        path, seconds, steps, self._changes_dir = mine
        self._path_of_all = path
        self._steps = saving_steps(seconds, steps, self._graph)
        self._steps.note_saved(int(session.run(self._global_step)))
        self._write_changes()

    def after_run(self, run_context: tf.compat.v1.train.SessionRunContext, run_values: Any) -> None:
        """Saves an increment if one is due in this step."""
        del run_values
        session = run_context.session
        step = int(session.run(self._global_step))
        self._write_changes()  # of the other hook's checkpoint
        if self._steps.is_saved(step) or not self._steps.is_due(step):
            return
        self._steps.note_saved(step)
        if self._saver.last_saved != self._saver.path_of(self._path_of_all, step):
            self._saver.save_increment(session, self._path_of_all, step)
            self._write_changes()

    def end(self, session: tf.compat.v1.Session) -> None:
        """Writes what the other hook's last checkpoint changes, if it has saved before."""
        del session
        self._write_changes()

    def _write_changes(self):
        """Writes those of the checkpoints that have been saved since they were written last."""
        if self._changes_dir is None:
            return
        chain = self._saver.chain
        first = 1 + chain.index(self._last_changes) if self._last_changes in chain else 0
        for saved in chain[first:]:
            self._write_changes_of(saved)
            self._last_changes = saved

    def _write_changes_of(self, saved):
        file = os.path.join(self._changes_dir, f"{os.path.basename(saved)}.parquet")
        if has_shared_tables(self._graph):
            value_of_rank_0(
                "changes_of_checkpoint",
                lambda: write_changes(saved, file),
                self._graph,
                is_patient=True,
            )
        else:
            write_changes(saved, file)
