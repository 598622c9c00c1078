# SPDX-License-Identifier: Apache-2.0
"""Generated data of benchmarks.modelzoo: columns, separators, types, and what can be learned."""

import csv
import json
import pickle

import numpy as np
import pytest

from benchmarks.modelzoo import books_data, criteo_data, planting, taobao_data
from benchmarks.modelzoo.data import Data
from examples.dlrm.auc import exact_auc

SIZES = {"train": 60, "eval": 20}
parquet = pytest.importorskip("pyarrow.parquet")


def rows_of(path, delimiter=","):
    with open(path) as stream:
        return list(csv.reader(stream, delimiter=delimiter, quoting=csv.QUOTE_NONE))


def types_of(path):
    return {field.name: str(field.type) for field in parquet.read_schema(path)}


@pytest.mark.parametrize("writer", [criteo_data.write, criteo_data.write_int64])
def test_criteo_csv_and_parquet_hold_the_same(tmp_path, writer):
    writer(tmp_path, SIZES, seed=1)
    for name, size in SIZES.items():
        rows = rows_of(tmp_path / f"{name}.csv")
        table = parquet.read_table(tmp_path / f"{name}.parquet")
        assert table.num_rows == len(rows) == size and {len(row) for row in rows} == {40}
        assert tuple(table.column_names) == criteo_data.COLUMNS
        assert not any(column.null_count for column in table.columns)
        columns = table.to_pydict()
        assert columns["clicked"] == [int(row[0]) for row in rows]
        assert max(columns["I10"]) <= 9
        assert columns["I3"] == [float(row[3] or 0) for row in rows]
        assert list(map(str, columns["C26"])) == [row[39] or " " for row in rows]


def test_parts_of_criteo_for_a_work_queue(tmp_path):
    criteo_data.write(tmp_path, SIZES, seed=1)
    whole = (tmp_path / "eval.csv").read_text().splitlines()
    for part in (1, 2, 3):
        assert (tmp_path / f"eval.csv.{part}").read_text().splitlines() == whole[part::4]


def test_types_of_criteo_columns(tmp_path):
    criteo_data.write(tmp_path, SIZES, seed=1)
    types = types_of(tmp_path / "train.parquet")
    assert (types["clicked"], types["I1"], types["C1"]) == ("int32", "float", "string")
    criteo_data.write_int64(tmp_path, SIZES, seed=1)
    assert types_of(tmp_path / "train.parquet")["C1"] == "int64"
    keys = [int(row[14]) for row in rows_of(tmp_path / "train.csv")]
    assert min(keys) >= 0 and max(keys) < 1 << 32


