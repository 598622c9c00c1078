# SPDX-License-Identifier: Apache-2.0
"""tf.train.CheckpointSaverHook on several ranks: all save the same checkpoint in the same step."""

import dataclasses

import tensorflow as tf

from sok_compat.checkpoint.saving_steps import saving_steps
from sok_compat.runtime.shared_texts import share_text

tf1 = tf.compat.v1


@dataclasses.dataclass(frozen=True)
class Saving:
    """What a tf.train.CheckpointSaverHook does: that of rank 0 is done by all ranks."""

    path: str  # without the step
    seconds: float  # between two checkpoints; None: `steps` counts
    steps: int

    @classmethod
    def of(cls, hook):
        """That of a hook."""
        seconds, steps = hook._timer._every_secs, hook._timer._every_steps
        seconds = None if seconds is None else float(seconds)
        return cls(str(hook._save_path), seconds, None if steps is None else int(steps))


def saver_of(hook, scaffold):
    """The tf.train.Saver of a hook; None: the one that its session will make.

    Args:
      hook: a tf.train.CheckpointSaverHook; None: one that was given none.
      scaffold: the tf.train.Scaffold of the session; None: it was given none.
    """
    if hook is not None and hook._saver is not None:
        return hook._saver
    given = scaffold if hook is None or hook._scaffold is None else hook._scaffold
    if given is not None and given.saver is not None:
        return given.saver
    savers = tf1.get_collection(tf1.GraphKeys.SAVERS)
    return savers[0] if savers else None


class SavesOnAllRanks(tf1.train.SessionRunHook):
    """In the place of a tf.train.CheckpointSaverHook.

    What that writes beside checkpoints, graph and events, it writes on rank 0 alone. Its listeners
    are called on each rank that has some; when one asks to stop, all ranks do.
    """

    def __init__(self, saving, is_first, has_listeners, hook, scaffold):
        """Takes the place.

        Args:
          saving: rank 0's Saving.
          is_first: whether this is rank 0.
          has_listeners: whether some rank has.
          hook: this rank's own CheckpointSaverHook; None: it has none.
          scaffold: the tf.train.Scaffold of the session; None: it was given none.
        """
        self._saving, self._is_first, self._has_listeners = saving, is_first, has_listeners
        self._hook, self._scaffold = hook, scaffold
        self._graph = tf1.get_default_graph()
        self._steps = saving_steps(saving.seconds, saving.steps, self._graph)

    def begin(self):
        """As of the hook; it makes no op."""
        if self._is_first:
            self._hook.begin()
        else:
            for listener in self._listeners:
                listener.begin()
        self._global_step = tf1.train.get_global_step()
        if self._global_step is None:
            raise RuntimeError("Global step should be created to use CheckpointSaverHook.")

    def after_create_session(self, session, coord):
        """Saves, as the hook does, what the session starts with."""
        step = int(session.run(self._global_step))
        if self._is_first:
            self._hook.after_create_session(session, coord)
            self._share_stop(False)
            self._steps.note_saved(step)
        else:
            self._save(session, step)

    def after_run(self, run_context, run_values):
        """Saves where it is due, by the step that the run has come to."""
        del run_values
        session = run_context.session
        step = int(session.run(self._global_step))
        is_due = not self._steps.is_saved(step) and self._steps.is_due(step)
        if is_due and self._save(session, step):
            run_context.request_stop()

    def end(self, session):
        """Saves, unless that step is."""
        step = int(session.run(self._global_step))
        if not self._steps.is_saved(step):
            self._save(session, step)
        for listener in self._listeners:
            listener.end(session, step)

    @property
    def _listeners(self):
        return [] if self._hook is None else self._hook._listeners

    def _save(self, session, step):
        """Whether a listener of some rank asks to stop."""
        self._steps.note_saved(step)
        if self._is_first:
            return self._share_stop(self._hook._save(session, step))
        for listener in self._listeners:
            listener.before_save(session, step)
        saver = saver_of(self._hook, self._scaffold)
        saver.save(session, self._saving.path, global_step=step)
        return self._share_stop(
            any([listener.after_save(session, step) for listener in self._listeners])
        )

    def _share_stop(self, is_asked):
        if not self._has_listeners:
            return bool(is_asked)
        return any(share_text("stop_after_checkpoint", "stop" if is_asked else "", self._graph))
