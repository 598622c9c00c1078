# SPDX-License-Identifier: Apache-2.0
"""TF1 optimizers that train embedding variables by the rules of the op library, and others as ever.

A step touches the rows of its keys only: m and v of other rows do not decay in Adam, as in DeepRec.
State is planes beside the rows, '<variable>/<optimizer>', whose memory follows the keys.
"""

import dataclasses

import tensorflow as tf

from sok_compat.deeprec.embedding_variable import EV_INIT_SLOT_OPS, EmbeddingVariable
from sok_compat.deeprec.gradient_averages import AveragesGradients
from sok_compat.tables.slot_variable import SlotVariable
from sok_compat.training.stock_rules import AppliedRule

_train = tf.compat.v1.train


class _TrainsEmbeddingVariables(AveragesGradients):
    """Before a tf.compat.v1.train.Optimizer: its slots and updates of embedding variables.

    fills: {slot name: attribute of the optimizer that rows of the slot start as}; others: zeros.
    """

    fills = {}

    def rule_of(self, slots):
        """The AppliedRule of a step.

        Args:
          slots: {slot name: SlotVariable}.
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
            return self.rule_of(slots).apply(handle, tf.cast(grad, tf.float32), indices)

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


class GradientDescentOptimizer(_TrainsEmbeddingVariables, _train.GradientDescentOptimizer):
    """As of tf.compat.v1.train, for embedding variables, too."""

    def rule_of(self, slots):
        """See the base class."""
        return self._applied("sgd", [], [self._learning_rate_tensor])


class AdagradOptimizer(_TrainsEmbeddingVariables, _train.AdagradOptimizer):
    """As of tf.compat.v1.train, for embedding variables, too."""

    fills = {"accumulator": "_initial_accumulator_value"}

    def rule_of(self, slots):
        """See the base class."""
        return self._applied("adagrad", [slots["accumulator"]], [self._learning_rate_tensor, 0.0])


class MomentumOptimizer(_TrainsEmbeddingVariables, _train.MomentumOptimizer):
    """As of tf.compat.v1.train, for embedding variables, too."""

    def rule_of(self, slots):
        """See the base class."""
        hyperparameters = [self._learning_rate_tensor, self._momentum_tensor]
        rule = self._applied("momentum", [slots["momentum"]], hyperparameters)
        return dataclasses.replace(rule, use_nesterov=self._use_nesterov)


class AdamOptimizer(_TrainsEmbeddingVariables, _train.AdamOptimizer):
    """As of tf.compat.v1.train; of embedding variables, whose other rows do not move, lazily."""

    def rule_of(self, slots):
        """See the base class."""
        powers = [tf.cast(power, tf.float32) for power in self._get_beta_accumulators()]
        learning_rate = tf.cast(self._lr_t, tf.float32)
        step_size = learning_rate * tf.sqrt(1.0 - powers[1]) / (1.0 - powers[0])
        hyperparameters = [step_size, self._beta1_t, self._beta2_t, self._epsilon_t]
        return self._applied("adam", [slots["m"], slots["v"]], hyperparameters)


class FtrlOptimizer(_TrainsEmbeddingVariables, _train.FtrlOptimizer):
    """As of tf.compat.v1.train, for embedding variables, too: there with a learning_rate_power of
    -0.5 only."""

    fills = {"accum": "_initial_accumulator_value"}

    def rule_of(self, slots):
        """See the base class.

        Raises:
          NotImplementedError: another learning_rate_power.
        """
        if self._learning_rate_power != -0.5:
            raise NotImplementedError(
                "FtrlOptimizer trains embedding variables with learning_rate_power=-0.5 only, got "
                f"{self._learning_rate_power}"
            )
        hyperparameters = [
            self._learning_rate_tensor,
            self._l1_regularization_strength_tensor,
            self._adjusted_l2_regularization_strength_tensor,
            self._l2_shrinkage_regularization_strength_tensor,
        ]
        return self._applied("ftrl", [slots["accum"], slots["linear"]], hyperparameters)


_TRAINERS = {
    optimizer.__name__: optimizer
    for optimizer in (
        AdagradOptimizer,
        AdamOptimizer,
        FtrlOptimizer,
        GradientDescentOptimizer,
        MomentumOptimizer,
    )
}


class _RefusesEmbeddingVariables(AveragesGradients):
    """Before a tf.compat.v1.train.Optimizer that knows nothing of them."""

    def _create_slots(self, var_list):
        for variable in var_list:
            if isinstance(variable, EmbeddingVariable):
                raise NotImplementedError(
                    f"{type(self).__name__} does not train embedding variables, got "
                    f"{variable.table_name}: take one of {', '.join(_TRAINERS)}"
                )
        super()._create_slots(var_list)


def _refusing(optimizer):
    return type(
        optimizer.__name__,
        (_RefusesEmbeddingVariables, optimizer),
        {"__doc__": optimizer.__doc__},
    )


_OTHERS = {
    optimizer.__name__: _refusing(optimizer)
    for optimizer in (
        _train.AdadeltaOptimizer,
        _train.AdagradDAOptimizer,
        _train.ProximalAdagradOptimizer,
        _train.ProximalGradientDescentOptimizer,
        _train.RMSPropOptimizer,
    )
}

NAMES = {f"train.{name}": optimizer for name, optimizer in {**_TRAINERS, **_OTHERS}.items()}
