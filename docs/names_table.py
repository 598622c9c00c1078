# SPDX-License-Identifier: Apache-2.0
"""What became of each public name of SparseOperationKit 1.x: the source of docs/names.md."""

from docs.entries import Entry
from sok_compat.sparse_operation_kit import kit_lib


def _kit_lib_refusals():
    return [
        Entry(
            f"sok.kit_lib.{name}",
            "refused",
            f"raises `NotImplementedError`: {why}. {instead}.",
            NotImplementedError,
        )
        for name, (why, instead) in kit_lib.REFUSED.items()
    ]


SECTIONS = {
    "Setting up": [
        Entry("sok.__version__ sok.core.__version__ sok.core._version.__version__", "differs",
              "the version of sok_compat"),
        Entry("sok.Init sok.core.initialize.Init sok.core.Init", "differs",
              "May be called again, for any number of graphs and sessions; what it returns need "
              "not be run. `wire_dtype` "
              "is [more](distributed.md#fewer-bytes-for-a-number). With a `seed`, "
              "first values are the same in every run; without, or with 0, they are random. The "
              "import itself sets no environment variables and prints nothing."),
        Entry("sok.GraphKeys sok.core.graph_keys.GraphKeys sok.core.GraphKeys "
              "sok.core.embedding_layer_handle.GraphKeys", "works"),
        Entry("sok.OptimizerScope sok.core.context_scope.OptimizerScope sok.core.OptimizerScope",
              "differs",
              "Gradients and optimizers also work without it; inside, the slots of stock "
              "optimizers take memory for rows in use instead of the whole capacity, in a graph "
              "updates of all rows (Adam) touch the rows in use, and stock Adagrad is fused: "
              "[optimizers](optimizers.md). In graph mode take `tf.keras.optimizers.legacy`: the "
              "newer ones do not work there. For `model.fit` call "
              "`sok.OptimizerScope(model.trainable_variables).build(optimizer)` before `compile`."),
    ],
    "Tables": [
        Entry("sok.core.EmbeddingVariable sok.core.embedding_variable.EmbeddingVariable", "differs",
              "`handle` is always the variable of the rows. Each has a table of its own, also with "
              "equal shapes. Its initializer may run again and empties the table. "
              "`m_initial_value` is a tensor where an initializer makes the whole table at once, "
              "else the name of the first value. `assign`, `assign_sub`, `scatter_sub` and "
              "`scatter_update` work, by row id, and so do `is_initialized()`, "
              "`initialized_value()` and, in eager mode and functions, `assign_add` and "
              "`scatter_add`. With a hash table `assign` takes what a step computes, not rows that "
              "were kept without their keys, and `numpy()` raises. `num_keys()`, `export()` and "
              "`slots` are new. In eager mode it is made at once, is freed with the Python "
              "object, and its `initializer` is None. `tf.train.Saver` saves it."),
        Entry("sok.core.embedding_layer_handle.EmbeddingLayerHandle",
              "differs",
              "A Python object: `handle` is the table's `emb_handle`, and running `initializer` "
              "does nothing. Layers have it as `emb_layer`, variables as `embedding_layer`."),
        Entry("sok.core.DenseEmbeddingLayerHandle "
              "sok.core.embedding_layer_handle.DenseEmbeddingLayerHandle", "differs",
              "as `EmbeddingLayerHandle`; the names of dispatchers and lookupers are ignored"),
        Entry("sok.core.SparseEmbeddingLayerHandle "
              "sok.core.embedding_layer_handle.SparseEmbeddingLayerHandle", "differs",
              "as `EmbeddingLayerHandle`; the names of dispatchers and executors are ignored"),
        Entry("sok.core.inplace_initializer.InPlaceInitializer sok.core.InPlaceInitializer",
              "works", "No layer takes it."),
    ],
    "Layers and lookups": [
        Entry("sok.DistributedEmbedding sok.embeddings.distributed_embedding.DistributedEmbedding "
              "sok.embeddings.DistributedEmbedding", "differs",
              "`combiner` in any case. `max_feature_num` is checked and otherwise unused. Unsorted "
              "rows and more than `max_nnz` keys in a row raise. Takes RaggedTensors, and int32 "
              "keys, too; `training` may be a tensor. Flags must be bools, 0 or 1. See also [where "
              "a table itself behaves differently](../README.md#what-works)."),
        Entry("sok.All2AllDenseEmbedding "
              "sok.embeddings.all2all_dense_embedding.All2AllDenseEmbedding "
              "sok.embeddings.All2AllDenseEmbedding", "differs",
              "Takes int32 keys, too, and keys of any shape. See [where a table itself behaves "
              "differently](../README.md#what-works)."),
        Entry("sok.get_embedding sok.embeddings.get_embedding_op.get_embedding "
              "sok.embeddings.get_embedding", "differs",
              "All threads that build one graph share its names; calling a shared layer several "
              "times in a step gives right gradients."),
        Entry("sok.embeddings.tf_distributed_embedding.TFDistributedEmbedding "
              "sok.embeddings.TFDistributedEmbedding", "differs",
              "Works in one process, in graph mode and in eager mode, and under a tf.distribute "
              "strategy of one replica; under one of several, which it is for there, it raises "
              "`RuntimeError`. `call` takes a shape that is not fully known. `comm_options` is "
              "ignored."),
        Entry("sok.embeddings.embedding_ops.embedding_lookup", "differs",
              "Gives what the layer gives, with all its checks."),
        Entry("sok.embeddings.embedding_ops.embedding_lookup_sparse", "differs",
              "Gives what the layer gives, with all its checks."),
        Entry("sok.embeddings.embedding_ops.get_global_replica_id", "differs",
              "With Horovod the rank among all processes, not among those of one machine. "
              "'Strategy' is 0, as a strategy has one replica; 'MPI' raises `RuntimeError`: only "
              "Horovod connects ranks."),
        Entry("sok.embeddings.embedding_ops._get_comm_tool", "differs",
              "'Horovod' once it is initialized, not once it is imported; never 'MPI'."),
    ],
    "Optimizers": [
        Entry("sok.split_embedding_variable_from_others "
              "sok.optimizers.split_embedding_variable_from_others "
              "sok.optimizers.utils.split_embedding_variable_from_others", "works"),
        Entry("sok.optimizers.Adam sok.optimizers.adam.Adam", "differs",
              "Any number of them. `initializer` need not be run: "
              "`tf.global_variables_initializer()` covers it. A step without gradients is fine. "
              "Ignored arguments are logged."),
        Entry("sok.optimizers.optimizer.Optimizer", "differs",
              "A Keras 2 optimizer whose hooks a subclass overrides, as it would Keras's; those "
              "that it leaves out are Keras's, too."),
        Entry("sok.tf.keras.optimizers.Adam sok.tf.keras.optimizers.adam.Adam", "differs",
              "All rows in use decay and move, not the rows without a key; `amsgrad=True` raises "
              "for tables."),
        Entry("sok.tf.keras.optimizers.LazyAdamOptimizer "
              "sok.tf.keras.optimizers.lazy_adam.LazyAdamOptimizer", "differs",
              "a subclass of `tf.compat.v1.train.AdamOptimizer`, since `tf.contrib` is gone"),
        Entry("sok.tf.keras.mixed_precision.LossScaleOptimizer "
              "sok.tf.keras.mixed_precision.loss_scale_optimizer.LossScaleOptimizer", "differs",
              "A class of its own around any optimizer, TF1's too, and no subclass of Keras's. "
              "`loss_scale` is a number, 'dynamic' or a `tf.compat.v1.mixed_precision.LossScale`. "
              "With several ranks, a step that is not finite on one is skipped on all."),
        Entry("sok.operations.unique sok.tf.unique", "works", "on the CPU as well"),
        Entry("sok.operations.unsorted_segment_sum sok.tf.unsorted_segment_sum", "differs",
              "Works on the CPU as well, and has a gradient."),
    ],
    "Saving": [
        Entry("sok.IncrementalSaver", "new",
              "a `tf.train.Saver` that also saves what has changed since it saved last: "
              "[checkpoints](checkpoints.md#increments)"),
        Entry("sok.IncrementalSaverHook", "new",
              "the same in sessions and estimators, each so many seconds or steps"),
        Entry("sok.Saver sok.saver.Saver sok.saver.Saver.Saver", "differs",
              "Same files and same return values; `<name>.dump` beside them says what they are, "
              "and need not be there. Makes the folder. Restoring and loading forget "
              "what the table held, and leave it alone when the files do not fit. "
              "`restore_from_file(..., name=...)` reads a table that was dumped under another "
              "name. Reads odd "
              "numbers of uint32 keys. Without a hash table, too, rows are found by key."),
    ],
    "Raw ops": [
        Entry("sok.kit_lib.in_tensorflow2", "differs",
              "False after `disable_v2_behavior` or `disable_eager_execution`, else True: the "
              "branch that the script means."),
        Entry("sok.kit_lib.gen_random_seed", "works"),
        Entry("sok.kit_lib.read_embedding_variable", "works"),
        Entry("sok.kit_lib.embedding_variable_assign_sub", "works"),
        Entry("sok.kit_lib.dump_to_file", "differs", "as `sok.Saver`"),
        Entry("sok.kit_lib.restore_from_file", "differs", "as `sok.Saver`"),
        Entry("sok.kit_lib.load_embedding_values", "differs", "as `sok.Saver`"),
        *_kit_lib_refusals(),
    ],
    "Packages and modules": [
        Entry(name, "works") for name in (
            "sok.core", "sok.core.embedding_variable", "sok.core.initialize",
            "sok.core.context_scope", "sok.core.graph_keys",
            "sok.core.embedding_layer_handle", "sok.core.inplace_initializer",
            "sok.core._version", "sok.embeddings", "sok.embeddings.distributed_embedding",
            "sok.embeddings.all2all_dense_embedding", "sok.embeddings.get_embedding_op",
            "sok.embeddings.embedding_ops", "sok.embeddings.tf_distributed_embedding",
            "sok.kit_lib", "sok.operations", "sok.optimizers", "sok.optimizers.adam",
            "sok.optimizers.optimizer", "sok.optimizers.utils", "sok.saver", "sok.tf",
            "sok.tf.keras", "sok.tf.keras.optimizers", "sok.tf.keras.optimizers.adam",
            "sok.tf.keras.optimizers.lazy_adam", "sok.tf.keras.mixed_precision",
            "sok.tf.keras.mixed_precision.loss_scale_optimizer",
        )
    ] + [
        Entry("sok.experiment", "refused",
              "does not exist (`ModuleNotFoundError`): SparseOperationKit 2's API is another one",
              ModuleNotFoundError),
    ],
    "Added by sok_compat": [
        Entry("sok.clip_by_global_norm", "new",
              "`tf.clip_by_global_norm` with the norm over all ranks, see "
              "[optimizers](optimizers.md#clipping)"),
        Entry("sok.communication_stats", "new",
              "what this rank has sent, see [distributed](distributed.md#counting)"),
        Entry("sok.prefetch_lookups", "new",
              "the next batch, and what its lookups ask of other ranks, while a step runs, see "
              "[distributed](distributed.md#the-next-batch-while-a-step-runs)"),
        Entry("sok.export_saved_model", "new",
              "writes a SavedModel that reads tables, also without our ops, see "
              "[serving](serving.md)"),
        Entry("sok.HashTable sok.engine.HashTable", "new",
              "the table on NumPy arrays, see [without TensorFlow](../README.md#without-tensorflow)"
              ),
        Entry("sok.engine", "new", "where `HashTable` lives"),
    ],
}  # fmt: skip

