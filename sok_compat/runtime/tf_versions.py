# SPDX-License-Identifier: Apache-2.0
"""Every difference between TensorFlow releases, and the private functions of it that are used."""

import tensorflow as tf
from tensorflow.python.framework import tensor_util
from tensorflow.python.ops import gen_resource_variable_ops, resource_variable_ops
from tensorflow.python.training.saver import BaseSaverBuilder

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
else:
    keras = tf.keras

BaseResourceVariable = resource_variable_ops.BaseResourceVariable
var_handle_op = gen_resource_variable_ops.var_handle_op
var_is_initialized_op = gen_resource_variable_ops.var_is_initialized_op
variable_shape = resource_variable_ops.variable_shape  # static where the handle's shape is
constant_value = tensor_util.constant_value


def reroute_input(op, index, tensor):
    """Gives an op that no session has run yet another input."""
    op._update_input(index, tensor)


__all__ = [
    "VERSION",
    "BaseResourceVariable",
    "BaseSaverBuilder",
    "constant_value",
    "keras",
    "reroute_input",
    "var_handle_op",
    "var_is_initialized_op",
    "variable_shape",
]
