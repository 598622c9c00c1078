# SPDX-License-Identifier: Apache-2.0
"""Scripts that begin with tf.compat.v1.disable_v2_behavior(), in a process of their own."""

import pytest

from tests.support.cases.thorough import thorough_but
from tests.support.processes.subprocess_python import run_python

SCRIPT = """
    import os
    import importlib.util
    if importlib.util.find_spec("tf_keras"):  # TensorFlow 2.16 and later: tf.layers is Keras 2
        os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import numpy as np
    IMPORT
    tf.disable_v2_behavior()
    import sok_compat as sok

    sok.Init(global_batch_size=4, seed=2)
    dense_keys = tf.placeholder(tf.int64, [None, 2, 1])
    sparse_keys = tf.sparse_placeholder(tf.int64, [None, 2])
    dense = sok.All2AllDenseEmbedding(100, 4, 2, 1)(dense_keys)
    sparse = sok.DistributedEmbedding("mean", 100, 4, 2, 2)(sparse_keys)
    print(dense.dtype.name, sparse.dtype.name)
    features = tf.concat([tf.reshape(dense, [-1, 8]), tf.reshape(sparse, [-1, 8])], axis=1)
    loss = tf.reduce_mean(tf.squared_difference(tf.layers.dense(features, 1), 1.0))
    tables, others = sok.split_embedding_variable_from_others(tf.trainable_variables())
    gradients = tf.gradients(loss, tables + others)
    with sok.OptimizerScope(tables):
        train = [tf.train.AdagradOptimizer(0.1).apply_gradients(zip(gradients, tables))]
    with tf.control_dependencies(train):  # which read what is a reference variable here
        train.append(tf.train.AdamOptimizer(0.01).apply_gradients(zip(gradients[2:], others)))
    exported = [table.export() for table in tables]
    saver = tf.train.Saver()
    init = tf.global_variables_initializer()
    feed = {
        dense_keys: np.arange(8).reshape(4, 2, 1),
        sparse_keys: ([[0, 0], [3, 1], [7, 0]], [5, 6, 5], [8, 2]),
    }
    with tf.Session() as session:
        session.run(init)
        losses = [session.run([loss, train], feed)[0] for _ in range(20)]
        print(losses[-1] < 0.5 * losses[0])
        saver.save(session, "FOLDER/model")
        session.run(train, feed)
        after = session.run(exported)
    with tf.Session() as session:
        saver.restore(session, "FOLDER/model")
        session.run(train, feed)
        print(all(np.array_equal(*pair) for pair in zip(
            sum(map(list, after), []), sum(map(list, session.run(exported)), []))))
"""


IMPORTS = {
    "compat.v1": "import tensorflow.compat.v1 as tf",
    "names replaced": (  # as launchers of old scripts do
        "import tensorflow as tf; v1 = tf.compat.v1; "
        "[setattr(tf, name, getattr(v1, name)) for name in dir(v1)]"
    ),
}


@pytest.mark.parametrize("tensorflow_1", thorough_but(1, IMPORTS.values()), ids=IMPORTS)
def test_train_save_restore(tmp_path, tensorflow_1):
    script = SCRIPT.replace("FOLDER", str(tmp_path)).replace("IMPORT", tensorflow_1)
    printed = run_python(script, is_fresh=True)
    assert printed.splitlines() == ["float32 float32", "True", "True"]
