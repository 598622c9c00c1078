# SPDX-License-Identifier: Apache-2.0
"""The tf.data reader of examples/dlrm: formats, values, batches, and lines it must not swallow."""

import logging

import dlrm_data
import numpy as np
import pytest
from dlrm_data import read, read_all, record, write

from examples.dlrm import criteo, malformed, reader

RECORDS = [
    record("1", ["3", "-1", "", "100"], ["05db9164", "", "ab"]),
    record("0", ["", "0"], ["05db9164", "05db9164"]),
    record("0", [], []),
]


def assert_records(batch):
    """`batch` holds RECORDS."""
    np.testing.assert_array_equal(batch.labels, [1, 0, 0])
    values, flags = np.split(batch.dense, 2, axis=1)
    np.testing.assert_allclose(
        values[0, :4], [np.log1p(3), -np.log1p(1), 0, np.log1p(100)], rtol=1e-6
    )
    np.testing.assert_array_equal(flags[0, :5], [0, 0, 1, 0, 1])
    np.testing.assert_array_equal(flags[1, :3], [1, 0, 1])
    assert flags[2].all() and not values[2].any()
    assert batch.keys[0, 0] == batch.keys[1, 0]  # the same category of the same feature
    assert batch.keys[1, 0] != batch.keys[1, 1]  # the same text in two features
    assert batch.keys[0, 1] == batch.keys[2, 1] != batch.keys[1, 1]  # missing, twice
    assert len(set(batch.keys[2])) == criteo.NUM_CATEGORICAL  # missing, of each feature


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("separator", ["\t", ","])
@pytest.mark.parametrize("has_header", [False, True])
def test_every_format_gives_the_same_samples(tmp_path, suffix, newline, separator, has_header):
    header = criteo.COLUMNS if has_header else None
    path = write(tmp_path / f"data{suffix}", RECORDS, separator, header, newline)
    batch, counts = read_all([path])
    assert_records(batch)
    assert counts.total() == 0


def test_header_names_the_columns(tmp_path):
    order = [*reversed(criteo.COLUMNS), "comment"]
    rows = [[*reversed(fields), "any thing"] for fields in RECORDS]
    batch, counts = read_all([write(tmp_path / "data.csv", rows, ",", order)])
    assert_records(batch)
    assert counts.total() == 0


def test_floats_and_upper_case(tmp_path):
    path = write(
        tmp_path / "data.tsv",
        [
            record("1.0", ["260.0", "1e3", "1E+3", "0.5", "-2.25"], ["AB12"]),
            record("1", ["260", "1000", "1000"], ["ab12"]),
        ],
    )
    batch, counts = read_all([path])
    assert counts.total() == 0
    np.testing.assert_array_equal(batch.dense[0, :3], batch.dense[1, :3])
    np.testing.assert_allclose(batch.dense[0, 3:5], [np.log(1.5), -np.log(3.25)], rtol=1e-6)
    np.testing.assert_array_equal(batch.keys[0], batch.keys[1])


def test_largest_number_stays_finite(tmp_path):
    largest = "9" * 19 + "e99"
    batch, counts = read_all([write(tmp_path / "data.tsv", [record("1", [largest])])])
    assert counts.total() == 0
    assert np.isfinite(batch.dense).all()


def test_keys_are_distinct_int64(tmp_path):
    records = [record("0", [], [f"{row * 26 + f:08x}" for f in range(26)]) for row in range(500)]
    batch, _ = read_all([write(tmp_path / "data.tsv", records)])
    assert batch.keys.dtype == np.int64
    assert batch.keys.min() >= 0
    assert len(np.unique(batch.keys)) == 500 * 26


def test_short_last_batch_and_several_files(tmp_path):
    sizes = [7, 5000, 3]  # the second spans several blocks
    paths = []
    for number, size in enumerate(sizes):
        records = [record("1", [f"{100_000 * number + row}"]) for row in range(size)]
        paths.append(write(tmp_path / f"{number}.tsv", records))
    batches, _ = read(paths, batch_size=64)
    assert [len(batch.labels) for batch in batches] == [64] * 78 + [18]
    firsts = np.concatenate([batch.dense[:, 0] for batch in batches])
    expected = [100_000 * number + row for number, size in enumerate(sizes) for row in range(size)]
    np.testing.assert_allclose(firsts, np.log1p(expected), rtol=1e-5)


