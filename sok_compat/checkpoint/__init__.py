# SPDX-License-Identifier: Apache-2.0
"""What files and TensorFlow's savers and checkpoints hold of tables.

Importing this package imports no library: TensorFlow comes with the first name that is taken from
it, so that `python -m sok_compat.checkpoint` does without.
"""

import importlib

_MODULES = {
    "IncrementalSaver": "incremental_saver",
    "IncrementalSaverHook": "increment_hook",
    "assign_from": "warm_start",
    "assign_rows": "key_files",
    "dump_to_files": "key_files",
    "restore_from_files": "key_files",
    "save_tables_in_checkpoints": "tf_saver",
    "set_rows": "key_files",
}
__all__ = [*_MODULES]


def __getattr__(name):
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__():
    return sorted((*globals(), *__all__))
