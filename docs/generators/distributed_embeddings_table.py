# SPDX-License-Identifier: Apache-2.0
"""What became of each name of distributed-embeddings: the source of
docs/use/porting_distributed_embeddings.md."""

from docs.generators.entries import Entry

INTRODUCTION = """\
# Scripts for distributed-embeddings

`import distributed_embeddings`, with its module paths, gives sok_compat's package, as `from
sok_compat import distributed_embeddings` does, unless a built one of NVIDIA's is installed. Without
Horovod it is one process. Ranks are each given their part of the batch, or the ids of all ranks for
their own tables (`dp_input=False`). Other module paths of a name lead to the same object.

A name works as there (✓), differs as its note says (≠), or is refused (✗).

`python -m docs.generators.names_page` makes this page from
`docs/generators/distributed_embeddings_table.py`.
"""

_LAYERS = "distributed_embeddings.python.layers"
_OPS = "distributed_embeddings.python.ops.embedding_lookup_ops"
_NONE = "is a part of the original's inside that has nothing to stand for here"

SECTIONS = {
    "Models of several ranks": [
        Entry(f"distributed_embeddings.DistributedEmbedding "
              f"{_LAYERS}.dist_model_parallel.DistributedEmbedding", "differs",
              "Ids that are no rows raise on all ranks, and name input and table; of tables cut "
              "by rows they give zeros. Ragged and dense inputs mix. All ranks call the layer as "
              "often. On several ranks tables with a regularizer, a constraint or a layer other "
              "than `Embedding` are whole on every rank; with `dp_input=False` they raise "
              "`NotImplementedError`. `get_weights` gives arrays, on ranks other than 0 an empty "
              "list without `all_ranks`; `set_weights` takes paths of all tables; both copy at "
              "most 16 MiB at a time. An initializer that Keras does not have is run on all ranks. "
              "A rank that trains no table has one more weight, without rows. From TensorFlow 2.16 "
              "on the layers are those of `tf-keras`; without that, of Keras 3, on one rank, and "
              "layers that have been built give their rows."),
        Entry(f"distributed_embeddings.DistEmbeddingStrategy "
              f"{_LAYERS}.dist_model_parallel.DistEmbeddingStrategy", "differs",
              "the same plans, but tables that differ in initializer, regularizer, constraint, "
              "`trainable` or `dtype` are not joined. An unknown strategy raises `ValueError`. "
              "New: `plans`, and `strategy='auto'`, which counts bytes and lookups of a "
              "`Workload`."),
        Entry(f"{_LAYERS}.dist_model_parallel.Workload {_LAYERS}.dist_model_parallel.explain",
              "differs",
              "new: batch, hotness, link and memory for `strategy='auto'`; a table and a picture "
              "of a plan"),
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
        Entry(f"{_LAYERS}.dist_model_parallel._dp_to_mp_input "
              f"{_LAYERS}.dist_model_parallel._dp_to_mp_input_dense "
              f"{_LAYERS}.dist_model_parallel._dp_to_mp_input_ragged", "works",
              "for tests that call them; the layers send ids otherwise"),
        Entry(f"{_LAYERS}.dist_model_parallel.grouped_reducescatter_unscaled", "refused", _NONE,
              AttributeError),
    ],
    "Layers and lookups": [
        Entry(f"distributed_embeddings.Embedding {_LAYERS}.embedding.Embedding", "differs",
              "a sample without ids gives zeros; sparse ids without a combiner and unknown "
              "combiners raise `ValueError`; `use_custom_kernel` changes nothing"),
        Entry(f"{_LAYERS}.embedding.ConcatOneHotEmbedding", "differs",
              "an id that its feature does not have raises"),
        Entry(f"{_LAYERS}.embedding.CPUInitializer", "works"),
        Entry(f"distributed_embeddings.IntegerLookup {_LAYERS}.embedding.IntegerLookup", "differs",
              "Ids in the order of keys, also in functions and graphs. `table`, `count` and "
              "`num_tokens` are weights; `count[0]` begins at 0; the key -1 has the id 0. Each "
              "process has its own vocabulary."),
        Entry(f"distributed_embeddings.embedding_lookup {_OPS}.embedding_lookup", "differs",
              "int32 and int64 ids; a bag without ids gives zeros; ids that are no rows and "
              "unknown combiners raise. Its gradient has a slice for each distinct id."),
        Entry(f"{_OPS}.read_var_no_copy", "works"),
        Entry(f"{_OPS}.integer_lookup", "refused", _NONE, AttributeError),
        Entry("distributed_embeddings.version.__version__ distributed_embeddings.__version__",
              "differs", "that of sok_compat"),
    ],
}  # fmt: skip

BEHAVIOUR = [  # (what, state, note): of no single name
    ("TensorFlow 1's behaviour", "works",
     "after `disable_v2_behavior()` and under `python -m sok_compat.run`, too"),
    ("tables that are whole on every rank", "works",
     "their gradients are dense, as there: optimizers that treat rows outside the batch "
     "otherwise (momentum, Adam, Ftrl, RMSprop) then differ from one process"),
    ("`global_clipnorm`", "works", "by the norm over all ranks"),
    ("sums of many ids", "differs",
     "`DistributedEmbedding`, and ragged and sparse ids, add one by one: of 207 ids the float32 "
     "error was 9.2e-5, TensorFlow's 2.4e-5"),
    ("first values of tables", "differs",
     "a function of seed, table name, key and column for Keras's stock initializers; another plan "
     "starts with other numbers"),
    ("the shape of tables cut by rows", "differs", "that of the largest part, on all ranks"),
    ("checkpoints", "differs",
     "`tf.train.Checkpoint`, `save_weights` (on several ranks not `.h5`) and, in graphs, "
     "`tf.train.Saver` hold each table whole, with its slots: they fit another plan, another "
     "number of ranks and an optimizer of another name. A saver of one table of a layer saves all "
     "of them, as `<layer>/tables/<number>/rows`. `model.save` and `tf.saved_model.save` raise "
     "`NotImplementedError`."),
    ("devices", "differs",
     "`GPU:0` where there is one and CUDA was built, tables beyond `gpu_embedding_size` in the "
     "host's memory; else the host"),
]  # fmt: skip


def entries():
    """All entries, in order."""
    return [entry for section in SECTIONS.values() for entry in section]
