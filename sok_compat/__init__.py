# SPDX-License-Identifier: Apache-2.0
"""SparseOperationKit's API on stock TensorFlow: `import sok_compat as sok`.

Importing this module imports nothing else: TensorFlow comes with the first name that needs it, so
that `sok_compat.HashTable` works without it.
"""

import importlib

_HOMES = {
    "All2AllDenseEmbedding": "sok_compat.embeddings.all2all_dense_embedding",
    "DistributedEmbedding": "sok_compat.embeddings.distributed_embedding",
    "GraphKeys": "sok_compat.core.graph_keys",
    "HashTable": "sok_compat.engine.hash_table",
    "Init": "sok_compat.core.initialize",
    "OptimizerScope": "sok_compat.core.context_scope",
    "communication_stats": "sok_compat.runtime.ranks",
    "get_embedding": "sok_compat.embeddings.get_embedding_op",
    "Saver": "sok_compat.saver.Saver",
    "__version__": "sok_compat.core._version",
    "split_embedding_variable_from_others": "sok_compat.optimizers.utils",
}
_SUBPACKAGES = (
    "core",
    "embeddings",
    "engine",
    "kit_lib",
    "operations",
    "optimizers",
    "saver",
    "tf",
)

__all__ = sorted((*_HOMES, *_SUBPACKAGES))


def __getattr__(name):
    if name in _SUBPACKAGES:
        return importlib.import_module(f"sok_compat.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'sok_compat' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted((*globals(), *__all__))
