# SPDX-License-Identifier: Apache-2.0
"""SavedModels of launched scripts whose columns have ordinary variables: TensorFlow alone loads
them, and gives what the script gave."""

import json

import numpy as np
import pytest
import tensorflow as tf

from tests.support.cases.thorough import thorough_but
from tests.support.processes.subprocess_python import run_python

WORDS = [["a", ""], ["", ""], ["b", "a"], ["longer than 22 bytes in place", "b"]]
IDS = [[1, -1], [-5, 7], [7, 7], [-1, -1]]
MODEL = f"""
    import json, sys
    import sok_compat.deeprec as tf

    folder, words, ids = {{folder!r}}, {WORDS}, {IDS}

    def layer_of(features):
        make = tf.feature_column.categorical_column_with_hash_bucket
        kinds = [make("words", 10), make("ids", 10, tf.int64)]
        columns = [
            tf.feature_column.embedding_column(kind, 3, combiner)
            for kind, combiner in zip(kinds, ["mean", "sum"])
        ]
        return tf.feature_column.input_layer(features, columns)
"""
OF_A_SESSION = """
    types = {"words": tf.string, "ids": tf.int64}
    features = {name: tf.placeholder(dtype, [None, 2]) for name, dtype in types.items()}
    layer = layer_of(features)
    step = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(layer**2))
    feeds = {features["words"]: words, features["ids"]: ids}
    signature = tf.saved_model.signature_def_utils.predict_signature_def(features, {"layer": layer})
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(step, feeds)
        tf.saved_model.simple_save(session, f"{folder}/simple", features, {"layer": layer})
        builder = tf.saved_model.builder.SavedModelBuilder(f"{folder}/builder")
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature})
        builder.save(as_text=True)
        expected = session.run(layer, feeds)
        # What the exported graph computes of gradients, too.
        session.run(step, feeds)
        print(json.dumps([expected.tolist(), session.run(layer, feeds).tolist(), step.name,
                          layer.name, {key: tensor.name for key, tensor in features.items()}]))
"""
OF_AN_ESTIMATOR = """
    def model_fn(features, labels, mode):
        layer = layer_of(features)
        step = tf.train.get_or_create_global_step()
        loss = tf.reduce_sum(layer**2)
        is_trained = mode == tf.estimator.ModeKeys.TRAIN
        train = tf.train.AdamAsyncOptimizer(0.1).minimize(loss, step) if is_trained else None
        return tf.estimator.EstimatorSpec(mode, {"layer": layer}, loss, train)

    def input_fn():
        given = {"words": tf.constant(words), "ids": tf.constant(ids, tf.int64)}
        return tf.data.Dataset.from_tensors((given, 0)).repeat(2)

    estimator = tf.estimator.Estimator(model_fn, f"{folder}/model")
    estimator.train(input_fn)
    types = {"words": tf.string, "ids": tf.int64}
    features = {name: tf.placeholder(dtype, [None, 2]) for name, dtype in types.items()}
    receiver = tf.estimator.export.build_raw_serving_input_receiver_fn(features)
    path = estimator.export_saved_model(f"{folder}/estimator", receiver)
    expected = [each["layer"].tolist() for each in estimator.predict(input_fn)][:len(words)]
    print(json.dumps([expected, path.decode()]))
"""
LOADED = f"""
    import json, sys
    import tensorflow as tf

    model = tf.saved_model.load({{path!r}}).signatures["serving_default"]
    found = model(words=tf.constant({WORDS}), ids=tf.constant({IDS}, tf.int64))["layer"]
    assert not any(name.startswith("sok_compat") for name in sys.modules)
    print(json.dumps(found.numpy().tolist()))
"""
TRAINED_ON = f"""
    import json
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default(), tf.Session() as session:
        tf.saved_model.load(session, ["serve"], {{path!r}})
        feeds = {{{{{{words!r}}: {WORDS}, {{ids!r}}: {IDS}}}}}
        session.run({{step!r}}, feeds)
        print(json.dumps(session.run({{layer!r}}, feeds).tolist()))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(tmp_path_factory.mktemp("models"))


def printed(code, is_fresh=False, **values):
    return json.loads(run_python(code.format(**values), is_fresh).splitlines()[-1])


def printed_by_tensorflow(code, **values):
    return printed(code, is_fresh=True, **values)


@pytest.fixture(scope="module")
def of_session(folder):
    return printed(MODEL + OF_A_SESSION.replace("{", "{{").replace("}", "}}"), folder=folder)


@pytest.mark.parametrize("name", thorough_but(1, ["simple", "builder"]))
def test_of_a_session(folder, of_session, name):
    expected, trained, step, layer, features = of_session
    path = f"{folder}/{name}"
    np.testing.assert_allclose(printed_by_tensorflow(LOADED, path=path), expected, atol=1e-6)
    names = dict(path=path, step=step, layer=layer, **features)
    np.testing.assert_allclose(printed_by_tensorflow(TRAINED_ON, **names), trained, atol=1e-6)


@pytest.mark.thorough
@pytest.mark.skipif(not hasattr(tf, "estimator"), reason="this TensorFlow has no tf.estimator")
def test_of_an_estimator(folder):
    code = MODEL + OF_AN_ESTIMATOR.replace("{", "{{").replace("}", "}}")
    expected, path = printed(code, folder=folder)
    np.testing.assert_allclose(printed_by_tensorflow(LOADED, path=path), expected, atol=1e-6)
