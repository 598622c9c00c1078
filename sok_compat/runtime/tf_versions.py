# SPDX-License-Identifier: Apache-2.0
"""Every difference between TensorFlow releases, and the private functions of it that are used."""

import importlib
import types

import tensorflow as tf
from tensorflow._api.v2.compat import v2 as tensorflow_2
from tensorflow.python.checkpoint import (
    checkpoint,
    checkpoint_management,
    functional_saver,
)
from tensorflow.python.client import session
from tensorflow.python.eager import context
from tensorflow.python.framework import convert_to_constants, tensor_util
from tensorflow.python.ops import (
    clip_ops,
    control_flow_v2_func_graphs,
    gen_resource_variable_ops,
    gradients_util,
    resource_variable_ops,
    variable_scope,
)
from tensorflow.python.ops.variables import (
    PartitionedVariable,
    Variable,  # of any kind, also where tf has v1's
)
from tensorflow.python.trackable import base as trackable
from tensorflow.python.training import (
    checkpoint_utils,
    monitored_session,
    slot_creator,
    warm_starting_util,
)
from tensorflow.python.training.saver import BaseSaverBuilder, BulkSaverBuilder
from tensorflow.python.training.saving.saveable_object_util import (
    SaveableCompatibilityConverter,
    saveable_objects_for_op,
)
from tensorflow.python.util import deprecation

VERSION = tuple(int(part) for part in tf.__version__.split(".")[:2])

if VERSION >= (2, 16):  # tf.keras is Keras 3, which has no TF1 graph mode; Keras 2 is tf-keras
    try:
        import tf_keras as keras
    except ImportError as error:
        raise ImportError(
            f"TensorFlow {tf.__version__} needs Keras 2 for graph mode: pip install "
            f"tf-keras~={VERSION[0]}.{VERSION[1]}.0 (and set TF_USE_LEGACY_KERAS=1 where your "
            "script uses tf.keras itself)"
        ) from error
else:  # that of TensorFlow 2: a script may have put names of tf.compat.v1 in the place of tf's
    keras = tensorflow_2.keras

distribute = tensorflow_2.distribute  # likewise
_keras_source = f"{keras.Model.__module__.partition('.src')[0]}.src"
hdf5_format = importlib.import_module(f"{_keras_source}.saving.legacy.hdf5_format")
worker_training_state = importlib.import_module(f"{_keras_source}.distribute.worker_training_state")

Trackable = trackable.Trackable
BaseResourceVariable = resource_variable_ops.BaseResourceVariable
SessionInterface = session.SessionInterface
CondBranchFuncGraph = control_flow_v2_func_graphs.CondBranchFuncGraph
EagerResourceDeleter = resource_variable_ops.EagerResourceDeleter
MonitoredSessionOfAnyKind = monitored_session._MonitoredSession
FetchMapper = session._FetchMapper  # what a session makes of its argument `fetches`
anonymous_name = context.anonymous_name  # as shared_name: a resource for each handle
track_variable = keras.__internal__.backend.track_variable  # for Keras to initialize, in a graph
eager_context = context.context  # the process's, which ops run in
eager_mode = context.eager_mode  # as a context manager
var_handle_op = gen_resource_variable_ops.var_handle_op
var_is_initialized_op = gen_resource_variable_ops.var_is_initialized_op
variable_accessed = resource_variable_ops.variable_accessed  # tells tapes and functions
variable_shape = resource_variable_ops.variable_shape  # static where the handle's shape is
constant_value = tensor_util.constant_value
silence_deprecation = deprecation.silence


def is_eager_disabled():
    """Whether the script has called disable_v2_behavior or disable_eager_execution."""
    return context.default_execution_mode == context.GRAPH_MODE


def eager_variable_handle(shape, dtype, name):
    """The handle of a variable without a value, in eager mode."""
    return resource_variable_ops._variable_handle_from_shape_and_dtype(
        shape, dtype, shared_name=None, name=name, graph_mode=False
    )


def variables_by_name():
    """{name: variable} of what tf.get_variable has made in the default graph."""
    return variable_scope._get_default_variable_store()._vars


_OF_FEATURE_COLUMNS = {  # module: names; input_layer is of the first, its columns of the second
    "feature_column": (
        *("_CategoricalColumn", "_DenseColumn", "_LazyBuilder", "_SequenceDenseColumn"),
        *("_SharedEmbeddingColumn", "_normalize_feature_columns"),
        *("_to_sparse_input_and_drop_ignore_values", "_verify_static_batch_size_equality"),
    ),
    "feature_column_v2": (
        *("BucketizedColumn", "CrossedColumn", "EmbeddingColumn", "HashedCategoricalColumn"),
        *("IdentityCategoricalColumn", "SequenceCategoricalColumn"),
    ),
}


def _feature_columns():
    """What feature columns are made of, by their names; and `missing`: None, or what is not there.

    Then all names are empty classes: what is derived from them can be, and says so when used.
    """
    found, missing = {}, None
    for module, names in _OF_FEATURE_COLUMNS.items():
        try:
            module = importlib.import_module(f"tensorflow.python.feature_column.{module}")
            found.update((name.lstrip("_"), getattr(module, name)) for name in names)
        except (AttributeError, ImportError) as error:
            missing = missing or str(error)
    if missing:
        names = [name.lstrip("_") for group in _OF_FEATURE_COLUMNS.values() for name in group]
        found = {name: type(name, (), {}) for name in names}
    return types.SimpleNamespace(missing=missing, **found)


feature_columns = _feature_columns()


def make_slots(optimizer, variables):
    """Makes all variables of a Keras optimizer that trains `variables`.

    Raises:
      TypeError: it is no Keras optimizer.
    """
    if hasattr(optimizer, "_create_all_weights"):  # a legacy one
        optimizer._create_all_weights(variables)
    elif hasattr(optimizer, "build"):
        optimizer.build(variables)
    else:
        raise TypeError(f"expected a Keras optimizer, got {type(optimizer).__name__}")


def reroute_input(op, index, tensor):
    """Gives an op that no session has run yet another input."""
    op._update_input(index, tensor)


def replace_control_inputs(op, control_inputs):
    """Makes an op that no session has run yet wait for other ops than before."""
    op._remove_all_control_inputs()
    op._add_control_inputs(control_inputs)


__all__ = [
    "VERSION",
    "BaseResourceVariable",
    "BaseSaverBuilder",
    "BulkSaverBuilder",
    "CondBranchFuncGraph",
    "EagerResourceDeleter",
    "FetchMapper",
    "MonitoredSessionOfAnyKind",
    "PartitionedVariable",
    "SaveableCompatibilityConverter",
    "SessionInterface",
    "Trackable",
    "Variable",
    "anonymous_name",
    "checkpoint",
    "checkpoint_management",
    "checkpoint_utils",
    "clip_ops",
    "constant_value",
    "convert_to_constants",
    "distribute",
    "eager_context",
    "eager_mode",
    "eager_variable_handle",
    "feature_columns",
    "functional_saver",
    "gradients_util",
    "hdf5_format",
    "is_eager_disabled",
    "keras",
    "make_slots",
    "replace_control_inputs",
    "reroute_input",
    "saveable_objects_for_op",
    "silence_deprecation",
    "slot_creator",
    "track_variable",
    "var_handle_op",
    "var_is_initialized_op",
    "variable_accessed",
    "variable_shape",
    "variables_by_name",
    "warm_starting_util",
    "worker_training_state",
]
