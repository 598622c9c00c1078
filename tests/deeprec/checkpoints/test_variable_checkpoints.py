# SPDX-License-Identifier: Apache-2.0
"""Embedding variables in tf.train.Saver: DeepRec's tensors, and training that goes on from them."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.deeprec.optimizer_rules import train_optimizers as optimizers
from sok_compat.deeprec.variables.embedding_variable import EmbeddingVariable
from sok_compat.deeprec.variables.options import (
    CounterFilter,
    EmbeddingVariableOption,
    InitializerOption,
)
from tests.support.deeprec.deeprec_files import in_buckets, starts
from tests.support.deeprec.deeprec_optimizers import CASES
from tests.support.deeprec.saved_variable import DIM, Model, saved

tf1 = tf.compat.v1
WHAT = ("keys", "values", "versions", "freqs", "keys_filtered", "versions_filtered",
        "freqs_filtered", "partition_offset", "partition_filter_offset")  # fmt: skip
KEYS = [1, 1001, -1, -7, -1000, 5, 999, 1005, 2**31 - 1, -(2**31)]
WIDE_KEYS = [2**40, np.iinfo(np.int64).max, np.iinfo(np.int64).min]


@pytest.mark.parametrize("key_dtype", [tf.int64, tf.int32])
def test_what_is_in_the_checkpoint(tmp_path, key_dtype):
    keys = KEYS if key_dtype == tf.int32 else KEYS + WIDE_KEYS
    rows = saved(str(tmp_path / "model"), [keys, keys[:4]], key_dtype=key_dtype)
    load = functools.partial(tf.train.load_variable, str(tmp_path))
    names = {name for name, _ in tf.train.list_variables(str(tmp_path))}
    planes = ("v", "v/Adagrad")
    tensors = {f"{plane}-{what}" for plane in planes for what in WHAT}
    assert names == {"global_step", "v-seed-versions", *tensors}
    for plane in planes:
        found = load(f"{plane}-keys")
        assert found.dtype == key_dtype and found.tolist() == in_buckets(keys)
        np.testing.assert_array_equal(load(f"{plane}-partition_offset"), starts(found))
        np.testing.assert_array_equal(load(f"{plane}-partition_filter_offset"), starts([]))
        assert load(f"{plane}-partition_offset").dtype == np.int32
        assert load(f"{plane}-keys_filtered").dtype == key_dtype
        for what in WHAT[2:7]:
            assert load(f"{plane}-{what}").shape == (0,)
            assert what.startswith("keys") or load(f"{plane}-{what}").dtype == np.int64
    values = load("v-values")
    assert {key: tuple(row) for key, row in zip(load("v-keys"), values)} == rows
    assert (load("v/Adagrad-values") > 0.1).all()


def test_a_program_that_copies_ordinary_variables(tmp_path):
    """It leaves out what ends as DeepRec's tensors do; the copies are saved beside the table."""
    path = str(tmp_path / "model")
    saved(path, [[1, 5]])
    ordinary = [name for name, _ in tf.train.list_variables(path) if not name.endswith(WHAT)]
    assert ordinary == ["global_step"]
    with tf.Graph().as_default(), tf1.Session() as session:
        Model(saver=lambda: None)
        load = functools.partial(tf.train.load_variable, path)
        copies = [tf1.get_variable(f"{name}_of_file", initializer=load(name)) for name in ordinary]
        session.run(tf1.global_variables_initializer())
        tf1.train.Saver().save(session, str(tmp_path / "copy"))
        assert session.run(copies) == [load("global_step")]


def test_names_of_parts_and_two_slots(tmp_path):
    saved(str(tmp_path / "model"), [[1, 5]], num_parts=2,
          make_optimizer=lambda step: optimizers.AdamOptimizer(0.1))  # fmt: skip
    names = {name for name, _ in tf.train.list_variables(str(tmp_path))}
    planes = [f"v/part_{i}{slot}" for i in range(2) for slot in ("", "/Adam", "/Adam_1")]
    tensors = {f"{plane}-{what}" for plane in planes for what in WHAT}
    seeds = {f"v/part_{i}-seed-versions" for i in range(2)}
    assert names == {"beta1_power", "beta2_power", "global_step", *tensors, *seeds}
    assert tf.train.load_variable(str(tmp_path), "v/part_1/Adam-keys").tolist() == [1, 5]
    assert tf.train.load_variable(str(tmp_path), "v/part_0-values").shape == (0, DIM)


def test_an_id_that_is_no_int32_is_not_saved_as_another(tmp_path, monkeypatch):
    """Lookups refuse it before: here they do not."""
    monkeypatch.setattr(EmbeddingVariable, "checked_ids", lambda self, ids: tf.cast(ids, tf.int64))
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="'v' has keys that do not fit in int32"
    ):
        saved(str(tmp_path / "model"), [[2**40]], key_dtype=tf.int32)


