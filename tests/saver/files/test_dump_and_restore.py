# SPDX-License-Identifier: Apache-2.0
"""Files written and read: their bytes, their names, and training that goes on after a restore."""

import os
import resource

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from tests.support.cases.optimizer_cases import COMMON_OPTIMIZERS
from tests.support.saves.saved_table import DIM, SavedTable, assert_rows_equal, random_rows
from tests.support.sessions import initialized_session

KEYS = {
    "int64": [5, -1, 0, 2**63 - 1, -(2**63), 7, 2**40],
    "uint32": [5, 0, 2**32 - 1, 7, 2**31],  # an odd number, which SparseOperationKit cannot restore
}
key_dtypes = pytest.mark.parametrize("key_dtype", KEYS)


@key_dtypes
def test_files_byte_for_byte(make_table, key_dtype):
    saved = make_table(key_dtype=key_dtype)
    keys = KEYS[key_dtype]
    with initialized_session() as session:
        session.run(saved.step, {saved.keys: keys})
        assert session.run(saved.dump) == b"saved."
        rows = session.run(saved.read, {saved.keys: keys})
    width = {"int64": 8, "uint32": 4}[key_dtype]
    with open(f"{saved.stem}_keys.file", "rb") as file:
        expected = (key.to_bytes(width, "little", signed=key < 0) for key in keys)
        assert file.read() == b"".join(expected)
    with open(f"{saved.stem}_values.file", "rb") as file:
        assert file.read() == rows.astype("<f4").tobytes()


@key_dtypes
@pytest.mark.parametrize("use_hashtable", [True, False], ids=["hash", "direct"])
def test_round_trip(make_table, use_hashtable, key_dtype):
    saved = make_table(key_dtype=key_dtype, use_hashtable=use_hashtable)
    keys = KEYS[key_dtype] if use_hashtable else [3, 0, 15]
    with initialized_session() as session:
        session.run(saved.step, {saved.keys: keys})
        session.run(saved.dump)
        rows = saved.rows(session)
    assert_rows_equal(saved.files(), rows)
    with initialized_session() as session:
        assert session.run(saved.restore) == b"restored."
        assert_rows_equal(saved.rows(session), rows)


def test_without_hashtable_all_rows_are_dumped(make_table):
    saved = make_table(use_hashtable=False)
    with initialized_session() as session:
        session.run(saved.step, {saved.keys: [3, 5]})
        trained = session.run(saved.read, {saved.keys: [3, 5]})
        first_values = session.run(saved.read, {saved.keys: [0, 15]})
        session.run(saved.dump)
        files = saved.files()
        assert list(files) == list(range(16))
        np.testing.assert_array_equal([files[3], files[5]], trained)
        np.testing.assert_array_equal([files[0], files[15]], first_values)
        assert session.run(saved.output, {saved.keys: [0, 15]}).tolist() == first_values.tolist()


def test_empty_table(make_table):
    saved = make_table()
    with initialized_session() as session:
        session.run(saved.dump)
        assert saved.files() == {}
        session.run(saved.step, {saved.keys: [1]})
        session.run(saved.restore)
        assert saved.rows(session) == {}


@key_dtypes
@pytest.mark.parametrize("written_as", KEYS)
@pytest.mark.parametrize("num_keys", [1, 2, 3])
def test_restore_of_files_by_numpy(make_table, key_dtype, written_as, num_keys):
    """Keys of either width go into tables of either key dtype."""
    saved = make_table(key_dtype=key_dtype)
    rows = random_rows([2**32 - 1, 0, 77][:num_keys])
    saved.write_files(rows, written_as)
    with initialized_session() as session:
        session.run(saved.restore)
        assert_rows_equal(saved.rows(session), rows)
        keys = list(rows)[::-1]
        looked_up = session.run(saved.output, {saved.keys: keys})
        np.testing.assert_array_equal(looked_up, [rows[key] for key in keys])


def test_restore_without_hashtable_puts_rows_at_their_keys(make_table):
    saved = make_table(use_hashtable=False)
    rows = random_rows([9, 2, 15])
    saved.write_files(rows)
    with initialized_session() as session:
        session.run(saved.restore)
        np.testing.assert_array_equal(
            session.run(saved.read, {saved.keys: [2, 9, 15]}), [rows[2], rows[9], rows[15]]
        )
        untouched = session.run(saved.read, {saved.keys: [0]})
    with initialized_session() as session:
        np.testing.assert_array_equal(session.run(saved.output, {saved.keys: [0]}), untouched)


@pytest.mark.parametrize("use_hashtable", [True, False], ids=["hash", "direct"])
@pytest.mark.parametrize("way", ["restore", "load"])
@pytest.mark.parametrize("is_preset", [False, True], ids=["default", "preset"])
def test_what_the_table_held_is_forgotten(make_table, is_preset, way, use_hashtable):
    preset = np.arange(16 * DIM, dtype=np.float32).reshape(16, DIM)
    initializer = tf.compat.v1.constant_initializer(preset) if is_preset else None
    saved = make_table(use_hashtable=use_hashtable, initializer=initializer)
    rows = random_rows([0, 1, 2])
    saved.write_files(rows)
    with initialized_session() as session:
        first = session.run(saved.output, {saved.keys: [2, 7, 8, 9]})
        for _ in range(3):
            session.run(saved.step, {saved.keys: [7, 8, 9, 2]})
        session.run(getattr(saved, way), {saved.values: list(rows.values())})
        are_all_in_use = is_preset and not use_hashtable
        assert session.run(saved.table.num_keys()) == (16 if are_all_in_use else 3)
        np.testing.assert_array_equal(session.run(saved.read, {saved.keys: [2]}), [rows[2]])
        again = session.run(saved.output, {saved.keys: [7, 8, 9]})
        anew = preset[[3, 4, 5]] if is_preset and use_hashtable else first[1:]
        np.testing.assert_array_equal(again, anew)


