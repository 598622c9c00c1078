# SPDX-License-Identifier: Apache-2.0
"""Columns of Parquet files as flat arrays: values, and row splits for each level of lists."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from sok_compat.runtime.op_library import ops

_STRINGS = ("string", "large_string", "binary", "large_binary")
_INTEGERS = (f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
_DTYPES = {  # by what pyarrow calls them
    **dict.fromkeys(_STRINGS, tf.string),
    **{name: tf.as_dtype(name) for name in ("bool", *_INTEGERS)},
    "halffloat": tf.float16,
    "float": tf.float32,
    "double": tf.float64,
}


class Field(Protocol):
    """A DataFrame.Field with all attributes set."""

    @property
    def name(self) -> str: ...

    @property
    def dtype(self) -> Any: ...

    @property
    def ragged_rank(self) -> Any: ...


def flat_types(fields: Sequence[Field]) -> tuple[tf.DType, ...]:
    """dtypes of the arrays that `ParquetFile.batches` yields."""
    types: list[tf.DType] = []
    for field in fields:
        types += [tf.int64, tf.uint8] if field.dtype == tf.string else [field.dtype]
        types += [tf.int64] * field.ragged_rank
    return tuple(types)


def columns_of(fields: Sequence[Field], arrays: Iterable[tf.Tensor]) -> dict[str, Any]:
    """{name: tensor [batch] or tf.RaggedTensor} from the arrays of a batch."""
    arrays = iter(arrays)
    strings: list[tuple[tf.Tensor, tf.Tensor]] = []
    values, splits = [], []
    for field in fields:
        if field.dtype == tf.string:
            strings.append((_vector(arrays), _vector(arrays)))
        values.append(None if field.dtype == tf.string else _vector(arrays))
        splits.append([_vector(arrays) for _ in range(field.ragged_rank)])
    # Making a Python object of each string would take longer than reading the file.
    texts = iter(ops.sok_strings(*map(list, zip(*strings))) if strings else ())
    columns = {}
    for field, column, splits_of_column in zip(fields, values, splits):
        column = next(texts) if column is None else column
        for row_splits in reversed(splits_of_column):
            column = tf.RaggedTensor.from_row_splits(column, row_splits, validate=False)
        columns[field.name] = column
    return columns


def _vector(arrays):
    array = next(arrays)
    array.set_shape([None])
    return array


class ParquetFile:
    """An open Parquet file."""

    def __init__(self, path: Any) -> None:
        """Opens the file.

        Raises:
          ImportError: pyarrow is not installed.
        """
        try:
            import pyarrow.fs
            import pyarrow.parquet
        except ImportError as error:
            raise ImportError(
                f"ParquetDataset cannot import pyarrow: {error}. Run: "
                "pip install 'sok_compat[parquet]'"
            ) from error
        self.path = os.fsdecode(path)
        source = self.path
        if "://" in source:
            filesystem, name = pyarrow.fs.FileSystem.from_uri(source)
            source = filesystem.open_input_file(name)
        self._file = pyarrow.parquet.ParquetFile(source)
        self._schema = self._file.schema_arrow

    def names(self) -> list[str]:
        """The names of all columns."""
        return list(self._schema.names)

    def type_of(self, name: str) -> tuple[tf.DType, int]:
        """(dtype of a column's values, ragged_rank).

        Raises:
          ValueError: there is no such column, or TensorFlow has no dtype for its values.
        """
        if name not in self._schema.names:
            raise ValueError(f"{self.path} has no column {name!r}, only {self.names()}")
        kind, ragged_rank = self._schema.field(name).type, 0
        while str(kind).startswith(("list<", "large_list<")):
            kind, ragged_rank = kind.value_type, ragged_rank + 1
        if str(kind).startswith("dictionary<"):  # of pandas, for categories
            kind = kind.value_type
        return self._dtype_of(name, kind), ragged_rank

    def check(self, field: Field) -> None:
        """Raises ValueError if a field is not a column of this file."""
        found = self.type_of(field.name)
        if found != (field.dtype, field.ragged_rank):
            raise ValueError(
                f"{self.path}: the field {field.name!r} must be {found[0].name} with ragged_rank "
                f"{found[1]}, as the column, got {field.dtype.name} with ragged_rank "
                f"{field.ragged_rank}"
            )

    def batches(
        self,
        fields: Sequence[Field],
        batch_size: int,
        part: tuple[int, int],
        is_exact: bool,
    ) -> Iterator[tuple[np.ndarray, ...]]:
        """Yields each batch as a tuple: for each field values, then row splits, outermost first.

        The values of strings are two arrays: offsets, and the bytes from the first of these on.

        Args:
          batch_size: samples in a batch, at most.
          part: (i, n): reads row groups i, i + n, ...
          is_exact: whether to drop smaller batches.
        """
        for field in fields:
            self.check(field)
        groups = list(range(self._file.num_row_groups))[part[0] :: part[1]]
        columns = list(dict.fromkeys(field.name for field in fields))
        for batch in self._file.iter_batches(batch_size, row_groups=groups, columns=columns):
            if batch.num_rows and not (is_exact and batch.num_rows < batch_size):
                found = dict(zip(batch.schema.names, batch.columns))
                yield tuple(
                    array for field in fields for array in self._flat(field, found[field.name])
                )

    def _flat(self, field, column):
        splits = []
        for _ in range(field.ragged_rank):
            lengths = np.asarray(column.value_lengths().fill_null(0), np.int64)
            splits.append(np.concatenate([[0], np.cumsum(lengths)]))
            column = column.flatten()  # drops values below a missing list
        if str(column.type).startswith("dictionary<"):
            column = column.dictionary_decode()
        if column.null_count:
            raise ValueError(
                f"{self.path}: the column {field.name!r} has {column.null_count} missing values "
                "in a batch: fill them, or make it a column of lists"
            )
        if field.dtype == tf.string:
            return *_offsets_and_bytes(column), *splits
        return column.to_numpy(zero_copy_only=False), *splits

    def _dtype_of(self, name, kind):
        dtype = _DTYPES.get(str(kind))
        if dtype is None:
            raise ValueError(
                f"{self.path}: the column {name!r} must have bools, integers, floats, strings, or "
                f"lists of these, got {kind}"
            )
        return dtype


def _offsets_and_bytes(column):
    _, offsets, texts = column.buffers()
    if not len(column):  # it may have no buffers
        return np.zeros(1, np.int64), np.zeros(0, np.uint8)
    offset_type = np.int64 if str(column.type).startswith("large_") else np.int32
    offsets = np.frombuffer(offsets, offset_type)[column.offset :][: len(column) + 1]
    return offsets.astype(np.int64), np.frombuffer(texts or b"", np.uint8)[offsets[0] : offsets[-1]]
