# SPDX-License-Identifier: Apache-2.0
"""What packages and modules below this one have, that stand for TensorFlow's with additions."""

import contextlib
import importlib

from sok_compat.deeprec.namespace.module_paths import has_file

_FACE = "sok_compat.deeprec"


def all_else_of(module):
    """A module's `__getattr__`: what it does not have is taken from TensorFlow's of that path."""
    of_tensorflow = f"tensorflow{module[len(_FACE) :]}"

    def get(name):
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if has_file(f"{module[len(_FACE) + 1 :]}.{name}"):
            return importlib.import_module(f"{module}.{name}")
        original = importlib.import_module(of_tensorflow)
        if not hasattr(original, name) and hasattr(original, "__path__"):
            with contextlib.suppress(ModuleNotFoundError):  # a module that nobody has imported
                return importlib.import_module(f"{of_tensorflow}.{name}")
        return getattr(original, name)

    return get
