# SPDX-License-Identifier: Apache-2.0
# Made by `python -m docs.generators.stubs` from tables of names.

from sok_compat import (
    engine as engine,
)
from sok_compat.checkpoint.saver.increment_hook import (
    IncrementalSaverHook as IncrementalSaverHook,
)
from sok_compat.checkpoint.saver.incremental_saver import (
    IncrementalSaver as IncrementalSaver,
)
from sok_compat.engine.hash_table import (
    HashTable as HashTable,
)
from sok_compat.lookup.prefetching.batches import (
    prefetch_lookups as prefetch_lookups,
)
from sok_compat.ranks.identity import (
    communication_stats as communication_stats,
)
from sok_compat.runtime.version import (
    __version__ as __version__,
)
from sok_compat.serving.saved_model import (
    export_saved_model as export_saved_model,
)
from sok_compat.sparse_operation_kit import (
    communication as communication,
    core as core,
    distributed_variable as distributed_variable,
    dump_load as dump_load,
    dynamic_variable as dynamic_variable,
    embeddings as embeddings,
    experiment as experiment,
    kit_lib as kit_lib,
    lookup as lookup,
    operations as operations,
    optimizer as optimizer,
    optimizers as optimizers,
    raw_ops as raw_ops,
    saver as saver,
    tf as tf,
    utils as utils,
)
from sok_compat.sparse_operation_kit.communication import (
    init as init,
    set_comm_tool as set_comm_tool,
)
from sok_compat.sparse_operation_kit.core.context_scope import (
    OptimizerScope as OptimizerScope,
)
from sok_compat.sparse_operation_kit.core.graph_keys import (
    GraphKeys as GraphKeys,
)
from sok_compat.sparse_operation_kit.core.initialize import (
    Init as Init,
)
from sok_compat.sparse_operation_kit.distributed_variable import (
    DistributedVariable as DistributedVariable,
    LocalizedVariable as LocalizedVariable,
    Variable as Variable,
)
from sok_compat.sparse_operation_kit.dump_load import (
    dump as dump,
    incremental_dump as incremental_dump,
    incremental_model_dump as incremental_model_dump,
    load as load,
)
from sok_compat.sparse_operation_kit.dynamic_variable import (
    DynamicVariable as DynamicVariable,
    assign as assign,
    export as export,
    filter_variables as filter_variables,
)
from sok_compat.sparse_operation_kit.embeddings.all2all_dense_embedding import (
    All2AllDenseEmbedding as All2AllDenseEmbedding,
)
from sok_compat.sparse_operation_kit.embeddings.distributed_embedding import (
    DistributedEmbedding as DistributedEmbedding,
)
from sok_compat.sparse_operation_kit.embeddings.get_embedding_op import (
    get_embedding as get_embedding,
)
from sok_compat.sparse_operation_kit.lookup import (
    all2all_dense_embedding as all2all_dense_embedding,
    lookup_sparse as lookup_sparse,
    sparse_read_and_evict as sparse_read_and_evict,
)
from sok_compat.sparse_operation_kit.optimizer import (
    OptimizerWrapper as OptimizerWrapper,
    SGD as SGD,
)
from sok_compat.sparse_operation_kit.optimizers.utils import (
    split_embedding_variable_from_others as split_embedding_variable_from_others,
)
from sok_compat.sparse_operation_kit.saver.Saver import (
    Saver as Saver,
)
from sok_compat.sparse_operation_kit.utils import (
    tf_version as tf_version,
)
from sok_compat.summaries import (
    stats as stats,
)
from sok_compat.training.clipping import (
    clip_by_global_norm as clip_by_global_norm,
)

__all__ = [
    "All2AllDenseEmbedding",
    "DistributedEmbedding",
    "DistributedVariable",
    "DynamicVariable",
    "GraphKeys",
    "HashTable",
    "IncrementalSaver",
    "IncrementalSaverHook",
    "Init",
    "LocalizedVariable",
    "OptimizerScope",
    "OptimizerWrapper",
    "SGD",
    "Saver",
    "Variable",
    "__version__",
    "all2all_dense_embedding",
    "assign",
    "clip_by_global_norm",
    "communication",
    "communication_stats",
    "core",
    "distributed_variable",
    "dump",
    "dump_load",
    "dynamic_variable",
    "embeddings",
    "engine",
    "experiment",
    "export",
    "export_saved_model",
    "filter_variables",
    "get_embedding",
    "incremental_dump",
    "incremental_model_dump",
    "init",
    "kit_lib",
    "load",
    "lookup",
    "lookup_sparse",
    "operations",
    "optimizer",
    "optimizers",
    "prefetch_lookups",
    "raw_ops",
    "saver",
    "set_comm_tool",
    "sparse_read_and_evict",
    "split_embedding_variable_from_others",
    "stats",
    "tf",
    "tf_version",
    "utils",
]

def register_ops() -> None: ...
