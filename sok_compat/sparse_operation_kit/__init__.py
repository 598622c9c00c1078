# SPDX-License-Identifier: Apache-2.0
"""The API of SparseOperationKit 1.x and 2 under its module paths.

It is what `import sparse_operation_kit` gives, which loads TensorFlow together with the ops of
graphs with tables. Importing this module itself imports nothing else; the first name that needs
TensorFlow loads both.
"""

import importlib

_FACE = __name__
_HOMES = {
    **{
        name: f"{_FACE}.{module}"
        for module, names in {
            "communication": ("init", "set_comm_tool"),
            "distributed_variable": ("DistributedVariable", "LocalizedVariable", "Variable"),
            "dynamic_variable": ("DynamicVariable", "assign", "export", "filter_variables"),
            "dump_load": ("dump", "incremental_dump", "incremental_model_dump", "load"),
            "lookup": ("all2all_dense_embedding", "lookup_sparse", "sparse_read_and_evict"),
            "optimizer": ("OptimizerWrapper", "SGD"),
            "utils": ("tf_version",),
        }.items()
        for name in names
    },
    "All2AllDenseEmbedding": f"{_FACE}.embeddings.all2all_dense_embedding",
    "DistributedEmbedding": f"{_FACE}.embeddings.distributed_embedding",
    "GraphKeys": f"{_FACE}.core.graph_keys",
    "HashTable": "sok_compat.engine.hash_table",
    "IncrementalSaver": "sok_compat.checkpoint.saver.incremental_saver",
    "IncrementalSaverHook": "sok_compat.checkpoint.saver.increment_hook",
    "Init": f"{_FACE}.core.initialize",
    "OptimizerScope": f"{_FACE}.core.context_scope",
    "Saver": f"{_FACE}.saver.Saver",
    "__version__": "sok_compat.runtime.version",
    "clip_by_global_norm": "sok_compat.training.clipping",
    "communication_stats": "sok_compat.ranks.identity",
    "export_saved_model": "sok_compat.serving.saved_model",
    "prefetch_lookups": "sok_compat.lookup.prefetching.batches",
    "get_embedding": f"{_FACE}.embeddings.get_embedding_op",
    "stats": "sok_compat.summaries",
    "split_embedding_variable_from_others": f"{_FACE}.optimizers.utils",
}
_PACKAGES = {
    "engine": "sok_compat.engine",
    **{
        name: f"{_FACE}.{name}"
        for name in (
            *("core", "embeddings", "kit_lib", "operations", "optimizers", "saver", "tf"),
            *("communication", "distributed_variable", "dump_load", "dynamic_variable"),
            *("experiment", "lookup", "optimizer", "raw_ops", "utils"),
        )
    },
}

_WITHOUT_TENSORFLOW = ("HashTable", "__version__", "engine")

__all__ = sorted((*_HOMES, *_PACKAGES))


def register_ops() -> None:
    """Loads the op library, so that TensorFlow can load graphs with tables.

    Raises:
      ImportError: TensorFlow is missing, or sok_compat was built without it or for another version.
    """
    importlib.import_module("sok_compat.runtime.op_library")


def __getattr__(name):
    if name in __all__ and name not in _WITHOUT_TENSORFLOW:
        register_ops()
    if name in _PACKAGES:
        return importlib.import_module(_PACKAGES[name])
    if name not in _HOMES:
        raise AttributeError(f"module {_FACE!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted((*globals(), *__all__))
