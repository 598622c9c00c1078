# SPDX-License-Identifier: Apache-2.0
"""Variables of SparseOperationKit 2 from a tf.train.Saver's checkpoint to a SavedModel."""

import numpy as np
import tensorflow as tf

from tests.support.sessions import initialized_session

tf1 = tf.compat.v1


def model(sok, ids):
    variables = [
        sok.DynamicVariable(2, "7", var_type="hbm", name="dynamic"),
        sok.Variable(np.eye(3, 2), mode="localized:0", name="static"),
    ]
    bags = tf.RaggedTensor.from_row_splits(ids, [0, 1, 3])
    return variables, sok.lookup_sparse(variables, [bags, bags], combiners="sum")


def test_a_saved_model_has_the_rows_and_inserts_none(sok, tmp_path):
    with tf.Graph().as_default():
        variables, outputs = model(sok, tf.constant([2, 1, 2], tf.int64))
        wrapper = sok.OptimizerWrapper(tf1.train.AdamOptimizer(0.5))
        train = wrapper.apply_gradients(zip(tf.gradients(outputs, variables), variables))
        saver = tf1.train.Saver()
        with initialized_session() as session:
            session.run(train)
            path = saver.save(session, str(tmp_path / "model"))

    def build():
        ids = tf1.placeholder(tf.int64, [3])
        dynamic, static = model(sok, ids)[1]
        return {"ids": ids}, {"dynamic": dynamic, "static": static}

    folder = sok.export_saved_model(tmp_path / "exported", build, path)
    serve = tf.saved_model.load(folder).signatures["serving_default"]
    for _ in range(2):
        served = serve(tf.constant([1, 2, 0], tf.int64))
        np.testing.assert_allclose(served["dynamic"], [[6.5, 6.5], [13.5, 13.5]], rtol=1e-5)
        np.testing.assert_allclose(served["static"], [[-0.5, 0.5], [0.5, -0.5]], atol=1e-5)
