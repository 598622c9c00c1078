# SPDX-License-Identifier: Apache-2.0
"""`Saved`: the tables at a path, in any of the formats."""

from __future__ import annotations

import ast
import dataclasses
import os
import re

from sok_compat.checkpoint.files.bundle import Bundle
from sok_compat.checkpoint.files.dump_files import dumped_tables, open_dump
from sok_compat.checkpoint.files.emb_records import EmbRecords, stem_of_records, with_columns
from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.checkpoint.files.increments import SERIES, chain_of, changes_in
from sok_compat.checkpoint.files.stored_array import StoredArray, joined
from sok_compat.checkpoint.files.table_names import BUCKETS, find_tables

DUMP = "dump"  # a layout, beside those of find_tables


@dataclasses.dataclass(frozen=True)
class SavedTable:
    """A table in files; the i-th row of each plane belongs to the i-th key.

    Attributes:
      name: of the table, without its part.
      layout: ROWS, BUCKETS or DUMP.
      num_parts: number of parts that it was saved in.
      keys: StoredArray [n].
      rows: StoredArray float32 [n, dim].
      slots: {name: StoredArray float32 [n, width]}.
      recorded: {number of RECORDED: StoredArray int64 [n]}, those that were saved.
      num_without_row: number of keys that a filter has not admitted; they are in none of the above.
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
    def num_keys(self) -> int:
        """Number of keys with a row."""
        return self.keys.shape[0]

    @property
    def dim(self) -> int:
        """Floats in a row."""
        return self.rows.shape[1]

    @property
    def planes(self) -> dict[str, StoredArray]:
        """Rows, slots and recorded numbers by name."""
        return {"rows": self.rows, **self.slots, **self.recorded}


@dataclasses.dataclass(frozen=True)
class Saved:
    """The contents of a path.

    Attributes:
      path: of the checkpoint, or the folder of dumps.
      tables: SavedTables by name; empty for an increment.
      bundle: the Bundle, if it is a checkpoint.
      others: names of its tensors that belong to no table.
      base: path of the checkpoint that it is an increment of; None if it is whole.
      changes: TableChanges of an increment.
    """

    path: str
    tables: dict[str, SavedTable]
    bundle: Bundle | None = None
    others: tuple = ()
    base: str | None = None
    changes: tuple = ()

    def table(self, name: str) -> SavedTable:
        """The SavedTable of this name.

        Raises:
          FileError: there is none, or this is an increment.
        """
        self.check_is_whole()
        if name not in self.tables:
            names = ", ".join(self.tables) or "none"
            raise FileError(f"{self.path} has no table {name}; its tables: {names}")
        return self.tables[name]

    def check_is_whole(self) -> None:
        """Raises FileError for an increment."""
        if self.base is not None:
            raise FileError(
                f"{self.path} is an increment, which holds only the changes since {self.base}: "
                "restore it, and save a whole checkpoint"
            )


def open_saved(path: str | os.PathLike[str], key_dtype: str = "int64") -> Saved:
    """Opens saved tables.

    Args:
      path: local; a checkpoint's prefix, a folder with a `checkpoint` file (its latest is opened),
        a SavedModel, a folder of dumps, or the files of one dump without their endings.
      key_dtype: dtype of the keys in dumps without a note.

    Raises:
      FileError: the path is none of these, or a file is damaged.
      OSError: a file cannot be read.
    """
    path = os.fspath(path)
    if "://" in path:
        raise FileError(f"{path} is not a path on this machine: copy the files here")
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


def checkpoint_prefix(path: str) -> str | None:
    """Prefix of the checkpoint at a path; None if there is none.

    Raises:
      FileError: a folder's `checkpoint` file does not lead to a checkpoint.
    """
    path = path[: -len(".index")] if path.endswith(".index") else path
    if os.path.exists(f"{path}.index"):
        return path
    in_model = os.path.join(path, "variables", "variables")
    if os.path.exists(f"{in_model}.index"):
        return in_model
    state = os.path.join(path, "checkpoint")
    return _latest(path, state) if os.path.isfile(state) else None


def listed_checkpoints(folder: str) -> list[str]:
    """Names of the checkpoints that a folder's `checkpoint` file lists, in the order in which they
    were saved.

    Raises:
      FileError: a name cannot be read.
      OSError: the file cannot be read.
    """
    paths = _paths(os.path.join(folder, "checkpoint"), b"all_model_checkpoint_paths")
    return [os.path.basename(path) for path in paths]


def _paths(state, field):
    """Those of a field of a `checkpoint` file."""
    with open(state, "rb") as file:
        found = re.findall(rb'^%s:\s*("(?:[^"\\]|\\.)*")' % field, file.read(), re.M)
    try:
        # newer protobufs write UTF-8
        escaped = [each.decode("ascii", "backslashreplace") for each in found]
        return [ast.literal_eval("b" + each).decode() for each in escaped]
    except (ValueError, SyntaxError) as error:
        raise FileError(f"{state} has a name that cannot be read: {error}") from error


def _latest(folder, state):
    paths = _paths(state, b"model_checkpoint_path")
    if not paths:
        raise FileError(f"{state} does not name the latest checkpoint")
    named = paths[0]
    prefix = os.path.join(folder, named)
    own = os.path.join(folder, os.path.basename(named))
    if os.path.isabs(named) and os.path.exists(f"{own}.index"):  # the folder may be a copy
        prefix = own
    if not os.path.exists(f"{prefix}.index"):
        raise FileError(f"{prefix}.index is missing, which {state} says is the latest checkpoint")
    return prefix


def _in_bundle(bundle):
    tensors = {name: (entry.dtype, entry.shape) for name, entry in bundle.tensors.items()}
    found = find_tables(tensors)
    chain = chain_of(bundle.prefix)
    changes = changes_in(bundle) if len(chain) > 1 else []
    of_tables = {name for table in (*found, *changes) for name in table.tensors}
    return Saved(
        bundle.prefix,
        {t.name: _opened(bundle, t) for t in found},
        bundle,
        tuple(sorted(tensors.keys() - of_tables - {SERIES})),
        chain[-2] if len(chain) > 1 else None,
        tuple(changes),
    )


def _opened(bundle, names):
    def opened(tensors):
        return joined([bundle.array(name) for name in tensors])

    table = SavedTable(
        names.name,
        names.layout,
        len(names.keys),
        opened(names.keys),
        opened(names.rows),
        {slot.name: opened(slot.tensors) for slot in names.slots},
        {plane.name: opened(plane.tensors) for plane in names.recorded},
        sum(bundle.tensors[name].shape[0] for name in names.keys_without_row),
    )
    parts = [name[: -len("-keys")] for name in names.keys if names.layout == BUCKETS]
    stems = filter(None, (stem_of_records(bundle.prefix, part) for part in parts))
    return _with_records(table, list(stems))


def _with_records(table, stems):
    """The table with the rows that DeepRec has saved as records."""
    if not stems:
        return table
    in_memory = table.keys.whole()
    parts = [EmbRecords(stem, in_memory) for stem in stems]
    parts = [part for part in parts if len(part.keys) > 0]  # the files of others may be empty
    if not parts:
        return table
    widths = [table.dim, *(slot.shape[1] for slot in table.slots.values())]
    of_parts = [part.columns(widths, list(table.recorded)) for part in parts]
    rows, *slots = zip(*(planes for planes, _ in of_parts))
    return dataclasses.replace(
        table,
        keys=with_columns(table.keys, [part.keys for part in parts]),
        rows=with_columns(table.rows, rows),
        slots={
            name: with_columns(slot, columns)
            for (name, slot), columns in zip(table.slots.items(), slots)
        },
        recorded={
            name: with_columns(array, [counts[name] for _, counts in of_parts])
            for name, array in table.recorded.items()
        },
    )


def _in_dump(folder, name, key_dtype):
    keys, rows = open_dump(folder, name, key_dtype)
    return SavedTable(name, DUMP, 1, keys, rows)
