# SPDX-License-Identifier: Apache-2.0
"""Updates of ordinary variables, of some rows or all: by TensorFlow's ops, or by one fused op."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tensorflow as tf

from sok_compat.deeprec.variables.devices import has_gpu
from sok_compat.deeprec.variables.embedding_variable import EmbeddingVariable
from sok_compat.runtime.op_library import ops
from sok_compat.runtime.tf_versions import BaseResourceVariable, members


class ActsFirst:
    """Mixin before a tf.compat.v1.train.Optimizer: runs an op before a variable's update, and after
    its gradient, which reads the variable."""

    def before_update(self, variable: tf.Variable, indices: tf.Tensor | None) -> tf.Operation:
        """The op to run before the update of rows `indices`, distinct for an ordinary variable;
        None: of all rows."""
        raise NotImplementedError

    def _apply_dense(self, grad, var):
        with self._after_first(grad, var, None):
            return super()._apply_dense(grad, var)

    def _resource_apply_dense(self, grad, handle):
        if isinstance(handle, EmbeddingVariable):
            return super()._resource_apply_dense(grad, handle)
        with self._after_first(grad, handle, None):
            return super()._resource_apply_dense(grad, handle)

    def _apply_sparse(self, grad, var):
        with self._after_first(grad.values, var, grad.indices):
            return super()._apply_sparse(grad, var)

    def _resource_apply_sparse(self, grad, handle, indices):
        with self._after_first(grad, handle, indices):
            return super()._resource_apply_sparse(grad, handle, indices)

    def _resource_apply_sparse_duplicate_indices(self, grad, handle, indices):
        apply = super()._resource_apply_sparse_duplicate_indices
        if not isinstance(handle, EmbeddingVariable):
            return apply(grad, handle, indices)
        with self._after_first(grad, handle, indices):
            return apply(grad, handle, indices)

    def _after_first(self, gradient, variable, indices):
        with tf.control_dependencies([gradient]):
            first = self.before_update(variable, indices)
        return tf.control_dependencies([first])


def rows_of(variable: tf.Variable, indices: tf.Tensor | None) -> tf.Tensor:
    """The rows at `indices`; None: all rows."""
    return variable.read_value() if indices is None else tf.gather(variable, indices)


def assign_rows(
    variable: tf.Variable, rows: tf.Tensor, indices: tf.Tensor, use_locking: bool
) -> tf.Operation | tf.Tensor:
    """An op that assigns the rows at distinct `indices`."""
    return tf.compat.v1.scatter_update(variable, indices, rows, use_locking=use_locking)


def subtract_from_rows(
    variable: tf.Variable, rows: tf.Tensor, indices: tf.Tensor | None, use_locking: bool
) -> tf.Operation | tf.Tensor:
    """An op that subtracts from the rows at distinct `indices`; None: all rows."""
    if indices is None:
        return variable.assign_sub(rows, use_locking=use_locking)
    return tf.compat.v1.scatter_sub(variable, indices, rows, use_locking=use_locking)


def is_fused(variable: tf.Variable) -> bool:
    """Whether apply_rule takes the variable: its ops run on CPUs, for float32."""
    return variable.dtype.base_dtype == tf.float32 and not has_gpu()


def apply_rule(
    rule: str,
    variable: tf.Variable,
    states: Sequence[tf.Variable],
    gradients: tf.Tensor,
    row_ids: tf.Tensor,
    hyperparameters: Mapping[str, tf.Tensor],
    moves_all_rows: bool = False,
) -> tf.Operation:
    """An op that applies a rule of the op library to rows of an ordinary variable, float32 [rows,
    ...].

    Args:
      states: of the rule, in its order, of the variable's shape.
      row_ids: [n], distinct.
      hyperparameters: scalars, by their names in the rule.
      moves_all_rows: whether the other rows move, too, by a gradient of zero.
    """
    of_resource = isinstance(variable, BaseResourceVariable)
    apply = ops.sok_apply_rule_to_variable if of_resource else ops.sok_apply_rule_to_ref_variable
    return apply(
        variable=handle_of(variable),
        states=[handle_of(state) for state in states],
        gradients=gradients,
        row_ids=tf.cast(row_ids, tf.int64),
        hyperparameters=[tf.cast(number, tf.float32) for number in hyperparameters.values()],
        hyperparameter_names=list(hyperparameters),
        rule=rule,
        moves_all_rows=moves_all_rows,
    )


def handle_of(variable: tf.Variable) -> tf.Tensor:
    """What an op that updates the variable takes: its handle, or a reference."""
    is_resource = isinstance(variable, BaseResourceVariable)
    return variable.handle if is_resource else members.reference_of(variable)
