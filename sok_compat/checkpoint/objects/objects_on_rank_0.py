# SPDX-License-Identifier: Apache-2.0
"""tf.train.Checkpoint.restore where only rank 0 has the files: it sends them to the others."""

from __future__ import annotations

import functools
import os

import tensorflow as tf

from sok_compat.checkpoint.streams.files_of_rank_0 import are_on_rank_0, copy_of_rank_0
from sok_compat.checkpoint.streams.stored_tensors import tensors_in
from sok_compat.ranks.allgather_strings import value_of_rank_0
from sok_compat.ranks.identity import is_connected
from sok_compat.runtime import integrations
from sok_compat.runtime.tf_versions import members


def restore_objects_from_rank_0() -> None:
    """Makes tf.train.Checkpoint, in eager mode, restore rank 0's checkpoint on all ranks if only
    rank 0 has the files."""
    integrations.apply("tf.train.Checkpoint.restore, by path", _restoring_copies)


def _restoring_copies(restore):
    @functools.wraps(restore)
    def restore_copy(self, save_path, options=None):
        if not (tf.executing_eagerly() and is_connected() and are_on_rank_0()):
            _check_index(save_path)
            return restore(self, save_path, options)
        path = value_of_rank_0("path_of_rank_0", lambda: _checked(save_path))
        if path is None:
            return restore(self, None, options)
        copy = copy_of_rank_0(path)
        status = restore(self, copy.path, options)
        members.keep_until_restored(status, "sok_compat_copy", copy)
        return status

    return restore_copy


def _check_index(path):
    """Raises for a damaged index, for which TensorFlow's reader would end the process.

    TensorFlow itself reports a path without a checkpoint.
    """
    is_path = isinstance(path, (str, bytes, os.PathLike))
    if is_path and tf.io.gfile.exists(f"{tf.compat.path_to_str(path)}.index"):
        tensors_in(tf.compat.path_to_str(path))


def _checked(path):
    """The path as text; None if nothing is to be restored."""
    if path is None:
        return None
    path = tf.compat.as_text(path)
    if not tf.io.gfile.exists(f"{path}.index"):
        raise tf.errors.NotFoundError(None, None, f"rank 0 has no checkpoint {path}")
    return path
