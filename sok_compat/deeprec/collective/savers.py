# SPDX-License-Identifier: Apache-2.0
"""`tf.train.Saver`, with DeepRec's argument for incremental checkpoints."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf


class Saver(tf.train.Saver):
    """As tf.compat.v1.train.Saver. API of DeepRec."""

    def __init__(self, *args: Any, incremental_save_restore: bool = False, **kwargs: Any) -> None:
        """As tf.compat.v1.train.Saver.

        Raises:
          NotImplementedError: incremental_save_restore is set.
        """
        if incremental_save_restore:
            raise NotImplementedError(
                f"tf.train.Saver(incremental_save_restore={incremental_save_restore!r}) is not "
                "supported: use save_increment of sok_compat.checkpoint.IncrementalSaver, or "
                "save_incremental_checkpoint_secs of tf.train.MonitoredTrainingSession"
            )
        super().__init__(*args, **kwargs)


NAMES = {"train.Saver": Saver}
