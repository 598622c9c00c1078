# SPDX-License-Identifier: Apache-2.0
# Made by `python -m docs.generators.stubs` from tables of names.

from sok_compat.checkpoint.loading.warm_start import (
    assign_from as assign_from,
)
from sok_compat.checkpoint.saver.increment_hook import (
    IncrementalSaverHook as IncrementalSaverHook,
)
from sok_compat.checkpoint.saver.incremental_saver import (
    IncrementalSaver as IncrementalSaver,
)
from sok_compat.checkpoint.saver.tf_saver import (
    save_tables_in_checkpoints as save_tables_in_checkpoints,
)
from sok_compat.checkpoint.streams.key_files import (
    assign_rows as assign_rows,
    dump_to_files as dump_to_files,
    restore_from_files as restore_from_files,
    set_rows as set_rows,
)

__all__ = [
    "IncrementalSaver",
    "IncrementalSaverHook",
    "assign_from",
    "assign_rows",
    "dump_to_files",
    "restore_from_files",
    "save_tables_in_checkpoints",
    "set_rows",
]
