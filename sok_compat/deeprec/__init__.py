# SPDX-License-Identifier: Apache-2.0
"""DeepRec's TensorFlow on TensorFlow 2: `import sok_compat.deeprec as tf`.

It has every name of `tf.compat.v1`, and DeepRec's names, which modules of its folders list in a
dict `NAMES`, {path under `tf`: value}. Reading the first name from it turns on TensorFlow 1
behaviour (no eager mode, `tf.Variable` is a reference variable, ...); importing it, or one of its
modules, does not.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import sys
from types import ModuleType
from typing import Any

from sok_compat.deeprec.namespace import module_paths

module_paths.add_finder()


# Subfolders; none of them is a name of `tf`.
_ROOMS = ("collective", "columns", "lookups", "namespace", "optimizer_rules", "variables")


def _own_names() -> dict[str, Any]:
    """{path under `tf`: value} from all modules of the rooms."""
    names: dict[str, Any] = {}
    for room in _ROOMS:
        package = importlib.import_module(f"{__name__}.{room}")
        for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            names.update(getattr(importlib.import_module(found.name), "NAMES", {}))
    return names


@functools.cache
def _tensorflow_1() -> ModuleType:
    """A module with all names; turns on TensorFlow 1 behaviour."""
    importlib.import_module(f"{__name__}.namespace.v1_behavior")
    namespaces = importlib.import_module(f"{__name__}.namespace.namespaces")
    names = {"compat.v1": sys.modules[__name__], **_own_names()}
    return namespaces.extended_tensorflow_1(names, __name__)


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return __dir__()
    is_special = name.startswith("__") and name not in ("__version__", "__git_version__")
    if is_special or name in _ROOMS:  # `from sok_compat.deeprec import room` asks first
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_tensorflow_1(), name)


def __dir__() -> list[str]:
    return [name for name in dir(_tensorflow_1()) if not name.startswith("_")]
