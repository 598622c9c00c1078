# SPDX-License-Identifier: Apache-2.0
"""Files that cannot be restored leave the table as it was, and the message says why."""

import os

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from tests.support.saves.saved_table import DIM, assert_rows_equal, random_rows
from tests.support.sessions import initialized_session

InvalidArgument = tf.errors.InvalidArgumentError
Exhausted = tf.errors.ResourceExhaustedError


def remove(kind):
    return lambda saved: os.remove(f"{saved.stem}_{kind}.file")


def cut(kind, num_bytes):
    def change(saved):
        path = f"{saved.stem}_{kind}.file"
        os.truncate(path, os.path.getsize(path) - num_bytes)

    return change


def write(keys, width=DIM, key_dtype=None):
    rows = {key: np.zeros(width) for key in keys}
    return lambda saved: saved.write_files(rows, key_dtype)


def write_repeated_key(saved):
    np.array([1, 2, 1], saved.key_dtype).tofile(f"{saved.stem}_keys.file")
    np.zeros([3, DIM], "<f4").tofile(f"{saved.stem}_values.file")


# How good files of three keys are spoilt, what is raised, and what the message says.
BAD_FILES = {
    "no-keys-file": (remove("keys"), tf.errors.OpError, "EmbeddingVariable_keys.file"),
    "no-values-file": (remove("values"), tf.errors.OpError, "EmbeddingVariable_values.file"),
    "a-key-is-missing": (cut("keys", 8), InvalidArgument, "16 bytes.*36"),
    "half-a-key": (cut("keys", 4), InvalidArgument, "20 bytes.*36"),
    "a-row-is-missing": (cut("values", 12), InvalidArgument, "24 bytes.*24"),
    "half-a-row": (cut("values", 6), InvalidArgument, "24 bytes.*30"),
    "no-rows": (cut("values", 36), InvalidArgument, "24 bytes.* 0"),
    "no-keys": (cut("keys", 24), InvalidArgument, " 0 bytes.*36"),
    "other-width": (write([1, 2, 3], DIM + 2), InvalidArgument, "embedding_vec_size"),
    "16-byte-keys": (write([1, 2], key_dtype="complex128"), InvalidArgument, "32 bytes"),
    "too-many-keys": (write(range(17)), Exhausted, "17 keys.*16"),
    "repeated-key": (write_repeated_key, InvalidArgument, "key 1 appears twice"),
}
BAD_FILES_WITHOUT_HASHTABLE = {
    "negative-key": (write([1, -1]), InvalidArgument, "key -1 "),
    "key-too-large": (write([16, 1]), InvalidArgument, "key 16 "),
}
DIRECT_CASES = {**BAD_FILES, **BAD_FILES_WITHOUT_HASHTABLE}
ALL_BAD = [(True, name, *case) for name, case in BAD_FILES.items()]
ALL_BAD += [(False, name, *case) for name, case in DIRECT_CASES.items()]


@pytest.mark.parametrize(
    "use_hashtable, name, spoil, error, message",
    ALL_BAD,
    ids=[f"{'hash' if case[0] else 'direct'}-{case[1]}" for case in ALL_BAD],
)
def test_files_that_do_not_fit(make_table, use_hashtable, name, spoil, error, message):
    saved = make_table(use_hashtable=use_hashtable)
    good = random_rows([1, 2, 3])
    saved.write_files(good)
    spoil(saved)
    with initialized_session() as session:
        session.run(saved.step, {saved.keys: [5, 3]})
        before = saved.rows(session)
        with pytest.raises(error, match=message):
            session.run(saved.restore)
        assert_rows_equal(saved.rows(session), before)
        session.run(saved.step, {saved.keys: [5, 6]})
        saved.write_files(good)
        session.run(saved.restore)
        assert list(session.run(saved.read, {saved.keys: [2]})[0]) == list(good[2])


def test_wide_keys_do_not_go_into_a_narrow_table(make_table):
    """A key beyond uint32 could never be looked up, and a dump would cut it to another key."""
    saved = make_table(key_dtype="uint32")
    saved.write_files(random_rows([3, 2**32]), "int64")
    with initialized_session() as session:
        session.run(saved.step, {saved.keys: [5]})
        before = saved.rows(session)
        with pytest.raises(InvalidArgument, match=f"key {2**32} .*uint32"):
            session.run(saved.restore)
        assert_rows_equal(saved.rows(session), before)


