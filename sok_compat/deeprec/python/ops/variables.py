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
)
from sok_compat.deeprec.variables.storage_option import StorageOption

__all__ = [
    "CBFFilter",
    "CheckpointOption",
    "CounterFilter",
    "CounterFilterOptions",
    "EmbeddingVariableConfig",
    "EmbeddingVariableOption",
    "GlobalStepEvict",
    "InitializerOption",
    "L2WeightEvict",
    "StorageOption",
]

CounterFilterOptions = CounterFilter  # of PAI-TensorFlow, for `filter_options`


class EmbeddingVariableConfig:
    """DeepRec's own record of options. Scripts look for the name to tell DeepRec's releases."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Raises NotImplementedError."""
        del args, kwargs
        raise NotImplementedError(
            "EmbeddingVariableConfig is internal to DeepRec: give tf.get_embedding_variable an "
            "ev_option, a tf.EmbeddingVariableOption"
        )


__getattr__ = all_else_of(__name__)
