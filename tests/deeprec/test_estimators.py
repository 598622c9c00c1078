# SPDX-License-Identifier: Apache-2.0
"""Estimators of the strategy 'collective' in one process."""

import pytest
import tensorflow.compat.v1 as tf

from sok_compat.deeprec.collective.estimators_of_ranks import make_estimator


@pytest.mark.skipif(not hasattr(tf, "estimator"), reason="no tf.estimator in this TensorFlow")
@pytest.mark.parametrize("interval, evaluated", [(None, 0), (1, 1)])
def test_estimators_evaluate_only_if_asked_to(tmp_path, interval, evaluated):
    modes = []

    def model_fn(features, labels, mode):
        modes.append(mode)
        loss = tf.reduce_mean(features * tf.get_variable("w", [], tf.float32))
        step = tf.train.get_or_create_global_step()
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step.assign_add(1))

    def input_fn():
        return tf.data.Dataset.from_tensors((tf.ones([2]), tf.ones([2])))

    estimator, history = make_estimator(model_fn, str(tmp_path)), []
    metrics = estimator.train_and_evaluate(
        tf.estimator.TrainSpec(input_fn, max_steps=1),
        tf.estimator.EvalSpec(input_fn),
        eval_every_n_iter=interval,
        eval_history=history,
    )
    assert modes.count("eval") == len(history) == evaluated and modes.count("train") == 1
    assert metrics is (history[-1] if evaluated else None)
