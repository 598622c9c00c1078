# SPDX-License-Identifier: Apache-2.0
"""A dump is there as a whole or not at all, and what is not one is not taken for one."""

import contextlib
import fcntl
import itertools
import os
import pathlib
import re
import subprocess
import sys
import threading
import time
from concurrent import futures

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from sok_compat.checkpoint import set_rows
from sok_compat.checkpoint.streams.dumps import DumpedTable, dump_tables, load_tables
from sok_compat.tables.table import Table
from tests.support.saves.killed_dumps import NAMES, last_whole
from tests.support.saves.saved_table import DIM, SavedTable, assert_rows_equal, random_rows
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
        before = saved.rows(session)
        words = f"{part}.file is not as it was written: .* remove .*EmbeddingVariable.dump"
        with pytest.raises(tf.errors.DataLossError, match=words):
            session.run(saved.restore)
        assert_rows_equal(saved.rows(session), before)
        os.remove(f"{saved.stem}.dump")  # the way out
        session.run(saved.restore)


@pytest.mark.parametrize("part", PARTS)
def test_a_file_that_is_cut(make_table, part):
    saved = make_table()
    with initialized_session() as session:
        dump_of(saved, random_rows([1, 2, 3]), session)
        os.truncate(path_of(saved, part), 8)
        session.run(saved.step, {saved.keys: [4]})
        before = saved.rows(session)
        with pytest.raises(tf.errors.DataLossError, match=f"{part}.file is not as it was written"):
            session.run(saved.restore)
        assert_rows_equal(saved.rows(session), before)


class NumberedTable:
    """A table of its own graph and session, with 2000 + number rows of that number."""

    def __init__(self, folder):
        with tf.Graph().as_default():
            sok_compat.Init(global_batch_size=2)
            self.saved = SavedTable(folder, capacity=3000)
            self.session = tf.compat.v1.Session()
            self.session.run(tf.compat.v1.global_variables_initializer())

    def dump(self, number):
        values = np.full([2000 + number, DIM], number, np.float32)
        self.session.run(self.saved.load, {self.saved.values: values})
        self.session.run(self.saved.dump)

    def restored_number(self):
        """Of the dump; fails where it is a mixture."""
        self.session.run(self.saved.restore)
        rows = self.saved.rows(self.session)
        number = len(rows) - 2000
        assert {row[0] for row in rows.values()} == {float(number)}
        return number


@pytest.mark.parametrize("num_writers", [2, 1], ids=["locks", "no locks"])
def test_dumps_and_a_reader_at_once(tmp_path, num_writers):
    """Into one folder: what is read is one of them, not a mixture. Without locks one may write."""
    folder = tmp_path if num_writers == 2 else f"ram:/{tmp_path}"
    writers, reader = [NumberedTable(folder) for _ in range(num_writers)], NumberedTable(folder)
    done = threading.Event()

    def dump_on(first):
        for number in itertools.cycle([first, 1 - first]):
            if done.is_set():
                return
            writers[first].dump(number)

    writers[0].dump(0)
    with futures.ThreadPoolExecutor() as pool:
        dumping = [pool.submit(dump_on, first) for first in range(num_writers)]
        try:
            assert {reader.restored_number() for _ in range(60)} <= {0, 1}
        finally:
            done.set()
    for dumps in dumping:
        dumps.result()  # what has failed there, fails here
    if num_writers == 2:
        assert len(os.listdir(tmp_path)) == 3