def test_malformed_lines_are_counted_by_reason(tmp_path):
    good = record("1", ["1"], ["ab"])
    first = write(tmp_path / "first.tsv", [good] * 3000 + ["a\tb"] + [good] * 10)
    second = write(
        tmp_path / "second.tsv",
        [
            good,
            record("2", ["1"], ["ab"]),
            record("", ["1"], ["ab"]),
            record("1", ["1", "x7"], ["ab"]),
            record("1", ["nan"], ["ab"]),
            record("1", ["9" * 400], ["ab"]),
            record("1", ["1"], ["ab", "0xff"]),
            "",
            [*good, "one more"],
            good,
        ],
    )
    batches, counts = read([first, second])
    assert sum(len(batch.labels) for batch in batches) == 3012
    assert counts.counts() == {
        malformed.WRONG_FIELD_COUNT: 3,
        malformed.BAD_LABEL: 2,
        malformed.BAD_NUMBER: 3,
        malformed.BAD_HEX: 1,
    }
    report = "\n".join(counts.report())
    assert f"{first}:3001 (2 instead of 40)" in report
    assert f"{second}:2 (label is '2')" in report
    assert f"{second}:4 (I2 is 'x7')" in report
    assert f"{second}:7 (C2 is '0xff')" in report


def test_line_numbers_count_the_header(tmp_path):
    path = write(tmp_path / "data.csv", [record("1"), "oops"], ",", criteo.COLUMNS)
    _, counts = read([path])
    assert f"{path}:3 (1 instead of 40)" in counts.report()[0]


def test_bytes_that_are_no_text_are_counted(tmp_path):
    path = tmp_path / "data.csv"
    good = ",".join([*record("1"), "comment"]).encode()
    header = ",".join([*criteo.COLUMNS, "comment"]).encode()
    path.write_bytes(b"\n".join([header, good, good + b"\xff\xfe"]))
    batches, counts = read([path])
    assert sum(len(batch.labels) for batch in batches) == 1
    assert counts.counts() == {malformed.NOT_TEXT: 1}


def test_only_malformed_lines_give_no_batch(tmp_path):
    batches, counts = read([write(tmp_path / "data.tsv", ["x"] * 5)])
    assert sum(len(batch.labels) for batch in batches) == 0
    assert counts.total() == 5


def test_counts_start_again():
    counts = malformed.MalformedLines(["a"], criteo.Layout("\t", criteo.COLUMNS))
    counts.add(0, [9, 4], [b"x", b"y\tz"])
    assert "a:4 (2 instead of 40)" in counts.report()[0]  # the first by line, not by arrival
    counts.reset()
    assert counts.total() == 0 and counts.report() == []


def test_file_cut_in_a_line(tmp_path):
    path = tmp_path / "data.tsv"
    whole = "\t".join(record("1", ["1"], ["ab"]))
    path.write_text(f"{whole}\n{whole[:20]}")
    batches, counts = read([path])
    assert sum(len(batch.labels) for batch in batches) == 1
    assert counts.counts() == {malformed.WRONG_FIELD_COUNT: 1}


def test_empty_file_is_left_out_with_a_warning(tmp_path, caplog):
    empty = write(tmp_path / "empty.csv", [])
    full = write(tmp_path / "full.csv", RECORDS, ",")
    with caplog.at_level(logging.WARNING):
        batch, _ = read_all([empty, full])
    assert_records(batch)
    assert f"{empty} is empty" in caplog.text


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_nothing_but_empty_files(tmp_path, suffix):
    empty = write(tmp_path / f"empty{suffix}", [])
    with pytest.raises(ValueError, match="nothing to read.*empty"):
        criteo.inspect_files([empty])


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere.tsv"):
        criteo.inspect_files([tmp_path / "nowhere.tsv"])


def test_header_that_lacks_a_column(tmp_path):
    header = [name for name in criteo.COLUMNS if name != "C7"]
    path = write(tmp_path / "data.csv", RECORDS, ",", header)
    with pytest.raises(ValueError, match=r"data.csv: the header .* missing \['C7'\]"):
        criteo.inspect_file(path)


def test_files_of_two_layouts(tmp_path):
    tsv = write(tmp_path / "a.tsv", RECORDS)
    csv = write(tmp_path / "b.csv", RECORDS, ",")
    with pytest.raises(ValueError, match=r"same separator and columns: .*a.tsv has .*b.csv has"):
        criteo.inspect_files([tsv, csv])


def test_given_format_decides(tmp_path):
    path = write(tmp_path / "data", RECORDS, ",")
    batches, counts = read([path], file_format="tsv")
    assert sum(len(batch.labels) for batch in batches) == 0
    assert counts.counts() == {malformed.WRONG_FIELD_COUNT: 3}
    with pytest.raises(ValueError, match="format must be auto, tsv or csv, got 'json'"):
        criteo.inspect_file(path, "json")


def test_batch_size_must_be_positive(tmp_path):
    files = criteo.inspect_files([write(tmp_path / "data.tsv", RECORDS)])
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        reader.read_batches(files, None, 0)


def test_published_sample():
    path = dlrm_data.sample_path()
    if not path.exists():
        pytest.skip(f"{path} does not exist; name its folder in SOK_TEST_DATA")
    batch, counts = read_all([path])
    assert counts.total() == 0
    assert batch.keys.shape == (200, 26)
    assert set(batch.labels) == {0.0, 1.0}
    # First line: I1 missing, I2 = 3, I3 = 260.0.
    np.testing.assert_allclose(batch.dense[0, :3], [0, np.log1p(3), np.log1p(260)], rtol=1e-6)