@pytest.mark.parametrize("optimizer", COMMON_OPTIMIZERS, ids=str)
def test_training_goes_on_after_a_restore(make_table, optimizer):
    """As it begins on a table that starts with these rows: states have their initial value."""
    saved = make_table(optimizer=optimizer)
    rows = random_rows([10, 11, 12])
    results = []
    for has_trained_before in (False, True):
        saved.write_files(rows)
        with initialized_session() as session:
            for _ in range(3 if has_trained_before else 0):
                session.run(saved.step, {saved.keys: [12, 1, 10]})
            session.run([v.initializer for v in self_made_scalars()])
            session.run(saved.restore)
            for keys in ([10, 11], [12, 5], [10]):
                session.run(saved.step, {saved.keys: keys})
            results.append(saved.rows(session))
    assert list(results[0]) == [10, 11, 12, 5]
    assert all(np.any(results[0][key] != rows[key]) for key in rows)
    assert_rows_equal(results[1], results[0])


def self_made_scalars():
    """The optimizer's step and powers of beta, which a restore of tables leaves alone."""
    return [v for v in tf.compat.v1.global_variables() if v.shape.rank == 0]


def test_names_follow_the_variable(sok, tmp_path):
    with tf.name_scope("outer"), tf.name_scope("inner"):
        scoped = SavedTable(tmp_path / "made" / "on the way")
    first, second = SavedTable(tmp_path), SavedTable(tmp_path)
    with initialized_session() as session:
        session.run([table.dump for table in (scoped, first, second)])
    assert sorted(os.listdir(tmp_path)) == [
        "EmbeddingVariable.dump",
        "EmbeddingVariable_1.dump",
        "EmbeddingVariable_1_keys.file",
        "EmbeddingVariable_1_values.file",
        "EmbeddingVariable_keys.file",
        "EmbeddingVariable_values.file",
        "made",
    ]
    assert sorted(os.listdir(tmp_path / "made/on the way/outer/inner")) == [
        "EmbeddingVariable.dump",
        "EmbeddingVariable_keys.file",
        "EmbeddingVariable_values.file",
    ]


def test_folder_may_be_a_tensor(make_table, tmp_path):
    saved = make_table()
    folder = tf.compat.v1.placeholder(tf.string, [])
    saver = sok_compat.Saver()
    dump, restore = (f(saved.table, folder) for f in (saver.dump_to_file, saver.restore_from_file))
    with initialized_session() as session:
        session.run(saved.step, {saved.keys: [4, 2]})
        rows = saved.rows(session)
        for name in ("a", "b"):
            session.run(dump, {folder: str(tmp_path / name)})
            session.run(saved.step, {saved.keys: [4, 9]})
        session.run(restore, {folder: str(tmp_path / "a")})
        assert_rows_equal(saved.rows(session), rows)


def test_dump_replaces_earlier_files_as_a_whole(make_table, tmp_path):
    """A reader that has the earlier file open keeps reading it; nothing else is left behind."""
    saved = make_table()
    with initialized_session() as session:
        session.run(saved.step, {saved.keys: [1, 2, 3]})
        session.run(saved.dump)
        with open(f"{saved.stem}_values.file", "rb") as file:
            earlier = saved.files()
            session.run(saved.step, {saved.keys: [4]})
            session.run(saved.dump)
            assert len(file.read()) == 3 * DIM * 4
        assert saved.files().keys() == {1, 2, 3, 4}
        assert np.any(saved.files()[1] != earlier[1])
    assert len(os.listdir(tmp_path)) == 3


def test_dump_that_fails_leaves_the_earlier_files(make_table, tmp_path):
    saved = make_table()
    with initialized_session() as session:
        session.run(saved.step, {saved.keys: [1, 2]})
        session.run(saved.dump)
        before = saved.files()
        session.run(saved.step, {saved.keys: [3]})
        resource.setrlimit(resource.RLIMIT_FSIZE, (8 * 3 + 1, resource.RLIM_INFINITY))
        try:
            with pytest.raises(tf.errors.ResourceExhaustedError, match="values.file"):
                session.run(saved.dump)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        assert_rows_equal(saved.files(), before)
    assert len(os.listdir(tmp_path)) == 3


def test_more_rows_than_one_chunk(make_table):
    """Restore reads files in pieces of 65536 rows."""
    count = 2 * 65536 + 3
    saved = make_table(capacity=count)
    values = np.arange(count * DIM, dtype=np.float32).reshape(count, DIM)
    saved.write_files(dict(zip(range(-5, count - 5), values)))
    with initialized_session() as session:
        session.run(saved.restore)
        keys, rows = session.run(saved.exported)
        np.testing.assert_array_equal(keys, np.arange(-5, count - 5))
        np.testing.assert_array_equal(rows, values)
