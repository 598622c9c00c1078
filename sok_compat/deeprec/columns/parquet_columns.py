# SPDX-License-Identifier: Apache-2.0
"""Columns of Parquet files as flat arrays: values, and row splits for each list around them."""

import os

import numpy as np
import tensorflow as tf

_STRINGS = ("string", "large_string", "binary", "large_binary")
_INTEGERS = (f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
_DTYPES = {  # by what pyarrow calls them
    **dict.fromkeys(_STRINGS, tf.string),
    **{name: tf.as_dtype(name) for name in ("bool", *_INTEGERS)},
    "halffloat": tf.float16,
    "float": tf.float32,
    "double": tf.float64,
}


def flat_types(fields):
    """(dtypes, shapes) of what `ParquetFile.batches` yields, as tuples."""
    types = [dtype for field in fields for dtype in (field.dtype, *[tf.int64] * field.ragged_rank)]
    return tuple(types), tuple(tf.TensorShape([None]) for _ in types)


class ParquetFile:
    """A file, which is opened at once."""

    def __init__(self, path):
        """Opens it.

        Args:
          path: a path, or a URI that pyarrow.fs knows.

        Raises:
          ImportError: pyarrow is not installed.
        """
        try:
            import pyarrow.fs
            import pyarrow.parquet
        except ImportError as error:
            raise ImportError(
                f"ParquetDataset reads files with pyarrow, and that failed: {error}. "
                "pip install 'pyarrow>=16,<22'"  # which work with NumPy 1 and 2
            ) from error
        self.path = os.fsdecode(path)
        source = self.path
        if "://" in source:
            filesystem, name = pyarrow.fs.FileSystem.from_uri(source)
            source = filesystem.open_input_file(name)
        self._file = pyarrow.parquet.ParquetFile(source)
        self._schema = self._file.schema_arrow

    def names(self):
        """Of all columns."""
        return list(self._schema.names)

    def type_of(self, name):
        """(dtype of a column's values, how many lists are around one).

        Raises:
          ValueError: there is no such column, or TensorFlow has no such values.
        """
        if name not in self._schema.names:
            raise ValueError(f"{self.path} has no column {name!r}, but {self.names()}")
        kind, ragged_rank = self._schema.field(name).type, 0
        while _is_list(kind):
            kind, ragged_rank = kind.value_type, ragged_rank + 1
        return self._dtype_of(name, kind), ragged_rank

    def check(self, field):
        """Raises ValueError where a DataFrame.Field is not a column of this file."""
        found = self.type_of(field.name)
        if found != (field.dtype, field.ragged_rank):
            raise ValueError(
                f"{self.path}: the column {field.name!r} is {found[0].name} with ragged_rank "
                f"{found[1]}, and the field {field.dtype.name} with ragged_rank "
                f"{field.ragged_rank}"
            )

    def batches(self, fields, batch_size, part, is_exact):
        """Yields for each batch: of each field its values, then row splits, the outermost first.

        Args:
          fields: DataFrame.Fields with all attributes.
          batch_size: the most samples in a batch.
          part: (i, n): row groups i, i + n, ...
          is_exact: whether smaller batches are left out.
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
            column = column.flatten()  # without what is below a missing list
        if column.null_count:
            raise ValueError(
                f"{self.path}: the column {field.name!r} has {column.null_count} missing values "
                "in a batch; fill them, or make it a column of lists"
            )
        return column.to_numpy(zero_copy_only=False), *splits

    def _dtype_of(self, name, kind):
        dtype = _DTYPES.get(str(kind))
        if dtype is None:
            raise ValueError(
                f"{self.path}: the column {name!r} is of {kind}; bools, integers, floats, strings, "
                "and lists of these can be read"
            )
        return dtype


def _is_list(kind):
    return str(kind).startswith(("list<", "large_list<"))
