# SPDX-License-Identifier: Apache-2.0
"""tf.train.CheckpointSaverHook on several ranks: all save the same checkpoint in the same step."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import tensorflow as tf

from sok_compat.checkpoint.sessions.folders_of_rank_0 import note_folder_of_rank_0
from sok_compat.checkpoint.sessions.saving_steps import saving_steps
from sok_compat.ranks.allgather_strings import allgather_strings, expect_end_of_session
from sok_compat.runtime.tf_versions import members

tf1 = tf.compat.v1
_END = "end_of_steps"


@dataclasses.dataclass(frozen=True)
class Saving:
    """Path and interval of a tf.train.CheckpointSaverHook; all ranks follow rank 0's."""

    path: str  # without the step
    seconds: float | None  # between two checkpoints; None if `steps` counts
    steps: int | None

    @classmethod
    def of(cls, hook: tf.compat.v1.train.CheckpointSaverHook) -> Saving:
        """The path and interval of a hook."""
        seconds, steps = members.interval_of(hook)
        seconds = None if seconds is None else float(seconds)
        return cls(members.path_of(hook), seconds, None if steps is None else int(steps))


def saver_of(
    hook: tf.compat.v1.train.CheckpointSaverHook | None,
    scaffold: tf.compat.v1.train.Scaffold | None,
) -> tf.compat.v1.train.Saver | None:
    """The tf.train.Saver of a hook, or of the scaffold that a session was given; None if the
    session will create it."""
    if hook is not None and members.saver_given_to(hook) is not None:
        return members.saver_given_to(hook)
    given = members.scaffold_of(hook) or scaffold
    if given is not None and given.saver is not None:
        return given.saver
    savers = tf1.get_collection(tf1.GraphKeys.SAVERS)
    return savers[0] if savers else None


class SavesOnAllRanks(tf.compat.v1.train.SessionRunHook):
    """Replaces a tf.train.CheckpointSaverHook.

    Only rank 0 writes the graph and events. Each rank calls its own listeners; if one asks to stop,
    all ranks stop.
    """

    def __init__(
        self,
        saving: Saving,
        is_first: bool,
        has_listeners: bool,
        hook: tf.compat.v1.train.CheckpointSaverHook | None,
        scaffold: tf.compat.v1.train.Scaffold | None,
    ) -> None:
        """Creates no op.

        Args:
          saving: rank 0's path and interval.
          has_listeners: whether some rank has listeners.
          hook: this rank's own CheckpointSaverHook, if any.
        """
        self._saving, self._is_first, self._has_listeners = saving, is_first, has_listeners
        self._hook: Any = hook  # on rank 0, never None
        self._scaffold = scaffold
        self._graph = tf1.get_default_graph()
        if hook is not None:
            own, of_rank_0 = (
                os.path.dirname(path) for path in (members.path_of(hook), saving.path)
            )
            note_folder_of_rank_0(own, of_rank_0)
        self._steps = saving_steps(saving.seconds, saving.steps, self._graph)
        expect_end_of_session(_END, self._graph)

    def begin(self) -> None:
        """As the replaced hook; creates no op."""
        if self._is_first:
            self._hook.begin()
        else:
            for listener in self._listeners:
                listener.begin()
        self._global_step = tf1.train.get_global_step()
        if self._global_step is None:
            raise RuntimeError("Global step should be created to use CheckpointSaverHook.")

    def after_create_session(self, session: tf.compat.v1.Session, coord: Any) -> None:
        """Saves the session's initial state, as the replaced hook does."""
        step = int(session.run(self._global_step))
        if self._is_first:
            self._hook.after_create_session(session, coord)
            self._share_stop(False)
            self._steps.note_saved(step)
        else:
            self._save(session, step)

    def after_run(self, run_context: tf.compat.v1.train.SessionRunContext, run_values: Any) -> None:
        """Saves if a checkpoint is due in this step."""
        del run_values
        session = run_context.session
        step = int(session.run(self._global_step))
        is_due = not self._steps.is_saved(step) and self._steps.is_due(step)
        if is_due and self._save(session, step):
            run_context.request_stop()

    def end(self, session: tf.compat.v1.Session) -> None:
        """Saves unless the last step has been saved."""
        step = int(session.run(self._global_step))
        if not self._steps.is_saved(step):
            allgather_strings(_END, graph=self._graph, ends_session=True)
            self._save(session, step)
        for listener in self._listeners:
            listener.end(session, step)

    @property
    def _listeners(self):
        return [] if self._hook is None else self._hook._listeners

    def _save(self, session, step):
        """Saves; returns whether a listener of some rank asks to stop."""
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

    def _share_stop(self, is_requested):
        if not self._has_listeners:
            return bool(is_requested)
        text = "stop" if is_requested else ""
        # Patient, as a listener of rank 0 may export for long.
        return any(allgather_strings("stop_after_checkpoint", text, self._graph, is_patient=True))
