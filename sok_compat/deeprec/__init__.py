# SPDX-License-Identifier: Apache-2.0
"""DeepRec's TensorFlow on TensorFlow 2: `import sok_compat.deeprec as tf`.

It has every name of `tf.compat.v1`, and those of DeepRec that modules of its folders list in a dict
`NAMES`, {path under `tf`: value}. The first name that is taken from it switches the behaviour of
TensorFlow 1 on (no eager mode, `tf.Variable` is a reference variable, ...); importing it, or one of
its modules, does not.
"""

import functools
import importlib
import pkgutil
import sys

from sok_compat.deeprec.namespace import module_paths

module_paths.add_finder()


# Folders of this one; none of them is a name of `tf`.
_ROOMS = ("collective", "columns", "lookups", "namespace", "optimizer_rules", "variables")


def _own_names():
    """{path under `tf`: value}, of all modules of the rooms."""
    names = {}
    for room in _ROOMS:
        package = importlib.import_module(f"{__name__}.{room}")
        for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            names.update(getattr(importlib.import_module(found.name), "NAMES", {}))
    return names


@functools.cache
def _tensorflow_1():
    """All names, as a module; TensorFlow 1's behaviour is on."""
    importlib.import_module(f"{__name__}.namespace.v1_behavior")
    namespaces = importlib.import_module(f"{__name__}.namespace.namespaces")
    names = {"compat.v1": sys.modules[__name__], **_own_names()}
    return namespaces.extended_tensorflow_1(names, __name__)


def __getattr__(name):
    if name == "__all__":
        return __dir__()
    is_special = name.startswith("__") and name not in ("__version__", "__git_version__")
    if is_special or name in _ROOMS:  # `from sok_compat.deeprec import room` asks first
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_tensorflow_1(), name)


def __dir__():
    return [name for name in dir(_tensorflow_1()) if not name.startswith("_")]