def test_binary_criteo_has_keys_within_the_tables(tmp_path):
    criteo_data.write_binary(tmp_path, SIZES, seed=1)
    for part, size in (("train", 60), ("test", 20)):
        labels = np.fromfile(tmp_path / part / "label.bin", np.int32)
        dense = np.fromfile(tmp_path / part / "dense.bin", np.float32)
        keys = np.fromfile(tmp_path / part / "category.bin", np.float32).reshape(size, 26)
        assert set(labels) <= {0, 1} and len(dense) == size * 13 and dense.min() > -3
        assert (keys >= 0).all() and (keys < criteo_data.TERABYTE_CARDINALITIES // 8 + 1).all()


def test_taobao_columns(tmp_path):
    taobao_data.write(tmp_path, SIZES, seed=1)
    for name, size in (("train", 60), ("test", 20)):
        rows = rows_of(tmp_path / f"taobao_{name}_data")
        columns = parquet.read_table(tmp_path / f"taobao_{name}_data.parquet").to_pydict()
        assert len(rows) == size and {len(row) for row in rows} == {20}
        assert tuple(columns) == taobao_data.COLUMNS
        for column, values in zip(columns.values(), zip(*rows)):
            assert list(map(str, column)) == list(values)
    types = types_of(tmp_path / "taobao_train_data.parquet")
    assert types.pop("clk") == types.pop("buy") == "int32" and set(types.values()) == {"string"}
    categories, brands = (columns[f"tag_{name}_list"] for name in ("category", "brand"))
    lengths = [len(one.split("|")) for one in categories]
    assert max(lengths) > 1 and lengths == [len(one.split("|")) for one in brands]


def test_books_have_lists_of_one_length_and_known_words(tmp_path):
    books_data.write(tmp_path, SIZES, seed=1)
    known = {
        name: (tmp_path / f"{name}_voc.txt").read_text().splitlines()
        for name in ("uid", "mid", "cat")
    }
    for name, words in known.items():
        with open(tmp_path / f"{name}_voc.pkl", "rb") as stream:
            assert pickle.load(stream) == {word: i for i, word in enumerate(words)}
    categories = dict(rows_of(tmp_path / "item-info", "\t"))
    for name, size in (("train", 60), ("test", 20)):
        path = tmp_path / f"local_{name}_splitByUser"
        rows, negatives = rows_of(path, "\t"), rows_of(f"{path}_neg", "\t")
        assert len(rows) == len(negatives) == size and {len(row) for row in rows} == {6}
        for (label, user, item, category, *lists), others in zip(rows, negatives):
            assert label in "01" and user in known["uid"] and category == categories[item]
            split = [one.split("\x02") for one in (*lists, *others)]
            assert len({len(one) for one in split}) == 1
            assert [categories[one] for one in split[0]] == split[1]
            assert [categories[one] for one in split[2]] == split[3]
        columns = parquet.read_table(f"{path}.parquet").to_pydict()
        assert tuple(columns) == books_data.COLUMNS
        assert columns["HISTORY_ITEM"] == [row[4] for row in rows]
        columns = parquet.read_table(f"{path}_neg.parquet").to_pydict()
        assert columns["NOCLK_HISTORY_CATEGORY"] == [row[1] for row in negatives]
    assert len(rows_of(tmp_path / "reviews-info", "\t")) == 80


def rates_by(values, labels):
    """{value: the share of ones}, of the first half."""
    half = len(labels) // 2
    sums, counts = {}, {}
    for value, label in zip(values[:half], labels[:half]):
        sums[value] = sums.get(value, 0) + label
        counts[value] = counts.get(value, 0) + 1
    return {value: (sums[value] + 0.3) / (counts[value] + 1) for value in sums}


def auc_of_rates(values, labels):
    """What an average by value, of the first half, is worth on the second."""
    rates, half = rates_by(values, labels), len(labels) // 2
    return exact_auc(labels[half:], [rates.get(value, 0.3) for value in values[half:]])


@pytest.mark.parametrize("label", taobao_data.LABELS)
def test_taobao_labels_can_be_learned(label):
    columns = taobao_data.draw(8_000, 1, 0)
    assert 0.2 < columns[label].mean() < 0.6
    assert max(auc_of_rates(columns[name], columns[label]) for name in ("cate_id", "brand")) > 0.57


def test_clicks_on_taobao_depend_on_matching_tags():
    columns = taobao_data.draw(8_000, 1, 0)
    lists = (one.split("|") for one in columns["tag_category_list"])
    is_match = [one in tags for one, tags in zip(columns["cate_id"], lists)]
    assert exact_auc(columns["clk"], is_match) > 0.55


def test_clicks_on_books_depend_on_the_history():
    columns = books_data.draw(5_000, 1, 0)
    lists = (one.split(books_data.SEPARATOR) for one in columns["HISTORY_CATEGORY"])
    shares = [names.count(one) for one, names in zip(columns["CATEGORY"], lists)]
    assert exact_auc(columns["CLICKED"], shares) > 0.75


@pytest.mark.parametrize("draw", [taobao_data.draw, books_data.draw])
def test_draws_depend_on_seed_and_chunk_alone(draw):
    first, again, other = draw(50, 1, 0), draw(50, 1, 0), draw(50, 1, 1)
    for name, values in first.items():
        assert list(values) == list(again[name])
    assert any(list(first[name]) != list(other[name]) for name in first)


def test_categories_are_skewed_and_in_range():
    drawn = planting.draw_categories(np.random.default_rng(1), 10_000, 100)
    counts = np.bincount(drawn, minlength=100)
    assert len(counts) == 100 and counts[0] > 3 * counts[10] > 0


def test_a_folder_is_written_once_for_the_same_sizes(tmp_path):
    folder = Data(tmp_path, 30, 10).folder("taobao")
    written = tmp_path / "taobao" / "taobao_train_data"
    first = written.stat().st_mtime_ns
    assert Data(tmp_path, 30, 10).folder("taobao") == folder == str(tmp_path / "taobao")
    assert written.stat().st_mtime_ns == first
    Data(tmp_path, 20, 10).folder("taobao")
    assert len(rows_of(written)) == 20
    description = json.loads((tmp_path / "taobao" / "description.json").read_text())
    assert description == {"train": 20, "eval": 10, "seed": 1}
