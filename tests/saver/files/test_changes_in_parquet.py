# SPDX-License-Identifier: Apache-2.0
"""Increments as Parquet files, and what the tool reads of them."""

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.checkpoint.tool.command_line import main
from tests.support.saves.followed_model import DIM, NUM_KEYS, TABLES, Trainer, key_of

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
tf1 = tf.compat.v1


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Version 1, whole, increments 2 and 3, and whole-3, the same as they are together."""
    path = str(tmp_path_factory.mktemp("trained"))
    with tf.Graph().as_default():
        trainer = Trainer()
        with tf1.Session() as session:
            session.run(trainer.init)
            for number in (1, 2, 3):
                trainer.make(session, number)
                trainer.save(session, path, number)
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
    assert set(pq.read_table(files[0])["op"].to_pylist()) == {"upsert"}


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
    assert "rows of" in capsys.readouterr().err
