# SPDX-License-Identifier: Apache-2.0
"""`RowWiseAdagrad`: Adagrad with one number of state for a row of a table."""

import tensorflow as tf

from sok_compat.runtime.tf_versions import members
from sok_compat.tables.slots.registry import slot_for
from sok_compat.tables.table import Table
from sok_compat.training.stock_rules import AppliedRule
from sok_compat.training.table_updates import UpdatesTables


class RowWiseAdagrad(UpdatesTables, tf.compat.v1.train.AdagradOptimizer):
    """Adagrad whose accumulator is one number for each row of a table. Added by sok_compat.

    accumulator += the mean of the squared gradient over the row; row -= learning_rate * gradient /
    sqrt(accumulator). A table of dim 32 takes 132 bytes a row, with Adagrad 256. Ordinary
    variables are updated as by tf.compat.v1.train.AdagradOptimizer. Works inside and outside of
    OptimizerScope and in SparseOperationKit 2's OptimizerWrapper.
    """

    def __init__(self, learning_rate, initial_accumulator_value=0.1, use_locking=False,
                 name="RowWiseAdagrad"):  # fmt: skip
        """Takes the arguments of tf.compat.v1.train.AdagradOptimizer.

        Args:
          learning_rate: a number, a scalar tensor, or a callable that returns one.
          initial_accumulator_value: above 0.
          use_locking: whether concurrent steps update a variable one after the other.
          name: of the optimizer and its slots.
        """
        super().__init__(learning_rate, initial_accumulator_value, use_locking, name)

    def _create_slots(self, var_list):
        for variable in var_list:
            if isinstance(variable, Table):
                self._accumulator_of(variable)
        super()._create_slots([v for v in var_list if not isinstance(v, Table)])

    def _accumulator_of(self, variable):
        slots = self._slot_dict("accumulator")
        key = members.slot_key(variable)
        if key not in slots:
            fill = self._initial_accumulator_value
            slots[key] = slot_for(variable, self, self._name, width=1, fill=fill)
        return slots[key]

    def _apply_to_table(self, variable, gradient, row_ids):
        numbers = {"learning_rate": self._learning_rate_tensor, "epsilon": 0.0}
        rule = AppliedRule(
            "row_wise_adagrad",
            [self._accumulator_of(variable).handle],
            {name: tf.cast(number, tf.float32) for name, number in numbers.items()},
            use_locking=self._use_locking,
        )
        with tf.device(variable.device):
            return rule.apply(variable, tf.cast(gradient, tf.float32), tf.cast(row_ids, tf.int64))