@pytest.mark.thorough
def test_processes_that_are_killed_while_they_dump(tmp_path):
    """At any moment: what is there is the dump before or that one; the next one clears the rest."""
    reader = NumberedTable(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.saves.killed_dumps", tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        for _ in range(20):
            assert process.stdout.readline() == "killed\n"
            last = last_whole(tmp_path)
            assert reader.restored_number() in (last, last + 1)
            assert numbers_of_two(tmp_path / "two") in ({last}, {last + 1})
            process.stdin.write("next\n")
            process.stdin.flush()
        process.kill()
    assert len(os.listdir(tmp_path / "two")) <= 15  # of one dump more at most
    two = [Table(3000, DIM, name=name) for name in NAMES]
    for each in two:
        set_rows(each, np.zeros([2000, DIM], np.float32))
    dumped = [DumpedTable(each, name, "int64", "headed") for each, name in zip(two, NAMES)]
    for folder in ("two", "clean"):
        dump_tables(tf.constant(str(tmp_path / folder)), dumped)
    assert sorted(os.listdir(tmp_path / "two")) == sorted(os.listdir(tmp_path / "clean"))
    assert numbers_of_two(tmp_path / "two") == {0.0}


def numbers_of_two(folder):
    """Of the tables of one dump."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        two = [Table(3000, DIM, name=name) for name in NAMES]
        dumped = [DumpedTable(each, each.table_name, "int64", "headed") for each in two]
        exported = [each.export() for each in two]
        session.run([each.initializer for each in two])
        session.run(load_tables(tf.constant(str(folder)), dumped))
        found = session.run(exported)
    assert {len(keys) - 2000 for keys, _ in found} == {rows[0, 0] for _, rows in found}
    return {number for _, rows in found for number in np.unique(rows).tolist()}


def test_no_lock_of_the_table_while_a_disk_is_waited_for(make_table, tmp_path):
    """The dump waits for a lock on the folder as it would for a slow disk."""
    saved = make_table()
    with initialized_session() as session, futures.ThreadPoolExecutor() as pool:
        dump_of(saved, random_rows([1, 2]), session)
        with locked(tmp_path):
            dumping = pool.submit(session.run, saved.dump)
            wait_until_written(tmp_path)
            loading = pool.submit(session.run, saved.load, {saved.values: np.zeros([3, DIM])})
            loading.result(timeout=30)
            assert not dumping.done()
        dumping.result(timeout=30)
        assert_rows_equal(saved.files(), random_rows([1, 2]))
        assert len(saved.rows(session)) == 3


@pytest.mark.parametrize("part", PARTS)
def test_files_that_another_machine_has_removed(make_table, tmp_path, part):
    """Which saw no lock on them: the earlier dump stays."""
    saved = make_table()
    good = random_rows([1, 2])
    with initialized_session() as session, futures.ThreadPoolExecutor() as pool:
        dump_of(saved, good, session)
        session.run(saved.step, {saved.keys: [5, 6]})
        with locked(tmp_path):
            dumping = pool.submit(session.run, saved.dump)
            wait_until_written(tmp_path)
            (path,) = tmp_path.glob(f"*_{part}.file.*")
            path.unlink()
        with pytest.raises(tf.errors.UnknownError, match="no longer has the .* another process"):
            dumping.result(timeout=30)
        session.run(saved.restore)
        assert_rows_equal(saved.rows(session), good)
    assert len(os.listdir(tmp_path)) == 3


@contextlib.contextmanager
def locked(folder):
    """Keeps dumps there from coming into their place."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def wait_until_written(folder):
    """Until both files of a dump that is locked out are complete."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        written = [path.stat().st_size for path in folder.glob("*.file.*")]
        if len(written) == 2 and all(written):
            return
        time.sleep(0.005)
    raise TimeoutError("no dump has begun")


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
            match=f"rows of {DIM} floats, but the table's have {dim}",
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
    """A dump removes at once what this machine wrote, and what another one did after an hour; files
    of other names stay, and those of a process that may write there, whose lock is not seen."""
    saved = make_table()
    stem = pathlib.Path(saved.stem)
    stays = ["EmbeddingVariable_keys.file.backup", f"other_keys.file.{'0' * 24}"]
    goes = [f"{stem.name}{end}.{'0a' * 12}" for end in ("_keys.file", "_values.file", ".dump")]
    for name in itertools.chain(stays, goes):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, times=(time.time() - 3700,) * 2)
    stays.append(f"{stem.name}_keys.file.{'0b' * 12}")
    (tmp_path / stays[-1]).write_text("")
    with initialized_session() as session:
        session.run(saved.dump)
        note = pathlib.Path(f"{saved.stem}.dump").read_text()
        machine = re.search(r"^id (.{8})", note, re.M)[1]
        (tmp_path / f"other_keys.file.{machine}{'0c' * 8}").write_text("")
        session.run(saved.dump)
    ours = [f"{stem.name}{end}" for end in ("_keys.file", "_values.file", ".dump")]
    assert sorted(os.listdir(tmp_path)) == sorted(stays + ours)


BAD_FOLDERS = {
    "empty": ("", tf.errors.InvalidArgumentError, "is empty; '.' is the current one"),
    "no path": ("file://", tf.errors.InvalidArgumentError, "is empty; '.' is the current one"),
    "host": ("file://tmp/folder", tf.errors.InvalidArgumentError, "a path of the host 'tmp'"),
    "missing": ("{}/missing", tf.errors.NotFoundError, "missing/EmbeddingVariable_keys.file"),
}


@pytest.mark.parametrize("folder, error, message", BAD_FOLDERS.values(), ids=BAD_FOLDERS)
def test_folders(make_table, tmp_path, folder, error, message):
    saved = make_table()
    folder = folder.format(tmp_path)
    restore = sok_compat.Saver().restore_from_file(saved.table, folder)
    with initialized_session() as session, pytest.raises(error, match=message) as raised:
        session.run(restore)
    assert not folder.startswith("/") or str(raised.value).count(f"{folder}/") == 1


@pytest.mark.parametrize("form", ["{}/", "{}//", "{}/made/../", "file://{}", "file://{}/", "{}/."])
def test_forms_of_a_path(make_table, tmp_path, form):
    """All are the same folder, with its locks and leftovers; only that is made."""
    saved = make_table()
    place = tf.compat.v1.placeholder(tf.string, [])
    dump = sok_compat.Saver().dump_to_file(saved.table, place)
    left = tmp_path / f"{pathlib.Path(saved.stem).name}_keys.file.{'0a' * 12}"
    left.write_text("")
    os.utime(left, times=(0, 0))
    with initialized_session() as session:
        session.run(saved.step, {saved.keys: [1, 2]})
        session.run(dump, {place: form.format(tmp_path)})
        assert_rows_equal(saved.files(), saved.rows(session))
        session.run(saved.restore)
    assert len(os.listdir(tmp_path)) == 3


@pytest.mark.parametrize("name", ["../other", "a/../../b", "/etc/passwd", ".."])
def test_a_name_that_leads_out_of_the_folder(make_table, tmp_path, name):
    saved = make_table()
    restore = sok_compat.Saver().restore_from_file(saved.table, str(tmp_path), name=name)
    words = f"a table's name, '{name}', is part of its files' names: it must not"
    error = tf.errors.InvalidArgumentError
    with initialized_session() as session, pytest.raises(error, match=words):
        session.run(restore)
