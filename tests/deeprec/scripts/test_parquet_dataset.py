# SPDX-License-Identifier: Apache-2.0
"""ParquetDataset: batches of columns as they were written."""

import sys

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from sok_compat.deeprec.python.data.experimental.ops.parquet_dataset_ops import (
    DataFrame,
    ParquetDataset,
    read_parquet,
)

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

COLUMNS = {
    "id": pyarrow.array(range(7), "int64"),
    "price": pyarrow.array(np.arange(7) / 2, "float32"),
    "name": pyarrow.array(list("abcdefg")),
    "tags": pyarrow.array([[1], [], [2, 3], None, [4], [5], [6, 7, 8]],
                          pyarrow.list_(pyarrow.int32())),
    "words": pyarrow.array([[["x"], []], [], [["y", "z"]]] + [[]] * 4),
}  # fmt: skip


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two files of row groups of 4 and 3 rows; the ids of the second begin at 10."""
    paths = [str(tmp_path_factory.mktemp("parquet") / f"{i}.parquet") for i in range(2)]
    for i, path in enumerate(paths):
        ids = pyarrow.array(range(10 * i, 10 * i + 7), "int64")
        table = pyarrow.table({**COLUMNS, "id": ids})
        parquet.write_table(table, path, row_group_size=4)
    return paths


def read(dataset):
    """[batch], with lists in the place of tensors."""
    batch = tf.data.make_one_shot_iterator(dataset).get_next()
    batches = []
    with tf.Session() as session:
        while True:
            try:
                batches.append({k: v.to_list() if hasattr(v, "to_list") else v.tolist()
                                for k, v in session.run(batch).items()})  # fmt: skip
            except tf.errors.OutOfRangeError:
                return batches


def joined(batches, column):
    return [value for batch in batches for value in batch[column]]


def test_all_columns_of_a_file(files):
    dataset = ParquetDataset(files[0], batch_size=5)
    shapes = tf.data.get_output_shapes(dataset)
    assert shapes["id"].as_list() == [None] and shapes["tags"].as_list() == [None, None]
    batches = read(dataset.prefetch(2))
    assert [len(batch["id"]) for batch in batches] == [5, 2]
    assert joined(batches, "id") == list(range(7))
    assert joined(batches, "price") == [i / 2 for i in range(7)]
    assert joined(batches, "name") == [letter.encode() for letter in "abcdefg"]
    assert joined(batches, "tags") == [[1], [], [2, 3], [], [4], [5], [6, 7, 8]]
    assert joined(batches, "words") == [[[b"x"], []], [], [[b"y", b"z"]], [], [], [], []]


@pytest.mark.parametrize(
    "kind",
    [
        *(pyarrow.string(), pyarrow.large_string(), pyarrow.binary(), pyarrow.large_binary()),
        pyarrow.dictionary(pyarrow.int32(), pyarrow.string()),  # as pandas writes categories
    ],
    ids=lambda kind: str(kind).partition("<")[0],
)
@pytest.mark.parametrize("texts", [["", "a", "", "naïve €", "x" * 1000] * 3, [""] * 15])
def test_strings(tmp_path, kind, texts):
    path, values = str(tmp_path / "x.parquet"), [text.encode() for text in texts]
    lists = [values[i:15:5] for i in range(10)] + [None, [], [], [b"end"], [b""]]
    column = pyarrow.array(values, kind)
    table = pyarrow.table({"x": column, "y": pyarrow.array(lists, pyarrow.list_(column.type))})
    parquet.write_table(table, path, row_group_size=10)
    batches = read(ParquetDataset(path, batch_size=4))
    assert joined(batches, "x") == values
    assert joined(batches, "y") == [texts or [] for texts in lists]


def test_some_columns_of_several_files(files):
    dataset = ParquetDataset(files, 5, fields=["id"], drop_remainder=True)
    assert read(dataset) == [{"id": [0, 1, 2, 3, 4]}, {"id": [10, 11, 12, 13, 14]}]
    at_once = read(ParquetDataset(tuple(files), 5, fields="id", num_parallel_reads=2))
    assert joined(at_once, "id") == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14, 5, 6, 15, 16]


def test_parts_of_files_by_row_groups(files):
    ids = [joined(read(ParquetDataset(files[0], 7, "id", 2, part)), "id") for part in range(2)]
    assert ids == [[0, 1, 2, 3], [4, 5, 6]]


def test_names_of_files_that_are_known_later(files):
    fields = [DataFrame.Field("id", tf.int64), DataFrame.Field("tags", tf.int32, ragged_rank=1)]
    names = tf.data.Dataset.from_tensor_slices(files)
    batches = read(names.apply(read_parquet(4, fields=fields)))
    assert joined(batches, "id") == [*range(7), *range(10, 17)]
    assert joined(batches, "tags") == [[1], [], [2, 3], [], [4], [5], [6, 7, 8]] * 2
    assert joined(read(ParquetDataset(tf.constant(files[1]), 7, fields)), "id") == [*range(10, 17)]


def test_uris(files):
    assert joined(read(ParquetDataset(f"file://{files[0]}", 3, "id")), "id") == list(range(7))


@pytest.mark.parametrize("arguments, message", [
    (dict(fields=["no"]), "has no column 'no', only"),
    (dict(fields=[DataFrame.Field("id", tf.float32)]), "'id' must be int64 with ragged_rank 0, as "
     "the column, got float32 with ragged_rank 0"),
    (dict(fields=DataFrame.Field("tags", ragged_rank=2)), "ragged_rank 1, as in .*, got 2"),
    (dict(batch_size=0), "batch_size and num_sequential_reads must be at least 1, got 0 and 1"),
    (dict(partition_count=2, partition_index=2), r"must be in \[0, partition_count = 2\), got 2"),
])  # fmt: skip
def test_bad_arguments(files, arguments, message):
    with pytest.raises(ValueError, match=message):
        ParquetDataset(files[0], **arguments)


def test_fields_are_needed_where_no_file_is_known(files):
    for fields, message in ((None, "must be DataFrame.Fields"), (["id"], "'id' needs a dtype")):
        with pytest.raises(ValueError, match=message):
            ParquetDataset(tf.constant(files), fields=fields)


@pytest.mark.parametrize("values, message", [
    ([1, None, 3], "the column 'x' has 1 missing values in a batch"),
    ([{"a": 1}], "integers, floats, strings, or lists of these, got struct<a: int64>"),
])  # fmt: skip
def test_values_that_no_tensor_has(tmp_path, values, message):
    path = str(tmp_path / "x.parquet")
    parquet.write_table(pyarrow.table({"x": values}), path)
    with pytest.raises((ValueError, tf.errors.OpError), match=message):
        read(ParquetDataset(path))


def test_without_pyarrow_it_says_what_to_install(monkeypatch, files):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match="pip install 'sok_compat"):
        ParquetDataset(files[0])
