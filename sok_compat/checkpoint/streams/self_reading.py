# SPDX-License-Identifier: Apache-2.0
"""Saveable objects of a tf.train.Saver that read the checkpoint themselves when it is restored.

A saver reads each tensor that it has written by name, and fails if one is missing. But checkpoints
with other parts, or of another program, have other tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import BaseSaverBuilder, saveable_objects_for_op

_HINT = (
    "make {} as it was saved (default rows: with the same dimension, and default_value_dim of "
    "InitializerOption)"
)


class SelfReadingSaveable(BaseSaverBuilder.SaveableObject):
    """A saveable object that writes its `specs`, but gets no tensors in `restore`.

    A saver sets these attributes before it calls `restore`:

    path: of the checkpoint, a scalar string tensor.
    restored: the list of this saver's ops that read tables; `restore` may append its own.
    """

    path: tf.Tensor = None
    restored: Any = ()

    def check(
        self, path: tf.Tensor, reads: tf.Tensor, collectives: list[tf.Tensor]
    ) -> tf.Operation | None:
        """Returns the op that fails if `restore` would, and changes nothing; None in eager mode.

        Args:
          path: of the checkpoint, a scalar string tensor.
          reads: a scalar bool tensor, whether to read all data, or only the index.
          collectives: the op's collectives; [] for a single rank.
        """
        raise NotImplementedError


class RefusedSaveable(SelfReadingSaveable):
    """Stands for what a saver can neither save nor restore: both raise InvalidArgumentError."""

    def __init__(self, message: str) -> None:
        """Creates an op, in the default graph; the message says what, and the way out."""
        self._message = message
        with tf.control_dependencies([self.check()]):
            value = tf.zeros([])
        super().__init__(value, [BaseSaverBuilder.SaveSpec(value, "", "refused")], "refused")

    def check(self, *args: Any) -> tf.Operation:
        """See the base class."""
        del args
        return tf.debugging.Assert(False, [self._message])

    def restore(self, restored_tensors: Any, restored_shapes: Any) -> tf.Operation:
        """See the base class."""
        del restored_tensors, restored_shapes
        return self.check()


class CompanionSaveable(SelfReadingSaveable):
    """An ordinary variable that belongs to tables, and may have other names in a checkpoint."""

    def __init__(
        self,
        variable: tf.Variable,
        name: str,
        other_names: Sequence[str] = (),
        is_required: bool = True,
        otherwise: float | None = None,
    ) -> None:
        """Creates the ops that read the variable, in the default graph.

        Args:
          variable: a resource variable of a known shape.
          name: in the checkpoint.
          other_names: names to try, in this order, if the checkpoint lacks `name`.
          is_required: whether restoring fails if the checkpoint has none of the names.
          otherwise: the variable's value in that case; if None, it keeps its value, or gets its
            initial one.
        """
        (self._saved,) = saveable_objects_for_op(variable, name)
        self._variable, self._is_required, self._otherwise = variable, is_required, otherwise
        self._names = list(dict.fromkeys([name, *other_names]))
        specs = self._saved.specs
        if variable.shape.rank == 0:
            specs = [_as_vector(spec) for spec in specs]
        super().__init__(self._saved.op, specs, name)

    def check(
        self, path: tf.Tensor, reads: tf.Tensor, collectives: list[tf.Tensor]
    ) -> tf.Operation | None:
        """See the base class; always reads the value, which is small."""
        del reads, collectives
        return self._read(path)[0].op

    def _read(self, path):
        """(whether the checkpoint has the variable, its value)."""
        variable = self._variable
        with tf.device("/cpu:0"):
            return ops.sok_read_saved_tensor(
                path,
                names=self._names,
                dtype=variable.dtype.base_dtype,
                shape=variable.shape,
                hint=_HINT.format(variable.op.name),
                is_required=self._is_required,
            )

    def restore(
        self,
        restored_tensors: Sequence[tf.Tensor] | None,
        restored_shapes: Sequence[tf.TensorShape] | None,
    ) -> tf.Operation:
        """Returns the op that assigns the variable."""
        del restored_tensors, restored_shapes
        variable = self._variable
        is_there, value = self._read(self.path)
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
    """The spec of a scalar as a vector with one element, DeepRec's format."""
    value = spec.tensor
    with tf.device(value.device):
        return BaseSaverBuilder.SaveSpec(tf.reshape(value, [1]), spec.slice_spec, spec.name)
