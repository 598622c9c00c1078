# SPDX-License-Identifier: Apache-2.0
"""`IncrementalSaverHook`: increments in a session's training, between its whole checkpoints."""

import os

import tensorflow as tf

from sok_compat.checkpoint.incremental_saver import IncrementalSaver
from sok_compat.checkpoint.savers_of_ranks import has_shared_tables
from sok_compat.checkpoint.saving_steps import saving_steps
from sok_compat.runtime.shared_texts import value_of_rank_0

tf1 = tf.compat.v1


class IncrementalSaverHook(tf1.train.SessionRunHook):
    """Saves increments, as a tf.train.CheckpointSaverHook saves whole checkpoints, which stands
    beside it: `MonitoredTrainingSession(checkpoint_dir=...)` and estimators bring one. On several
    ranks, all are given one; rank 0's folder and times count.

        saver = sok.IncrementalSaver()
        hook = sok.IncrementalSaverHook(saver, folder, save_secs=60)
        with tf.train.MonitoredTrainingSession(
            checkpoint_dir=folder, scaffold=tf.train.Scaffold(saver=saver), hooks=[hook]
        ) as session: ...
    """

    def __init__(
        self,
        saver,
        checkpoint_dir,
        save_secs=None,
        save_steps=None,
        checkpoint_basename="model.ckpt",
    ):
        """
        Args:
          saver: the IncrementalSaver that saves whole checkpoints, too.
          checkpoint_dir: the folder, that of whole checkpoints.
          save_secs: between two increments, seconds; or None.
          save_steps: likewise, steps; or None.
          checkpoint_basename: of the files, before the step.

        Raises:
          TypeError: the saver is no IncrementalSaver.
          ValueError: not one of save_secs and save_steps, or it is not above 0.
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

    def begin(self):
        """Looks for the global step; makes no op.

        Raises:
          RuntimeError: there is none.
        """
        self._graph = tf1.get_default_graph()
        self._global_step = tf1.train.get_global_step()
        if self._global_step is None:
            raise RuntimeError("IncrementalSaverHook needs a global step in the graph")

    def after_create_session(self, session, coord):
        """What the session starts with is for the hook that saves whole checkpoints."""
        del coord
        mine = [self._path, self._seconds, self._num_steps]
        if has_shared_tables(self._graph):
            mine = value_of_rank_0("increments_of_session", lambda: mine, self._graph)
        path, seconds, steps = mine
        self._path_of_all = path
        self._steps = saving_steps(seconds, steps, self._graph)
        self._steps.note_saved(int(session.run(self._global_step)))

    def after_run(self, run_context, run_values):
        """Saves an increment where it is due, by the step that the run has come to."""
        del run_values
        session = run_context.session
        step = int(session.run(self._global_step))
        if self._steps.is_saved(step) or not self._steps.is_due(step):
            return
        self._steps.note_saved(step)
        if self._saver.last_saved != self._saver.path_of(self._path_of_all, step):
            self._saver.save_increment(session, self._path_of_all, step)
