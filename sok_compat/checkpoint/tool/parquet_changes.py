# SPDX-License-Identifier: Apache-2.0
"""Changes of tables in Parquet files, written in pieces, and applied one file after the other."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.checkpoint.tool.parquet_files import (
    check_columns,
    keys_in,
    pa,
    pq,
    rows_in,
    without_nulls,
)

UPSERT, DELETE = "upsert", "delete"  # values of `op`
SCHEMA = pa.schema(
    [
        ("table", pa.string()),
        ("step", pa.int64()),  # global step of the checkpoint; null if it has none
        ("rank", pa.int32()),  # that has written the key
        ("op", pa.string()),
        ("key", pa.int64()),
        ("row", pa.list_(pa.float32())),  # null for DELETE
    ]
)
_WHOLE = b"whole"  # metadata of a file: names of tables of which earlier keys are gone, as JSON
_BATCH_ROWS = 1 << 14


class Writer(pq.ParquetWriter):
    """A file of SCHEMA."""

    def __init__(self, path: str, wholes: Sequence[str]) -> None:
        """`wholes`: the tables of which the file will have all keys."""
        super().__init__(path, SCHEMA.with_metadata({_WHOLE: json.dumps([*wholes])}))
        self.num_changes = 0

    def append(
        self,
        table: str,
        step: int | None,
        ranks: np.ndarray,
        keys: np.ndarray,
        rows: np.ndarray | None,
    ) -> None:
        """Adds changes of a table: keys [n] of ranks [n], and rows [n, dim], or None if they are
        deleted."""
        count = len(keys)
        column = pa.nulls(count, SCHEMA.field("row").type)
        if rows is not None:
            starts = np.arange(count + 1, dtype=np.int32) * np.int32(rows.shape[1])
            column = pa.ListArray.from_arrays(starts, pa.array(np.ravel(rows), pa.float32()))
        columns = [
            pa.array([table] * count, pa.string()),
            pa.array([step] * count, pa.int64()),
            pa.array(ranks, pa.int32()),
            pa.array([DELETE if rows is None else UPSERT] * count, pa.string()),
            pa.array(keys.astype(np.int64), pa.int64()),
            column,
        ]
        self.write_batch(pa.record_batch(columns, schema=self.schema))
        self.num_changes += count


def _wholes_in(path: str) -> list[str]:
    """The tables of which a file has all keys."""
    try:
        metadata = pq.read_schema(path).metadata or {}
        names = json.loads(metadata.get(_WHOLE, b"[]"))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FileError(f"{path} is not a Parquet file, or damaged: {error}") from error
    if not isinstance(names, list):
        raise FileError(f"{path}: the metadata {_WHOLE.decode()} is {names!r}, expected a list")
    return names


def has_changes(path: str) -> bool:
    """Whether a Parquet file has a column `op`; False if it cannot be read."""
    try:
        return "op" in pq.read_schema(path).names
    except (pa.ArrowException, OSError):
        return False


class Reader:
    """Of one table what several files leave, of which later ones count: as npy_files.Reader.

    A file without the column `op`, of `export`, has upserts of one table.
    """

    def __init__(self, paths: Sequence[str], table: str) -> None:
        """Reads keys and ops; needs about 30 bytes a change.

        Raises:
          FileError: a file is not Parquet, or lacks a column; there is no upsert of the table.
        """
        self.paths, self._table = paths, table
        keys, are_upserts = [np.zeros(0, np.int64)], [np.zeros(0, bool)]
        for path in paths:
            if table in _wholes_in(path):
                are_upserts = [np.zeros_like(each) for each in are_upserts]
            for batch in self._batches(path, with_rows=False):
                keys.append(batch["key"])
                are_upserts.append(batch["is_upsert"])
        all_keys, is_upsert = np.concatenate(keys), np.concatenate(are_upserts)
        _, places = np.unique(all_keys[::-1], return_index=True)
        self._is_left = np.zeros(len(all_keys), bool)
        self._is_left[len(all_keys) - 1 - places] = True  # the last change of each key
        self._is_left &= is_upsert
        self._keys = all_keys[self._is_left]
        self.dim: int | None = None  # as in the first row
        self.dim = next((rows.shape[1] for _, rows in self.pieces()), 0)
        if not self._keys.size:
            raise FileError(f"{', '.join(paths)}: no keys are left of the table {table}")

    def keys(self) -> np.ndarray:
        return self._keys

    def pieces(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        first, dim = 0, self.dim
        for path in self.paths:
            for batch in self._batches(path, with_rows=True):
                is_left = self._is_left[first : first + len(batch["key"])]
                first += len(batch["key"])
                if is_left.any():
                    keys = batch["key"][is_left]
                    rows = rows_in(path, keys, batch["row"].filter(pa.array(is_left)), dim)
                    dim = rows.shape[1]
                    yield keys, rows

    def _batches(self, path: str, with_rows: bool) -> Iterator[dict[str, Any]]:
        """Yields the changes of the table: `key`, `is_upsert` and, with_rows, `row`."""
        try:
            file = pq.ParquetFile(path)
            of_changes = ["table", "op"] if "op" in file.schema_arrow.names else []
            check_columns(path, file.schema_arrow, [*of_changes, "key", "row"])
            columns = [*of_changes, "key", *(["row"] if with_rows else [])]
            for batch in file.iter_batches(_BATCH_ROWS, columns=columns):
                ops = np.full(len(batch), UPSERT)
                if of_changes:
                    tables = _names_in(path, batch, "table")
                    batch = batch.filter(pa.array(tables == self._table))
                    ops = _names_in(path, batch, "op")
                unknown = sorted({*ops} - {UPSERT, DELETE})
                if unknown:
                    raise FileError(f"{path}: op is {unknown[0]!r}, expected {UPSERT} or {DELETE}")
                found = {"key": keys_in(path, batch.column("key")), "is_upsert": ops == UPSERT}
                if with_rows:
                    found["row"] = batch.column("row")
                yield found
        except (pa.ArrowException, OSError) as error:
            raise FileError(f"{path} is not a Parquet file, or damaged: {error}") from error


def _names_in(path: str, batch: pa.RecordBatch, column: str) -> np.ndarray:
    """The strings [n] of a column; raises FileError if there are nulls, or other values."""
    names = batch.column(batch.schema.get_field_index(column))
    try:
        names = names.cast(pa.string())
    except pa.ArrowException as error:
        raise FileError(f"{path}: the column {column} is {names.type}, expected text") from error
    names = without_nulls(path, f"the column {column}", names)
    return names.to_numpy(zero_copy_only=False).astype(object)
