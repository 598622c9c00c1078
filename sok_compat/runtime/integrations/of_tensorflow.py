# SPDX-License-Identifier: Apache-2.0
"""The integrations with TensorFlow and Keras, in the list of integrations."""

import tensorflow as tf

from sok_compat.runtime.integrations.integration import Integration
from sok_compat.runtime.tf_versions import (
    DefaultStrategyExtended,
    MonitoredSessionOfAnyKind,
    _DenseResourceVariableProcessor,
    checkpoint,
    checkpoint_utils,
    clip_ops,
    cond_v2,
    control_flow_ops,
    control_flow_state,
    custom_gradient,
    distribute,
    error_interpolation,
    functional_saver,
    gradients_util,
    hdf5_format,
    keras_3_of_scripts,
    keras_optimizers,
    saver_module,
    state_ops,
    warm_starting_util,
)

_TENSORFLOW = "TensorFlow 2.15 to 2.21"


def _integration(name, purpose, tested_by, owner, attribute, parameters, *, of=None, **others):
    """`owner` is a function, as some objects do not exist on all releases; `of` names its class."""
    return Integration(
        name=name,
        purpose=purpose,
        tested_on=_TENSORFLOW,
        tested_by=f"tests/{tested_by}.py",
        qualname=f"{of}.{attribute}" if of else attribute,
        parameters=parameters,
        places=lambda: [(owner(), attribute)],
        **others,
    )


