# SPDX-License-Identifier: Apache-2.0
"""`tensorflow.python.training.adam_async`, a module of DeepRec alone."""

from sok_compat.deeprec.optimizer_rules.adam_optimizers import AdamAsyncOptimizer

__all__ = ["AdamAsyncOptimizer"]
