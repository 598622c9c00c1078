# SPDX-License-Identifier: Apache-2.0
"""DeepRec's additions to `tensorflow.python.ops.variables`; other names are TensorFlow's."""

from sok_compat.deeprec.namespace.additions import all_else_of
from sok_compat.deeprec.variables.options import (
    CBFFilter,
    CheckpointOption,
    CounterFilter,
    EmbeddingVariableOption,
    GlobalStepEvict,
    InitializerOption,
    L2WeightEvict,
    StorageOption,
)

__all__ = [
    "CBFFilter",
    "CheckpointOption",
    "CounterFilter",
    "EmbeddingVariableOption",
    "GlobalStepEvict",
    "InitializerOption",
    "L2WeightEvict",
    "StorageOption",
]

__getattr__ = all_else_of(__name__)
