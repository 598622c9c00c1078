# SPDX-License-Identifier: Apache-2.0
"""`get_embedding`: shares layers by name, as tf.get_variable shares variables."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Callable

import tensorflow as tf

_COLLECTION = "SparseOperationKitEmbeddingLayerStore"


def get_embedding(
    name: Hashable, constructor: Callable[..., Any] | None = None, **kwargs: Any
) -> Any:
    """Returns the layer of that name in the default graph; the first call makes it.

    API of SparseOperationKit 1.x. Callers that share a name share the table.

    ```
    layer = sok.get_embedding(
        "users", sok.All2AllDenseEmbedding, max_vocabulary_size_per_gpu=1000,
        embedding_vec_size=16, slot_num=3, nnz_per_slot=5)
    same_layer = sok.get_embedding("users")
    ```

    Args:
      name: name of the layer for this function only; any hashable value.
      constructor: a layer class, called as constructor(**kwargs) for a new name; ignored, like
        kwargs, for a known one.
      **kwargs: for the constructor.

    Raises:
      ValueError: the name is unknown, and constructor is None.
    """
    layers = _layers()
    if name not in layers:
        if constructor is None:
            raise ValueError(
                f"no embedding layer is named {name!r} in this graph (known: "
                f"{sorted(map(str, layers)) or 'none'}): pass its class as constructor="
            )
        layers[name] = constructor(**kwargs)
    return layers[name]


def _layers() -> dict[Hashable, Any]:
    """{name: layer} of the default graph; functions and branches use the outer graph's."""
    with tf.init_scope():
        stores = tf.compat.v1.get_collection_ref(_COLLECTION)
        if not stores:
            stores.append({})
        return stores[0]
