# SPDX-License-Identifier: Apache-2.0
"""`ParquetDataset`: batches of columns of Parquet files, read by pyarrow."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Union

import numpy as np
import tensorflow.compat.v1 as tf

from sok_compat.deeprec.columns.parquet_columns import ParquetFile, columns_of, flat_types


class DataFrame:
    """A namespace. API of DeepRec."""

    @dataclasses.dataclass(frozen=True)
    class Field:
        """A column. API of DeepRec.

        Attributes:
          name: of the column.
          dtype: dtype of its values; None: the file's, if filenames are known when the dataset is
            made.
          ragged_rank: nesting depth of lists: 0 for [batch], 1 for a tf.RaggedTensor
            [batch, (values)]; None: the file's if dtype is None, else 0.
        """

        name: str
        dtype: tf.DType | str | None = None
        ragged_rank: int | None = None


_Fields = Union[Sequence[Union[str, DataFrame.Field]], str, DataFrame.Field, None]


def ParquetDataset(  # noqa: N802  a class in DeepRec
    filenames: Any,
    batch_size: int = 1,
    fields: _Fields = None,
    partition_count: int = 1,
    partition_index: int = 0,
    drop_remainder: bool = False,
    num_parallel_reads: int | None = None,
    num_sequential_reads: int = 1,
) -> tf.data.Dataset:
    """A tf.data.Dataset of {column name: batch}. API of DeepRec.

    A column of numbers or strings gives a tensor [batch], a column of lists a tf.RaggedTensor. Each
    batch comes from one file.

    Args:
      filenames: a string, or a list or tuple of strings; or a tf.string tensor [] or [n], or a
        dataset of such tensors. Paths, or URIs that pyarrow.fs supports.
      batch_size: samples in a batch, at most.
      fields: a list or tuple of DataFrame.Fields or column names, or a single one; None: all
        columns of the first file. If filenames are a tensor or dataset: Fields with dtypes.
      partition_count: reads only the row groups i of each file with
        i % partition_count == partition_index.
      partition_index: see partition_count.
      drop_remainder: whether to drop smaller batches at the ends of files.
      num_parallel_reads: number of files to read in parallel; None: reads files in order.
      num_sequential_reads: with num_parallel_reads, consecutive batches from one file.

    Raises:
      ImportError: pyarrow is not installed.
      ValueError: a size out of range; a field that the files do not have, or without a dtype.
      tf.errors.OpError: when read: a file with other columns, or missing values.
    """
    if isinstance(filenames, (str, bytes)):
        filenames = [filenames]
    first = None
    if isinstance(filenames, (list, tuple)) and all(
        isinstance(name, (str, bytes)) for name in filenames
    ):
        if not filenames:
            raise ValueError("ParquetDataset needs at least one filename, got none")
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


def read_parquet(
    batch_size: int, fields: _Fields = None, **options: Any
) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
    """Returns what `apply` of a dataset of filenames turns into a ParquetDataset. API of DeepRec.

    Args:
      batch_size: rows of a batch.
      fields, **options: see ParquetDataset.
    """
    return lambda filenames: ParquetDataset(filenames, batch_size, fields, **options)


def _dataset(
    filenames: tf.data.Dataset,
    first: ParquetFile | None,
    batch_size: int,
    fields: _Fields,
    count: int,
    index: int,
    drop_remainder: bool,
    num_files: int | None,
    num_sequential: int,
) -> tf.data.Dataset:
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
    columns = _checked_fields(fields, first)
    signature = tuple(tf.TensorSpec(None, dtype) for dtype in flat_types(columns))

    def batches_of(filename):
        read = functools.partial(
            _read, fields=columns, batch_size=batch_size, part=(index, count), exact=drop_remainder
        )
        return tf.data.Dataset.from_generator(read, args=(filename,), output_signature=signature)

    names = filenames.map(lambda each: tf.reshape(each, [-1])).unbatch()
    if num_files is None:
        batches = names.flat_map(batches_of)
    else:
        batches = names.interleave(
            batches_of, num_files, num_sequential, num_parallel_calls=num_files
        )
    return batches.map(lambda *arrays: columns_of(columns, arrays))


def _read(
    filename: bytes,
    fields: Sequence[DataFrame.Field],
    batch_size: int,
    part: tuple[int, int],
    exact: bool,
) -> Iterator[tuple[np.ndarray, ...]]:
    yield from ParquetFile(filename).batches(fields, batch_size, part, exact)


def _checked_fields(fields: _Fields, first: ParquetFile | None) -> list[DataFrame.Field]:
    """The fields, each with a dtype and a ragged_rank; `first` is a file, if one is known."""
    if fields is None:
        if first is None:
            raise ValueError(
                "ParquetDataset: if filenames are a tensor or dataset, fields must be "
                "DataFrame.Fields with dtypes, got None"
            )
        fields = first.names()
    fields = [fields] if isinstance(fields, (str, DataFrame.Field)) else fields
    return [_checked_field(field, first) for field in fields]


def _checked_field(field: str | DataFrame.Field, first: ParquetFile | None) -> DataFrame.Field:
    field = DataFrame.Field(field) if isinstance(field, str) else field
    if field.dtype is None:
        if first is None:
            raise ValueError(
                f"ParquetDataset: the field {field.name!r} needs a dtype, because filenames are a "
                "tensor or dataset"
            )
        dtype, ragged_rank = first.type_of(field.name)
        if field.ragged_rank not in (None, ragged_rank):
            raise ValueError(
                f"ParquetDataset: the field {field.name!r} must have ragged_rank {ragged_rank}, as "
                f"in {first.path}, got {field.ragged_rank}"
            )
        return DataFrame.Field(field.name, dtype, ragged_rank)
    dtype, ragged_rank = tf.as_dtype(field.dtype), field.ragged_rank or 0
    if first is not None:
        first.check(DataFrame.Field(field.name, dtype, ragged_rank))
    return DataFrame.Field(field.name, dtype, ragged_rank)
