# SPDX-License-Identifier: Apache-2.0
"""What became of each name of distributed-embeddings: the source of
docs/porting_distributed_embeddings.md."""

from docs.entries import Entry

INTRODUCTION = """\
# Scripts for distributed-embeddings

`import distributed_embeddings`, with its module paths, gives sok_compat's package of that name, as
`from sok_compat import distributed_embeddings` does, where NVIDIA's is not installed or was not
built. It needs no GPU, and without Horovod it is one process.

Planning, the layers, and training of several ranks work, of ranks that are each given their part of
the batch and of ranks that are given the ids of all ranks for their own tables (`dp_input=False`).

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
              "With `dp_input=False` a rank may have no inputs, and is then given an empty list. "
              "Tables to be cut whose layers are no `Embedding`, or have a regularizer or a "
              "constraint, raise `NotImplementedError` with several ranks. `get_weights` gives "
              "arrays, on ranks other than 0 an empty list without `all_ranks`; `set_weights` "
              "checks lengths and shapes, and takes paths of all tables; in graph mode both run in "
              "the default session. Each rank has address space for all tables, and memory for its "
              "own; an initializer that Keras does not have is run on all ranks. A rank that "
              "trains no table of its own has one more weight, a table of another rank without "
              "rows here."),
        Entry(f"distributed_embeddings.DistEmbeddingStrategy "
              f"{_LAYERS}.dist_model_parallel.DistEmbeddingStrategy", "differs",
              "the same plans, but tables that differ in initializer, regularizer, constraint, "
              "`trainable` or `dtype` are not joined, and the ranges of sliced outputs are right "
              "where inputs share tables. `plans` has it as values. An unknown strategy raises "
              "`ValueError`; without tables to cut by columns their attributes are empty lists. "
              "`strategy='auto'` is new: it counts bytes and lookups by a `Workload`."),
        Entry(f"{_LAYERS}.dist_model_parallel.Workload {_LAYERS}.dist_model_parallel.explain",
              "differs",
              "new: batch, hotness, link and memory that `strategy='auto'` plans for; and a "
              "printed table, and a picture, of what a plan puts where and what each rank has to "
              "do for it"),
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
    ("checkpoints", "differs",
     "`tf.train.Checkpoint`, Keras's `save_weights` (on several ranks not as `.h5`) and in graphs "
     "`tf.train.Saver` hold each table whole, and what stock optimizers keep for it, also those "
     "of `tf.keras.optimizers.legacy` and `tf.compat.v1.train`, whichever ranks have which parts: "
     "they fit another plan and another number of ranks. The optimizers of `tf.keras.optimizers` "
     "number the variables they are given: give the tables after the others. A saver that is "
     "given one table of a layer saves all of them, as `<layer>/tables/<number>/rows`."),
    ("devices", "differs",
     "tables are on `GPU:0` where there is one and sok_compat was built with CUDA, those beyond "
     "`gpu_embedding_size` in the memory of the host; else all are there"),
]  # fmt: skip


def entries():
    """All entries, in order."""
    return [entry for section in SECTIONS.values() for entry in section]
