# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of embedding variables in whole scripts: sessions that resume, estimators."""

import pytest

from sok_compat.runtime.tf_versions import VERSION
from tests.support.processes.subprocess_python import run_python

MODEL = """
import numpy as np
import sok_compat.deeprec as tf

FOLDER = {folder!r}
BATCHES = [[1, 5, 7], [5, 5, 2**40], [7, 8, -3], [1, 9, 5], [8, 2, 7], [3, 1, 9]]

def build(num_parts=None):
    partitioner = tf.fixed_size_partitioner(num_parts) if num_parts else None
    variable = tf.get_embedding_variable("v", 4, partitioner=partitioner)
    keys = tf.placeholder(tf.int64, [None])
    rows = tf.nn.embedding_lookup(variable, keys)
    hidden = tf.layers.dense(rows, 1, kernel_initializer=tf.ones_initializer())
    step = tf.train.get_or_create_global_step()
    train = tf.train.AdamAsyncOptimizer(0.1).minimize(tf.reduce_sum(tf.sin(hidden)), step)
    return keys, rows, train

def run(batches, num_parts=None, folder=FOLDER, **options):
    with tf.Graph().as_default():
        tf.set_random_seed(3)
        keys, rows, train = build(num_parts)
        with tf.train.MonitoredTrainingSession(
                checkpoint_dir=folder, save_checkpoint_steps=2, **options) as session:
            for batch in batches:
                session.run(train, {{keys: batch}})
            return session.run(rows, {{keys: range(-5, 12)}})
"""

SESSIONS = """
expected = run(BATCHES, folder=FOLDER + "/all")
run(BATCHES[:3])
assert sorted(tf.train.load_variable(FOLDER, "v-keys").tolist()) == [-3, 1, 5, 7, 8, 2**40]
assert tf.train.load_variable(FOLDER, "v/AdamAsync_1-values").shape == (6, 4)
np.testing.assert_array_equal(run(BATCHES[3:5], num_parts=3), run([]))  # saved when it ended
with tf.Graph().as_default():
    tf.set_random_seed(3)
    keys, rows, train = build(2)
    scaffold = tf.train.Scaffold(saver=tf.train.Saver(max_to_keep=1))
    hooks = [tf.train.CheckpointSaverHook(FOLDER + "/hook", save_steps=1, scaffold=scaffold)]
    creator = tf.train.ChiefSessionCreator(scaffold, checkpoint_dir=FOLDER)
    with tf.train.MonitoredSession(creator, hooks) as session:
        session.run(train, {keys: BATCHES[5]})
        np.testing.assert_array_equal(session.run(rows, {keys: range(-5, 12)}), expected)
folder = FOLDER + "/increments"  # one after each step, and whole ones in the place of some
run(BATCHES[:3], folder=folder, save_incremental_checkpoint_secs=1e-9)
assert tf.train.load_variable(folder + "/model.ckpt-1", "v.increment-keys").tolist() == [1, 5, 7]
assert tf.train.load_variable(folder, "v-keys").size == 6
assert tf.train.load_variable(FOLDER + "/hook", "v/part_1-keys").tolist() == [1, 3, 5, 7, 9, -3]
print("done")
"""

ESTIMATOR = """
def input_fn(batches=BATCHES):
    return tf.data.Dataset.from_tensor_slices(np.array(batches)).map(lambda keys: {"keys": keys})

def model_fn(features, mode):
    variable = tf.get_embedding_variable("v", 4)
    rows = tf.nn.embedding_lookup(variable, features["keys"])
    loss = tf.reduce_sum(tf.sin(rows))
    train = tf.train.AdagradOptimizer(0.1).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, {"rows": rows}, loss, train)

def rows(folder, *parts):
    config = tf.estimator.RunConfig(tf_random_seed=3)
    estimator = tf.estimator.Estimator(model_fn, folder, config)
    for batches in parts:
        estimator.train(lambda: input_fn(batches))
    found = estimator.predict(lambda: input_fn([[1, 5, 7, 60]]))
    assert np.isfinite(estimator.evaluate(input_fn)["loss"])
    return [each["rows"] for each in found]

at_once, in_parts = rows(FOLDER + "/a", BATCHES), rows(FOLDER + "/b", BATCHES[:2], BATCHES[2:])
np.testing.assert_array_equal(at_once, in_parts)
assert len(tf.train.load_variable(FOLDER + "/b", "v/Adagrad-keys")) == 9
print("done")
"""


@pytest.mark.thorough
@pytest.mark.parametrize("script", [
    SESSIONS,
    pytest.param(ESTIMATOR, marks=pytest.mark.skipif(VERSION >= (2, 16), reason="no estimators")),
], ids=["sessions", "estimator"])  # fmt: skip
def test_a_script(tmp_path, script):
    assert run_python(MODEL.format(folder=str(tmp_path)) + script).split()[-1] == "done"
