# SPDX-License-Identifier: Apache-2.0
"""Tables that are assigned rows from arrays, and from another program's files."""

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.checkpoint import assign_from, assign_rows, save_tables_in_checkpoints
from sok_compat.checkpoint.tool.command_line import main
from sok_compat.deeprec.variables.variable_creation import get_embedding_variable
from sok_compat.tables import Table, slot_for
from tests.support.deeprec.deeprec_files import tensors_of, write_tensors
from tests.support.processes.runs import EagerRun

DIM = 2
ROWS = {key: (float(key), 1.0) for key in (1, 5, 1002, -4, 2**40)}
tf1 = tf.compat.v1


def write_rows(path, rows, name="other"):
    keys, values = np.array(list(rows), np.int64), np.array(list(rows.values()), np.float32)
    write_tensors(path, {f"{name}/keys": keys, f"{name}/rows": values, f"{name}/m": values})


def write_buckets(path, rows, name="other"):
    write_tensors(path, tensors_of(name, rows, DIM, 3, key_dtype=np.int64))


def write_dump(path, rows, name="other"):
    np.save(f"{path}.keys.npy", np.array(list(rows), np.int64))
    np.save(f"{path}.rows.npy", np.array(list(rows.values()), np.float32))
    files = [f"{path}.keys.npy", f"{path}.rows.npy"]
    assert main(["import", path, "--table", name, "--from", *files]) == 0


WRITERS = {"rows": write_rows, "buckets": write_buckets, "dump": write_dump}
of_all_formats = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)


def contents(run, table):
    keys, rows = run(table.export)
    return {int(key): tuple(map(float, row)) for key, row in zip(keys, rows)}


def as_arrays(rows):
    return np.array(list(rows)), np.array(list(rows.values()), np.float32)


@of_all_formats
def test_from_files(run, tmp_path, write):
    path = str(tmp_path / "source")
    write(path, ROWS)
    table = Table(8, DIM, name="x")
    slot = slot_for(table, "optimizer", "m", fill=0.25)
    run(lambda: assign_rows(table, *as_arrays({77: (3.0, 4.0)})))
    run(lambda: slot.assign_add(tf.ones([8, DIM])))
    run(lambda: assign_from(table, path, "other"))
    assert contents(run, table) == ROWS
    assert (run(slot.read_value)[: len(ROWS)] == 0.25).all()


@of_all_formats
@pytest.mark.parametrize("kind", ["capacity", "dim", "missing", "bit"])
def test_what_does_not_fit_leaves_the_table_alone(run, tmp_path, write, kind):
    path = str(tmp_path / "source")
    write(path, ROWS)
    table = Table(4 if kind == "capacity" else 8, 3 if kind == "dim" else DIM, name="x")
    before = {77: (3.0,) * table.dim}
    run(lambda: assign_rows(table, *as_arrays(before)))
    name, error = "other", tf.errors.OpError
    if kind == "bit":
        is_dump = write is write_dump
        file = tmp_path / ("source/other_values.file" if is_dump else "source.data-00000-of-00001")
        content = bytearray(file.read_bytes())
        content[9] ^= 1
        file.write_bytes(content)
        error = tf.errors.DataLossError
    elif kind == "missing":
        name, error = "another", (ValueError, tf.errors.NotFoundError)
    elif kind == "capacity":
        error = tf.errors.ResourceExhaustedError
    with pytest.raises(error, match={"missing": "other", "bit": "source"}.get(kind)):
        run(lambda: assign_from(table, path, name))
    assert contents(run, table) == before


def test_the_latest_of_a_folder_and_its_own_name(run, tmp_path):
    write_rows(str(tmp_path / "model-1"), {1: (0.0, 0.0)}, "x")
    write_rows(str(tmp_path / "model-2"), ROWS, "x")
    tf1.train.update_checkpoint_state(str(tmp_path), "model-2")
    table = Table(None, DIM, name="x")
    run(lambda: assign_from(table, tmp_path))
    assert contents(run, table) == ROWS


BAD = {
    "keys twice": ([1, 1], np.ones([2, DIM]), tf.errors.InvalidArgumentError, "key 1 appears twi"),
    "too many": (np.arange(9), np.ones([9, DIM]), tf.errors.ResourceExhaustedError, "9 keys"),
    "dim": ([1], np.ones([1, DIM + 1]), tf.errors.InvalidArgumentError, r"\[n >= 1, 2\]"),
    "none": (np.zeros([0], int), np.ones([0, DIM]), tf.errors.InvalidArgumentError, "n >= 1"),
    "counts": ([1, 2], np.ones([3, DIM]), tf.errors.InvalidArgumentError, r"shape \[3\].*\[2\]"),
    "range": ([-1], np.ones([1, DIM]), tf.errors.InvalidArgumentError, "not a uint32"),
}


@pytest.mark.parametrize("keys, rows, error, message", BAD.values(), ids=BAD)
def test_arrays_that_do_not_fit(run, keys, rows, error, message):
    table = Table(8, DIM, name="x", key_dtype="uint32")
    run(lambda: assign_rows(table, [2**32 - 1], [[5.0, 6.0]]))
    with pytest.raises(error, match=message):
        run(lambda: assign_rows(table, keys, rows))
    assert contents(run, table) == {2**32 - 1: (5.0, 6.0)}


@pytest.mark.parametrize("num_parts", [None, 2])
@of_all_formats
def test_an_embedding_variable(graph, tmp_path, write, num_parts):
    """In parts it takes those of its buckets, which other layouts cannot be asked for."""
    path = str(tmp_path / "source")
    write(path, ROWS)
    partitioner = num_parts and tf1.fixed_size_partitioner(num_parts)
    variable = get_embedding_variable("v", DIM, partitioner=partitioner)
    parts = variable.table_parts if num_parts else [variable]
    with tf1.Session() as session:
        session.run(tf1.global_variables_initializer())
        if num_parts and write is not write_buckets:
            with pytest.raises(ValueError, match="one of 2 parts, which can only be assigned from"):
                assign_from(parts[0], path, "other")
            return
        session.run([assign_from(part, path, "other") for part in parts])
        exported = [session.run(part.export()[:2]) for part in parts]
        found = {key: tuple(row) for keys, rows in exported for key, row in zip(keys, rows)}
        assert found == ROWS


def test_a_checkpoint_of_a_saver(tmp_path):
    """Of which the tool and assign_from say the same."""
    save_tables_in_checkpoints()
    path = str(tmp_path / "model")
    with tf.Graph().as_default(), tf1.Session() as session:
        table = Table(8, DIM, name="x")
        slot_for(table, "optimizer", "m", width=3)
        tf1.get_variable("dense", [4])
        session.run(tf1.global_variables_initializer())
        session.run(assign_rows(table, *as_arrays(ROWS)))
        tf1.train.Saver().save(session, path)
    assert main(["show", path]) == 0
    table = Table(8, DIM, name="y")
    assign_from(table, path, "x")
    assert contents(EagerRun(), table) == ROWS
    keys, rows = (str(tmp_path / name) for name in ("k.npy", "v.npy"))
    assert main(["export", path, "--table", "x", "--slots", "--to", keys, rows]) == 0
    exported = dict(zip(np.load(keys).tolist(), map(tuple, np.load(rows).tolist())))
    assert exported == ROWS
    assert np.load(tmp_path / "v.m.npy").shape == (5, 3)
