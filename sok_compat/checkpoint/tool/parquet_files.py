# SPDX-License-Identifier: Apache-2.0
"""Keys and rows in a Parquet file: columns `key` and `row`, a list of floats."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from sok_compat.checkpoint.files.file_error import FileError, naming
from sok_compat.checkpoint.files.stored_array import StoredArray
from sok_compat.checkpoint.tool.npy_files import Whole, as_float32
from sok_compat.checkpoint.tool.sizes import counted

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
except ImportError as error:
    raise FileError(
        "Parquet files need pyarrow, which is not installed: pip install 'sok_compat[parquet]', or "
        "take .npy"
    ) from error

_BATCH_ROWS = 1 << 14


class Writer:
    """Writes one file, with one more column for each further plane."""

    def __init__(
        self,
        paths: Sequence[str],
        keys: StoredArray,
        planes: Mapping[str, StoredArray],
        stack: contextlib.ExitStack,
    ) -> None:
        (path,) = paths
        self._whole = Whole(path, stack)
        fields = [("key", pa.from_numpy_dtype(keys.dtype.newbyteorder("=")))]
        for name, plane in planes.items():
            kind = pa.from_numpy_dtype(plane.dtype.newbyteorder("="))
            fields.append((name, pa.list_(kind, plane.shape[1]) if plane.shape[1:] else kind))
        self._schema = pa.schema(fields)
        with naming(path):
            self._file = pq.ParquetWriter(self._whole.until, self._schema)
        stack.callback(self._give_up)

    def append(self, keys: np.ndarray, planes: Sequence[np.ndarray]) -> None:
        columns = []
        for field, array in zip(self._schema, (keys, *planes)):
            column = pa.array(np.ascontiguousarray(array).reshape(-1))
            if array.ndim > 1:
                column = pa.FixedSizeListArray.from_arrays(column, array.shape[1])
            columns.append(column.cast(field.type))
        with naming(self._whole.path):
            self._file.write_batch(pa.record_batch(columns, schema=self._schema))

    def finish(self) -> list[str]:
        with naming(self._whole.path):
            self._file.close()
        self._whole.put_in_place()
        return [self._whole.path]

    def _give_up(self):
        with contextlib.suppress(OSError):
            self._file.close()


def check_columns(path: str, schema: pa.Schema, names: Sequence[str]) -> None:
    """Raises FileError unless a schema has the columns `names`, keys that are int64, and rows that
    are lists of floats."""
    missing = [name for name in names if name not in schema.names]
    if missing:
        raise FileError(
            f"{path} has no column {' and no column '.join(missing)}; it has "
            f"{', '.join(schema.names)}"
        )
    repeated = [name for name in names if schema.names.count(name) > 1]
    if repeated:
        raise FileError(f"{path} has several columns {repeated[0]}")
    key, row = schema.field("key").type, schema.field("row").type
    if not pa.types.is_integer(key) or pa.types.is_uint64(key):
        raise FileError(f"{path}: the column key is {key}, expected whole numbers that are int64")
    is_list = (
        pa.types.is_list(row) or pa.types.is_large_list(row) or pa.types.is_fixed_size_list(row)
    )
    if not is_list or not pa.types.is_floating(row.value_type):
        raise FileError(f"{path}: the column row is {row}, expected lists of floats")


def without_nulls(path: str, what: str, array: pa.Array) -> pa.Array:
    """The array; raises FileError if it has nulls."""
    if array.null_count:
        raise FileError(f"{path}: {what} has {counted(array.null_count, 'null')}")
    return array


def keys_in(path: str, array: pa.Array) -> np.ndarray:
    """The keys int64 [n] of a column; raises FileError as without_nulls."""
    keys = without_nulls(path, "the column key", array)
    return keys.to_numpy(zero_copy_only=False).astype(np.int64)


def rows_in(path: str, keys: np.ndarray, array: pa.Array, dim: int | None) -> np.ndarray:
    """The rows float32 [n, dim] of a column; `dim` None: as many as the first has.

    Raises:
      FileError: there are nulls, rows of another width, or numbers that are no float32.
    """
    lists = without_nulls(path, "the column row", array)
    widths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    dim = int(widths[0]) if dim is None and len(widths) else dim
    if dim == 0 or (widths != dim).any():
        at = np.flatnonzero((widths != dim) | (widths == 0))[0]
        raise FileError(
            f"{path}: the row of the key {keys[at]} has {widths[at]} floats, expected "
            f"{dim or 'at least 1'}"
        )
    numbers = without_nulls(path, "the floats of the column row", lists.flatten())
    rows = numbers.to_numpy(zero_copy_only=False).reshape(len(keys), -1)
    return as_float32(path, keys, rows)


class Reader:
    """As npy_files.Reader."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = paths
        try:
            self._file = pq.ParquetFile(paths[0])
        except pa.ArrowException as error:
            raise FileError(f"{paths[0]} is not a Parquet file, or cut off: {error}") from error
        check_columns(paths[0], self._file.schema_arrow, ["key", "row"])
        self.dim = next((rows.shape[1] for _, rows in self._pieces(1, None)), 1)

    def keys(self) -> np.ndarray:
        batches = self._batches(_BATCH_ROWS, ["key"])
        pieces = [keys_in(self.paths[0], batch.column(0)) for batch in batches]
        return np.concatenate([np.zeros(0, np.int64), *pieces])

    def pieces(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        yield from self._pieces(_BATCH_ROWS, self.dim)

    def _pieces(self, num_rows, dim):
        for batch in self._batches(num_rows, ["key", "row"]):
            if batch.num_rows:
                keys = keys_in(self.paths[0], batch.column("key"))
                yield keys, rows_in(self.paths[0], keys, batch.column("row"), dim)

    def _batches(self, num_rows, columns):
        try:
            yield from self._file.iter_batches(num_rows, columns=columns)
        except (pa.ArrowException, OSError) as error:
            raise FileError(f"{self.paths[0]} is damaged: {error}") from error
