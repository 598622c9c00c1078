# SPDX-License-Identifier: Apache-2.0
"""tf.train.Saver.save on several ranks: all write one checkpoint, and rank 0 manages its files.

The ops of a saver with tables write the checkpoint, on all ranks together. Rank 0 writes the
`checkpoint` file and the meta graph, and deletes old checkpoints.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from sok_compat.checkpoint.sessions.tables_left_out import warn_of_tables_left_out
from sok_compat.checkpoint.streams.files_of_rank_0 import are_on_rank_0, path_on_this_rank
from sok_compat.checkpoint.streams.progress import SAVED_BYTES, bytes_to_read, logged
from sok_compat.checkpoint.streams.stored_tensors import tensors_in_readable
from sok_compat.ranks.allgather_strings import allgather_strings
from sok_compat.ranks.identity import current_ranks
from sok_compat.runtime.error_texts import first_line
from sok_compat.runtime.graphs import ancestors, state_of
from sok_compat.runtime.tf_versions import checkpoint_management, members
from sok_compat.tables.known_tables import is_shared_table


def saves_with_other_ranks(saver: tf.compat.v1.train.Saver, graph: tf.Graph) -> bool:
    """Whether all ranks take part when a tf.train.Saver, perhaps not built yet, saves: it has
    shared tables."""
    saver_def = getattr(saver, "saver_def", None)
    if saver_def is None:  # not built yet: it will save all variables
        return has_shared_tables(graph)
    name = saver_def.save_tensor_name
    known = state_of(graph).shared_savers
    if name not in known:  # it may be the saver of an imported graph
        before = ancestors([graph.get_tensor_by_name(name).op])
        known[name] = any(op.type == "SokBeginCollective" for op in before)
    return known[name]


def has_shared_tables(graph: tf.Graph) -> bool:
    """Whether a graph has tables that several ranks share."""
    variables = graph.get_collection(tf.compat.v1.GraphKeys.GLOBAL_VARIABLES)
    return any(is_shared_table(variable) for variable in variables)


def saving_with_other_ranks(save: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps tf.train.Saver.save: for shared tables it saves as described above."""
    signature = inspect.signature(save)

    @functools.wraps(save)
    def save_with_other_ranks(self, sess, save_path, *args, **kwargs):
        with logged(f"saving {save_path}", _bytes_of_tables(self, sess)):
            if not _meets_other_ranks(self, sess):
                return save(self, sess, save_path, *args, **kwargs)
            given = signature.bind(self, sess, save_path, *args, **kwargs)
            given.apply_defaults()
            options = dict(given.arguments)
            # Bad arguments raise here, before other ranks wait.
            path = save(**{**options, "write_state": False, "write_meta_graph": False})
            _look_after_files(self, path, options)
            return path

    return save_with_other_ranks


def restoring_where_files_are(restore: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps tf.train.Saver.restore: if only rank 0 has the files, it sends them to the others."""

    @functools.wraps(restore)
    def restore_where_files_are(self, sess, save_path):
        has_keys = _bytes_of_tables(self, sess) > 0
        stored = tensors_in_readable(str(save_path))
        if getattr(sess, "graph", None):  # otherwise TensorFlow raises
            warn_of_tables_left_out(save_path, stored, sess.graph)
        with logged(f"restoring {save_path}", bytes_to_read(stored, has_keys)):
            if not _meets_other_ranks(self, sess) or not are_on_rank_0():
                return restore(self, sess, save_path)
            with path_on_this_rank(save_path, sess.graph) as path:
                return restore(self, sess, path)

    return restore_where_files_are


def _bytes_of_tables(saver: tf.compat.v1.train.Saver, session: tf.compat.v1.Session) -> int:
    """About how many bytes of a checkpoint are tables of this rank; 0 if that is not known, as of
    an increment."""
    graph = getattr(session, "graph", None)
    saver_def = getattr(saver, "saver_def", None)
    is_increment = getattr(saver, "saves_increment", False)
    if graph is None or saver_def is None or is_increment or are_on_rank_0():
        return 0
    scope = saver_def.save_tensor_name.rpartition("/")[0]
    try:
        total = graph.get_tensor_by_name(f"{scope}/{SAVED_BYTES}:0")
    except (KeyError, ValueError):  # a saver without tables
        return 0
    return int(session.run(total))


def _meets_other_ranks(saver, session):
    graph = getattr(session, "graph", None)  # TensorFlow raises if None
    if graph is None or members.is_empty(saver):
        return False
    return saves_with_other_ranks(saver, graph)


def _look_after_files(saver, path, options):
    """Rank 0 updates the files beside a checkpoint; all ranks wait for it.

    Raises:
      Exception: on rank 0, its error.
      tf.errors.UnknownError: on the other ranks, if rank 0 failed.
    """
    is_first, error = current_ranks().rank == 0, None
    if options["write_state"]:
        members.note_checkpoint(saver, path)
    try:
        if is_first:
            _write_files(saver, path, options)
        else:  # rank 0 deletes them
            members.delete_no_old_checkpoints(saver)
    except Exception as raised:  # noqa: BLE001  whatever it is, others must not wait
        error = raised
    problem = "" if error is None else f"{type(error).__name__}: {first_line(error)}"
    (of_rank_0, *_) = allgather_strings(
        "saved_checkpoint", problem, options["sess"].graph, is_patient=True
    )
    if error is not None:
        raise error
    if of_rank_0:
        raise tf.errors.UnknownError(
            None,
            None,
            f"{path} is saved, but not the files that rank 0 writes beside it: {of_rank_0}",
        )


def _write_files(saver, path, options):
    """Writes the files beside a checkpoint in the order of tf.train.Saver.save."""
    if options["write_state"]:
        checkpoint_management.update_checkpoint_state_internal(
            save_dir=os.path.dirname(path),
            model_checkpoint_path=path,
            all_model_checkpoint_paths=saver.last_checkpoints,
            latest_filename=options["latest_filename"],
            save_relative_paths=members.saves_relative_paths(saver),
        )
        members.delete_old_checkpoints(saver, options["meta_graph_suffix"])
    if options["write_meta_graph"]:
        file = checkpoint_management.meta_graph_filename(path, options["meta_graph_suffix"])
        with options["sess"].graph.as_default():
            saver.export_meta_graph(
                file,
                strip_default_attrs=options["strip_default_attrs"],
                save_debug_info=options["save_debug_info"],
            )
