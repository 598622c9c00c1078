# SPDX-License-Identifier: Apache-2.0
"""`tf.train.Saver`, with the arguments that DeepRec has for incremental checkpoints."""

import tensorflow.compat.v1 as tf


class Saver(tf.train.Saver):
    """As of tf.compat.v1.train. API of DeepRec."""

    def __init__(self, *args, incremental_save_restore=False, **kwargs):
        """As of tf.compat.v1.train.

        Raises:
          NotImplementedError: incremental_save_restore.
        """
        if incremental_save_restore:
            raise NotImplementedError(
                f"tf.train.Saver(incremental_save_restore={incremental_save_restore!r}): use "
                "sok_compat.checkpoint.IncrementalSaver, and its save_increment, or "
                "save_incremental_checkpoint_secs of tf.train.MonitoredTrainingSession"
            )
        super().__init__(*args, **kwargs)


NAMES = {"train.Saver": Saver}
