# SPDX-License-Identifier: Apache-2.0
"""Lets a module of sok_compat/deeprec add names to the TensorFlow module of the same path."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from typing import Any

from sok_compat.deeprec.namespace.module_paths import has_file

_FACE = "sok_compat.deeprec"


def all_else_of(module: str) -> Callable[[str], Any]:
    """A module's `__getattr__`: takes missing names from the TensorFlow module of that path."""
    of_tensorflow = f"tensorflow{module[len(_FACE) :]}"

    def get(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if has_file(f"{module[len(_FACE) + 1 :]}.{name}"):
            return importlib.import_module(f"{module}.{name}")
        original = importlib.import_module(of_tensorflow)
        if not hasattr(original, name) and hasattr(original, "__path__"):
            with contextlib.suppress(ModuleNotFoundError):  # a module not imported yet
                return importlib.import_module(f"{of_tensorflow}.{name}")
        return getattr(original, name)

    return get