STOCK = {
    "GradientDescent": lambda step: optimizers.GradientDescentOptimizer(0.1),
    "Adagrad": lambda step: optimizers.AdagradOptimizer(0.1),
    "Momentum": lambda step: optimizers.MomentumOptimizer(0.1, 0.9),
    "Adam": lambda step: optimizers.AdamOptimizer(0.1),
    "Ftrl": lambda step: optimizers.FtrlOptimizer(0.1),
}
OWN = {name: lambda step, make=case[0]: make(step, False) for name, case in CASES.items()}
FIRST = [[1, 5, 7, -3], [1001, 5, 5], [7]]
LAST = [[5, 8], [1, 2**40, -3], [9, 1, 7], [8]]


def goes_on(path, num_parts, is_initialized=False, **options):
    """Rows of all keys after FIRST, which is restored, and LAST."""
    with tf.Graph().as_default(), tf1.Session() as session:
        model = Model(num_parts=num_parts, **options)
        if is_initialized:
            session.run(tf1.global_variables_initializer())
            model.train(session, [[100, 5], [2, 1]])
        model.saver.restore(session, path)
        model.train(session, LAST)
        return model.stored(session)


@pytest.mark.parametrize("case", {**STOCK, **OWN})
def test_training_goes_on_as_if_it_had_not_stopped(tmp_path, case):
    """In other parts, too."""
    path, make = str(tmp_path / "model"), {**STOCK, **OWN}[case]
    expected = saved(str(tmp_path / "all"), FIRST + LAST, make_optimizer=make)
    saved(path, FIRST, make_optimizer=make, num_parts=2)
    assert goes_on(path, None, make_optimizer=make) == expected
    assert goes_on(path, 3, is_initialized=True, make_optimizer=make) == expected


INITIALIZERS = {
    "stock": None,
    "run": lambda shape, dtype=None, partition_info=None: tf.random.uniform(shape),
    "seed": tf1.random_uniform_initializer(seed=3),
    "row": [0.5, 1.0, 2.0],
}


@pytest.mark.parametrize("kind", INITIALIZERS)
@pytest.mark.parametrize("num_parts", [None, 1, 3])
def test_later_keys_start_as_they_would_have(tmp_path, num_parts, kind):
    """Also where the script that goes on has another seed: the checkpoint keeps it, and default
    rows that were drawn."""
    path = str(tmp_path / "model")
    option = EmbeddingVariableOption(init_option=InitializerOption(default_value_dim=50))
    options = dict(initializer=INITIALIZERS[kind], ev_option=option)
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.set_random_seed(1)
        model = Model(num_parts=2, **options)
        session.run(tf1.global_variables_initializer())
        model.train(session, [[3, 4]])
        model.saver.save(session, path)
        expected = model.read(session, np.arange(-20, 80))
    drawn = [name for name, _ in tf.train.list_variables(path) if name == "v/default_rows"]
    assert len(drawn) == (kind != "stock")
    with tf.Graph().as_default(), tf1.Session() as session:
        tf1.set_random_seed(2)
        model = Model(num_parts=num_parts, saver=lambda: None, **options)
        session.run(tf1.global_variables_initializer())
        new_keys = np.arange(-20, 0)
        of_its_seed = model.read(session, new_keys)
        saver = tf1.train.Saver([model.variable])  # default rows come along
        saver.restore(session, path)
        assert np.any(model.read(session, new_keys) != of_its_seed) or kind == "row"
        np.testing.assert_array_equal(model.read(session, np.arange(-20, 80)), expected)


def test_other_names_and_a_used_variable(tmp_path):
    path = str(tmp_path / "model")

    def renamed():
        (variable,) = tf1.get_collection("embedding_variables")
        return tf1.train.Saver({"mine": variable, "other/slot": variable.slots[0]})

    rows = saved(path, FIRST, saver=renamed)
    names = {name for name, _ in tf.train.list_variables(path)}
    tensors = {f"{plane}-{what}" for plane in ("mine", "other/slot") for what in WHAT}
    assert names == {"mine-seed-versions", *tensors}
    with tf.Graph().as_default(), tf1.Session() as session:
        model = Model(saver=renamed)
        session.run(tf1.global_variables_initializer())
        model.train(session, [[5, 6]])
        model.saver.restore(session, path)
        assert model.stored(session) == rows


