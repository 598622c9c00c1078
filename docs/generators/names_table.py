# SPDX-License-Identifier: Apache-2.0
"""What became of each public name of SparseOperationKit: the source of docs/use/names.md."""

from docs.generators.entries import Entry
from sok_compat.sparse_operation_kit.refused_ops import REFUSED


def _kit_lib_refusals():
    return [
        Entry(
            f"sok.kit_lib.{name}",
            "refused",
            f"raises `NotImplementedError`: {why}. {instead}.",
            NotImplementedError,
        )
        for name, (why, instead) in REFUSED.items()
    ]


SECTIONS = {
    "Setting up": [
        Entry("sok.__version__ sok.core.__version__ sok.core._version.__version__", "differs",
              "the version of sok_compat"),
        Entry("sok.Init sok.core.initialize.Init sok.core.Init", "differs",
              "Called for any number of graphs; running its result is optional. New: "
              "[`wire_dtype`](distributed.md#fewer-bytes). With a `seed` first values repeat; "
              "without, or with 0, they are random. Unknown settings raise."),
        Entry("sok.GraphKeys sok.core.graph_keys.GraphKeys sok.core.GraphKeys "
              "sok.core.embedding_layer_handle.GraphKeys", "works"),
        Entry("sok.OptimizerScope sok.core.context_scope.OptimizerScope sok.core.OptimizerScope",
              "differs",
              "Optional; makes stock optimizers [cost rows in use](optimizers.md). For `model.fit` "
              "call its `build(optimizer)` before `compile`."),
    ],
    "Tables": [
        Entry("sok.core.EmbeddingVariable sok.core.embedding_variable.EmbeddingVariable", "differs",
              "`handle` is the variable of the rows. Each has a table of its own. Its initializer "
              "may run again and empties the table. `m_initial_value` is a tensor, or the name of "
              "the first value. Without a hash table `assign`, `scatter_update` and their like "
              "write this rank's rows by row id. With one they, slices and `numpy()` raise, except "
              "for a gradient's indices. `num_keys()`, `export()` and `slots` are new."),
        Entry("sok.core.embedding_layer_handle.EmbeddingLayerHandle",
              "differs",
              "`handle` is the table's `emb_handle`; running `initializer` does nothing"),
        Entry("sok.core.DenseEmbeddingLayerHandle "
              "sok.core.embedding_layer_handle.DenseEmbeddingLayerHandle", "differs",
              "likewise; names of dispatchers, lookupers and executors are ignored"),
        Entry("sok.core.SparseEmbeddingLayerHandle "
              "sok.core.embedding_layer_handle.SparseEmbeddingLayerHandle", "differs",
              "likewise; names of dispatchers, lookupers and executors are ignored"),
        Entry("sok.core.inplace_initializer.InPlaceInitializer sok.core.InPlaceInitializer",
              "works", "no layer takes it"),
    ],
    "Layers and lookups": [
        Entry("sok.DistributedEmbedding sok.embeddings.distributed_embedding.DistributedEmbedding "
              "sok.embeddings.DistributedEmbedding", "differs",
              "Takes RaggedTensors, int32 keys, `training` as a tensor. Unsorted rows, more than "
              "`max_nnz` keys in a row, and flags other than bools, 0 and 1 raise. [Tables "
              "differ](porting_sok.md#differences-of-a-table)."),
        Entry("sok.All2AllDenseEmbedding "
              "sok.embeddings.all2all_dense_embedding.All2AllDenseEmbedding "
              "sok.embeddings.All2AllDenseEmbedding", "differs",
              "Takes int32 keys and keys of any shape. [Tables "
              "differ](porting_sok.md#differences-of-a-table)."),
        Entry("sok.get_embedding sok.embeddings.get_embedding_op.get_embedding "
              "sok.embeddings.get_embedding", "differs",
              "Threads that build one graph share its names; a shared layer may be called several "
              "times in a step."),
        Entry("sok.embeddings.tf_distributed_embedding.TFDistributedEmbedding "
              "sok.embeddings.TFDistributedEmbedding", "differs",
              "For one process, also under a strategy of one replica; several raise "
              "`RuntimeError`. `comm_options` is ignored."),
        Entry("sok.embeddings.embedding_ops.embedding_lookup", "differs",
              "as the layer, with its checks"),
        Entry("sok.embeddings.embedding_ops.embedding_lookup_sparse", "differs",
              "as the layer, with its checks"),
        Entry("sok.embeddings.embedding_ops.get_global_replica_id", "differs",
              "With Horovod the rank among all processes. 'Strategy' is 0; 'MPI' raises "
              "`RuntimeError`."),
        Entry("sok.embeddings.embedding_ops._get_comm_tool", "differs",
              "'Horovod' once it is initialized; never 'MPI'"),
    ],
    "Optimizers": [
        Entry("sok.split_embedding_variable_from_others "
              "sok.optimizers.split_embedding_variable_from_others "
              "sok.optimizers.utils.split_embedding_variable_from_others", "works"),
        Entry("sok.optimizers.Adam sok.optimizers.adam.Adam", "differs",
              "`tf.global_variables_initializer()` covers its `initializer`. A step without "
              "gradients is fine. Ignored arguments are logged."),
        Entry("sok.optimizers.RowWiseAdagrad", "new",
              "Adagrad with [one accumulator a row](optimizers.md)"),
        Entry("sok.optimizers.optimizer.Optimizer", "differs",
              "a Keras 2 optimizer, whose hooks a subclass overrides"),
        Entry("sok.tf.keras.optimizers.Adam sok.tf.keras.optimizers.adam.Adam", "differs",
              "Rows in use decay and move, others do not; `amsgrad=True` raises for tables."),
        Entry("sok.tf.keras.optimizers.LazyAdamOptimizer "
              "sok.tf.keras.optimizers.lazy_adam.LazyAdamOptimizer", "differs",
              "a subclass of `tf.compat.v1.train.AdamOptimizer`"),
        Entry("sok.tf.keras.mixed_precision.LossScaleOptimizer "
              "sok.tf.keras.mixed_precision.loss_scale_optimizer.LossScaleOptimizer", "differs",
              "Around any optimizer, TF1's too; no subclass of Keras's. `loss_scale` is a number, "
              "'dynamic' or TF1's `LossScale`. A step that is not finite on one rank is skipped on "
              "all."),
        Entry("sok.operations.unique sok.tf.unique", "works", "on the CPU as well"),
        Entry("sok.operations.unsorted_segment_sum sok.tf.unsorted_segment_sum", "differs",
              "on the CPU as well, with a gradient"),
    ],
    "Saving": [
        Entry("sok.IncrementalSaver", "new",
              "saves changes between whole checkpoints: [increments](checkpoints.md#increments)"),
        Entry("sok.IncrementalSaverHook", "new", "the same in sessions and estimators"),
        Entry("sok.Saver sok.saver.Saver sok.saver.Saver.Saver", "differs",
              "The same files, and `<name>.dump`, which need not be there. Makes the folder. "
              "Restoring replaces the table, or leaves it alone when the files do not fit. "
              "`restore_from_file(..., name=...)` reads a table of another name. Rows are found by "
              "key, without a hash table, too."),
    ],
    "Raw ops": [
        Entry("sok.kit_lib.in_tensorflow2", "differs",
              "False after `disable_v2_behavior` or `disable_eager_execution`"),
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
    ],
    "SparseOperationKit 2: variables": [
        Entry("sok.init sok.communication.init sok.experiment.init", "differs",
              "Starts Horovod if it is there, also on CPUs; may be called again. "
              "`use_legacy_optimizer` is ignored: no name of TensorFlow is replaced."),
        Entry("sok.set_comm_tool sok.communication.set_comm_tool sok.experiment.set_comm_tool",
              "works"),
        Entry("sok.Variable sok.distributed_variable.Variable sok.experiment.Variable", "differs",
              "Initializers get the shape of the whole variable, so that its rows do not depend on "
              "the number of ranks. A key out of range raises. Lookups by `tf.nn.embedding_lookup` "
              "take keys of all ranks. A rank without rows shows one row. Saved by "
              "`tf.train.Saver` and `tf.train.Checkpoint`, for any number of ranks."),
        Entry("sok.DistributedVariable sok.distributed_variable.DistributedVariable "
              "sok.experiment.DistributedVariable", "differs", "likewise"),
        Entry("sok.LocalizedVariable sok.distributed_variable.LocalizedVariable "
              "sok.experiment.LocalizedVariable", "differs", "likewise"),
        Entry("sok.DynamicVariable sok.dynamic_variable.DynamicVariable "
              "sok.experiment.DynamicVariable", "differs",
              "Any integer is a key, also a negative one. First values are functions of seed, name "
              "and key; `seed` is new. All initializers fit both kinds of `var_type`, Keras's too, "
              "but for those that make all rows at once (`Identity`, `Orthogonal`). Capacities are "
              "rounded up; options of GPU memory change nothing, and `kCustomized` evicts as "
              "`kLru` does. A hybrid variable "
              "with `max_capacity` keys on a rank evicts the least recently used ones. "
              "Lookups by `tf.nn.embedding_lookup` take keys of all ranks. "
              "The indices of gradients are row ids, and writes by others raise; `to_static` and "
              "`to_dynamic` raise: `sok.OptimizerWrapper` does their work. Saved by "
              "`tf.train.Saver` and `tf.train.Checkpoint`."),
        Entry("sok.assign sok.dynamic_variable.assign sok.experiment.assign", "differs",
              "also takes variables of `sok.Variable`; a key of another rank raises, as does one "
              "without a row where the variable is a slot"),
        Entry("sok.export sok.dynamic_variable.export sok.experiment.export", "differs",
              "keys ascend for each `var_type`"),
        Entry("sok.filter_variables sok.dynamic_variable.filter_variables "
              "sok.experiment.filter_variables", "works"),
    ],
    "SparseOperationKit 2: lookups and optimizers": [
        Entry("sok.lookup_sparse sok.lookup.lookup_sparse sok.experiment.lookup_sparse", "differs",
              "Takes variables of all kinds in one call, weights of either form, and batches of "
              "different sizes on different ranks; needs no attribute `target_gpu`. The types tell "
              "whether the third argument has weights, combiners or hotness. "
              "`use_low_frequency_filter` admits the same keys in every run, on any number of "
              "ranks. No gradient flows to `sp_weights`."),
        Entry("sok.all2all_dense_embedding sok.lookup.all2all_dense_embedding "
              "sok.experiment.all2all_dense_embedding", "differs",
              "keys of any shape, also of localized variables"),
        Entry("sok.lookup.lookup_sparse_impl", "differs",
              "as `sok.lookup_sparse`, always with a list"),
        Entry("sok.lookup.group_lookup", "differs",
              "reads the keys of all ranks; takes variables of all kinds"),
        Entry("sok.sparse_read_and_evict sok.lookup.sparse_read_and_evict "
              "sok.experiment.sparse_read_and_evict", "differs",
              "reads the keys of all ranks, which call it together; what it evicts is this rank's"),
        Entry("sok.OptimizerWrapper sok.optimizer.OptimizerWrapper "
              "sok.experiment.OptimizerWrapper", "differs",
              "On tables Adam, Nadam, Adamax, RMSprop and SGD with momentum are lazy: a step moves "
              "the rows of its keys. Takes static and ordinary variables, too, and the optimizers "
              "of `tf.keras.optimizers` beside its `legacy`, except in graphs and with `use_ema`. "
              "From TensorFlow 2.16 on these are of `tf_keras`; those of Keras 3 raise "
              "`TypeError`."),
        Entry("sok.SGD sok.optimizer.SGD sok.experiment.SGD", "works",
              "also for static and ordinary variables"),
    ],
    "SparseOperationKit 2: dumps": [
        Entry("sok.dump sok.dump_load.dump sok.experiment.dump", "differs",
              "The same files, with the table's name in the header, and a note `<name>-note`. Also "
              "in graphs. One moment of all variables, which replaces earlier dumps. Slots of "
              "`tf.keras.optimizers` have the names of its `legacy`."),
        Entry("sok.load sok.dump_load.load sok.experiment.load", "differs",
              "Rows go by their keys, on any number of ranks. If a file does not fit, all "
              "variables stay as they were."),
        Entry("sok.incremental_model_dump sok.dump_load.incremental_model_dump "
              "sok.experiment.incremental_model_dump", "differs",
              "keys ascend; a graph gets its ops at the first call"),
        Entry("sok.incremental_dump sok.dump_load.incremental_dump "
              "sok.experiment.incremental_dump", "works",
              "the documents' name of the above"),
        Entry("sok.dump_load sok.experiment.dump_load", "works"),
    ],
    "SparseOperationKit 2: for libraries on top": [
        *(Entry(f"sok.raw_ops.{name}", "works") for name in (
            "dummy_var_assign", "dummy_var_export", "dummy_var_handle", "dummy_var_initialize",
            "dummy_var_scatter_add", "dummy_var_scatter_update", "dummy_var_shape",
        )),
        Entry("sok.raw_ops.dummy_var_sparse_read", "differs",
              "`lookup_only=True` reads without inserting; reads the rows of this rank only"),
        *(Entry(f"sok.communication.{name}", "works") for name in (
            "allgather", "allreduce", "alltoall", "broadcast", "global_gpu_id", "id_in_rank",
            "local_rank", "num_gpu_per_rank", "num_gpus", "num_ranks", "rank",
        )),
        Entry("sok.communication sok.experiment.communication", "works"),
        Entry("sok.raw_ops sok.experiment.raw_ops", "differs", "the eight ops above"),
        Entry("sok.lookup sok.experiment.lookup", "works",
              "as `sparse_operation_kit.lookup` only: `sok_compat.lookup` is another package"),
        Entry("sok.optimizer sok.experiment.optimizer", "works"),
        Entry("sok.dynamic_variable sok.experiment.dynamic_variable", "works"),
        Entry("sok.distributed_variable sok.experiment.distributed_variable", "works"),
        Entry("sok.experiment", "works"),
        Entry("sok.utils sok.experiment.utils", "works"),
        Entry("sok.utils.SOK_IndexedSlices", "works"),
        Entry("sok.utils.get_nano_time", "works"),
        Entry("sok.tf_version sok.utils.tf_version", "works"),
    ],
    "Added by sok_compat": [
        Entry("sok.clip_by_global_norm", "new",
              "clips by the norm over all ranks: [clipping](optimizers.md#clipping)"),
        Entry("sok.communication_stats", "new", "[counts of a rank](distributed.md#counting)"),
        Entry("sok.stats", "new", "[figures of all tables](quick_start.md#watch-tables)"),
        Entry("sok.prefetch_lookups", "new",
              "the next batch while a step runs: [prefetch](distributed.md#prefetch)"),
        Entry("sok.export_saved_model", "new", "writes a SavedModel: [serving](serving.md)"),
        Entry("sok.HashTable sok.engine.HashTable", "new",
              "[the table on NumPy arrays](quick_start.md#hashtable-without-tensorflow)"),
        Entry("sok.engine", "new", "where `HashTable` lives"),
    ],
}  # fmt: skip

BEHAVIOUR = [  # (what, state, note): of no single name
    ("several processes (Horovod)", "works", "[distributed](distributed.md)"),
    ("tf.distribute strategies", "differs",
     "of one replica; several replicas and parameter servers raise `RuntimeError`"),
    ("eager mode, `tf.function`, Keras's `fit`, `evaluate`, `predict`", "works",
     "on one process or [several](distributed.md#eager-mode-and-keras)"),
    ("`tf.train.Saver`, `MonitoredTrainingSession`, `tf.estimator`", "works",
     "they save tables [completely](checkpoints.md), on [several "
     "ranks](distributed.md#checkpoints-sessions-and-estimators), too"),
    ("`tf.train.init_from_checkpoint` of tables", "refused",
     "raises `NotImplementedError` for a table; of a scope it loads the others, and warns"),
    ("`tf.train.ExponentialMovingAverage` of tables", "refused",
     "raises `NotImplementedError`: average the other variables"),
    ("environment variables `SOK_*` of SparseOperationKit", "differs", "ignored"),
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
