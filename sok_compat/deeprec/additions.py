# SPDX-License-Identifier: Apache-2.0
"""What the packages below this one have, that stand for folders of TensorFlow with additions."""

import importlib

_FACE = "sok_compat.deeprec"


def all_else_of(package):
    """A package's `__getattr__`: what it does not have is taken from TensorFlow's of that path."""
    of_tensorflow = f"tensorflow{package[len(_FACE) :]}"

    def get(name):
        if name.startswith("__"):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(of_tensorflow), name)

    return get
