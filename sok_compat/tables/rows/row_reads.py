# SPDX-License-Identifier: Apache-2.0
"""Reads of a table's rows, as TensorFlow and its optimizers read any variable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import variable_accessed
from sok_compat.tables.rows.row_generations import dense_gradient
from sok_compat.tables.rows.row_writes import rows_at
from sok_compat.tables.variable_mixin import VariableMixin


class RowReads(VariableMixin):
    """Base class, before BaseResourceVariable, of tables: reads of rows by row id."""

    def value(self) -> tf.Tensor:
        """Returns the rows [capacity, dim] in the order of row ids; zeros for unused rows."""
        variable_accessed(self)
        return self._read_rows_of(self.handle, [self.capacity, self.dim])

    def read_value(self) -> tf.Tensor:
        """As value()."""
        return self.value()

    def numpy(self) -> np.ndarray:
        """value() as an array, in eager mode, of a table without a hash index.

        Raises:
          NotImplementedError: in graph mode, or with a hash index, as Keras's get_weights and .h5
            files would save rows without their keys.
        """
        if self.use_hash_index and tf.executing_eagerly():
            raise NotImplementedError(
                f"numpy() of the table {self.table_name} would return rows without their keys: "
                f"export() returns both, value().numpy() the rows alone, and {self.words.save} "
                "saves tables. If Keras called it: get_weights, .h5 files and EarlyStopping("
                "restore_best_weights=True) work on tables with "
                f"{self.words.without_index} only; model.save_weights with a path without an "
                "ending, and tf.train.Checkpoint, save all"
            )
        return super().numpy()

    def sparse_read(self, indices: Any, name: str | None = None) -> tf.Tensor:
        """The rows of this rank at `indices`, without a hash index; with one, raises.

        Raises:
          NotImplementedError: with a hash index: rows belong to keys.
          tf.errors.InvalidArgumentError: when run: this rank has no such row.
        """
        if self.use_hash_index:
            return super().sparse_read(indices, name)
        variable_accessed(self)
        with tf.device(self.device):
            return tf.raw_ops.ResourceGather(
                resource=self.handle, indices=rows_at(self, indices), dtype=tf.float32, name=name
            )

    def gather_nd(self, indices: Any, name: str | None = None) -> tf.Tensor:
        """As a variable's, by `sparse_read`; with a hash index, raises NotImplementedError."""
        if self.use_hash_index:
            return super().gather_nd(indices, name)
        indices = tf.convert_to_tensor(indices)
        rows = self.sparse_read(indices[..., 0], name)
        if indices.shape[-1] == 1:
            return rows
        return tf.gather(rows, indices[..., 1], batch_dims=indices.shape.rank - 1)

    def __deepcopy__(self, memo: dict[Any, Any]) -> tf.Variable:
        """In eager mode a tf.Variable with these rows, without a hash index and of one rank."""
        if self.placement.is_spread:
            raise NotImplementedError(
                f"a copy of the table {self.table_name} would have the rows of this rank alone"
            )
        return super().__deepcopy__(memo)

    def __getitem__(self, slice_spec: Any) -> tf.Tensor:
        """A slice of value(), without a hash index.

        Raises:
          NotImplementedError: with a hash index: rows belong to keys.
        """
        if self.use_hash_index and not self.shows_rows():
            raise NotImplementedError(
                f"a slice of the table {self.table_name} would be of rows in the order in which "
                f"their keys came: rows belong to keys. Look keys up {self.words.look_up}"
            )
        return super().__getitem__(slice_spec)

    def __array__(self, dtype: Any = None) -> np.ndarray:
        """value() for NumPy, which also calls it to put variables into an array."""
        return np.asarray(self.value(), dtype)

    @property
    def initial_value(self) -> tf.Tensor:
        """In a graph, zeros of the rows' shape, as each row starts with its key; in eager mode, as
        of other variables."""
        if not tf.executing_eagerly():
            return tf.zeros([self.capacity or 0, self.dim])
        return super().initial_value

    def initialized_value(self) -> tf.Tensor:
        """As value(), but initializes the table first if necessary."""
        if tf.executing_eagerly():
            return self.value()
        with tf.init_scope(), tf.control_dependencies([self.initialize_if_missing()]):
            handle, value = tf.identity(self.handle), self._read_rows_of(self.handle, self.shape)
            # If the value initializes another variable, TensorFlow replaces the handle by output 0
            # of this op.
            value = tf.raw_ops.IdentityN(input=[handle, value])[1]
        value.set_shape(self.shape)
        return value

    def _read_rows_of(
        self,
        handle: tf.Tensor,
        shape: Sequence[int | None] | tf.TensorShape,
        name: str | None = None,
    ) -> tf.Tensor:
        values = ops.sok_read_rows(handle, self.table_handle, name=name)
        values.set_shape(shape)
        return values

    def _dense_var_to_tensor(
        self, dtype: tf.DType | None = None, name: str | None = None, as_ref: bool = False
    ) -> tf.Tensor:
        del name, as_ref
        if dtype is not None and not tf.as_dtype(dtype).is_compatible_with(tf.float32):
            return NotImplemented
        return self.value()


@tf.RegisterGradient("SokReadRows")
def _read_rows_gradient(op: tf.Operation, gradient: tf.Tensor) -> tuple[tf.Tensor, None]:
    return dense_gradient(op.inputs[1], gradient, is_new=True), None
