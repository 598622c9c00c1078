# SPDX-License-Identifier: Apache-2.0
"""A dump is there as a whole or not at all, and what is not one is not taken for one."""

import itertools
import os
import pathlib
import re
import threading

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from tests.support.saved_table import DIM, SavedTable, assert_rows_equal, random_rows
from tests.support.sessions import initialized_session

PARTS = ("keys", "values")


def dump_of(saved, rows, session):
    """Makes the table hold {key: row}, and dumps it."""
    saved.write_files(rows)
    session.run(saved.restore)
    session.run(saved.dump)


def path_of(saved, part):
    return pathlib.Path(f"{saved.stem}_{part}.file")


@pytest.mark.parametrize("num_moved", [0, 1])
def test_a_process_that_dies_while_files_are_moved(make_table, num_moved):
    """Once the note is in its place, it is the dump, wherever its files are."""
    saved = make_table()
    earlier, later = random_rows([1, 2, 3]), random_rows([2, 3, 4], seed=1)
    with initialized_session() as session:
        dump_of(saved, earlier, session)
        old = {part: path_of(saved, part).read_bytes() for part in PARTS}
        dump_of(saved, later, session)
        id_of_dump = re.search(r"^id (\w+)$", pathlib.Path(f"{saved.stem}.dump").read_text(), re.M)
        for part in PARTS[num_moved:]:
            path = path_of(saved, part)
            path.rename(f"{path}.{id_of_dump[1]}")
            path.write_bytes(old[part])
        session.run(saved.restore)
        assert_rows_equal(saved.rows(session), later)
        session.run(saved.dump)  # and leaves nothing of it
        assert_rows_equal(saved.files(), later)
    assert len(os.listdir(path_of(saved, "keys").parent)) == 3


@pytest.mark.parametrize("part", PARTS)
def test_files_of_two_dumps(make_table, part):
    saved = make_table()
    with initialized_session() as session:
        dump_of(saved, random_rows([1, 2, 3]), session)
        old = path_of(saved, part).read_bytes()
        dump_of(saved, random_rows([2, 3, 4], seed=1), session)
        path_of(saved, part).write_bytes(old)
        held = saved.rows(session)
        words = f"{part}.file is not as it was written: .* remove .*EmbeddingVariable.dump"
        with pytest.raises(tf.errors.DataLossError, match=words):
            session.run(saved.restore)
        assert_rows_equal(saved.rows(session), held)
        os.remove(f"{saved.stem}.dump")  # the way out
        session.run(saved.restore)


def test_two_dumps_at_once(tmp_path):
    """Of tables of one name into one folder: the files are one of them, not a mixture."""

    def table_of(number):
        """A table of its own graph, with 2000 + number rows of that number; its session."""
        with tf.Graph().as_default():
            sok_compat.Init(global_batch_size=2)
            saved = SavedTable(tmp_path, capacity=3000)
            session = tf.compat.v1.Session()
            session.run(tf.compat.v1.global_variables_initializer())
            values = np.full([2000 + number, DIM], number, np.float32)
            session.run(saved.load, {saved.values: values})
            return saved, session

    writers, (reader, reading) = [table_of(0), table_of(1)], table_of(2)
    done = threading.Event()

    def dump_on(saved, session):
        while not done.is_set():
            session.run(saved.dump)

    for saved, session in writers:
        session.run(saved.dump)
    threads = [threading.Thread(target=dump_on, args=writer) for writer in writers]
    for thread in threads:
        thread.start()
    try:
        for _ in range(60):
            reading.run(reader.restore)
            rows = reader.rows(reading)
            number = len(rows) - 2000
            assert number in (0, 1) and {row[0] for row in rows.values()} == {float(number)}
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert len(os.listdir(tmp_path)) == 3


@pytest.mark.parametrize("dim", [DIM + 1, 2 * DIM])
def test_a_dump_of_another_table(sok, tmp_path, dim):
    """Also where the sizes of its files would fit: uint32 keys of half as wide rows."""
    narrow = SavedTable(tmp_path, key_dtype="uint32")
    with tf.name_scope("other"):
        layer = sok_compat.All2AllDenseEmbedding(16, dim, 1, 1)
    restore = sok_compat.Saver().restore_from_file(layer.embedding_variable, str(tmp_path))
    with initialized_session() as session:
        session.run(narrow.step, {narrow.keys: [1, 2]})
        session.run(narrow.dump)
        for path in tmp_path.glob("EmbeddingVariable*"):
            (tmp_path / "other").mkdir(exist_ok=True)
            path.rename(tmp_path / "other" / path.name)
        with pytest.raises(
            tf.errors.InvalidArgumentError,
            match=f"rows of {DIM} floats, and the table's have {dim}",
        ):
            session.run(restore)


@pytest.mark.parametrize("part", PARTS)
def test_what_is_no_file(make_table, tmp_path, part):
    """A pipe is not waited for, and a link not written through."""
    saved = make_table()
    outside = tmp_path / "outside"
    outside.write_text("untouched")
    good = random_rows([1, 2, 3])
    with initialized_session() as session:
        saved.write_files(good)
        path_of(saved, part).unlink()
        os.mkfifo(path_of(saved, part))
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"{part}.file is not a file"):
            session.run(saved.restore)
        path_of(saved, part).unlink()
        path_of(saved, part).symlink_to(outside)
        session.run(saved.step, {saved.keys: [5]})
        session.run(saved.dump)
        assert_rows_equal(saved.files(), saved.rows(session))
    assert outside.read_text() == "untouched"


def test_what_a_process_that_died_has_left(make_table, tmp_path):
    """The next dump removes it; files of other names stay."""
    saved = make_table()
    stem = pathlib.Path(saved.stem)
    stays = ["EmbeddingVariable_keys.file.backup", f"other_keys.file.{'0' * 24}"]
    goes = [f"{stem.name}{end}.{'0a' * 12}" for end in ("_keys.file", "_values.file", ".dump")]
    for name in itertools.chain(stays, goes):
        (tmp_path / name).write_text("")
    with initialized_session() as session:
        session.run(saved.dump)
    ours = [f"{stem.name}{end}" for end in ("_keys.file", "_values.file", ".dump")]
    assert sorted(os.listdir(tmp_path)) == sorted(stays + ours)


BAD_FOLDERS = {
    "empty": ("", tf.errors.InvalidArgumentError, "is empty; '.' is the current one"),
    "missing": ("{}/missing", tf.errors.NotFoundError, "missing/EmbeddingVariable_keys.file"),
}


@pytest.mark.parametrize("folder, error, message", BAD_FOLDERS.values(), ids=BAD_FOLDERS)
def test_folders(make_table, tmp_path, folder, error, message):
    saved = make_table()
    folder = folder.format(tmp_path)
    restore = sok_compat.Saver().restore_from_file(saved.table, folder)
    with initialized_session() as session, pytest.raises(error, match=message) as raised:
        session.run(restore)
    assert not folder or str(raised.value).count(f"{folder}/") == 1
