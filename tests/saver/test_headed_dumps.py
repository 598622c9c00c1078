# SPDX-License-Identifier: Apache-2.0
"""Dumps of tables in SparseOperationKit 2's files, and loads, in graphs and eager mode."""

import os

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.checkpoint.files.file_error import FileError
from sok_compat.checkpoint.files.headed_files import open_headed_dump
from sok_compat.checkpoint.saver.headed_dumps import TableDump, dump_tables, load_tables
from sok_compat.runtime.tf_versions import keras
from sok_compat.tables import Table
from sok_compat.tables.slots import slot_for
from tests.support.lookups import lookup

tf1 = tf.compat.v1
SLOT = ("Adagrad", "accumulator")


class Tables:
    """A table of any keys and one of five rows, each with a slot; the first has keys 7 and -3."""

    def __init__(self, dim=2, num_rows=5):
        self.any_keys = Table(None, dim, "random_normal", name="any/keys")
        self.few = Table(num_rows, 3, "ones", use_hash_index=False, name="few")
        self.tables = [self.any_keys, self.few]
        self.slots = [slot_for(each, "Adagrad", "accumulator", fill=0.5) for each in self.tables]

    def dumps(self, **changes):
        sizes, dtypes = [None, self.few.capacity], [np.int64, np.uint64]
        return [
            TableDump(table, f"{table.table_name}:0", np.dtype(dtype), {SLOT: slot}, **changes,
                      num_keys=size)
            for table, slot, dtype, size in zip(self.tables, self.slots, dtypes, sizes)
        ]  # fmt: skip

    def insert(self):
        keys = tf.constant([7, -3], tf.int64)
        return [
            lookup(self.any_keys, keys, True),
            lookup(self.few, tf.range(2, dtype=tf.int64), True),
        ]

    def train(self):
        return [
            slot.scatter_add(tf.IndexedSlices(tf.ones([2, slot.width]), tf.constant([0, 1])))
            for slot in self.slots
        ]

    def contents(self):
        with tf.control_dependencies([]):
            return [
                *self.any_keys.export(), *self.few.export(),
                *(tf.raw_ops.ResourceGather(resource=slot.handle, indices=[0, 1], dtype=tf.float32)
                  for slot in self.slots),
            ]  # fmt: skip


@pytest.fixture(params=["graph", "eager"])
def run(request):
    """run(make): values of what make() returns; run.session."""
    keras.backend.clear_session()
    if request.param == "eager":

        def values(make):
            return [each.numpy() for each in make() if each is not None and tf.is_tensor(each)]

        values.session = None
        yield values
    else:
        with tf.Graph().as_default(), tf1.Session() as session:

            def values(make):
                made = make()
                if not values.is_initialized:
                    session.run(tf1.global_variables_initializer())
                    values.is_initialized = True
                return session.run(made)

            values.session, values.is_initialized = session, False
            yield values
    keras.backend.clear_session()


def filled(run):
    tables = Tables()
    run(tables.insert)
    run(tables.train)
    return tables


def as_dict(keys, *arrays):
    return {key: [array[i].tolist() for array in arrays] for i, key in enumerate(keys.tolist())}


def test_what_is_dumped_is_loaded(run, tmp_path):
    tables = filled(run)
    before = run(tables.contents)
    dump_tables(str(tmp_path / "new"), tables.dumps(), run.session)
    names = [f"{stem}-{each}" for stem in ("any_keys_0", "few_0")
             for each in ("Adagrad-accumulator", "key", "note", "weight")]  # fmt: skip
    assert sorted(os.listdir(tmp_path / "new")) == names
    run(lambda: [lookup(tables.any_keys, tf.constant([9, 11], tf.int64), True)])
    run(tables.train)
    load_tables(str(tmp_path / "new"), tables.dumps(), run.session)
    after = run(tables.contents)
    for expected, actual in zip(before, after):
        np.testing.assert_array_equal(actual, expected)
    load_tables(str(tmp_path / "new"), [tables.dumps()[0]], run.session)


def test_the_files_have_all_rows(run, tmp_path):
    tables = filled(run)
    keys, rows, *_ = run(tables.contents)
    dump_tables(str(tmp_path), tables.dumps(), run.session)
    dump = open_headed_dump(str(tmp_path), "any/keys:0", {SLOT: ()})
    arrays = (dump.keys, dump.rows, dump.slots[SLOT])
    found = [np.concatenate([piece for _, piece in array.pieces()]) for array in arrays]
    assert as_dict(*found) == as_dict(keys, rows, np.full([2, 2], 1.5))
    few = open_headed_dump(str(tmp_path), "few:0", {})
    assert few.keys.dtype == np.uint64 and few.keys.shape == (5,) and few.rows.shape == (5, 3)


def test_what_does_not_fit_changes_nothing(run, tmp_path):
    tables = filled(run)
    dump_tables(str(tmp_path), tables.dumps(), run.session)
    before = run(tables.contents)

    def fails(match, dumps, folder=tmp_path):
        with pytest.raises(FileError, match=match):
            load_tables(str(folder), dumps, run.session)

    any_keys, few = tables.dumps()
    swapped = TableDump(tables.few, "any/keys:0", np.dtype("i8"))
    fails("has rows of 2 numbers, but those of any/keys:0 have 3", [few, swapped])
    fails("has 2 keys, but any/keys:0 has 9 rows", [TableDump(
        tables.any_keys, "any/keys:0", np.dtype("i8"), num_keys=9)])  # fmt: skip
    fails("other_0-key is missing", [any_keys, TableDump(tables.few, "other:0", np.dtype("i8"))])
    fails("is no folder with dumped tables", [any_keys], tmp_path / "none")
    wrong = TableDump(
        tables.any_keys, "any/keys:0", np.dtype("i8"), {("Adam", "m"): tables.slots[0]}
    )
    fails("any_keys_0-Adam-m is missing", [wrong])
    for expected, actual in zip(before, run(tables.contents)):
        np.testing.assert_array_equal(actual, expected)


def test_a_folder_that_cannot_be_written(run, tmp_path):
    tables = filled(run)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        dump_tables(str(tmp_path / "file"), tables.dumps(), run.session)
    os.mkdir(tmp_path / "any_keys_0-weight")
    with pytest.raises(FileError, match="is a folder"):
        dump_tables(str(tmp_path), tables.dumps(), run.session)
    assert sorted(os.listdir(tmp_path)) == ["any_keys_0-weight", "file"]
