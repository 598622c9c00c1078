# SPDX-License-Identifier: Apache-2.0
"""`Saved`: the tables that a path holds, in whatever format they were saved."""

import ast
import dataclasses
import os
import re
from typing import Optional

from sok_compat.checkpoint.files.bundle import Bundle
from sok_compat.checkpoint.files.dump_files import DumpPlaces, dumped_tables, open_dump
from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.checkpoint.files.increments import chain_of, changes_in
from sok_compat.checkpoint.files.series_entry import SERIES
from sok_compat.checkpoint.files.stored_array import StoredArray, joined
from sok_compat.checkpoint.files.table_names import find_tables

DUMP = "dump"  # a layout beside those of find_tables


@dataclasses.dataclass(frozen=True)
class SavedTable:
    """A table in files: the i-th key, the i-th row of each plane.

    Attributes:
      name: of the table, without its part.
      layout: ROWS, BUCKETS or DUMP.
      num_parts: that it was saved in.
      keys: StoredArray [n].
      rows: StoredArray float32 [n, dim].
      slots: {name: StoredArray float32 [n, width]}.
      recorded: {'versions' or 'freqs': StoredArray int64 [n]}, where they were saved.
      num_without_row: keys that a filter has not given a row, which are in none of these.
    """

    name: str
    layout: str
    num_parts: int
    keys: StoredArray
    rows: StoredArray
    slots: dict = dataclasses.field(default_factory=dict)
    recorded: dict = dataclasses.field(default_factory=dict)
    num_without_row: int = 0

    @property
    def num_keys(self):
        return self.keys.shape[0]

    @property
    def dim(self):
        return self.rows.shape[1]

    @property
    def planes(self):
        """{name: StoredArray}: rows, slots and what is recorded."""
        return {"rows": self.rows, **self.slots, **self.recorded}


@dataclasses.dataclass(frozen=True)
class Saved:
    """What a path holds.

    Attributes:
      path: of the checkpoint, or the folder of dumps.
      tables: SavedTables by name.
      bundle: the Bundle, where it is a checkpoint.
      others: names of the tensors in it that are no table's.
      base: the path of what it is an increment of; None: it is whole. An increment has no tables,
        but what has changed of them.
      changes: TableChanges of an increment.
    """

    path: str
    tables: dict
    bundle: Optional[Bundle] = None
    others: tuple = ()
    base: Optional[str] = None
    changes: tuple = ()

    def table(self, name):
        """The SavedTable of this name.

        Raises:
          FileError: there is none.
        """
        self.check_is_whole()
        if name not in self.tables:
            held = ", ".join(self.tables) or "none"
            raise FileError(f"{self.path} has no table {name}; its tables: {held}")
        return self.tables[name]

    def check_is_whole(self):
        """Raises FileError for an increment."""
        if self.base is not None:
            raise FileError(
                f"{self.path} is an increment, which holds what has changed since {self.base}: "
                "restore it, and save a whole checkpoint"
            )


def open_saved(path, key_dtype="int64"):
    """The Saved of a checkpoint's prefix, a folder with a `checkpoint` file (its latest), a
    SavedModel, a folder of dumps, or the files of one dump without their endings.

    Args:
      path: of this machine.
      key_dtype: of dumps that have no note.

    Raises:
      FileError: there is nothing of the kind, or it is not as it was written.
      OSError: it cannot be read.
    """
    path = os.fspath(path)
    if "://" in path:
        raise FileError(f"{path} is not a path of this machine: copy the files here")
    prefix = checkpoint_prefix(path)
    if prefix is not None:
        return _in_bundle(Bundle(prefix))
    if os.path.isdir(path):
        names = dumped_tables(path)
        if not names:
            raise FileError(
                f"{path} is a folder with neither a `checkpoint` file nor files of sok.Saver in "
                "it: give the prefix of a checkpoint, without .index"
            )
        return Saved(path, {name: _in_dump(path, name, key_dtype) for name in names})
    folder, name = os.path.split(path)
    if os.path.exists(f"{path}_keys.file") or os.path.exists(f"{path}.dump"):
        return Saved(folder or ".", {name: _in_dump(folder, name, key_dtype)})
    raise FileError(
        f"there is no checkpoint {path}: {path}.index is missing, and it is neither a folder nor a "
        "dump of sok.Saver"
    )


def checkpoint_prefix(path):
    """Of the checkpoint that a path stands for; None: for none.

    Raises:
      FileError: a folder's `checkpoint` file cannot be followed.
    """
    path = path[: -len(".index")] if path.endswith(".index") else path
    if os.path.exists(f"{path}.index"):
        return path
    in_model = os.path.join(path, "variables", "variables")
    if os.path.exists(f"{in_model}.index"):
        return in_model
    state = os.path.join(path, "checkpoint")
    return _latest(path, state) if os.path.isfile(state) else None


def _latest(folder, state):
    with open(state, encoding="utf-8", errors="replace") as file:
        match = re.search(r'^model_checkpoint_path:\s*("(?:[^"\\]|\\.)*")', file.read(), re.M)
    if match is None:
        raise FileError(f"{state} does not name the latest checkpoint")
    prefix = os.path.join(folder, ast.literal_eval("b" + match[1]).decode())
    if not os.path.exists(f"{prefix}.index"):
        raise FileError(f"{prefix}.index is missing, which {state} says is the latest checkpoint")
    return prefix


def _in_bundle(bundle):
    tensors = {name: (entry.dtype, entry.shape) for name, entry in bundle.tensors.items()}
    found = find_tables(tensors)
    chain = chain_of(bundle)
    changes = changes_in(bundle) if len(chain) > 1 else []
    of_tables = {name for table in (*found, *changes) for name in table.tensors}
    return Saved(
        bundle.prefix,
        {t.name: _opened(bundle, t) for t in found},
        bundle,
        tuple(sorted(tensors.keys() - of_tables - {SERIES})),
        chain[-2].prefix if len(chain) > 1 else None,
        tuple(changes),
    )


def _opened(bundle, names):
    def opened(tensors):
        return joined([bundle.array(name) for name in tensors])

    return SavedTable(
        names.name,
        names.layout,
        len(names.keys),
        opened(names.keys),
        opened(names.rows),
        {slot.name: opened(slot.tensors) for slot in names.slots},
        {plane.name: opened(plane.tensors) for plane in names.recorded},
        sum(bundle.tensors[name].shape[0] for name in names.keys_without_row),
    )


def _in_dump(folder, name, key_dtype):
    keys, rows = open_dump(DumpPlaces(folder, name), key_dtype)
    return SavedTable(name, DUMP, 1, keys, rows)
