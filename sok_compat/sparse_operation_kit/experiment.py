# SPDX-License-Identifier: Apache-2.0
"""SparseOperationKit 2 under its earlier name, `sparse_operation_kit.experiment`.

Its modules can be imported below that name, too.
"""

import sys

from sok_compat.sparse_operation_kit import (
    communication,
    distributed_variable,
    dump_load,
    dynamic_variable,
    lookup,
    optimizer,
    raw_ops,
    utils,
)
from sok_compat.sparse_operation_kit.communication import init, set_comm_tool
from sok_compat.sparse_operation_kit.distributed_variable import (
    DistributedVariable,
    LocalizedVariable,
    Variable,
)
from sok_compat.sparse_operation_kit.dump_load import (
    dump,
    incremental_dump,
    incremental_model_dump,
    load,
)
from sok_compat.sparse_operation_kit.dynamic_variable import (
    DynamicVariable,
    assign,
    export,
    filter_variables,
)
from sok_compat.sparse_operation_kit.lookup import (
    all2all_dense_embedding,
    lookup_sparse,
    sparse_read_and_evict,
)
from sok_compat.sparse_operation_kit.optimizer import SGD, OptimizerWrapper

__path__: list[str] = []  # a package without files: its modules are those of the later name
for _module in (
    *(communication, distributed_variable, dump_load, dynamic_variable),
    *(lookup, optimizer, raw_ops, utils),
):
    sys.modules[f"{__name__}.{_module.__name__.rpartition('.')[2]}"] = _module

__all__ = [
    "SGD",
    "DistributedVariable",
    "DynamicVariable",
    "LocalizedVariable",
    "OptimizerWrapper",
    "Variable",
    "all2all_dense_embedding",
    "assign",
    "communication",
    "distributed_variable",
    "dump",
    "dump_load",
    "dynamic_variable",
    "export",
    "filter_variables",
    "incremental_dump",
    "incremental_model_dump",
    "init",
    "load",
    "lookup",
    "lookup_sparse",
    "optimizer",
    "raw_ops",
    "set_comm_tool",
    "sparse_read_and_evict",
    "utils",
]
