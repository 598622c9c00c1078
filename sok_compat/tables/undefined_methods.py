# SPDX-License-Identifier: Apache-2.0
"""Methods of tf.Variable that raise for a table: those by index, and copies without keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import tensorflow as tf

from sok_compat.tables.variable_mixin import VariableMixin

_TO_READ = ("gather_nd", "sparse_read")
_BY_INDEX = (  # without a hash index, rows are a variable's: TensorFlow's methods do what they do
    "__deepcopy__",
    "batch_scatter_update",
    "count_up_to",
    "set_shape",
    "__int__",
    "__iadd__",
    "__isub__",
    "__imul__",
    "__itruediv__",
)
_TO_WRITE = (
    *_BY_INDEX,
    "from_proto",
    "load",
    *(f"scatter_{update}" for update in ("div", "max", "min", "mul")),
    *(f"scatter_nd_{update}" for update in ("add", "max", "min", "sub", "update")),
)


class UndefinedMethods(VariableMixin):
    """Base class, before PlaneVariable, of tables: its methods raise."""

    def _make_reads(self, handle: tf.Tensor, scope: str) -> tf.Tensor:
        """Returns the read of the rows for imported meta graphs.

        Also makes an op, under the name that convert_variables_to_constants reads, that fails it.
        """
        with tf.name_scope(f"{scope}Read/"):
            refuse = tf.raw_ops.Assert(
                condition=False,
                data=[
                    f"a graph with tables cannot be frozen, got {self.table_name}: constants would "
                    "have the rows, but not the keys. Export it with tf.compat.v1.saved_model, "
                    "which saves both"
                ],
            )
            with tf.control_dependencies([refuse]):
                tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
            return tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32, name="Rows")

    def _export_to_saved_model_graph(self, *args: Any, **kwargs: Any) -> NoReturn:
        """For tf.saved_model.save and Keras's model.save in eager mode.

        Raises:
          NotImplementedError: always.
        """
        del args, kwargs
        raise NotImplementedError(
            f"a SavedModel of eager mode cannot hold the table {self.table_name}: use "
            "sok_compat.export_saved_model for serving; to save, tf.train.Checkpoint, "
            f"model.save_weights with a path without an ending, or {self.words.save}"
        )

    def _copy_trackable_to_cpu(self, object_map: Any) -> NoReturn:
        """For asynchronous checkpoints.

        Raises:
          ValueError: always; TensorFlow ignores a NotImplementedError.
        """
        raise ValueError(
            f"the table {self.table_name} cannot be saved with "
            "experimental_enable_async_checkpoint, which copies all variables first: leave it out"
        )


def _not_implemented(method: str) -> Callable[..., Any]:
    def raise_not_implemented(self, *args, **kwargs):
        if method in _BY_INDEX and not self.use_hash_index:
            return getattr(super(UndefinedMethods, self), method)(*args, **kwargs)
        why = not_by_gather = ""
        if self.use_hash_index:
            why = ": its rows belong to keys"
            if "embedding_lookup" not in self.words.look_up:
                not_by_gather = " (not with tf.gather or tf.nn.embedding_lookup)"
        instead = (
            f"Look keys up {self.words.look_up}{not_by_gather}"
            if method in _TO_READ
            else f"Use an optimizer, or {self.words.set_rows} to set rows"
        )
        raise NotImplementedError(
            f"{method} is not defined for the table {self.table_name}{why}. {instead}"
        )

    raise_not_implemented.__name__ = method
    return raise_not_implemented


for _method in (*_TO_READ, *_TO_WRITE):
    setattr(UndefinedMethods, _method, _not_implemented(_method))
