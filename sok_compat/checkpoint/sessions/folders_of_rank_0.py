# SPDX-License-Identifier: Apache-2.0
"""Folders that ranks name otherwise than rank 0, which writes the checkpoints of all."""

from __future__ import annotations

import os
from typing import Any

import tensorflow.compat.v1 as tf

_of_rank_0: dict[str, str] = {}  # by the folder that this rank has named


def note_folder_of_rank_0(folder: str | os.PathLike[str], of_rank_0: str) -> None:
    """Notes where rank 0 writes the checkpoints of a session that has `folder` on this rank."""
    _of_rank_0[os.path.abspath(folder)] = of_rank_0


def trained_folder(folder: Any) -> Any:
    """The folder in which rank 0 writes what this rank trains in `folder`; it, if nothing."""
    return _of_rank_0.get(os.path.abspath(folder), folder)


def folder_of_rank_0(folder: Any) -> Any:
    """The folder with the checkpoints of the session that trained with checkpoint_dir=folder; the
    same folder if it has a checkpoint, or if no session of several ranks did."""
    if not folder or tf.train.get_checkpoint_state(folder) is not None:
        return folder
    return trained_folder(folder)
