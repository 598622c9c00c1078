# SPDX-License-Identifier: Apache-2.0
"""tf.estimator with tables in its model_fn: train, stop, resume, evaluate, predict."""

import numpy as np
import pytest
import tensorflow as tf

import sok_compat as sok
from tests.support.cases.thorough import thorough_but

tf1 = tf.compat.v1
pytestmark = pytest.mark.skipif(
    not hasattr(tf, "estimator"), reason="this TensorFlow has no estimator"
)

BATCH, SLOTS, NUM_BATCHES = 8, 2, 4
KEYS = np.random.default_rng(0).integers(-20, 20, [NUM_BATCHES * BATCH, SLOTS, 1]) * 10**12
LABELS = (KEYS.sum(axis=(1, 2)) > 0).astype(np.float32)


def input_fn(repeat=True):
    """The same batches in the same order, again and again."""
    data = tf.data.Dataset.from_tensor_slices(({"keys": KEYS}, LABELS)).batch(BATCH)
    return data.repeat() if repeat else data


def model_fn(features, labels, mode, params):
    sok.Init(global_batch_size=BATCH, seed=4)
    layer = sok.All2AllDenseEmbedding(1000, 4, SLOTS, 1, use_hashtable=True)
    training = mode == tf.estimator.ModeKeys.TRAIN
    rows = tf.reshape(layer(features["keys"], training=training), [-1, SLOTS * 4])
    weights = tf1.get_variable("weights", [SLOTS * 4, 1], initializer=tf1.ones_initializer())
    logits = tf.squeeze(rows @ weights, axis=1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"logits": logits})
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    if mode == tf.estimator.ModeKeys.EVAL:
        accuracy = tf1.metrics.accuracy(labels > 0.5, logits > 0)
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={"accuracy": accuracy})
    tables, others = sok.split_embedding_variable_from_others(tf1.trainable_variables())
    gradients = tf.gradients(loss, tables + others)
    with sok.OptimizerScope(tables):
        train_tables = params["make"]().apply_gradients(zip(gradients, tables))
    train_others = tf1.train.AdamOptimizer(0.01).apply_gradients(
        zip(gradients[1:], others), global_step=tf1.train.get_global_step()
    )
    train_op = tf.group(train_tables, train_others)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


OPTIMIZERS = {
    "Adagrad": lambda: tf1.train.AdagradOptimizer(0.5),
    "LazyAdam": lambda: sok.tf.keras.optimizers.LazyAdamOptimizer(0.1),
    "plugin": lambda: sok.optimizers.Adam(0.1),
}


@pytest.mark.parametrize("make", thorough_but(1, OPTIMIZERS.values()), ids=OPTIMIZERS)
def test_train_stop_resume_evaluate_predict(make, tmp_path):
    def make_estimator(name):
        config = tf.estimator.RunConfig(str(tmp_path / name), save_checkpoints_steps=8)
        return tf.estimator.Estimator(model_fn, config=config, params={"make": make})

    def logits(trained):
        predictions = trained.predict(lambda: input_fn(repeat=False))
        return np.array([prediction["logits"] for prediction in predictions])

    whole = make_estimator("whole").train(input_fn, max_steps=40)
    make_estimator("stopped").train(input_fn, max_steps=20)
    halfway = make_estimator("stopped").evaluate(lambda: input_fn(repeat=False))
    resumed = make_estimator("stopped").train(input_fn, max_steps=40)
    np.testing.assert_array_equal(logits(resumed), logits(whole))
    result = resumed.evaluate(lambda: input_fn(repeat=False))
    assert result["global_step"] == 40
    assert result["accuracy"] > 0.9
    assert result["loss"] < halfway["loss"]
    keys = resumed.get_variable_value("EmbeddingVariable/keys")
    assert set(keys) == set(KEYS.flat)
