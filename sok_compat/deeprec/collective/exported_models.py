# SPDX-License-Identifier: Apache-2.0
"""SavedModels, written by rank 0: of a checkpoint of all ranks, or of a session without tables."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow.compat.v1 as tf

from sok_compat import serving
from sok_compat.checkpoint.sessions.savers_of_ranks import has_shared_tables
from sok_compat.deeprec.collective.distributed_strategy import is_collective
from sok_compat.ranks.identity import current_ranks
from sok_compat.serving.stock_functions import use_stock_functions


def export_saved_model(
    savedmodel_dir: str | os.PathLike[str],
    checkpoint_dir: str | os.PathLike[str] | None = None,
    signature_def_fn: Callable[[], Any] | None = None,
    assets_extra: dict[str, str | os.PathLike[str]] | None = None,
    as_text: bool = False,
    clear_devices: bool = True,
    strip_default_attrs: bool = True,
) -> str | None:
    """Writes a SavedModel of the latest checkpoint, on rank 0. API of DeepRec.

    Its embedding variables hold the rows of all ranks, for one process.

    Args:
      savedmodel_dir: the folder to put the model's own folder in, named by the time in seconds.
      checkpoint_dir: the folder of the checkpoint.
      signature_def_fn: builds the model in a graph of its own, and returns its SignatureDef, or
        {name: SignatureDef}.
      assets_extra: {path below the model's assets.extra: file to copy there}.
      as_text: whether to write the graph as text.
      clear_devices: whether to drop devices from the graph.
      strip_default_attrs: whether to drop attributes that have their default value.

    Returns:
      The model's folder, a str; None on other ranks.

    Raises:
      ValueError: signature_def_fn or the checkpoint is missing.
    """
    if signature_def_fn is None or checkpoint_dir is None:
        raise ValueError("export_saved_model needs a checkpoint_dir and a signature_def_fn")
    return serving.export_saved_model(
        _free_folder(savedmodel_dir),
        signature_def_fn,
        checkpoint_dir,
        assets_extra=assets_extra,
        as_text=as_text,
        clear_devices=clear_devices,
        strip_default_attrs=strip_default_attrs,
    )


def _free_folder(above: str | os.PathLike[str]) -> Path:
    """A folder that does not exist yet, named by the time in seconds, as TensorFlow Serving's."""
    seconds = int(time.time())
    while any(Path(above, f"{seconds}{end}").exists() for end in ("", ".partial")):
        seconds += 1
    return Path(above, str(seconds))


class SavedModelBuilder(tf.saved_model.Builder):
    """As tf.compat.v1.saved_model.Builder. API of TensorFlow 1.

    Under the strategy 'collective' rank 0 writes the SavedModel, and the methods do nothing on
    other ranks.
    """

    def __init__(self, export_dir: str) -> None:
        """Makes the folder, on rank 0.

        Args:
          export_dir: a folder that does not exist, or has no files.

        Raises:
          AssertionError: the folder has files.
        """
        self._writes = not is_collective() or current_ranks().rank == 0
        if self._writes:
            super().__init__(export_dir)

    def add_meta_graph(self, *args: Any, **kwargs: Any) -> None:
        """As in tf.compat.v1.saved_model.Builder."""
        if self._writes:
            super().add_meta_graph(*args, **kwargs)

    def add_meta_graph_and_variables(self, sess: tf.Session, *args: Any, **kwargs: Any) -> None:
        """As in tf.compat.v1.saved_model.Builder.

        Raises:
          ValueError: the session's graph has embedding variables that ranks share.
        """
        _refuse_shared_tables(sess.graph)
        if self._writes:
            super().add_meta_graph_and_variables(sess, *args, **kwargs)

    def save(self, *args: Any, **kwargs: Any) -> bytes | None:
        """As in tf.compat.v1.saved_model.Builder; returns None on other ranks."""
        if not self._writes:
            return None
        path = super().save(*args, **kwargs)
        use_stock_functions(Path(os.fsdecode(path)).parent)
        return path


def simple_save(
    session: tf.Session,
    export_dir: str,
    inputs: dict[str, tf.Tensor],
    outputs: dict[str, tf.Tensor],
    legacy_init_op: tf.Operation | None = None,
) -> None:
    """As tf.compat.v1.saved_model.simple_save, on rank 0. API of TensorFlow 1.

    Args:
      session: the session with the values.
      export_dir: the folder of the SavedModel.
      inputs: {name: tensor}.
      outputs: {name: tensor}.
      legacy_init_op: an op to run after the model is loaded.

    Raises:
      ValueError: the session's graph has embedding variables that ranks share.
      AssertionError: the folder has files.
    """
    _refuse_shared_tables(session.graph)
    if not is_collective() or current_ranks().rank == 0:
        tf.saved_model.simple_save(session, export_dir, inputs, outputs, legacy_init_op)
        use_stock_functions(export_dir)


def _refuse_shared_tables(graph: tf.Graph) -> None:
    """Raises ValueError, on all ranks alike, for a graph that one process cannot serve."""
    if has_shared_tables(graph):
        raise ValueError(
            f"the graph looks rows up on {current_ranks().size} ranks, so no single process can "
            "serve it as a SavedModel: save a checkpoint, and build the model again from it by "
            "export_saved_model of CollectiveStrategy, of tf.estimator.Estimator or of "
            "sok_compat, or run this export in one process, which restores the checkpoint"
        )
