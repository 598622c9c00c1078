# SPDX-License-Identifier: Apache-2.0
"""The files of SparseOperationKit 2's dumps: what is written, and what is read."""

import os
import struct

import numpy as np
import pytest

from sok_compat.checkpoint.files import headed_files
from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.checkpoint.files.headed_files import open_headed_dump, write_headed_dump

KEYS = np.array([7, -2, 2**40], np.int64)
ROWS = np.arange(6, dtype=np.float32).reshape(3, 2)
MEANS = ROWS[:, :1] + 0.5
SLOT = ("Adamax", "m")


def write(folder, keys=KEYS, rows=ROWS, slots=(SLOT,), key_dtype=np.int64, name="user/id:0"):
    pieces = [(keys[:2], rows[:2], MEANS[:2]), (keys[2:], rows[2:], MEANS[2:])]
    write_headed_dump(str(folder), name, slots, key_dtype, pieces)


def read(folder, slots=(SLOT,), name="user/id:0", others=()):
    """(keys, rows, slots) of a dump."""
    dump = open_headed_dump(str(folder), name, dict.fromkeys(slots, others))
    arrays = (dump.keys, dump.rows, *dump.slots.values())
    return [np.concatenate([piece for _, piece in array.pieces()]) for array in arrays]


def as_upstream(folder, kind, name, array, dtype, slot=""):
    """A file as SparseOperationKit writes it: no name of the table, no note."""
    header = struct.pack(">256sI32sI", b" " * 256, kind, slot.rjust(32).encode(), dtype)
    (folder / name).write_bytes(header + array.tobytes())


def test_what_was_written_is_read(tmp_path):
    write(tmp_path)
    for actual, expected in zip(read(tmp_path), (KEYS, ROWS, MEANS)):
        np.testing.assert_array_equal(actual, expected)
    names = ["user_id_0-Adamax-m", "user_id_0-key", "user_id_0-note", "user_id_0-weight"]
    assert sorted(os.listdir(tmp_path)) == names


def test_files_are_those_of_sparse_operation_kit(tmp_path):
    write(tmp_path)
    data = (tmp_path / "user_id_0-key").read_bytes()
    assert data[:256] == b"user/id:0".rjust(256) and data[256:260] == bytes(4)
    assert data[260:292] == b" " * 32 and data[292:296] == b"\0\0\0\1"
    assert data[296:] == KEYS.tobytes()
    data = (tmp_path / "user_id_0-Adamax-m").read_bytes()
    assert data[256:260] == b"\0\0\0\2" and data[260:292] == b"m".rjust(32)
    assert data[292:296] == b"\0\0\0\5" and data[296:] == MEANS.tobytes()


@pytest.mark.parametrize("row_dtype, row_number", [("f2", 4), ("f4", 5), ("f8", 6)])
@pytest.mark.parametrize("key_dtype, number", [("i4", 0), ("i8", 1), ("u4", 2), ("u8", 3)])
def test_files_of_sparse_operation_kit_are_read(tmp_path, key_dtype, number, row_dtype, row_number):
    keys, rows = np.array([3, 9]), np.array([[1.0, 2.0], [3.0, 4.0]])
    as_upstream(tmp_path, 0, "t_0-key", keys.astype(key_dtype), number)
    as_upstream(tmp_path, 1, "t_0-weight", rows.astype(row_dtype), row_number)
    found = read(tmp_path, (), "t:0")
    assert found[0].tolist() == [3, 9] and found[1].tolist() == rows.tolist()


def test_slots_under_the_name_of_another_optimizer(tmp_path):
    """SparseOperationKit saves Adamax as Adam."""
    write(tmp_path, slots=[("Adam", "m")])
    assert read(tmp_path, others=["Adam"])[2].tolist() == MEANS.tolist()
    with pytest.raises(FileError, match="user_id_0-Adamax-m is missing"):
        read(tmp_path)


def test_a_dump_that_fails_leaves_the_earlier_one(tmp_path, monkeypatch):
    write(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def pieces():
        yield KEYS, 2 * ROWS, MEANS
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        write_headed_dump(str(tmp_path), "user/id:0", [SLOT], np.dtype("i8"), pieces())
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    rename = os.rename

    def renames_the_note(place, new_place):
        if new_place.endswith("weight"):
            raise OSError("killed")
        rename(place, new_place)

    monkeypatch.setattr(os, "rename", renames_the_note)
    with pytest.raises(OSError, match="killed"):
        write(tmp_path, rows=3 * ROWS)
    monkeypatch.undo()
    np.testing.assert_array_equal(read(tmp_path)[1], 3 * ROWS)  # once the note is there
    write(tmp_path, rows=4 * ROWS)
    np.testing.assert_array_equal(read(tmp_path)[1], 4 * ROWS)
    assert len(os.listdir(tmp_path)) == 4


def test_damaged_and_foreign_files(tmp_path):
    write(tmp_path)
    path = tmp_path / "user_id_0-weight"
    data = path.read_bytes()

    def fails(match):
        with pytest.raises(FileError, match=match):
            read(tmp_path)

    path.write_bytes(data[:-1] + b"x")
    fails("CRC-32C")
    path.write_bytes(data[:-4])
    fails("it has 316 bytes, and user_id_0-weight had 320")
    (tmp_path / "user_id_0-note").write_text("?")
    fails("is not what a dump has written")
    (tmp_path / "user_id_0-note").unlink()
    fails("5 numbers, which are not rows for 3 keys")
    path.write_bytes(data[:-3])
    fails("ends within a float32")
    path.write_bytes(data[:100])
    fails("does not begin with a header of 296 bytes")
    path.write_bytes((tmp_path / "user_id_0-Adamax-m").read_bytes())
    fails("must hold rows, but its header says slot of float32")
    path.unlink()
    fails("user_id_0-weight is missing, a file of a dump; dumped tables here: user_id_0")
    path.mkdir()
    with pytest.raises(FileError, match="is a folder, but a file of the dump needs this name"):
        write(tmp_path)


def test_no_keys(tmp_path):
    nothing = [(KEYS[:0], ROWS[:0])]
    write_headed_dump(str(tmp_path), "t", [], np.dtype("i4"), nothing)
    dump = open_headed_dump(str(tmp_path), "t", {})
    assert dump.keys.shape == (0,) and dump.rows.shape[0] == 0


def test_names_without_punctuation():
    assert headed_files.file_stem("a/b-c.d:0") == "a_b_c_d_0"
