# SPDX-License-Identifier: Apache-2.0
"""Lets TF1 optimizers train embedding variables, by the rules of the op library.

A step touches the rows of its keys only: in Adam, m and v of other rows do not decay, as in
DeepRec. Optimizer state is stored in slots '<variable>/<optimizer>', whose memory grows with the
keys. One op updates all variables that one lookup read, if their rules have the same
hyperparameters.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import tensorflow as tf

from sok_compat.deeprec.optimizer_rules.gradient_averages import AveragesGradients
from sok_compat.deeprec.variables.embedding_variable import EV_INIT_SLOT_OPS, EmbeddingVariable
from sok_compat.runtime.tf_versions import constant_value
from sok_compat.tables.rows.row_ids import giver_of_rows
from sok_compat.tables.slots.slot_creation import constant_fill
from sok_compat.tables.slots.slot_variable import SlotVariable
from sok_compat.training.stock_rules import AppliedRule, Update, apply_together


class TrainsEmbeddingVariables(AveragesGradients):
    """Mixin before a tf.compat.v1.train.Optimizer: slots and updates of embedding variables.

    fills: {slot name: attribute of the optimizer with the initial value}; other slots: zeros.
    states_are_of_rows: whether a slot has one number for each row, not one for each of its values.
    updates_one_by_one: whether ops run before or after the update of each variable.
    """

    table_type = EmbeddingVariable
    fills: ClassVar[Mapping[str, str]] = {}
    states_are_of_rows = False
    updates_one_by_one = False
    _waiting: list[Update] | None = None  # of the current apply_gradients

    def rule_of(self, variable: EmbeddingVariable, slots: Mapping[str, tf.Variable]) -> AppliedRule:
        """The AppliedRule of a step; slots may be SlotVariables or ordinary variables."""
        raise NotImplementedError

    def _zeros_slot(self, var, slot_name, op_name):
        if not isinstance(var, EmbeddingVariable):
            return super()._zeros_slot(var, slot_name, op_name)
        return self._slot_of(var, slot_name, op_name, 0.0)

    def _get_or_make_slot_with_initializer(
        self, var, initializer, shape, dtype, slot_name, op_name
    ):
        if not isinstance(var, EmbeddingVariable):
            return super()._get_or_make_slot_with_initializer(
                var, initializer, shape, dtype, slot_name, op_name
            )
        return self._slot_of(var, slot_name, op_name, getattr(self, self.fills[slot_name]))

    def _slot_of(self, variable, slot_name, op_name, fill):
        slots = self._slot_dict(slot_name)
        key = variable.op.graph, variable.op.name  # the key that get_slot() uses
        if key not in slots:
            with tf.name_scope(""):  # next to the variable, in any name scope
                name = f"{variable.table_name}/{op_name}"
                width = 1 if self.states_are_of_rows else variable.dim
                slots[key] = SlotVariable(variable, name, width, float(fill))
            tf.compat.v1.add_to_collection(EV_INIT_SLOT_OPS, slots[key].initializer)
        return slots[key]

    def _resource_apply_sparse_duplicate_indices(self, grad, handle, indices):
        if not isinstance(handle, EmbeddingVariable):
            return super()._resource_apply_sparse_duplicate_indices(grad, handle, indices)
        slots = {name: self.get_slot(handle, name) for name in self.get_slot_names()}
        with tf.device(handle.device):
            rule = self.rule_of(handle, slots)
            gradients = tf.cast(grad, tf.float32)
            if rule.use_locking or self.updates_one_by_one or self._waiting is None:
                return rule.apply(handle, gradients, indices)
            self._waiting.append(Update(rule, handle, gradients, indices))
            return tf.no_op()  # see _finish

    def apply_gradients(self, *args: Any, **kwargs: Any) -> tf.Operation:
        with self._collected_updates():
            return super().apply_gradients(*args, **kwargs)

    @contextlib.contextmanager
    def _collected_updates(self):
        before, self._waiting = self._waiting, []
        try:
            yield
        finally:
            self._waiting = before

    def _finish(self, update_ops, name_scope):
        updates = [*update_ops]
        for together in _groups(self._waiting or []):
            with tf.device(together[0].table.device), tf.name_scope("update_embedding_variables"):
                updates.append(apply_together(together))
        self._waiting = None
        return super()._finish(updates, name_scope)

    def _resource_apply_dense(self, grad, handle):
        if not isinstance(handle, EmbeddingVariable):
            return super()._resource_apply_dense(grad, handle)
        if constant_fill(grad) == 0:  # of tf.gradients(unconnected_gradients="zero")
            return tf.no_op()
        raise NotImplementedError(
            f"the gradient of the embedding variable {handle.table_name} must be that of lookups, "
            "tf.IndexedSlices, got a dense one: its rows do not tell their keys. A tf.while_loop "
            "makes one in a tf.function, and in a graph with tf.enable_control_flow_v2(): look the "
            "keys up before the loop, or call tf.disable_control_flow_v2() and keep the loop out "
            "of functions"
        )

    def _applied(
        self, rule: str, states: Sequence[Any], hyperparameters: Mapping[str, Any]
    ) -> AppliedRule:
        """An AppliedRule with float32 scalars."""
        return AppliedRule(
            rule,
            [state.handle for state in states],
            {name: tf.cast(x, tf.float32) for name, x in hyperparameters.items()},
            use_locking=self._use_locking,
        )


def _groups(updates: Iterable[Update]) -> Iterable[list[Update]]:
    """The updates, in lists that one op can apply."""
    groups: dict[tuple[Any, ...], list[Update]] = {}
    for update in updates:
        rule = update.rule
        numbers = ((name, _number(tensor)) for name, tensor in rule.hyperparameters.items())
        kind = rule.name, update.table.device, giver_of_rows(update.row_ids)
        groups.setdefault((*kind, *numbers), []).append(update)
    return groups.values()


def _number(tensor: tf.Tensor) -> float | str:
    """Equal for equal hyperparameters: the constant value, or else the tensor's name."""
    value = constant_value(tensor)
    return tensor.name if value is None else float(value)
