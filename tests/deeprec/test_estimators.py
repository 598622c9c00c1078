# SPDX-License-Identifier: Apache-2.0
"""Estimators of the strategy 'collective' in one process."""

import pytest
import tensorflow.compat.v1 as tf

from sok_compat.deeprec.collective.estimators_of_ranks import make_estimator
from sok_compat.deeprec.namespace.names import value_of
from tests.support.processes.subprocess_python import run_python


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


@pytest.mark.skipif(not hasattr(tf, "estimator"), reason="no tf.estimator in this TensorFlow")
@pytest.mark.parametrize("name, argument", [
    ("DNNClassifier", "dtype"), ("DNNLinearCombinedClassifier", "dnn_dtype"),
])  # fmt: skip
def test_hidden_layers_of_another_dtype_are_float32_and_say_so(tmp_path, caplog, name, argument):
    make = value_of(f"estimator.{name}")
    prefix = "dnn_" if argument == "dnn_dtype" else ""
    columns = {f"{prefix}feature_columns": [tf.feature_column.numeric_column("x")]}
    hidden = {f"{prefix}hidden_units": [2]}
    estimator = make(model_dir=str(tmp_path), **columns, **hidden, **{argument: tf.bfloat16})
    estimator.train(lambda: ({"x": tf.ones([2, 1])}, tf.zeros([2, 1], tf.int64)), steps=1)
    assert estimator.get_variable_value("dnn/hiddenlayer_0/kernel").dtype == "float32"
    make(**columns, **hidden, **{argument: tf.float32})
    (warning,) = (each for each in caplog.records if each.name == "sok_compat")
    expected = f"{name}: {argument}=bfloat16 has no effect, the hidden layers are float32"
    assert warning.getMessage() == expected


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(tf, "estimator"), reason="no tf.estimator in this TensorFlow")
def test_the_estimator_of_scripts_is_made_when_it_is_taken():
    code = """
        import sys
        import sok_compat.deeprec as tf

        assert tf.train.Saver and "tensorflow_estimator" not in sys.modules
        from tensorflow.compat.v1 import estimator as of_tensorflow
        assert tf.estimator.RunConfig is of_tensorflow.RunConfig
        assert "Estimator" in dir(tf.estimator)
        assert issubclass(tf.estimator.Estimator, of_tensorflow.Estimator)
        assert tf.estimator.Estimator is tf.estimator.Estimator
        plain = of_tensorflow.Estimator(lambda features: None)
        assert isinstance(plain, tf.estimator.Estimator)
        assert not isinstance(plain, type("Of", (tf.estimator.Estimator,), {}))
        assert issubclass(tf.estimator.LinearClassifier, of_tensorflow.LinearClassifier)
        canned = of_tensorflow.LinearClassifier([])
        assert isinstance(canned, tf.estimator.LinearClassifier)
        assert isinstance(canned, tf.estimator.Estimator)
        assert not isinstance(canned, tf.estimator.DNNClassifier)
        print("done")
    """
    printed = run_python(code, is_fresh=True)
    assert printed.split()[-1] == "done"
