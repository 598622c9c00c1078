# SPDX-License-Identifier: Apache-2.0
"""`tensorflow.python.training.adagrad_decay_v2`, a module of DeepRec alone."""

from sok_compat.deeprec.optimizer_rules.adagrad_decay_optimizers import AdagradDecayOptimizerV2

__all__ = ["AdagradDecayOptimizerV2"]
