# SPDX-License-Identifier: Apache-2.0
"""`tensorflow.python.training.weight_decay_optimizers`, a module of DeepRec alone."""

from sok_compat.deeprec.optimizer_rules.weight_decay_optimizers import (
    AdamWOptimizer,
    DecoupledWeightDecayExtension,
    extend_with_decoupled_weight_decay,
)

__all__ = [
    "AdamWOptimizer",
    "DecoupledWeightDecayExtension",
    "extend_with_decoupled_weight_decay",
]
