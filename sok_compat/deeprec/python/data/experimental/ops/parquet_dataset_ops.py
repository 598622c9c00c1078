# SPDX-License-Identifier: Apache-2.0
"""`ParquetDataset`: batches of columns of Parquet files, read by pyarrow."""

import dataclasses
import functools
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from sok_compat.deeprec.columns.parquet_columns import ParquetFile, flat_types


class DataFrame:
    """A namespace. API of DeepRec."""

    @dataclasses.dataclass(frozen=True)
    class Field:
        """A column. API of DeepRec.

        Attributes:
          name: of the column.
          dtype: of its values; None: the file's, where file names are known when the dataset is
            made.
          ragged_rank: how many lists are around a value: 0 for [batch], 1 for a tf.RaggedTensor
            [batch, (values)]; None: the file's if dtype is None, else 0.
        """

        name: str
        dtype: Any = None
        ragged_rank: Optional[int] = None


def ParquetDataset(  # noqa: N802  a class in DeepRec
    filenames,
    batch_size=1,
    fields=None,
    partition_count=1,
    partition_index=0,
    drop_remainder=False,
    num_parallel_reads=None,
    num_sequential_reads=1,
):
    """A tf.data.Dataset of {name of the column: batch}. API of DeepRec.

    A column of numbers or strings gives a tensor [batch], one of lists a tf.RaggedTensor. A batch
    is of one file.

    Args:
      filenames: a string, or a list or tuple of them; a tf.string tensor [] or [n], or a dataset of
        such. Paths, or URIs that pyarrow.fs knows.
      batch_size: the most samples in a batch.
      fields: the columns, a list or tuple of DataFrame.Field or of names, or one of them; None: all
        of the first file. With a tensor or dataset of filenames, Fields with dtypes.
      partition_count, partition_index: of each file, row groups i with i % partition_count ==
        partition_index are read.
      drop_remainder: whether smaller batches, at the ends of files, are left out.
      num_parallel_reads: how many files are read at the same time; None: one after the other.
      num_sequential_reads: batches of one file in a row, with num_parallel_reads.

    Raises:
      ImportError: pyarrow is not installed.
      ValueError: sizes out of range; fields that the files do not have, or without a dtype.
      tf.errors.OpError: when read: a file of other columns, values that are missing.
    """
    if isinstance(filenames, (str, bytes)):
        filenames = [filenames]
    first = None
    if isinstance(filenames, (list, tuple)) and all(
        isinstance(name, (str, bytes)) for name in filenames
    ):
        if not filenames:
            raise ValueError("ParquetDataset: there must be a filename at least, got none")
        first = ParquetFile(filenames[0])
    if not isinstance(filenames, tf.data.Dataset):
        names = tf.reshape(tf.convert_to_tensor(filenames, tf.string), [-1])
        filenames = tf.data.Dataset.from_tensor_slices(names)
    return _dataset(
        filenames,
        first,
        batch_size,
        fields,
        partition_count,
        partition_index,
        drop_remainder,
        num_parallel_reads,
        num_sequential_reads,
    )


def read_parquet(batch_size, fields=None, **options):
    """For `apply` of a dataset of filenames: a ParquetDataset of them. API of DeepRec."""
    return lambda filenames: ParquetDataset(filenames, batch_size, fields, **options)


def _dataset(
    filenames, first, batch_size, fields, count, index, drop_remainder, num_files, num_sequential
):
    if batch_size < 1 or num_sequential < 1:
        raise ValueError(
            "ParquetDataset: batch_size and num_sequential_reads must be at least 1, got "
            f"{batch_size} and {num_sequential}"
        )
    if not 0 <= index < count:
        raise ValueError(
            f"ParquetDataset: partition_index must be in [0, partition_count = {count}), got "
            f"{index}"
        )
    fields = _checked_fields(fields, first)
    types, shapes = flat_types(fields)

    def batches_of(filename):
        read = functools.partial(
            _read, fields=fields, batch_size=batch_size, part=(index, count), exact=drop_remainder
        )
        return tf.data.Dataset.from_generator(read, types, shapes, args=(filename,))

    def columns_of(*flat):
        return _columns(fields, list(flat))

    names = filenames.flat_map(_one_by_one)
    if num_files is None:
        return names.flat_map(batches_of).map(columns_of)
    return names.interleave(
        batches_of, num_files, num_sequential, num_parallel_calls=num_files
    ).map(columns_of)


def _one_by_one(filenames):
    return tf.data.Dataset.from_tensor_slices(tf.reshape(filenames, [-1]))


def _read(filename, fields, batch_size, part, exact):
    yield from ParquetFile(filename).batches(fields, batch_size, part, exact)


def _columns(fields, flat):
    """{name: tensor} of what _read yields."""
    columns = {}
    for field in fields:
        values, *splits = (flat.pop(0) for _ in range(field.ragged_rank + 1))
        for row_splits in reversed(splits):
            values = tf.RaggedTensor.from_row_splits(values, row_splits, validate=False)
        columns[field.name] = values
    return columns


def _checked_fields(fields, first):
    """[Field] with a dtype and a ragged_rank; `first`: a file, if one is known."""
    if fields is None and first is None:
        raise ValueError(
            "ParquetDataset: with a tensor or dataset of filenames, fields must be given as "
            "DataFrame.Fields with dtypes"
        )
    fields = [fields] if isinstance(fields, (str, DataFrame.Field)) else fields
    wanted = first.names() if fields is None else fields
    return [_checked_field(field, first) for field in wanted]


def _checked_field(field, first):
    field = DataFrame.Field(field) if isinstance(field, str) else field
    if field.dtype is None:
        if first is None:
            raise ValueError(
                f"ParquetDataset: the field {field.name!r} needs a dtype where filenames are a "
                "tensor or dataset"
            )
        dtype, ragged_rank = first.type_of(field.name)
        if field.ragged_rank not in (None, ragged_rank):
            raise ValueError(
                f"ParquetDataset: the field {field.name!r} has ragged_rank {field.ragged_rank}, "
                f"and {first.path} has {ragged_rank}"
            )
        return DataFrame.Field(field.name, dtype, ragged_rank)
    dtype, ragged_rank = tf.as_dtype(field.dtype), field.ragged_rank or 0
    if first is not None:
        first.check(DataFrame.Field(field.name, dtype, ragged_rank))
    return DataFrame.Field(field.name, dtype, ragged_rank)
