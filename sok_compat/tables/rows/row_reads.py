# SPDX-License-Identifier: Apache-2.0
"""Reads of a table's rows, as TensorFlow and its optimizers read any variable."""

import numpy as np
import tensorflow as tf

from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import variable_accessed


class RowReads:
    """Before BaseResourceVariable, for a table: what gives its rows, by row id."""

    def value(self):
        """The rows [capacity, dim] in the order of row ids; rows that no key has yet are zeros."""
        variable_accessed(self)
        return self._read_rows_of(self.handle, [self.capacity, self.dim])

    def read_value(self):
        """As value()."""
        return self.value()

    def numpy(self):
        """value() as an array, in eager mode, of a table without a hash index.

        Raises:
          NotImplementedError: it has one: rows without their keys are half a table, which Keras's
            get_weights and .h5 files would take for the whole. Or it is graph mode.
        """
        if self.use_hash_index and tf.executing_eagerly():
            raise NotImplementedError(
                f"numpy() of the table {self.table_name} would be rows without their keys: "
                f"export() gives both, value().numpy() the rows alone, and {self.words.save} saves "
                "tables. If Keras called it: get_weights, .h5 files and EarlyStopping("
                "restore_best_weights=True) work on tables with "
                f"{self.words.without_index} only; model.save_weights with a path without an "
                "ending, and tf.train.Checkpoint, save all"
            )
        return super().numpy()

    def __array__(self, dtype=None):
        """value() for NumPy, which asks for it also where it puts variables into an array."""
        return np.asarray(self.value(), dtype)

    @property
    def initial_value(self):
        """As of other variables in eager mode; in a graph it has the shape that others ask for:
        rows start when their keys come."""
        if not tf.executing_eagerly():
            return tf.zeros([self.capacity or 0, self.dim])
        return super().initial_value

    def initialized_value(self):
        """As value(), after the initializer: a table that is not there yet is made first."""
        if tf.executing_eagerly():
            return self.value()
        with tf.init_scope(), tf.control_dependencies([self.initialize_if_missing()]):
            handle, value = tf.identity(self.handle), self._read_rows_of(self.handle, self.shape)
            # TensorFlow puts the op that makes this in the place of the handle (output 0) where
            # the value is used to initialize another variable.
            value = tf.raw_ops.IdentityN(input=[handle, value])[1]
        value.set_shape(self.shape)
        return value

    def _read_rows_of(self, handle, shape, name=None):
        values = ops.sok_read_rows(handle, self.table_handle, name=name)
        values.set_shape(shape)
        return values

    def _dense_var_to_tensor(self, dtype=None, name=None, as_ref=False):
        del name, as_ref
        if dtype is not None and not tf.as_dtype(dtype).is_compatible_with(tf.float32):
            return NotImplemented
        return self.value()


@tf.RegisterGradient("SokReadRows")
def _read_rows_gradient(op, gradient):
    del op
    return gradient, None
