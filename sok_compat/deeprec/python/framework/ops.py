# SPDX-License-Identifier: Apache-2.0
"""`tf.GraphKeys` with DeepRec's, in `tensorflow.python.framework.ops`; others are TensorFlow's."""

from __future__ import annotations

from typing import Any

from tensorflow.python.framework import ops as _of_tensorflow

import sok_compat.deeprec as _face
from sok_compat.deeprec.namespace.additions import all_else_of

__all__ = [name for name in dir(_of_tensorflow) if not name.startswith("_")]  # for `import *`
_all_else = all_else_of(__name__)


def __getattr__(name: str) -> Any:
    return _face.GraphKeys if name == "GraphKeys" else _all_else(name)
