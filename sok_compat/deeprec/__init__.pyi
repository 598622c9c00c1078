# SPDX-License-Identifier: Apache-2.0
# Made by `python -m docs.generators.stubs` from tables of names.

from sok_compat.deeprec.collective.session_config import (
    ConfigProto as ConfigProto,
    ExecutorPolicy as ExecutorPolicy,
    GPUOptions as GPUOptions,
    GraphOptions as GraphOptions,
    OptimizerOptions as OptimizerOptions,
)
from sok_compat.deeprec.lookups.pipelining import (
    make_prefetch_hook as make_prefetch_hook,
    staged as staged,
)
from sok_compat.deeprec.optimizer_rules.gradient_averages import (
    gradients as gradients,
)
from sok_compat.deeprec.variables.composed_variables import (
    get_dynamic_dimension_embedding_variable as get_dynamic_dimension_embedding_variable,
    get_multihash_variable as get_multihash_variable,
)
from sok_compat.deeprec.variables.devices import (
    device as device,
)
from sok_compat.deeprec.variables.embedding_variable import (
    EmbeddingVariable as EmbeddingVariable,
)
from sok_compat.deeprec.variables.options import (
    CBFFilter as CBFFilter,
    CheckpointOption as CheckpointOption,
    CounterFilter as CounterFilter,
    EmbeddingVariableOption as EmbeddingVariableOption,
    GlobalStepEvict as GlobalStepEvict,
    InitializerOption as InitializerOption,
    L2WeightEvict as L2WeightEvict,
)
from sok_compat.deeprec.variables.storage_option import (
    CacheStrategy as CacheStrategy,
    StorageOption as StorageOption,
    StorageType as StorageType,
)
from sok_compat.deeprec.variables.variable_creation import (
    get_embedding_variable as get_embedding_variable,
)

__all__ = [
    "CBFFilter",
    "CacheStrategy",
    "CheckpointOption",
    "ConfigProto",
    "CounterFilter",
    "EmbeddingVariable",
    "EmbeddingVariableOption",
    "ExecutorPolicy",
    "GPUOptions",
    "GlobalStepEvict",
    "GraphOptions",
    "InitializerOption",
    "L2WeightEvict",
    "OptimizerOptions",
    "StorageOption",
    "StorageType",
    "device",
    "get_dynamic_dimension_embedding_variable",
    "get_embedding_variable",
    "get_multihash_variable",
    "gradients",
    "make_prefetch_hook",
    "staged",
]

from typing import Any

def __getattr__(name: str) -> Any: ...  # the names of tf.compat.v1
