# SPDX-License-Identifier: Apache-2.0
"""When and where ranks find the checkpoints of a training session, which rank 0 writes.

Scripts evaluate what they have trained on all ranks, so that these wait for the last checkpoint;
and name a folder by the time at which they start, so that ranks have folders of other names.
"""

from __future__ import annotations

import inspect
import os
from typing import Any

import tensorflow.compat.v1 as tf

from sok_compat.checkpoint.sessions.folders_of_rank_0 import (
    folder_of_rank_0,
    note_folder_of_rank_0,
)
from sok_compat.ranks.allgather_strings import (
    allgather_strings,
    expect_end_of_session,
    value_of_rank_0,
)

_END = "end_of_session"


def share_folder(folder: str | os.PathLike[str] | None) -> list[tf.train.SessionRunHook]:
    """Tells the other ranks which folder a training session of rank 0 writes to; on all ranks.

    Returns:
      Hooks for the session, after those that save.
    """
    of_rank_0 = value_of_rank_0("checkpoint_dir", lambda: folder and os.fspath(folder))
    if folder and of_rank_0:
        note_folder_of_rank_0(folder, of_rank_0)
    return [_EndsTogether()] if of_rank_0 else []


class _EndsTogether(tf.train.SessionRunHook):
    """Ends the session of a rank when rank 0 has saved, however long that takes."""

    def begin(self) -> None:
        expect_end_of_session(_END, tf.get_default_graph())

    def end(self, session: tf.Session) -> None:
        allgather_strings(_END, graph=session.graph, is_patient=True, ends_session=True)


class ChiefSessionCreator(tf.train.ChiefSessionCreator):
    """As tf.compat.v1.train.ChiefSessionCreator. API of TensorFlow 1.

    Ranks whose training session had another checkpoint_dir than rank 0 restore from that of rank 0.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Reads the folder of rank 0.

        Args:
          *args, **kwargs: see tf.compat.v1.train.ChiefSessionCreator.
        """
        given = _SIGNATURE.bind(*args, **kwargs).arguments
        given["checkpoint_dir"] = folder_of_rank_0(given.get("checkpoint_dir"))
        super().__init__(**given)


_SIGNATURE = inspect.signature(tf.train.ChiefSessionCreator)


def latest_checkpoint(checkpoint_dir: Any, latest_filename: str | None = None) -> str | None:
    """As tf.compat.v1.train.latest_checkpoint. API of TensorFlow 1.

    It looks in the folder of rank 0, as ChiefSessionCreator does.

    Args:
      checkpoint_dir: a folder.
      latest_filename: of the file that lists its checkpoints; None: 'checkpoint'.
    """
    return tf.train.latest_checkpoint(folder_of_rank_0(checkpoint_dir), latest_filename)
