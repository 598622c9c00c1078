# SPDX-License-Identifier: Apache-2.0
"""SparseOperationKit 1.x, by its module paths: what `import sparse_operation_kit` gives.

Importing this module imports nothing else: TensorFlow comes with the first name that needs it.
"""

import importlib

_FACE = __name__
_HOMES = {
    "All2AllDenseEmbedding": f"{_FACE}.embeddings.all2all_dense_embedding",
    "DistributedEmbedding": f"{_FACE}.embeddings.distributed_embedding",
    "GraphKeys": f"{_FACE}.core.graph_keys",
    "HashTable": "sok_compat.engine.hash_table",
    "Init": f"{_FACE}.core.initialize",
    "OptimizerScope": f"{_FACE}.core.context_scope",
    "Saver": f"{_FACE}.saver.Saver",
    "__version__": "sok_compat.runtime.version",
    "communication_stats": "sok_compat.runtime.ranks",
    "get_embedding": f"{_FACE}.embeddings.get_embedding_op",
    "split_embedding_variable_from_others": f"{_FACE}.optimizers.utils",
}
_PACKAGES = {
    "engine": "sok_compat.engine",
    **{
        name: f"{_FACE}.{name}"
        for name in ("core", "embeddings", "kit_lib", "operations", "optimizers", "saver", "tf")
    },
}

__all__ = sorted((*_HOMES, *_PACKAGES))


def __getattr__(name):
    if name in _PACKAGES:
        return importlib.import_module(_PACKAGES[name])
    if name not in _HOMES:
        raise AttributeError(f"module {_FACE!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted((*globals(), *__all__))
