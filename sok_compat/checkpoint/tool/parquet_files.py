# SPDX-License-Identifier: Apache-2.0
"""Keys and rows in a Parquet file: columns `key` and `row`, a list of floats."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from sok_compat.checkpoint.files.file_error import FileError, naming
from sok_compat.checkpoint.files.stored_array import StoredArray
from sok_compat.checkpoint.tool.npy_files import Whole, as_float32

try:
    import pyarrow as pa
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
        """As npy_files.Writer."""
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
        """As npy_files.Writer."""
        columns = []
        for field, array in zip(self._schema, (keys, *planes)):
            column = pa.array(np.ascontiguousarray(array).reshape(-1))
            if array.ndim > 1:
                column = pa.FixedSizeListArray.from_arrays(column, array.shape[1])
            columns.append(column.cast(field.type))
        with naming(self._whole.path):
            self._file.write_batch(pa.record_batch(columns, schema=self._schema))

    def finish(self) -> list[str]:
        """As npy_files.Writer."""
        with naming(self._whole.path):
            self._file.close()
        self._whole.put_in_place()
        return [self._whole.path]

    def _give_up(self):
        with contextlib.suppress(OSError):
            self._file.close()


class Reader:
    """As npy_files.Reader."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = paths
        try:
            self._file = pq.ParquetFile(paths[0])
        except pa.ArrowException as error:
            raise FileError(f"{paths[0]} is not a Parquet file, or cut off: {error}") from error
        schema = self._file.schema_arrow
        missing = [name for name in ("key", "row") if name not in schema.names]
        if missing:
            raise FileError(
                f"{paths[0]} has no column {' and no column '.join(missing)}; it has "
                f"{', '.join(schema.names)}"
            )
        kind = schema.field("key").type
        if not pa.types.is_integer(kind) or pa.types.is_uint64(kind):
            raise FileError(
                f"{paths[0]}: the column key is {kind}, expected whole numbers that are int64"
            )
        self.num_keys = self._file.metadata.num_rows
        self.dim = self._width(schema.field("row").type)

    def key_pieces(self, most_rows: int) -> Iterator[tuple[int, np.ndarray]]:
        """As npy_files.Reader."""
        first = 0
        for batch in self._batches(most_rows, ["key"]):
            keys = self._without_nulls(batch.column(0)).to_numpy(zero_copy_only=False)
            yield first, keys.astype(np.int64)
            first += len(keys)

    def pieces(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """As npy_files.Reader."""
        for batch in self._batches(_BATCH_ROWS, ["key", "row"]):
            keys, rows = (self._without_nulls(batch.column(name)) for name in ("key", "row"))
            numbers = self._without_nulls(rows.flatten()).to_numpy(zero_copy_only=False)
            widths = [self.dim]
            if not pa.types.is_fixed_size_list(rows.type):
                widths = np.unique(np.diff(rows.offsets.to_numpy())).tolist()
            if widths != [self.dim]:
                raise FileError(f"{self.paths[0]}: rows of {widths} floats, expected {self.dim}")
            keys = keys.to_numpy(zero_copy_only=False).astype(np.int64)
            yield keys, as_float32(self.paths[0], keys, numbers.reshape(-1, self.dim))

    def _width(self, kind):
        is_fixed = pa.types.is_fixed_size_list(kind)
        is_list = is_fixed or pa.types.is_list(kind) or pa.types.is_large_list(kind)
        if not is_list or not pa.types.is_floating(kind.value_type):
            raise FileError(f"{self.paths[0]}: the column row is {kind}, expected lists of floats")
        if is_fixed:
            return kind.list_size
        first = next(self._batches(1, ["row"]), None)
        return len(first.column(0)[0]) if first is not None and first.num_rows else 1

    def _batches(self, num_rows, columns):
        try:
            yield from self._file.iter_batches(num_rows, columns=columns)
        except (pa.ArrowException, OSError) as error:
            raise FileError(f"{self.paths[0]} is damaged: {error}") from error

    def _without_nulls(self, array):
        if array.null_count:
            raise FileError(f"{self.paths[0]} has {array.null_count} nulls")
        return array
