# SPDX-License-Identifier: Apache-2.0
"""Importing this module restores names that NumPy 1.23 to 2.0 dropped, with their old values.

A launched script imports it before NumPy: see import_statements.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def _old_names() -> dict[str, Any]:
    """{name: value}; NumPy's own scalars keep those of the newest NumPy."""
    of_python = (bool, complex, float, int, object, str)
    renamed = {
        "bool_": ("bool8",),
        "intp": ("int0",),
        "uintp": ("uint0",),
        "inf": ("Inf", "Infinity", "PINF", "infty"),
        "nan": ("NaN",),
        "complex64": ("singlecomplex",),
        "complex128": ("cfloat", "complex_"),
        "float64": ("float_",),
        "longdouble": ("longfloat",),
        "clongdouble": ("clongfloat", "longcomplex"),
        "bytes_": ("string_",),
        "str_": ("unicode_",),
        "all": ("alltrue",),
        "any": ("sometrue",),
        "asmatrix": ("mat",),
        "cumprod": ("cumproduct",),
        "prod": ("product",),
        "round": ("round_",),
        "vstack": ("row_stack",),
        "trapezoid": ("trapz",),
    }
    warnings = vars(getattr(np, "exceptions", np))
    moved = ("ComplexWarning", "RankWarning", "VisibleDeprecationWarning")
    return {
        **{name: warnings[name] for name in moved if name in warnings},
        **{kind.__name__: kind for kind in of_python},
        **{"long": int, "unicode": str, "NINF": -math.inf, "NZERO": -0.0, "PZERO": 0.0},
        "asfarray": _asfarray,
        "asscalar": lambda a: np.asarray(a).item(),
        "msort": lambda a: np.sort(a, axis=0),
        **{
            old: getattr(np, name)
            for name, names in renamed.items()
            if hasattr(np, name)
            for old in names
        },
    }


def _asfarray(a: Any, dtype: Any = np.float64) -> np.ndarray:
    """The array with elements of a floating type."""
    return np.asarray(a, dtype if np.issubdtype(dtype, np.inexact) else np.float64)


_restored: dict[str, Any] = {}


def restore() -> None:
    """Adds the names that NumPy lacks."""
    missing = {name: value for name, value in _old_names().items() if name not in vars(np)}
    _restored.update(missing)
    vars(np).update(missing)


def take_back() -> None:
    """Undoes restore()."""
    for name in _restored:
        delattr(np, name)
    _restored.clear()


restore()
