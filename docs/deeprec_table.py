# SPDX-License-Identifier: Apache-2.0
"""What became of each name of DeepRec's API: the source of docs/porting_deeprec.md."""

from docs.entries import Entry

INTRODUCTION = """\
# Scripts for DeepRec

A script for DeepRec runs without a changed line by `python -m sok_compat.run script.py`, or after
one: `import sok_compat.deeprec as tf` in the place of `import tensorflow as tf`. Both give every
name of `tf.compat.v1`, with the behaviour of TensorFlow 1, and DeepRec's own as this page says. How
imports are found, and what else a launched script gets, stands in
[porting](porting.md#without-a-changed-line).

Group embedding, embedding variables, their optimizers and feature columns work, on one process or
several, and so do filters, eviction and checkpoints. Tiers of storage are not there yet.

This page is made by `python -m docs.names_page` from `docs/deeprec_table.py`; a test holds it
against the package.
"""

_LATER = "is not there yet: taking the name raises `AttributeError`"

SECTIONS = {
    "Strategies": [
        Entry("tf.config.experimental.enable_distributed_strategy", "differs",
              "'collective' (Horovod, or one process without it) and 'localized'; others raise "
              "`ValueError`. The error of a Horovod that does not start has its cause. Call it "
              "before embedding variables are made."),
        Entry("tf.config.experimental.enable_group_embedding", "differs",
              "the older name; `fusion_type` is the strategy"),
        Entry("tensorflow.python.distribute.group_embedding_collective_strategy.CollectiveStrategy",
              "differs",
              "`scope`, `embedding_scope`, `world_size`, `rank` (ints that can be called, too), "
              "`estimator` (up to TensorFlow 2.15) and `export_saved_model`, which needs a "
              "`checkpoint_dir`. `COLLECTIVE_STRATEGY` may be `sok` or `hb`: both are this "
              "package. `train_and_evaluate` evaluates at the end, or each `eval_every_n_iter` "
              "steps. Learning rates are not multiplied by the number of ranks."),
        Entry("tf.train.MonitoredTrainingSession", "differs",
              "under 'collective' all ranks begin with rank 0's ordinary variables, and rank 0's "
              "`checkpoint_dir`, `summary_dir` and hooks of a chief count for all: "
              "[distributed](distributed.md#sessions-that-resume-and-estimators); "
              "`save_incremental_checkpoint_secs` saves [increments](checkpoints.md#increments)"),
        Entry("tf.train.Saver", "differs",
              "`incremental_save_restore=True` raises: use "
              "`sok_compat.checkpoint.IncrementalSaver`"),
        Entry("tf.gradients tf.clip_by_global_norm", "differs",
              "under 'collective' gradients of scalars by variables are means over ranks, and the "
              "norm is that over all ranks"),
        Entry("tensorflow.python.distribute.launch", "refused",
              "cannot be put into TensorFlow: `python -m sok_compat.run.launch [-np N] command...` "
              "starts one process for each visible GPU, or N, and gives back the status of the "
              "first that failed", ImportError),
    ],
    "Group lookups": [
        Entry("tf.nn.group_embedding_lookup_sparse", "differs",
              "Tuples, `sp_weights` with some None, and both orders of arguments work. Each "
              "lookup has its own combiner; a weighted mean is divided by the sum of weights; "
              "rows without ids are zeros; `is_sequence` gives `[batch, columns, dim]`, and under "
              "'collective' weights count, too. No gradient flows to the weights of pooled rows of "
              "embedding variables. "
              "`partition_strategy` and `params_num_per_group` change nothing."),
        Entry("tf.nn.group_embedding_lookup", "differs",
              "for any strategy and ids of any shape; a variable may come twice"),
        Entry("tf.nn.embedding_lookup tf.nn.embedding_lookup_sparse", "works"),
        Entry("tf.nn.safe_embedding_lookup_sparse", "differs", "`prune=False` raises"),
    ],
    "Embedding variables": [
        Entry("tf.get_embedding_variable", "differs",
              "Key k starts as key floormod(k, `default_value_dim`) does, the same for any number "
              "of ranks and parts; negative keys work. A key gets its row in a step that computes "
              "its gradient. A regularizer or constraint raises."),
        Entry("tf.EmbeddingVariable", "differs",
              "`total_count()`, `export()`, `sparse_read`, `get_frequency`, `get_version` and "
              "lookups work, the first two for keys of this rank; in the others all ranks take "
              "part. Parts have all of it but `export()`. Without a filter, eviction, "
              "`TF_RECORD_FREQ=1` or `TF_RECORD_VERSION=1`, versions and frequencies are empty, "
              "and asking for those of keys raises. What takes it for a dense tensor raises. "
              "`target_gpu` is ignored."),
        Entry("tf.EmbeddingVariableOption tf.InitializerOption", "works"),
        Entry("tf.StorageOption tf.StorageType tf.CacheStrategy", "differs",
              "DRAM and HBM work, HBM without a GPU with one warning; types with other tiers raise "
              "`NotImplementedError` where a variable is made with them"),
        Entry("tensorflow.core.framework.embedding.config_pb2", "differs",
              "has `tf.StorageType` and `tf.CacheStrategy`, and their members by name: ints, with "
              "`Name`, `Value`, `keys`, `values` and `items`, but no messages"),
        Entry("tf.CounterFilter tf.CBFFilter", "differs",
              "Keys are counted in steps that compute gradients, over all ranks. A key gets its "
              "row in the step in which it has come `filter_freq` times, and is read and trained "
              "from the next one on. A `CBFFilter` is shared out among the ranks."),
        Entry("tf.GlobalStepEvict tf.L2WeightEvict", "differs",
              "before `tf.train.Saver` writes. A key that no known step has trained goes from the "
              "second save on. Steps that run keep the rows that they read. The step is that of "
              "`minimize(global_step=...)`, or of the first `apply_gradients(global_step=...)`; "
              "without one, the graph's global step."),
        Entry("tf.CheckpointOption", "differs",
              "the variable's initializer loads the rows of `ckpt_to_load_from`, of any number of "
              "parts; slots start anew. `always_load_from_specific_ckpt` and `init_data_source` "
              "raise `NotImplementedError`."),
        Entry("tf.GraphKeys.EMBEDDING_VARIABLES tf.GraphKeys.EV_INIT_VAR_OPS "
              "tf.GraphKeys.EV_INIT_SLOT_OPS tf.GraphKeys.ASYNC_EMBEDDING_OUTPUT_TENSORS",
              "works"),
        Entry("tf.get_multihash_variable", "refused", _LATER, AttributeError),
        Entry("tf.get_dynamic_dimension_embedding_variable", "refused", _LATER, AttributeError),
        Entry("tf.get_hash_table", "refused", _LATER, AttributeError),
        Entry("tf.MultihashOption", "refused", _LATER, AttributeError),
    ],
    "Feature columns": [
        Entry("tf.feature_column.group_embedding_column_scope", "differs",
              "The scope ends with its `with`, and of nested ones the inner counts. Scopes of one "
              "name are one group, those without a name are groups of their own. "
              "`params_num_per_group` is ignored."),
        Entry("tf.feature_column.categorical_column_with_embedding", "differs",
              "Strings by DeepRec's hash, integers as they are; negative ids are left out. In an "
              "`indicator_column`, a `linear_model` or a layer of Keras it raises."),
        Entry("tf.feature_column.embedding_column tf.feature_column.shared_embedding_columns",
              "differs",
              "`do_fusion` is ignored; `coalesced_scope`, and `ckpt_to_load_from` for an "
              "embedding variable, raise"),
        Entry("tf.feature_column.input_layer", "differs",
              "Order, names, `cols_to_vars` and `cols_to_output_tensors` are those of columns "
              "outside a scope. A second call has variables of its own, as in TensorFlow. A "
              "`sqrtn`, a `max_norm` and parts are looked up one by one. In a group no gradient "
              "flows to the weights of an embedding variable's ids. `adaptive_mask_tensors` "
              "raises."),
        Entry("tf.contrib.feature_column.sequence_input_layer "
              "tf.contrib.feature_column.sequence_categorical_column_with_embedding", "works",
              "the column also in `tensorflow.python.feature_column.sequence_feature_column`, in "
              "scripts that are launched; there, too, options are in "
              "`tensorflow.python.ops.variables`"),
        Entry("tf.feature_column.categorical_column_with_adaptive_embedding", "refused", _LATER,
              AttributeError),
    ],
    "Optimizers": [
        Entry("tf.train.AdagradOptimizer tf.train.GradientDescentOptimizer "
              "tf.train.MomentumOptimizer", "works"),
        Entry("tf.train.AdamOptimizer", "works", "on embedding variables lazily, as there"),
        Entry("tf.train.FtrlOptimizer", "differs",
              "on embedding variables with a `learning_rate_power` of -0.5"),
        Entry("tf.train.AdamAsyncOptimizer tf.train.AdamWOptimizer", "works",
              "on ordinary variables, too"),
        Entry("tf.train.AdagradDecayOptimizer tf.train.AdagradDecayOptimizerV2", "differs",
              "Accumulators decay in the first update after the global step has passed a multiple "
              "of `accumulator_decay_step`, those of all rows in use; both are the same"),
        Entry("tf.train.AdadeltaOptimizer tf.train.AdagradDAOptimizer "
              "tf.train.ProximalAdagradOptimizer tf.train.ProximalGradientDescentOptimizer "
              "tf.train.RMSPropOptimizer", "differs",
              "train ordinary variables, and raise for embedding variables"),
    ],
    "How fast a step is, and where it runs": [
        Entry("tf.staged tf.make_prefetch_hook tf.train.mark_target_node", "differs",
              "no effect on what a step computes, and none on its speed; the hook feeds what a "
              "`feed_generator` yields"),
        Entry("tf.variable_scope", "works",
              "with `keep_weights`, whose casts TensorFlow does not fuse"),
        Entry("tensorflow.python.ops.work_queue.WorkQueue", "differs",
              "Under 'collective' rank r of N takes every N-th item, from the r-th on, whichever "
              "rank is faster. Each iterator of `input_dataset()` begins with the first item; where"
              " it stands is in no checkpoint. `num_slices` is ignored."),
        Entry("tensorflow.python.data.experimental.ops.parquet_dataset_ops.ParquetDataset "
              "tensorflow.python.data.experimental.ops.parquet_dataset_ops.read_parquet "
              "tensorflow.python.data.experimental.ops.parquet_dataset_ops.DataFrame",
              "differs",
              "Read by pyarrow, 16 to 21 (`pip install 'sok_compat[parquet]'`). Columns of lists "
              "give `tf.RaggedTensor`s. A batch is of one file; part i of n are row groups i, "
              "i + n, ... of each. Missing values raise, missing lists are empty. "
              "`ARROW_NUM_THREADS` is ignored."),
        Entry("tf.ConfigProto tf.GPUOptions tf.GraphOptions tf.OptimizerOptions", "differs",
              "switches that TensorFlow 2 does not have are ignored, with one warning for each; "
              "what was set can be read again"),
        Entry("tf.device", "differs",
              "a GPU becomes the CPU, with one warning, where TensorFlow has none"),
    ],
}  # fmt: skip

