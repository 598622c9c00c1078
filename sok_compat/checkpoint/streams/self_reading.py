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
from sok_compat.runtime.settings import RESTORE_OTHER_WIDTHS
from sok_compat.runtime.tf_versions import BaseSaverBuilder, saveable_objects_for_op
from sok_compat.tables.table import Table

_HINT = (
    "make {} as it was saved (default rows: with the same dimension, and default_value_dim of "
    "InitializerOption)"
)


class SelfReadingSaveable(BaseSaverBuilder.SaveableObject):
    """A saveable object that writes its `specs`, but gets no tensors in `restore`.

    A saver sets these attributes before it calls `restore`:

    path: of the checkpoint, a scalar string tensor.
    restored: the list of this saver's ops that read tables; `restore_from_path` may append its own.
    """

    path: tf.Tensor = None
    restored: Any = ()

    def check(
        self, path: tf.Tensor, reads: tf.Tensor, collectives: list[tf.Tensor]
    ) -> tf.Operation | None:
        """Returns the op that fails if `restore` would, and changes nothing; None in eager mode. It
        reads all data, or only the index, as the scalar bool `reads` says."""
        raise NotImplementedError

    def restore_from_path(self) -> tf.Operation | None:
        """Returns the op that restores the object; None in eager mode."""
        raise NotImplementedError

    def restore(self, restored_tensors: Any, restored_shapes: Any) -> tf.Operation | None:
        """Returns restore_from_path(); TensorFlow's savers call it."""
        del restored_tensors, restored_shapes
        return self.restore_from_path()


class RefusedSaveable(SelfReadingSaveable):
    """Stands for what a saver can neither save nor restore: both raise InvalidArgumentError."""

    def __init__(self, message: str) -> None:
        """Creates an op, in the default graph; the message says what, and the way out."""
        self._message = message
        with tf.control_dependencies([self.check()]):
            value = tf.zeros([])
        super().__init__(value, [BaseSaverBuilder.SaveSpec(value, "", "refused")], "refused")

    def check(self, *args: Any) -> tf.Operation:
        del args
        return tf.debugging.Assert(False, [self._message])

    def restore_from_path(self) -> tf.Operation:
        return self.check()


class _SmallSaveable(SelfReadingSaveable):
    """One tensor, which a check always reads."""

    def check(
        self, path: tf.Tensor, reads: tf.Tensor, collectives: list[tf.Tensor]
    ) -> tf.Operation | None:
        del reads, collectives
        return self._read(path)[0].op

    def _read(self, path: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """(whether the checkpoint has the tensor, its value)."""
        raise NotImplementedError


class CompanionSaveable(_SmallSaveable):
    """An ordinary variable that belongs to tables, and may have other names in a checkpoint."""

    def __init__(
        self,
        variable: tf.Variable,
        name: str,
        other_names: Sequence[str],
        otherwise: float | None,
    ) -> None:
        """Creates the ops that read the variable, a resource of a known shape, in the default
        graph.

        Args:
          other_names: names to try, in this order, if the checkpoint lacks `name`.
          otherwise: the variable's value if the checkpoint has none of the names; None: restoring
            fails.
        """
        (self._saved,) = saveable_objects_for_op(variable, name)
        self._variable, self._otherwise = variable, otherwise
        self._names = list(dict.fromkeys([name, *other_names]))
        specs = self._saved.specs
        if variable.shape.rank == 0:
            specs = [_as_vector(spec) for spec in specs]
        super().__init__(self._saved.op, specs, name)

    def _read(self, path):
        variable = self._variable
        what = variable.op.name, variable.dtype.base_dtype, variable.shape
        return _saved_tensor(path, self._names, *what, is_required=self._otherwise is None)

    def restore_from_path(self) -> tf.Operation:
        """Returns the op that assigns the variable."""
        variable = self._variable
        is_there, value = self._read(self.path)
        if self._otherwise is not None:
            without = tf.constant(self._otherwise, value.dtype, variable.shape)
            value = tf.compat.v1.cond(is_there, lambda: value, lambda: without)
        return variable.assign(value).op


class FirstRowsSaveable(_SmallSaveable):
    """The rows that keys start with, one tensor for all parts of a table."""

    def __init__(self, tables: Sequence[Table], names: Sequence[str]) -> None:
        """Creates the op that reads them, in the default graph.

        Args:
          names: in the checkpoint, the first to save and all to try when it is restored. A
            checkpoint without any leaves the rows as they are, as rows of another shape do with
            TF_EV_RESTORE_CUSTOM_DIM=True.
        """
        self._tables, self._names = tables, list(dict.fromkeys(names))
        rows = self._rows()
        super().__init__(rows, [BaseSaverBuilder.SaveSpec(rows, "", names[0])], names[0])

    def _rows(self):
        table = self._tables[0]
        with tf.device(table.device):
            rows = ops.sok_read_first_rows(table.table_handle)
        rows.set_shape(table.first_value.rows.shape)
        return rows

    def _read(self, path):
        rows = self._tables[0].first_value.rows
        return _saved_tensor(
            path,
            self._names,
            self._names[0],
            rows.dtype,
            rows.shape,
            is_required=False,
            may_differ=RESTORE_OTHER_WIDTHS.value(),
        )

    def restore_from_path(self) -> tf.Operation:
        """Returns the op that gives the tables the rows; it makes tables that do not exist."""
        is_there, rows = self._read(self.path)
        with tf.control_dependencies([table.initialize_if_missing() for table in self._tables]):
            rows = tf.compat.v1.cond(is_there, lambda: rows, self._rows)
        assigned = []
        for table in self._tables:
            with tf.device(table.device):
                assigned.append(ops.sok_assign_first_rows(table.table_handle, rows))
        return tf.group(*assigned)


def _saved_tensor(path, names, called, dtype, shape, is_required, **options):
    """(whether a checkpoint has a tensor of these names, its value)."""
    with tf.device("/cpu:0"):
        return ops.sok_read_saved_tensor(
            path,
            names=names,
            dtype=dtype,
            shape=shape,
            hint=_HINT.format(called),
            is_required=is_required,
            **options,
        )


def _as_vector(spec):
    """The spec of a scalar as a vector with one element, DeepRec's format."""
    value = spec.tensor
    with tf.device(value.device):
        return BaseSaverBuilder.SaveSpec(tf.reshape(value, [1]), spec.slice_spec, spec.name)
