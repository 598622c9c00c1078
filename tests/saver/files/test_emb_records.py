# SPDX-License-Identifier: Apache-2.0
"""The tool reads rows that DeepRec has saved as records, beside those that were in memory."""

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.checkpoint.files.saved_tables import open_saved
from sok_compat.checkpoint.tool.command_line import main
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from tests.support.deeprec.deeprec_files import tensors_of, write_tensors

DIM = 3  # padded to 16 bytes
ROWS = {key: (float(key), 0.0, -1.0) for key in (5, 1002, -4, 2**40, 11, 12)}
SLOTS = {key: (9.0, float(key), 2.0) for key in ROWS}
COUNTS = {key: (30 + i, 2 + i) for i, key in enumerate(ROWS)}  # step, frequency
IN_MEMORY = (5, -4)


def record(key, row, counts):
    padding = [] if "packed" in counts else [np.nan]
    padded = [np.float32([*values, *padding]).tobytes() for values in (row, SLOTS[key])]
    step, frequency = COUNTS[key]
    if counts == "before":
        step |= 0b11 << 48  # both planes have values
        return np.int64([step, frequency]).tobytes() + b"".join(padded)
    return b"".join(padded) + np.int64([frequency, step] if "after" in counts else []).tobytes()


def write(folder, counts, num_parts=None, name="scope/emb"):
    """Files 3 and 0 of each part; the first record is that of a key in memory, which is older."""
    prefix = str(folder / "model")
    recorded = COUNTS if counts != "none" else None
    in_memory = {key: ROWS[key] for key in IN_MEMORY}
    slots = {key: SLOTS[key] for key in IN_MEMORY}
    write_tensors(prefix, {
        **tensors_of(name, in_memory, DIM, num_parts, recorded=recorded),
        **tensors_of(f"{name}|/Adagrad", slots, DIM, num_parts),
    })  # fmt: skip
    parts = range(num_parts or 1)
    for part in parts:
        infix = "" if num_parts is None else f"_part_{part}"
        stem = f"{prefix}-{name.replace('/', '_')}{infix}"
        (folder / f"{stem}-emb_files").mkdir()
        keys = [5, *(key for key in ROWS if key not in IN_MEMORY)]
        keys = [key for key in keys if key % 1000 % len(parts) == part]
        entries, files = [], {3: b"", 0: b""}
        for i, key in enumerate(keys):
            number = (3, 0)[i % 2]
            entries.append((key, number, len(files[number])))
            files[number] += record(key, (7.0, 7.0, 7.0) if key == 5 else ROWS[key], counts)
        for number, content in files.items():
            (folder / f"{stem}-emb_files" / f"{number}.emb").write_bytes(content)
        keys, of_file, places = np.array(entries, np.int64).T
        num_records = np.int64([len(content) for content in files.values()])
        write_tensors(f"{stem}-ssd_record", {
            "keys": keys, "keys_file_id": of_file, "keys_offset": places,
            "files": np.int64(list(files)), "invalid_record_count": np.int64([1, 0]),
            "record_count": num_records // len(record(5, ROWS[5], counts)),
        })  # fmt: skip
    return prefix


@pytest.mark.parametrize("num_parts", [None, 2])
@pytest.mark.parametrize("counts", ["before", "after", "after, packed", "none"])
def test_rows_in_memory_and_in_records(tmp_path, counts, num_parts):
    table = open_saved(write(tmp_path, counts, num_parts)).table("scope/emb")
    keys = table.keys.take(np.arange(table.num_keys)).tolist()
    assert sorted(keys) == sorted(ROWS)
    columns = {name: plane.take(np.arange(len(keys))) for name, plane in table.planes.items()}
    assert columns["rows"].tolist() == [list(ROWS[key]) for key in keys]
    assert columns["scope/emb/Adagrad"].tolist() == [list(SLOTS[key]) for key in keys]
    if counts != "none":
        found = [columns[name].tolist() for name in ("versions", "freqs")]
        assert list(zip(*found)) == [COUNTS[key] for key in keys]


def test_the_tool_shows_and_exports_them(tmp_path, capsys):
    prefix = write(tmp_path, "before")
    assert main(["show", prefix]) == 0
    assert "table scope/emb: 6 keys int64, dim 3, layout buckets" in capsys.readouterr().out
    keys, rows = tmp_path / "keys.npy", tmp_path / "rows.npy"
    files = ["--to", str(keys), str(rows)]
    assert main(["export", prefix, "--table", "scope/emb", *files]) == 0
    assert np.load(rows).tolist() == [list(ROWS[key]) for key in np.load(keys)]


@pytest.mark.parametrize("num_parts", [None, 2])
def test_they_are_changes(tmp_path, num_parts):
    """With the rank 0: their files do not say which one has written them."""
    pq = pytest.importorskip("pyarrow.parquet")
    file = f"{tmp_path}/changes.parquet"
    assert main(["changes", write(tmp_path, "after", num_parts), "--to", file]) == 0
    changes = pq.read_table(file).to_pylist()
    assert {each["key"]: tuple(each["row"]) for each in changes} == ROWS
    assert [each["rank"] for each in changes] == [0] * len(ROWS)


def test_damaged_records(tmp_path):
    prefix = write(tmp_path, "after")
    file = tmp_path / "model-scope_emb-emb_files" / "3.emb"
    content = file.read_bytes()
    file.write_bytes(content[:-8])
    with pytest.raises(FileError, match="do not have the records of ssd_record"):
        open_saved(prefix)
    file.unlink()
    with pytest.raises(FileError, match=r"3\.emb: No such file"):
        open_saved(prefix)


def test_all_rows_were_in_memory(graph, tmp_path):
    """DeepRec saves the places of records even so: of none, in a file without any."""
    prefix = str(tmp_path / "model")
    write_tensors(prefix, tensors_of("emb", ROWS, DIM))
    (tmp_path / "model-emb-emb_files").mkdir()
    (tmp_path / "model-emb-emb_files" / "0.emb").touch()
    write_tensors(f"{prefix}-emb-ssd_record", {
        **dict.fromkeys(["keys", "keys_file_id", "keys_offset"], np.zeros(0, np.int64)),
        **dict.fromkeys(["files", "invalid_record_count", "record_count"], np.int64([0])),
    })  # fmt: skip
    assert open_saved(prefix).table("emb").num_keys == len(ROWS)
    table = get_embedding_variable("emb", DIM)
    rows = tf.nn.embedding_lookup(table, [*ROWS])
    with tf.compat.v1.Session(graph=graph) as session:
        tf.compat.v1.train.Saver().restore(session, prefix)
        assert session.run(rows).tolist() == [list(row) for row in ROWS.values()]


def test_a_restore_says_where_the_other_rows_are(graph, tmp_path):
    prefix = write(tmp_path, "after")
    get_embedding_variable("scope/emb", DIM)
    saver = tf.compat.v1.train.Saver()
    with tf.compat.v1.Session(graph=graph) as session:
        message = r"had in memory; the others are in .*-scope_emb-ssd_record\. Export"
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            saver.restore(session, prefix)
