# SPDX-License-Identifier: Apache-2.0
"""The API of distributed-embeddings on sok_compat's tables.

Importing this module imports nothing else; the first name that needs TensorFlow loads it. The
alias, `import distributed_embeddings`, loads the ops at once.
"""

import importlib

_FACE = __name__
_OF_RANKS = (
    *("BroadcastGlobalVariablesCallback", "DistEmbeddingStrategy", "DistributedEmbedding"),
    *("DistributedGradientTape", "DistributedOptimizer", "broadcast_variables"),
)
_HOMES = {
    **{name: f"{_FACE}.python.layers.dist_model_parallel" for name in _OF_RANKS},
    "Embedding": f"{_FACE}.python.layers.embedding",
    "IntegerLookup": f"{_FACE}.integer_lookup",
    "__version__": f"{_FACE}.version",
    "embedding_lookup": f"{_FACE}.python.ops.embedding_lookup_ops",
}

__all__ = sorted((*_HOMES, "dist_model_parallel"))


def register_ops() -> None:
    """Loads the op library, so that TensorFlow can load graphs with its ops.

    Raises:
      ImportError: TensorFlow is missing, or sok_compat was built without it or for another version.
    """
    importlib.import_module("sok_compat.runtime.op_library")


def __getattr__(name):
    if name == "dist_model_parallel":
        return importlib.import_module(f"{_FACE}.python.layers.dist_model_parallel")
    if name not in _HOMES:
        raise AttributeError(f"module {_FACE!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted((*globals(), *__all__))