_OF_CHECKPOINTS = (
    _integration(
        "tf.train.Saver, its builder",
        "a saver with a table saves its keys, rows and slots, not just its rows",
        "saver/test_tf_saver",
        lambda: saver_module,
        "BulkSaverBuilder",
        ("write_version",),
        overridden={
            "_build_internal": (
                "self", "names_to_saveables", "reshape", "sharded", "max_to_keep",
                "keep_checkpoint_every_n_hours", "name", "restore_sequentially", "filename",
                "build_save", "build_restore",
            ),
            "_AddSaveOps": ("self", "filename_tensor", "saveables"),
            "_AddShardedSaveOps": ("self", "filename_tensor", "per_device"),
            "_AddRestoreOps": (
                "self", "filename_tensor", "saveables", "restore_sequentially", "reshape",
                "preferred_shard", "name",
            ),
            "_AddShardedRestoreOps": (
                "self", "filename_tensor", "per_device", "restore_sequentially", "reshape",
            ),
            "bulk_restore": (
                "self", "filename_tensor", "saveables", "preferred_shard", "restore_sequentially",
            ),
        },
    ),
    _integration(
        "tf.train.Saver.save",
        "logs its progress; on several ranks, only rank 0 writes the files beside a checkpoint "
        "with tables",
        "distributed/checkpoints/test_checkpoints",
        lambda: tf.compat.v1.train.Saver,
        "save",
        ("self", "sess", "save_path", "global_step", "latest_filename", "meta_graph_suffix",
         "write_meta_graph", "write_state", "strip_default_attrs", "save_debug_info"),
        of="Saver",
    ),
    _integration(
        "tf.train.Saver.restore",
        "logs its progress, and the tables that a graph lacks; if only rank 0 has the checkpoint, "
        "other ranks get a copy",
        "distributed/checkpoints/test_checkpoints",
        lambda: tf.compat.v1.train.Saver,
        "restore",
        ("self", "sess", "save_path"),
        of="Saver",
    ),
    _integration(
        "tf.train.Checkpoint, its saver",
        "object-based checkpoints hold keys, rows and slots of tables, of all ranks",
        "distributed/checkpoints/test_object_checkpoints",
        lambda: functional_saver,
        "MultiDeviceSaver",
        ("serialized_tensors", "registered_savers", "call_with_mapped_captures"),
        overridden={
            method: ("self", "file_prefix", "options") for method in ("save", "restore")
        },
    ),
    _integration(
        "tf.train.Checkpoint.restore, by path",
        "if only rank 0 has the checkpoint, other ranks get a copy",
        "distributed/checkpoints/test_object_checkpoints",
        lambda: checkpoint.TrackableSaver,
        "restore",
        ("self", "save_path", "options"),
        of="TrackableSaver",
    ),
    _integration(
        "tf.train.CheckpointManager.save",
        "on several ranks, rank 0 alone decides which checkpoints are kept, and deletes the others",
        "distributed/checkpoints/test_object_checkpoints",
        lambda: tf.train.CheckpointManager,
        "save",
        ("self", "checkpoint_number", "check_interval", "options"),
        of="CheckpointManager",
    ),
    _integration(
        "tf.train.SessionManager",
        "on several ranks, sessions with tables restore the checkpoint that rank 0 finds",
        "distributed/checkpoints/test_resuming",
        lambda: tf.compat.v1.train.SessionManager,
        "_restore_checkpoint",
        ("self", "master", "saver", "checkpoint_dir", "checkpoint_filename_with_path",
         "wait_for_checkpoint", "max_wait_secs", "config"),
        of="SessionManager",
    ),
    _integration(
        "tf.train.MonitoredSession",
        "on several ranks, hooks save a checkpoint with tables in the same steps",
        "distributed/checkpoints/test_resuming",
        lambda: MonitoredSessionOfAnyKind,
        "__init__",
        ("self", "session_creator", "hooks", "should_recover", "stop_grace_period_secs"),
        of="_MonitoredSession",
    ),
    _integration(
        "tf.train.init_from_checkpoint",
        "loads DeepRec's tables, raises for others, and warns of those in a scope",
        "deeprec/checkpoints/test_start_from_checkpoint",
        lambda: checkpoint_utils,
        "_init_from_checkpoint",
        ("ckpt_dir_or_file", "assignment_map"),
    ),
    _integration(
        "tf.train.warm_start",
        "passes tables to init_from_checkpoint by name; they are not tensors with one",
        "deeprec/checkpoints/test_start_from_checkpoint",
        lambda: warm_starting_util,
        "_infer_var_name",
        ("var",),
    ),
    _integration(
        "tf.keras.Model.save_weights, to .h5",
        "raises for a table, as the file would have its rows without their keys",
        "variables/test_kept_rows",
        hdf5_format,
        "save_subset_weights_to_hdf5_group",
        ("f", "weights"),
    ),
)  # fmt: skip
_OF_GRADIENTS = (
    _integration(
        "tf.GradientTape.gradient",
        "on several ranks, marks the gradients of tables, to recognise them later",
        "runtime/test_shared_gradients",
        lambda: tf.GradientTape,
        "gradient",
        ("self", "target", "sources", "output_gradients", "unconnected_gradients"),
        of="GradientTape",
    ),
    _integration(
        "tf.gradients",
        "the same, also for the optimizers of tf.compat.v1.train",
        "runtime/test_shared_gradients",
        lambda: gradients_util,
        "_GradientsHelper",
        ("ys", "xs", "grad_ys", "name", "colocate_gradients_with_ops", "gate_gradients",
         "aggregation_method", "stop_gradients", "unconnected_gradients", "src_graph"),
        newer_parameters=("optimize_identity_n",),
    ),
    _integration(
        "tf.cond, gradients",
        "a branch without a lookup in a table gives empty slices, not zeros for all rows",
        "layers/test_control_flow",
        lambda: cond_v2,
        "_create_zeros_for_none_grads",
        ("forward_graphs", "grad_graphs"),
    ),
    _integration(
        "tf.cond of TensorFlow 1, gradients",
        "the same for the older control flow",
        "layers/test_control_flow",
        lambda: control_flow_state,
        "ZerosLike",
        ("op", "index"),
    ),
    _integration(
        "tf.while_loop of TensorFlow 1, gradients",
        "the gradient of a table begins with no slices, not with zeros for its row 0",
        "layers/test_control_flow",
        lambda: control_flow_ops.WhileContext,
        "AddBackpropIndexedSlicesAccumulator",
        ("self", "op", "grad"),
        of="WhileContext",
    ),
    _integration(
        "tf.recompute_grad, in graphs",
        "does not read tables as a whole for the gradient of a layer behind a lookup",
        "lookup/test_gradients",
        lambda: custom_gradient,
        "_graph_mode_decorator",
        ("f", "args", "kwargs"),
    ),
    _integration(
        "tf.clip_by_global_norm",
        "on several ranks, the norm covers a table's rows of all ranks",
        "runtime/test_shared_gradients",
        lambda: clip_ops,  # Keras calls this one, too
        "global_norm",
        ("t_list", "name"),
    ),
    _integration(
        "errors of tf.compat.v1.Session.run",
        "on several ranks, the message of a failed op of this package begins with its sentence",
        "runtime/test_exchange_errors",
        lambda: error_interpolation,
        "interpolate_graph",
        ("message", "graph"),
    ),
)  # fmt: skip
_OF_OPTIMIZERS = (
    _integration(
        "tf.distribute.StrategyExtended.update",
        "a strategy with one replica updates tables, though it has not wrapped them; optimizers of "
        "tf.keras.optimizers compute on the rows in use; moving averages of tables raise",
        "runtime/test_strategies",
        lambda: distribute.StrategyExtended,
        "update",
        ("self", "var", "fn", "args", "kwargs", "group"),
        of="StrategyExtendedV2",
    ),
    *(
        _integration(
            f"tf.distribute.{owner}.colocate_vars_with",
            f"slots that stock optimizers make beside a table {how}",
            tested_by,
            found,
            "colocate_vars_with",
            ("self", "colocate_with_variable"),
            of=of,
        )
        for owner, how, tested_by, found, of in (
            ("StrategyExtended", "follow the table in a strategy", "runtime/test_strategies",
             lambda: distribute.StrategyExtended, "StrategyExtendedV2"),
            ("get_strategy().extended", "are planes of it in scripts without an OptimizerScope",
             "distributed_embeddings/test_plans_on_ranks",
             lambda: DefaultStrategyExtended,
             "_DefaultDistributionExtended"),
        )
    ),
    _integration(
        "tf.keras.optimizers.Optimizer.build",
        "creates slots of tables as planes, without initial values for the declared capacity",
        "optimizers/test_keras_optimizers",
        lambda: keras_optimizers.Optimizer.__base__,
        "build",
        ("self", "var_list"),
        of="_BaseOptimizer",
    ),
    _integration(
        "tf.compat.v1.train.Optimizer.apply_gradients",
        "slots are made where the number of a table's rows is not known, or is not to be",
        "tables/test_undeclared_capacity",
        lambda: tf.compat.v1.train.Optimizer,
        "apply_gradients",
        ("self", "grads_and_vars", "global_step", "name", "skip_gradients_aggregation"),
        of="Optimizer",
    ),
    _integration(
        "tf.compat.v1.train.Optimizer.apply_gradients, outside of graphs",
        "a gradient of a table is applied to the rows that its keys have then, or raises",
        "variables/test_rows_of_gradients",
        lambda: _DenseResourceVariableProcessor,
        "update_op",
        ("self", "optimizer", "g"),
        of="_DenseResourceVariableProcessor",
    ),
)  # fmt: skip
_OF_WRITES = tuple(
    _integration(
        f"tf.{function} and its like, their ops",
        "writes to a table by index go through its methods, as rows belong to keys",
        "variables/test_writes_by_index",
        lambda: state_ops,
        module,
        (),
        overridden={
            f"resource_{prefix}_{update}": (first, "indices", "updates", *others, "name")
            for update in updates
        },
        newer_parameters=("bad_indices_policy",),
    )
    for function, prefix, module, updates, first, others in (
        ("scatter_update", "scatter", "gen_resource_variable_ops",
         ("add", "div", "max", "min", "mul", "sub", "update"), "resource", ()),
        ("scatter_nd_update", "scatter_nd", "gen_state_ops",
         ("add", "sub", "update"), "ref", ("use_locking",)),
    )
)  # fmt: skip
_OF_KERAS_3 = (
    _integration(
        "tf.keras.optimizers.LossScaleOptimizer.check_finite",
        "looks at the values of slices, not at as many rows as a table declares",
        "optimizers/test_keras_optimizers",
        lambda: keras_3_of_scripts.optimizers.LossScaleOptimizer,
        "check_finite",
        ("self", "grads"),
        of="LossScaleOptimizer",
    ),
)
_OF_PRODUCTS = (
    _integration(
        "tf.compat.v1.Session, its configuration",
        "with --bfloat16 alone: asks for products of matrices in bfloat16",
        "deeprec/scripts/test_bfloat16_products",
        lambda: tf.compat.v1.Session.__base__,
        "__init__",
        ("self", "target", "graph", "config"),
        of="BaseSession",
    ),
)
ON_TENSORFLOW = (*_OF_CHECKPOINTS, *_OF_GRADIENTS, *_OF_OPTIMIZERS, *_OF_WRITES, *_OF_PRODUCTS)
if keras_3_of_scripts is not None:
    ON_TENSORFLOW += _OF_KERAS_3
