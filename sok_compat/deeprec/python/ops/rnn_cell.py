# SPDX-License-Identifier: Apache-2.0
"""`tensorflow.python.ops.rnn_cell`, with the modules that `import *` of TensorFlow 1's gives."""

from __future__ import annotations

from typing import Any

from tensorflow.python.framework import constant_op, dtypes, tensor_shape, tensor_util
from tensorflow.python.ops import (
    clip_ops,
    init_ops,
    math_ops,
    nn_ops,
    partitioned_variables,
)
from tensorflow.python.ops import variable_scope as vs
from tensorflow.python.ops import variables as tf_variables
from tensorflow.python.ops.rnn_cell_impl import *  # noqa: F403 - as TensorFlow's module
from tensorflow.python.platform import tf_logging as logging

from sok_compat.deeprec.namespace.additions import all_else_of
from sok_compat.deeprec.python.framework import ops
from sok_compat.deeprec.python.ops import array_ops
from sok_compat.deeprec.python.util import nest

_MODULES: list[Any] = [
    array_ops,
    clip_ops,
    constant_op,
    dtypes,
    init_ops,
    logging,
    math_ops,
    nest,
    nn_ops,
    ops,
]
_MODULES += [partitioned_variables, tensor_shape, tensor_util, tf_variables, vs]

__getattr__ = all_else_of(__name__)
