# SPDX-License-Identifier: Apache-2.0
"""What became of each name of DeepRec's API: the source of docs/use/porting_deeprec.md."""

from docs.generators.entries import Entry

INTRODUCTION = """\
# Scripts for DeepRec

A script for DeepRec runs without a changed line by `python -m sok_compat.run script.py`, or after
one: `import sok_compat.deeprec as tf` in the place of `import tensorflow as tf`. On several ranks a
loss that is a sum over ranks [needs one more change](#losses-on-several-ranks). Both give every
name of `tf.compat.v1` with TensorFlow 1's behaviour, and DeepRec's own as below; the launcher hides
TensorFlow's deprecation warnings, which `python -W default -m sok_compat.run` shows;
[porting](porting_sok.md#without-a-changed-line) says which imports change.

A name works as there (✓), differs as its note says (≠), or is refused (✗).

`python -m docs.generators.names_page` makes this page from `docs/generators/deeprec_table.py`.

## Losses on several ranks

Under 'collective' the ranks minimize **the mean over ranks of the losses that they compute**.
Gradients are averaged over ranks, once, inside `scope()` and outside, and gradients through
Horovod's collectives are exact:

| loss, where a rank has `losses` of its samples | its gradient |
|---|---|
| `tf.reduce_mean(losses)`, through `hvd.allreduce` or not | as of one process with all batches |
| a loss of `hvd.allgather(logits)` | the same |
| `hvd.allreduce(tf.reduce_sum(losses)) / hvd.allreduce(num_samples)` | the same |
| `tf.reduce_sum(losses) / global_batch_size` | divided by the number of ranks |
| `op=hvd.Sum`, also in a group or by `hvd.reducescatter` | `ValueError` on several ranks |
| `op=hvd.Max`, `Min`, `Product`, `Adasum` | `NotImplementedError` on several ranks |

Ranks have the same number of samples. `hvd.allreduce(tf.reduce_mean(losses), op=hvd.Sum)` grows
with the number of ranks: leave `op` out. A sum of shares does not grow: allow it by
`differentiate_sums=True`, an argument of `tf.config.experimental.enable_distributed_strategy` and
of `CollectiveStrategy`. Call collectives as `hvd.allreduce`, not by a name that was imported
before the strategy.

In DeepRec an allreduced loss with a plain optimizer gives embedding variables N * N times the
gradient of the mean, and `scope()` multiplies learning rates by N: a script that was tuned for
that needs another learning rate. Keras's optimizers, and subclasses of TensorFlow's `Optimizer`,
do not average.
"""

_LATER = "is not there yet: taking the name raises `AttributeError`"

