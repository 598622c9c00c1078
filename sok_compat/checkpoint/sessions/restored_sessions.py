# SPDX-License-Identifier: Apache-2.0
"""Monitored sessions and estimators on several ranks start from one checkpoint, and save together.

Rank 0's folder and save intervals count for all ranks. Others may have the same folder, their own
or none; they write no events to rank 0's folder.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import inspect
import json
import logging
from typing import Any

import tensorflow as tf

from sok_compat.checkpoint.sessions.saver_hooks import SavesOnAllRanks, Saving, saver_of
from sok_compat.checkpoint.sessions.savers_of_ranks import (
    has_shared_tables,
    restoring_where_files_are,
    saves_with_other_ranks,
    saving_with_other_ranks,
)
from sok_compat.ranks.allgather_strings import allgather_strings, value_of_rank_0
from sok_compat.ranks.identity import current_ranks, is_connected
from sok_compat.ranks.launched import launched_size
from sok_compat.runtime import integrations
from sok_compat.runtime.tf_versions import members

tf1 = tf.compat.v1
_logger = logging.getLogger(__name__)


def share_checkpoints() -> None:
    """Makes ranks that share tables save and restore together from now on."""
    integrations.apply("tf.train.Saver.save", saving_with_other_ranks)
    integrations.apply("tf.train.Saver.restore", restoring_where_files_are)
    if is_connected() or launched_size() > 1:  # the ranks may connect later
        integrations.apply("tf.train.SessionManager", _restoring_what_rank_0_finds)
        integrations.apply("tf.train.MonitoredSession", _saving_in_the_same_steps)


def _restoring_what_rank_0_finds(restore):
    signature = inspect.signature(restore)

    @functools.wraps(restore)
    def restore_what_rank_0_finds(self, *args, **kwargs):
        given = signature.bind(self, *args, **kwargs)
        options = given.arguments
        graph = members.graph_of(self)
        if options.get("wait_for_checkpoint") or not has_shared_tables(graph):
            return restore(self, *args, **kwargs)
        found = value_of_rank_0("start_of_session", lambda: _found(options, graph), graph)
        if found is None:
            return restore(self, *args, **kwargs)
        path, kept = found
        own = options.get("checkpoint_filename_with_path") or options.get("checkpoint_dir")
        if own and path is None:
            _logger.info("rank 0 has found no checkpoint, so none is restored from %s", own)
        options.update(checkpoint_dir=None, checkpoint_filename_with_path=path)
        session, is_restored = restore(*given.args, **given.kwargs)
        if is_restored and kept is not None:
            options["saver"].recover_last_checkpoints(kept)
        return session, is_restored

    return restore_what_rank_0_finds


def _found(options, graph):
    """Finds rank 0's checkpoint.

    Returns:
      [path of the checkpoint or None, paths of all kept checkpoints or None]; None if rank 0's
      saver has no tables.
    """
    saver = options.get("saver")
    if saver is None or not saves_with_other_ranks(saver, graph):
        return None
    folder = options.get("checkpoint_dir")
    if options.get("checkpoint_filename_with_path") or not folder:
        return [options.get("checkpoint_filename_with_path"), None]
    state = tf1.train.get_checkpoint_state(folder)
    if state is None or not state.model_checkpoint_path:
        return [None, None]
    return [state.model_checkpoint_path, list(state.all_model_checkpoint_paths)]


def _saving_in_the_same_steps(init):
    signature = inspect.signature(init)

    @functools.wraps(init)
    def init_with_hooks(self, *args, **kwargs):
        given = signature.bind(self, *args, **kwargs)
        creator = given.arguments["session_creator"]
        hooks = _with_saves_of_rank_0(list(given.arguments["hooks"] or []), creator)
        given.arguments["hooks"] = hooks
        return init(*given.args, **given.kwargs)

    return init_with_hooks


def _with_saves_of_rank_0(hooks, creator):
    """Replaces a session's hooks that save tables by ones that save in step with rank 0.

    Raises:
      ValueError: another rank has CheckpointSaverHooks, but not as many as rank 0.
    """
    graph = tf1.get_default_graph()
    if not has_shared_tables(graph):
        return hooks
    scaffold = members.scaffold_of(creator)
    places = [at for at, hook in enumerate(hooks) if _saves_tables(hook, scaffold, graph)]
    mine = {
        "hooks": [type(hook).__name__ for hook in hooks],
        "places": places,
        "savings": [dataclasses.astuple(Saving.of(hooks[at])) for at in places],
        "has_listeners": any(members.listeners_of(hooks[at]) for at in places),
        "folders_of_events": list(filter(None, map(_folder_of_events, hooks))),
    }
    of_ranks = [
        json.loads(text) for text in allgather_strings("hooks_of_session", json.dumps(mine), graph)
    ]
    _check(of_ranks)
    first, is_first = of_ranks[0], current_ranks().rank == 0
    if not is_first:
        for hook in hooks:
            if _folder_of_events(hook) in first["folders_of_events"]:
                members.write_events_by(hook, NoEvents())
    has_listeners = any(each["has_listeners"] for each in of_ranks)
    made = [
        SavesOnAllRanks(Saving(*saving), is_first, has_listeners, hook, scaffold)
        for saving, hook in zip(
            first["savings"], [hooks[at] for at in places] or [None] * len(first["places"])
        )
    ]
    if places:
        for at, hook in zip(places, made):
            hooks[at] = hook
        return hooks
    for at, hook in zip(reversed(first["places"]), reversed(made)):
        hooks.insert(_place(mine["hooks"], first["hooks"], at), hook)
    return hooks


class NoEvents:
    """Replaces a tf.summary.FileWriter in rank 0's folder: two writers may pick one file name."""

    def add_summary(self, summary: Any, global_step: Any = None) -> None:
        """Does nothing."""

    def add_session_log(self, session_log: Any, global_step: Any = None) -> None:
        """Does nothing."""

    def flush(self) -> None:
        """Does nothing."""


def _folder_of_events(hook):
    kinds = tf1.train.SummarySaverHook, tf1.train.StepCounterHook
    return members.folder_of_events(hook) if isinstance(hook, kinds) else ""


def _saves_tables(hook, scaffold, graph):
    if not isinstance(hook, tf1.train.CheckpointSaverHook):
        return False
    saver = saver_of(hook, scaffold)
    return saver is None or saves_with_other_ranks(saver, graph)


def _check(of_ranks):
    for rank, each in enumerate(of_ranks):
        if each["places"] and len(each["places"]) != len(of_ranks[0]["places"]):
            raise ValueError(
                f"rank 0 saves tables by {len(of_ranks[0]['places'])} CheckpointSaverHooks, rank "
                f"{rank} by {len(each['places'])}, and all ranks save what rank 0 does: give the "
                "hooks, or checkpoint_dir, to rank 0 alone or to all ranks alike"
            )


def _place(mine, first, at):
    """Index for a hook that is at `at` of rank 0's hooks `first`: after the hooks that precede it
    there.

    Hooks, given as class names, that wait for other ranks must run in the same order on all.
    """
    before, place = collections.Counter(first[:at]), 0
    for index, name in enumerate(mine):
        if before[name] > 0:
            before[name] -= 1
            place = index + 1
    return place
