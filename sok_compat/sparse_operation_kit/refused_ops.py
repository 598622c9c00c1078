# SPDX-License-Identifier: Apache-2.0
"""Raw ops of SparseOperationKit that do not exist here, and why. Imports nothing."""

_A_LAYER_IS_PYTHON = "a layer is not an object of the op library"
_LOOKUPS_TAKE_THE_VARIABLE = "a lookup is several ops here, which need the variable, not a handle"
_ADAM_IS_A_CLASS = "the optimizer is not an object of the op library"
_ADAM = "Use sok.optimizers.Adam"
REFUSED = {  # name: (why, what to do instead)
    "get_nccl_unique_id": ("ranks talk through Horovod", "Call hvd.init() and then sok.Init"),
    "plugin_init": ("there is nothing to set up for a process", "Call sok.Init"),
    "create_var": (
        "a table and its variable are made together",
        "Use sok.core.EmbeddingVariable([capacity, dim], 0)",
    ),
    "assign_embedding_variable": (
        "a variable has its own initializer",
        "Run the initializer of the sok.core.EmbeddingVariable",
    ),
    "create_embedding_sparse": (
        _A_LAYER_IS_PYTHON,
        "Use sok.core.SparseEmbeddingLayerHandle, or sok.DistributedEmbedding",
    ),
    "create_embedding_dense": (
        _A_LAYER_IS_PYTHON,
        "Use sok.core.DenseEmbeddingLayerHandle, or sok.All2AllDenseEmbedding",
    ),
    "plugin_sparse_fprop": (
        _LOOKUPS_TAKE_THE_VARIABLE,
        "Use sok.embeddings.embedding_ops.embedding_lookup_sparse",
    ),
    "plugin_dense_fprop": (
        _LOOKUPS_TAKE_THE_VARIABLE,
        "Use sok.embeddings.embedding_ops.embedding_lookup",
    ),
    "plugin_bprop": ("lookups have gradients", "Use tf.gradients"),
    "optimizer_init": (_ADAM_IS_A_CLASS, f"{_ADAM} and run its initializer"),
    "create_global_adam_optimizer": (_ADAM_IS_A_CLASS, _ADAM),
    "custom_optimizer_apply_gradients": (
        _ADAM_IS_A_CLASS,
        f"{_ADAM} and its apply_gradients",
    ),
    "test": ("it tests a library that is not here", "Nothing is needed in its place"),
}