SECTIONS = {
    "Strategies": [
        Entry("tf.config.experimental.enable_distributed_strategy", "differs",
              "'collective' (Horovod, or one process without it) and 'localized'; others raise "
              "`ValueError`. Call it before embedding variables are made. New: "
              "`differentiate_sums`, for [losses](#losses-on-several-ranks)."),
        Entry("tf.config.experimental.enable_group_embedding", "differs",
              "the older name; `fusion_type` is the strategy"),
        Entry("tensorflow.python.distribute.group_embedding_collective_strategy.CollectiveStrategy",
              "differs",
              "`scope`, `embedding_scope`, `world_size`, `rank`, `estimator` (up to TensorFlow "
              "2.15) and `export_saved_model`, which needs a `checkpoint_dir`. "
              "`train_and_evaluate` evaluates each `eval_every_n_iter` steps. "
              "Learning rates are not multiplied by the number of ranks. `COLLECTIVE_STRATEGY`, "
              "which chooses DeepRec's engine, is not read."),
        Entry("tf.train.MonitoredTrainingSession", "differs",
              "under 'collective' all ranks begin with rank 0's variables, and its folders and "
              "hooks of a chief count: "
              "[distributed](distributed.md#checkpoints-sessions-and-estimators); "
              "`save_incremental_checkpoint_secs` saves [increments](checkpoints.md#increments)."),
        Entry("tf.train.ChiefSessionCreator tf.train.latest_checkpoint", "differs",
              "a rank that names its folder otherwise, such as by the time, restores what rank 0 "
              "saved in `MonitoredTrainingSession`"),
        Entry("tf.train.Saver", "differs",
              "with `incremental_save_restore=True` it is a "
              "`sok_compat.checkpoint.IncrementalSaver`; an increment of "
              "`tensorflow.python.training.incremental_saver`, in launched scripts, is a "
              "checkpoint in the folder of the whole one; its `IncrementalSaver` takes a "
              "`saver_def` of such a saver"),
        Entry("tf.estimator.Estimator tf.estimator.BaselineClassifier "
              "tf.estimator.BaselineEstimator tf.estimator.BaselineRegressor "
              "tf.estimator.DNNClassifier tf.estimator.DNNEstimator tf.estimator.DNNRegressor "
              "tf.estimator.DNNLinearCombinedClassifier tf.estimator.DNNLinearCombinedEstimator "
              "tf.estimator.DNNLinearCombinedRegressor tf.estimator.LinearClassifier "
              "tf.estimator.LinearEstimator tf.estimator.LinearRegressor "
              "tf.estimator.BestExporter tf.estimator.LatestExporter", "differs",
              "up to TensorFlow 2.15; of ranks that share tables rank 0 exports, with the rows of "
              "all, whether all call it or rank 0 alone, and others get None; `dtype` and "
              "`dnn_dtype` of hidden layers have no effect, and a warning says so"),
        Entry("tf.saved_model.simple_save tf.saved_model.Builder "
              "tf.saved_model.builder.SavedModelBuilder", "differs",
              "under 'collective' rank 0 writes; a graph of several ranks with embedding variables "
              "raises: [serving](serving.md)"),
        Entry("tf.gradients", "differs",
              "under 'collective' gradients of scalars by variables are means over ranks"),
        Entry("tensorflow.python.distribute.launch", "refused",
              "use `python -m sok_compat.run.launch [-np N] command...`: N processes, or one for "
              "each visible GPU; the status of the first that failed", ImportError),
    ],
    "Group lookups": [
        Entry("tf.nn.group_embedding_lookup_sparse", "differs",
              "A weighted mean is divided by the sum of weights; rows without ids are zeros; "
              "`is_sequence` gives `[batch, columns, dim]`. No gradient flows to weights of "
              "embedding variables; weights in other places than the ids raise. "
              "`partition_strategy` and `params_num_per_group` change nothing."),
        Entry("tf.nn.group_embedding_lookup", "differs",
              "ids of any shape; a variable may come twice"),
        Entry("tf.nn.embedding_lookup tf.nn.embedding_lookup_sparse", "works"),
        Entry("tf.nn.embedding_lookup_sparse_multi_dim", "differs",
              "weights that sum to 0 give zeros, not NaN"),
        Entry("tf.nn.safe_embedding_lookup_sparse", "differs",
              "`prune=False` raises; in launched scripts it is also "
              "`fused_safe_embedding_lookup_sparse` of `tensorflow.python.ops.embedding_ops`"),
    ],
    "Embedding variables": [
        Entry("tf.get_embedding_variable", "differs",
              "Key k starts as key floormod(k, `default_value_dim`) does, on any number of ranks "
              "and parts; if the initializer has a seed, with the numbers of `tf.get_variable`, "
              "as there. Default rows are drawn once in a session; an initializer that runs again "
              "empties its variable, and changes nothing there. A key gets its row in a step that "
              "computes its gradient. A regularizer or constraint raises."),
        Entry("tf.EmbeddingVariable", "differs",
              "`total_count()` and `export()` give keys of this rank, none of which was only "
              "looked up; `sparse_read`, "
              "`get_frequency`, `get_version` and lookups need all ranks. Parts have no "
              "`export()`. Versions and frequencies need a filter, eviction, `TF_RECORD_FREQ=1` "
              "or `TF_RECORD_VERSION=1`. Use as a dense tensor raises. Indices of a gradient are a "
              "lookup's row ids; keys, which DeepRec takes there, and all that is computed from "
              "other numbers than such ids raise. `target_gpu` is ignored."),
        Entry("tf.EmbeddingVariableOption tf.InitializerOption", "differs",
              "Numbers out of range and options of another kind raise `ValueError`."),
        Entry("tf.StorageOption tf.StorageType tf.CacheStrategy", "differs",
              "Types with SSD or LevelDB have rows and slots in files without names in "
              "`storage_path`, which must be there, and `storage_size[0]` bytes of them in memory, "
              "by pages; what leaves is chosen by one clock, for LRU and LFU. HBM is DRAM without "
              "a GPU; in the place of persistent memory, and of HBM before another tier, is DRAM, "
              "which a warning says once. Checkpoints hold all rows in their ordinary tensors."),
        Entry("tf.hash_table", "refused", _LATER, AttributeError),
        Entry("tensorflow.core.framework.embedding.config_pb2", "differs",
              "`tf.StorageType` and `tf.CacheStrategy` with their members, but no messages"),
        Entry("tf.CounterFilter tf.CBFFilter", "differs",
              "Keys are counted in steps that compute gradients, over all ranks: reads alone admit "
              "none. A key gets its "
              "row in the step in which it has come `filter_freq` times, which trains it, and is "
              "read from the next one on. The counts of a `CBFFilter` are exact while these take "
              "less memory than it, and are saved; then which are too high depends on the number "
              "of ranks. After an eviction a key begins with `filter_freq` there, with 0 in a "
              "`CounterFilter`."),
        Entry("tf.GlobalStepEvict tf.L2WeightEvict", "differs",
              "before `tf.train.Saver` writes; a key that no known step has trained goes from the "
              "second save on. The step is that of `minimize(global_step=...)`, or of the first "
              "`apply_gradients(global_step=...)`; else the graph's."),
        Entry("tf.CheckpointOption", "differs",
              "the initializer loads the rows of `ckpt_to_load_from`; slots start anew. "
              "`always_load_from_specific_ckpt` and `init_data_source` raise "
              "`NotImplementedError`."),
        Entry("tf.GraphKeys.EMBEDDING_VARIABLES tf.GraphKeys.EV_INIT_VAR_OPS "
              "tf.GraphKeys.EV_INIT_SLOT_OPS tf.GraphKeys.ASYNC_EMBEDDING_OUTPUT_TENSORS",
              "works"),
        Entry("tf.get_multihash_variable", "differs",
              "quotients beyond the first variable's rows wrap around; its variables are "
              "`<name>/quotients` and `<name>/remainders`"),
        Entry("tf.get_dynamic_dimension_embedding_variable", "works",
              "with `blocknums` of `tf.nn.embedding_lookup`; block i is the embedding variable "
              "`<name>/block<i>`"),
        Entry("tf.get_hash_table", "refused", _LATER, AttributeError),
        Entry("tf.MultihashOption", "refused", _LATER, AttributeError),
    ],
    "Feature columns": [
        Entry("tf.feature_column.group_embedding_column_scope", "differs",
              "ends with its `with`; of nested ones the inner counts. Scopes of one name are one "
              "group. `params_num_per_group` is ignored."),
        Entry("tf.feature_column.categorical_column_with_embedding", "differs",
              "Strings by DeepRec's hash; negative ids are left out. An `indicator_column`, or a "
              "layer of Keras, raises."),
        Entry("tf.feature_column.categorical_column_with_multihash", "differs",
              "integers only; columns over it are looked up one by one; their `dimension` is "
              "that of the variable's rows, or a pair, where `dims` are two numbers of rows"),
        Entry("tf.feature_column.linear_model", "works",
              "also over columns of embedding variables; hashed columns of dense features are "
              "looked up together; `do_fusion` is ignored"),
        Entry("tf.feature_column.embedding_column tf.feature_column.shared_embedding_columns",
              "differs",
              "`do_fusion` is ignored; `coalesced_scope`, and `ckpt_to_load_from` for an "
              "embedding variable, raise"),
        Entry("tf.feature_column.input_layer", "differs",
              "All embedding columns are looked up together, in a scope or not, but for a "
              "`sqrtn`, a `max_norm`, parts, and weights outside of a scope. Order, names and "
              "outputs are TensorFlow's. A second call has variables of its own. "
              "A mask of `adaptive_mask_tensors` has an entry for each id, or else for each "
              "sample."),
        Entry("tf.contrib.feature_column.sequence_input_layer "
              "tf.contrib.feature_column.sequence_categorical_column_with_embedding", "works",
              "the column also in `tensorflow.python.feature_column.sequence_feature_column`, in "
              "launched scripts; there options are in `tensorflow.python.ops.variables`, too"),
        Entry("tf.feature_column.categorical_column_with_adaptive_embedding "
              "tf.nn.adaptive_embedding_lookup_sparse", "differs",
              "The ids of a sample are combined; in DeepRec there is one. A key without a row "
              "reads the row of its bucket, and starts with it in a step that computes gradients, "
              "which a filter delays as for any key. The column is for `embedding_column` alone. A "
              "missing mask raises `ValueError`, a `group_embedding_column_scope` `TypeError`."),
    ],
    "Optimizers": [
        Entry("tf.train.AdagradOptimizer tf.train.GradientDescentOptimizer "
              "tf.train.MomentumOptimizer", "works"),
        Entry("tf.train.AdamOptimizer", "works", "on embedding variables lazily, as there"),
        Entry("tf.train.FtrlOptimizer", "differs",
              "on embedding variables with a `learning_rate_power` of -0.5; l1 is their group "
              "lasso, as there"),
        Entry("tf.train.RowWiseAdagradOptimizer", "new",
              "Adagrad with [one accumulator a row](optimizers.md)"),
        Entry("tf.train.AdamAsyncOptimizer tf.train.AdamWOptimizer", "works",
              "on ordinary variables, too"),
        Entry("tensorflow.python.training.weight_decay_optimizers."
              "extend_with_decoupled_weight_decay", "differs",
              "embedding variables decay with Adam alone; others raise"),
        Entry("tf.train.AdagradDecayOptimizer tf.train.AdagradDecayOptimizerV2", "differs",
              "The update that raises the global step to a multiple of `accumulator_decay_step`, "
              "or the first after it, lets the accumulators of all rows in use decay by what is "
              "due. In DeepRec a row decays when its key comes next, by one power at a time, a "
              "new key's row also for the periods before it."),
        Entry("tf.train.AdadeltaOptimizer tf.train.AdagradDAOptimizer "
              "tf.train.ProximalAdagradOptimizer tf.train.ProximalGradientDescentOptimizer "
              "tf.train.RMSPropOptimizer", "differs",
              "train ordinary variables, and raise for embedding variables"),
    ],
    "`tf.contrib`": [
        Entry("tf.contrib.layers.fully_connected tf.contrib.layers.batch_norm "
              "tf.contrib.layers.layer_norm tf.contrib.layers.dropout tf.contrib.layers.stack "
              "tf.contrib.framework.arg_scope", "works",
              "names of variables, collections and numbers are TensorFlow 1's; `batch_weights`, "
              "`renorm`, NCHW and DeepRec's `use_fused_batch_norm` raise"),
        Entry("tf.contrib.layers.embedding_column tf.contrib.layers.shared_embedding_columns "
              "tf.contrib.layers.input_from_feature_columns "
              "tf.contrib.layers.sparse_column_with_embedding "
              "tf.contrib.layers.weighted_sum_from_feature_columns", "differs",
              "also over its other columns, which are those of `tf.feature_column`, except for "
              "`crossed_column`, `hash_keys` and dynamic dimensions; order and names are those of "
              "TensorFlow 1; `init_data_source` raises"),
        Entry("tensorflow.contrib.rnn.python.ops.core_rnn_cell._Linear", "works"),
    ],
    "How fast a step is, and where it runs": [
        Entry("tf.staged tf.make_prefetch_hook tf.train.mark_target_node", "differs",
              "no effect on results or speed; the hook feeds the values of a `feed_generator`; "
              "a `feed_dict` raises"),
        Entry("tf.variable_scope", "works",
              "with `keep_weights`, whose casts TensorFlow does not fuse"),
        Entry("tensorflow.python.ops.work_queue.WorkQueue", "differs",
              "Under 'collective' rank r of N takes every N-th item, from the r-th on. No "
              "checkpoint has its position. `num_slices` is ignored."),
        Entry("tensorflow.python.data.experimental.ops.parquet_dataset_ops.ParquetDataset "
              "tensorflow.python.data.experimental.ops.parquet_dataset_ops.read_parquet "
              "tensorflow.python.data.experimental.ops.parquet_dataset_ops.DataFrame",
              "differs",
              "Read by pyarrow, 16 to 26 (`pip install 'sok_compat[parquet]'`). Columns of lists "
              "give RaggedTensors. A batch is of one file; part i of n are row groups i, i + n, "
              "... Missing values raise. `ARROW_NUM_THREADS` is ignored."),
        Entry("tf.ConfigProto tf.GPUOptions tf.GraphOptions tf.OptimizerOptions", "differs",
              "switches that TensorFlow 2 does not have are ignored, with a warning. A "
              "`micro_batch_num` of n, set before the optimizer's `minimize`, trains n batches in "
              "a step of `MonitoredTrainingSession` or an Estimator: gradients are their means, "
              "fetched values are the last one's. Where that cannot be had, it raises."),
        Entry("tf.ExecutorPolicy", "differs",
              "no effect: `executor_policy` of a `tf.ConfigProto` is such a switch"),
        Entry("tf.train.Server tf.distribute.Server", "works",
              "with a `tf.ConfigProto` of DeepRec, too"),
        Entry("tf.distribute.MirroredStrategy tf.distribute.OneDeviceStrategy", "works",
              "also by their older name `experimental_run_v2`"),
        Entry("tf.device", "differs",
              "a GPU becomes the CPU, with one warning, where TensorFlow has none"),
    ],
}  # fmt: skip

