# SPDX-License-Identifier: Apache-2.0
"""Tables in files, and in TensorFlow's savers and checkpoints.

Importing this package imports no library. TensorFlow is imported with the first name taken from
here, so `python -m sok_compat.checkpoint` runs without it.
"""

from __future__ import annotations

import importlib
from typing import Any

_MODULES = {
    "IncrementalSaver": "saver.incremental_saver",
    "IncrementalSaverHook": "saver.increment_hook",
    "assign_from": "loading.warm_start",
    "assign_rows": "streams.key_files",
    "dump_to_files": "streams.key_files",
    "restore_from_files": "streams.key_files",
    "save_tables_in_checkpoints": "saver.tf_saver",
    "set_rows": "streams.key_files",
}
__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted((*globals(), *__all__))
