# SPDX-License-Identifier: Apache-2.0
"""What sok.Init makes of a Horovod that is imported, initialized, alone, or broken."""

from tests.support.processes.subprocess_python import run_python

STATES = """
import os, sys
import numpy as np
import tensorflow as tf
tf.compat.v1.disable_eager_execution()
import horovod.tensorflow as hvd
import sok_compat as sok

def init_and_train():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        status = sok.Init(global_batch_size=3, seed=4)
        layer = sok.All2AllDenseEmbedding(10, 2, 1, 1, dynamic_input=True)
        output = layer(tf.constant([1, 5, -3], tf.int64))
        table = layer.embedding_variable
        gradients = tf.gradients(tf.reduce_sum(output**2), [table])
        train = sok.optimizers.Adam(0.1).apply_gradients(zip(gradients, [table]))
        session.run(status)
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(train)
        assert sok.communication_stats().rounds == 0
        return session.run(table.export())

def error():
    os.environ["HOROVOD_SIZE"] = "2"
    try:
        init_and_train()
    except RuntimeError as error:
        return str(error)
    finally:
        del os.environ["HOROVOD_SIZE"]

not_initialized = init_and_train()
assert "call hvd.init() before sok.Init" in error()
hvd.init()
for alone, expected in zip(init_and_train(), not_initialized):
    np.testing.assert_array_equal(alone, expected)
hvd.shutdown()
sys.modules["horovod.tensorflow"] = None  # as an import that failed may leave it
assert "built for another TensorFlow" in error()
del sys.modules["horovod.tensorflow"]
assert "built for another TensorFlow" in error()
print("all as expected")
"""


def test_states_of_horovod_in_one_process():
    assert run_python(STATES).endswith("all as expected")
