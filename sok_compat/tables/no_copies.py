# SPDX-License-Identifier: Apache-2.0
"""Refuses the copies that TensorFlow makes of variables: a table's would lack its keys."""

from __future__ import annotations

from typing import Any, NoReturn

import tensorflow as tf

from sok_compat.tables.variable_mixin import VariableMixin


class NoCopies(VariableMixin):
    """Base class, before BaseResourceVariable, of tables."""

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