@pytest.mark.parametrize("make_list", [
    lambda variable: [variable], lambda variable: list(variable), lambda variable: {"v": variable},
])  # fmt: skip
def test_a_partitioned_variable_in_a_list(tmp_path, make_list):
    path = str(tmp_path / "model")
    rows = saved(path, FIRST)
    with tf.Graph().as_default(), tf1.Session() as session:
        model = Model(num_parts=2)
        tf1.train.Saver(make_list(model.variable)).restore(session, path)
        assert model.stored(session) == rows


@pytest.mark.parametrize("sharded", [True, False])
def test_options_of_savers(tmp_path, sharded):
    """Several checkpoints, of which the oldest go; moved to another folder."""
    (tmp_path / "before").mkdir()
    with tf.Graph().as_default(), tf1.Session() as session:
        options = dict(max_to_keep=2, save_relative_paths=True, sharded=sharded)
        model = Model(saver=lambda: tf1.train.Saver(**options))
        dense = tf1.get_variable("dense", [2])
        session.run(tf1.global_variables_initializer())
        for step in range(3):
            model.train(session, [[step]])
            model.saver.save(session, str(tmp_path / "before" / "model"), global_step=step)
        rows = model.stored(session)
        (tmp_path / "before").rename(tmp_path / "after")
        found = tf1.train.get_checkpoint_state(str(tmp_path / "after"))
        assert len(found.all_model_checkpoint_paths) == 2
        model.train(session, [[50, 1]])
        latest = tf1.train.latest_checkpoint(str(tmp_path / "after"))
        model.saver.restore(session, latest)
        assert model.stored(session) == rows and dense is not None


def test_an_imported_meta_graph(tmp_path):
    path = str(tmp_path / "model")
    with tf.Graph().as_default(), tf1.Session() as session:
        model = Model()
        model.rows = tf.identity(model.rows, "rows")
        session.run(tf1.global_variables_initializer())
        model.train(session, FIRST)
        model.saver.save(session, path)
        expected, name = model.read(session, [1, 5, 60]), model.ids.name
    with tf.Graph().as_default(), tf1.Session() as session:
        saver = tf1.train.import_meta_graph(f"{path}.meta")
        saver.restore(session, path)
        np.testing.assert_array_equal(session.run("rows:0", {name: [1, 5, 60]}), expected)


def test_what_is_recorded_of_keys(tmp_path, monkeypatch):
    """A variable that records something gives it to the saver, and gets it back."""
    path = str(tmp_path / "model")
    with tf.Graph().as_default(), tf1.Session() as session:
        option = EmbeddingVariableOption(filter_option=CounterFilter(2))
        model = Model(saver=lambda: None, ev_option=option)
        ran = tf1.Variable(0, name="ran", collections=[tf1.GraphKeys.LOCAL_VARIABLES])
        monkeypatch.setattr(model.variable, "before_save", lambda: ran.assign_add(1).op)
        history = [1005, 5, 6, 1003, 2, 3], [100500, 500, 600, 1, 2, 3], [10050, 50, 60, 7, 8, 9]
        record = model.variable.import_history(*(tf.constant(x, tf.int64) for x in history))
        saver = tf1.train.Saver()
        session.run([tf1.global_variables_initializer(), tf1.local_variables_initializer()])
        model.train(session, 2 * [[1005, 5, 6]])
        session.run(record)
        saver.save(session, path)
        assert session.run(ran) == 1
    load = functools.partial(tf.train.load_variable, path)
    for plane in ("v", "v/Adagrad"):
        assert load(f"{plane}-keys").tolist() == [5, 1005, 6]
        assert load(f"{plane}-versions").tolist() == [50, 10050, 60]
        assert load(f"{plane}-freqs").tolist() == [500, 100500, 600]
        assert load(f"{plane}-keys_filtered").tolist() == [2, 3, 1003]
        assert load(f"{plane}-freqs_filtered").tolist() == [2, 3, 1]
        offsets = load(f"{plane}-partition_filter_offset")
        assert offsets[[0, 2, 3, 4, 1000]].tolist() == [0, 0, 1, 3, 3]
    with tf.Graph().as_default(), tf1.Session() as session:
        model = Model(num_parts=2, saver=lambda: None, ev_option=option)
        part = model.parts[1]
        found = part.key_history(tf.constant([5, 1005, 3], tf.int64)), part.waiting_keys()
        tf1.train.Saver().restore(session, path)
        (freqs, versions), waiting = session.run(found)
        assert freqs.tolist() == [500, 100500, 3] and versions.tolist() == [50, 10050, 9]
        assert sorted(zip(*waiting)) == [(3, 3, 9), (1003, 1, 7)]


