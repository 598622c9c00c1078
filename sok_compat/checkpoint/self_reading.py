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

_HINT = (
    "make {} as it was saved (default rows: with the same dimension, and default_value_dim of "
    "InitializerOption)"
)


class SelfReadingSaveable(BaseSaverBuilder.SaveableObject):
    """Its `specs` are written; `restore` is given no tensors, but before that what is below.

    path: of the checkpoint, a scalar string tensor.
    restored: the list of ops of this saver that read tables, to which `restore` may add its own.
    """

    path = None
    restored = ()


@contextlib.contextmanager
def with_self_reading(builder):
    """Lets a saver's builder, while this is open, build for SelfReadingSaveables, too."""
    read = builder.bulk_restore

    def bulk_restore(path, saveables, *args, **kwargs):
        _check_version(builder, saveables)
        restored = []
        others = [each for each in saveables if not isinstance(each, SelfReadingSaveable)]
        read_here = iter(read(path, others, *args, **kwargs) if others else ())
        tensors = []
        for saveable in saveables:
            if isinstance(saveable, SelfReadingSaveable):
                saveable.path, saveable.restored = path, restored
                tensors += [None] * len(saveable.specs)
            else:
                tensors += itertools.islice(read_here, len(saveable.specs))
        return tensors

    builder.bulk_restore = bulk_restore
    try:
        yield
    finally:
        del builder.bulk_restore


def _check_version(builder, saveables):
    found = [each.name for each in saveables if isinstance(each, SelfReadingSaveable)]
    if found and builder._write_version == tf.compat.v1.train.SaverDef.V1:
        raise NotImplementedError(
            f"tf.train.Saver(write_version=V1) cannot restore {found}, embedding variables or what "
            "stands beside them: leave write_version out, which is V2 then"
        )


class CompanionSaveable(SelfReadingSaveable):
    """An ordinary variable that stands beside tables, which may be there under other names."""

    def __init__(self, variable, name, other_names=(), is_required=True, otherwise=None):
        """Makes the ops that read the variable, in the default graph.

        Args:
          variable: a resource variable of a known shape.
          name: in the checkpoint.
          other_names: by which it is looked for there, in this order, if that one is missing.
          is_required: False: where it has none of these names, the variable keeps its value, or
            gets its first one.
          otherwise: the number that it gets then instead.
        """
        (self._saved,) = saveable_objects_for_op(variable, name)
        self._variable, self._is_required, self._otherwise = variable, is_required, otherwise
        self._names = list(dict.fromkeys([name, *other_names]))
        specs = self._saved.specs
        if variable.shape.rank == 0:
            specs = [_as_vector(spec) for spec in specs]
        super().__init__(self._saved.op, specs, name)

    def restore(self, restored_tensors, restored_shapes):
        """The op that gives the variable its value."""
        del restored_tensors, restored_shapes
        variable = self._variable
        with tf.device("/cpu:0"):
            is_there, value = ops.sok_read_saved_tensor(
                self.path,
                names=self._names,
                dtype=variable.dtype.base_dtype,
                shape=variable.shape,
                hint=_HINT.format(variable.op.name),
                is_required=self._is_required,
            )
        if not self._is_required:
            value = tf.compat.v1.cond(is_there, lambda: value, self._value_without)
        return variable.assign(value).op

    def _value_without(self):
        variable = self._variable
        if self._otherwise is not None:
            return tf.constant(self._otherwise, variable.dtype.base_dtype, variable.shape)
        return tf.compat.v1.cond(
            variable.is_initialized(), variable.read_value, lambda: variable.initial_value
        )


def _as_vector(spec):
    """DeepRec has scalars in vectors of one number."""
    value = spec.tensor
    with tf.device(value.device):
        return BaseSaverBuilder.SaveSpec(tf.reshape(value, [1]), spec.slice_spec, spec.name)
