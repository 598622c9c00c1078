# SPDX-License-Identifier: Apache-2.0
"""DeepRec's TensorFlow on TensorFlow 2: `import sok_compat.deeprec as tf`.

It has every name of `tf.compat.v1`, and DeepRec's names, whose modules are listed in
namespace/names.py: each is imported when a script first takes a name of it. Reading the first name
turns on TensorFlow 1 behaviour (no eager mode, `tf.Variable` is a reference variable, modules such
as `tensorflow.contrib` can be imported, ...); importing this module, or one of its modules, does
not.
"""

from __future__ import annotations

import functools
import importlib
import sys
from types import ModuleType
from typing import Any

# Subfolders; none of them is a name of `tf`.
_ROOMS = ("collective", "columns", "lookups", "namespace", "optimizer_rules", "variables")


@functools.cache
def _tensorflow_1() -> ModuleType:
    """A module with all names; turns on TensorFlow 1 behaviour."""
    importlib.import_module(f"{__name__}.namespace.v1_behavior")
    namespaces = importlib.import_module(f"{__name__}.namespace.namespaces")
    importlib.import_module("sok_compat.runtime.op_library")  # for graphs that a script loads
    return namespaces.extended_tensorflow_1(sys.modules[__name__])


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return __dir__()
    is_special = name.startswith("__") and name not in ("__version__", "__git_version__")
    if is_special or name in _ROOMS:  # `from sok_compat.deeprec import room` asks first
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_tensorflow_1(), name)


def __dir__() -> list[str]:
    return [name for name in dir(_tensorflow_1()) if not name.startswith("_")]