@pytest.mark.parametrize("op", ["dump", "restore", "load"])
def test_before_the_initializer_has_run(make_table, op):
    saved = make_table()
    saved.write_files(random_rows([1]))
    raises = pytest.raises(
        tf.errors.FailedPreconditionError, match="EmbeddingVariable.*global_variables_initializer"
    )
    with tf.compat.v1.Session() as session, raises:
        session.run(getattr(saved, op), {saved.values: np.zeros([1, DIM])})


USES = {
    "dump": lambda saver, variable: saver.dump_to_file(variable, "/tmp"),
    "restore": lambda saver, variable: saver.restore_from_file(variable, "/tmp"),
    "load": lambda saver, variable: saver.load_embedding_values(variable, np.zeros([1, 1])),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_only_tables_are_saved(sok, use):
    with pytest.raises(TypeError, match="works on EmbeddingVariable.*tf.train.Saver"):
        use(sok_compat.Saver(), tf.compat.v1.Variable([1.0], use_resource=True))


def test_folder_that_cannot_be_made(make_table, tmp_path):
    saved = make_table()
    (tmp_path / "file").write_text("")
    dump = sok_compat.Saver().dump_to_file(saved.table, str(tmp_path / "file" / "folder"))
    with initialized_session() as session, pytest.raises(tf.errors.OpError, match="file/folder"):
        session.run(dump)


@pytest.mark.skipif(not os.path.ismount("/sys"), reason="root may write in all folders here")
def test_folder_that_must_not_be_made(make_table):
    """In /sys root cannot make one either."""
    saved = make_table()
    dump = sok_compat.Saver().dump_to_file(saved.table, "/sys/folder")
    saver = tf.compat.v1.train.Saver()
    with initialized_session() as session:
        with pytest.raises(tf.errors.PermissionDeniedError, match="\n/sys/folder; "):
            session.run(dump)
        with pytest.raises(tf.errors.PermissionDeniedError, match="\n/sys/folder.*; "):
            saver.save(session, "/sys/folder/model", write_meta_graph=False)


@pytest.mark.parametrize("method", ["dump_to_file", "restore_from_file"])
def test_folder_that_is_none(make_table, method):
    table = make_table().table
    with pytest.raises(TypeError, match="filepath must be a folder, .* got None"):
        getattr(sok_compat.Saver(), method)(table, None)


def test_folder_as_a_path(make_table, tmp_path):
    saved = make_table()
    dump = sok_compat.Saver().dump_to_file(saved.table, tmp_path / "folder")
    with initialized_session() as session:
        session.run(dump)
    assert len(list((tmp_path / "folder").iterdir())) == 3


NAMES = ["EmbeddingVariable_1", "users[a]*", "tower/EmbeddingVariable", "a/b/c"]


@pytest.mark.parametrize("folder", ["dumps", "run[1]*", "of tables/"])
@pytest.mark.parametrize("is_tensor", [False, True])
def test_a_table_of_another_name(sok, tmp_path, folder, is_tensor):
    """The error names those that are there, and `name` restores one of them."""
    folder, rows = f"{tmp_path}/{folder}", random_rows([3, 5])
    table = sok_compat.core.EmbeddingVariable([8, DIM], 0)
    path = tf.compat.v1.placeholder(tf.string, []) if is_tensor else folder
    fed = {path: folder} if is_tensor else {}
    saver = sok_compat.Saver()
    own = saver.restore_from_file(table, path)
    others = [saver.restore_from_file(table, path, name=name) for name in NAMES]
    exported = table.export()
    with initialized_session() as session:
        with pytest.raises(tf.errors.OpError, match="EmbeddingVariable_keys.file"):
            session.run(own, fed)
        for name, restore in zip(NAMES, others):
            stem = f"{folder}/{name}"
            os.makedirs(os.path.dirname(stem), exist_ok=True)
            np.array(list(rows), "<i8").tofile(f"{stem}_keys.file")
            np.stack(list(rows.values())).tofile(f"{stem}_values.file")
            session.run(restore, fed)
            keys, values = session.run(exported)
            assert_rows_equal(dict(zip(keys.tolist(), values)), rows)
        with pytest.raises(
            tf.errors.NotFoundError, match="no table EmbeddingVariable in "
        ) as caught:
            session.run(own, fed)
        for words in (*NAMES[:3], folder, "under one of these names"):
            assert words in caught.value.message
        assert session.run(exported)[0].tolist() == keys.tolist()


@pytest.mark.parametrize("name, error", [("", ValueError), (3, TypeError), (b"a", TypeError)])
def test_names_of_dumped_tables(sok, name, error):
    table = sok_compat.core.EmbeddingVariable([8, DIM], 0)
    with pytest.raises(error, match="name must be that of a dumped table"):
        sok_compat.Saver().restore_from_file(table, "/tmp", name=name)
