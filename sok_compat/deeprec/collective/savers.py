# SPDX-License-Identifier: Apache-2.0
"""`tf.train.Saver`, with DeepRec's arguments for incremental checkpoints."""

from __future__ import annotations

import inspect
import weakref
from typing import Any

import tensorflow.compat.v1 as tf

from sok_compat.checkpoint.saver.incremental_saver import IncrementalSaver


class Saver(tf.train.Saver):
    """As tf.compat.v1.train.Saver. API of DeepRec.

    With incremental_save_restore it is a sok_compat.checkpoint.IncrementalSaver, too:
    `save_increment`, or `incremental_save` of `tensorflow.python.training.incremental_saver`,
    saves the changes since its last save.
    """

    def __new__(cls, *args: Any, incremental_save_restore: bool = False, **kwargs: Any) -> Saver:
        del args, kwargs
        is_incremental = cls is Saver and incremental_save_restore
        return super().__new__(_SaverOfIncrements if is_incremental else cls)

    def __init__(
        self,
        *args: Any,
        incremental_save_restore: bool = False,
        incremental_include_normal_var: bool = False,
        **kwargs: Any,
    ) -> None:
        """As tf.compat.v1.train.Saver.

        Args:
          *args: as there.
          **kwargs: as there; with incremental_save_restore, no `builder` and no `saver_def`.
          incremental_save_restore: whether the saver can save increments.
          incremental_include_normal_var: ignored: increments hold all ordinary variables.

        Raises:
          TypeError: incremental_save_restore is set for a subclass.
          ValueError: incremental_save_restore is set, with a `builder` or a `saver_def`.
        """
        del incremental_include_normal_var
        if incremental_save_restore:
            raise TypeError(
                f"{type(self).__name__}(incremental_save_restore={incremental_save_restore!r}): a "
                "subclass of tf.train.Saver has no increments: derive it from "
                "sok_compat.checkpoint.IncrementalSaver"
            )
        super().__init__(*args, **kwargs)


_built: weakref.WeakSet[_SaverOfIncrements] = weakref.WeakSet()
_SIGNATURE = inspect.signature(tf.train.Saver)


class _SaverOfIncrements(IncrementalSaver, Saver):
    def __init__(
        self,
        *args: Any,
        incremental_save_restore: bool = True,
        incremental_include_normal_var: bool = False,
        **kwargs: Any,
    ) -> None:
        del incremental_save_restore, incremental_include_normal_var
        given = _SIGNATURE.bind(*args, **kwargs).arguments
        super().__init__(**{name: value for name, value in given.items() if value is not None})
        if self.saver_def is not None:  # None: defer_build
            graph, name = tf.get_default_graph(), self.saver_def.filename_tensor_name
            self._of_increments.filename_tensor = graph.get_tensor_by_name(name)
            _built.add(self)

    def has(self, filename_tensor_name: str) -> bool:
        """Whether it is the saver of the default graph with this tensor."""
        tensor: Any = self._of_increments.filename_tensor
        return tensor.graph is tf.get_default_graph() and tensor.name == filename_tensor_name


def saver_of(filename_tensor_name: str) -> IncrementalSaver | None:
    """The tf.train.Saver(incremental_save_restore=True) of the default graph with this tensor."""
    return next((saver for saver in _built if saver.has(filename_tensor_name)), None)
