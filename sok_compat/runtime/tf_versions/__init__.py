# SPDX-License-Identifier: Apache-2.0
"""All differences between TensorFlow releases, and all uses of TensorFlow's private names.

Here its modules and classes; private members of its objects are in `members`, those of feature
columns in `columns`.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow._api.v2.compat import v2 as tensorflow_2
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.checkpoint import (
    checkpoint,
    checkpoint_management,
    functional_saver,
)
from tensorflow.python.client import session
from tensorflow.python.distribute import distribute_lib
from tensorflow.python.eager import context, record
from tensorflow.python.framework import error_interpolation, op_def_registry, tensor_util
from tensorflow.python.ops import (
    clip_ops,
    cond_v2,
    control_flow_ops,
    control_flow_state,
    control_flow_util,
    control_flow_v2_func_graphs,
    custom_gradient,
    gen_resource_variable_ops,
    gradients_util,
    resource_variable_ops,
    state_ops,
    variable_scope,
)
from tensorflow.python.ops.variables import (
    PartitionedVariable,
    Variable,  # of any kind, even if tf.Variable is v1's
)
from tensorflow.python.trackable import base as trackable
from tensorflow.python.trackable.data_structures import NoDependency
from tensorflow.python.training import (
    checkpoint_utils,
    monitored_session,
    moving_averages,
    warm_starting_util,
)
from tensorflow.python.training import saver as saver_module
from tensorflow.python.training.optimizer import Optimizer, _DenseResourceVariableProcessor
from tensorflow.python.training.saver import BaseSaverBuilder, BulkSaverBuilder
from tensorflow.python.training.saving.saveable_object_util import (
    SaveableCompatibilityConverter,
    saveable_objects_for_op,
)
from tensorflow.python.training.session_run_hook import SessionRunHook
from tensorflow.python.util import deprecation

VERSION = tuple(int(part) for part in tf.__version__.split(".")[:2])


class _MissingKeras:
    """Stands for Keras 2 where there is none: what needs it tells how to get it."""

    def __getattr__(self, name: str) -> Any:
        raise ImportError(
            f"keras.{name} of Keras 2 is needed, and TensorFlow {tf.__version__} does not bring it "
            f"here: pip install tf-keras~={VERSION[0]}.{VERSION[1]}.0 (and set "
            "TF_USE_LEGACY_KERAS=1 where your script uses tf.keras itself)"
        )


def _keras_2() -> Any:
    try:
        if VERSION >= (2, 16):  # tf.keras is Keras 3, without TF1's graph mode
            return importlib.import_module("tf_keras")
        # Not tf.keras: a script may have replaced names of tf by those of tf.compat.v1.
        tensorflow_2.keras.Model  # noqa: B018  fails with TF_USE_LEGACY_KERAS=1 and no tf-keras
        return tensorflow_2.keras
    except ImportError:
        return _MissingKeras()


keras = _keras_2()
has_keras_2 = not isinstance(keras, _MissingKeras)


def _keras_optimizers():
    """keras.optimizers; a script may have put its `legacy` there, as SparseOperationKit 2 does."""
    if not has_keras_2:
        return keras
    name, _, last = keras.optimizers.__name__.rpartition(".")
    return importlib.import_module(name) if last == "legacy" else keras.optimizers


keras_optimizers = _keras_optimizers()


def _keras_3_of_scripts() -> Any:
    if VERSION < (2, 16):
        return None
    try:
        found = tensorflow_2.keras
        is_keras_2 = found.__name__.startswith("tf_keras")  # with TF_USE_LEGACY_KERAS=1
        return None if is_keras_2 or found.config.backend() != "tensorflow" else found
    except ImportError:  # the same without tf-keras
        return None


keras_3_of_scripts = _keras_3_of_scripts()  # Keras 3, if it is tf.keras, on TensorFlow; else None
keras_3 = None if has_keras_2 else keras_3_of_scripts  # of layers
keras_of_layers = keras if keras_3 is None else keras_3
# Of add_weight: the weight keeps its dtype under mixed precision.
NO_AUTOCAST = {"experimental_autocast" if keras_3 is None else "autocast": False}
distribute = tensorflow_2.distribute  # as keras
Trackable = trackable.Trackable
BaseResourceVariable = resource_variable_ops.BaseResourceVariable
SessionInterface = session.SessionInterface
is_within_xla = control_flow_util.GraphOrParentsInXlaContext
CondBranchFuncGraph = control_flow_v2_func_graphs.CondBranchFuncGraph
EagerResourceDeleter = resource_variable_ops.EagerResourceDeleter
MonitoredSessionOfAnyKind = monitored_session._MonitoredSession
DefaultStrategyExtended = distribute_lib._DefaultDistributionExtended  # outside of all scopes
anonymous_name = context.anonymous_name  # a shared_name that gives each handle its own resource
eager_context = context.context  # the process's, in which ops run
eager_mode = context.eager_mode  # as a context manager
var_handle_op = gen_resource_variable_ops.var_handle_op
var_is_initialized_op = gen_resource_variable_ops.var_is_initialized_op
variable_accessed = resource_variable_ops.variable_accessed  # notifies tapes and functions
variable_shape = resource_variable_ops.variable_shape  # static if the handle's shape is
constant_value = tensor_util.constant_value
silence_deprecation = deprecation.silence


def hdf5_format() -> Any:
    """Keras's module of .h5 files."""
    package = keras.Model.__module__.partition(".src")[0]
    return importlib.import_module(f"{package}.src.saving.legacy.hdf5_format")


