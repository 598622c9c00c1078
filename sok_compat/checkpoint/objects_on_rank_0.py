# SPDX-License-Identifier: Apache-2.0
"""tf.train.Checkpoint where rank 0 alone has the files: what it restores comes from there."""

import functools

import tensorflow as tf

from sok_compat.checkpoint.files_of_rank_0 import are_on_rank_0, copy_of_rank_0
from sok_compat.runtime import integrations
from sok_compat.runtime.ranks import is_connected
from sok_compat.runtime.shared_texts import value_of_rank_0


def restore_objects_from_rank_0():
    """Makes tf.train.Checkpoint and tf.train.CheckpointManager, in eager mode, restore what rank 0
    has, on all ranks, where it has all files."""
    integrations.apply("tf.train.Checkpoint.restore (by path)", _restoring_copies)
    integrations.apply("tf.train.restore_or_initialize", _restoring_latest_of_rank_0)


def _restoring_copies(restore):
    @functools.wraps(restore)
    def restore_copy(self, save_path, options=None):
        if not _is_rank_0_asked():
            return restore(self, save_path, options)
        path = value_of_rank_0("path_of_rank_0", lambda: _checked(save_path))
        if path is None:
            return restore(self, None, options)
        copy = copy_of_rank_0(path)
        status = restore(self, copy.path, options)
        status._checkpoint.sok_compat_copy = copy  # as long as objects may come that it is for
        return status

    return restore_copy


def _restoring_latest_of_rank_0(restore):
    @functools.wraps(restore)
    def restore_latest_of_rank_0(self):
        if _is_rank_0_asked():
            self._latest_checkpoint = value_of_rank_0(
                "latest_checkpoint_of_rank_0", lambda: self._latest_checkpoint
            )
        return restore(self)

    return restore_latest_of_rank_0


def _is_rank_0_asked():
    return tf.executing_eagerly() and is_connected() and are_on_rank_0()


def _checked(path):
    """As text; None: nothing is to be restored."""
    if path is None:
        return None
    path = tf.compat.as_text(path)
    if not tf.io.gfile.exists(f"{path}.index"):
        raise tf.errors.NotFoundError(None, None, f"rank 0 has no checkpoint {path}")
    return path