BEHAVIOUR = [  # (what, state, note): of no single name
    ("gradients on several ranks", "differs",
     "N ranks train as one process that is fed their batches together, where each rank's loss is a "
     "mean over its samples and all have as many: gradients are averaged over ranks, once, whether "
     "the loss went through `hvd.allreduce` or not, inside `scope()` and outside. For that, a sum "
     "over ranks in the loss counts as the mean; where the script divides it, or right before what "
     "is summed, by the number of ranks, or it by another such sum, or multiplies it by what is "
     "trained, it counts as it is, with a warning; so do sums over a process set, and those of "
     "`hvd.reducescatter`. Reductions other than sums and means have no gradient. In DeepRec an "
     "allreduced loss with a plain optimizer gives embedding variables N * N times the gradient of "
     "the mean and lets dense variables drift apart, and `scope()` multiplies learning rates by N: "
     "multiply the learning rate where a script was tuned for that. Keras's optimizers, and "
     "subclasses of TensorFlow's own `Optimizer`, do not average."),
    ("variables at the start, on several ranks", "differs",
     "`tf.train.MonitoredTrainingSession` broadcasts rank 0's; with a plain `tf.Session` call "
     "`hvd.broadcast_global_variables(0)`"),
    ("checkpoints of one process", "works",
     "in DeepRec's layout, of any number of parts: [checkpoints](deeprec_checkpoints.md) says what "
     "is in them and what is read. Rows of another width raise (`TF_EV_RESTORE_CUSTOM_DIM`). "
     "Incremental ones, also with filters, are [sok_compat's own](checkpoints.md#increments)."),
    ("`tf.train.init_from_checkpoint`, `tf.train.warm_start`, `warm_start_from` of estimators",
     "differs",
     "give an embedding variable an initializer that loads its rows; a slot raises, so a list of "
     "names, which takes slots, too, raises in `warm_start`: give it one regular expression"),
    ("checkpoints of several ranks", "works",
     "all ranks write one, in the same step, which any number of ranks restores. Estimators "
     "evaluate and predict from it, on all ranks; rank 0 exports it, as a model of one process."),
    ("ordinary variables in a group lookup", "differs",
     "each rank has the whole variable, and looks up its own rows: nobody takes it for a shard; "
     "rows of other floats become float32"),
]  # fmt: skip


def entries():
    """All entries, in order."""
    return [entry for section in SECTIONS.values() for entry in section]
