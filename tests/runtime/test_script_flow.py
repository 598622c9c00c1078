# SPDX-License-Identifier: Apache-2.0
"""Scripts as SparseOperationKit's users write them, from Init to the dump."""

import numpy as np
import pytest
import tensorflow as tf

import sok_compat as sok
from sok_compat.runtime.tf_versions import keras_of_layers as keras
from tests.support.bags import random_bags, sparse_value
from tests.support.cases.thorough import thorough_but
from tests.support.saves.saved_table import assert_rows_equal
from tests.support.seeds import set_random_seed

BATCH, SLOTS, MAX_NNZ, NNZ = 16, 3, 4, 2
CATEGORIES = 50


def make_batch(rng):
    """Labels depend on the categories, so that there is something to learn."""
    bags = random_bags(rng, BATCH * SLOTS, MAX_NNZ, list(range(CATEGORIES)))
    dense = rng.integers(0, CATEGORIES, [BATCH, SLOTS, NNZ])
    labels = (dense.sum(axis=(1, 2)) % 2).astype(np.float32)[:, np.newaxis]
    return sparse_value(bags, MAX_NNZ), dense, labels


class Script:
    """Section 5 of the API's description: two layers, a dense part, two optimizers."""

    def __init__(self, folder, make_optimizer, needs_scope):
        self.sok_init = sok.Init(global_batch_size=BATCH, seed=1)
        self.sparse_keys = tf.compat.v1.sparse_placeholder(tf.int64, [None, MAX_NNZ])
        self.dense_keys = tf.compat.v1.placeholder(tf.int64, [None, SLOTS, NNZ])
        self.labels = tf.compat.v1.placeholder(tf.float32, [None, 1])
        sparse_layer = sok.DistributedEmbedding("Mean", 1000, 8, SLOTS, MAX_NNZ)
        dense_layer = sok.All2AllDenseEmbedding(1000, 4, SLOTS, NNZ)
        hidden = keras.layers.Dense(16, activation="relu")
        last = keras.layers.Dense(1)

        pooled = tf.reshape(sparse_layer(self.sparse_keys), [-1, SLOTS * 8])
        rows = tf.reshape(dense_layer(self.dense_keys), [-1, SLOTS * NNZ * 4])
        logits = last(hidden(tf.concat([pooled, rows], axis=1)))
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=self.labels, logits=logits)
        self.loss = tf.nn.compute_average_loss(losses, global_batch_size=BATCH)

        tables, others = sok.split_embedding_variable_from_others(
            tf.compat.v1.trainable_variables()
        )
        gradients = tf.compat.v1.gradients(
            self.loss, tables + others, colocate_gradients_with_ops=True
        )
        optimizer = make_optimizer()
        pairs = list(zip(gradients, tables + others))
        if needs_scope:
            with sok.OptimizerScope(tables):
                train_tables = optimizer.apply_gradients(pairs[: len(tables)])
        else:
            train_tables = optimizer.apply_gradients(pairs[: len(tables)])
        with tf.control_dependencies(gradients[: len(tables)]):
            train_others = tf.compat.v1.train.AdamOptimizer(0.01).apply_gradients(
                pairs[len(tables) :]
            )
        self.step = tf.group(train_tables, train_others)
        saver = sok.Saver()
        self.dump = [saver.dump_to_file(table, str(folder)) for table in tables]
        self.restore = []
        for table in tables:
            with tf.control_dependencies(self.restore):
                self.restore.append(saver.restore_from_file(table, str(folder)))
        self.exported = [table.export() for table in tables]
        self.init = tf.group(
            tf.compat.v1.global_variables_initializer(),
            tf.compat.v1.local_variables_initializer(),
            getattr(optimizer, "initializer", tf.no_op()),
        )

    def train(self, session, num_steps, seed=0):
        rng = np.random.default_rng(seed)
        batches = [make_batch(rng) for _ in range(4)]
        losses = []
        for step in range(num_steps):
            inputs = (self.sparse_keys, self.dense_keys, self.labels)
            feeds = dict(zip(inputs, batches[step % len(batches)]))
            losses.append(session.run([self.loss, self.step], feeds)[0])
        return losses

    def rows(self, session):
        return [dict(zip(keys.tolist(), rows)) for keys, rows in session.run(self.exported)]


OPTIMIZERS = {
    "plugin": (lambda: sok.optimizers.Adam(0.01), False),
    "sok-keras": (lambda: sok.tf.keras.optimizers.Adam(0.01), True),
    "lazy": (lambda: sok.tf.keras.optimizers.LazyAdamOptimizer(0.01), True),
    "stock": (lambda: tf.compat.v1.train.AdagradOptimizer(0.05), True),
}


