# SPDX-License-Identifier: Apache-2.0
"""Dumps of tables in SparseOperationKit 2's files, and loads, in graphs and eager mode."""

import os

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.checkpoint.streams.dumps import DumpedTable, dump_tables, load_tables
from sok_compat.runtime.tf_versions import keras_of_layers as keras
from sok_compat.tables import Table
from sok_compat.tables.slots.registry import slot_for
from tests.support.lookups import lookup

tf1 = tf.compat.v1
SLOT = ("Adagrad", "accumulator")


def dumped(table, name, key_dtype=np.int64, slots=None, num_keys=None):
    return DumpedTable(table, name, key_dtype, "headed", slots, num_keys=num_keys)


class Tables:
    """A table of any keys and one of five rows, each with a slot; the first has keys 7 and -3."""

    def __init__(self, dim=2, num_rows=5):
        self.any_keys = Table(None, dim, "random_normal", name="any/keys")
        self.few = Table(num_rows, 3, "ones", use_hash_index=False, name="few")
        self.tables = [self.any_keys, self.few]
        self.slots = [slot_for(each, "Adagrad", "accumulator", fill=0.5) for each in self.tables]

    def dumps(self):
        sizes, dtypes = [None, self.few.capacity], [np.int64, np.uint64]
        return [
            dumped(table, f"{table.table_name}:0", dtype, {SLOT: slot}, size)
            for table, slot, dtype, size in zip(self.tables, self.slots, dtypes, sizes)
        ]

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
                return session.run([each for each in made if each is not None])

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


def dump(run, folder, tables):
    run(lambda: [dump_tables(tf.constant(str(folder)), tables.dumps())])


def load(run, folder, dumps):
    run(lambda: [load_tables(tf.constant(str(folder)), dumps)])


def array_in(path, dtype, width=1):
    return np.frombuffer(path.read_bytes()[296:], dtype).reshape(-1, width)


def test_what_is_dumped_is_loaded(run, tmp_path):
    tables = filled(run)
    before = run(tables.contents)
    dump(run, tmp_path / "new", tables)
    names = [f"{stem}-{each}" for stem in ("any_keys_0", "few_0")
             for each in ("Adagrad-accumulator", "key", "note", "weight")]  # fmt: skip
    assert sorted(os.listdir(tmp_path / "new")) == names
    run(lambda: [lookup(tables.any_keys, tf.constant([9, 11], tf.int64), True)])
    run(tables.train)
    load(run, tmp_path / "new", tables.dumps())
    after = run(tables.contents)
    for expected, actual in zip(before, after):
        np.testing.assert_array_equal(actual, expected)
    load(run, tmp_path / "new", tables.dumps()[:1])


def test_the_files_have_all_rows(run, tmp_path):
    tables = filled(run)
    keys, rows, *_ = run(tables.contents)
    dump(run, tmp_path, tables)
    parts = ("key", np.int64, 1), ("weight", np.float32, 2), ("Adagrad-accumulator", np.float32, 2)
    found = [array_in(tmp_path / f"any_keys_0-{part}", *kind) for part, *kind in parts]
    assert as_dict(found[0][:, 0], *found[1:]) == as_dict(keys, rows, np.full([2, 2], 1.5))
    assert array_in(tmp_path / "few_0-key", np.uint64)[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert array_in(tmp_path / "few_0-weight", np.float32, 3).tolist() == np.ones([5, 3]).tolist()
    slots = array_in(tmp_path / "few_0-Adagrad-accumulator", np.float32, 3)
    assert slots.tolist() == np.repeat([[1.5], [0.5]], [2, 3], axis=0).repeat(3, axis=1).tolist()


def test_what_does_not_fit_changes_nothing(run, tmp_path):
    tables = filled(run)
    dump(run, tmp_path, tables)
    before = run(tables.contents)

    def fails(error, match, dumps, folder=tmp_path):
        with pytest.raises(error, match=match):
            load(run, folder, dumps)

    any_keys, few = tables.dumps()
    wrong, missing = tf.errors.InvalidArgumentError, tf.errors.NotFoundError
    swapped = dumped(tables.few, "any/keys:0")
    fails(wrong, "has rows of 2 numbers, but those of any/keys:0 have 3", [few, swapped])
    nine = dumped(tables.any_keys, "any/keys:0", num_keys=9)
    fails(wrong, "has 2 keys, but any/keys:0 has 9 rows", [nine])
    fails(missing, "other_0-key is missing", [any_keys, dumped(tables.few, "other:0")])
    fails(missing, "is no folder with dumped tables", [any_keys], tmp_path / "none")
    adam = dumped(tables.any_keys, "any/keys:0", slots={("Adam", "m"): tables.slots[0]})
    fails(missing, "any_keys_0-Adam-m is missing", [adam])
    path = tmp_path / "few_0-Adagrad-accumulator"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    fails(tf.errors.DataLossError, "few_0-Adagrad-accumulator is not as", [any_keys, few])
    fails(tf.errors.DataLossError, "few_0-Adagrad-accumulator is not as", [few])
    for expected, actual in zip(before, run(tables.contents)):
        np.testing.assert_array_equal(actual, expected)


def test_a_folder_that_cannot_be_written(run, tmp_path):
    tables = filled(run)
    (tmp_path / "file").write_text("")
    with pytest.raises(tf.errors.UnknownError, match="file"):
        dump(run, tmp_path / "file", tables)
    os.mkdir(tmp_path / "few_0-weight")
    with pytest.raises(tf.errors.UnknownError, match="is a folder"):
        dump(run, tmp_path, tables)
    assert sorted(os.listdir(tmp_path)) == ["few_0-weight", "file"]
