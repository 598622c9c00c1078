# SPDX-License-Identifier: Apache-2.0
"""What became of each name of distributed-embeddings: the source of
docs/porting_distributed_embeddings.md."""

from docs.entries import Entry

INTRODUCTION = """\
# Scripts for distributed-embeddings

`import distributed_embeddings`, with its module paths, gives sok_compat's package of that name, as
`from sok_compat import distributed_embeddings` does, where NVIDIA's is not installed or was not
built. It needs no GPU, and without Horovod it is one process.

Planning, the layers, and training of several ranks that are each given their part of the batch
work. Inputs that are given to the ranks that own their tables (`dp_input=False`) work with one rank
only.

This page is made by `python -m docs.names_page` from `docs/distributed_embeddings_table.py`; a test
holds it against the package.
"""

_LAYERS = "distributed_embeddings.python.layers"
_OPS = "distributed_embeddings.python.ops.embedding_lookup_ops"
_NONE = "is a part of the original's inside that has nothing to stand for here"

SECTIONS = {
    "Models of several ranks": [
        Entry(f"distributed_embeddings.DistributedEmbedding "
              f"{_LAYERS}.dist_model_parallel.DistributedEmbedding", "differs",
              "Ids that are no rows raise, also next to another table; of tables cut by rows they "
              "give zeros. Ragged and dense inputs mix. All ranks have to call the layer as often. "
              "`dp_input=False` raises `NotImplementedError` with several ranks, and "
              "so do tables to be cut whose layers are no `Embedding`, or have a regularizer or a "
              "constraint. Offloaded tables are where all are. `get_weights` gives arrays, on "
              "ranks other than 0 an empty list without `all_ranks`; `set_weights` checks lengths "
              "and shapes; both need eager mode. Each rank has address space for all tables, and "
              "memory for its own; an initializer that Keras does not have is run on all ranks. "
              "`tf.train.Checkpoint` raises for these tables in eager mode."),
        Entry(f"distributed_embeddings.DistEmbeddingStrategy "
              f"{_LAYERS}.dist_model_parallel.DistEmbeddingStrategy", "differs",
              "the same plans, but tables that differ in initializer, regularizer, constraint, "
              "`trainable` or `dtype` are not joined, and the ranges of sliced outputs are right "
              "where inputs share tables. `plans` has it as values. An unknown strategy raises "
              "`ValueError`; without tables to cut by columns their attributes are empty lists."),
        Entry(f"distributed_embeddings.broadcast_variables "
              f"{_LAYERS}.dist_model_parallel.broadcast_variables", "works",
              "optimizers' variables may be among them: slots of tables stay as they are"),
        Entry(f"distributed_embeddings.DistributedGradientTape "
              f"{_LAYERS}.dist_model_parallel.DistributedGradientTape", "differs",
              "may be made before the forward pass; with `op=hvd.Sum` gradients of tables are sums "
              "too"),
        Entry(f"distributed_embeddings.DistributedOptimizer "
              f"{_LAYERS}.dist_model_parallel.DistributedOptimizer "
              "distributed_embeddings.BroadcastGlobalVariablesCallback "
              f"{_LAYERS}.dist_model_parallel.BroadcastGlobalVariablesCallback", "works",
              "with optimizers that have slots, too"),
        Entry(f"{_LAYERS}.dist_model_parallel.ConcatInitializer", "refused",
              "joined tables start as each of them does, without it", AttributeError),
        Entry(f"{_LAYERS}.dist_model_parallel.grouped_reducescatter_unscaled "
              f"{_LAYERS}.dist_model_parallel._dp_to_mp_input", "refused", _NONE, AttributeError),
    ],
    "Layers and lookups": [
        Entry(f"distributed_embeddings.Embedding {_LAYERS}.embedding.Embedding", "differs",
              "a sample without ids gives zeros; sparse ids without a combiner and unknown "
              "combiners raise `ValueError`; `use_custom_kernel` changes nothing"),
        Entry(f"{_LAYERS}.embedding.ConcatOneHotEmbedding", "differs",
              "an id that its feature does not have raises"),
        Entry(f"{_LAYERS}.embedding.CPUInitializer", "works"),
        Entry(f"distributed_embeddings.IntegerLookup {_LAYERS}.embedding.IntegerLookup", "differs",
              "One layer for CPU and GPU: ids in the order of keys, also in functions and graphs. "
              "`table`, `count` and `num_tokens` are weights, saved with the model. `count[0]` "
              "begins at 0; the key -1 has the id 0; int32 keys, ragged and sparse ones work. Each "
              "process has its own vocabulary."),
        Entry(f"distributed_embeddings.embedding_lookup {_OPS}.embedding_lookup", "differs",
              "int32 and int64 ids with any row splits; a bag without ids gives zeros; ids that "
              "are no rows and unknown combiners raise. Its gradient has a slice for each distinct "
              "id, in the order in which they come."),
        Entry(f"{_OPS}.read_var_no_copy", "works"),
        Entry(f"{_OPS}.integer_lookup", "refused", _NONE, AttributeError),
        Entry("distributed_embeddings.version.__version__ distributed_embeddings.__version__",
              "differs", "that of sok_compat"),
    ],
}  # fmt: skip

BEHAVIOUR = [  # (what, state, note): of no single name
    ("first values of tables", "differs",
     "a function of the seed, the table's name, the key and the column where the initializer is "
     "Keras's uniform, normal, truncated normal, constant or variance scaling one; a plan with "
     "other slices starts with other numbers. Memory is used when rows are first looked up."),
    ("the shape of tables cut by rows", "differs",
     "where ranks have other numbers of rows, all ranks' variables have the shape of the largest"),
]  # fmt: skip


def entries():
    """All entries, in order."""
    return [entry for section in SECTIONS.values() for entry in section]
