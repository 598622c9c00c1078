# SPDX-License-Identifier: Apache-2.0
"""TF1's optimizers, which train embedding variables or refuse them."""

from __future__ import annotations

from typing import Any

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
)
from sok_compat.deeprec.optimizer_rules.weight_decay_optimizers import AdamWOptimizer
from sok_compat.deeprec.variables.embedding_variable import EmbeddingVariable

_train = tf.compat.v1.train

_TRAINERS: dict[str, Any] = {
    optimizer.__name__: optimizer
    for optimizer in (
        AdagradDecayOptimizer,
        AdagradDecayOptimizerV2,
        AdagradOptimizer,
        AdamAsyncOptimizer,
        AdamOptimizer,
        AdamWOptimizer,
        FtrlOptimizer,
        GradientDescentOptimizer,
        MomentumOptimizer,
    )
}


class _RefusesEmbeddingVariables(AveragesGradients):
    """Mixin before a tf.compat.v1.train.Optimizer that cannot train embedding variables."""

    def _create_slots(self, var_list):
        for variable in var_list:
            if isinstance(variable, EmbeddingVariable):
                raise NotImplementedError(
                    f"{type(self).__name__} does not train embedding variables, got "
                    f"{variable.table_name}: use one of {', '.join(_TRAINERS)}"
                )
        super()._create_slots(var_list)


def _refusing(optimizer: type) -> type:
    return type(
        optimizer.__name__,
        (_RefusesEmbeddingVariables, optimizer),
        {"__doc__": optimizer.__doc__},
    )


_OTHERS: dict[str, type] = {
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
