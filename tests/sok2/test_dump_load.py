# SPDX-License-Identifier: Apache-2.0
"""`dump`, `load` and `incremental_model_dump` of SparseOperationKit 2 in one process."""

import contextlib
import datetime
import fcntl
import itertools
import os
import struct
import tempfile
import threading
from concurrent import futures
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

import sok_compat as sok
from sok_compat.runtime.tf_versions import keras_of_layers as keras

tf1 = tf.compat.v1
newer, legacy = keras.optimizers, keras.optimizers.legacy
NOW = datetime.datetime.now(datetime.timezone.utc)


@pytest.fixture(autouse=True)
def initialized():
    keras.backend.clear_session()
    sok.init()
    yield
    keras.backend.clear_session()


def train(variables, optimizer, keys=(1, 3)):
    bags = [tf.RaggedTensor.from_row_lengths(tf.constant(keys, tf.int64), [1] * len(keys))]
    with tf.GradientTape() as tape:
        found = sok.lookup_sparse(variables, bags * len(variables))
        loss = tf.add_n([tf.reduce_sum(each) for each in found])
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))


def rows_of(variable):
    return {int(key): row.tolist() for key, row in zip(*(x.numpy() for x in variable.export()))}


OPTIMIZERS = {
    "SGD": (lambda: legacy.SGD(0.1, momentum=0.9), ["SGD-momentum"]),
    "Adamax": (lambda: legacy.Adamax(0.1), ["Adamax-m", "Adamax-v"]),
    "Adadelta": (lambda: legacy.Adadelta(0.1), ["Adadelta-accum_grad", "Adadelta-accum_var"]),
    "Adagrad": (lambda: legacy.Adagrad(0.1), ["Adagrad-accumulator"]),
    "Ftrl": (lambda: legacy.Ftrl(0.1), ["Ftrl-accumulator", "Ftrl-linear"]),
    "Adam": (lambda: legacy.Adam(0.1), ["Adam-m", "Adam-v"]),
    "tf.train": (lambda: tf1.train.AdagradOptimizer(0.1), ["Adagrad-accumulator"]),
    "newer SGD": (lambda: newer.SGD(0.1, momentum=0.9), ["SGD-momentum"]),
    "newer RMSprop": (lambda: newer.RMSprop(0.1, centered=True), ["RMSprop-rms", "RMSprop-mg"]),
    "newer Adamax": (lambda: newer.Adamax(0.1), ["Adamax-m", "Adamax-v"]),
    "newer Adadelta": (
        lambda: newer.Adadelta(0.1),
        ["Adadelta-accum_grad", "Adadelta-accum_var"],
    ),
    "newer Ftrl": (lambda: newer.Ftrl(0.1), ["Ftrl-accumulator", "Ftrl-linear"]),
    "newer Adam": (lambda: newer.Adam(0.1, amsgrad=True), ["Adam-m", "Adam-v", "Adam-vhat"]),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_slots_of_every_optimizer_go_on_where_they_were(tmp_path, name):
    """After a load into new variables with a new optimizer, a step does what it would have done."""
    make, files = OPTIMIZERS[name]

    def variables():
        ones = keras.initializers.Constant(1.0)
        static = sok.Variable(shape=(5, 2), initializer=ones, name="static")
        return [static, sok.DynamicVariable(2, "ones", name="dynamic")]

    first, optimizer = variables(), sok.OptimizerWrapper(make())
    with tf.name_scope("step"):
        train(first, optimizer)
    sok.dump(tmp_path, first, optimizer)
    for file in files:
        assert (tmp_path / f"static_0-{file}").exists() and (
            tmp_path / f"dynamic_0-{file}"
        ).exists()
    train(first, optimizer)
    expected = [rows_of(each) for each in first]
    keras.backend.clear_session()
    second, optimizer = variables(), sok.OptimizerWrapper(make())
    if optimizer.iterations is not None:  # SparseOperationKit's files do not have it
        optimizer.iterations.assign(1)
    sok.load(tmp_path, second, [optimizer])
    train(second, optimizer)
    for each, rows in zip(second, expected):
        for key in (1, 3):
            np.testing.assert_allclose(rows_of(each)[key], rows[key], rtol=1e-6)


def test_a_dump_takes_no_slots_but_those_of_its_optimizer(tmp_path):
    """Not those of an optimizer that the call does not name."""
    dynamic = sok.DynamicVariable(2, "ones", name="dynamic")
    optimizers = [sok.OptimizerWrapper(legacy.Adagrad(0.1)), sok.OptimizerWrapper(legacy.Adam(0.1))]
    for optimizer in optimizers:
        train([dynamic], optimizer)
    for folder, given, slots in [
        ("none", [], set()),
        ("one", optimizers[:1], {"Adagrad-accumulator"}),
        ("other", optimizers[1:], {"Adam-m", "Adam-v"}),
    ]:
        sok.dump(tmp_path / folder, dynamic, *given)
        names = {path.name.removeprefix("dynamic_0-") for path in (tmp_path / folder).iterdir()}
        assert {name for name in names if name[0] == "A"} == slots
        expected = rows_of(dynamic)
        train([dynamic], optimizers[0])
        sok.load(tmp_path / folder, dynamic)
        assert rows_of(dynamic) == expected


def test_slots_go_from_newer_optimizers_to_those_of_sparse_operation_kit(tmp_path):
    dynamic = sok.DynamicVariable(2, "ones", name="dynamic")
    train([dynamic], sok.OptimizerWrapper(newer.Adamax(0.1)))
    optimizer = newer.Adamax(0.1)  # whose slots have other names than those of the first
    train([dynamic], sok.OptimizerWrapper(optimizer))
    row_ids = tf.range(2)  # of the keys 1 and 3
    expected = [slot.sparse_read(row_ids).numpy() for slot in optimizer.variables[-2:]]
    sok.dump(tmp_path, dynamic, optimizer)
    other = legacy.Adamax(0.1)
    sok.load(tmp_path, dynamic, other)
    for name, rows in zip(("m", "v"), expected):
        assert rows.any()
        np.testing.assert_array_equal(other.get_slot(dynamic, name).sparse_read(row_ids), rows)


def test_files_of_sparse_operation_kit(tmp_path):
    """Without names and notes, static rows in the order of two ranks, Adamax saved as Adam."""

    def write(name, kind, array, dtype, slot=""):
        header = struct.pack(">256sI32sI", b" " * 256, kind, slot.rjust(32).encode(), dtype)
        (tmp_path / name).write_bytes(header + array.tobytes())

    keys = np.array([0, 2, 4, 1, 3])
    rows = keys.astype(np.float32)[:, np.newaxis] * [1, 10]
    write("static_0-key", 0, keys, 1)
    write("static_0-weight", 1, rows.astype(np.float32), 5)
    for slot in ("m", "v"):
        write(f"static_0-Adam-{slot}", 2, rows.astype(np.float32), 5, slot)
    ones = keras.initializers.Constant(1.0)
    static = sok.Variable(shape=(5, 2), initializer=ones, name="static")
    optimizer = legacy.Adamax(0.1)
    sok.load(tmp_path, static, optimizer)
    assert rows_of(static) == {key: [key, 10 * key] for key in range(5)}
    slot = optimizer.get_slot(static, "m")
    assert slot.sparse_read([3]).numpy().tolist() == [[3, 30]]


def test_temporary_files_are_not_needed(tmp_path, monkeypatch):
    """TMPDIR may be full, or not be there."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "missing"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    rows = np.float32([[1.0, 2.0], [3.0, 4.0]])
    variable = sok.Variable(rows, name="static")
    sok.dump(tmp_path / "dump", variable)
    variable.assign(np.zeros_like(rows))
    sok.load(tmp_path / "dump", variable)
    np.testing.assert_array_equal(variable, rows)
    assert os.listdir(tmp_path) == ["dump"]


@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_a_later_variable_of_the_same_name_loads_the_dump(tmp_path, kind):
    """As with tf.Variable, whose eager variables may have one name; so have files."""

    def made(initializer):
        if kind == "dynamic":
            return sok.DynamicVariable(2, initializer, name="dv")
        return sok.Variable(
            shape=(4, 2), initializer=keras.initializers.Constant(float(initializer)), name="dv"
        )

    with tf.name_scope("scope"):
        first, later = made("3"), made("0")
    sok.lookup_sparse(first, tf.ragged.constant([[1]], dtype=tf.int64), combiners=["sum"])
    sok.dump(tmp_path, first)
    assert "scope_dv_0-key" in os.listdir(tmp_path)
    sok.load(tmp_path, later)
    assert rows_of(later) == rows_of(first)
    with pytest.raises(ValueError, match="scope/dv:0 and scope/dv:0 would have the same files"):
        sok.dump(tmp_path, [first, later])


def test_a_graph_has_its_session(tmp_path):
    with tf.Graph().as_default(), tf1.Session() as session:
        variable = sok.DynamicVariable(2, "ones", name="dynamic")
        look_up, found = sok.all2all_dense_embedding(variable, [5, 6]), variable.export()[0]
        session.run(variable.initializer)
        session.run(look_up)
        session.graph.finalize()  # as a MonitoredTrainingSession does
        sok.dump(tmp_path, variable)
        session.run(variable.initializer)
        sok.load(tmp_path, variable, sess=session)
        assert session.run(found).tolist() == [5, 6]
        keys, rows = sok.incremental_model_dump(variable, NOW)
        assert keys[0].tolist() == [] and rows[0].shape == (0, 2)
        num_ops = len(session.graph.get_operations())  # which serve any folder
        sok.incremental_model_dump(variable, NOW)
        sok.dump(tmp_path / "other", variable)
        session.run(variable.initializer)
        sok.load(tmp_path / "other", variable)
        assert session.run(found).tolist() == [5, 6]
        assert len(session.graph.get_operations()) == num_ops and session.graph.finalized
    with tf.Graph().as_default(), pytest.raises(ValueError, match="in a graph needs a session"):
        sok.dump(tmp_path, sok.DynamicVariable(2))


def test_load_where_there_are_no_locks(tmp_path, monkeypatch):
    variable = sok.DynamicVariable(2, "ones", name="dynamic")
    sok.dump(tmp_path, variable)
    monkeypatch.setattr(fcntl, "flock", mock.Mock(side_effect=OSError("not implemented")))
    sok.load(tmp_path, variable)


def test_slots_of_an_optimizer_in_a_graph(tmp_path):
    """Nothing is made for an optimizer without its wrapper."""
    with tf.Graph().as_default(), tf1.Session() as session:
        variable, optimizer = sok.DynamicVariable(2, "ones", name="dynamic"), legacy.Adam(0.1)
        loss = sok.all2all_dense_embedding(variable, [5, 6])
        pairs = zip(tf.gradients(loss, [variable]), [variable])
        train = sok.OptimizerWrapper(optimizer).apply_gradients(pairs)
        session.run(tf1.global_variables_initializer())
        session.run(train)
        sok.dump(tmp_path, variable, optimizer)
        sok.load(tmp_path, variable, optimizer)
        assert (tmp_path / "dynamic_0-Adam-m").exists()
        assert session.run(tf1.report_uninitialized_variables()).tolist() == []


def test_keys_since_a_time_of_each_variable():
    variables = [sok.DynamicVariable(2, "ones", name=name) for name in ("a", "b")]
    for variable in variables:
        sok.all2all_dense_embedding(variable, [4, -3])
    later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    keys, rows = sok.incremental_dump(variables, [NOW, later])
    assert [each.tolist() for each in keys] == [[-3, 4], []]
    assert rows[0].tolist() == [[1.0, 1.0]] * 2


def test_wrong_arguments(tmp_path):
    static = sok.Variable(np.ones([3, 2], np.float32), name="static")
    dynamic, hbm = sok.DynamicVariable(2, name="dynamic"), sok.DynamicVariable(2, var_type="hbm")
    for call in (sok.dump, sok.load):
        with pytest.raises(TypeError, match="takes variables of sok.Variable and .*ResourceVar"):
            call(tmp_path, [static, tf.Variable([1.0])])
        with pytest.raises(ValueError, match="needs at least one variable"):
            call(tmp_path, [])
        with pytest.raises(ValueError, match="optimizer must be one optimizer, got 2"):
            call(tmp_path, static, [legacy.SGD(), legacy.SGD()])
    for optimizer in (legacy.Adam(), newer.Adam()):
        with pytest.raises(ValueError, match="has no slots of Adam yet"):
            train([dynamic], sok.OptimizerWrapper(optimizer))
            sok.dump(tmp_path, [dynamic, static], optimizer)
    with pytest.raises(TypeError, match="needs an optimizer of .* got builtins.str"):
        sok.dump(tmp_path, dynamic, "adam")
    similar = [sok.DynamicVariable(2, name=name) for name in ("a/b", "a_b")]
    with pytest.raises(ValueError, match="a/b:0 and a_b:0 would have the same files, a_b_0-"):
        sok.dump(tmp_path, similar)
    with pytest.raises(tf.errors.UnknownError, match=f"^{__file__} is not a directory$"):
        sok.dump(__file__, static)
    with pytest.raises(tf.errors.NotFoundError, match="^/.*none is no folder with dumped tables$"):
        sok.load(tmp_path / "none", static)
    with pytest.raises(tf.errors.NotFoundError, match="static_0-key is missing"):
        sok.load(tmp_path, static)
    sok.dump(tmp_path, static)
    other = sok.Variable(np.ones([4, 2], np.float32), name="static")
    keras.backend.clear_session()
    del other
    wide = sok.Variable(np.ones([3, 5], np.float32), name="static")
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="has rows of 2 numbers, but those of static:0 have 5"
    ):
        sok.load(tmp_path, wide)
    with pytest.raises(TypeError, match="needs sok.DynamicVariable of var_type='hybrid', got"):
        sok.incremental_dump([dynamic, hbm], NOW)
    with pytest.raises(TypeError, match="must be a datetime, got 3"):
        sok.incremental_dump(dynamic, 3)
    with pytest.raises(ValueError, match="must have a time zone"):
        sok.incremental_dump(dynamic, datetime.datetime(2026, 1, 1))
    with pytest.raises(ValueError, match="needs one time_threshold or 1, got 2"):
        sok.incremental_dump(dynamic, [NOW, NOW])
    with pytest.raises(TypeError, match="sparse_read_and_evict needs a sok.DynamicVariable of"):
        sok.sparse_read_and_evict(hbm, [1])


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_variables_are_loaded_from_one_dump(tmp_path, mode):
    """While another thread dumps into the folder."""
    done = threading.Event()

    def make():
        return [sok.DynamicVariable(2, name=name) for name in ("first", "second", "third")]

    def dump_on(variables):
        keys = tf.range(500, dtype=tf.int64)
        for number in itertools.count():
            for variable in variables:
                sok.assign(variable, keys, tf.fill([500, 2], float(number)))
            sok.dump(tmp_path, variables)
            dumped.set()
            if done.is_set():
                return

    def numbers_of(variables, session):
        sok.load(tmp_path, variables, sess=session)
        exported = [variable.export()[1] for variable in variables]
        return [np.unique(session.run(rows) if session else rows) for rows in exported]

    dumped = threading.Event()
    with futures.ThreadPoolExecutor(1) as pool:
        dumping = pool.submit(dump_on, make())
        dumped.wait()
        try:
            with contextlib.ExitStack() as stack:
                session = None
                if mode == "graph":
                    stack.enter_context(tf.Graph().as_default())
                    session = stack.enter_context(tf1.Session())
                variables = make()
                if session:
                    session.run(tf1.global_variables_initializer())
                for _ in range(40):
                    numbers = numbers_of(variables, session)
                    assert len(np.unique(np.concatenate(numbers))) == 1, numbers
        finally:
            done.set()
        dumping.result()
