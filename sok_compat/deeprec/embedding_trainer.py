# SPDX-License-Identifier: Apache-2.0
"""How TF1 optimizers train embedding variables: by the rules of the op library.

A step touches the rows of its keys only: m and v of other rows do not decay in Adam, as in DeepRec.
State is planes beside the rows, '<variable>/<optimizer>', whose memory follows the keys.
"""

import tensorflow as tf

from sok_compat.deeprec.embedding_variable import EV_INIT_SLOT_OPS, EmbeddingVariable
from sok_compat.deeprec.gradient_averages import AveragesGradients
from sok_compat.tables.slot_variable import SlotVariable
from sok_compat.training.stock_rules import AppliedRule


class TrainsEmbeddingVariables(AveragesGradients):
    """Before a tf.compat.v1.train.Optimizer: its slots and updates of embedding variables.

    fills: {slot name: attribute of the optimizer that rows of the slot start as}; others: zeros.
    """

    fills = {}

    def rule_of(self, variable, slots):
        """The AppliedRule of a step.

        Args:
          variable: the EmbeddingVariable.
          slots: {slot name: its SlotVariable, or ordinary variable}.
        """
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
        key = variable.op.graph, variable.op.name  # as get_slot() knows it by
        if key not in slots:
            with tf.name_scope(""):  # beside the variable, wherever this is called
                name = f"{variable.table_name}/{op_name}"
                slots[key] = SlotVariable(variable, name, variable.dim, float(fill))
            tf.compat.v1.add_to_collection(EV_INIT_SLOT_OPS, slots[key].initializer)
        return slots[key]

    def _resource_apply_sparse_duplicate_indices(self, grad, handle, indices):
        if not isinstance(handle, EmbeddingVariable):
            return super()._resource_apply_sparse_duplicate_indices(grad, handle, indices)
        slots = {name: self.get_slot(handle, name) for name in self.get_slot_names()}
        with tf.device(handle.device):
            rule = self.rule_of(handle, slots)
            return rule.apply(handle, tf.cast(grad, tf.float32), indices)

    def _resource_apply_dense(self, grad, handle):
        if not isinstance(handle, EmbeddingVariable):
            return super()._resource_apply_dense(grad, handle)
        raise NotImplementedError(
            f"the embedding variable {handle.table_name} takes the gradients of lookups, "
            "tf.IndexedSlices; got a dense one"
        )

    def _applied(self, rule, states, hyperparameters):
        """An AppliedRule with float32 scalars."""
        return AppliedRule(
            rule,
            [state.handle for state in states],
            [tf.cast(x, tf.float32) for x in hyperparameters],
            use_locking=self._use_locking,
        )


def adam_step_size(learning_rate, beta1_power, beta2_power, dtype=tf.float32):
    """learning_rate * sqrt(1 - beta2_power) / (1 - beta1_power), a scalar."""
    learning_rate, beta1_power, beta2_power = (
        tf.cast(x, dtype) for x in (learning_rate, beta1_power, beta2_power)
    )
    return learning_rate * tf.sqrt(1.0 - beta2_power) / (1.0 - beta1_power)
