# SPDX-License-Identifier: Apache-2.0
"""`get_embedding`: layers by name, as tf.get_variable is variables by name."""

import tensorflow as tf

_COLLECTION = "SparseOperationKitEmbeddingLayerStore"


def get_embedding(name, constructor=None, **kwargs):
    """The layer of that name in the default graph, made when first asked for.

    API of SparseOperationKit 1.x. What shares the name shares the table.

    ```
    layer = sok.get_embedding(
        "users", sok.All2AllDenseEmbedding, max_vocabulary_size_per_gpu=1000,
        embedding_vec_size=16, slot_num=3, nnz_per_slot=5)
    same_layer = sok.get_embedding("users")
    ```

    Args:
      name: of the layer, in this function only; any hashable value.
      constructor: a layer class, called as constructor(**kwargs) for a name that is not known yet;
        ignored, as kwargs are, for a known one.
      **kwargs: for the constructor.

    Raises:
      ValueError: the name is not known, and there is no constructor.
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


def _layers():
    """{name: layer} of the default graph; functions and branches share with the graph around."""
    with tf.init_scope():
        stores = tf.compat.v1.get_collection_ref(_COLLECTION)
        if not stores:
            stores.append({})
        return stores[0]