BEHAVIOUR = [  # (what, state, note): of no single name
    ("names of TensorFlow 1 in `tensorflow.python` that TensorFlow 2 has moved", "works",
     "in launched scripts: those of `framework.ops`, `ops.array_ops`, `ops.control_flow_ops`, "
     "`ops.rnn_cell` and `util.nest` that DeepRec's models use, and columns in "
     "`feature_column.feature_column` and `feature_column_v2`"),
    ("older names of embedding variables, in `tensorflow.python.ops`", "differs",
     "in launched scripts: `variables.CounterFilterOptions`, `variable_scope."
     "get_embedding_variable` with `filter_options`, `kv_variable_ops.EmbeddingVariable`; "
     "`variables.EmbeddingVariableConfig` is there to be looked for, and raises"),
    ("clusters", "differs",
     "There are ranks, but no parameter servers: embedding variables on a device of one raise, and "
     "the launcher ends at once where `TF_CONFIG` has several tasks."),
    ("the version of the distribution `tensorflow`", "differs",
     "in launched scripts `pkg_resources` and `importlib.metadata` give the installed "
     "TensorFlow's with `+deeprec2402`, as scripts look for that; `tf.__version__` is without"),
    ("gradients on several ranks", "differs",
     "those of the mean of the ranks' losses: [losses on several ranks]"
     "(#losses-on-several-ranks)"),
    ("variables at the start, on several ranks", "differs",
     "`tf.train.MonitoredTrainingSession` broadcasts rank 0's; with a plain `tf.Session` call "
     "`hvd.broadcast_global_variables(0)`"),
    ("checkpoints", "works",
     "in [DeepRec's layout](checkpoints_deeprec.md), on any number of ranks; increments are "
     "[sok_compat's own](checkpoints.md#increments)"),
    ("`tf.train.init_from_checkpoint`, `tf.train.warm_start`, `warm_start_from` of estimators",
     "differs",
     "give an embedding variable an initializer that loads its rows; slots raise, so give "
     "`warm_start` one regular expression, not a list of names"),
    ("TensorFlow's own optimizers, imported past this namespace", "differs",
     "train embedding variables without averages over ranks; those that move all rows of a "
     "variable, as Adam, raise"),
    ("ordinary variables in a group lookup", "differs",
     "whole on each rank; rows of other floats become float32"),
]  # fmt: skip


def entries():
    """All entries, in order."""
    return [entry for section in SECTIONS.values() for entry in section]
