# SPDX-License-Identifier: Apache-2.0
"""Objects of a tf.train.Saver that read the checkpoint's file themselves, when they are restored.

A saver reads every tensor that it has written, by its name, and fails where one is missing. What
was saved in other parts, or by another program, has other tensors.
"""

import contextlib
import itertools

import tensorflow as tf

from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import BaseSaverBuilder, saveable_objects_for_op


class SelfReadingSaveable(BaseSaverBuilder.SaveableObject):
    """Its `specs` are written; `restore` is given no tensors, and `path` before: the checkpoint."""

    path = None  # a scalar string tensor


@contextlib.contextmanager
def with_self_reading(builder):
    """Lets a saver's builder, while this is open, build for SelfReadingSaveables, too."""
    read = builder.bulk_restore

    def bulk_restore(path, saveables, *args, **kwargs):
        others = [each for each in saveables if not isinstance(each, SelfReadingSaveable)]
        read_here = iter(read(path, others, *args, **kwargs) if others else ())
        tensors = []
        for saveable in saveables:
            if isinstance(saveable, SelfReadingSaveable):
                saveable.path = path
                tensors += [None] * len(saveable.specs)
            else:
                tensors += itertools.islice(read_here, len(saveable.specs))
        return tensors

    builder.bulk_restore = bulk_restore
    try:
        yield
    finally:
        del builder.bulk_restore


class CompanionSaveable(SelfReadingSaveable):
    """An ordinary variable that stands beside tables, which may be there under other names."""

    def __init__(self, variable, name, other_names=(), is_required=True):
        """Makes the ops that read the variable, in the default graph.

        Args:
          variable: a resource variable of a known shape.
          name: in the checkpoint.
          other_names: by which it is looked for there, in this order, if that one is missing.
          is_required: False: where it has none of these names, the variable keeps its value, or
            gets its first one.
        """
        (self._saved,) = saveable_objects_for_op(variable, name)
        self._variable, self._is_required = variable, is_required
        self._names = list(dict.fromkeys([name, *other_names]))
        super().__init__(self._saved.op, self._saved.specs, name)

    def restore(self, restored_tensors, restored_shapes):
        """The op that gives the variable its value."""
        del restored_tensors, restored_shapes
        variable = self._variable
        with tf.device("/cpu:0"):
            is_there, value = ops.sok_read_saved_tensor(
                self.path,
                names=self._names,
                dtype=variable.dtype.base_dtype,
                is_required=self._is_required,
            )
        if not self._is_required:
            value = tf.compat.v1.cond(is_there, lambda: value, self._value_without)
        if variable.shape.rank == 0:
            value = tf.reshape(value, [])  # DeepRec has [1]
        return variable.assign(tf.ensure_shape(value, variable.shape)).op

    def _value_without(self):
        variable = self._variable
        return tf.compat.v1.cond(
            variable.is_initialized(), variable.read_value, lambda: variable.initial_value
        )