@pytest.fixture(params=OPTIMIZERS.values(), ids=OPTIMIZERS)
def script(request, graph, tmp_path):
    return Script(tmp_path, *request.param)


def test_train_dump_restore(script, graph):
    graph.finalize()
    with tf.compat.v1.Session() as session:
        assert session.run(script.sok_init) == b"OK"
        session.run(script.init)
        losses = script.train(session, 60)
        assert losses[0] == pytest.approx(np.log(2), rel=0.05)
        assert max(losses[-4:]) < 0.5 * losses[0]
        assert session.run(script.dump) == [b"saved."] * 2
        rows = script.rows(session)
    with tf.compat.v1.Session() as session:
        session.run(script.sok_init)
        session.run(script.init)
        assert session.run(script.restore) == [b"restored."] * 2
        for restored, saved in zip(script.rows(session), rows):
            assert_rows_equal(restored, saved)
        assert np.all(np.isfinite(script.train(session, 4)))


def test_runs_with_the_same_seed_are_the_same(script):
    runs = []
    for _ in range(2):
        with tf.compat.v1.Session() as session:
            session.run(script.sok_init)
            session.run(script.init)
            dense = [v for v in tf.compat.v1.trainable_variables() if "dense" in v.name]
            assert len(dense) == 4
            for variable in dense:  # Keras seeds its own layers at random
                variable.load(np.full(variable.shape, 0.05, np.float32), session)
            runs.append((script.train(session, 8), script.rows(session)))
    np.testing.assert_array_equal(runs[0][0], runs[1][0])
    for first, second in zip(runs[0][1], runs[1][1]):
        assert_rows_equal(first, second)


def train_monitored(script, last_step, num_steps=20, hooks=(), **options):
    """Losses of a MonitoredTrainingSession, which initializes and finalizes by itself."""
    hooks = [tf.compat.v1.train.StopAtStepHook(last_step=last_step), *hooks]
    with tf.compat.v1.train.MonitoredTrainingSession(hooks=hooks, **options) as session:
        losses = script.train(session, num_steps)
        assert session.should_stop()
    return losses


@pytest.fixture
def counting_script(script):
    global_step = tf.compat.v1.train.get_or_create_global_step()
    script.step = tf.group(script.step, global_step.assign_add(1))
    return script


def test_monitored_training_session(counting_script):
    losses = train_monitored(counting_script, 20)
    assert np.mean(losses[-4:]) < np.mean(losses[:4])


@pytest.mark.parametrize("optimizer", thorough_but(1, OPTIMIZERS.values()), ids=OPTIMIZERS)
def test_monitored_session_resumes_from_its_checkpoint(optimizer, tmp_path):
    """As if it had not stopped: tables, slots, dense variables and the global step."""

    def run(last_step, **options):
        with tf.Graph().as_default():
            set_random_seed(3)
            script = Script(tmp_path, *optimizer)
            global_step = tf.compat.v1.train.get_or_create_global_step()
            script.step = tf.group(script.step, global_step.assign_add(1))
            ends = Ends(script)
            train_monitored(script, last_step, hooks=[ends], **options)
            return ends

    folder = str(tmp_path / "checkpoints")
    run(20, checkpoint_dir=folder)
    resumed, whole = run(40, checkpoint_dir=folder), run(40, num_steps=40)
    assert resumed.global_step == whole.global_step == 40
    for actual, expected in zip(resumed.rows, whole.rows):
        assert actual
        assert_rows_equal(actual, expected)
    names = [name for name, _ in tf.train.list_variables(folder)]
    assert "global_step" in names and any("dense" in name for name in names)
    assert {"EmbeddingVariable/keys", "EmbeddingVariable_1/rows"} <= set(names)


class Ends(tf.compat.v1.train.SessionRunHook):
    """Reads the tables when the session ends."""

    def __init__(self, script):
        self._script = script

    def end(self, session):
        self.rows = self._script.rows(session)
        self.global_step = session.run(tf.compat.v1.train.get_global_step())


def test_tf_saver_takes_the_other_variables(script, tmp_path):
    """Tables and their slots are left to sok.Saver."""
    _, others = sok.split_embedding_variable_from_others(tf.compat.v1.trainable_variables())
    saver = tf.compat.v1.train.Saver(others)
    with tf.compat.v1.Session() as session:
        session.run(script.init)
        script.train(session, 3)
        before = session.run(others)
        path = saver.save(session, str(tmp_path / "model"))
        script.train(session, 3)
        saver.restore(session, path)
        for actual, expected in zip(session.run(others), before):
            np.testing.assert_array_equal(actual, expected)
