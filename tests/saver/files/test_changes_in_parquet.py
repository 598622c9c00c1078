# SPDX-License-Identifier: Apache-2.0
"""Increments as Parquet files, and what the tool reads of them."""

import json
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf

import sok_compat
from sok_compat.checkpoint.tool.command_line import main
from sok_compat.runtime.op_library import ops
from sok_compat.tables import Table
from tests.support.saves.followed_model import DIM, NUM_KEYS, TABLES, Trainer, key_of, training

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
tf1 = tf.compat.v1


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Version 1, whole, increments 2 and 3, and whole-3, the same as they are together."""
    path = str(tmp_path_factory.mktemp("trained"))
    with training() as (trainer, session):
        trainer.write(session, path, [1, 2, 3])
        trainer.saver.save(session, f"{path}/whole", 3)
    return path


@pytest.fixture
def files(folder, tmp_path, capsys):
    """Of the changes of each version."""
    made = [f"{tmp_path}/{number}.parquet" for number in (1, 2, 3)]
    for number, file in enumerate(made, 1):
        assert main(["changes", f"{folder}/model-{number}", "--to", file]) == 0
    return made


def test_each_change_is_a_row(folder, files, capsys):
    changes = pq.read_table(files[1])
    kinds = {field.name: str(field.type) for field in changes.schema}
    assert kinds == {
        "table": "string",
        "step": "int64",
        "rank": "int32",
        "op": "string",
        "key": "int64",
        "row": "list<element: float>",
    }
    assert set(changes["step"].to_pylist()) == {2}
    assert set(changes["rank"].to_pylist()) == {0}
    for table in TABLES:
        of_table = changes.filter(pa.compute.equal(changes["table"], table)).to_pylist()
        upserts = {each["key"]: each["row"] for each in of_table if each["op"] == "upsert"}
        assert upserts == {key: [2.0] * DIM for key in [*range(NUM_KEYS), key_of(2)]}
        deleted = [(each["key"], each["row"]) for each in of_table if each["op"] == "delete"]
        assert deleted == [(key_of(1), None)]


def test_a_whole_checkpoint_is_upserts(files):
    """Of all keys, as its metadata says."""
    assert set(pq.read_table(files[0])["op"].to_pylist()) == {"upsert"}
    wholes = [json.loads(pq.read_schema(file).metadata[b"whole"]) for file in files]
    assert wholes == [[*TABLES], [], []]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_rows_of_two_bytes(graph, tmp_path, dtype, capsys):
    """Are float32 in all files."""
    keys, rows = [5, -7], np.float32([[1 / 3, -65504, 2**-20], [np.inf, 0, 3e-3]])
    expected = tf.cast(tf.cast(rows, dtype), tf.float32)
    sok_compat.checkpoint.save_tables_in_checkpoints()
    table = Table(None, 3, "zeros", name="t", row_dtype=dtype)
    insert = ops.sok_insert_rows(table.table_handle, keys, rows)
    saver, paths = sok_compat.IncrementalSaver(), []
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        paths.append(saver.save(session, f"{tmp_path}/empty", 0))
        session.run(insert)
        for save, name in ((saver.save_increment, "increment"), (saver.save, "whole")):
            paths.append(save(session, f"{tmp_path}/{name}", 1))
        expected = dict(zip(keys, session.run(expected).tolist()))
    files = [f"{path}.parquet" for path in paths]
    for path, file, num_keys in zip(paths, files, (0, 2, 2)):
        assert main(["show", path]) == 0
        assert re.search(rf"table t: {num_keys} keys .*, dim 3 {dtype}, ", capsys.readouterr().out)
        assert main(["changes", path, "--to", file]) == 0
        changes = pq.read_table(file).to_pylist()
        found = {each["key"]: each["row"] for each in changes if each["op"] == "upsert"}
        assert found == (expected if num_keys else {})
    arrays, dump = [f"{tmp_path}/keys.npy", f"{tmp_path}/rows.npy"], f"{tmp_path}/dump"
    assert main(["export", paths[2], "--table", "t", "--to", *arrays]) == 0
    found = np.load(arrays[1])
    assert found.dtype == np.float32
    assert dict(zip(np.load(arrays[0]).tolist(), found.tolist())) == expected
    for given in (arrays, files[:2]):
        assert main(["import", dump, "--table", "t", "--from", *given]) == 0
        assert main(["diff", paths[2], dump, "--table", "t"]) == 0


def test_written_while_training(graph, tmp_path, capsys):
    """By the hook, for each checkpoint of the saver: together they are the last one."""
    folder, changes = str(tmp_path / "trained"), str(tmp_path / "changes")
    trainer = Trainer()
    tf1.train.create_global_step()
    hook = sok_compat.IncrementalSaverHook(trainer.saver, folder, save_steps=1, changes_dir=changes)
    step = tf1.assign_add(tf1.train.get_global_step(), 1)
    scaffold = tf1.train.Scaffold(saver=trainer.saver)
    with tf1.train.MonitoredTrainingSession(
        checkpoint_dir=folder, scaffold=scaffold, hooks=[hook], save_checkpoint_steps=4
    ) as session:
        numbers = iter(range(1, 7))
        for _ in range(1, 7):
            session.run_step_fn(
                lambda step_context: trainer.make(step_context.session, next(numbers))
            )
            session.run(step)
    files = [f"{changes}/model.ckpt-{number}.parquet" for number in range(7)]
    assert sorted(map(str, pathlib.Path(changes).iterdir())) == files
    sizes = [pq.read_metadata(file).num_rows for file in files]
    assert sizes[0] == 0 and sizes[4] == 2 * (NUM_KEYS + 1) and sizes[5] == 2 * (NUM_KEYS + 2)
    dump = f"{tmp_path}/dump"
    assert main(["import", dump, "--table", "left", "--from", *files]) == 0
    capsys.readouterr()
    main(["diff", f"{folder}/model.ckpt-6", dump, "--table", "left"])
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"table left: {NUM_KEYS + 1} keys in both", "  only in one: versions, freqs"]


def test_changes_that_could_not_be_written(graph, tmp_path):
    """Are written by the next call."""
    changes = tmp_path / "changes"
    trainer = Trainer()
    tf1.train.create_global_step()
    hook = sok_compat.IncrementalSaverHook(
        trainer.saver, str(tmp_path), save_steps=1, changes_dir=str(changes)
    )
    hook.begin()
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        hook.after_create_session(session, None)
        trainer.write(session, tmp_path, [1, 2])
        changes.rmdir()
        with pytest.raises(OSError, match="changes/model-1.parquet"):
            hook.end(session)
        changes.mkdir()
        hook.end(session)
    assert sorted(each.name for each in changes.iterdir()) == [f"model-{n}.parquet" for n in (1, 2)]


def test_only_one_table(folder, tmp_path):
    file = f"{tmp_path}/left.parquet"
    assert main(["changes", f"{folder}/model-2", "--table", "left", "--to", file]) == 0
    assert set(pq.read_table(file)["table"].to_pylist()) == {"left"}


@pytest.mark.parametrize("is_exported", [False, True])
def test_applied_one_after_the_other(folder, files, tmp_path, is_exported, capsys):
    """To the rows of `export`, too: the same as the whole checkpoint after them."""
    if is_exported:
        files[0] = f"{tmp_path}/left.parquet"
        arguments = ["export", f"{folder}/model-1", "--table", "left", "--to", files[0]]
        assert main(arguments) == 0
    dump = f"{tmp_path}/dump"
    assert main(["import", dump, "--table", "left", "--from", *files]) == 0
    capsys.readouterr()
    main(["diff", f"{folder}/whole-3", dump, "--table", "left"])
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["table left: 301 keys in both", "  only in one: versions, freqs"]


def test_what_is_wrong(folder, files, tmp_path, capsys):
    dump = f"{tmp_path}/dump"
    assert main(["import", dump, "--table", "other", "--from", *files]) == 2
    assert "no keys are left of the table other" in capsys.readouterr().err
    assert main(["changes", f"{folder}/model-2", "--table", "other", "--to", "x.parquet"]) == 2
    assert "has no table other; its tables: left, right" in capsys.readouterr().err
    with open(files[2], "r+b") as file:
        file.truncate(100)
    assert main(["import", dump, "--table", "left", "--from", *files]) == 2
    assert "not a Parquet file, or damaged" in capsys.readouterr().err
    changes = pq.read_table(files[1])
    at = changes.schema.get_field_index("op")
    pq.write_table(changes.set_column(at, "op", pa.array(["drop"] * len(changes))), files[1])
    assert main(["import", dump, "--table", "left", "--from", *files[:2]]) == 2
    assert "op is 'drop', expected upsert or delete" in capsys.readouterr().err


def test_rows_of_other_widths(tmp_path, capsys):
    files = [f"{tmp_path}/{name}.parquet" for name in "ab"]
    for file, dim in zip(files, (2, 3)):
        rows = pa.array([[0.5] * dim] * 2)
        pq.write_table(pa.table({"key": np.array([dim, 9]), "row": rows}), file)
    assert main(["import", f"{tmp_path}/dump", "--table", "t", "--from", *files]) == 2
    assert "the row of the key 3 has 3 floats, expected 2" in capsys.readouterr().err


def changes_of(keys, rows, **others):
    """A table of upserts of `t`."""
    columns = {"table": ["t"] * len(keys), "op": ["upsert"] * len(keys), "key": keys, "row": rows}
    return pa.table({**columns, **others})


def contents_of(folder):
    return {file.name: file.read_bytes() for file in pathlib.Path(folder).iterdir()}


FLOATS = [[0.5], [1.5]]
WRONG = [
    (dict(keys=[1.0, 2.0], rows=FLOATS), "the column key is double, expected whole numbers"),
    (dict(keys=pa.array([1, 2], pa.uint64()), rows=FLOATS), "the column key is uint64, expected"),
    (dict(keys=["a", "b"], rows=FLOATS), "the column key is string, expected whole numbers"),
    (dict(keys=pa.array([1, None]), rows=FLOATS), "the column key has 1 null"),
    (dict(keys=[1, 2], rows=[None, [1.5]]), "the column row has 1 null"),
    (dict(keys=[1, 2], rows=[[0.5], [None]]), "the floats of the column row has 1 null"),
    (dict(keys=[1, 2], rows=[[], [1.5]]), "the row of the key 1 has 0 floats, expected"),
    (dict(keys=[1, 2], rows=[[0.5], [1.5, 2]]), "the row of the key 2 has 2 floats, expected 1"),
    (dict(keys=[1, 2], rows=[[1], [2]]), "the column row is list<.*>, expected lists of floats"),
    (dict(keys=[1, 2], rows=[0.5, 1.5]), "the column row is double, expected lists of floats"),
    (dict(keys=[1, 2], rows=[[0.5], [1e300]]), "the row of the key 2 has 1e.300, and the largest"),
]
WRONG_CHANGES = [
    (dict(keys=[1, 2], rows=FLOATS, op=["upsert", None]), "the column op has 1 null"),
    (dict(keys=[1, 2], rows=FLOATS, op=pa.array([[1], [2]])), "the column op is list<"),
    (dict(keys=[1, 2], rows=FLOATS, table=[None, "t"]), "the column table has 1 null"),
]


@pytest.mark.parametrize("is_exported", [False, True])
@pytest.mark.parametrize("columns, message", WRONG + WRONG_CHANGES)
def test_columns_that_do_not_fit(tmp_path, columns, message, is_exported, capsys):
    """End with a message, and an earlier dump stays."""
    file, dump = f"{tmp_path}/changes.parquet", f"{tmp_path}/dump"
    arguments = ["import", dump, "--table", "t", "--from", file]
    pq.write_table(changes_of([7], [[7.0]]), file)
    assert main(arguments) == 0
    before = contents_of(dump)
    made = changes_of(**columns)
    if is_exported:
        if (columns, message) in WRONG_CHANGES:
            pytest.skip("a column of changes")
        made = made.select(["key", "row"])
    pq.write_table(made, file)
    capsys.readouterr()
    assert main(arguments) == 2
    assert re.search(f"{file}.*: {message}", capsys.readouterr().err)
    assert contents_of(dump) == before


def test_metadata_that_is_no_list(tmp_path, capsys):
    file = f"{tmp_path}/changes.parquet"
    pq.write_table(changes_of([1, 2], FLOATS).replace_schema_metadata({"whole": "5"}), file)
    assert main(["import", f"{tmp_path}/dump", "--table", "t", "--from", file]) == 2
    assert f"{file}: the metadata whole is 5, expected a list" in capsys.readouterr().err


def test_names_as_categories(tmp_path):
    """Of pandas: columns of dictionaries."""
    file, dump = f"{tmp_path}/changes.parquet", f"{tmp_path}/dump"
    names = {name: pa.array([text] * 2).dictionary_encode() for name, text in
             {"table": "t", "op": "upsert"}.items()}  # fmt: skip
    pq.write_table(changes_of([1, 2], FLOATS, **names), file)
    assert main(["import", dump, "--table", "t", "--from", file]) == 0
