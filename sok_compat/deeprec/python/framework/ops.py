# SPDX-License-Identifier: Apache-2.0
"""Names that TensorFlow 1 has in `tensorflow.python.framework.ops`, and DeepRec's `GraphKeys`.

Other names are TensorFlow's.
"""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf
from tensorflow.python.framework import indexed_slices, tensor_conversion_registry
from tensorflow.python.framework import ops as _of_tensorflow

import sok_compat.deeprec as _face
from sok_compat.deeprec.namespace.additions import all_else_of

IndexedSlices = tf.IndexedSlices
IndexedSlicesValue = indexed_slices.IndexedSlicesValue
Tensor = tf.Tensor
convert_to_tensor_or_indexed_slices = indexed_slices.convert_to_tensor_or_indexed_slices
register_tensor_conversion_function = tensor_conversion_registry.register_tensor_conversion_function

_MOVED = [
    *("IndexedSlices", "IndexedSlicesValue", "Tensor", "convert_to_tensor_or_indexed_slices"),
    "register_tensor_conversion_function",
]
__all__ = sorted(  # for `import *`
    {*_MOVED, *(name for name in dir(_of_tensorflow) if not name.startswith("_"))}
)
_all_else = all_else_of(__name__)


def __getattr__(name: str) -> Any:
    return _face.GraphKeys if name == "GraphKeys" else _all_else(name)
