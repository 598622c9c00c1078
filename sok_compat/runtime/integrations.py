# SPDX-License-Identifier: Apache-2.0
"""Every change that this package makes to TensorFlow or Horovod at run time: one list, one helper.

Those to Horovod stand in horovod_integrations.py.

Nothing is changed by importing. Who knows what to put in the place of a function calls `apply`.
"""

import tensorflow as tf

from sok_compat.runtime.horovod_integrations import ON_HOROVOD
from sok_compat.runtime.integration import Integration, found_at
from sok_compat.runtime.tf_versions import (
    BaseSaverBuilder,
    MonitoredSessionOfAnyKind,
    checkpoint,
    checkpoint_utils,
    clip_ops,
    convert_to_constants,
    distribute,
    functional_saver,
    gradients_util,
    hdf5_format,
    keras,
    slot_creator,
    warm_starting_util,
    worker_training_state,
)

_TENSORFLOW = "TensorFlow 2.15 to 2.21"
INTEGRATIONS = {
    integration.name: integration
    for integration in (
        Integration(
            "tf.train.Saver",
            "a saver that is given a table saves its keys, rows and slots, not the rows alone",
            _TENSORFLOW,
            "BaseSaverBuilder._build_internal",
            ("self", "names_to_saveables", "reshape", "sharded", "max_to_keep",
             "keep_checkpoint_every_n_hours", "name", "restore_sequentially", "filename",
             "build_save", "build_restore"),
            lambda: [(BaseSaverBuilder, "_build_internal")],
        ),
        Integration(
            "tf.train.Saver.save",
            "says how far it is; on several ranks, rank 0 alone writes what stands beside a "
            "checkpoint with tables",
            _TENSORFLOW,
            "Saver.save",
            ("self", "sess", "save_path", "global_step", "latest_filename", "meta_graph_suffix",
             "write_meta_graph", "write_state", "strip_default_attrs", "save_debug_info"),
            lambda: [(tf.compat.v1.train.Saver, "save")],
        ),
        Integration(
            "tf.train.Saver.restore",
            "says how far it is; of a checkpoint that rank 0 alone has, other ranks get a copy",
            _TENSORFLOW,
            "Saver.restore",
            ("self", "sess", "save_path"),
            lambda: [(tf.compat.v1.train.Saver, "restore")],
        ),
        *(
            Integration(
                f"tf.train.Checkpoint.{method}",
                "checkpoints by objects hold keys, rows and slots of tables, of all ranks",
                _TENSORFLOW,
                f"MultiDeviceSaver.{method}",
                ("self", *parameters),
                lambda method=method: [(functional_saver.MultiDeviceSaver, method)],
            )
            for method, parameters in (
                ("__init__",
                 ("serialized_tensors", "registered_savers", "call_with_mapped_captures")),
                ("save", ("file_prefix", "options")),
                ("restore", ("file_prefix", "options")),
            )
        ),
        *(
            Integration(
                f"tf.train.{function}",
                "on several ranks, rank 0 alone looks after the files beside such checkpoints",
                _TENSORFLOW,
                f"{of_class}{function}",
                parameters,
                lambda owner=owner, function=function: [(owner, function)],
            )
            for owner, of_class, function, parameters in (
                (checkpoint, "", "_update_checkpoint_state_internal", ("file_path",)),
                (tf.train.CheckpointManager, "CheckpointManager.", "_record_state", ("self",)),
                (tf.train.CheckpointManager, "CheckpointManager.", "_sweep", ("self",)),
            )
        ),
        Integration(
            "tf.train.Checkpoint.restore (by path)",
            "of a checkpoint that rank 0 alone has, other ranks get a copy",
            _TENSORFLOW,
            "TrackableSaver.restore",
            ("self", "save_path", "options"),
            lambda: [(checkpoint.TrackableSaver, "restore")],
        ),
        Integration(
            "tf.train.restore_or_initialize",
            "the same, of the latest one that rank 0 has",
            _TENSORFLOW,
            "CheckpointManager.restore_or_initialize",
            ("self",),
            lambda: [(tf.train.CheckpointManager, "restore_or_initialize")],
        ),
        Integration(
            "tf.keras.callbacks.BackupAndRestore",
            "on several ranks, rank 0 alone deletes the backup of a model with tables",
            _TENSORFLOW,
            "WorkerTrainingState.delete_backup",
            ("self",),
            lambda: [(worker_training_state.WorkerTrainingState, "delete_backup")],
        ),
        Integration(
            "tf.train.SessionManager",
            "on several ranks, sessions with tables restore the checkpoint that rank 0 finds",
            _TENSORFLOW,
            "SessionManager._restore_checkpoint",
            ("self", "master", "saver", "checkpoint_dir", "checkpoint_filename_with_path",
             "wait_for_checkpoint", "max_wait_secs", "config"),
            lambda: [(tf.compat.v1.train.SessionManager, "_restore_checkpoint")],
        ),
        Integration(
            "tf.train.MonitoredSession",
            "on several ranks, hooks save a checkpoint with tables in the same steps",
            _TENSORFLOW,
            "_MonitoredSession.__init__",
            ("self", "session_creator", "hooks", "should_recover", "stop_grace_period_secs"),
            lambda: [(MonitoredSessionOfAnyKind, "__init__")],
        ),
        Integration(
            "tf.train.init_from_checkpoint",
            "loads DeepRec's tables, raises for others, and warns of those in a scope",
            _TENSORFLOW,
            "_init_from_checkpoint",
            ("ckpt_dir_or_file", "assignment_map"),
            lambda: [(checkpoint_utils, "_init_from_checkpoint")],
        ),
        Integration(
            "tf.train.warm_start",
            "gives init_from_checkpoint tables by name, which are no tensors that have one",
            _TENSORFLOW,
            "_infer_var_name",
            ("var",),
            lambda: [(warm_starting_util, "_infer_var_name")],
        ),
        Integration(
            "tf.train.ExponentialMovingAverage",
            "raises for a table, whose later rows would have averages that start from zeros",
            _TENSORFLOW,
            "ExponentialMovingAverage.apply",
            ("self", "var_list"),
            lambda: [(tf.train.ExponentialMovingAverage, "apply")],
        ),
        Integration(
            "convert_variables_to_constants",
            "raises for a graph with tables, which would keep their rows and lose their keys",
            _TENSORFLOW,
            "_replace_variables_by_constants",
            ("converter_data",),
            lambda: [(convert_to_constants, "_replace_variables_by_constants")],
        ),
        Integration(
            "tf.GradientTape.gradient",
            "on several ranks, marks the gradients of tables, so that they are known again",
            _TENSORFLOW,
            "GradientTape.gradient",
            ("self", "target", "sources", "output_gradients", "unconnected_gradients"),
            lambda: [(tf.GradientTape, "gradient")],
        ),
        Integration(
            "tf.gradients",
            "the same, also for the optimizers of tf.compat.v1.train",
            _TENSORFLOW,
            "_GradientsHelper",
            ("ys", "xs", "grad_ys", "name", "colocate_gradients_with_ops", "gate_gradients",
             "aggregation_method", "stop_gradients", "unconnected_gradients", "src_graph"),
            lambda: [(gradients_util, "_GradientsHelper")],
            newer_parameters=("optimize_identity_n",),
        ),
        Integration(
            "tf.clip_by_global_norm",
            "on several ranks, warns once of tables, of which the norm takes this rank's rows",
            _TENSORFLOW,
            "global_norm",
            ("t_list", "name"),
            lambda: [(clip_ops, "global_norm")],  # what it calls, also for Keras
        ),
        Integration(
            "tf.Session.run",
            "on several ranks, counts the steps that it refuses, as those that fail later count",
            _TENSORFLOW,
            "BaseSession._run",
            ("self", "handle", "fetches", "feed_dict", "options", "run_metadata"),
            lambda: [(tf.compat.v1.Session.__base__, "_run")],
        ),
        *(
            Integration(
                f"tf.distribute.StrategyExtended.{method}",
                purpose,
                _TENSORFLOW,
                f"StrategyExtendedV2.{method}",
                ("self", *parameters),
                lambda method=method: [(distribute.StrategyExtended, method)],
            )
            for method, purpose, parameters in (
                ("update", "a strategy of one replica updates tables, which it has not wrapped",
                 ("var", "fn", "args", "kwargs", "group")),
                ("colocate_vars_with", "the same, where slots are made beside a table",
                 ("colocate_with_variable",)),
                ("variable_created_in_scope", "the same, where a model is compiled", ("v",)),
            )
        ),
        Integration(
            "tf.keras.optimizers.Optimizer.build",
            "makes slots of tables as planes, without initial values of the declared capacity",
            _TENSORFLOW,
            "_BaseOptimizer.build",
            ("self", "var_list"),
            lambda: [(keras.optimizers.Optimizer.__base__, "build")],
        ),
        Integration(
            "tf.keras.optimizers.Optimizer._update_step",
            "lets an optimizer compute on the rows in use of a table, and not on all declared",
            _TENSORFLOW,
            "_BaseOptimizer._update_step",
            ("self", "gradient", "variable"),
            lambda: [(keras.optimizers.Optimizer.__base__, "_update_step")],
        ),
        Integration(
            "tf.keras.optimizers.Optimizer._apply_weight_decay",
            "the same, where weights decay",
            _TENSORFLOW,
            "Optimizer._apply_weight_decay",
            ("self", "variables"),
            lambda: [(keras.optimizers.Optimizer, "_apply_weight_decay")],
        ),
        Integration(
            "tf.keras.optimizers.legacy.Optimizer.add_slot",
            "makes slots of tables whose scripts know no scope as planes",
            _TENSORFLOW,
            "OptimizerV2.add_slot",
            ("self", "var", "slot_name", "initializer", "shape"),
            lambda: [(keras.optimizers.legacy.Optimizer, "add_slot")],
        ),
        Integration(
            "tf.keras.optimizers.Optimizer.add_variable_from_reference",
            "notes slots of variables that are saved as tables are",
            _TENSORFLOW,
            "_BaseOptimizer.add_variable_from_reference",
            ("self", "model_variable", "variable_name", "shape", "initial_value"),
            lambda: [(keras.optimizers.Optimizer.__base__, "add_variable_from_reference")],
        ),
        Integration(
            "tf.compat.v1.train.Optimizer, slots",
            "as add_slot",
            _TENSORFLOW,
            "_create_slot_var",
            ("primary", "val", "scope", "validate_shape", "shape", "dtype", "copy_xla_sharding"),
            lambda: [(slot_creator, "_create_slot_var")],
        ),
        Integration(
            "tf.keras.save_subset_weights_to_hdf5_group",
            "raises for a table, whose rows an `.h5` file would have without their keys",
            _TENSORFLOW,
            "save_subset_weights_to_hdf5_group",
            ("f", "weights"),
            lambda: [(hdf5_format, "save_subset_weights_to_hdf5_group")],
        ),
        *ON_HOROVOD,
    )
}  # fmt: skip

_originals = {}  # {name: what was replaced}
_replacements = {}  # {name: what is there now}


def apply(name, wrap):
    """Replaces the function of an integration; nothing happens where that is done already.

    Args:
      name: of the integration.
      wrap: a function of what is there: what to put in its place.

    Raises:
      RuntimeError: what is there is not what it was on the releases that this was tested on.
    """
    if name in _originals:
        return
    integration = INTEGRATIONS[name]
    original = integration.check()
    _originals[name], _replacements[name] = original, wrap(original)
    for owner, attribute in integration.places():
        setattr(owner, attribute, _replacements[name])


def undo(name):
    """Puts back the very object that was replaced; nothing happens where there is none.

    Raises:
      RuntimeError: somebody else has replaced the replacement since.
    """
    if name not in _originals:
        return
    places = INTEGRATIONS[name].places()
    if any(found_at(place) is not _replacements[name] for place in places):
        raise RuntimeError(f"{name} has been changed since sok_compat changed it: undo that first")
    for owner, attribute in places:
        setattr(owner, attribute, _originals[name])
    del _originals[name], _replacements[name]


def applied():
    """The Integrations that are in force, in the order of the list."""
    return [integration for name, integration in INTEGRATIONS.items() if name in _originals]