BEHAVIOUR = [  # (what, state, note): of no single name
    ("several processes (Horovod)", "works",
     "`hvd.init()` before `sok.Init`, then `horovodrun`; embedding gradients are summed over "
     "ranks, as there. `hvd.DistributedOptimizer` and Horovod's broadcasts leave tables to "
     "sok_compat: [distributed](distributed.md)."),
    ("tf.distribute strategies", "differs",
     "one replica (`OneDeviceStrategy`, `MirroredStrategy` with one device, "
     "`MultiWorkerMirroredStrategy` with one worker and device) trains as a script without a "
     "strategy, also on each rank of Horovod; several replicas and parameter servers raise "
     "`RuntimeError`: use Horovod"),
    ("eager mode, `tf.function`", "works", "on one process or several"),
    ("Keras's `fit`, `evaluate`, `predict`", "works",
     "in graph mode and in eager mode, on one process or several: "
     "[distributed](distributed.md#eager-mode-and-keras)"),
    ("`tf.train.Saver`, `MonitoredTrainingSession`, `tf.estimator`", "works",
     "they save tables with their slots, [complete](checkpoints.md); with several ranks all save "
     "one checkpoint, in the same step: "
     "[distributed](distributed.md#sessions-that-resume-and-estimators)"),
    ("`tf.train.init_from_checkpoint` of tables", "refused",
     "raises `NotImplementedError` for a table; given a scope, it loads the other variables, and a "
     "warning names the tables that the checkpoint holds. Restore tables with a Saver."),
    ("`tf.train.ExponentialMovingAverage` of tables", "refused",
     "raises `NotImplementedError`: the average of a row that comes later would start from zeros. "
     "Average the other variables."),
    ("environment variables `SOK_*` of SparseOperationKit", "differs", "read by nothing"),
    ("`import sparse_operation_kit as sok`", "works",
     "gives the same modules and objects, under every path above, unless there is a "
     "real SparseOperationKit that was built"),
]  # fmt: skip

# Modules beside those above, which no script of SparseOperationKit imports.
INTERNAL_MODULES = {
    "sok_compat.sparse_operation_kit.core.initialization",
    "sok_compat.sparse_operation_kit.embeddings.arguments",
    "sok_compat.sparse_operation_kit.embeddings.embedding_layer",
    "sok_compat.sparse_operation_kit.operations.merging",
}


def entries():
    """All entries of names, in order."""
    return [entry for section in SECTIONS.values() for entry in section]