def variable_of(weight: Any) -> tf.Variable:
    """The variable of TensorFlow in a weight of a layer."""
    return weight if keras_3 is None else weight.value


def is_evaluated_by_model() -> bool:
    """Whether the layer of Keras 3 about to be called is within a model that does not tell if it
    trains, and no tape records: then it does not."""
    state = importlib.import_module("keras.src.backend.common.global_state")
    call = state.get_global_attribute("current_call_ctx")
    is_told = call is None or getattr(call, "training", None) is not None
    return not is_told and not record.could_possibly_record()


def is_computing_shapes() -> bool:
    """Whether Keras 3 calls a layer for the shape of its outputs alone; it passes dense tensors in
    place of ragged ones and, as it builds a model in the scope of a strategy, of sparse ones."""
    if keras_3 is None:
        return False
    return importlib.import_module("keras.src.backend.common.symbolic_scope").in_symbolic_scope()


def track_variable(variable: tf.Variable) -> None:
    """Lets Keras initialize a variable, in a graph."""
    keras.__internal__.backend.track_variable(variable)


def is_eager_disabled() -> bool:
    """Whether the script has called disable_v2_behavior or disable_eager_execution."""
    return context.default_execution_mode == context.GRAPH_MODE


def global_seed() -> int | None:
    """The seed of tf.random.set_seed, in a graph of the graph; None: none is set."""
    with tf.init_scope():
        in_eager = tf.executing_eagerly()
        return context.global_seed() if in_eager else tf.compat.v1.get_default_graph().seed


def eager_variable_handle(
    shape: Sequence[int] | tf.TensorShape, dtype: tf.DType, name: str
) -> tf.Tensor:
    """Creates the handle of a variable without a value, in eager mode."""
    return resource_variable_ops._variable_handle_from_shape_and_dtype(
        shape, dtype, shared_name=None, name=name, graph_mode=False
    )


def variables_by_name() -> dict[str, tf.Variable]:
    """{name: variable} of the variables that tf.get_variable created in the default graph."""
    return variable_scope._get_default_variable_store()._vars


def make_slots(optimizer: Any, variables: Sequence[tf.Variable]) -> None:
    """Creates all variables of a Keras optimizer that trains `variables`.

    Raises:
      TypeError: the object is not a Keras optimizer.
    """
    if hasattr(optimizer, "_create_all_weights"):  # a legacy one
        optimizer._create_all_weights(variables)
    elif hasattr(optimizer, "build"):
        optimizer.build(variables)
    else:
        raise TypeError(f"expected a Keras optimizer, got {type(optimizer).__name__}")
