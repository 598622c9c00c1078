# SPDX-License-Identifier: Apache-2.0
"""What a checkpoint has of steps that run while it is saved."""

import contextlib
import os
import threading
from concurrent import futures

import numpy as np
import pytest
import tensorflow as tf

from sok_compat.runtime.tf_versions import keras_of_layers as keras
from tests.support.sessions import initialized_session

tf1 = tf.compat.v1
NUM_KEYS, FIRST = 500, 0.5
WAIT = 100  # seconds, for what is sure to come
NOT_ENDED = "after 0.5 s, SOK_STALL_TIMEOUT_SECONDS: the step that began with lookup '.*FindRows'"


def make_layers(sok):
    return [sok.All2AllDenseEmbedding(NUM_KEYS, 4, 1, 1, dynamic_input=True) for _ in range(2)]


class Model:
    """Two tables; each step adds 1 to the slots of both, in all rows. In a step that is to pause,
    rows have been found, and nothing has been updated, when it does; then a function that it calls
    looks up."""

    def __init__(self, sok):
        layers = make_layers(sok)
        self.tables = [layer.embedding_variable for layer in layers]
        self.pauses = tf1.placeholder_with_default(False, [])
        self.paused, self.go_on = threading.Event(), threading.Event()
        keys = tf.range(NUM_KEYS, dtype=tf.int64)
        rows = [layer(keys) for layer in layers]
        paused = tf.cond(
            self.pauses,
            lambda: tf.ensure_shape(tf.numpy_function(self._pause, [rows[0][0]], tf.float32), []),
            lambda: tf.constant(1.0),
        )
        look_up = tf.function(layers[0], experimental_attributes={"_noinline": True})
        with tf.control_dependencies([paused]):
            factor = paused + 0 * tf.stop_gradient(look_up(tf.identity(keys))[0, 0])
        optimizer = tf1.train.AdagradOptimizer(0.1, initial_accumulator_value=FIRST)
        with sok.OptimizerScope(self.tables):
            self.step = optimizer.minimize(factor * tf.reduce_sum(rows), var_list=self.tables)
        self.saver = tf1.train.Saver()

    def _pause(self, _):
        self.paused.set()
        assert self.go_on.wait(WAIT)
        return np.float32(1)

    @contextlib.contextmanager
    def paused_step(self, session, pool):
        """A step that has begun, and goes on when the context ends."""
        step = pool.submit(session.run, self.step, {self.pauses: True})
        try:
            assert self.paused.wait(WAIT)
            yield
        finally:
            self.go_on.set()
        step.result()

    def save(self, session, path):
        """Its path; for any thread."""
        with session.graph.as_default():
            return self.saver.save(session, str(path))

    def restore(self, session, path):
        """For any thread."""
        with session.graph.as_default():
            self.saver.restore(session, path)

    def steps_in(self, path):
        """How many steps the rows of a checkpoint have seen, each number once."""
        reader = tf.train.load_checkpoint(path)
        slots = [reader.get_tensor(f"{table.table_name}/Adagrad") for table in self.tables]
        return np.unique(np.concatenate(slots) - FIRST).tolist()


@pytest.fixture
def model(sok):
    return Model(sok)


@pytest.fixture
def pool():
    with futures.ThreadPoolExecutor() as threads:
        yield threads


def run_until_blocked(session, step):
    """Runs steps until one is blocked, which its time limit ends; how many have run."""
    options = tf1.RunOptions(timeout_in_ms=3000)  # far more than one that runs takes
    for num_steps in range(10**6):
        try:
            session.run(step, options=options)
        except tf.errors.DeadlineExceededError:
            return num_steps


def test_a_step_that_has_begun_is_waited_for_and_others_are_not(model, pool, tmp_path):
    with initialized_session() as session:
        with model.paused_step(session, pool):
            saving = pool.submit(model.save, session, tmp_path / "model")
            num_before = run_until_blocked(session, model.step)
        assert model.steps_in(saving.result()) == [num_before + 1]
        session.run(model.step)
        path = model.save(session, tmp_path / "later")
        assert model.steps_in(path) == [num_before + 2]


def test_a_restore_is_one_moment(model, pool, tmp_path):
    """A step that has begun ends first; others do not come between two tables."""
    with initialized_session() as session:
        session.run(model.step)
        path = model.save(session, tmp_path / "model")
        with model.paused_step(session, pool):
            restoring = pool.submit(model.restore, session, path)
            run_until_blocked(session, model.step)
            assert not restoring.done()
        restoring.result()
        assert model.steps_in(model.save(session, tmp_path / "restored")) == [1]


