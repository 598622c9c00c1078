# SPDX-License-Identifier: Apache-2.0
"""`tf.train.Saver`, with DeepRec's arguments for incremental checkpoints."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from sok_compat.checkpoint.saver.incremental_saver import IncrementalSaver


class Saver(tf.train.Saver):
    """As tf.compat.v1.train.Saver. API of DeepRec."""

    def __new__(cls, *args: Any, incremental_save_restore: bool = False, **kwargs: Any) -> Any:
        """A saver of increments, too, if incremental_save_restore is set."""
        del args, kwargs
        return super().__new__(_SaverOfIncrements if incremental_save_restore else cls)

    def __init__(
        self,
        *args: Any,
        incremental_save_restore: bool = False,
        incremental_include_normal_var: bool = False,
        **kwargs: Any,
    ) -> None:
        """As tf.compat.v1.train.Saver.

        Args:
          incremental_save_restore: makes it a sok_compat.checkpoint.IncrementalSaver, which
            tensorflow.python.training.incremental_saver uses.
          incremental_include_normal_var: ignored: increments have all ordinary variables.
        """
        del incremental_save_restore, incremental_include_normal_var
        super().__init__(*args, **kwargs)


class _SaverOfIncrements(Saver, IncrementalSaver):
    """What Saver(incremental_save_restore=True) makes."""


NAMES = {"train.Saver": Saver}
