# SPDX-License-Identifier: Apache-2.0
"""`tensorflow.python.framework.ops` with DeepRec's GraphKeys; other names are TensorFlow's."""

from __future__ import annotations

import importlib
from typing import Any

from sok_compat.deeprec.namespace.additions import all_else_of

_all_else = all_else_of(__name__)


def __getattr__(name: str) -> Any:
    if name == "GraphKeys":
        return importlib.import_module("sok_compat.deeprec").GraphKeys
    return _all_else(name)