def test_two_saves_at_once(model, pool, tmp_path):
    with initialized_session() as session:
        with model.paused_step(session, pool):
            savings = [pool.submit(model.save, session, tmp_path / name / "model") for name in "ab"]
            num_before = run_until_blocked(session, model.step)
        steps = [model.steps_in(saving.result()) for saving in savings]
        assert steps == [[num_before + 1]] * 2
        session.run(model.step)
        assert model.steps_in(model.save(session, tmp_path / "model")) == [num_before + 2]


def test_a_save_that_ends_early_lets_steps_go_on(model, pool, tmp_path):
    """Its time is over while it waits for a step; and it fails to write."""
    save_op = model.saver.saver_def.save_tensor_name
    name = {model.saver.saver_def.filename_tensor_name: str(tmp_path / "model")}
    with initialized_session() as session:
        with model.paused_step(session, pool), pytest.raises(tf.errors.DeadlineExceededError):
            session.run(save_op, name, options=tf1.RunOptions(timeout_in_ms=200))
        with pytest.raises(tf.errors.OpError):
            model.save(session, "/dev/null/model")
        session.run(model.step)
        assert model.steps_in(model.save(session, tmp_path / "model")) == [2.0]


def test_a_step_that_does_not_end(sok, pool, tmp_path, monkeypatch):
    """The save fails, the checkpoint before stays, and the blocked steps go on."""
    monkeypatch.setenv("SOK_STALL_TIMEOUT_SECONDS", "0.5")
    model = Model(sok)
    with initialized_session() as session:
        session.run(model.step)
        before = model.save(session, tmp_path / "before")
        files = sorted(os.listdir(tmp_path))
        with model.paused_step(session, pool):
            saving = pool.submit(model.save, session, tmp_path / "torn")
            with pytest.raises(tf.errors.DeadlineExceededError, match=NOT_ENDED):
                saving.result()
            session.run(model.step)
        assert sorted(os.listdir(tmp_path)) == files
        assert tf.train.latest_checkpoint(str(tmp_path)) == before
        assert model.steps_in(model.save(session, tmp_path / "after")) == [3.0]
        with session.graph.as_default():
            model.saver.restore(session, before)
        session.run(model.step)
        assert model.steps_in(model.save(session, tmp_path / "again")) == [2.0]


def test_a_step_that_saves_does_not_wait_for_itself(model, tmp_path):
    save_op = model.saver.saver_def.save_tensor_name
    name = {model.saver.saver_def.filename_tensor_name: str(tmp_path / "model")}
    with initialized_session() as session:
        for _ in range(3):
            session.run([model.step, save_op], name)
        assert model.steps_in(model.save(session, tmp_path / "model")) == [3.0]


def test_functions_in_eager_mode(pool, tmp_path):
    import sok_compat as sok

    sok.Init(global_batch_size=8, seed=7)
    layers = make_layers(sok)
    tables = [layer.embedding_variable for layer in layers]
    dense = tf.Variable([0.0])
    optimizer = keras.optimizers.Adagrad(0.1, initial_accumulator_value=FIRST)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            rows = [layer(tf.range(NUM_KEYS, dtype=tf.int64)) for layer in layers]
            loss = tf.reduce_sum(rows)
        optimizer.apply_gradients(zip(tape.gradient(loss, tables), tables))
        with tf.control_dependencies(rows):
            dense.assign_add([1.0])

    step()
    checkpoint = tf.train.Checkpoint(tables=tables, dense=dense, optimizer=optimizer)
    done, stepped = threading.Event(), threading.Event()

    def train():
        while not done.is_set():
            step()
            stepped.set()

    training, paths = pool.submit(train), []
    try:
        for number in range(8):
            stepped.clear()
            assert stepped.wait(WAIT)
            paths.append(checkpoint.write(str(tmp_path / str(number))))
    finally:
        done.set()
    training.result()
    steps = []
    for path in paths:
        reader = tf.train.load_checkpoint(path)
        slots = [name for name in reader.get_variable_to_shape_map() if "/slots/" in name]
        assert len(slots) == 2
        seen = np.unique(np.concatenate([reader.get_tensor(name) - FIRST for name in slots]))
        assert seen.tolist() == reader.get_tensor("dense/.ATTRIBUTES/VARIABLE_VALUE").tolist()
        steps += seen.tolist()
    assert steps == sorted(set(steps))
