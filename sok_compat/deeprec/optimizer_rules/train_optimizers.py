# SPDX-License-Identifier: Apache-2.0
"""TF1's optimizers, which train embedding variables or refuse them."""

from __future__ import annotations

import tensorflow as tf

from sok_compat.deeprec.optimizer_rules.adagrad_decay_optimizers import (
    AdagradDecayOptimizer,
    AdagradDecayOptimizerV2,
)
from sok_compat.deeprec.optimizer_rules.adam_optimizers import AdamAsyncOptimizer
from sok_compat.deeprec.optimizer_rules.gradient_averages import AveragesGradients
from sok_compat.deeprec.optimizer_rules.stock_optimizers import (
    AdagradOptimizer,
    AdamOptimizer,
    FtrlOptimizer,
    GradientDescentOptimizer,
    MomentumOptimizer,
    RowWiseAdagradOptimizer,
)
from sok_compat.deeprec.optimizer_rules.weight_decay_optimizers import AdamWOptimizer
from sok_compat.deeprec.variables.embedding_variable import EmbeddingVariable

_train = tf.compat.v1.train

_TRAINERS = (
    *(AdagradDecayOptimizer, AdagradDecayOptimizerV2, AdagradOptimizer, AdamAsyncOptimizer),
    *(AdamOptimizer, AdamWOptimizer, FtrlOptimizer, GradientDescentOptimizer, MomentumOptimizer),
    RowWiseAdagradOptimizer,
)
_NAMES_OF_TRAINERS = ", ".join(each.__name__ for each in _TRAINERS)


class _RefusesEmbeddingVariables(AveragesGradients):
    """Mixin before a tf.compat.v1.train.Optimizer that cannot train embedding variables."""

    def _create_slots(self, var_list):
        for variable in var_list:
            if isinstance(variable, EmbeddingVariable):
                raise NotImplementedError(
                    f"{type(self).__name__} does not train embedding variables, got "
                    f"{variable.table_name}: use one of {_NAMES_OF_TRAINERS}"
                )
        super()._create_slots(var_list)


def _refusing(optimizer: type) -> type:
    return type(
        optimizer.__name__,
        (_RefusesEmbeddingVariables, optimizer),
        {"__doc__": optimizer.__doc__},
    )


AdadeltaOptimizer = _refusing(_train.AdadeltaOptimizer)
AdagradDAOptimizer = _refusing(_train.AdagradDAOptimizer)
ProximalAdagradOptimizer = _refusing(_train.ProximalAdagradOptimizer)
ProximalGradientDescentOptimizer = _refusing(_train.ProximalGradientDescentOptimizer)
RMSPropOptimizer = _refusing(_train.RMSPropOptimizer)