@pytest.mark.parametrize("number", [1, 2])
def test_some_parts_only(tmp_path, number):
    """Of three; also into another number of them."""
    path, keys = str(tmp_path / "model"), [0, 1, 2, 3, 4, 5, 998]
    chosen = [0, 2] if number == 2 else [1]

    def some():
        parts = tf1.get_collection("embedding_variables")
        return tf1.train.Saver([parts[i] for i in chosen])

    rows = saved(path, [keys], num_parts=3, saver=some)
    with tf.Graph().as_default(), tf1.Session() as session:
        model = Model(num_parts=3, saver=some)
        session.run(tf1.global_variables_initializer())
        model.saver.restore(session, path)
        expected = {key: rows[key] for key in keys if key % 1000 % 3 in chosen}
        assert expected and model.stored(session) == expected
    for num_parts in (None, 2):
        with tf.Graph().as_default(), tf1.Session() as session:
            model = Model(num_parts=num_parts, saver=lambda: None)
            tf1.train.Saver(model.parts).restore(session, path)
            assert model.stored(session) == expected


@pytest.mark.parametrize("num_parts", [None, 2])
def test_another_optimizer_goes_on_from_the_rows(tmp_path, num_parts):
    """Only slots that the saver is not given may be missing."""
    path = str(tmp_path / "model")
    rows = saved(path, FIRST)
    adam = lambda step: optimizers.AdamOptimizer(0.1)  # noqa: E731
    with tf.Graph().as_default(), tf1.Session() as session:
        model = Model(adam, num_parts, saver=lambda: None)
        session.run(tf1.global_variables_initializer())
        model.train(session, [[5, 6]])
        tf1.train.Saver(model.parts).restore(session, path)
        assert model.stored(session) == rows
        for slot in (slot for part in model.parts for slot in part.slots):
            assert (session.run(slot.read_value()) == 0).all()
        model.train(session, [[5, 6]])
        if num_parts is None:
            saver = tf1.train.Saver([model.parts[0], model.parts[0].slots[1]])
            with pytest.raises(tf.errors.NotFoundError, match="no tensor v/Adam_1-keys"):
                saver.restore(session, path)


@pytest.mark.parametrize("saved_parts, num_parts", [(2, 2), (2, None), (2, 3), (None, 2)])
def test_a_new_name_of_the_variable_alone(tmp_path, saved_parts, num_parts):
    path = str(tmp_path / "model")

    def renamed():
        parts = tf1.get_collection("embedding_variables")
        if parts[0].storage.part is None:
            return tf1.train.Saver({"new": parts[0]})
        return tf1.train.Saver({f"new{part.storage.part.suffix}": part for part in parts})

    expected = saved(str(tmp_path / "all"), FIRST + LAST)
    saved(path, FIRST, num_parts=saved_parts, saver=renamed)
    names = {name for name, _ in tf.train.list_variables(path)}
    assert {"v/part_1/Adagrad-keys", "new/part_1-keys"} <= names or not saved_parts
    assert goes_on(path, num_parts, is_initialized=True, saver=renamed) == expected


@pytest.mark.parametrize("saved_parts, num_parts", [(2, 3), (2, None), (None, 2)])
def test_slots_and_scalars_in_a_variable_scope(tmp_path, saved_parts, num_parts):
    """Of other parts; DeepRec's scalars are vectors of one number."""
    path = str(tmp_path / "model")

    class InScope(optimizers.AdamAsyncOptimizer):
        def minimize(self, *args, **kwargs):
            with tf1.variable_scope("train"):
                return super().minimize(*args, **kwargs)

    make = dict(make_optimizer=lambda step: InScope(0.1))
    expected = saved(str(tmp_path / "all"), FIRST + LAST, **make)
    saved(path, FIRST, num_parts=saved_parts, **make)
    part = "/part_0" if saved_parts else ""
    shapes = dict(tf.train.list_variables(path))
    assert shapes[f"train/v{part}/AdamAsync_2"] == shapes[f"train/v{part}/AdamAsync_3"] == [1]
    assert goes_on(path, num_parts, **make) == expected


def test_what_is_no_v1_checkpoint():
    message = "write_version=V1.*leave write_version out"
    with tf.Graph().as_default(), pytest.raises(NotImplementedError, match=message):
        Model(saver=lambda: tf1.train.Saver(write_version=tf1.train.SaverDef.V1))


def test_another_number_of_default_rows(tmp_path):
    path = str(tmp_path / "model")

    def options(num_rows):
        init = InitializerOption(default_value_dim=num_rows)
        return dict(
            initializer=INITIALIZERS["run"], ev_option=EmbeddingVariableOption(init_option=init)
        )

    saved(path, FIRST, **options(50))
    message = r"v/default_rows in.* has the shape \[50,3\], not \[60,3\]: make v/default_rows as it"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        goes_on(path, None, **options(60))
